//! The execution of a call about routes: a sound provider in front of a sound cloud. It looks the table up, asks the
//! permit for a change, makes it, and reports an unfinished one as pending. There is one route for a destination; one
//! with another gateway is in the way.

use std::net::IpAddr;
use std::sync::Arc;

use ccm_core::cloud::load_balancer::{Pending, Progress};
use ccm_core::cloud::route::{
    CloudRoute, CreateRouteRequest, DeleteRouteRequest, ListRoutesReply, RouteReply, RouteTarget,
};
use ccm_core::cloud::{AddressType, CloudNode, ProviderError};
use ccm_core::safety::permit::Permit;
use ipnet::IpNet;
use tokio::time::Instant;

use super::{Changed, Lie, Listing, Operation, Route, Routes, network};
use crate::broken_clients::Tamper;
use crate::cloud::SLOW;
use crate::cloud_changes::{self, AGAIN, Halt, LATENCY};
use crate::disturbance::CallFault;
use crate::load_balancer_answers as answers;

/// A machine of the cloud: its node's name, and its addresses.
pub(crate) type Machine = (String, Vec<String>);

/// A change that is under way. It ends when its future is dropped.
struct Open(Routes);

impl Drop for Open {
    fn drop(&mut self) {
        let mut table = self.0.table();
        if let Some(open) = table.open.get_mut(&self.0.process) {
            *open -= 1;
        }
    }
}

impl Routes {
    /// The table, in which each route leads to one of these nodes or machines, or nowhere.
    pub(crate) async fn list(
        self,
        nodes: Vec<CloudNode>,
        machines: Vec<Machine>,
        fault: Option<CallFault>,
    ) -> Result<ListRoutesReply, ProviderError> {
        let at = Instant::now();
        self.begin(Operation::List, "*", fault).await?;
        let mut reply = {
            let table = self.table();
            let listed = table.all.iter().filter(|one| one.exists(Instant::now()));
            let routes = listed.map(|one| CloudRoute {
                id: one.id.clone(),
                destination_cidr: spelled(&table.spelled, one),
                target: target(one, &nodes, &machines),
                extra: Vec::new(),
            });
            let mut reply = ListRoutesReply {
                routes: routes.collect(),
                complete: true,
            };
            match table.lie {
                None => {}
                Some(Lie::Empty) => reply.routes.clear(),
                Some(Lie::Incomplete) => reply.complete = false,
                Some(Lie::Blackholes) => blackholes(&mut reply),
            }
            reply
        };
        disturb(&mut reply, fault).await?;
        self.table().listings.push(Listing {
            process: self.process,
            at,
            complete: reply.complete,
            routes: reply.routes.clone(),
        });
        self.misread(&mut reply);
        Ok(reply)
    }

    /// Counts a change as under way.
    fn open(&self) -> Open {
        let mut table = self.table();
        let open = table.open.entry(self.process).or_default();
        *open += 1;
        let open = *open;
        table.most_open = table.most_open.max(open);
        Open(self.clone())
    }

    /// Creates a route, as `create_route` of the provider does.
    pub(crate) async fn create(
        self,
        request: CreateRouteRequest,
        permit: Arc<Permit>,
        fault: Option<CallFault>,
    ) -> Result<RouteReply, ProviderError> {
        let destination = network(&request.destination_cidr).map_err(ProviderError::Invalid)?;
        let about = destination.to_string();
        let _open = self.open();
        self.begin(Operation::Create, &about, fault).await?;
        let gateway = gateway(&request.node, destination)
            .ok_or_else(|| ProviderError::Invalid("the node has no InternalIP".to_owned()))?;
        let now = Instant::now();
        let there = {
            let table = self.table();
            let is_it = |one: &&Route| {
                one.destination == destination && one.gone.is_none_or(|gone| gone > now)
            };
            table.all.iter().find(is_it).cloned()
        };
        let until = match there {
            Some(there) if there.gone.is_none() && there.gateway == gateway => there.made,
            Some(there) => {
                return Err(ProviderError::Conflict {
                    message: format!("{destination} has a route to {}", there.gateway),
                    owner: None,
                });
            }
            None => {
                let made_for = Some(request.node.name.clone());
                let made = self.change(&permit, Operation::Create, &about, |routes| {
                    let mut table = routes.table();
                    let done = table.done(&about);
                    table.make(destination, gateway, made_for, done)
                });
                match made {
                    Ok(route) => route.made,
                    Err(halt) => return Err(halt.into_error().await),
                }
            }
        };
        answer(&about, until, fault).await
    }

