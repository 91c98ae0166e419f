//! Requests that show whether another allocator gives nodes their pod CIDRs: kube-controller-manager's Lease, and the
//! managed fields of single nodes. Reads only, except for the Events about it.

use std::time::Duration;

use ccm_core::cloud::CloudEvent;
use ccm_core::ipam::other_allocator::{LeaseAnswer, Question, Why, WriterAnswer};
use ccm_core::node::object::NodeRef;
use ccm_core::reconciliation::effect::ClusterError;
use ccm_core::well_known::{IPAM_CONTROLLER, KUBE_CONTROLLER_MANAGER_LEASE};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::api::{GetParams, Request};
use kube::{Api, Resource as _};
use tokio::time::timeout;

use super::ClusterExecutor;
use super::events::about_node;
use super::request::{by_right, in_time};
use crate::pruned_objects::ManagedFields;

/// Timeout of one request. An answer describes the state when it was written, so that a slow one is worthless.
const ANSWER_TIME: Duration = Duration::from_secs(3);

/// The answer to a [`Question`].
pub(crate) enum Answer {
    /// The answer to [`Question::Lease`].
    Lease(LeaseAnswer),
    /// The answer to this [`Question::Writer`]; an error if the node could not be read.
    Writer(String, Why, Result<Option<WriterAnswer>, ()>),
}

impl ClusterExecutor {
    /// Answers a question with one request.
    pub(crate) async fn answer(&self, question: Question) -> Answer {
        match question {
            Question::Lease => Answer::Lease(self.read_lease().await),
            Question::Writer(node, why) => {
                let answer = self.read_writer(&node, why).await;
                Answer::Writer(node, why, answer)
            }
        }
    }

    async fn read_lease(&self) -> LeaseAnswer {
        let (namespace, name) = KUBE_CONTROLLER_MANAGER_LEASE;
        let leases: Api<Lease> = Api::namespaced(self.cluster.clients.base().clone(), namespace);
        let read = timeout(
            ANSWER_TIME,
            by_right(&self.cluster.tenure, leases.get(name)),
        );
        match read.await {
            Ok(Ok(Some(lease))) => LeaseAnswer::Found(lease.spec.unwrap_or_default()),
            Ok(Ok(None)) => LeaseAnswer::Absent,
            Ok(Err(ClusterError::Denied(_))) => LeaseAnswer::Denied,
            Ok(Err(error)) => {
                tracing::debug!(%error, lease = name, "could not be read");
                LeaseAnswer::Failed
            }
            Err(_) => LeaseAnswer::Failed,
        }
    }

    async fn read_writer(&self, node: &str, why: Why) -> Result<Option<WriterAnswer>, ()> {
        let read = in_time(&self.cluster.tenure, self.managed_fields(node));
        let has_pod_cidrs = why != Why::Waits;
        match timeout(ANSWER_TIME, read).await {
            Ok(Ok(read)) => Ok(read.map(|node| WriterAnswer::read(&node.0, has_pod_cidrs))),
            Ok(Err(error)) => {
                tracing::debug!(%error, node, "the managedFields of the node's pod CIDRs cannot be read");
                Err(())
            }
            Err(_) => Err(()),
        }
    }

    /// The node's managed fields. Not by kube's own type: it reads the times, and a kubelet could hide the writer with one
    /// that cannot be represented.
    async fn managed_fields(&self, node: &str) -> kube::Result<ManagedFields> {
        let nodes = Request::new(Node::url_path(&(), None));
        let request = nodes.get_metadata(node, &GetParams::default());
        let request = request.map_err(kube::Error::BuildRequest)?;
        let client = self.cluster.clients.of(IPAM_CONTROLLER);
        client.request(request).await
    }

    /// Records an Event about a node.
    pub(crate) async fn record(&self, node: &NodeRef, event: &CloudEvent) {
        let about = about_node(node, IPAM_CONTROLLER);
        // Failures are logged where they occur.
        let _ = self
            .cluster
            .events
            .record(IPAM_CONTROLLER, &about, event)
            .await;
    }
}
