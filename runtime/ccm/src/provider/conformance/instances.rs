//! How the laws about look-ups are tested.

use std::time::Duration;

use anyhow::{anyhow, bail, ensure};
use ccm_core::cloud::{CloudNode, Lookup, ProviderError};
use ccm_host::InjectedFault;
use tokio::time::Instant;

use super::law::{self, Findings, Law, Verdict};
use super::module_under_test::{Counted, ModuleUnderTest};

/// Maximum number of requests of a look-up at which each fault is tried.
const MOST_PLACES: usize = 8;
/// A pause that the cloud asks for, so long that the egress does not wait it out by itself.
pub(super) const THROTTLE_PAUSE: Duration = Duration::from_secs(3);
/// Time limit of a call that gets no answer.
const SHORT: Duration = Duration::from_secs(2);
/// Extra time until the host has ended the call.
const GRACE: Duration = Duration::from_secs(5);

const ABOUT_KNOWN: &[Law] = &[
    law::FOUND,
    law::BY_NAME,
    law::ORDER,
    law::REPEATED,
    law::BATCH,
    law::READ_ONLY,
    law::NOT_GONE_BY_FAILING,
    law::THROTTLED,
    law::IN_TIME,
];

pub(super) async fn judge(tested: &ModuleUnderTest, findings: &mut Findings<'_>) {
    if tested.known().is_empty() {
        let why = "it needs a machine: --node NAME=PROVIDER_ID";
        findings.skip(ABOUT_KNOWN, why);
    } else {
        findings.judge(law::FOUND, found(tested)).await;
        findings.judge(law::BY_NAME, by_name(tested)).await;
        findings.judge(law::ORDER, order(tested)).await;
        findings.judge(law::REPEATED, repeated(tested)).await;
        findings.judge(law::BATCH, batch(tested)).await;
        findings.judge(law::READ_ONLY, read_only(tested)).await;
        findings
            .judge(law::NOT_GONE_BY_FAILING, not_gone_by_failing(tested))
            .await;
        findings.judge(law::THROTTLED, throttled(tested)).await;
        findings.judge(law::IN_TIME, in_time(tested)).await;
    }
    findings.judge(law::NOT_MINE, not_mine(tested)).await;
    match &tested.subjects.gone {
        // Alone it may have no answer of 2xx, and then nothing is proven: the manager adds known nodes to such a look-up.
        Some(_) if tested.known().is_empty() => findings.skip(
            &[law::GONE],
            "it needs a machine beside it: --node NAME=PROVIDER_ID",
        ),
        Some(id) => findings.judge(law::GONE, gone(tested, id)).await,
        None => findings.skip(
            &[law::GONE],
            "it needs a provider ID that no machine has: --gone",
        ),
    }
}

async fn found(tested: &ModuleUnderTest) -> anyhow::Result<Verdict> {
    let nodes = tested.known();
    let reply = tested.load().await?.find(&nodes).await?;
    for (node, lookup) in nodes.iter().zip(&reply.lookups) {
        match lookup {
            Lookup::Found(one) if Some(&one.provider_id) == node.provider_id.as_ref() => {}
            other => bail!("{}: {other}", node.name),
        }
    }
    ensure!(
        reply.complete,
        "the answer is not complete: a request of it failed, or none was answered with 2xx"
    );
    Ok(Verdict::Pass(format!("{} node(s)", nodes.len())))
}

async fn by_name(tested: &ModuleUnderTest) -> anyhow::Result<Verdict> {
    let nodes = tested.known();
    let bare: Vec<CloudNode> = nodes
        .iter()
        .map(|node| CloudNode {
            provider_id: None,
            ..node.clone()
        })
        .collect();
    let reply = tested.load().await?.find(&bare).await?;
    let mut count = 0;
    for (node, lookup) in nodes.iter().zip(&reply.lookups) {
        match lookup {
            Lookup::Found(one) if Some(&one.provider_id) == node.provider_id.as_ref() => count += 1,
            // The module may identify machines by something that this node does not have.
            Lookup::NotMine | Lookup::Unknown(_) => {}
            other => bail!("{}: {other}", node.name),
        }
    }
    Ok(match count {
        0 => Verdict::NotApplicable("the module finds none of these nodes by its name".to_owned()),
        count => Verdict::Pass(format!("{count} node(s)")),
    })
}

async fn order(tested: &ModuleUnderTest) -> anyhow::Result<Verdict> {
    let mut nodes = tested.known();
    nodes.push(foreign_node());
    let loaded = tested.load().await?;
    let there = loaded.find(&nodes).await?.lookups;
    nodes.reverse();
    let mut back = loaded.find(&nodes).await?.lookups;
    back.reverse();
    let none = loaded.find(&[]).await;
    are_same(&there, &back)?;
    let none = none.map_err(|error| anyhow!("no node was asked for: {error}"))?;
    ensure!(
        none.lookups.is_empty(),
        "no node was asked for, and there are {} look-ups",
        none.lookups.len()
    );
    Ok(Verdict::Pass(format!(
        "{} node(s) forwards, backwards, and none",
        nodes.len()
    )))
}

