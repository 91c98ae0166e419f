//! A scripted account for native tests: it carries out requests on the documented objects, and checks nothing. The
//! vendor's checks are in the simulator, which the tests of the sandbox use.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::cell::RefCell;
use std::rc::Rc;

use ccm_guest::load_balancer::Service;
use ccm_guest::testing::{Answer, Seen, TestHost, config, json, node, service};
use ccm_guest::{Address, Node};
use serde_json::{Value, json as value};

use crate::config::Settings;

const MANIFEST: &str = include_str!("../../manifest.json");
const LOAD_BALANCER: &str = include_str!("../../fixtures/load-balancer.json");
const NOT_FOUND: &str = include_str!("../../fixtures/error-not-found.json");
/// The list has the droplets from 1 to this id. Those with higher ids exist, too, as one with a GPU does.
const LISTED: u64 = 100;

/// The scripted account.
#[derive(Default)]
pub struct Account {
    /// Load balancers as JSON of the API.
    pub load_balancers: Vec<Value>,
    /// Certificates as JSON of the API.
    pub certificates: Vec<Value>,
    /// Names of the account's tags.
    pub tags: Vec<String>,
    /// Answers that replace the regular ones: each once, to a request that begins with this text.
    pub instead: Vec<(&'static str, Answer)>,
    /// Droplets that do not exist.
    pub gone: Vec<u64>,
    /// The status of new load balancers in the API.
    pub status: &'static str,
    /// Whether no answer shows the tags that a load balancer is given later.
    pub hides_tags: bool,
}

impl Account {
    /// An empty account, whose new load balancers are active at once.
    pub fn new() -> Account {
        Account {
            status: "active",
            ..Account::default()
        }
    }

    /// Serves the account on this thread.
    pub fn serve(self) -> (TestHost, Rc<RefCell<Account>>) {
        let account = Rc::new(RefCell::new(self));
        let served = Rc::clone(&account);
        let host = TestHost::new(MANIFEST, move |seen| served.borrow_mut().answer(seen));
        (host, account)
    }

    /// Adds a load balancer of the documented form, with these fields.
    pub fn put(&mut self, fields: &Value) {
        let mut fixture: Value = serde_json::from_str(LOAD_BALANCER).unwrap();
        let mut new = fixture["load_balancer"].take();
        merge(&mut new, fields);
        self.load_balancers.push(new);
    }

