//! Test fixtures: a network, its nodes and the surrounding cloud project, in the vendor's documented format.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use ccm_guest::testing::{self, Answer, Seen, TestHost, json};
use ccm_guest::{Address, AddressType, Node};
use serde_json::{Value, json as value};

use crate::address_range;
use crate::config::RouteSettings;
use crate::load_balancer::fixtures::project::{disturbed, refused};

pub use crate::load_balancer::fixtures::project::Trouble;

const MANIFEST: &str = include_str!("../../manifest.json");
const NETWORK: &str = include_str!("../../fixtures/network.json");
const SERVER: &str = include_str!("../../fixtures/server.json");
const LOAD_BALANCER: &str = include_str!("../../fixtures/load-balancer.json");

/// The id of the test network.
pub const ID: u64 = 4711;

/// Settings for routes on the network `cluster`, with pods in 10.244.0.0/16.
pub fn settings() -> RouteSettings {
    RouteSettings {
        network: "cluster".to_owned(),
        cluster: Some(vec![address_range::read("10.244.0.0/16").unwrap()]),
    }
}

/// A node on the server with this id.
pub fn node(name: &str, server: u64, internal_ips: &[&str], pod_cidrs: &[&str]) -> Node {
    let mut node = testing::node(name, Some(&format!("hcloud://{server}")));
    let address = |address: &&str| Address {
        address_type: AddressType::InternalIp,
        address: (*address).to_owned(),
    };
    node.addresses = internal_ips.iter().map(address).collect();
    node.pod_cidrs = pod_cidrs.iter().map(|cidr| (*cidr).to_owned()).collect();
    node
}

/// The network with these routes (destination, gateway) and no members.
pub fn network(routes: &[(&str, &str)]) -> Value {
    let mut fixture: Value = serde_json::from_str(NETWORK).unwrap();
    let mut network = fixture["network"].take();
    network["servers"] = value!([]);
    network["routes"] = routes
        .iter()
        .map(|(to, through)| route(to, through))
        .collect();
    network
}

/// Adds a vSwitch subnet for dedicated servers.
pub fn vswitch(mut network: Value, range: &str) -> Value {
    let gateway = address_range::read(range).unwrap().network().to_bits() + 1;
    let subnet = value!({"type": "vswitch", "ip_range": range, "network_zone": "eu-central",
        "gateway": std::net::Ipv4Addr::from_bits(gateway).to_string(), "vswitch_id": 1000});
    network["subnets"].as_array_mut().unwrap().push(subnet);
    network
}

fn route(destination: &str, gateway: &str) -> Value {
    value!({"destination": destination, "gateway": gateway})
}

/// A project with one network.
#[derive(Debug, Default)]
pub struct Project {
    /// The network as JSON of the API.
    pub network: Value,
    /// Servers as JSON of the API; their own data makes them members.
    pub servers: Vec<Value>,
    /// Load balancers as JSON of the API; their own data makes them members.
    pub load_balancers: Vec<Value>,
    /// Number of polls during which an action reports `running`.
    pub polls: u32,
    /// Faults by request number, starting at 0.
    pub trouble: BTreeMap<usize, Trouble>,
    /// Ids of actions that end with an error.
    pub failed: Vec<u64>,
    /// The bodies of all writes, in order.
    pub bodies: Vec<Value>,
    /// Running actions: remaining polls, and the effect at the end.
    running: BTreeMap<u64, (u32, Value, bool)>,
    requests: usize,
    last_id: u64,
}

impl Project {
    /// A project with these routes.
    pub fn new(routes: &[(&str, &str)]) -> Project {
        Project {
            network: network(routes),
            ..Project::default()
        }
    }

    /// Adds a server with these network addresses, the first one as its own and the rest as aliases.
    pub fn server(mut self, id: u64, name: &str, addresses: &[&str]) -> Project {
        let mut fixture: Value = serde_json::from_str(SERVER).unwrap();
        let mut server = fixture["server"].take();
        server["id"] = value!(id);
        server["name"] = value!(name);
        server["private_net"] = nets(addresses);
        self.servers.push(server);
        self.network["servers"]
            .as_array_mut()
            .unwrap()
            .push(value!(id));
        self
    }

    /// Adds a load balancer with this network address.
    pub fn load_balancer(mut self, id: u64, name: &str, address: &str) -> Project {
        let mut fixture: Value = serde_json::from_str(LOAD_BALANCER).unwrap();
        let mut found = fixture["load_balancer"].take();
        found["id"] = value!(id);
        found["name"] = value!(name);
        found["private_net"] = value!([{"network": ID, "ip": address}]);
        self.load_balancers.push(found);
        self.network["load_balancers"]
            .as_array_mut()
            .unwrap()
            .push(value!(id));
        self
    }

    /// A project whose actions report `running` for `polls` polls.
    pub fn slow(polls: u32, routes: &[(&str, &str)]) -> Project {
        Project {
            polls,
            ..Project::new(routes)
        }
    }

    /// Serves the project to this thread.
    pub fn serve(self) -> (TestHost, Rc<RefCell<Project>>) {
        let project = Rc::new(RefCell::new(self));
        let served = Rc::clone(&project);
        let host = TestHost::new(MANIFEST, move |seen| served.borrow_mut().answer(seen));
        (host, project)
    }