async fn repeated(tested: &ModuleUnderTest) -> anyhow::Result<Verdict> {
    let nodes = tested.known();
    let loaded = tested.load().await?;
    let first = loaded.find(&nodes).await?.lookups;
    for _ in 0..2 {
        are_same(&first, &loaded.find(&nodes).await?.lookups)?;
    }
    Ok(Verdict::Pass("3 times".to_owned()))
}

async fn batch(tested: &ModuleUnderTest) -> anyhow::Result<Verdict> {
    let mut nodes = tested.known();
    nodes.push(foreign_node());
    let gone = tested.subjects.gone.as_deref().map(missing);
    nodes.extend(gone.clone());
    let loaded = tested.load().await?;
    let together = loaded.find(&nodes).await?.lookups;
    let mut alone = Vec::new();
    for node in &nodes {
        // Without a machine that is found in the same call, a provider may doubt that another one is gone.
        let witness = nodes.first().filter(|_| gone.as_ref() == Some(node));
        let asked: Vec<CloudNode> = witness.into_iter().chain([node]).cloned().collect();
        alone.extend(loaded.find(&asked).await?.lookups.pop());
    }
    are_same(&together, &alone)?;
    Ok(Verdict::Pass(format!("{} node(s)", nodes.len())))
}

async fn read_only(tested: &ModuleUnderTest) -> anyhow::Result<Verdict> {
    let loaded = tested.load().await?;
    let mark = loaded.mark();
    loaded.find(&tested.known()).await?;
    loaded.changes_nothing_since(mark)?;
    Ok(Verdict::Pass("1 call".to_owned()))
}

async fn not_mine(tested: &ModuleUnderTest) -> anyhow::Result<Verdict> {
    let reply = tested.load().await?.find(&[foreign_node()]).await?;
    match reply.lookups.first() {
        Some(Lookup::NotMine) => Ok(Verdict::Pass("1 node".to_owned())),
        other => bail!(
            "{}: {}",
            foreign_node().provider_id.unwrap_or_default(),
            other.map(Lookup::to_string).unwrap_or_default()
        ),
    }
}

async fn gone(tested: &ModuleUnderTest, id: &str) -> anyhow::Result<Verdict> {
    let mut nodes = tested.known();
    let before = tested.load().await?.find(&nodes).await?.lookups;
    let scheme = id.split("://").next().unwrap_or_default();
    if !tested.owns_scheme(scheme) {
        return Ok(Verdict::NotApplicable(format!(
            "{id} has no scheme of this module"
        )));
    }
    nodes.insert(0, missing(id));
    let reply = tested.load().await?.find(&nodes).await?;
    let Some((first, others)) = reply.lookups.split_first() else {
        bail!("there is no look-up");
    };
    ensure!(*first == Lookup::Gone, "{id}: {first}");
    ensure!(
        reply.complete,
        "it is reported gone by an answer that is not complete and proves nothing: a request of it failed, or none was answered with 2xx"
    );
    are_same(&before, others)?;
    Ok(Verdict::Pass(format!("beside {} node(s)", before.len())))
}

/// Tests a law about the known nodes in each of their states, if a look-up of them sends a request: with their number. It
/// ends with the first state in which the law is broken.
async fn in_each_state(
    tested: &ModuleUnderTest,
    law: impl AsyncFn(&[CloudNode], usize) -> anyhow::Result<Verdict>,
) -> anyhow::Result<Verdict> {
    let mut last = Verdict::NotApplicable("a look-up sends no request".to_owned());
    for (state, nodes) in tested.known_in_each_state() {
        let requests = requests_of_find(tested, &nodes).await?;
        if requests == 0 {
            continue;
        }
        let judged = law(nodes.as_slice(), requests).await;
        last = judged.map_err(|why| anyhow!("{why:#}; the node(s) are {state}"))?;
    }
    Ok(last)
}

async fn not_gone_by_failing(tested: &ModuleUnderTest) -> anyhow::Result<Verdict> {
    in_each_state(tested, async |nodes, requests| {
        are_kept(tested, nodes, requests).await
    })
    .await
}

