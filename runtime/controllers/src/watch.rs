//! What the controllers know of the cluster: watched, pruned and kept. Reads only; decides nothing.

mod bounded;

use futures::{Stream, StreamExt, TryStreamExt, future};
use k8s_openapi::api::core::v1::Node;
use kube::runtime::reflector::{self, Store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};

use crate::pruned::PrunedNode;
use bounded::bounded;

/// After this many seconds a watch is opened anew. A connection that died silently is noticed five
/// seconds later (kube's margin); with kube's own 290 s it would be five minutes.
const WATCH_SECONDS: u32 = 60;

/// All nodes: a store that is kept up to date while the stream is polled, and the stream of what changes.
pub(crate) struct Watched<S> {
    /// What is known now.
    pub(crate) store: Store<Node>,
    /// What changes. Never ends; errors are logged, and waited after.
    pub(crate) changes: S,
}

/// Watches all nodes. The first list is streamed where the API server can do that (it then never holds
/// the whole list in memory, nor do we), and paged where it cannot.
pub(crate) fn nodes(
    client: Client,
) -> Watched<impl Stream<Item = watcher::Event<Node>> + Send + Unpin> {
    let (store, writer) = reflector::store();
    let api: Api<PrunedNode> = Api::all(bounded(client));
    let config = watcher::Config::default().timeout(WATCH_SECONDS);
    let streamed = watcher(api.clone(), config.clone().streaming_lists())
        .take_while(|event| future::ready(!is_refused(event)));
    let changes = streamed
        .chain(watcher(api, config))
        .default_backoff()
        .map_ok(unwrapped)
        .reflect(writer)
        .filter_map(|event| future::ready(logged(event)));
    Watched {
        store,
        changes: Box::pin(changes),
    }
}

/// Whether the API server does not know streaming lists: it calls the request bad or invalid.
fn is_refused(event: &watcher::Result<watcher::Event<PrunedNode>>) -> bool {
    let Err(watcher::Error::WatchStartFailed(kube::Error::Api(status))) = event else {
        return false;
    };
    let refused = matches!(status.code, 400 | 422);
    if refused {
        tracing::info!(reason = %status.message, "the API server does not stream lists; nodes are listed in pages");
    }
    refused
}

fn logged(event: watcher::Result<watcher::Event<Node>>) -> Option<watcher::Event<Node>> {
    event
        .inspect_err(|error| tracing::warn!(error = %error, "watching nodes failed; trying again"))
        .ok()
}

fn unwrapped(event: watcher::Event<PrunedNode>) -> watcher::Event<Node> {
    match event {
        watcher::Event::Apply(node) => watcher::Event::Apply(node.0),
        watcher::Event::Delete(node) => watcher::Event::Delete(node.0),
        watcher::Event::Init => watcher::Event::Init,
        watcher::Event::InitApply(node) => watcher::Event::InitApply(node.0),
        watcher::Event::InitDone => watcher::Event::InitDone,
    }
}
