//! Watches of the API server that survive its restoration from a backup, and the delays between their attempts. The
//! controllers, the delivery and the binary share this crate.
//!
//! A leaf: it depends on no other crate of ours. It reads only, and logs nothing.
#![forbid(unsafe_code)]

mod one_object;
mod watch_pauses;

use std::fmt::Debug;

use futures::{Stream, StreamExt as _, stream};
use kube::runtime::watcher;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

pub use one_object::{WatchedObject, one_object, watch_one};
pub use watch_pauses::with_pauses;

/// Consecutive failures after which the objects are listed again.
const MOST_FAILURES: u32 = 3;

/// kube's [`watcher()`], which lists again after three failures in a row.
///
/// kube itself goes on at the last resource version, also when the API server comes back with an earlier state, such as
/// that of a restored backup: it accepts a version of its future, and sends nothing until it has got there. And the
/// error of a list says more than that of a watch: whether the kind exists.
///
/// Callers wait between the attempts.
pub fn list_and_watch<K>(
    api: Api<K>,
    config: watcher::Config,
) -> impl Stream<Item = watcher::Result<watcher::Event<K>>> + Send
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let list = move || watcher(api.clone(), config.clone()).boxed();
    stream::unfold(
        (list(), 0, list),
        |(mut events, mut failures, list)| async move {
            let event = events.next().await?;
            failures = match event {
                Ok(_) => 0,
                Err(_) => failures + 1,
            };
            if failures == MOST_FAILURES {
                (events, failures) = (list(), 0);
            }
            Some((event, (events, failures, list)))
        },
    )
}