async fn are_kept(
    tested: &ModuleUnderTest,
    nodes: &[CloudNode],
    requests: usize,
) -> anyhow::Result<Verdict> {
    let places = requests.min(MOST_PLACES);
    let faults = [
        InjectedFault::Answer(500),
        InjectedFault::Answer(401),
        InjectedFault::Answer(403),
        InjectedFault::LoseAnswer,
        InjectedFault::CutAnswer,
    ];
    for place in 0..places {
        for fault in faults {
            let loaded = tested.load().await?;
            loaded.disturb(Counted::Requests, place, fault);
            // An error counts as unknown for every node.
            let Ok(reply) = loaded.find(nodes).await else {
                continue;
            };
            for (node, lookup) in nodes.iter().zip(&reply.lookups) {
                let is_kept = match lookup {
                    Lookup::Unknown(_) => true,
                    Lookup::Found(one) => Some(&one.provider_id) == node.provider_id.as_ref(),
                    Lookup::Gone | Lookup::NotMine => false,
                };
                ensure!(
                    is_kept,
                    "{} is {lookup} after {} at request {}",
                    node.name,
                    named(fault),
                    place + 1
                );
            }
        }
    }
    Ok(Verdict::Pass(format!(
        "{} faults at each of {places} request(s)",
        faults.len()
    )))
}

async fn throttled(tested: &ModuleUnderTest) -> anyhow::Result<Verdict> {
    in_each_state(tested, async |nodes, _| is_passed_on(tested, nodes).await).await
}

async fn is_passed_on(tested: &ModuleUnderTest, nodes: &[CloudNode]) -> anyhow::Result<Verdict> {
    let loaded = tested.load().await?;
    loaded.disturb(
        Counted::Requests,
        0,
        InjectedFault::Throttle(THROTTLE_PAUSE),
    );
    let answer = loaded.find(nodes).await;
    loaded.wait_out().await;
    match answer {
        Err(ProviderError::Throttled { .. }) => match loaded.find(nodes).await {
            Ok(_) => Ok(Verdict::Pass(format!("Retry-After of {THROTTLE_PAUSE:?}"))),
            Err(error) => bail!("and after the wait: {error}"),
        },
        Err(error) => bail!("after 429 the error is: {error}"),
        Ok(reply) => bail!("after 429 there is an answer: {}", shown(&reply.lookups)),
    }
}

async fn in_time(tested: &ModuleUnderTest) -> anyhow::Result<Verdict> {
    in_each_state(tested, async |nodes, _| ends_in_time(tested, nodes).await).await
}

async fn ends_in_time(tested: &ModuleUnderTest, nodes: &[CloudNode]) -> anyhow::Result<Verdict> {
    let loaded = tested.load().await?;
    loaded.disturb(Counted::Requests, 0, InjectedFault::Hang);
    let began = Instant::now();
    let answer = loaded.find_within(nodes, SHORT).await;
    let took = began.elapsed();
    ensure!(took <= SHORT + GRACE, "a call of {SHORT:?} took {took:.1?}");
    let lookups = answer.map(|reply| reply.lookups).unwrap_or_default();
    let is_unsure = |lookup: &Lookup| matches!(lookup, Lookup::Unknown(_));
    ensure!(
        lookups.iter().all(is_unsure),
        "without an answer: {}",
        shown(&lookups)
    );
    Ok(Verdict::Pass(format!("a call of {SHORT:?}")))
}

/// Number of requests that one look-up of these nodes sends.
async fn requests_of_find(tested: &ModuleUnderTest, nodes: &[CloudNode]) -> anyhow::Result<usize> {
    let loaded = tested.load().await?;
    let mark = loaded.mark();
    loaded.find(nodes).await?;
    let calls = loaded.since(mark);
    Ok(calls.iter().map(|call| call.requests.len()).sum())
}

/// A node of a cloud that does not exist.
fn foreign_node() -> CloudNode {
    with_id("ccm-conformance-stranger", "ccm-conformance://stranger")
}

fn missing(id: &str) -> CloudNode {
    with_id("ccm-conformance-gone", id)
}

fn with_id(name: &str, id: &str) -> CloudNode {
    CloudNode {
        provider_id: Some(id.to_owned()),
        ..CloudNode::bare(name, format!("uid-of-{name}"))
    }
}

pub(super) fn named(fault: InjectedFault) -> String {
    match fault {
        InjectedFault::None => "no fault".to_owned(),
        InjectedFault::Answer(status) => format!("the status {status}"),
        InjectedFault::Throttle(wait) => format!("429 with Retry-After of {wait:?}"),
        InjectedFault::LoseAnswer => "a lost answer".to_owned(),
        InjectedFault::CutAnswer => "half an answer".to_owned(),
        InjectedFault::Hang => "no answer".to_owned(),
    }
}

fn shown(lookups: &[Lookup]) -> String {
    let shown: Vec<String> = lookups.iter().map(Lookup::to_string).collect();
    shown.join(", ")
}

/// Verifies that both answers are the same.
///
/// # Errors
/// The first difference.
fn are_same(one: &[Lookup], other: &[Lookup]) -> anyhow::Result<()> {
    let pairs = one.iter().zip(other);
    let mut different = pairs.filter(|(one, other)| one != other);
    if let Some((one, other)) = different.next() {
        bail!("{one}, and then {other}");
    }
    let (one, other) = (one.len(), other.len());
    ensure!(one == other, "{one} look-ups, and then {other}");
    Ok(())
}
