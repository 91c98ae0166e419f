//! W0, the physical limit: the requests that ccm makes for each node, made by a client that decides nothing, decodes
//! nothing but the version it has to name, and knows every body beforehand. All figures are compared with it.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use ccm_core::cloud::{Address, AddressType, Instance};
use ccm_core::node::object::PrunedNode;
use ccm_core::node::{addresses, labels};
use ccm_core::reconciliation::patch::{NodePatch, NodeStatusPatch, TaintChange, Taints};
use ccm_core::well_known::{self, FIELD_MANAGER, NODE_CONTROLLER, OWNER_LABEL};
use http::Request;
use http_body_util::BodyExt as _;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::{Client, Config, ResourceExt as _};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cloud::TOKEN;
use crate::cluster::Cluster;
use crate::usage;
use crate::watch::Watch;

/// Number of servers on one page of the cloud's list.
pub(crate) const PER_PAGE: usize = 50;

/// The bare client's figures for all nodes.
pub(crate) struct Writes {
    /// Time from the first request to the last answer.
    pub(crate) took: Duration,
    /// Processor time of this process, with its watch.
    pub(crate) cpu: Duration,
    /// Duration of both patches of a node together, shortest first.
    pub(crate) patches: Vec<Duration>,
}

/// Whether the bare client writes the Event of a node, too, as the manager does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    WithEvents,
    WithoutEvents,
}

impl Form {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::WithEvents => "with Events",
            Self::WithoutEvents => "without Events",
        }
    }
}

/// Writes every node of the cluster through this many connections.
pub(crate) async fn write(
    cluster: &Cluster,
    ids: &[u64],
    connections: usize,
    form: Form,
) -> Result<Writes> {
    let nodes = cluster.all_nodes().await?;
    ensure!(
        nodes.len() == ids.len(),
        "{} nodes and {} servers",
        nodes.len(),
        ids.len()
    );
    let mut plans = Vec::new();
    for (number, (node, id)) in nodes.iter().zip(ids).enumerate() {
        plans.push(Plan::new(node, *id, number)?);
    }
    let clients = connected(cluster, connections).await?;
    // The same observer as beside ccm, since it costs the API server something.
    let mut watch = Watch::nodes(cluster.admin.clone());
    let plans = Arc::new(plans);
    let next = Arc::new(AtomicUsize::new(0));
    let cpu = usage::of(std::process::id())?.cpu;
    let began = Instant::now();
    let workers = clients.into_iter().map(|client| {
        let (plans, next) = (plans.clone(), next.clone());
        tokio::spawn(async move {
            let mut patches = Vec::new();
            while let Some(plan) = plans.get(next.fetch_add(1, Ordering::Relaxed)) {
                patches.push(plan.carry_out(&client, form).await?);
            }
            anyhow::Ok(patches)
        })
    });
    let mut patches = Vec::new();
    for worker in workers.collect::<Vec<_>>() {
        patches.extend(worker.await??);
    }
    let took = began.elapsed();
    watch.until(plans.len(), || Ok(())).await?;
    patches.sort_unstable();
    Ok(Writes {
        took,
        cpu: usage::of(std::process::id())?.cpu.saturating_sub(cpu),
        patches,
    })
}

/// Clients with a connection each, which are connected beforehand, as a manager is after its list.
pub(crate) async fn connected(cluster: &Cluster, connections: usize) -> Result<Vec<Client>> {
    let mut clients = Vec::new();
    for _ in 0..connections {
        let client = cluster.client().await?;
        send(&client, Request::get("/version").body(Vec::new())?).await?;
        clients.push(client);
    }
    Ok(clients)
}

/// The requests for one node.
pub(crate) struct Plan {
    name: String,
    status: Value,
    node: NodePatch,
    event: Value,
}

impl Plan {
    /// The plan for a node whose server has this number, from 0.
    pub(crate) fn new(node: &Node, id: u64, number: usize) -> Result<Self> {
        let name = node.name_any();
        let uid = node.uid().context("a node without UID")?;
        let instance = instance(&name, id, number)?;
        let stored: PrunedNode = serde_json::from_value(serde_json::to_value(node)?)?;
        let addresses = addresses::next(&instance.addresses, stored.addresses(), None)?
            .context("the addresses are there already")?;
        let mut labels = labels::of_instance(&instance, stored.labels());
        labels.insert(OWNER_LABEL.to_owned(), "hcloud".to_owned());
        let taints = node.spec.as_ref().and_then(|spec| spec.taints.clone());
        let mut taints = taints.context("a node without taints")?;
        taints.retain(|taint| taint.key != well_known::UNINITIALIZED_TAINT);
        let event = event(&name, &uid);
        Ok(Self {
            status: NodeStatusPatch {
                uid: uid.clone(),
                addresses,
            }
            .to_json(),
            node: NodePatch {
                uid,
                resource_version: None,
                provider_id: Some(instance.provider_id),
                labels,
                taints: Some(Taints {
                    resource_version: String::new(),
                    taints,
                    change: TaintChange::Removed("uninitialized"),
                }),
            },
            event,
            name,
        })
    }

