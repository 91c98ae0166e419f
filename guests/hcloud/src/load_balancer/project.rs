//! Test double of a Hetzner Cloud project with load balancers and certificates in the vendor's documented format. It
//! can refuse requests, lose responses and delay actions.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use ccm_guest::http::FetchError;
use ccm_guest::testing::{Answer, Seen, TestHost, json};
use serde_json::{Value, json as value};

const MANIFEST: &str = include_str!("../../manifest.json");
const LOAD_BALANCER: &str = include_str!("../../fixtures/load-balancer.json");

/// A fault of one request.
#[derive(Debug, Clone)]
pub enum Trouble {
    /// Refused with this status and code, without effect.
    Refused(u16, &'static str),
    /// Done, but the response is lost.
    AnswerLost,
}

/// The project's contents and faults.
#[derive(Debug, Default)]
pub struct Project {
    /// Load balancers by their ids.
    pub load_balancers: BTreeMap<u64, Value>,
    /// Certificates by their ids.
    pub certificates: BTreeMap<u64, Value>,
    /// Remaining polls during which each action reports `running`.
    actions: BTreeMap<u64, u32>,
    /// The failed actions.
    pub failed: Vec<u64>,
    /// Number of polls during which a new action reports `running`.
    pub polls: u32,
    /// Whether a load balancer with a running action refuses other changes.
    pub locks: bool,
    /// Number of responses without the addresses of a load balancer.
    pub unaddressed: usize,
    /// Servers that cannot be targets.
    pub detached: Vec<u64>,
    /// Servers that do not exist.
    pub absent: Vec<u64>,
    /// Maximum number of targets.
    pub max_targets: usize,
    /// Faults by request number, starting at 0.
    pub trouble: BTreeMap<usize, Trouble>,
    requests: usize,
    last_id: u64,
}

impl Project {
    /// An empty project whose actions end at once.
    pub fn new() -> Project {
        Project {
            max_targets: 25,
            last_id: 100,
            ..Project::default()
        }
    }

    /// Serves the project to this thread.
    pub fn serve(self) -> (TestHost, Rc<RefCell<Project>>) {
        let project = Rc::new(RefCell::new(self));
        let served = Rc::clone(&project);
        let host = TestHost::new(MANIFEST, move |seen| served.borrow_mut().answer(seen));
        (host, project)
    }

    /// Adds a load balancer that was not created through the API.
    pub fn put(&mut self, name: &str, labels: &Value) -> u64 {
        let id = self.id();
        let mut new = blank(id, name);
        new["labels"] = labels.clone();
        self.load_balancers.insert(id, new);
        id
    }

    fn id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    fn answer(&mut self, seen: &Seen) -> Answer {
        let number = self.requests;
        self.requests += 1;
        match self.trouble.remove(&number) {
            Some(Trouble::Refused(status, code)) => refused(status, code),
            Some(Trouble::AnswerLost) => {
                let _ = self.done(seen);
                Err(FetchError::TimedOut("the answer was lost".to_owned()))
            }
            None => self.done(seen),
        }
    }

    fn done(&mut self, seen: &Seen) -> Answer {
        let body: Value = serde_json::from_slice(&seen.body).unwrap_or_default();
        let parts: Vec<&str> = seen.path_only().split('/').skip(1).collect();
        match (seen.method, parts.as_slice()) {
            ("GET", ["networks", id]) => {
                json(200, &value!({"network": {"id": number(id)}}).to_string())
            }
            ("GET", ["server"]) => json(200, include_str!("../../fixtures/robot-servers.json")),
            ("GET", ["actions"]) => self.list_actions(seen),
            ("GET", ["load_balancers"]) if self.unaddressed > 0 => {
                self.unaddressed -= 1;
                let mut young = self.load_balancers.clone();
                young.values_mut().for_each(without_addresses);
                list("load_balancers", &young, seen)
            }
            ("GET", [kind @ ("load_balancers" | "certificates")]) => {
                let all = match *kind {
                    "certificates" => &self.certificates,
                    _ => &self.load_balancers,
                };
                list(kind, all, seen)
            }
            ("POST", ["load_balancers"]) => self.create(&body),
            ("POST", ["certificates"]) => self.create_certificate(&body),
            ("PUT", ["load_balancers", id]) => self.update(number(id), &body),
            ("DELETE", ["load_balancers", id]) => self.delete(number(id)),
            ("DELETE", ["certificates", id]) => match self.certificates.remove(&number(id)) {
                Some(_) => json(204, ""),
                None => refused(404, "not_found"),
            },
            ("POST", ["load_balancers", id, "actions", action]) => {
                self.act(number(id), action, &body)
            }
            _ => refused(404, "not_found"),
        }
    }

