//! Watches the objects of one kind in a cluster and shows their state after each change.
//!
//! It survives restarts of the API server and changes nothing.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::pin::Pin;

use futures::{Stream, StreamExt};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;

/// All objects of one kind, by name.
pub struct Observed<K> {
    objects: BTreeMap<String, K>,
    listed: BTreeMap<String, K>,
    events: Pin<Box<dyn Stream<Item = watcher::Result<watcher::Event<K>>> + Send>>,
}

impl<K> Observed<K>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    /// Starts watching. The state is empty until [`Observed::changed`] was awaited.
    #[must_use]
    pub fn new(api: Api<K>) -> Self {
        let events = watcher(api, watcher::Config::default()).default_backoff();
        Self {
            objects: BTreeMap::new(),
            listed: BTreeMap::new(),
            events: Box::pin(events),
        }
    }

    /// Waits for the next change, including the first complete list, and returns the state. Reopens a failed watch.
    /// Cancellation-safe: dropping the future loses nothing.
    pub async fn changed(&mut self) -> &BTreeMap<String, K> {
        loop {
            match self.events.next().await {
                Some(Ok(watcher::Event::Apply(object))) => {
                    self.objects.insert(object.name_any(), object);
                    break;
                }
                Some(Ok(watcher::Event::Delete(object))) => {
                    self.objects.remove(&object.name_any());
                    break;
                }
                Some(Ok(watcher::Event::Init)) => self.listed.clear(),
                Some(Ok(watcher::Event::InitApply(object))) => {
                    self.listed.insert(object.name_any(), object);
                }
                Some(Ok(watcher::Event::InitDone)) => {
                    self.objects = std::mem::take(&mut self.listed);
                    break;
                }
                Some(Err(_)) => {}
                // A watcher never ends.
                None => std::future::pending().await,
            }
        }
        &self.objects
    }
}
