//! What clients asked: one record for each request, in the order of arrival.
//!
//! It never holds a token or a body.

use std::collections::VecDeque;

use http::Method;

/// Older records are dropped beyond this many; a run of the largest trial sends fewer.
const KEPT: usize = 200_000;

/// One request that reached the simulator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Counts from 1 and never restarts, so that a gap shows what was cleared or dropped.
    pub sequence: u64,
    /// Counts the connections from 1: requests with the same number shared one.
    pub connection: u64,
    /// The method.
    pub method: Method,
    /// Path and query as sent, after the `/v1` of the endpoint: `/servers?page=2`.
    pub path: String,
    /// The status that was answered; `None` when the connection was reset instead, or while the
    /// answer is still being made.
    pub status: Option<u16>,
    /// The value of the query's `page`, when it is a number.
    pub page: Option<u64>,
    /// The `User-Agent` header.
    pub user_agent: Option<String>,
    /// Whether the `Authorization` header held the project's token.
    pub authorized: bool,
    /// The names of all headers, in lower case, sorted, each once.
    pub header_names: Vec<String>,
    /// Whether the request may change something: any method but GET and HEAD.
    pub write: bool,
}

/// The records of one simulator.
#[derive(Default)]
pub(super) struct Journal {
    last: u64,
    records: VecDeque<Request>,
}

impl Journal {
    /// Stores a record, gives it the next sequence number and returns that number.
    pub(super) fn record(&mut self, mut request: Request) -> u64 {
        self.last += 1;
        request.sequence = self.last;
        if self.records.len() >= KEPT {
            self.records.pop_front();
        }
        self.records.push_back(request);
        self.last
    }

    /// Adds the status to a record, unless that was cleared meanwhile.
    pub(super) fn answered(&mut self, sequence: u64, status: u16) {
        // Answers follow their requests closely, so the search from the end is short.
        let found = self
            .records
            .iter_mut()
            .rev()
            .find(|request| request.sequence == sequence);
        if let Some(request) = found {
            request.status = Some(status);
        }
    }

    pub(super) fn all(&self) -> Vec<Request> {
        self.records.iter().cloned().collect()
    }

    pub(super) fn clear(&mut self) {
        self.records.clear();
    }
}