    /// Sends the requests, and returns the duration of the two patches.
    pub(crate) async fn carry_out(&self, client: &Client, form: Form) -> Result<Duration> {
        let nodes = kube::core::Request::new("/api/v1/nodes");
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let began = Instant::now();
        let body = Patch::Strategic(&self.status);
        let answer = send(
            client,
            nodes.patch_subresource("status", &self.name, &params, &body)?,
        )
        .await?;
        let stored: Stored = serde_json::from_slice(&answer)?;
        let mut patch = self.node.clone();
        if let Some(remaining) = &mut patch.taints {
            remaining.resource_version = stored.metadata.resource_version;
        }
        let body = Patch::Strategic(patch.to_json());
        send(client, nodes.patch(&self.name, &params, &body)?).await?;
        let took = began.elapsed();
        if form == Form::WithoutEvents {
            return Ok(took);
        }
        let events = kube::core::Request::new("/api/v1/namespaces/default/events");
        let body = serde_json::to_vec(&self.event)?;
        send(client, events.create(&PostParams::default(), body)?).await?;
        Ok(took)
    }
}

/// The fields of an answer that must be read.
#[derive(Deserialize)]
struct Stored {
    metadata: Version,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    resource_version: String,
}

/// The shipped guest's answer about a server of the simulated cloud. If that changes, the bodies that were sent differ,
/// and the run fails.
fn instance(name: &str, id: u64, number: usize) -> Result<Instance> {
    let ip = u32::from(Ipv4Addr::new(198, 18, 0, 1)) + u32::try_from(number)?;
    let address = |address_type, address: String| Address {
        address_type,
        address,
    };
    Ok(Instance {
        provider_id: format!("hcloud://{id}"),
        instance_type: Some(ccm_sim::hetzner::ServerType::default().name().to_owned()),
        zone: Some("fsn1-dc14".to_owned()),
        region: Some(ccm_sim::hetzner::Location::default().name().to_owned()),
        addresses: vec![
            address(AddressType::Hostname, name.to_owned()),
            address(AddressType::ExternalIp, Ipv4Addr::from(ip).to_string()),
        ],
        labels: vec![(
            "instance.hetzner.cloud/provided-by".to_owned(),
            "cloud".to_owned(),
        )],
        shutdown: Some(false),
    })
}

/// The Event that a node is initialised, as the controllers record it.
fn event(name: &str, uid: &str) -> Value {
    let now = Timestamp::now();
    let shown = format!("{now:.0}");
    json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": format!("{name}.{:x}", now.as_nanosecond()), "namespace": "default"},
        "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid},
        "type": "Normal", "reason": "Synced", "message": "Node synced successfully",
        "source": {"component": NODE_CONTROLLER}, "reportingComponent": NODE_CONTROLLER,
        "reportingInstance": "",
        "count": 1, "firstTimestamp": shown, "lastTimestamp": shown,
    })
}

/// Lists all nodes in one answer, which is read and dropped: the duration, and its bytes.
pub(crate) async fn list(cluster: &Cluster) -> Result<(Duration, usize)> {
    let client = cluster.client().await?;
    let began = Instant::now();
    let params = ListParams::default().match_any();
    let request = kube::core::Request::new("/api/v1/nodes").list(&params)?;
    let answer = send(&client, request).await?;
    Ok((began.elapsed(), answer.len()))
}

/// Lists this many servers of the cloud, page after page: the duration of each page, shortest first.
pub(crate) async fn list_cloud(endpoint: &str, servers: usize) -> Result<Vec<Duration>> {
    let mut config = Config::new(endpoint.parse()?);
    config.default_retry = false;
    let client = Client::try_from(config)?;
    let mut pages = Vec::new();
    for page in 1..=servers.div_ceil(PER_PAGE) {
        let request = Request::get(format!("/servers?page={page}&per_page={PER_PAGE}"))
            .header("authorization", format!("Bearer {TOKEN}"))
            .body(Vec::new())?;
        let began = Instant::now();
        send(&client, request).await?;
        pages.push(began.elapsed());
    }
    pages.sort_unstable();
    Ok(pages)
}

async fn send(client: &Client, request: Request<Vec<u8>>) -> Result<Bytes> {
    let about = format!("{} {}", request.method(), request.uri());
    let answer = client
        .send(request.map(Body::from))
        .await
        .with_context(|| about.clone())?;
    let status = answer.status();
    let body = answer.into_body().collect().await?.to_bytes();
    ensure!(
        status.is_success(),
        "{about}: {status}: {}",
        String::from_utf8_lossy(&body)
    );
    Ok(body)
}
