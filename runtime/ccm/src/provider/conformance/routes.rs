//! How the laws about routes are tested. Every node gets a network of its own within `--cluster-cidr`.

use std::net::IpAddr;
use std::sync::Arc;

use anyhow::{Context as _, anyhow, bail, ensure};
use ccm_core::cloud::CloudNode;
use ccm_core::cloud::route::{
    CloudRoute, CreateRouteRequest, DeleteRouteRequest, ListRoutesReply, RouteTarget,
};
use ccm_core::cloud_provider::CloudProvider as _;
use ccm_core::safety::permit::ROUTE_CHANGES;
use ccm_host::InjectedFault;
use ipnet::IpNet;

use super::instances::named;
use super::law::{self, Findings, Law, Verdict};
use super::load_balancers::sequence::{Hints, no_more_posts, step, until_done};
use super::module_under_test::{Counted, LoadedModule, ModuleUnderTest};
use crate::provider::observed_calls::ObservedCall;

/// Maximum number of requests at which each fault is tried.
const MOST_PLACES: usize = 8;
/// The length of a node's network.
const NODE_MASK_V4: u8 = 24;
const NODE_MASK_V6: u8 = 64;

const LAWS: &[Law] = &[
    law::ROUTE_MADE,
    law::ROUTE_IDEMPOTENT,
    law::ROUTE_REPEATED,
    law::ROUTE_INCOMPLETE,
    law::ROUTE_DELETED,
    law::ROUTE_HINTS_DROPPED,
    law::ROUTE_ANSWERS_LOST,
];

pub(super) async fn judge(tested: &ModuleUnderTest, findings: &mut Findings<'_>) {
    let nodes = match with_networks(tested) {
        _ if !tested.subjects.allow_changes => Err("it makes routes: --allow-changes"),
        nodes if nodes.is_empty() => {
            Err("it needs a machine and a network: --node NAME=PROVIDER_ID and --cluster-cidr")
        }
        nodes => Ok(nodes),
    };
    let nodes = match nodes {
        Ok(nodes) => nodes,
        Err(why) => return findings.skip(LAWS, why),
    };
    let Some(node) = nodes.first() else { return };
    let bench = RouteTest {
        tested,
        nodes: &nodes,
        node,
    };
    // Such a route is not the test's own: it is neither judged nor removed.
    match bench.listed().await {
        Ok(there) if there.is_empty() => {}
        Ok(_) => {
            let why = format!(
                "there is a route to {} already: remove it, or name another --cluster-cidr",
                bench.destination()
            );
            return findings.skip(LAWS, &why);
        }
        Err(error) => {
            let broken = std::future::ready(Err(error.context("list")));
            findings.judge(law::ROUTE_MADE, broken).await;
            let others = LAWS.split_first().map(|(_, others)| others);
            return findings.skip(others.unwrap_or_default(), "list fails");
        }
    }
    let mut usual = Vec::new();
    findings
        .judge(law::ROUTE_MADE, bench.made(&mut usual))
        .await;
    findings
        .judge(law::ROUTE_IDEMPOTENT, bench.idempotent())
        .await;
    findings.judge(law::ROUTE_REPEATED, bench.repeated()).await;
    findings
        .judge(law::ROUTE_INCOMPLETE, bench.incomplete())
        .await;
    findings.judge(law::ROUTE_DELETED, bench.deleted()).await;
    findings
        .judge(law::ROUTE_HINTS_DROPPED, bench.hints_dropped(&usual))
        .await;
    findings
        .judge(law::ROUTE_ANSWERS_LOST, bench.answers_lost(&usual))
        .await;
    bench.clean().await;
}

/// The known nodes, each with a network of its own.
fn with_networks(tested: &ModuleUnderTest) -> Vec<CloudNode> {
    let range = tested.subjects.cluster_cidrs.first();
    let Some(range) = range.and_then(|range| range.parse::<IpNet>().ok()) else {
        return Vec::new();
    };
    let mask = match range.addr() {
        IpAddr::V4(_) => NODE_MASK_V4,
        IpAddr::V6(_) => NODE_MASK_V6,
    };
    let Ok(networks) = range.subnets(mask.max(range.prefix_len())) else {
        return Vec::new();
    };
    let nodes = tested.known().into_iter().zip(networks);
    nodes
        .map(|(node, network)| CloudNode {
            pod_cidrs: vec![network.to_string()],
            ..node
        })
        .collect()
}

/// A node whose route is tested, with the module and all nodes.
struct RouteTest<'a> {
    tested: &'a ModuleUnderTest,
    nodes: &'a [CloudNode],
    node: &'a CloudNode,
}

