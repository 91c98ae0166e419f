//! What the controllers know of the cluster: watched, pruned and kept. Reads only; decides nothing.

use futures::{Stream, StreamExt, future};
use k8s_openapi::api::core::v1::Node;
use kube::runtime::reflector::{self, Store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};

use ccm_core::names::LAST_APPLIED;

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
    let api: Api<Node> = Api::all(client);
    let config = watcher::Config::default().timeout(WATCH_SECONDS);
    let streamed = watcher(api.clone(), config.clone().streaming_lists())
        .take_while(|event| future::ready(!is_refused(event)));
    let changes = streamed
        .chain(watcher(api, config))
        .default_backoff()
        .modify(prune)
        .reflect(writer)
        .filter_map(|event| future::ready(logged(event)));
    Watched {
        store,
        changes: Box::pin(changes),
    }
}

/// Whether the API server does not know streaming lists: it calls the request bad or invalid.
fn is_refused(event: &watcher::Result<watcher::Event<Node>>) -> bool {
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

/// Drops what no controller reads: four fifths of a node that runs pods.
pub(crate) fn prune(node: &mut Node) {
    node.metadata.managed_fields = None;
    if let Some(annotations) = &mut node.metadata.annotations {
        annotations.remove(LAST_APPLIED);
    }
    if let Some(status) = &mut node.status {
        status.images = None;
        status.volumes_attached = None;
        status.volumes_in_use = None;
        status.config = None;
        status.runtime_handlers = None;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use serde_json::json;

    #[test]
    fn what_controllers_read_stays_and_the_bulk_of_a_node_goes() {
        let mut node: Node = serde_json::from_value(json!({
            "metadata": {
                "name": "a", "managedFields": [{ "manager": "kubelet" }], "labels": { "l": "1" },
                "annotations": { "kubectl.kubernetes.io/last-applied-configuration": "{}", "x": "y" }
            },
            "status": {
                "images": [{ "names": ["nginx"] }], "volumesInUse": ["v"],
                "addresses": [{ "type": "Hostname", "address": "a" }],
                "conditions": [{ "type": "Ready", "status": "True" }]
            }
        }))
        .unwrap();
        prune(&mut node);
        let kept = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": { "name": "a", "labels": { "l": "1" }, "annotations": { "x": "y" } },
            "status": {
                "addresses": [{ "type": "Hostname", "address": "a" }],
                "conditions": [{ "type": "Ready", "status": "True" }]
            }
        });
        let mut left = serde_json::to_value(&node).unwrap();
        left["status"]["conditions"][0]
            .as_object_mut()
            .unwrap()
            .retain(|_, value| !value.is_null());
        assert_eq!(left, kept);
    }
}