    /// The routes as (destination, gateway).
    pub fn routes(&self) -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let routes = self.network["routes"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let routes = routes.iter();
        routes
            .map(|one| (text(&one["destination"]), text(&one["gateway"])))
            .collect()
    }

    /// Ends all running actions.
    pub fn end_all(&mut self) {
        self.running.values_mut().for_each(|(left, _, _)| *left = 0);
        self.advance();
    }

    fn answer(&mut self, seen: &Seen) -> Answer {
        let trouble = self.trouble.remove(&self.requests);
        self.requests += 1;
        disturbed(trouble, || self.done(seen))
    }

    fn done(&mut self, seen: &Seen) -> Answer {
        let body: Value = serde_json::from_slice(&seen.body).unwrap_or_default();
        let id = ID.to_string();
        let parts: Vec<&str> = seen.path_only().split('/').skip(1).collect();
        match (seen.method, parts.as_slice()) {
            ("GET", ["networks", known]) if *known == id => {
                json(200, &value!({"network": self.network}).to_string())
            }
            ("GET", ["networks"]) if seen.query("name") == Some("cluster") => {
                json(200, &value!({"networks": [self.network]}).to_string())
            }
            ("GET", ["networks"]) => json(200, r#"{"networks": []}"#),
            ("GET", ["servers"]) => page("servers", &self.servers, seen),
            ("GET", ["load_balancers"]) => page("load_balancers", &self.load_balancers, seen),
            ("GET", ["actions"]) => self.poll(seen),
            ("POST", ["networks", known, "actions", action]) if *known == id => {
                self.change(action, body)
            }
            _ => refused(404, "not_found"),
        }
    }

    /// Applies a change as the vendor documents it: one at a time, no overlap, and only existing routes can be
    /// deleted.
    fn change(&mut self, action: &str, body: Value) -> Answer {
        self.bodies.push(body.clone());
        if !self.running.is_empty() {
            return refused(409, "conflict");
        }
        let adds = action == "add_route";
        let read = |one: &Value| address_range::read(one["destination"].as_str()?);
        let routes = self.network["routes"].as_array().unwrap();
        let wanted = read(&body).unwrap();
        if adds
            && routes
                .iter()
                .any(|one| address_range::overlap(read(one).unwrap(), wanted))
        {
            return refused(422, "invalid_input");
        }
        if !adds && !routes.contains(&body) {
            return refused(404, "not_found");
        }
        self.last_id += 1;
        let id = self.last_id;
        let status = if self.polls > 0 { "running" } else { "success" };
        self.running.insert(id, (self.polls, body, adds));
        self.advance();
        let action =
            value!({"id": id, "command": action, "status": status, "progress": 0, "error": null});
        json(201, &value!({"action": action}).to_string())
    }

    /// Ends the actions whose polls have run out.
    fn advance(&mut self) {
        let due = self.running.extract_if(.., |_, (left, _, _)| *left == 0);
        for (id, (_, body, adds)) in due.collect::<Vec<_>>() {
            let routes = self.network["routes"].as_array_mut().unwrap();
            match adds {
                _ if self.failed.contains(&id) => {}
                true => routes.push(body),
                false => routes.retain(|one| *one != body),
            }
        }
    }

    fn poll(&mut self, seen: &Seen) -> Answer {
        let id: u64 = seen
            .query("id")
            .unwrap_or_default()
            .parse()
            .unwrap_or_default();
        if id == 0 || id > self.last_id {
            return json(200, r#"{"actions": []}"#);
        }
        if let Some((left, _, _)) = self.running.get_mut(&id) {
            *left -= 1;
        }
        self.advance();
        let (status, error) = match (self.running.contains_key(&id), self.failed.contains(&id)) {
            (true, _) => ("running", Value::Null),
            (false, true) => ("error", value!({"code": "action_failed", "message": "no"})),
            (false, false) => ("success", Value::Null),
        };
        let action = value!({"id": id, "command": "any", "status": status, "error": error});
        json(200, &value!({"actions": [action]}).to_string())
    }
}

fn nets(addresses: &[&str]) -> Value {
    match addresses {
        [] => value!([]),
        [ip, rest @ ..] => value!([
            {"network": ID, "ip": ip, "alias_ips": rest, "mac_address": "86:00:00:2a:7d:e1"},
            {"network": 4712, "ip": "10.0.0.250", "alias_ips": [], "mac_address": "86:00:00:2a:7d:e2"},
        ]),
    }
}

fn page(kind: &str, all: &[Value], seen: &Seen) -> Answer {
    const SIZE: usize = 50;
    let number: usize = seen.query("page").unwrap_or("1").parse().unwrap();
    let last = all.len().div_ceil(SIZE).max(1);
    let items: Vec<&Value> = all.iter().skip((number - 1) * SIZE).take(SIZE).collect();
    let next = (number < last).then_some(number + 1);
    let answer = value!({kind: items, "meta": {"pagination": {"page": number, "per_page": SIZE,
        "previous_page": null, "next_page": next, "last_page": last, "total_entries": all.len()}}});
    json(200, &answer.to_string())
}
