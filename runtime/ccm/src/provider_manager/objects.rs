//! The objects `Provider` of the cluster, watched: the spec of each, without its status. Reads only; decides nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ccm_controllers::api_error::describe;
use ccm_delivery::record::provider_resource;
use ccm_watch::{list_and_watch, with_pauses};
use futures::StreamExt as _;
use k8s_openapi::jiff::Timestamp;
use kube::api::DynamicObject;
use kube::runtime::watcher;
use kube::{Api, Client};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::{Notify, watch};

use super::defects::again_after_panics;
use crate::config::MOST_SPEC_BYTES;

/// Maximum number of objects; the youngest of more are ignored.
const MOST_SEEN: usize = 256;
/// How long the start waits for the first listing.
const FIRST: Duration = Duration::from_secs(10);
/// How long changes are collected before they are announced.
const SETTLE: Duration = Duration::from_millis(200);

/// The spec of each object `Provider`, as last seen. Clones share their state.
#[derive(Clone)]
pub(crate) struct ProviderObjects {
    seen: Arc<Mutex<BTreeMap<String, ObjectSpec>>>,
    changed: Arc<Notify>,
    is_listed: watch::Receiver<bool>,
    /// Whether the first listing was waited for already.
    has_waited: Arc<AtomicBool>,
}

/// The spec of one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ObjectSpec {
    /// Name of the object.
    pub name: String,
    /// Creation time; of two objects in conflict, the older one wins.
    pub created: Option<Timestamp>,
    /// UID of the object.
    pub uid: Option<String>,
    /// The generation of the spec.
    pub generation: Option<i64>,
    /// The spec; `None`: it exceeds the size limit.
    pub spec: Option<Value>,
}

impl ProviderObjects {
    /// Watches the objects until the process ends.
    pub(crate) fn watch(client: Client) -> ProviderObjects {
        let (listed, is_listed) = watch::channel(false);
        let objects = ProviderObjects {
            seen: Arc::default(),
            changed: Arc::default(),
            is_listed,
            has_waited: Arc::default(),
        };
        let watched = objects.clone();
        tokio::spawn(async move {
            // The next list has what was missed.
            again_after_panics(|| watched.follow(client.clone(), &listed)).await;
        });
        objects
    }

    /// These objects, which are listed and never change.
    #[cfg(test)]
    pub(super) fn of_test(objects: Vec<ObjectSpec>) -> ProviderObjects {
        let by_name = objects.into_iter().map(|one| (one.name.clone(), one));
        ProviderObjects {
            seen: Arc::new(Mutex::new(by_name.collect())),
            changed: Arc::default(),
            is_listed: watch::channel(true).1,
            has_waited: Arc::default(),
        }
    }

    /// Whether they were listed; until then none is known.
    pub(super) fn are_listed(&self) -> bool {
        *self.is_listed.borrow()
    }

    /// All objects with a spec, the oldest first. The first call waits some seconds until they are listed.
    pub(crate) async fn all(&self) -> Vec<ObjectSpec> {
        if !self.has_waited.swap(true, Ordering::Relaxed) {
            let mut is_listed = self.is_listed.clone();
            let listed = is_listed.wait_for(|is_listed| *is_listed);
            if tokio::time::timeout(FIRST, listed).await.is_err() {
                tracing::warn!(
                    "the objects Provider cannot be listed yet: until then only the file is used"
                );
            }
        }
        let mut all: Vec<ObjectSpec> = self.seen.lock().values().cloned().collect();
        all.sort_by(|one, other| (one.created, &one.name).cmp(&(other.created, &other.name)));
        all
    }

    /// Completes when a spec has changed since the last call completed. For one listener; a dropped call loses its
    /// change, which the next look finds.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
        tokio::time::sleep(SETTLE).await;
    }

    async fn follow(&self, client: Client, listed: &watch::Sender<bool>) {
        let api: Api<DynamicObject> = Api::all_with(client, &provider_resource());
        let events = with_pauses(list_and_watch(api, watcher::Config::default()));
        let mut events = std::pin::pin!(events);
        let mut fresh = BTreeMap::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(watcher::Event::Init) => fresh.clear(),
                Ok(watcher::Event::InitApply(object)) => put(&mut fresh, object),
                Ok(watcher::Event::InitDone) => {
                    let all = std::mem::take(&mut fresh);
                    self.change(|seen| *seen = all);
                    listed.send_replace(true);
                }
                Ok(watcher::Event::Apply(object)) => self.change(|seen| put(seen, object)),
                Ok(watcher::Event::Delete(object)) => self.change(|seen| {
                    seen.remove(&object.metadata.name.unwrap_or_default());
                }),
                // Known objects stay: an unavailable API server removes no provider.
                Err(error) => {
                    tracing::warn!(
                        error = describe(&error),
                        "watching the objects Provider failed; trying again"
                    );
                }
            }
        }
    }

    /// Applies a change, and announces it if a spec differs. Changes of the status alone announce nothing.
    fn change(&self, change: impl FnOnce(&mut BTreeMap<String, ObjectSpec>)) {
        let mut seen = self.seen.lock();
        let before = seen.clone();
        change(&mut seen);
        if *seen != before {
            drop(seen);
            self.changed.notify_one();
        }
    }
}

