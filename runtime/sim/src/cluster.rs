//! An in-memory Kubernetes API behind the real [`kube::Client`]: a tower service in place of the connection.
//!
//! # What is simulated
//!
//! kube-apiserver 1.36 for Node, Service, Namespace, ConfigMap, Secret, ServiceAccount, Event (both versions, one
//! store), Lease, and our own kind Provider as its CustomResourceDefinition defines it: get, list (pages, selectors,
//! resourceVersion and its matches), watch (from a revision, from the current state, streaming lists, bookmarks, 410),
//! create, update, the three JSON patch types, delete (with preconditions and finalizers), the status subresource, dry
//! run, optimistic concurrency, defaults, validation, metadata-only responses, and refusals as `Status` objects. Writes
//! that change nothing have no effect. The taint `node.kubernetes.io/not-ready` on new nodes, cluster IPs and node
//! ports are assigned as admission and allocators do. `tests/api.rs` holds the table of requests that a real server and
//! this one answer alike.
//!
//! # What is deliberately not simulated
//!
//! - Controllers: no garbage collection, no namespace content deletion (a deleted namespace stays Terminating), no node
//!   lifecycle, no endpoints, and the Service `default/kubernetes` does not exist.
//! - Server-side apply and `managedFields`: a patch of type apply is refused with 415.
//! - Users, RBAC, admission webhooks, priority and fairness: every identity may do everything.
//! - Protobuf, YAML, CBOR and table responses; compressed responses; the legacy `/watch/` paths; `Warning` headers.
//! - Time: watches end when [`Cluster::end_watches`] is called (`timeoutSeconds` is ignored), bookmarks come when
//!   [`Cluster::send_bookmarks`] is called, Events do not expire, a future resourceVersion is refused at once.
//! - Staleness: a real server may answer reads at resourceVersion 0, and the start of a watch, from a cache that lags
//!   behind; this one always knows its newest write.
//! - Normal forms of quantities (`0.5` stays `0.5`), IPv6 and dual-stack Service addresses, fields that the oldest
//!   supported API version does not know, and the wording of JSON syntax errors.
//!
//! It makes no controller decisions and opens no socket.

mod ask;
mod delete;
mod discovery;
mod fault;
mod field_error;
mod kinds;
mod ledger;
mod metadata;
mod names;
mod node;
mod patch;
mod provider;
mod read;
mod refusal;
mod schema;
mod selector;
mod serve;
mod service;
mod service_ports;
mod service_rules;
mod shape;
mod small;
mod store;
mod strategic;
#[cfg(test)]
mod tests;
mod watch;
mod write;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::json;
use tower::service_fn;

pub use ask::Verb;
pub use fault::{Fault, FaultEffect};
pub use ledger::Write;

use ask::Place;
use store::Store;

/// Maximum number of logged requests. Older ones are dropped; the sequence numbers show that.
const LOG_LIMIT: usize = 200_000;
/// The namespaces that exist from the start.
const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// A simulated cluster. Clones share the same cluster.
#[derive(Clone)]
pub struct Cluster {
    inner: Arc<Inner>,
}