    fn answer(&mut self, seen: &Seen) -> Answer {
        let line = seen.line();
        if let Some(place) = self
            .instead
            .iter()
            .position(|(begin, _)| line.starts_with(begin))
        {
            return self.instead.remove(place).1;
        }
        let body: Value = serde_json::from_slice(&seen.body).unwrap_or_default();
        let path: Vec<&str> = seen.path_only().split('/').skip(2).collect();
        let named = body["droplet_ids"].as_array().into_iter().flatten();
        let is_gone = |id: &Value| self.gone.iter().any(|gone| *id == value!(gone));
        if seen.method != "DELETE" && named.clone().any(is_gone) {
            return json(
                422,
                r#"{"id": "unprocessable_entity", "message": "no such droplet"}"#,
            );
        }
        match (seen.method, path.as_slice()) {
            ("GET", ["load_balancers"]) => list("load_balancers", &self.load_balancers),
            ("GET", ["certificates"]) => {
                let name = seen.query("name").unwrap_or_default();
                let named = self.certificates.iter().filter(|one| one["name"] == name);
                list("certificates", &named.cloned().collect::<Vec<_>>())
            }
            ("GET", ["certificates", id]) => one("certificate", &self.certificates, id),
            ("GET", ["load_balancers", id]) => one("load_balancer", &self.load_balancers, id),
            ("POST", ["load_balancers"]) => {
                let number = self.load_balancers.len() + 1;
                let mut new = body;
                new["id"] = value!(format!("00000000-0000-4000-8000-{number:012}"));
                new["status"] = value!(self.status);
                new["ip"] = value!(if self.status == "active" {
                    "203.0.113.7"
                } else {
                    ""
                });
                let region = new["region"].take();
                new["region"] = value!({"slug": region});
                self.load_balancers.push(new.clone());
                json(202, &value!({"load_balancer": new}).to_string())
            }
            ("PUT", ["load_balancers", id]) => match self.find(id) {
                None => json(404, NOT_FOUND),
                Some(found) => {
                    for (key, value) in body.as_object().unwrap() {
                        found[key] = value.clone();
                    }
                    let slug = found["region"].take();
                    found["region"] = value!({"slug": slug});
                    json(200, &value!({"load_balancer": found}).to_string())
                }
            },
            ("DELETE", ["load_balancers", id]) => {
                let before = self.load_balancers.len();
                self.load_balancers.retain(|one| one["id"] != *id);
                match self.load_balancers.len() < before {
                    true => json(204, ""),
                    false => json(404, NOT_FOUND),
                }
            }
            (method, ["load_balancers", id, "droplets"]) => match self.find(id) {
                None => json(404, NOT_FOUND),
                Some(found) => {
                    let named = body["droplet_ids"].as_array().unwrap().clone();
                    let droplets = found["droplet_ids"].as_array_mut().unwrap();
                    droplets.retain(|one| !named.contains(one));
                    if method == "POST" {
                        droplets.extend(named);
                    }
                    json(204, "")
                }
            },
            ("GET", ["droplets"]) => {
                let all = (1..=LISTED).filter(|id| !self.gone.contains(id));
                list("droplets", &all.map(droplet).collect::<Vec<_>>())
            }
            ("GET", ["droplets", id]) if !self.gone.iter().any(|gone| gone.to_string() == **id) => {
                let droplet = droplet(id.parse().unwrap());
                json(200, &value!({"droplet": droplet}).to_string())
            }
            ("POST", ["tags"]) => {
                let name = body["name"].as_str().unwrap().to_owned();
                if !self.tags.contains(&name) {
                    self.tags.push(name);
                }
                json(201, &value!({"tag": body}).to_string())
            }
            ("POST", ["tags", name, "resources"]) if !self.tags.iter().any(|tag| tag == name) => {
                json(404, NOT_FOUND)
            }
            (method, ["tags", name, "resources"]) => {
                let resource = &body["resources"][0];
                assert_eq!(resource["resource_type"], "load_balancer");
                let hides_tags = self.hides_tags;
                match self.find(resource["resource_id"].as_str().unwrap()) {
                    None => json(404, NOT_FOUND),
                    Some(_) if hides_tags => json(204, ""),
                    Some(found) => {
                        if found["tags"].is_null() {
                            found["tags"] = value!([]);
                        }
                        let tags = found["tags"].as_array_mut().unwrap();
                        tags.retain(|tag| tag != name);
                        if method == "POST" {
                            tags.push(value!(name));
                        }
                        json(204, "")
                    }
                }
            }
            (method, ["tags", name]) => match self.tags.iter().position(|tag| tag == name) {
                None => json(404, NOT_FOUND),
                Some(_) if method == "GET" => json(200, "{}"),
                Some(place) => {
                    let tag = self.tags.remove(place);
                    for one in &mut self.load_balancers {
                        if let Some(tags) = one["tags"].as_array_mut() {
                            tags.retain(|one| *one != tag);
                        }
                    }
                    json(204, "")
                }
            },
            ("GET", ["vpcs", _]) => json(200, r#"{"vpc": {"region": "nyc3"}}"#),
            _ => json(404, NOT_FOUND),
        }
    }

    fn find(&mut self, id: &str) -> Option<&mut Value> {
        self.load_balancers.iter_mut().find(|one| one["id"] == id)
    }
}

fn merge(into: &mut Value, from: &Value) {
    for (key, value) in from.as_object().unwrap() {
        into[key] = value.clone();
    }
}

fn list(kind: &str, all: &[Value]) -> Answer {
    let answer = value!({kind: all, "links": {}, "meta": {"total": all.len()}});
    json(200, &answer.to_string())
}

fn droplet(id: u64) -> Value {
    value!({"id": id, "name": "any", "status": "active", "size_slug": "s-1vcpu-1gb", "region": {"slug": "nyc3"}})
}

fn one(kind: &str, all: &[Value], id: &str) -> Answer {
    match all.iter().find(|one| one["id"] == id) {
        Some(found) => json(200, &value!({kind: found}).to_string()),
        None => json(404, NOT_FOUND),
    }
}

/// The settings with these values and a region.
pub fn settings(values: &[(&str, &str)]) -> Settings {
    let region = [("REGION", "nyc3")];
    let values: Vec<_> = region.iter().chain(values).copied().collect();
    Settings::read(&config(&values)).unwrap()
}

/// The Service `web` with two ports and these annotations; a name without a slash gets the prefix of load balancers.
pub fn web(annotations: &[(&str, &str)]) -> Service {
    let mut web = service("web", &[(80, 30080), (443, 30443)]);
    web.annotations = annotations
        .iter()
        .map(|(key, value)| match key.contains('/') {
            true => ((*key).to_owned(), (*value).to_owned()),
            false => (
                format!("service.beta.kubernetes.io/do-loadbalancer-{key}"),
                (*value).to_owned(),
            ),
        })
        .collect();
    web
}

/// A node on the droplet with this id, with a public IPv4 address.
pub fn worker(id: u64) -> Node {
    let mut worker = node(
        &format!("worker-{id}"),
        Some(&format!("digitalocean://{id}")),
    );
    worker.addresses = vec![
        Address::internal("10.0.0.7"),
        Address::external("203.0.113.9"),
    ];
    worker
}
