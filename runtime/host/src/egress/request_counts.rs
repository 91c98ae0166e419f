//! Counts the requests to a target by method and result, for the metrics of the binary.
//!
//! Labels are a closed set, so that no guest can create new series.

use std::sync::atomic::{AtomicU64, Ordering};

use http::Method;

use super::message::ExchangeEnd;
use super::rules::METHODS;

/// Results of an exchange, as metric labels.
const ENDS: [&str; 11] = [
    "2xx",
    "3xx",
    "4xx",
    "5xx",
    "kept",
    "denied",
    "invalid",
    "throttled",
    "timed-out",
    "too-large",
    "unavailable",
];

/// One counter value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Count {
    /// Name of the granted target.
    pub target: String,
    /// HTTP method.
    pub method: Method,
    /// `2xx` to `5xx` for complete answers, `kept` for answers from the response cache, or why there is no answer.
    pub end: &'static str,
    /// Exchanges since the generation began.
    pub count: u64,
}

/// Counters of one target.
#[derive(Debug, Default)]
pub(super) struct Counts {
    cells: [[AtomicU64; ENDS.len()]; METHODS.len()],
}

impl Counts {
    /// Counts one exchange. One that the guest abandoned counts as `unavailable`.
    pub(super) fn add(&self, method: &Method, end: ExchangeEnd, kept: bool) {
        let word = match end {
            _ if kept => "kept",
            ExchangeEnd::Answered(200..=299) => "2xx",
            ExchangeEnd::Answered(300..=399) => "3xx",
            ExchangeEnd::Answered(400..=499) => "4xx",
            ExchangeEnd::Answered(_) => "5xx",
            ExchangeEnd::Failed(reason) => reason,
        };
        let row = METHODS.iter().position(|known| known == method);
        let column = ENDS
            .iter()
            .position(|known| *known == word)
            .unwrap_or(ENDS.len() - 1);
        let cell = row
            .and_then(|row| self.cells.get(row))
            .and_then(|cells| cells.get(column));
        if let Some(cell) = cell {
            cell.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// All counters above zero.
    pub(super) fn read(&self, target: &str) -> Vec<Count> {
        let rows = METHODS.iter().zip(&self.cells);
        rows.flat_map(|(method, cells)| {
            ENDS.iter().zip(cells).map(move |(end, cell)| Count {
                target: target.to_owned(),
                method: method.clone(),
                end,
                count: cell.load(Ordering::Relaxed),
            })
        })
        .filter(|count| count.count > 0)
        .collect()
    }
}
