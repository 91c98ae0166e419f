//! Stores the record in the cluster: one object `Provider`, watched by name. Any client reads it; only the leader's
//! client, whose connections end with its lease, writes it. Keeps the record in memory until the cluster is needed, and
//! while that does not know the kind.

mod request;
mod write;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ccm_core::reconciliation::retry::Backoff;
use ccm_core::rollout::{Order, Orders, Record, RolloutEvent};
use ccm_core::well_known::{PROVIDER_GROUP, PROVIDER_PLURAL};
use ccm_watch::{WatchedObject, list_and_watch, one_object};
use futures::StreamExt as _;
use kube::api::{DynamicObject, ListParams};
use kube::runtime::watcher;
use kube::{Api, Client};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::{
    Inherited, MemoryRecordStore, RecordFuture, RecordStore, RecordStoreError, Report,
    StoredRecord, annotations, status_json,
};
pub use request::provider_resource;
use request::{FOUND_WITHIN, code_of_list, describe, in_time, in_time_or};

/// Watch timeout in seconds, so that a connection that died silently is noticed soon.
const WATCH_SECONDS: u32 = 60;
/// Pause after a failure of the watch.
const WATCH_AGAIN: Duration = Duration::from_secs(5);
/// Consecutive refusals of the list, [`WATCH_AGAIN`] apart, after which the right to it counts as missing. An API server
/// that has just started refuses everything until it has read the roles.
const MOST_REFUSALS: u32 = 4;
/// When a cluster is asked again that could not store the record. Soon at first: the definition and the right to read it
/// are often applied with the first process, and until then it decides without the cluster's record.
const STORES_AGAIN: Backoff = Backoff {
    first: Duration::from_secs(5),
    most: Duration::from_secs(300),
};

/// The record of one provider, and where it is stored at present.
pub struct ClusterRecordStore {
    name: String,
    reading: Client,
    writing: watch::Receiver<Option<Client>>,
    seen: watch::Sender<StoredRecord>,
    stored: Mutex<Stored>,
    place: watch::Sender<Place>,
    inheritance: Mutex<Inheritance>,
    /// Whether the objects could be listed at least once.
    has_listed: AtomicBool,
    /// The object's UID, once the object exists.
    uid: watch::Sender<Option<String>>,
    /// Storage while the record is not in the cluster.
    memory: MemoryRecordStore,
    /// When the cluster, which has refused to show the record in memory in the object, is asked again. `None`: it has
    /// not refused that.
    shows_from: Mutex<Option<Instant>>,
    /// Whether it was logged that the cluster has an earlier definition of the kind.
    is_definition_told: AtomicBool,
}

/// Where the record is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In memory, until it is needed in the cluster; the object only shows it, and no replica obeys it there.
    Waiting,
    /// In the object `Provider`.
    Cluster,
    /// In memory: the cluster does not know the kind, or does not allow this process to read it, so far.
    Memory,
}

/// The record found in the object when storage moved to the cluster.
#[derive(Default)]
enum Inheritance {
    /// There was none, or it was returned already.
    #[default]
    None,
    /// The object has not been read yet. What is found `prevails` or not: see [`Inherited`].
    Unread { prevails: bool },
    /// This record, not returned yet.
    Known(Inherited),
}

/// Last known state of the object.
#[derive(Default)]
struct Stored {
    version: Option<String>,
    conditions: Option<Value>,
    orders: Orders,
    is_absent: bool,
}

impl Stored {
    /// Whether the object has not been read yet.
    fn is_unread(&self) -> bool {
        self.version.is_none() && !self.is_absent
    }
}