    fn begin(&mut self, command: &str, load_balancer: u64) -> Value {
        let id = self.id();
        self.actions.insert(id, self.polls);
        let status = if self.polls > 0 { "running" } else { "success" };
        value!({"id": id, "command": command, "status": status, "progress": 0, "error": null,
            "resources": [{"id": load_balancer, "type": "load_balancer"}]})
    }

    fn list_actions(&mut self, seen: &Seen) -> Answer {
        let (_, query) = seen.path.split_once('?').unwrap_or_default();
        let ids = query.split('&').filter_map(|pair| pair.strip_prefix("id="));
        let mut found = Vec::new();
        for id in ids.map(number) {
            let Some(left) = self.actions.get_mut(&id) else {
                continue;
            };
            *left = left.saturating_sub(1);
            let (status, error) = match (*left, self.failed.contains(&id)) {
                (0, true) => ("error", value!({"code": "action_failed", "message": "no"})),
                (0, false) => ("success", Value::Null),
                _ => ("running", Value::Null),
            };
            found.push(value!({"id": id, "command": "any", "status": status, "error": error}));
        }
        json(200, &value!({"actions": found}).to_string())
    }

    fn create(&mut self, body: &Value) -> Answer {
        let name = body["name"].as_str().unwrap_or_default();
        if self.load_balancers.values().any(|one| one["name"] == name) {
            return refused(409, "uniqueness_error");
        }
        let targets = body["targets"].as_array().cloned().unwrap_or_default();
        if targets.len() > self.max_targets {
            return refused(422, "resource_limit_exceeded");
        }
        if targets.iter().any(|target| self.is_absent(target)) {
            return refused(404, "not_found");
        }
        if targets.iter().any(|target| self.is_detached(target)) {
            return refused(422, "server_not_attached_to_network");
        }
        let id = self.id();
        let mut new = blank(id, name);
        new["labels"] = body["labels"].clone();
        new["load_balancer_type"]["name"] = body["load_balancer_type"].clone();
        new["load_balancer_type"]["max_targets"] = value!(self.max_targets);
        new["targets"] = value!(targets);
        let services = body["services"].as_array().cloned().unwrap_or_default();
        new["services"] = services
            .iter()
            .map(|one| filled(&Value::Null, one))
            .collect();
        if let Some(algorithm) = body.get("algorithm") {
            new["algorithm"] = algorithm.clone();
        }
        if let Some(network) = body.get("network") {
            new["private_net"] = value!([{"network": network, "ip": "10.0.0.2"}]);
        }
        if body["public_interface"] == false {
            new["public_net"]["enabled"] = value!(false);
        }
        self.load_balancers.insert(id, new.clone());
        let action = self.begin("create_load_balancer", id);
        let its_id = action["id"].as_u64().unwrap_or_default();
        if self.failed.contains(&its_id)
            && let Some(found) = self.load_balancers.get_mut(&id)
        {
            // Only its name and labels are left.
            for key in ["services", "targets", "private_net"] {
                found[key] = value!([]);
            }
            found["public_net"]["enabled"] = value!(false);
        }
        if self.unaddressed > 0 {
            without_addresses(&mut new);
        }
        json(
            201,
            &value!({"load_balancer": new, "action": action}).to_string(),
        )
    }

