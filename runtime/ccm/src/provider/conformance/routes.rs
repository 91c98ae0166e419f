//! How the laws about routes are tested. Every node gets a network of its own within `--cluster-cidr`.

use std::net::IpAddr;
use std::sync::Arc;

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
use super::load_balancers::sequence::{Hints, more_posts, step, until_done};
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
            let broken = Verdict::Fail(format!("list: {error:#}"));
            findings
                .judge(law::ROUTE_MADE, std::future::ready(Ok(broken)))
                .await;
            let others = LAWS.split_first().map(|(_, others)| others);
            return findings.skip(others.unwrap_or_default(), "list fails");
        }
    }
    let mut usual = Vec::new();
    findings
        .judge(law::ROUTE_MADE, async {
            let (verdict, calls) = bench.made().await?;
            usual = calls;
            Ok(verdict)
        })
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

    async fn create(&self, loaded: &LoadedModule<'_>, hints: Hints) -> Result<bool, String> {
        let node = Arc::new(self.node.clone());
        let done = until_done(loaded, self.tested, hints, async |hint| {
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
        let done = done.await.map_err(|why| format!("create: {why}"));
        done.map(|((), has_hints)| has_hints)
    }

    async fn delete(&self, loaded: &LoadedModule<'_>, route: &CloudRoute) -> Result<(), String> {
        let route = Arc::new(route.clone());
        let done = until_done(loaded, self.tested, Hints::Kept, async |hint| {
            let request = DeleteRouteRequest {
                route: route.clone(),
                hint,
            };
            let reply = loaded
                .provider
                .delete_route(&request, loaded.changing(ROUTE_CHANGES));
            Ok(step(reply.await?.progress))
        });
        done.await.map(drop).map_err(|why| format!("delete: {why}"))
    }

    async fn list(&self) -> anyhow::Result<ListRoutesReply> {
        let loaded = self.tested.load().await?;
        Ok(loaded.recorded(
            loaded
                .provider
                .list_routes(self.nodes, loaded.reading())
                .await,
        )?)
    }

    /// The routes to the node's network.
    async fn listed(&self) -> anyhow::Result<Vec<CloudRoute>> {
        let mut routes = self.list().await?.routes;
        routes.retain(|route| route.destination_cidr == self.destination());
        Ok(routes)
    }

    /// Why the list does not show the route exactly once, leading to its node.
    async fn not_there(&self) -> anyhow::Result<Option<String>> {
        let listed = self.listed().await?;
        Ok(match listed.as_slice() {
            [] => Some("list does not show it".to_owned()),
            [one] => match &one.target {
                RouteTarget::Node(name) if *name == self.node.name => None,
                other => Some(format!("it leads to {other}")),
            },
            several => Some(format!("list shows it {} times", several.len())),
        })
    }

    async fn made(&self) -> anyhow::Result<(Verdict, Vec<ObservedCall>)> {
        let before = self.list().await?.routes;
        let loaded = self.tested.load().await?;
        if let Err(why) = self.create(&loaded, Hints::Kept).await {
            return Ok((Verdict::Fail(why), Vec::new()));
        }
        let verdict = match self.not_there().await? {
            Some(why) => Verdict::Fail(why),
            None => {
                let mut after = self.list().await?.routes;
                after.retain(|route| route.destination_cidr != self.destination());
                let is_same = before.iter().all(|route| after.contains(route));
                match is_same {
                    true => Verdict::Pass(format!(
                        "{} to {}, beside {} route(s)",
                        self.destination(),
                        self.node.name,
                        before.len()
                    )),
                    false => Verdict::Fail("other routes have changed".to_owned()),
                }
            }
        };
        Ok((verdict, loaded.since(0)))
    }

    async fn idempotent(&self) -> anyhow::Result<Verdict> {
        let loaded = self.tested.load().await?;
        if let Err(why) = self.create(&loaded, Hints::Kept).await {
            return Ok(Verdict::Fail(why));
        }
        // The module may send the request, and get the answer that the route exists.
        Ok(match has_changed(&loaded) {
            false => Verdict::Pass("1 time".to_owned()),
            true => Verdict::Fail("a second create changes something".to_owned()),
        })
    }

    async fn repeated(&self) -> anyhow::Result<Verdict> {
        let first = sorted(self.list().await?);
        let loaded = self.tested.load().await?;
        let again = loaded.recorded(
            loaded
                .provider
                .list_routes(self.nodes, loaded.reading())
                .await,
        )?;
        let again = sorted(again);
        Ok(if again != first {
            Verdict::Fail(format!("{first:?}, and then {again:?}"))
        } else if !again.complete {
            Verdict::Fail(
                "the list is not complete: a request of it failed, or none was answered with 2xx"
                    .to_owned(),
            )
        } else {
            match loaded.changes_since(0) {
                0 => Verdict::Pass(format!("{} route(s)", again.routes.len())),
                changes => Verdict::Fail(format!("{changes} change(s) were tried")),
            }
        })
    }

    async fn incomplete(&self) -> anyhow::Result<Verdict> {
        let loaded = self.tested.load().await?;
        let whole = loaded.recorded(
            loaded
                .provider
                .list_routes(self.nodes, loaded.reading())
                .await,
        )?;
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
                let answer = loaded
                    .provider
                    .list_routes(self.nodes, loaded.reading())
                    .await;
                if let Ok(reply) = loaded.recorded(answer)
                    && sorted(reply.clone()).routes != sorted(whole.clone()).routes
                {
                    return Ok(Verdict::Fail(format!(
                        "{} of {} route(s) after {} at request {}",
                        reply.routes.len(),
                        whole.routes.len(),
                        named(fault),
                        place + 1
                    )));
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
        if let Err(why) = self.delete(&loaded, route).await {
            return Ok(Verdict::Fail(why));
        }
        let left = self.list().await?.routes;
        if left
            .iter()
            .any(|one| one.id == route.id && one.destination_cidr == route.destination_cidr)
        {
            return Ok(Verdict::Fail("list still shows it".to_owned()));
        }
        if left.len() + 1 != all.len() {
            return Ok(Verdict::Fail(format!(
                "{} routes before, and {} after it",
                all.len(),
                left.len()
            )));
        }
        let again = self.tested.load().await?;
        if let Err(why) = self.delete(&again, route).await {
            return Ok(Verdict::Fail(format!("a second {why}")));
        }
        Ok(match has_changed(&again) {
            true => Verdict::Fail("a second delete changes something".to_owned()),
            false => Verdict::Pass(format!("{} route(s) are left", left.len())),
        })
    }

    async fn hints_dropped(&self, usual: &[ObservedCall]) -> anyhow::Result<Verdict> {
        self.clean().await;
        let loaded = self.tested.load().await?;
        let created = self.create(&loaded, Hints::Dropped).await;
        Ok(match created {
            Err(why) => Verdict::Fail(why),
            Ok(false) => Verdict::NotApplicable("create gave no hint".to_owned()),
            Ok(true) => match (self.not_there().await?, more_posts(&loaded.since(0), usual)) {
                (Some(why), _) | (None, Some(why)) => Verdict::Fail(why),
                (None, None) => Verdict::Pass("1 route".to_owned()),
            },
        })
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
            let created = self.create(&loaded, Hints::Kept).await;
            let there = self.not_there().await?;
            let broken = created.err().or(there);
            if let Some(why) = broken.or(more_posts(&loaded.since(0), usual)) {
                return Ok(Verdict::Fail(format!(
                    "after a lost answer to change {} of create: {why}",
                    place + 1
                )));
            }
            let Some(route) = self.listed().await?.pop() else {
                return Ok(Verdict::Fail("list does not show it".to_owned()));
            };
            let loaded = self.tested.load().await?;
            loaded.disturb(Counted::Changes, place, InjectedFault::LoseAnswer);
            if let Err(why) = self.delete(&loaded, &route).await {
                return Ok(Verdict::Fail(format!("after a lost answer: {why}")));
            }
            if !self.listed().await?.is_empty() {
                let why = "after a lost answer to delete list still shows it";
                return Ok(Verdict::Fail(why.to_owned()));
            }
        }
        Ok(Verdict::Pass(format!(
            "{places} place(s) of create and delete"
        )))
    }

    /// Removes the node's route, and notes if that fails.
    async fn clean(&self) {
        if let Err(error) = self.try_to_clean().await {
            let tested = self.tested;
            tested.leave(format!("the route to {} ({error:#})", self.destination()));
        }
    }

    async fn try_to_clean(&self) -> anyhow::Result<()> {
        for route in self.listed().await? {
            let loaded = self.tested.load().await?;
            self.delete(&loaded, &route)
                .await
                .map_err(anyhow::Error::msg)?;
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
