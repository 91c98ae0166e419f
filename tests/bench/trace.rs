//! The time that the provider's calls spent in the sandbox: what ccm logs about each call, less the time in which at
//! least one of its requests was on the wire. Reads a log of `-v=4 --logging-format=json`.

use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// All calls of one run together.
#[derive(Default)]
pub(crate) struct Sandbox {
    pub(crate) calls: usize,
    pub(crate) took: Duration,
    /// An upper bound: requests are logged in whole milliseconds, rounded down.
    pub(crate) inside: Duration,
}

struct Span {
    from: Timestamp,
    to: Timestamp,
}

pub(crate) fn read(log: &str) -> Result<Sandbox> {
    let (mut calls, mut requests) = (Vec::new(), Vec::new());
    for line in log.lines().filter(|line| line.starts_with('{')) {
        let line: Value = serde_json::from_str(line)?;
        let to = || -> Result<Timestamp> {
            let millis = line["ts"].as_f64().context("a line without a time")?;
            Ok(Timestamp::from_microsecond(
                (millis * 1000.0).round() as i64
            )?)
        };
        if line["msg"] == "find" {
            let took = line["took"].as_str().context("a call without a length")?;
            calls.push(Span::ending(to()?, length(took)?)?);
        } else if line["logger"] == "egress" {
            let took = line["ms"].as_u64().context("a request without a length")?;
            requests.push(Span::ending(to()?, Duration::from_millis(took))?);
        }
    }
    requests.sort_by_key(|span| span.from);
    let mut all = Sandbox::default();
    for call in &calls {
        let took = call.length();
        all.calls += 1;
        all.took += took;
        all.inside += took.saturating_sub(covered(call, &requests));
    }
    Ok(all)
}

impl Span {
    fn ending(to: Timestamp, took: Duration) -> Result<Self> {
        let from = to - SignedDuration::try_from(took)?;
        Ok(Self { from, to })
    }

    fn length(&self) -> Duration {
        Duration::try_from(self.to.duration_since(self.from)).unwrap_or_default()
    }
}

/// The part of a span that others cover; they are in the order of their beginnings.
fn covered(whole: &Span, parts: &[Span]) -> Duration {
    let mut reached = whole.from;
    let mut covered = Duration::ZERO;
    for part in parts {
        let (from, to) = (part.from.max(reached), part.to.min(whole.to));
        if to > from {
            covered += Span { from, to }.length();
            reached = to;
        }
    }
    covered
}

/// A duration as `Duration` prints it: `1.5s`, `20.3ms`, `7µs`.
fn length(text: &str) -> Result<Duration> {
    let digits = text.trim_end_matches(|letter: char| !letter.is_ascii_digit());
    let unit = match &text[digits.len()..] {
        "s" => 1.0,
        "ms" => 1e-3,
        "µs" => 1e-6,
        "ns" => 1e-9,
        _ => anyhow::bail!("{text:?} is not a length of time"),
    };
    Ok(Duration::from_secs_f64(digits.parse::<f64>()? * unit))
}