impl ClusterRecordStore {
    /// Creates the record store of the provider `name`. `writing` holds the leader's guarded client while this process
    /// leads. Nothing is read before [`ClusterRecordStore::run`]; `memory` is used where the cluster does not know the
    /// kind.
    pub fn new(
        name: impl Into<String>,
        reading: Client,
        writing: watch::Receiver<Option<Client>>,
        memory: MemoryRecordStore,
    ) -> ClusterRecordStore {
        ClusterRecordStore {
            name: name.into(),
            reading,
            writing,
            seen: watch::Sender::default(),
            stored: Mutex::default(),
            place: watch::Sender::new(Place::Cluster),
            inheritance: Mutex::default(),
            has_listed: AtomicBool::new(false),
            uid: watch::Sender::default(),
            memory,
            shows_from: Mutex::default(),
            is_definition_told: AtomicBool::new(false),
        }
    }

    /// Keeps the record in memory until [`ClusterRecordStore::need`] is called: nothing has to be written for a module
    /// that is embedded in this program.
    pub fn waiting(self) -> ClusterRecordStore {
        self.place.send_replace(Place::Waiting);
        self
    }

    /// Moves the record to the cluster, if it can be stored there.
    pub fn need(&self) {
        self.place.send_if_modified(|place| {
            let waits = *place == Place::Waiting;
            if waits {
                self.move_to_cluster(place, false);
            }
            waits
        });
    }

    fn move_to_cluster(&self, place: &mut Place, prevails: bool) {
        *self.inheritance.lock() = Inheritance::Unread { prevails };
        *place = Place::Cluster;
    }

    /// Watches the object, once it is needed. Runs until the future is dropped.
    pub async fn run(&self) {
        self.remember_while(Place::Waiting).await;
        let began_without = self.memory.is_empty();
        loop {
            self.watch().await;
            // Then this process has decided as if there had never been a version.
            let prevails = began_without && self.stored.lock().is_unread();
            tracing::warn!(
                target: "rollout",
                provider = %self.name,
                "the CRD {PROVIDER_PLURAL}.{PROVIDER_GROUP} is missing or unreadable; the rollout record is kept in memory until it can be read"
            );
            self.place.send_replace(Place::Memory);
            tokio::select! {
                () = self.remember_while(Place::Memory) => {}
                () = self.wait_for_kind() => {}
            }
            tracing::info!(target: "rollout", provider = %self.name, "the rollout record is kept in the cluster from now on");
            self.place
                .send_modify(|place| self.move_to_cluster(place, prevails));
        }
    }

    /// Waits until the objects can be listed: the definition, or the right to read it, may be applied later.
    async fn wait_for_kind(&self) {
        let api = self.api(self.reading.clone());
        let one = ListParams::default().fields(&format!("metadata.name={}", self.name));
        let mut failures = 1;
        loop {
            tokio::time::sleep(STORES_AGAIN.after(failures)).await;
            // A missing kind is the inner error.
            if matches!(in_time_or(api.list(&one)).await, Ok(Ok(_))) {
                return;
            }
            failures += 1;
        }
    }

    /// Watches until the cluster turns out not to know the kind or not to allow the read.
    async fn watch(&self) {
        let api = self.api(self.reading.clone());
        let config = watcher::Config::default()
            .fields(&format!("metadata.name={}", self.name))
            .timeout(WATCH_SECONDS);
        let mut events = Box::pin(one_object(list_and_watch(api, config)));
        let mut refusals = 0;
        while let Some(event) = events.next().await {
            match event {
                Ok(WatchedObject { object, is_watched }) => {
                    self.has_listed.store(true, Ordering::Relaxed);
                    refusals = 0;
                    match object {
                        Some(object) if is_watched && self.is_outdated(&object) => {}
                        Some(object) => self.saw(&object),
                        None => self.saw_none(),
                    }
                }
                Err(error) => {
                    refusals = match code_of_list(&error) {
                        Some(403) => refusals + 1,
                        _ => 0,
                    };
                    if self.is_elsewhere(&error, refusals) {
                        return;
                    }
                    self.failed(&error);
                    tokio::time::sleep(WATCH_AGAIN).await;
                }
            }
        }
    }

    /// Publishes the memory's state while the record is in `place`.
    async fn remember_while(&self, place: Place) {
        let (mut remembered, mut places) = (self.memory.seen(), self.place.subscribe());
        while *places.borrow_and_update() == place {
            let seen = remembered.borrow_and_update().clone();
            self.seen.send_replace(seen);
            tokio::select! {
                changed = remembered.changed() => if changed.is_err() {
                    return;
                },
                // The sender is a field of `self`.
                _ = places.changed() => {}
            }
        }
    }

