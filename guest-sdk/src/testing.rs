//! A scripted host for native tests: [`TestHost`] answers the provider's requests and records them.
//!
//! It belongs to the thread that created it, so tests can run in parallel. It is as strict as the real host, and uses
//! the same messages: about requests (targets, rules, paths, headers, sizes), about the cloud's answers (status, sizes),
//! about what `init` may do, and, for a provider that is called through it ([`TestHost::init`], [`TestHost::find`] and
//! the others), about its configuration, the granted targets, the number of its requests and changes, and the lengths and
//! counts of its answers. Of the manifest it checks schemes, kinds of credential, limits, the literal segments and
//! the access of rules, and that endpoints are https; `ccm provider inspect` checks all of it. Of what the manager drops or disbelieves afterwards it refuses only provider IDs
//! of other schemes and an unproven `Found::Absent`: it checks neither the syntax of addresses, nor keys and values of
//! labels, nor whether the requests of `find` and `list` prove their answer. It is no sandbox: it neither isolates nor
//! limits memory and computing time.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use crate::bindings::host::ccm::provider::http as raw;
use crate::http::{FetchError, method_name};
use crate::log::Level;

mod answer;
mod calls;
mod fields;
mod headers;
pub(crate) mod host;
mod keys;
mod manifest;
mod path;
mod request;
mod samples;
mod shape;

pub use samples::{config, granting, listed, node, ready, service};

#[cfg(test)]
mod tests;

/// A scripted response: status, headers and body, or the fetch error.
pub type Answer = Result<(u16, Vec<(String, String)>, Vec<u8>), FetchError>;

/// A response with a JSON body.
pub fn json(status: u16, body: &str) -> Answer {
    let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
    Ok((status, headers, body.as_bytes().to_vec()))
}

/// A response without a body, such as 204.
pub fn status(status: u16) -> Answer {
    Ok((status, Vec::new(), Vec::new()))
}

/// A request of the provider, as the host sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Seen {
    /// The name of the manifest's target.
    pub target: String,
    /// `GET`, `POST` and so on.
    pub method: &'static str,
    /// Path and, if present, query, as in `/servers?page=1`. Not encoded.
    pub path: String,
    /// The headers that the provider set.
    pub headers: Vec<(String, String)>,
    /// The body; empty if there is none.
    pub body: Vec<u8>,
    /// Number of requests sent concurrently, including this one.
    pub side_by_side: usize,
}

impl Seen {
    /// Method and path with query, such as `GET /servers?page=1`.
    pub fn line(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    /// The value of a query parameter.
    pub fn query(&self, key: &str) -> Option<&str> {
        let (_, query) = self.path.split_once('?')?;
        query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .find(|(name, _)| *name == key)
            .map(|(_, value)| value)
    }

    /// The path without the query.
    pub fn path_only(&self) -> &str {
        self.path
            .split_once('?')
            .map_or(self.path.as_str(), |(path, _)| path)
    }

    fn new(request: &raw::Request, side_by_side: usize) -> Seen {
        let query: Vec<String> = request
            .query
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        let separator = if query.is_empty() { "" } else { "?" };
        Seen {
            target: request.target.clone(),
            method: method_name(request.method),
            path: format!("{}{separator}{}", request.path, query.join("&")),
            headers: request.headers.clone(),
            body: request.body.clone().unwrap_or_default(),
            side_by_side,
        }
    }
}

/// Answers one request, for a test that compares this host with the real one.
///
/// # Errors
/// The error that the real host would return in place of the cloud's answer.
#[doc(hidden)]
pub fn fetch(request: &raw::Request) -> Result<raw::Response, FetchError> {
    host::http::fetch(request)
}

/// As [`fetch`], for requests that are sent side by side.
#[doc(hidden)]
pub fn fetch_all(requests: &[raw::Request]) -> Vec<Result<raw::Response, FetchError>> {
    host::http::fetch_all(requests)
}

type Script = dyn FnMut(&Seen) -> Answer;

struct World {
    script: Box<Script>,
    manifest: Option<manifest::Manifest>,
    /// Whether `init` is running: it may send no requests.
    is_closed: bool,
    /// The call that is running; `None` outside of the calls of [`TestHost`].
    call: Option<calls::Running>,
    /// How long the cloud takes for each answer.
    latency: Duration,
    seen: Vec<Seen>,
    lines: Vec<(Level, String)>,
    now: Duration,
    kept: BTreeMap<String, (Vec<u8>, Duration)>,
    random: u8,
}

thread_local! {
    static WORLD: RefCell<Option<Rc<RefCell<World>>>> = const { RefCell::new(None) };
}

/// The host of this thread until dropped.
pub struct TestHost {
    world: Rc<RefCell<World>>,
}

impl TestHost {
    /// Answers every request with `script`. `manifest` is the provider's own: requests that it does not cover are
    /// denied.
    ///
    /// # Panics
    /// When the thread already has a test host, or the manifest cannot be parsed or has a mistake.
    pub fn new(manifest: &str, script: impl FnMut(&Seen) -> Answer + 'static) -> TestHost {
        TestHost::start(Some(manifest::Manifest::parse(manifest)), Box::new(script))
    }

    /// Like [`TestHost::new`], but without rules: for tests of code outside a provider.
    ///
    /// # Panics
    /// When the thread already has a test host.
    pub fn open(script: impl FnMut(&Seen) -> Answer + 'static) -> TestHost {
        TestHost::start(None, Box::new(script))
    }

    fn start(manifest: Option<manifest::Manifest>, script: Box<Script>) -> TestHost {
        let world = Rc::new(RefCell::new(World {
            script,
            manifest,
            is_closed: false,
            call: None,
            latency: Duration::ZERO,
            seen: Vec::new(),
            lines: Vec::new(),
            now: Duration::ZERO,
            kept: BTreeMap::new(),
            random: 0,
        }));
        WORLD.with_borrow_mut(|slot| {
            assert!(slot.is_none(), "this thread has a test host already");
            *slot = Some(Rc::clone(&world));
        });
        TestHost { world }
    }

    /// All requests so far, including denied ones.
    pub fn seen(&self) -> Vec<Seen> {
        self.world.borrow().seen.clone()
    }

    /// All requests so far as [`Seen::line`].
    pub fn requests(&self) -> Vec<String> {
        self.world.borrow().seen.iter().map(Seen::line).collect()
    }

    /// All log lines so far; fields follow the message as `key=value`.
    pub fn lines(&self) -> Vec<(Level, String)> {
        self.world.borrow().lines.clone()
    }

    /// Moves both clocks forward.
    pub fn advance(&self, by: Duration) {
        self.world.borrow_mut().now += by;
    }

    /// Sets the time that the cloud takes for each answer: both clocks move forward by it, once for requests sent side
    /// by side. Like the host, a request waits no longer than 15 s for its answer.
    pub fn set_latency(&self, latency: Duration) {
        self.world.borrow_mut().latency = latency;
    }

    /// Empties the state store, as the host does on a swap and before a confirming look-up. In
    /// [`TestHost::get`] and [`TestHost::list_routes`] it is empty in any case.
    pub fn forget_state(&self) {
        self.world.borrow_mut().kept.clear();
    }
}

impl Drop for TestHost {
    fn drop(&mut self) {
        WORLD.with_borrow_mut(|slot| *slot = None);
    }
}
