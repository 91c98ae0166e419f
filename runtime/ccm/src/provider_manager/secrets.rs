//! Cluster Secrets that the configuration refers to: read once, then watched by name, so that a rotated one is used
//! without a restart. Reads no other Secrets, and never prints any.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use ccm_controllers::api_error::describe;
use ccm_serving::is_unanswered;
use ccm_watch::watch_one;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Secret;
use kube::api::ListParams;
use kube::{Api, Client};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use zeroize::Zeroizing;

use crate::config::SecretKey;

/// How long the API server may take for one Secret. Meanwhile nothing else of the configuration is looked at.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);

/// The Secrets that were read, with their latest values. Clones share their state.
#[derive(Clone)]
pub(crate) struct Secrets {
    client: Option<Client>,
    known: Arc<Mutex<Known>>,
    changed: Arc<Notify>,
}

#[derive(Default)]
struct Known {
    /// Contents by namespace and name.
    data: BTreeMap<(String, String), Data>,
    /// Watches by namespace and name. Each set holds one watch, which ends when the set is dropped.
    watches: BTreeMap<(String, String), JoinSet<()>>,
}

/// Content of a Secret, or why it is unknown.
type Data = Result<BTreeMap<String, Zeroizing<Vec<u8>>>, Unknown>;

/// Why the content of a Secret is unknown.
#[derive(Clone, PartialEq, Eq)]
enum Unknown {
    /// The API server did not answer, or cannot serve yet.
    Unanswered(String),
    /// There is no such Secret, or it may not be read.
    Answered(String),
}

impl Unknown {
    /// There is no such Secret.
    fn missing() -> Unknown {
        Unknown::Answered("there is no such Secret".to_owned())
    }

    fn after(error: &kube::Error) -> Unknown {
        let why = format!("cannot be read: {error}");
        match is_unanswered(error) {
            true => Unknown::Unanswered(why),
            false => Unknown::Answered(why),
        }
    }
}

impl Secrets {
    /// Secrets of this cluster. `None`: there is no cluster, and every Secret is missing.
    pub(crate) fn of(client: Option<Client>) -> Secrets {
        Secrets {
            client,
            known: Arc::default(),
            changed: Arc::default(),
        }
    }

    /// Sets the only value of a Secret, as its watch does.
    #[cfg(test)]
    pub(super) fn set_of_test(&self, key: &SecretKey, value: &str) {
        let place = (key.namespace.clone(), key.name.clone());
        let value = Zeroizing::new(value.as_bytes().to_vec());
        let data = BTreeMap::from([(key.key.clone(), value)]);
        self.known.lock().data.insert(place, Ok(data));
    }

    /// Reads those Secrets that are new, and watches them from now on.
    pub(crate) async fn learn(&self, keys: &BTreeSet<SecretKey>) {
        let Some(client) = &self.client else {
            return;
        };
        for key in keys {
            let place = (key.namespace.clone(), key.name.clone());
            if self.known.lock().data.contains_key(&place) {
                continue;
            }
            let api: Api<Secret> = Api::namespaced(client.clone(), &key.namespace);
            // Uses list, not get, so that the watch needs no further right.
            let only = ListParams::default().fields(&format!("metadata.name={}", key.name));
            let read = match tokio::time::timeout(ANSWERED_WITHIN, api.list(&only)).await {
                Ok(Ok(found)) => match found.items.into_iter().next() {
                    Some(secret) => Ok(data(secret)),
                    None => Err(Unknown::missing()),
                },
                Ok(Err(error)) => Err(Unknown::after(&error)),
                Err(_) => Err(Unknown::Unanswered(format!(
                    "cannot be read: no answer within {ANSWERED_WITHIN:?}"
                ))),
            };
            let mut known = self.known.lock();
            known.data.insert(place.clone(), read);
            let watch = self.clone().watch(api, place.clone());
            known.watches.entry(place).or_default().spawn(watch);
        }
    }

    /// Forgets all Secrets but these, and ends their watches.
    pub(crate) fn keep(&self, keys: &BTreeSet<SecretKey>) {
        let is_named = |place: &(String, String)| {
            keys.iter()
                .any(|key| key.namespace == place.0 && key.name == place.1)
        };
        let mut known = self.known.lock();
        known.data.retain(|place, _| is_named(place));
        known.watches.retain(|place, _| is_named(place));
    }

    /// Forgets the Secrets about which the API server did not answer, so that they are read again. Returns whether there
    /// were any.
    pub(crate) fn forget_unanswered(&self) -> bool {
        let mut known = self.known.lock();
        let Known { data, watches } = &mut *known;
        let before = data.len();
        data.retain(|_, data| !matches!(data, Err(Unknown::Unanswered(_))));
        watches.retain(|place, _| data.contains_key(place));
        data.len() < before
    }

    /// The value of one key, as text.
    ///
    /// # Errors
    /// The reason why there is no value.
    pub(crate) fn get(&self, key: &SecretKey) -> Result<String, String> {
        let known = self.known.lock();
        let place = (key.namespace.clone(), key.name.clone());
        match known.data.get(&place) {
            None => Err("there is no cluster to read it from".to_owned()),
            Some(Err(Unknown::Unanswered(why) | Unknown::Answered(why))) => Err(why.clone()),
            Some(Ok(data)) => match data.get(&key.key) {
                None => Err("the Secret has no such key".to_owned()),
                Some(value) => String::from_utf8(value.to_vec())
                    .map_err(|_| "the value is not UTF-8 text".to_owned()),
            },
        }
    }

    /// Completes when a Secret has changed since the last call completed. For one listener.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    async fn watch(self, api: Api<Secret>, place: (String, String)) {
        let mut events = std::pin::pin!(watch_one(api, &place.1));
        while let Some(event) = events.next().await {
            let seen = match event {
                Ok(seen) => seen.object.map(data).ok_or_else(Unknown::missing),
                Err(error) => {
                    // Keeps the known value: an unavailable API server does not revoke credentials.
                    tracing::warn!(
                        namespace = place.0,
                        secret = place.1,
                        error = describe(&error),
                        "watching a Secret failed; trying again"
                    );
                    continue;
                }
            };
            let mut known = self.known.lock();
            // The Secret was forgotten meanwhile: this watch ends.
            if !known.data.contains_key(&place) {
                return;
            }
            if known.data.get(&place) != Some(&seen) {
                known.data.insert(place.clone(), seen);
                drop(known);
                tracing::info!(
                    namespace = place.0,
                    secret = place.1,
                    "a Secret has changed"
                );
                self.changed.notify_one();
            }
        }
    }
}

fn data(secret: Secret) -> BTreeMap<String, Zeroizing<Vec<u8>>> {
    let data = secret.data.unwrap_or_default();
    data.into_iter()
        .map(|(key, value)| (key, Zeroizing::new(value.0)))
        .collect()
}