impl RouteTest<'_> {
    fn destination(&self) -> &str {
        self.node.pod_cidrs.first().map_or("", String::as_str)
    }

    /// What reports call the route.
    fn name(&self) -> String {
        format!("the route to {}", self.destination())
    }

    async fn create(&self, loaded: &LoadedModule<'_>, hints: Hints) -> anyhow::Result<bool> {
        self.tested.make(self.name());
        let node = Arc::new(self.node.clone());
        let done = until_done(loaded, hints, async |hint| {
            let request = CreateRouteRequest {
                node: node.clone(),
                destination_cidr: self.destination().to_owned(),
                hint,
            };
            let reply = loaded
                .provider
                .create_route(&request, loaded.changing(ROUTE_CHANGES));
            Ok(step(reply.await?.progress))
        });
        let ((), has_hints) = done.await.context("create")?;
        Ok(has_hints)
    }

    async fn delete(&self, loaded: &LoadedModule<'_>, route: &CloudRoute) -> anyhow::Result<()> {
        let route = Arc::new(route.clone());
        let done = until_done(loaded, Hints::Kept, async |hint| {
            let request = DeleteRouteRequest {
                route: route.clone(),
                hint,
            };
            let reply = loaded
                .provider
                .delete_route(&request, loaded.changing(ROUTE_CHANGES));
            Ok(step(reply.await?.progress))
        });
        done.await.context("delete")?;
        self.tested.remove(&self.name());
        Ok(())
    }

    async fn list(&self) -> anyhow::Result<ListRoutesReply> {
        let loaded = self.tested.load().await?;
        Ok(loaded.list_routes(self.nodes).await?)
    }

    /// The routes to the node's network.
    async fn listed(&self) -> anyhow::Result<Vec<CloudRoute>> {
        let mut routes = self.list().await?.routes;
        routes.retain(|route| route.destination_cidr == self.destination());
        Ok(routes)
    }

    /// Looks for the route in the list.
    ///
    /// # Errors
    /// The list does not show it exactly once, leading to its node.
    async fn find(&self) -> anyhow::Result<CloudRoute> {
        let mut listed = self.listed().await?;
        let Some(one) = listed.pop() else {
            bail!("list does not show it");
        };
        if !listed.is_empty() {
            bail!("list shows it {} times", 1 + listed.len());
        }
        if !matches!(&one.target, RouteTarget::Node(name) if *name == self.node.name) {
            bail!("it leads to {}", one.target);
        }
        Ok(one)
    }

    /// Stores the calls with which the route was created in `usual`.
    async fn made(&self, usual: &mut Vec<ObservedCall>) -> anyhow::Result<Verdict> {
        let before = self.list().await?.routes;
        let loaded = self.tested.load().await?;
        self.create(&loaded, Hints::Kept).await?;
        *usual = loaded.since(0);
        self.find().await?;
        let mut after = self.list().await?.routes;
        after.retain(|route| route.destination_cidr != self.destination());
        let is_same = before.iter().all(|route| after.contains(route));
        ensure!(is_same, "other routes have changed");
        Ok(Verdict::Pass(format!(
            "{} to {}, beside {} route(s)",
            self.destination(),
            self.node.name,
            before.len()
        )))
    }

    async fn idempotent(&self) -> anyhow::Result<Verdict> {
        let loaded = self.tested.load().await?;
        self.create(&loaded, Hints::Kept).await?;
        // The module may send the request, and get the answer that the route exists.
        ensure!(!has_changed(&loaded), "a second create changes something");
        Ok(Verdict::Pass("1 time".to_owned()))
    }

    async fn repeated(&self) -> anyhow::Result<Verdict> {
        let first = sorted(self.list().await?);
        let loaded = self.tested.load().await?;
        let again = sorted(loaded.list_routes(self.nodes).await?);
        ensure!(again == first, "{first:?}, and then {again:?}");
        ensure!(
            again.complete,
            "the list is not complete: a request of it failed, or none was answered with 2xx"
        );
        loaded.changes_nothing_since(0)?;
        Ok(Verdict::Pass(format!("{} route(s)", again.routes.len())))
    }

    async fn incomplete(&self) -> anyhow::Result<Verdict> {
        let loaded = self.tested.load().await?;
        let whole = loaded.list_routes(self.nodes).await?;
        let calls = loaded.since(0);
        let requests: usize = calls.iter().map(|call| call.requests.len()).sum();
        let places = requests.min(MOST_PLACES);
        let faults = [
            InjectedFault::Answer(500),
            InjectedFault::LoseAnswer,
            InjectedFault::CutAnswer,
        ];
        for place in 0..places {
            for fault in faults {
                let loaded = self.tested.load().await?;
                loaded.disturb(Counted::Requests, place, fault);
                if let Ok(reply) = loaded.list_routes(self.nodes).await
                    && sorted(reply.clone()).routes != sorted(whole.clone()).routes
                {
                    bail!(
                        "{} of {} route(s) after {} at request {}",
                        reply.routes.len(),
                        whole.routes.len(),
                        named(fault),
                        place + 1
                    );
                }
            }
        }
        Ok(Verdict::Pass(format!("{} place(s)", places * faults.len())))
    }

    async fn deleted(&self) -> anyhow::Result<Verdict> {
        let all = self.list().await?.routes;
        let listed = self.listed().await?;
        let Some(route) = listed.first() else {
            let why = "there is no route that could be deleted";
            return Ok(Verdict::NotApplicable(why.to_owned()));
        };
        let loaded = self.tested.load().await?;
        self.delete(&loaded, route).await?;
        let left = self.list().await?.routes;
        let is_it =
            |one: &CloudRoute| one.id == route.id && one.destination_cidr == route.destination_cidr;
        ensure!(!left.iter().any(is_it), "list still shows it");
        ensure!(
            left.len() + 1 == all.len(),
            "{} routes before, and {} after it",
            all.len(),
            left.len()
        );
        let again = self.tested.load().await?;
        let second = self.delete(&again, route).await;
        second.map_err(|error| anyhow!("a second {error:#}"))?;
        ensure!(!has_changed(&again), "a second delete changes something");
        Ok(Verdict::Pass(format!("{} route(s) are left", left.len())))
    }

    async fn hints_dropped(&self, usual: &[ObservedCall]) -> anyhow::Result<Verdict> {
        self.clean().await;
        let loaded = self.tested.load().await?;
        if !self.create(&loaded, Hints::Dropped).await? {
            return Ok(Verdict::NotApplicable("create gave no hint".to_owned()));
        }
        self.find().await?;
        no_more_posts(&loaded.since(0), usual)?;
        Ok(Verdict::Pass("1 route".to_owned()))
    }

    async fn answers_lost(&self, usual: &[ObservedCall]) -> anyhow::Result<Verdict> {
        let changes: usize = usual.iter().map(|call| call.changes().count()).sum();
        if changes == 0 {
            return Ok(Verdict::NotApplicable("create sends no change".to_owned()));
        }
        let places = changes.min(MOST_PLACES);
        for place in 0..places {
            self.clean().await;
            let loaded = self.tested.load().await?;
            loaded.disturb(Counted::Changes, place, InjectedFault::LoseAnswer);
            let created = async {
                self.create(&loaded, Hints::Kept).await?;
                let route = self.find().await?;
                no_more_posts(&loaded.since(0), usual)?;
                anyhow::Ok(route)
            };
            let route = created.await.with_context(|| {
                format!("after a lost answer to change {} of create", place + 1)
            })?;
            let loaded = self.tested.load().await?;
            loaded.disturb(Counted::Changes, place, InjectedFault::LoseAnswer);
            let deleted = self.delete(&loaded, &route).await;
            deleted.context("after a lost answer")?;
            ensure!(
                self.listed().await?.is_empty(),
                "after a lost answer to delete list still shows it"
            );
        }
        Ok(Verdict::Pass(format!(
            "{places} place(s) of create and delete"
        )))
    }

    /// Removes the node's route, and notes if that fails.
    async fn clean(&self) {
        match self.try_to_clean().await {
            Ok(()) => self.tested.remove(&self.name()),
            Err(error) => self.tested.leave(self.name(), format!("{error:#}")),
        }
    }

    async fn try_to_clean(&self) -> anyhow::Result<()> {
        for route in self.listed().await? {
            let loaded = self.tested.load().await?;
            self.delete(&loaded, &route).await?;
        }
        Ok(())
    }
}

/// Whether the cloud has carried out a change.
fn has_changed(loaded: &LoadedModule<'_>) -> bool {
    let calls = loaded.since(0);
    let mut changes = calls.iter().flat_map(ObservedCall::changes);
    changes.any(|request| request.is_done())
}

fn sorted(mut reply: ListRoutesReply) -> ListRoutesReply {
    reply.routes.sort_unstable_by(|one, other| {
        (&one.destination_cidr, &one.id).cmp(&(&other.destination_cidr, &other.id))
    });
    reply
}
