//! A scripted host for native tests: [`TestHost`] answers the provider's requests and records them.
//!
//! It belongs to the thread that created it, so tests can run in parallel. Like the real host it denies requests that
//! no rule of the manifest covers. It is no sandbox and enforces only the per-call limits of the contract.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use crate::Config;
use crate::bindings::host::ccm::provider::http as raw;
use crate::http::{FetchError, method_name};
use crate::log::Level;

pub(crate) mod host;
mod rules;

#[cfg(test)]
mod tests;

/// A scripted response: status, headers and body, or the fetch error.
pub type Answer = Result<(u16, Vec<(String, String)>, Vec<u8>), FetchError>;

/// A response with a JSON body.
pub fn json(status: u16, body: &str) -> Answer {
    let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
    Ok((status, headers, body.as_bytes().to_vec()))
}

/// A request of the provider, as the host sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The target's name.
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

type Script = dyn FnMut(&Seen) -> Answer;

struct World {
    script: Box<Script>,
    rules: Option<rules::Rules>,
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
    /// When the thread already has a test host, or the manifest cannot be parsed.
    pub fn new(manifest: &str, script: impl FnMut(&Seen) -> Answer + 'static) -> TestHost {
        TestHost::start(Some(rules::Rules::parse(manifest)), Box::new(script))
    }

    /// Like [`TestHost::new`], but allows every request: for tests of code outside a provider.
    ///
    /// # Panics
    /// When the thread already has a test host.
    pub fn open(script: impl FnMut(&Seen) -> Answer + 'static) -> TestHost {
        TestHost::start(None, Box::new(script))
    }

    fn start(rules: Option<rules::Rules>, script: Box<Script>) -> TestHost {
        let world = Rc::new(RefCell::new(World {
            script,
            rules,
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

    /// Empties the state store, as the host does on a swap and before a confirming look-up.
    pub fn forget_state(&self) {
        self.world.borrow_mut().kept.clear();
    }
}

impl Drop for TestHost {
    fn drop(&mut self) {
        WORLD.with_borrow_mut(|slot| *slot = None);
    }
}

/// A configuration with these values and the cluster name `kubernetes`.
pub fn config(values: &[(&str, &str)]) -> Config {
    Config {
        cluster_name: "kubernetes".to_owned(),
        cluster_cidrs: Vec::new(),
        values: values
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect(),
        targets: None,
    }
}

/// The node with its kubelet reporting ready.
#[must_use]
pub fn ready(mut node: crate::Node) -> crate::Node {
    node.extra = vec![("ready".to_owned(), "true".to_owned())];
    node
}

/// The node as the host passes it to `routes.list`: without labels and annotations.
#[must_use]
pub fn listed(mut node: crate::Node) -> crate::Node {
    node.labels.clear();
    node.annotations.clear();
    node
}

/// A new node as the host passes it: readiness `unknown`.
pub fn node(name: &str, provider_id: Option<&str>) -> crate::Node {
    crate::Node {
        name: name.to_owned(),
        uid: format!("uid-of-{name}"),
        provider_id: provider_id.map(str::to_owned),
        labels: Vec::new(),
        annotations: Vec::new(),
        addresses: Vec::new(),
        pod_cidrs: Vec::new(),
        system_uuid: None,
        created: 0,
        extra: vec![("ready".to_owned(), "unknown".to_owned())],
    }
}

/// A new Service of type LoadBalancer as the host passes it, with TCP ports given as (port, node port).
pub fn service(name: &str, ports: &[(u16, u16)]) -> crate::load_balancer::Service {
    let ports = ports
        .iter()
        .map(|(port, node_port)| crate::load_balancer::ServicePort {
            name: None,
            protocol: crate::Protocol::Tcp,
            app_protocol: None,
            port: *port,
            node_port: Some(*node_port),
        });
    crate::load_balancer::Service {
        namespace: "default".to_owned(),
        name: name.to_owned(),
        uid: format!("uid-of-{name}"),
        annotations: Vec::new(),
        labels: Vec::new(),
        ports: ports.collect(),
        class: None,
        requested_ip: None,
        source_ranges: Vec::new(),
        external_traffic_policy: None,
        health_check_node_port: None,
        ip_families: Vec::new(),
        ip_family_policy: None,
        session_affinity_seconds: None,
        cluster_ips: Vec::new(),
        status: crate::LoadBalancerStatus {
            ingress: Vec::new(),
        },
        extra: Vec::new(),
    }
}
