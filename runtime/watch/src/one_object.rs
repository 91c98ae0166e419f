//! One object, watched by its name: no other object of its kind is ever read.

use std::fmt::Debug;

use futures::{Stream, StreamExt as _, future};
use kube::runtime::watcher;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

use crate::{list_and_watch, with_pauses};

/// The object as an event shows it.
pub struct WatchedObject<K> {
    /// `None`: there is no such object.
    pub object: Option<K>,
    /// Whether a watch brought it, not a list.
    pub is_watched: bool,
}

/// [`list_and_watch`] for the object `name`, [with pauses](with_pauses) between the attempts.
pub fn watch_one<K>(
    api: Api<K>,
    name: &str,
) -> impl Stream<Item = watcher::Result<WatchedObject<K>>> + Send + use<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let only = watcher::Config::default().fields(&format!("metadata.name={name}"));
    one_object(with_pauses(list_and_watch(api, only)))
}

/// The events of the watch of one object, without the bounds of a list.
pub fn one_object<K: Send>(
    events: impl Stream<Item = watcher::Result<watcher::Event<K>>> + Send,
) -> impl Stream<Item = watcher::Result<WatchedObject<K>>> + Send {
    let mut is_there = false;
    events.filter_map(move |event| {
        let (object, is_watched) = match event {
            Ok(watcher::Event::Init) => {
                is_there = false;
                return future::ready(None);
            }
            Ok(watcher::Event::InitApply(object)) => {
                is_there = true;
                (Some(object), false)
            }
            Ok(watcher::Event::InitDone) if is_there => return future::ready(None),
            Ok(watcher::Event::InitDone) => (None, false),
            Ok(watcher::Event::Apply(object)) => (Some(object), true),
            Ok(watcher::Event::Delete(_)) => (None, true),
            Err(error) => return future::ready(Some(Err(error))),
        };
        future::ready(Some(Ok(WatchedObject { object, is_watched })))
    })
}
