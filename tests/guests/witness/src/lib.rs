//! A provider of contract 0.1 that repeats what it gets from the host, so that a test sees what a module of that
//! version sees. No SDK: only the contract.
#![cfg(target_arch = "wasm32")]
#![allow(
    missing_docs,
    unsafe_code,
    unreachable_pub,
    unused_qualifications,
    clippy::allow_attributes_without_reason,
    clippy::unwrap_used,
    reason = "generated: lifting and lowering need unsafe code"
)]

use std::cell::RefCell;

/// The bindings generated from `wit/v0.1`: `guest-sdk/bindings` writes them.
#[rustfmt::skip]
mod bindings;

use bindings::ccm::provider::common::{
    Address, AddressType, AnnotationChange, Conflict, Error, Ingress, Instance, LoadBalancerStatus,
    Node,
};
use bindings::ccm::provider::http::{self, Method, Request};
use bindings::ccm::provider::{clock, log, random, state};
use bindings::exports::ccm::provider::instances::{FindReply, Guest as Instances, Lookup};
use bindings::exports::ccm::provider::lifecycle::{Capability, Config, Guest as Lifecycle};
use bindings::exports::ccm::provider::load_balancer::{
    self as balancers, EnsureReply, EnsureRequest, Ensured, Found, Guest as LoadBalancer, Service,
};
use bindings::exports::ccm::provider::routes::{self, Guest as Routes, Route, Target};
use bindings::exports::ccm::provider::self_check::Guest as SelfCheck;

const MANIFEST: &[u8] = include_bytes!("../manifest.json");

/// The manifest, which the host reads without running the component.
#[unsafe(link_section = "ccm:manifest")]
#[used]
static SECTION: [u8; MANIFEST.len()] = {
    let mut bytes = [0; MANIFEST.len()];
    bytes.copy_from_slice(MANIFEST);
    bytes
};

thread_local! {
    /// `extra` of the configuration, as `key=value`.
    static EXTRA: RefCell<String> = const { RefCell::new(String::new()) };
}

struct Component;

bindings::export!(Component with_types_in bindings);

impl Lifecycle for Component {
    fn init(config: Config) -> Result<Vec<Capability>, Error> {
        EXTRA.set(shown(&config.extra));
        Ok(vec![
            Capability::Instances,
            Capability::LoadBalancer,
            Capability::Routes,
        ])
    }
}

impl SelfCheck for Component {
    /// Asks the target `more`, where that is granted, and believes any answer.
    fn check() -> Result<(), Error> {
        if EXTRA.with_borrow(|extra| extra.ends_with(",more")) {
            let _ = http::fetch(&get("more", "/".to_owned()));
        }
        let bytes = random::bytes(3).len();
        let kept = state::set("key", &[7], 1000) && state::get("key") == Some(vec![7]);
        let is_now = clock::now() > 0 && clock::monotonic() <= clock::monotonic();
        log::log(log::Level::Info, "all functions were called", &[]);
        match bytes == 3 && kept && is_now {
            true => Ok(()),
            false => Err(Error::Internal(
                "a function of the host does not work".to_owned(),
            )),
        }
    }
}

impl Instances for Component {
    fn find(nodes: Vec<Node>) -> Result<FindReply, Error> {
        let lookups = nodes.iter().map(look_up).collect();
        Ok(FindReply {
            lookups,
            events: Vec::new(),
        })
    }
}

/// 200: the machine exists, with the parts of the question in its fields. 404: it is gone. No answer: unknown.
fn look_up(node: &Node) -> Lookup {
    match http::fetch(&get("api", format!("/machines/{}", node.name))) {
        Ok(answer) if answer.status == 404 => Lookup::Gone,
        Ok(_) => Lookup::Found(Instance {
            provider_id: format!("witness://{}", node.name),
            instance_type: None,
            zone: None,
            region: None,
            addresses: many_addresses(node),
            labels: vec![
                ("node".to_owned(), shown(&node.extra)),
                ("config".to_owned(), EXTRA.with_borrow(String::clone)),
            ],
            shutdown: None,
            extra: Vec::new(),
        }),
        Err(error) => Lookup::Unknown(format!("{error:?}")),
    }
}

fn get(target: &str, path: String) -> Request {
    Request {
        target: target.to_owned(),
        method: Method::Get,
        path,
        query: Vec::new(),
        headers: Vec::new(),
        body: None,
    }
}

/// As many addresses as the node's name says.
fn many_addresses(node: &Node) -> Vec<Address> {
    let count = node
        .name
        .rsplit('-')
        .next()
        .and_then(|count| count.parse().ok());
    let address = |index: usize| Address {
        address_type: AddressType::InternalIp,
        address: format!("10.0.0.{index}"),
    };
    (1..=count.unwrap_or(1)).map(address).collect()
}

impl LoadBalancer for Component {
    /// A conflict, for a Service called `taken`, until it may be taken over.
    fn ensure(request: EnsureRequest) -> Result<EnsureReply, Error> {
        let owner = match request.service.name.as_str() {
            "taken" => Some("somebody".to_owned()),
            "unowned" => None,
            _ => return Ok(ready(&request)),
        };
        match request.adopt.as_deref() == Some(owner.as_deref().unwrap_or_default()) {
            true => Ok(ready(&request)),
            false => Err(Error::Conflict(Conflict {
                message: "it is there".to_owned(),
                owner,
            })),
        }
    }

    fn update_targets(_: balancers::UpdateRequest) -> Result<balancers::ProgressReply, Error> {
        Err(Error::Unavailable("there is none".to_owned()))
    }

    fn delete(_: balancers::DeleteRequest) -> Result<balancers::ProgressReply, Error> {
        Ok(balancers::ProgressReply {
            progress: balancers::Progress::Done,
            events: Vec::new(),
            annotations: Vec::new(),
        })
    }

    fn get(_: Service) -> Result<Found, Error> {
        Ok(Found::Absent)
    }
}

fn ready(request: &EnsureRequest) -> EnsureReply {
    let targets = request
        .targets
        .iter()
        .map(|node| format!("{} {}", node.name, shown(&node.extra)));
    let ingress = Ingress {
        ip: Some("192.0.2.1".to_owned()),
        hostname: None,
        ip_mode: None,
        ports: Vec::new(),
    };
    EnsureReply {
        ensured: Ensured::Ready(LoadBalancerStatus {
            ingress: vec![ingress],
        }),
        events: Vec::new(),
        annotations: vec![AnnotationChange {
            key: "witness.example/targets".to_owned(),
            value: Some(targets.collect::<Vec<_>>().join(",")),
        }],
    }
}

impl Routes for Component {
    fn list(nodes: Vec<Node>) -> Result<Vec<Route>, Error> {
        let route = |node: Node| Route {
            id: shown(&node.extra),
            destination_cidr: "10.1.0.0/24".to_owned(),
            target: Target::Node(node.name),
            extra: Vec::new(),
        };
        Ok(nodes.into_iter().map(route).collect())
    }

    fn create(request: routes::CreateRequest) -> Result<routes::ProgressReply, Error> {
        Err(Error::Unsupported(shown(&request.node.extra)))
    }

    fn delete(_: routes::DeleteRequest) -> Result<routes::ProgressReply, Error> {
        Err(Error::Elsewhere)
    }
}

fn shown(extra: &[(String, String)]) -> String {
    let pairs = extra.iter().map(|(key, value)| format!("{key}={value}"));
    pairs.collect::<Vec<_>>().join(" ")
}
