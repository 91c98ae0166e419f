//! The results in a few sentences, for a README. They name only what was measured.

use crate::figure::{Figure, Figures, Size, Subject, number};

/// One sentence each: starts, the peer, Services, memory, the sandbox, and quiet.
pub(crate) fn sentences(figures: &Figures) -> Vec<String> {
    let all = [
        start(figures),
        peer(figures),
        services(figures),
        memory(figures),
        sandbox(figures),
        quiet(figures),
    ];
    all.into_iter().flatten().collect()
}

/// The figure of ccm at the largest size that was measured.
fn largest<'a>(figures: &'a Figures, workload: &str, what: &str) -> Option<&'a Figure> {
    let is_it = |figure: &&Figure| {
        let key = &figure.key;
        key.workload == workload && key.what == what && key.subject == Subject::Ccm
    };
    figures.iter().filter(is_it).max_by_key(|one| one.key.size)
}

/// The ratio to the figure with this label, if that was measured.
fn over(figures: &Figures, figure: &Figure, label: &str) -> Option<String> {
    let mut ratios = figure.ratios.iter();
    let ratio = ratios.find(|ratio| ratio.label == label)?;
    Some(number(figures.ratio(figure, ratio)?))
}

fn shown(figure: &Figure) -> String {
    format!("{} {}", number(figure.median()), figure.unit)
}

fn start(figures: &Figures) -> Option<String> {
    let last = largest(figures, "W1", "last node")?;
    let first = largest(figures, "W1", "first node")?;
    let ratio = over(figures, last, "the limit")?;
    Some(format!(
        "Of {} that wait at the start the first is initialised after {}, the last after {}: {ratio}× the time that the API server \
         needs for a bare client's two patches of each.",
        last.key.size,
        shown(first),
        shown(last),
    ))
}

fn peer(figures: &Figures) -> Option<String> {
    let last = largest(figures, "W1", "last node")?;
    let ratio = over(figures, last, "the tuned peer")?;
    Some(format!(
        "That is {ratio}× the time of the vendor's Go manager, tuned, in the same run."
    ))
}

fn services(figures: &Figures) -> Option<String> {
    let time = largest(figures, "W3", "create all")?;
    let calls = largest(figures, "W3", "create all: cloud calls a Service")?;
    let writes = largest(figures, "W3", "create all: API writes a Service")?;
    Some(format!(
        "{} at once have their load balancers after {}, with {} cloud calls and {} API writes each.",
        time.key.size,
        shown(time),
        number(calls.median()),
        number(writes.median()),
    ))
}

fn memory(figures: &Figures) -> Option<String> {
    let peak = largest(figures, "W1", "peak memory")?;
    Some(format!(
        "With {} it needs {} at its peak.",
        peak.key.size,
        shown(peak)
    ))
}

fn sandbox(figures: &Figures) -> Option<String> {
    let share = largest(
        figures,
        "W1",
        "inside the sandbox, share of the time to the last node",
    )?;
    let tax = figures.iter().find(|figure| {
        figure.key.workload == "sandbox"
            && figure.key.size == Size::Nodes(1)
            && figure.key.what == "tax: inside less natively, p99"
    })?;
    Some(format!(
        "The sandbox has at most {} of the time to the last of {}; a call about one node takes {} longer than the same code \
         natively (99th percentile).",
        shown(share),
        share.key.size,
        shown(tax),
    ))
}

fn quiet(figures: &Figures) -> Option<String> {
    let report = largest(figures, "W5", "CPU a report")?;
    let writes = largest(figures, "W5", "API writes")?;
    Some(format!(
        "While nothing is to be done it writes {} objects, and a kubelet's report costs it {} of processor time.",
        number(writes.median()),
        shown(report),
    ))
}
