//! Watches the cluster: pruned objects, kept in a local store; a change of no kept field wakes no controller. Reads
//! only; decides nothing.

mod response_timeout;
mod streamed_list;

use std::fmt::Debug;
use std::sync::Arc;

use ccm_core::node::object::PrunedNode;
use ccm_watch::{list_and_watch, with_pauses};
use futures::{Stream, StreamExt, TryStreamExt, future};
use k8s_openapi::api::core::v1::Service;
use kube::runtime::watcher;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

use crate::api_error::describe;
use crate::node_store::NodeStore;
use crate::pruned_objects::{NodeAnswer, PrunedService};
pub use response_timeout::with_response_timeout;
use streamed_list::with_consistent_lists;

/// Timeout after which a watch is reopened, in seconds. A silently dead connection is noticed five seconds later
/// (kube's margin); with kube's own 290 s that would take five minutes.
const WATCH_SECONDS: u32 = 60;
/// Number of streamed lists in a row that may be cut off. Each begins from the first object, and the next would hardly get
/// further; a page is far smaller.
const MOST_CUT: u32 = 2;

/// All nodes: a store that is updated while the stream is polled, and the stream of changes.
pub(crate) struct Watched<S> {
    /// The current nodes, updated while `changes` is polled.
    pub(crate) store: NodeStore,
    /// The changes, without those of the resource version only: a kubelet's report that nothing has changed (EDGE-051).
    /// Never ends; errors are logged and retried after a delay.
    pub(crate) changes: S,
}

/// Watches all nodes, and keeps them in the store.
pub(crate) fn nodes(
    client: Client,
) -> Watched<impl Stream<Item = watcher::Event<Arc<PrunedNode>>> + Send + Unpin> {
    let store = NodeStore::default();
    let stored = store.clone();
    let api: Api<NodeAnswer> = Api::all(with_consistent_lists(with_response_timeout(client)));
    let changes = all(api, "nodes").filter_map(move |event| {
        let event = logged(event, "nodes").filter(|event| {
            let is_relevant_change = is_relevant_change(event, &stored);
            stored.apply(event);
            is_relevant_change
        });
        future::ready(event)
    });
    Watched {
        store,
        changes: Box::pin(changes),
    }
}

/// Whether an event changes more than the resource version of a stored node.
fn is_relevant_change(event: &watcher::Event<Arc<PrunedNode>>, stored: &NodeStore) -> bool {
    let watcher::Event::Apply(node) = event else {
        return true;
    };
    let before = stored.get(node.name());
    before.is_none_or(|before| node.differs_from(&before))
}

/// Watches all Services. Has no store, because most Services have no load balancer; consumers keep those they need.
pub(crate) fn services(
    client: Client,
) -> impl Stream<Item = watcher::Event<Service>> + Send + Unpin {
    let api: Api<PrunedService> = Api::all(with_consistent_lists(with_response_timeout(client)));
    let changes = all(api, "services");
    Box::pin(changes.filter_map(|event| future::ready(logged(event, "services"))))
}

/// Streams the first list if the API server supports that and it arrives (then neither side ever holds the whole list in
/// memory); otherwise reads it in pages.
fn all<K, T>(
    api: Api<K>,
    what: &'static str,
) -> impl Stream<Item = watcher::Result<watcher::Event<T>>> + Send
where
    K: Resource<DynamicType = ()> + Into<T> + Clone + DeserializeOwned + Debug + Send + 'static,
    T: Send + 'static,
{
    let config = watcher::Config::default().timeout(WATCH_SECONDS);
    let mut lists = StreamedLists::default();
    let streamed = list_and_watch(api.clone(), config.clone().streaming_lists())
        .take_while(move |event| future::ready(lists.go_on(event, what)));
    with_pauses(streamed.chain(list_and_watch(api, config))).map_ok(converted)
}

/// What became of the streamed lists.
#[derive(Default)]
struct StreamedLists {
    is_under_way: bool,
    /// Number of lists in a row that have not arrived to their end.
    cut: u32,
}

impl StreamedLists {
    /// Whether lists are streamed any longer. Not if the API server does not support it, and rejects the request as bad or
    /// invalid, nor if the lists are cut off.
    fn go_on<T>(&mut self, event: &watcher::Result<watcher::Event<T>>, what: &str) -> bool {
        match event {
            Err(watcher::Error::WatchStartFailed(kube::Error::Api(status)))
                if matches!(status.code, 400 | 422) =>
            {
                tracing::info!(reason = %status.message, what, "the API server does not stream lists; they are read in pages");
                return false;
            }
            Ok(watcher::Event::Init) => {
                self.cut += u32::from(self.is_under_way);
                self.is_under_way = true;
            }
            Ok(watcher::Event::InitDone) => *self = StreamedLists::default(),
            Ok(_) | Err(_) => {}
        }
        if self.cut < MOST_CUT {
            return true;
        }
        tracing::info!(
            what,
            "streamed lists are cut off before their end; they are read in pages"
        );
        false
    }
}

fn logged<T>(event: watcher::Result<watcher::Event<T>>, what: &str) -> Option<watcher::Event<T>> {
    event
        .inspect_err(|error| {
            tracing::warn!(
                error = describe(error),
                "watching {what} failed; trying again"
            )
        })
        .ok()
}

fn converted<K: Into<T>, T>(event: watcher::Event<K>) -> watcher::Event<T> {
    match event {
        watcher::Event::Apply(object) => watcher::Event::Apply(object.into()),
        watcher::Event::Delete(object) => watcher::Event::Delete(object.into()),
        watcher::Event::Init => watcher::Event::Init,
        watcher::Event::InitApply(object) => watcher::Event::InitApply(object.into()),
        watcher::Event::InitDone => watcher::Event::InitDone,
    }
}

#[cfg(test)]
mod tests;