    /// Deletes a route, as `delete_route` of the provider does.
    pub(crate) async fn delete(
        self,
        request: DeleteRouteRequest,
        permit: Arc<Permit>,
        fault: Option<CallFault>,
    ) -> Result<RouteReply, ProviderError> {
        let _open = self.open();
        let id = &request.route.id;
        let there = {
            let table = self.table();
            table.all.iter().find(|one| one.id == *id).cloned()
        };
        let about = match &there {
            Some(there) => there.destination.to_string(),
            None => request.route.destination_cidr.clone(),
        };
        self.begin(Operation::Delete, &about, fault).await?;
        let until = match there {
            None => Instant::now(),
            Some(Route {
                gone: Some(gone), ..
            }) => gone,
            Some(_) => {
                let gone = self.change(&permit, Operation::Delete, &about, |routes| {
                    let mut table = routes.table();
                    let done = table.done(&about);
                    let mut all = table.all.iter_mut();
                    let route = all.find(|one| one.id == *id).expect("it was there");
                    route.gone = Some(done);
                    route.clone()
                });
                match gone {
                    Ok(route) => route.gone.unwrap_or_else(Instant::now),
                    Err(halt) => return Err(halt.into_error().await),
                }
            }
        };
        answer(&about, until, fault).await
    }

    /// Applies the manager's defect to a listing.
    fn misread(&self, reply: &mut ListRoutesReply) {
        match self.tamper {
            Some(Tamper::BelievesIncomplete) => reply.complete = true,
            Some(Tamper::CallsOthersBlackholes) => {
                let others = reply.routes.iter_mut();
                for route in others.filter(|one| matches!(one.target, RouteTarget::Other(_))) {
                    route.target = RouteTarget::Blackhole;
                }
            }
            Some(Tamper::MisreadsDestinations) => {
                let nowhere = reply.routes.iter_mut();
                for route in nowhere.filter(|one| one.target == RouteTarget::Blackhole) {
                    route.destination_cidr = "10.244.99.0/24".to_owned();
                }
            }
            _ => {}
        }
    }

    async fn begin(
        &self,
        operation: Operation,
        about: &str,
        fault: Option<CallFault>,
    ) -> Result<(), ProviderError> {
        self.table().calls.push(operation);
        answers::before(fault).await?;
        let error = self.table().error(about, operation);
        match error {
            Some(error) => {
                let destination = network(about).ok();
                let destination = destination.filter(|_| error == ProviderError::Elsewhere);
                self.table().elsewhere.extend(destination);
                Err(error)
            }
            None => {
                tokio::time::sleep(LATENCY).await;
                Ok(())
            }
        }
    }

    fn change(
        &self,
        permit: &Permit,
        what: Operation,
        about: &str,
        change: impl FnOnce(&Routes) -> Route,
    ) -> Result<Route, Halt> {
        let path = format!("/routes/{}/{about}", what.as_str());
        let is_asked = self.tamper != Some(Tamper::ChangesUnasked);
        cloud_changes::change(permit, &path, is_asked, || {
            let route = change(self);
            self.table().changes.push(Changed {
                what,
                route: route.clone(),
                process: self.process,
                at: Instant::now(),
                after: (self.sequence)(),
            });
            route
        })
    }
}