    /// Whether the record must be kept outside the cluster, after this many consecutive refusals of the list. A 403 that
    /// does not persist is temporary, and so is one after a list: rights are restored, for example when roles are
    /// recreated. That the object was read by its name says nothing: it is another right, with which no order is seen.
    /// What was published until then may be the memory's.
    fn is_elsewhere(&self, error: &watcher::Error, refusals: u32) -> bool {
        match code_of_list(error) {
            Some(403) => refusals >= MOST_REFUSALS && !self.has_listed.load(Ordering::Relaxed),
            Some(404) => true,
            _ => false,
        }
    }

    /// Whether the object is the one that is known, and not another one of its name.
    fn is_known(&self, object: &DynamicObject) -> bool {
        *self.uid.borrow() == object.metadata.uid
    }

    /// Whether the object is older than the one that a request has returned meanwhile: an order that was carried out
    /// and removed must not come back. After a list, which may follow a restored backup, what it shows counts.
    fn is_outdated(&self, object: &DynamicObject) -> bool {
        let number = |version: Option<&String>| version?.parse::<u64>().ok();
        let known = number(self.stored.lock().version.as_ref());
        let shown = number(object.metadata.resource_version.as_ref());
        self.is_known(object)
            && matches!((shown, known), (Some(shown), Some(known)) if shown < known)
    }

    fn failed(&self, error: &watcher::Error) {
        let error = describe(error);
        tracing::warn!(target: "rollout", provider = %self.name, error, "the object Provider cannot be watched; trying again");
        let why = format!("the object Provider cannot be read: {error}");
        self.seen.send_if_modified(|seen| match seen {
            StoredRecord::Unknown(known) if *known != why => {
                *known = why;
                true
            }
            _ => false,
        });
    }

    fn saw(&self, object: &DynamicObject) {
        let orders = annotations::orders(object.metadata.annotations.as_ref());
        let status = object.data.get("status");
        {
            let mut stored = self.stored.lock();
            stored.version.clone_from(&object.metadata.resource_version);
            stored.conditions = status.and_then(|status| status.get("conditions")).cloned();
            stored.orders = orders.clone();
            stored.is_absent = false;
        }
        self.uid.send_replace(object.metadata.uid.clone());
        // A status is missing if a person created the object to give an order, or if a leader was interrupted.
        let record = status.map(recorded).map(Box::new);
        self.inherit(record.clone());
        // What the leader has in memory may be newer until it is written.
        let leads = self.writing.borrow().is_some();
        if !leads && record.as_ref().is_some_and(|it| it.active.is_some()) {
            self.forget_memory();
        }
        self.publish(StoredRecord::Known { record, orders });
    }

    fn saw_none(&self) {
        *self.stored.lock() = Stored {
            is_absent: true,
            ..Stored::default()
        };
        self.uid.send_replace(None);
        self.inherit(None);
        self.publish(StoredRecord::Known {
            record: None,
            orders: Orders::default(),
        });
    }

    /// Publishes what was read, unless the record is in memory and the object only shows it.
    fn publish(&self, seen: StoredRecord) {
        if !self.is_remembered() {
            self.seen.send_replace(seen);
        }
    }

    /// Forgets the record in memory because the one in the cluster counts: the file would count again if a later start
    /// found the cluster unreadable. Before the first list it may turn out that the record has to stay in memory.
    fn forget_memory(&self) {
        if self.has_listed.load(Ordering::Relaxed) && !self.is_remembered() {
            self.memory.forget();
        }
    }

    /// Whether the record is kept in memory.
    fn is_remembered(&self) -> bool {
        *self.place.borrow() != Place::Cluster
    }

    fn api(&self, client: Client) -> Api<DynamicObject> {
        Api::all_with(client, &provider_resource())
    }

