//! An in-memory Kubernetes API behind the real [`kube::Client`]: a tower service in the place of the connection.
//!
//! # What is simulated
//!
//! kube-apiserver 1.36 for Node, Service, Namespace, ConfigMap, Secret, ServiceAccount, Event (both versions, one
//! store), Lease, and our own kind Provider as its CustomResourceDefinition says: get, list (pages, selectors, resourceVersion and its matches), watch (from a revision, from
//! the current state, streaming lists, bookmarks, 410), create, update, the three JSON patch types, delete (with
//! preconditions and finalizers), the status subresource, dry run, optimistic concurrency, defaults, validation,
//! metadata-only answers, and refusals as `Status` objects. Writes that change nothing have no effect. The taint
//! `node.kubernetes.io/not-ready` on new nodes, cluster IPs and node ports are given out as admission and
//! allocators do. `tests/api.rs` holds the table of requests that a real server and this one answer alike.
//!
//! # What is deliberately not
//!
//! - Controllers: no garbage collection, no namespace content deletion (a deleted namespace stays Terminating),
//!   no node lifecycle, no endpoints, and the Service `default/kubernetes` does not exist.
//! - Server-side apply and `managedFields`: a patch of type apply is refused with 415.
//! - Users, RBAC, admission webhooks, priority and fairness: every identity may do everything.
//! - Protobuf, YAML, CBOR and table answers; compressed answers; the legacy `/watch/` paths; `Warning` headers.
//! - Time: watches end when [`Cluster::end_watches`] is called (`timeoutSeconds` is ignored), bookmarks come when
//!   [`Cluster::send_bookmarks`] is, Events do not expire, a future resourceVersion is refused at once.
//! - Staleness: a real server may answer reads at resourceVersion 0, and the start of a watch, from a cache that lags
//!   behind; this one always knows its newest write.
//! - Normal forms of quantities (`0.5` stays `0.5`), IPv6 and dual-stack Service addresses, fields that the
//!   oldest supported API version does not know, and the words of JSON syntax errors.
//!
//! It never decides what a controller should do, and it opens no socket.

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
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde_json::json;
use tower::service_fn;

pub use ask::Verb;
pub use fault::{Fault, FaultEffect};
pub use ledger::Write;

use ask::Place;
use store::Store;

/// How many requests the log holds; older ones are dropped, and their sequence numbers tell.
const LOG_LIMIT: usize = 200_000;
/// The namespaces that every cluster has.
const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// One simulated cluster. Clones are the same cluster.
#[derive(Clone)]
pub struct Cluster {
    inner: Arc<Inner>,
}

/// One request, as the audit log of a server would have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Counts all requests for resources, from 1, in the order in which they took effect.
    pub sequence: u64,
    /// Who asked: the identity of [`Cluster::client_as`], or empty.
    pub identity: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`; otherwise the method.
    pub verb: &'static str,
    /// The plural name, such as `nodes`.
    pub resource: &'static str,
    /// `status`, or empty.
    pub subresource: String,
    /// Empty for what lives outside namespaces.
    pub namespace: String,
    /// Empty where a collection is meant.
    pub name: String,
    /// The content type of the request body.
    pub content_type: String,
    /// The HTTP status of the answer; `None` when the client got none.
    pub code: Option<u16>,
}

impl Cluster {
    /// An empty cluster, apart from the namespaces that every cluster has, on the system's clock.
    pub fn new() -> Self {
        Self::with_clock(SystemTime::now)
    }

    /// The same on another clock, which only creationTimestamp and deletionTimestamp are read from.
    pub fn with_clock(clock: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        let (changed, _) = tokio::sync::watch::channel(0);
        let inner = Inner {
            world: Mutex::default(),
            changed,
            clock: Box::new(clock),
        };
        let now = inner.now();
        for name in NAMESPACES {
            let mut world = inner.lock();
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

    /// A client without a name, in the namespace `default`. Like every kube client it must be made inside a tokio
    /// runtime.
    pub fn client(&self) -> kube::Client {
        self.client_as("")
    }

    /// A client whose requests stand in the log under this identity.
    pub fn client_as(&self, identity: &str) -> kube::Client {
        let (inner, identity): (Arc<Inner>, Arc<str>) = (self.inner.clone(), identity.into());
        let service =
            service_fn(move |request| serve::answer(inner.clone(), identity.clone(), request));
        kube::Client::new(service, "default")
    }

    /// The requests so far, in the order in which they took effect.
    pub fn requests(&self) -> Vec<Request> {
        self.inner.lock().log.iter().cloned().collect()
    }

    /// From now on keeps every write with its body and the object before and after it, for [`Cluster::writes`].
    /// Off by default: old states of large objects are worth their memory only where laws are checked on them.
    pub fn keep_writes(&self) {
        self.inner.lock().ledger.get_or_insert_default();
    }

    /// The writes since [`Cluster::keep_writes`], in the order in which they took effect.
    pub fn writes(&self) -> Vec<Write> {
        self.inner.lock().ledger.clone().unwrap_or_default()
    }

    /// Makes something go wrong. Faults are tried in the order in which they were injected.
    pub fn inject(&self, fault: Fault) {
        self.inner.lock().faults.push(fault);
    }

    /// Takes back the faults that no request has met yet.
    pub fn clear_faults(&self) {
        self.inner.lock().faults.clear();
    }

    /// Whether the kind Provider is defined, as if its CustomResourceDefinition were applied or deleted; at first it is.
    /// Open watches go on.
    pub fn define_providers(&self, defined: bool) {
        self.inner.lock().is_undefined = !defined;
    }

    /// Forgets all history: every resourceVersion handed out so far is too old (410), and every open watch ends
    /// with an ERROR event that says so.
    pub fn expire_watches(&self) {
        self.inner.lock().store.expire();
        self.inner.wake();
    }

    /// Ends every open watch without an error, as time-outs and restarts of a server do.
    pub fn end_watches(&self) {
        self.inner.lock().store.end();
        self.inner.wake();
    }

    /// Sends a bookmark on every open watch that allows bookmarks.
    pub fn send_bookmarks(&self) {
        self.inner.lock().store.ask_for_bookmarks();
        self.inner.wake();
    }
}

impl Default for Cluster {
    fn default() -> Self {
        Self::new()
    }
}

/// What all clones and clients of one cluster share.
struct Inner {
    world: Mutex<World>,
    /// Wakes watches; the number only has to change.
    changed: tokio::sync::watch::Sender<u64>,
    clock: Box<dyn Fn() -> SystemTime + Send + Sync>,
}

/// What one lock protects.
#[derive(Default)]
struct World {
    store: Store,
    faults: Vec<Fault>,
    log: VecDeque<Request>,
    /// `None`: writes are not kept.
    ledger: Option<Vec<Write>>,
    requests: u64,
    serial: u64,
    /// Whether custom kinds are unknown.
    is_undefined: bool,
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, World> {
        // A panicking test must not hide its own message behind a poisoned lock.
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        self.changed
            .send_modify(|turn| *turn = turn.wrapping_add(1));
    }

    /// The time as it stands in timestamps: RFC 3339, whole seconds, UTC.
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
