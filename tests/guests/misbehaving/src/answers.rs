//! Answers that must not be believed: of the wrong shape, of the wrong meaning, or without proof.

use std::time::Duration;

use ccm_guest::http::Request;
use ccm_guest::{
    Address, AddressType, Error, Event, EventType, FindReply, Instance, Lookup, Node, NodeEvent,
    log, state,
};

use crate::behaviour::Behaviour;
use crate::resources::TOKEN;

/// The answer of a behaviour that is about answers.
///
/// # Errors
/// Where the behaviour is an error.
pub fn find(behaviour: Behaviour, nodes: &[Node]) -> Result<FindReply, Error> {
    let lookups = nodes.iter().map(|node| look_up(behaviour, node)).collect();
    // Not by `new`, which keeps answers within the limits.
    let mut reply = FindReply {
        lookups,
        events: Vec::new(),
    };
    match behaviour {
        Behaviour::GoneBesideOthers if !reply.lookups.iter().any(is_found) => {
            for lookup in &mut reply.lookups {
                if matches!(lookup, Lookup::Gone) {
                    *lookup = Lookup::Unknown("a 404 alone proves nothing".to_owned());
                }
            }
        }
        Behaviour::TooFewLookups => {
            reply.lookups.pop();
        }
        Behaviour::TooManyLookups => reply.lookups.push(Lookup::NotMine),
        Behaviour::NoLookups => reply.lookups.clear(),
        Behaviour::HugeString => {
            let reason = "z".repeat(16 * 1024 * 1024);
            if let Some(first) = reply.lookups.first_mut() {
                *first = Lookup::Unknown(reason);
            }
        }
        Behaviour::ManyEvents => reply.events = vec![event(0, "Flood", "one of many"); 100_000],
        Behaviour::EventOutOfRange => {
            reply
                .events
                .push(event(u32::MAX, "Elsewhere", "about nobody"))
        }
        Behaviour::BadEvent => {
            reply
                .events
                .push(event(0, "not a word\n", "line one\nline two\x1b[31m\0"))
        }
        Behaviour::FailsSometimes if is_tenth_call() => {
            return Err(Error::unavailable("every tenth call fails"));
        }
        Behaviour::GarbageError => return Err(garbage(4_000)),
        Behaviour::HugeGarbageError => return Err(garbage(400_000)),
        _ => {}
    }
    Ok(reply)
}

fn is_found(lookup: &Lookup) -> bool {
    matches!(lookup, Lookup::Found(_))
}

fn garbage(times: usize) -> Error {
    let garbage = "\x1b[2J\x1b[31mall is well\r\n\0\u{202e}".repeat(times);
    Error::internal(format!("{TOKEN} {garbage}"))
}

fn look_up(behaviour: Behaviour, node: &Node) -> Lookup {
    let mut instance = honest(node);
    match behaviour {
        Behaviour::GoneBesideOthers if !provider_id(node).starts_with("misbehaving://") => {
            return Lookup::NotMine;
        }
        Behaviour::HonestRequests | Behaviour::GoneBesideOthers | Behaviour::FailsSometimes => {
            log::info("asking about a machine", &[("name", &node.name)]);
            return by_request(node, |error| Lookup::Unknown(error.message().to_owned()));
        }
        Behaviour::OtherZone => {
            let lookup = by_request(node, |error| Lookup::Unknown(error.message().to_owned()));
            return match lookup {
                Lookup::Found(instance) => Lookup::Found(Instance {
                    zone: Some("zone-2".to_owned()),
                    ..instance
                }),
                other => other,
            };
        }
        Behaviour::GoneAfterFailure => return by_request(node, |_| Lookup::Gone),
        Behaviour::GoneAfterFailureIfNotReady => {
            return by_request(node, |error| match node.readiness().is_ready() {
                true => Lookup::Unknown(error.message().to_owned()),
                false => Lookup::Gone,
            });
        }
        Behaviour::GoneWithoutAsking => return Lookup::Gone,
        Behaviour::FromState => return from_state(node),
        Behaviour::BadAddresses => instance.addresses = bad_addresses(),
        Behaviour::BadLabels => {
            instance.instance_type = Some("has blanks".to_owned());
            instance.zone = Some("zone/with/slashes".to_owned());
            instance.region = Some("-begins-with-a-dash".to_owned());
            instance.labels = vec![
                label("not a key", "value"),
                label("key", "value\nof two lines"),
            ];
        }
        Behaviour::LongLabel => instance.instance_type = Some("x".repeat(155)),
        Behaviour::LongAddress => {
            instance.addresses = vec![address(AddressType::ExternalDns, &"x".repeat(300))];
        }
        Behaviour::ReservedLabels => {
            instance.labels = vec![
                label("node-role.kubernetes.io/control-plane", "true"),
                label("kubernetes.io/hostname", "another-node"),
                label("node.k8s.io/thing", "true"),
                label("wasm-ccm.dev/provider", "somebody-else"),
            ];
        }
        Behaviour::TokenAsLabel => instance.labels = vec![label("key", TOKEN)],
        Behaviour::ChangedProviderId => {
            instance.provider_id = format!("misbehaving://another-{}", node.name)
        }
        Behaviour::ForeignScheme => {
            instance.provider_id = format!("aws:///eu-central-1a/{}", node.name)
        }
        Behaviour::ManyAddresses => {
            let address = |number| {
                address(
                    AddressType::InternalIp,
                    &format!("10.0.{}.{}", number / 256, number % 256),
                )
            };
            instance.addresses = (0..10_000).map(address).collect();
        }
        _ => {}
    }
    Lookup::Found(instance)
}

