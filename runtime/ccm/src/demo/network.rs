//! Pod network part of the demo: every node gets a pod CIDR and a route to it; a deleted node loses its route. Only
//! waits for this; the controllers do the work.

use std::net::Ipv4Addr;
use std::time::Instant;

use anyhow::Context as _;
use ccm_core::ipam::{PodNetworkFlags, PodNetworks};
use ccm_core::settings::{IpamSettings, RouteSettings};
use ccm_core::well_known::NETWORK_UNAVAILABLE;
use ccm_sim::hetzner::{Hetzner, Location};
use ipnet::Ipv4Net;
use k8s_openapi::api::core::v1::Node;
use kube::Api;

use super::narrate::Narrator;
use super::{STEP_TIMEOUT, wait};

/// The pod network, as in `--cluster-cidr`.
pub(super) const CLUSTER_CIDR: &str = "10.244.0.0/16";

/// Settings as with `--allocate-node-cidrs`, `--configure-cloud-routes` and `--cluster-cidr`.
pub(super) fn settings() -> anyhow::Result<(RouteSettings, Option<IpamSettings>)> {
    let flags = PodNetworkFlags {
        cluster_cidr: CLUSTER_CIDR,
        has_routes: true,
        allocate_node_cidrs: true,
        service_cidrs: &[],
        node_cidr_mask_size: 0,
        node_cidr_mask_size_ipv4: 0,
        node_cidr_mask_size_ipv6: 0,
        cidr_allocator_type: "RangeAllocator",
    };
    let networks = PodNetworks::read(&flags).map_err(|mistakes| {
        anyhow::anyhow!("the demo's own settings are wrong: {}", mistakes.join("; "))
    })?;
    let route = RouteSettings {
        cluster_cidrs: networks.cluster_cidrs,
        ..RouteSettings::default()
    };
    Ok((route, networks.ipam))
}

/// The machines' network at the simulated cloud.
pub(super) struct Network<'a> {
    cloud: &'a Hetzner,
    /// The value of `HCLOUD_NETWORK`.
    pub(super) id: u64,
}

impl<'a> Network<'a> {
    /// Creates a network and attaches these servers.
    pub(super) fn of(cloud: &'a Hetzner, servers: &[u64]) -> anyhow::Result<Network<'a>> {
        let range = Ipv4Net::new(Ipv4Addr::new(10, 0, 0, 0), 16)?;
        let id = cloud.add_network("cluster", range, Location::default());
        for server in servers {
            cloud.attach(*server, id, None)?;
        }
        Ok(Network { cloud, id })
    }

    /// Waits until each of these nodes has a pod CIDR, a route to it, and the condition for that.
    pub(super) async fn reaches(
        &self,
        nodes: &Api<Node>,
        names: &[&str],
        narrator: &Narrator,
    ) -> anyhow::Result<()> {
        for name in names {
            let deadline = Instant::now() + STEP_TIMEOUT;
            let cidr = loop {
                let node = nodes.get(name).await?;
                if let Some(cidr) = pod_cidr(&node)
                    && is_reached(&node)
                    && self.routes()?.iter().any(|to| to == cidr)
                {
                    break cidr.to_owned();
                }
                wait(deadline, || format!("{name} has no route")).await?;
            };
            narrator.print("cluster", name, &format!("its pods are reached: {cidr}"));
        }
        Ok(())
    }

    /// Waits until only this many routes are left.
    pub(super) async fn forgets_all_but(
        &self,
        left: usize,
        narrator: &Narrator,
    ) -> anyhow::Result<()> {
        let deadline = Instant::now() + STEP_TIMEOUT;
        while self.routes()?.len() > left {
            wait(deadline, || "a route to nowhere is left".to_owned()).await?;
        }
        let count = self.routes()?.len();
        let text = format!("routes in its network: {count}, one for each node that is left");
        narrator.print("cloud", "", &text);
        Ok(())
    }

    /// The destinations of the network's routes.
    fn routes(&self) -> anyhow::Result<Vec<String>> {
        let network = self.cloud.network(self.id).context("the network is gone")?;
        let routes = network["routes"].as_array().into_iter().flatten();
        let destinations = routes.filter_map(|route| route["destination"].as_str());
        Ok(destinations.map(str::to_owned).collect())
    }
}

fn pod_cidr(node: &Node) -> Option<&str> {
    node.spec.as_ref()?.pod_cidr.as_deref()
}

fn is_reached(node: &Node) -> bool {
    let conditions = node
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    conditions
        .any(|condition| condition.type_ == NETWORK_UNAVAILABLE && condition.status == "False")
}
