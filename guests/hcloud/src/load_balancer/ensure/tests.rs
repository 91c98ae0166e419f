//! Which requests make the cloud match a Service, and what remains when some of them fail.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::cell::RefCell;
use std::rc::Rc;

use ccm_guest::load_balancer::{Adoption, DeleteRequest, Ensured, Progress};
use ccm_guest::testing::{TestHost, node};
use ccm_guest::{LoadBalancerStatus, Node, Pending, Protocol};
use serde_json::{Value, json};

use super::super::fixtures::project::{Project, Trouble};
use super::super::fixtures::{UID, port, service, settings};
use super::super::{annotations, deletion};
use super::*;

mod failures;
mod owners;
mod requests;

/// More calls than any test needs.
const MOST_CALLS: usize = 200;

/// A Service, its nodes, and the cloud.
struct World {
    host: TestHost,
    project: Rc<RefCell<Project>>,
    settings: Settings,
    service: Service,
    nodes: Vec<Node>,
    adopt: Option<String>,
    /// Whether the host drops every hint.
    forgetful: bool,
    events: Vec<Event>,
}

impl World {
    fn new(project: Project) -> World {
        World::with(project, &[])
    }

    /// A Service with two ports, four nodes, and this configuration.
    fn with(project: Project, values: &[(&str, &str)]) -> World {
        let (host, project) = project.serve();
        let mut values = values.to_vec();
        values.push(("HCLOUD_LOAD_BALANCERS_LOCATION", "fsn1"));
        values.push(("HCLOUD_LOAD_BALANCERS_TYPE", "lb11"));
        let mut service = service(&[]);
        service.ports = vec![
            port(Protocol::Tcp, 80, Some(30080)),
            port(Protocol::Tcp, 443, Some(30443)),
        ];
        World {
            host,
            project,
            settings: settings(&values),
            service,
            nodes: (1..=4).map(server).collect(),
            adopt: None,
            forgetful: false,
            events: Vec::new(),
        }
    }

    fn annotate(&mut self, key: &str, value: &str) {
        self.service.annotations.retain(|(known, _)| known != key);
        self.service
            .annotations
            .push((key.to_owned(), value.to_owned()));
    }

    /// Calls `ensure` until it is ready, as the host does. After a temporary error it calls again, without a hint.
    fn ensure(&mut self) -> Result<LoadBalancerStatus, Error> {
        let mut hint = None;
        for _ in 0..MOST_CALLS {
            let request = EnsureRequest {
                service: self.service.clone(),
                targets: self.nodes.clone(),
                adopt: self.adopt.as_deref().map(|uid| match uid {
                    "" => Adoption::Unowned,
                    uid => Adoption::of(uid),
                }),
                hint: hint.take().filter(|_| !self.forgetful),
            };
            match ensure(&self.settings, &request) {
                Ok(reply) => {
                    self.events.extend(reply.events);
                    match reply.ensured {
                        Ensured::Ready(status) => return Ok(status),
                        Ensured::Pending(pending) => hint = checked(pending),
                    }
                }
                Err(Error::Unavailable(_)) => {}
                Err(error) => return Err(error),
            }
        }
        panic!("it does not come to an end: {:?}", self.host.requests());
    }

    fn update_targets(&mut self) -> Result<(), Error> {
        let mut hint = None;
        for _ in 0..MOST_CALLS {
            let request = UpdateRequest {
                service: self.service.clone(),
                targets: self.nodes.clone(),
                hint: hint.take().filter(|_| !self.forgetful),
            };
            let reply = update_targets(&self.settings, &request)?;
            self.events.extend(reply.events);
            match reply.progress {
                Progress::Done => return Ok(()),
                Progress::Pending(pending) => hint = checked(pending),
            }
        }
        panic!("it does not come to an end: {:?}", self.host.requests());
    }

    fn delete(&mut self) -> Result<(), Error> {
        let mut hint = None;
        for _ in 0..MOST_CALLS {
            let request = DeleteRequest {
                service: self.service.clone(),
                hint: hint.take().filter(|_| !self.forgetful),
            };
            match deletion::delete(&request) {
                Ok(reply) => {
                    self.events.extend(reply.events);
                    match reply.progress {
                        Progress::Done => return Ok(()),
                        Progress::Pending(pending) => hint = checked(pending),
                    }
                }
                Err(Error::Unavailable(_)) => {}
                Err(error) => return Err(error),
            }
        }
        panic!("it does not come to an end: {:?}", self.host.requests());
    }

    /// The requests since request number `since`, without queries.
    fn requests(&self, since: usize) -> Vec<String> {
        let seen = self.host.seen();
        let seen = seen.iter().skip(since);
        seen.map(|one| format!("{} {}", one.method, one.path_only()))
            .collect()
    }

    fn count(&self) -> usize {
        self.host.seen().len()
    }

    /// The project's only load balancer.
    fn only(&self) -> Value {
        let project = self.project.borrow();
        let all: Vec<&Value> = project.load_balancers.values().collect();
        assert_eq!(all.len(), 1, "{all:?}");
        all[0].clone()
    }

    fn reasons(&self) -> Vec<&str> {
        self.events.iter().map(|one| one.reason.as_str()).collect()
    }
}

fn server(id: u64) -> Node {
    node(&format!("node-{id}"), Some(&format!("hcloud://{id}")))
}

/// The hint, checked against the contract's limits.
fn checked(pending: Pending) -> Option<Vec<u8>> {
    assert!((100..=600_000).contains(&pending.retry_after_ms));
    assert!(pending.hint.as_ref().is_none_or(|hint| hint.len() <= 4096));
    pending.hint
}

/// A load balancer's ports and targets in short, sorted.
fn brief(found: &Value) -> (Vec<String>, Vec<String>) {
    let list = |key: &str| found[key].as_array().cloned().unwrap_or_default();
    let mut services: Vec<String> = list("services")
        .iter()
        .map(|one| format!("{}→{}", one["listen_port"], one["destination_port"]))
        .collect();
    let mut targets: Vec<String> = list("targets")
        .iter()
        .map(|one| match one["type"].as_str() {
            Some("server") => format!("{}", one["server"]["id"]),
            Some("ip") => one["ip"]["ip"].as_str().unwrap_or_default().to_owned(),
            _ => "label selector".to_owned(),
        })
        .collect();
    services.sort();
    targets.sort();
    (services, targets)
}

fn as_wanted() -> (Vec<String>, Vec<String>) {
    (
        ["443→30443", "80→30080"].map(str::to_owned).to_vec(),
        ["1", "2", "3", "4"].map(str::to_owned).to_vec(),
    )
}