/// The answer of a good provider.
fn honest(node: &Node) -> Instance {
    Instance {
        instance_type: Some("small".to_owned()),
        zone: Some("zone-1".to_owned()),
        region: Some("region".to_owned()),
        addresses: vec![
            address(AddressType::Hostname, &node.name),
            address(AddressType::InternalIp, "192.0.2.7"),
        ],
        shutdown: Some(false),
        ..Instance::new(provider_id(node))
    }
}

fn provider_id(node: &Node) -> String {
    node.provider_id
        .clone()
        .unwrap_or_else(|| format!("misbehaving://{}", node.name))
}

fn by_request(node: &Node, failed: impl Fn(Error) -> Lookup) -> Lookup {
    let answer = Request::get("api", format!("/machines/{}", node.name)).send();
    match answer.and_then(ccm_guest::http::Response::found) {
        Ok(Some(_)) => Lookup::Found(honest(node)),
        Ok(None) => Lookup::Gone,
        Err(error) => failed(error),
    }
}

/// Counts the calls of this generation in `state`, which a fresh call does not see.
fn is_tenth_call() -> bool {
    let key = "calls";
    let count = state::get(key).map_or(0, |bytes| bytes.first().copied().unwrap_or_default());
    let count = (count + 1) % 10;
    state::set(key, &[count], Duration::from_secs(3600));
    count == 0
}

/// The first call stores `gone` and answers `found`; later calls answer what was stored.
fn from_state(node: &Node) -> Lookup {
    let key = format!("verdict/{}", node.name);
    if state::get(&key).is_some() {
        return Lookup::Gone;
    }
    state::set(&key, b"gone", Duration::from_secs(3600));
    Lookup::Found(honest(node))
}

fn bad_addresses() -> Vec<Address> {
    vec![
        address(AddressType::InternalIp, "not-an-ip"),
        address(AddressType::InternalIp, "127.0.0.1"),
        address(AddressType::InternalIp, "fe80::1%eth0"),
        address(AddressType::ExternalIp, "169.254.169.254"),
        address(AddressType::ExternalIp, "0.0.0.0"),
        address(AddressType::ExternalIp, "203.0.113.0/24"),
        address(AddressType::Hostname, "name with blanks\n"),
    ]
}

fn address(address_type: AddressType, address: &str) -> Address {
    Address {
        address_type,
        address: address.to_owned(),
    }
}

fn label(key: &str, value: &str) -> (String, String) {
    (key.to_owned(), value.to_owned())
}

fn event(node: u32, reason: &str, message: &str) -> NodeEvent {
    NodeEvent {
        node,
        event: Event {
            event_type: EventType::Warning,
            reason: reason.to_owned(),
            message: message.to_owned(),
        },
    }
}