    fn is_detached(&self, target: &Value) -> bool {
        let id = target["server"]["id"].as_u64().unwrap_or_default();
        self.detached.contains(&id)
    }

    fn is_absent(&self, target: &Value) -> bool {
        let id = target["server"]["id"].as_u64().unwrap_or_default();
        self.absent.contains(&id)
    }

    fn create_certificate(&mut self, body: &Value) -> Answer {
        if self
            .certificates
            .values()
            .any(|one| one["name"] == body["name"])
        {
            return refused(409, "uniqueness_error");
        }
        let id = self.id();
        let new = value!({"id": id, "name": body["name"], "type": body["type"], "labels": body["labels"],
            "status": {"issuance": "completed", "renewal": "unavailable", "error": null}, "used_by": []});
        self.certificates.insert(id, new.clone());
        let action = self.begin("create_certificate", id);
        json(
            201,
            &value!({"certificate": new, "action": action}).to_string(),
        )
    }

    fn update(&mut self, id: u64, body: &Value) -> Answer {
        let taken = |one: (&u64, &Value)| *one.0 != id && one.1["name"] == body["name"];
        if body.get("name").is_some() && self.load_balancers.iter().any(taken) {
            return refused(409, "uniqueness_error");
        }
        let Some(found) = self.load_balancers.get_mut(&id) else {
            return refused(404, "not_found");
        };
        for key in ["name", "labels"] {
            if let Some(new) = body.get(key) {
                found[key] = new.clone();
            }
        }
        json(200, &value!({"load_balancer": found}).to_string())
    }

    fn delete(&mut self, id: u64) -> Answer {
        match self.load_balancers.get(&id) {
            None => refused(404, "not_found"),
            Some(found) if found["protection"]["delete"] == true => refused(422, "protected"),
            Some(_) => {
                self.load_balancers.remove(&id);
                json(204, "")
            }
        }
    }

