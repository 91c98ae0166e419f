//! A cloud on loopback for the misbehaving guest: machines that always exist, load balancers that are made and deleted,
//! and counts of all requests.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use ccm_fixtures::http_server::{Arrived, Reply, Server, answer};

/// A running cloud; it ends with its last clone.
#[derive(Clone)]
pub(crate) struct Cloud {
    endpoint: String,
    server: Arc<Server>,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    throttles: AtomicBool,
    /// How often a load balancer was made and deleted, by its Service.
    balancers: Mutex<BTreeMap<String, Life>>,
}

/// The history of one load balancer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Life {
    pub(crate) made: u32,
    pub(crate) deleted: u32,
}

impl Cloud {
    /// Starts a cloud on a free port.
    pub(crate) async fn start() -> Cloud {
        let state = Arc::<State>::default();
        let asked = state.clone();
        let server = Server::start(move |request| asked.answer(request)).await;
        Cloud {
            endpoint: format!("http://{}/v1", server.address),
            server: Arc::new(server),
            state,
        }
    }

    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// How many requests have arrived.
    pub(crate) fn requests(&self) -> usize {
        self.server.requests()
    }

    /// How many connections are open.
    pub(crate) fn connections(&self) -> usize {
        let closed = self.server.closed();
        self.server.connections() - closed
    }

    /// From now on it answers 429, with half a minute to wait.
    pub(crate) fn throttle(&self) {
        self.state.throttles.store(true, Ordering::SeqCst);
    }

    /// The histories of load balancers, by their Services.
    pub(crate) fn balancers(&self) -> BTreeMap<String, Life> {
        self.state.balancers.lock().unwrap().clone()
    }
}

impl State {
    fn answer(&self, request: &Arrived) -> Reply {
        if self.throttles.load(Ordering::SeqCst) {
            return answer(429, &[("retry-after", "30")], "");
        }
        let (method, path) = request.line.split_once(' ').unwrap();
        let of = path.strip_prefix("/v1/balancers/");
        let mut balancers = self.balancers.lock().unwrap();
        let is_there = match (method, of) {
            ("POST", None) => {
                // The guest sends only the targets: the tests name one after the Service.
                let names: Vec<String> = serde_json::from_slice(&request.body).unwrap();
                balancers.entry(names[0].clone()).or_default().made += 1;
                true
            }
            ("DELETE", Some(uid)) => {
                balancers.entry(uid.to_owned()).or_default().deleted += 1;
                true
            }
            (_, Some(uid)) => balancers
                .get(uid)
                .is_some_and(|life| life.made > life.deleted),
            _ => true,
        };
        let status = if is_there { 200 } else { 404 };
        answer(status, &[("content-type", "application/json")], "{}")
    }
}