/// One request, as in a server's audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Number of the request among all resource requests, from 1, in the order in which they took effect.
    pub sequence: u64,
    /// The client's identity, as given to [`Cluster::client_as`], or empty.
    pub identity: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`; otherwise the method.
    pub verb: &'static str,
    /// The plural name, such as `nodes`.
    pub resource: &'static str,
    /// The subresource: `status`, or empty.
    pub subresource: String,
    /// The namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// The object's name; empty for requests on a collection.
    pub name: String,
    /// The content type of the request body.
    pub content_type: String,
    /// The HTTP status of the response; `None` when the client received none.
    pub code: Option<u16>,
}

impl Cluster {
    /// A cluster that contains only the initial namespaces, on the system clock.
    pub fn new() -> Self {
        Self::with_clock(SystemTime::now)
    }

    /// As [`Cluster::new`], on another clock, which is used only for creationTimestamp and deletionTimestamp.
    pub fn with_clock(clock: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        let (changed, _) = tokio::sync::watch::channel(0);
        let inner = Inner {
            world: Mutex::default(),
            changed,
            clock: Box::new(clock),
        };
        let now = inner.now();
        for name in NAMESPACES {
            let mut world = inner.world.lock();
            let uid = format!("00000000-0000-4000-9000-{:012x}", world.next_serial());
            let namespace = json!({
                "metadata": {
                    "name": name, "uid": uid, "creationTimestamp": now,
                    "labels": {"kubernetes.io/metadata.name": name},
                },
                "spec": {"finalizers": ["kubernetes"]},
                "status": {"phase": "Active"},
            });
            world.store.put("namespaces", name.to_owned(), namespace);
        }
        Self {
            inner: Arc::new(inner),
        }
    }

    /// A client without identity, in the namespace `default`. Like every kube client it must be created inside a tokio
    /// runtime.
    pub fn client(&self) -> kube::Client {
        self.client_as("")
    }

    /// A client whose requests are logged under this identity.
    pub fn client_as(&self, identity: &str) -> kube::Client {
        let (inner, identity): (Arc<Inner>, Arc<str>) = (self.inner.clone(), identity.into());
        let service =
            service_fn(move |request| serve::answer(inner.clone(), identity.clone(), request));
        kube::Client::new(service, "default")
    }

    /// The requests so far, in the order in which they took effect.
    pub fn requests(&self) -> Vec<Request> {
        self.inner.world.lock().log.iter().cloned().collect()
    }

    /// Starts recording every write with its body and the object before and after it, for [`Cluster::writes`]. Off by
    /// default: old states of large objects are worth their memory only where tests check invariants on them.
    pub fn keep_writes(&self) {
        self.inner.world.lock().ledger.get_or_insert_default();
    }

    /// The writes since [`Cluster::keep_writes`], in the order in which they took effect.
    pub fn writes(&self) -> Vec<Write> {
        self.inner.world.lock().ledger.clone().unwrap_or_default()
    }

    /// Injects a fault. Faults are tried in the order of injection.
    pub fn inject(&self, fault: Fault) {
        self.inner.world.lock().faults.push(fault);
    }

    /// Removes the faults that have not been used up.
    pub fn clear_faults(&self) {
        self.inner.world.lock().faults.clear();
    }

    /// Defines or removes the kind Provider, as if its CustomResourceDefinition were applied or deleted; initially it
    /// is defined. Open watches continue.
    pub fn define_providers(&self, defined: bool) {
        self.inner.world.lock().is_undefined = !defined;
    }

    /// Drops all history: every resourceVersion issued so far is too old (410), and every open watch ends with an ERROR
    /// event that says so.
    pub fn expire_watches(&self) {
        self.inner.world.lock().store.expire();
        self.inner.wake();
    }

    /// Ends every open watch without an error, as timeouts and server restarts do.
    pub fn end_watches(&self) {
        self.inner.world.lock().store.end();
        self.inner.wake();
    }

    /// Sends a bookmark on every open watch that allows bookmarks.
    pub fn send_bookmarks(&self) {
        self.inner.world.lock().store.ask_for_bookmarks();
        self.inner.wake();
    }
}

impl Default for Cluster {
    fn default() -> Self {
        Self::new()
    }
}

/// State shared by all clones and clients of one cluster.
struct Inner {
    world: Mutex<World>,
    /// Wakes the watches: they wait for a change of this number, whose value does not matter.
    changed: tokio::sync::watch::Sender<u64>,
    clock: Box<dyn Fn() -> SystemTime + Send + Sync>,
}

/// State protected by one lock.
#[derive(Default)]
struct World {
    store: Store,
    faults: Vec<Fault>,
    log: VecDeque<Request>,
    /// The recorded writes; `None` while writes are not recorded.
    ledger: Option<Vec<Write>>,
    requests: u64,
    serial: u64,
    /// Whether custom kinds are undefined.
    is_undefined: bool,
}

impl Inner {
    fn wake(&self) {
        self.changed
            .send_modify(|turn| *turn = turn.wrapping_add(1));
    }

    /// The current time as a Kubernetes timestamp: RFC 3339, whole seconds, UTC.
    fn now(&self) -> String {
        let since_epoch = (self.clock)()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let seconds = i64::try_from(since_epoch.as_secs()).unwrap_or(i64::MAX);
        let time = Time(Timestamp::from_second(seconds).unwrap_or(Timestamp::UNIX_EPOCH));
        json!(time).as_str().unwrap_or_default().to_owned()
    }
}

impl World {
    fn next_serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    fn record(&mut self, mut request: Request) {
        self.requests += 1;
        request.sequence = self.requests;
        if self.log.len() >= LOG_LIMIT {
            self.log.pop_front();
        }
        self.log.push_back(request);
    }
}

impl Request {
    fn about(identity: &str, place: &Place, head: &http::request::Parts) -> Self {
        let content_type = head.headers.get(http::header::CONTENT_TYPE);
        let verb = match head.method.as_str() {
            "GET" => "get",
            "POST" => "create",
            "PUT" => "update",
            "PATCH" => "patch",
            "DELETE" => "delete",
            _ => "other",
        };
        Self {
            sequence: 0,
            identity: identity.to_owned(),
            verb,
            resource: place.kind.plural,
            subresource: place.subresource.clone(),
            namespace: place.namespace.clone(),
            name: place.name.clone(),
            content_type: content_type
                .and_then(|value| value.to_str().ok())
                .unwrap_or_default()
                .to_owned(),
            code: None,
        }
    }
}