    fn act(&mut self, id: u64, action: &str, body: &Value) -> Answer {
        if self.locks && self.actions.values().any(|left| *left > 0) {
            return refused(423, "locked");
        }
        let (detached, absent) = (self.is_detached(body), self.is_absent(body));
        let Some(found) = self.load_balancers.get_mut(&id) else {
            return refused(404, "not_found");
        };
        let port = |one: &Value| one["listen_port"] == body["listen_port"];
        let target = |one: &Value| {
            one["server"]["id"] == body["server"]["id"] && one["ip"]["ip"] == body["ip"]["ip"]
        };
        let (services, targets) = (list_of(found, "services"), list_of(found, "targets"));
        match action {
            "add_service" if services.iter().any(port) => {
                return refused(409, "source_port_already_used");
            }
            "add_service" => push(found, "services", filled(&Value::Null, body)),
            "update_service" => {
                let Some(old) = services.iter().find(|one| port(one)) else {
                    return refused(404, "not_found");
                };
                let new = filled(old, body);
                drop_where(found, "services", port);
                push(found, "services", new);
            }
            "delete_service" => drop_where(found, "services", port),
            "add_target" if targets.iter().any(target) => {
                return refused(422, "target_already_defined");
            }
            "add_target" if targets.len() >= self.max_targets => {
                return refused(422, "resource_limit_exceeded");
            }
            "add_target"
                if found["public_net"]["enabled"] == false && body["use_private_ip"] == false =>
            {
                return refused(422, "load_balancer_public_interface_disabled");
            }
            "add_target" if absent => return refused(404, "not_found"),
            "add_target" if detached => return refused(422, "server_not_attached_to_network"),
            "add_target" => push(found, "targets", body.clone()),
            "remove_target" => drop_where(found, "targets", target),
            "change_algorithm" => found["algorithm"] = body.clone(),
            "change_type" => {
                found["load_balancer_type"]["name"] = body["load_balancer_type"].clone()
            }
            "attach_to_network" => {
                let ip = body.get("ip").cloned().unwrap_or(value!("10.0.0.2"));
                found["private_net"] = value!([{"network": body["network"], "ip": ip}]);
            }
            // Detaching also removes targets that are reached through the network.
            "detach_from_network" => {
                found["private_net"] = value!([]);
                drop_where(found, "targets", |one| one["use_private_ip"] == true);
            }
            "enable_public_interface" => found["public_net"]["enabled"] = value!(true),
            "disable_public_interface" => found["public_net"]["enabled"] = value!(false),
            "change_dns_ptr" => {
                let family = match body["ip"].as_str().unwrap_or_default().contains(':') {
                    true => "ipv6",
                    false => "ipv4",
                };
                found["public_net"][family]["dns_ptr"] = body["dns_ptr"].clone();
            }
            _ => return refused(404, "not_found"),
        }
        let action = self.begin(action, id);
        json(201, &value!({"action": action}).to_string())
    }
}

fn without_addresses(one: &mut Value) {
    for family in ["ipv4", "ipv6"] {
        one["public_net"][family] = value!({"ip": null, "dns_ptr": null});
    }
}

fn blank(id: u64, name: &str) -> Value {
    let mut fixture: Value = serde_json::from_str(LOAD_BALANCER).unwrap_or_default();
    let mut new = fixture["load_balancer"].take();
    new["id"] = value!(id);
    new["name"] = value!(name);
    for key in ["services", "targets", "private_net"] {
        new[key] = value!([]);
    }
    new
}

/// A service with the API's defaults filled in.
fn filled(old: &Value, said: &Value) -> Value {
    let mut new = value!({"proxyprotocol": false, "http": null,
        "health_check": {"interval": 15, "timeout": 10, "retries": 3}});
    merge(&mut new, old);
    merge(&mut new, said);
    if new["protocol"] == "tcp" {
        new["http"] = Value::Null;
    }
    new
}

fn merge(into: &mut Value, from: &Value) {
    match (into.as_object_mut(), from.as_object()) {
        (Some(into), Some(from)) => {
            for (key, value) in from {
                merge(into.entry(key.as_str()).or_insert(Value::Null), value);
            }
        }
        _ if from.is_null() => {}
        _ => *into = from.clone(),
    }
}

fn list_of(object: &Value, key: &str) -> Vec<Value> {
    object[key].as_array().cloned().unwrap_or_default()
}

fn push(object: &mut Value, key: &str, new: Value) {
    if let Some(list) = object[key].as_array_mut() {
        list.push(new);
    }
}

fn drop_where(object: &mut Value, key: &str, which: impl Fn(&Value) -> bool) {
    if let Some(list) = object[key].as_array_mut() {
        list.retain(|one| !which(one));
    }
}

fn list(kind: &str, all: &BTreeMap<u64, Value>, seen: &Seen) -> Answer {
    let selector = seen
        .query("label_selector")
        .and_then(|text| text.split_once('='));
    let name = seen.query("name");
    let found: Vec<&Value> = all
        .values()
        .filter(|one| selector.is_none_or(|(key, value)| one["labels"][key] == value))
        .filter(|one| name.is_none_or(|name| one["name"] == name))
        .collect();
    let total = found.len();
    let answer = value!({kind: found, "meta": {"pagination": {"page": 1, "per_page": 50,
        "previous_page": null, "next_page": null, "last_page": 1, "total_entries": total}}});
    json(200, &answer.to_string())
}

fn number(text: &str) -> u64 {
    text.parse().unwrap_or_default()
}

/// An error in the vendor's format.
pub fn refused(status: u16, code: &str) -> Answer {
    let answer = value!({"error": {"code": code, "message": "refused", "details": null}});
    json(status, &answer.to_string())
}
