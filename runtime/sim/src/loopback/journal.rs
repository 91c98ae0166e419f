//! Record of all requests, in the order of arrival.
//!
//! Never holds a token or a body.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::SystemTime;

use http::Method;
use http::header::USER_AGENT;
use http::request::Parts;

use super::serve::Line;

/// Maximum number of kept records, oldest dropped first; the largest test run sends fewer requests.
const KEPT: usize = 200_000;

/// One request that reached the simulator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Number of the request from 1, never reset, so that gaps show cleared or dropped records.
    pub sequence: u64,
    /// Number of the connection from 1; requests with the same number shared a connection.
    pub connection: u64,
    /// The client's IP address, which distinguishes clients that bind different ones.
    pub peer: IpAddr,
    /// The time when the request's head had arrived, on the system clock.
    pub received: SystemTime,
    /// The method of the request.
    pub method: Method,
    /// Path and query as sent, without the path of the endpoint: `/servers?page=2`.
    pub path: String,
    /// The response status; `None` if the connection was reset, or while the response is pending.
    pub status: Option<u16>,
    /// The value of the query's `page`, if it is a number.
    pub page: Option<u64>,
    /// The `User-Agent` header, if there was one.
    pub user_agent: Option<String>,
    /// Whether the `Authorization` header held valid credentials.
    pub authorized: bool,
    /// The names of all headers, in lower case, sorted, each once.
    pub header_names: Vec<String>,
    /// Whether the request may change something: any method but GET and HEAD.
    pub write: bool,
}

/// The records of one simulator.
#[derive(Default)]
pub(crate) struct Journal {
    last: u64,
    records: VecDeque<Request>,
}

impl Journal {
    /// Records a request with its local path and returns its sequence number.
    pub(crate) fn record(
        &mut self,
        line: &Line,
        head: &Parts,
        path: String,
        page: Option<u64>,
        authorized: bool,
    ) -> u64 {
        let mut header_names: Vec<String> = head.headers.keys().map(ToString::to_string).collect();
        header_names.sort_unstable();
        let agent = head
            .headers
            .get(USER_AGENT)
            .and_then(|value| value.to_str().ok());
        self.last += 1;
        if self.records.len() >= KEPT {
            self.records.pop_front();
        }
        self.records.push_back(Request {
            sequence: self.last,
            connection: line.number,
            peer: line.peer,
            received: SystemTime::now(),
            method: head.method.clone(),
            path,
            status: None,
            page,
            user_agent: agent.map(str::to_owned),
            authorized,
            header_names,
            write: !matches!(head.method, Method::GET | Method::HEAD),
        });
        self.last
    }

    /// Adds the status to a record, unless it was cleared meanwhile.
    pub(crate) fn answered(&mut self, sequence: u64, status: u16) {
        // Responses follow requests closely, so that the search from the end is short.
        let found = self
            .records
            .iter_mut()
            .rev()
            .find(|request| request.sequence == sequence);
        if let Some(request) = found {
            request.status = Some(status);
        }
    }

    pub(crate) fn all(&self) -> Vec<Request> {
        self.records.iter().cloned().collect()
    }

    /// The records after the one with this number.
    pub(crate) fn since(&self, sequence: u64) -> Vec<Request> {
        let start = self
            .records
            .partition_point(|request| request.sequence <= sequence);
        self.records.range(start..).cloned().collect()
    }

    pub(crate) fn clear(&mut self) {
        self.records.clear();
    }
}