/// Applies an injected fault to a listing.
async fn disturb(
    reply: &mut ListRoutesReply,
    fault: Option<CallFault>,
) -> Result<(), ProviderError> {
    match fault {
        Some(CallFault::Lost) => {
            return Err(ProviderError::Unavailable("injected: 502".to_owned()));
        }
        Some(CallFault::Slow) => tokio::time::sleep(SLOW).await,
        Some(CallFault::NobodyMine) => reply.routes.clear(),
        Some(CallFault::AllGone) => blackholes(reply),
        Some(CallFault::Partial) => {
            let mut index = 0;
            reply.routes.retain(|_| {
                index += 1;
                index % 2 == 0
            });
            reply.complete = false;
        }
        Some(CallFault::Short) => drop(reply.routes.pop()),
        Some(CallFault::Incomplete) => reply.complete = false,
        _ => {}
    }
    Ok(())
}

/// The answer about a change that ends at this time.
async fn answer(
    about: &str,
    done: Instant,
    fault: Option<CallFault>,
) -> Result<RouteReply, ProviderError> {
    let mut progress = match done > Instant::now() {
        true => Progress::Pending(Pending {
            retry_after: AGAIN,
            hint: Some(about.as_bytes().into()),
        }),
        false => Progress::Done,
    };
    match fault {
        Some(CallFault::Lost) => {
            return Err(ProviderError::Unavailable("injected: 502".to_owned()));
        }
        Some(CallFault::Slow) => tokio::time::sleep(SLOW).await,
        // Reported as begun.
        Some(CallFault::Partial) => {
            progress = Progress::Pending(Pending {
                retry_after: SLOW,
                hint: None,
            });
        }
        _ => {}
    }
    Ok(RouteReply {
        progress,
        events: Vec::new(),
    })
}

fn blackholes(reply: &mut ListRoutesReply) {
    for route in &mut reply.routes {
        route.target = RouteTarget::Blackhole;
    }
}

fn spelled(said: &std::collections::BTreeMap<String, String>, route: &Route) -> String {
    let destination = route.destination.to_string();
    said.get(&destination).cloned().unwrap_or(destination)
}

/// The address of a node as the gateway for this destination: one of its family, or any.
fn gateway(node: &CloudNode, destination: IpNet) -> Option<String> {
    let internal = || {
        let all = node.addresses.iter();
        all.filter(|one| one.address_type == AddressType::InternalIp)
    };
    let is_of_family = |address: &str| {
        let address: Option<IpAddr> = address.parse().ok();
        address.is_some_and(|address| address.is_ipv4() == destination.addr().is_ipv4())
    };
    let of_family = internal().find(|one| is_of_family(&one.address));
    let found = of_family.or_else(|| internal().next())?;
    Some(found.address.clone())
}

fn target(route: &Route, nodes: &[CloudNode], machines: &[Machine]) -> RouteTarget {
    let leads_to = |node: &&CloudNode| {
        gateway(node, route.destination).as_deref() == Some(route.gateway.as_str())
    };
    if let Some(node) = nodes.iter().find(leads_to) {
        return RouteTarget::Node(node.name.clone());
    }
    let has = |node: &&CloudNode| {
        node.addresses
            .iter()
            .any(|one| one.address == route.gateway)
    };
    let is_noted = |node: &&CloudNode| route.made_for.as_ref() == Some(&node.name);
    let node = nodes.iter().find(has).or(nodes.iter().find(is_noted));
    let is_its = |(_, addresses): &&Machine| addresses.contains(&route.gateway);
    match (node, machines.iter().find(is_its)) {
        (Some(node), _) => RouteTarget::Outdated(node.name.clone()),
        (None, Some((machine, _))) => RouteTarget::Other(format!("machine {machine}")),
        (None, None) => RouteTarget::Blackhole,
    }
}