/// Stores an object, or removes it if it has no spec.
fn put(seen: &mut BTreeMap<String, ObjectSpec>, mut object: DynamicObject) {
    let name = object.metadata.name.unwrap_or_default();
    let spec = object.data.get_mut("spec").map(Value::take);
    let is_leaving = object.metadata.deletion_timestamp.is_some();
    let Some(spec) = spec.filter(|spec| !spec.is_null() && !is_leaving) else {
        seen.remove(&name);
        return;
    };
    let is_small = spec.to_string().len() <= MOST_SPEC_BYTES;
    let object = ObjectSpec {
        created: object.metadata.creation_timestamp.map(|time| time.0),
        uid: object.metadata.uid,
        generation: object.metadata.generation,
        spec: is_small.then_some(spec),
        name: name.clone(),
    };
    seen.insert(name, object);
    if seen.len() <= MOST_SEEN {
        return;
    }
    // Whoever may only create objects must not displace the older ones, in whatever order the API server lists them.
    let youngest = seen.values().max_by_key(|one| (one.created, &one.name));
    if let Some(name) = youngest.map(|one| one.name.clone()) {
        tracing::warn!(
            provider = name,
            "more than {MOST_SEEN} objects Provider: this one is not looked at"
        );
        seen.remove(&name);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::io;

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::json;

    use super::*;

    fn object(name: &str, created: &str) -> DynamicObject {
        let object = json!({
            "apiVersion": "wasm-ccm.dev/v1alpha1", "kind": "Provider",
            "metadata": { "name": name, "creationTimestamp": created },
            "spec": { "module": { "embedded": "hcloud" } },
        });
        serde_json::from_value(object).unwrap()
    }

    /// The API server lists them by name.
    #[test]
    fn younger_objects_displace_no_older_one() {
        let mut seen = BTreeMap::new();
        for number in 0..=MOST_SEEN {
            let name = format!("0-{number:03}");
            put(&mut seen, object(&name, "2026-02-01T00:00:00Z"));
        }
        put(&mut seen, object("hcloud", "2026-01-01T00:00:00Z"));
        assert_eq!(seen.len(), MOST_SEEN);
        assert!(seen.contains_key("hcloud"));
    }

    #[test]
    fn an_object_is_a_provider_while_it_has_a_spec_and_stays() {
        type Change = fn(&mut Value);
        let changes: [(&str, Change, Option<bool>); 5] = [
            ("none", |_| {}, Some(true)),
            (
                "too large a spec",
                |object| object["spec"] = json!("x".repeat(MOST_SPEC_BYTES)),
                Some(false),
            ),
            ("no spec", |object| object["spec"] = Value::Null, None),
            (
                "only a status",
                |object| *object = json!({"metadata": object["metadata"], "status": {}}),
                None,
            ),
            (
                "its deletion",
                |object| {
                    object["metadata"]["deletionTimestamp"] = json!("2026-01-02T00:00:00Z");
                },
                None,
            ),
        ];
        for (what, change, expected) in changes {
            let mut seen = BTreeMap::new();
            let first = object("hcloud", "2026-01-01T00:00:00Z");
            let mut changed = serde_json::to_value(&first).unwrap();
            change(&mut changed);
            put(&mut seen, first);
            put(&mut seen, serde_json::from_value(changed).unwrap());
            let found = seen.get("hcloud").map(|one| one.spec.is_some());
            assert_eq!(found, expected, "{what}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_watch_begins_anew_after_a_panic() {
        let panics = AtomicBool::new(true);
        let answer = move |request: Request<Body>| {
            let panics = panics.swap(false, Ordering::Relaxed);
            let query = request.uri().query().unwrap_or_default();
            let is_watch = query.contains("watch=true");
            async move {
                assert!(!panics, "on purpose, in a test");
                if is_watch {
                    return std::future::pending().await;
                }
                let list = json!({
                    "apiVersion": "wasm-ccm.dev/v1alpha1", "kind": "ProviderList",
                    "metadata": { "resourceVersion": "1" },
                    "items": [object("hcloud", "2026-01-01T00:00:00Z")],
                });
                io::Result::Ok(Response::new(Body::from(list.to_string().into_bytes())))
            }
        };
        let client = Client::new(tower::service_fn(answer), "default");
        let objects = ProviderObjects::watch(client);
        let mut is_listed = objects.is_listed.clone();
        is_listed.wait_for(|is_listed| *is_listed).await.unwrap();
        assert!(objects.seen.lock().contains_key("hcloud"));
    }
}