    fn writing(&self) -> Result<Client, RecordStoreError> {
        self.writing
            .borrow()
            .clone()
            .ok_or(RecordStoreError::NotLeader)
    }

    /// Reads the current state, once the place of the record is known.
    async fn read_first(&self) -> Result<StoredRecord, RecordStoreError> {
        let mut seen = self.seen.subscribe();
        let known = seen.wait_for(|seen| matches!(seen, StoredRecord::Known { .. }));
        let in_time = timeout(FOUND_WITHIN, known).await.is_ok();
        if !in_time {
            return Ok(self.seen.borrow().clone());
        }
        if self.is_remembered() {
            return self.memory.read().await;
        }
        self.read_now().await
    }

    async fn read_now(&self) -> Result<StoredRecord, RecordStoreError> {
        let api = self.api(self.reading.clone());
        let before = self.stored.lock().version.clone();
        // No webhook is asked about a read, and the next leader waits for this one.
        let object = timeout(FOUND_WITHIN, in_time(api.get_opt(&self.name))).await;
        let late = |_| RecordStoreError::Unavailable(format!("no answer within {FOUND_WITHIN:?}"));
        let object = object.map_err(late)??;
        // By the watch or a write, which know of a deletion and of another object, too. Otherwise an older one is that of
        // a restored backup.
        let is_overtaken = self.stored.lock().version != before;
        let is_current =
            |object: &DynamicObject| self.is_known(object) && !self.is_outdated(object);
        match object {
            object if is_overtaken && !object.as_ref().is_some_and(is_current) => {}
            Some(object) => self.saw(&object),
            None => self.saw_none(),
        }
        Ok(self.seen.borrow().clone())
    }

    fn inherit(&self, record: Option<Box<Record>>) {
        let mut inheritance = self.inheritance.lock();
        if let Inheritance::Unread { prevails } = *inheritance {
            *inheritance = record.map_or(Inheritance::None, |record| {
                Inheritance::Known(Inherited { record, prevails })
            });
        }
    }
}

/// Reads the record from a status. The versions in the status of an embedded module are left out: they are only shown,
/// and no replica obeys them.
fn recorded(status: &Value) -> Record {
    let mut record = status_json::read(status);
    if status.get("informational").and_then(Value::as_bool) == Some(true) {
        record.active = None;
        record.previous = None;
        record.trial = None;
    }
    record
}

impl RecordStore for ClusterRecordStore {
    fn seen(&self) -> watch::Receiver<StoredRecord> {
        self.seen.subscribe()
    }

    fn read(&self) -> RecordFuture<'_, StoredRecord> {
        Box::pin(self.read_first())
    }

    fn write<'a>(&'a self, report: &'a Report) -> RecordFuture<'a, ()> {
        let place = *self.place.borrow();
        match place {
            Place::Cluster => Box::pin(async move {
                self.write_now(report).await?;
                self.forget_memory();
                Ok(())
            }),
            Place::Memory => self.memory.write(report),
            Place::Waiting => Box::pin(async move {
                self.memory.write(report).await?;
                self.show(report).await
            }),
        }
    }

    fn show_again(&self) -> Option<Instant> {
        let is_waiting = *self.place.borrow() == Place::Waiting;
        is_waiting.then(|| *self.shows_from.lock()).flatten()
    }

    fn clear<'a>(&'a self, order: &'a Order) -> RecordFuture<'a, ()> {
        if self.is_remembered() {
            return self.memory.clear(order);
        }
        Box::pin(self.clear_now(order))
    }

    fn inherited(&self) -> Option<Inherited> {
        let mut inheritance = self.inheritance.lock();
        match std::mem::take(&mut *inheritance) {
            Inheritance::Known(inherited) => Some(inherited),
            other => {
                *inheritance = other;
                None
            }
        }
    }

    fn record_event<'a>(&'a self, event: &'a RolloutEvent) -> RecordFuture<'a, ()> {
        if self.is_remembered() {
            return self.memory.record_event(event);
        }
        Box::pin(self.record_event_now(event))
    }
}
