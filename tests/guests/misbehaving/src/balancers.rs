//! Load balancers, made well or badly: answers that must not be believed or are too large, too many writes, and false
//! proofs of absence.

use std::time::Duration;

use ccm_guest::http::{Request, Response, send_all};
use ccm_guest::load_balancer::{
    DeleteRequest, EnsureReply, EnsureRequest, Ensured, Found, Progress, ProgressReply, Service,
    UpdateRequest,
};
use ccm_guest::{
    AnnotationChange, Error, Event, EventType, Failure, Ingress, LoadBalancerStatus, Node, Owner,
    Pending, PortStatus, Protocol, log, state,
};

use crate::behaviour::Balancing;
use crate::resources;

/// The annotation domain that the manifest requests.
const DOMAIN: &str = "misbehaving.example";
const MIB: usize = 1024 * 1024;
const GARBAGE: &str = "\x1b[2J\x1b[31mall is well\r\n\0\u{202e}";

/// # Errors
/// Where the behaviour is an error, and where the cloud does not answer.
pub fn ensure(balancing: Balancing, request: &EnsureRequest) -> Result<EnsureReply, Error> {
    before(balancing)?;
    let ensured = match balancing {
        Balancing::Honest => honest_ensure(request)?,
        Balancing::Echo => Ensured::Ready(request.service.status.clone()),
        Balancing::HugeHint | Balancing::Never | Balancing::AtOnce => {
            Ensured::Pending(pending(balancing))
        }
        Balancing::ManyCreates => many_creates(&request.service)?,
        Balancing::BelievesKept => {
            look(&request.service, true)?;
            ready(vec![way_in("203.0.113.10")])
        }
        Balancing::BelievesState => {
            state::set("verdict", b"absent", Duration::from_secs(3600));
            ready(vec![way_in("203.0.113.10")])
        }
        balancing => ready(ways_in(balancing)),
    };
    let annotations = match balancing {
        Balancing::Echo => request_parts(request),
        balancing => annotations(balancing),
    };
    Ok(EnsureReply {
        ensured,
        events: events(balancing),
        annotations,
    })
}

/// # Errors
/// Where the behaviour is an error, and where the cloud does not answer.
pub fn update_targets(
    balancing: Balancing,
    request: &UpdateRequest,
) -> Result<ProgressReply, Error> {
    before(balancing)?;
    let progress = match balancing {
        Balancing::Honest => {
            if look(&request.service, false)?.is_none() {
                return Err(Error::unavailable("there is no load balancer"));
            }
            log::info("changing the targets", &[]);
            Request::put("api", path(&request.service))
                .json(&names(&request.targets))?
                .send()?
                .ok()?;
            Progress::Done
        }
        Balancing::Echo => Progress::Pending(Pending {
            retry_after_ms: request.targets.len() as u64,
            hint: request.hint.clone(),
        }),
        balancing => progress(balancing),
    };
    Ok(reply(balancing, progress))
}

/// # Errors
/// Where the behaviour is an error, and where the cloud does not answer.
pub fn delete(balancing: Balancing, request: &DeleteRequest) -> Result<ProgressReply, Error> {
    before(balancing)?;
    let progress = match balancing {
        Balancing::Honest => {
            if look(&request.service, false)?.is_some() {
                log::info("deleting the load balancer", &[]);
                Request::delete("api", path(&request.service))
                    .send()?
                    .found()?;
            }
            Progress::Done
        }
        balancing => progress(balancing),
    };
    Ok(reply(balancing, progress))
}

/// # Errors
/// Where the behaviour is an error, and where the cloud does not answer.
pub fn get(balancing: Balancing, service: &Service) -> Result<Found, Error> {
    before(balancing)?;
    match balancing {
        Balancing::Honest => found(look(service, false)?),
        Balancing::Echo => Ok(Found::Present(service.status.clone())),
        Balancing::AbsentWithoutAsking => Ok(Found::Absent),
        Balancing::AbsentAfterFailure => {
            // The result does not matter.
            let _ = look(service, false);
            Ok(Found::Absent)
        }
        Balancing::BelievesKept => found(look(service, true)?),
        Balancing::BelievesState if state::get("verdict").is_some() => Ok(Found::Absent),
        Balancing::ManyLooks => {
            let looks = (0..8).map(|_| Request::get("api", path(service)));
            let mut last = None;
            for answer in send_all(looks.collect()) {
                last = answer?.found()?;
            }
            found(last)
        }
        Balancing::DeletesInGet => {
            Request::delete("api", path(service)).send()?.ok()?;
            Ok(Found::Absent)
        }
        balancing => Ok(Found::Present(LoadBalancerStatus {
            ingress: ways_in(balancing),
        })),
    }
}

/// The Events that go with an error.
pub fn failure(balancing: Balancing, error: Error) -> Failure {
    let event = |reason: &str| Event::warning(reason, "look at it");
    let events = match balancing {
        Balancing::ManyFailureEvents => vec![event("Wrong"); 100_000],
        Balancing::MarkupFailureReason => vec![event("<script>")],
        _ => Vec::new(),
    };
    // `Error::with_events` would keep the first 16.
    Failure { error, events }
}

/// Behaviours that end before an answer.
fn before(balancing: Balancing) -> Result<(), Error> {
    match balancing {
        Balancing::Panic => resources::panic_with_message(),
        Balancing::Spin => resources::spin(),
        Balancing::MemoryBomb => Err(Error::internal(resources::memory_bomb())),
        Balancing::HugeOwner => Err(Error::conflict("taken", Some(Owner::uid("u".repeat(MIB))))),
        Balancing::NamelessOwner => {
            let owner = Owner::name("default", "Web/../admin");
            Err(Error::conflict("taken", Some(owner)))
        }
        Balancing::ManyFailureEvents | Balancing::MarkupFailureReason => {
            Err(Error::invalid("an annotation is wrong"))
        }
        Balancing::GarbageError => Err(Error::invalid(GARBAGE.repeat(40_000))),
        _ => Ok(()),
    }
}

fn honest_ensure(request: &EnsureRequest) -> Result<Ensured, Error> {
    let service = &request.service;
    if look(service, false)?.is_some() {
        return Ok(ready(vec![way_in("203.0.113.10")]));
    }
    create(service, &request.targets)?;
    Ok(Ensured::Pending(Pending {
        retry_after_ms: 500,
        hint: Some(b"made".to_vec()),
    }))
}

fn many_creates(service: &Service) -> Result<Ensured, Error> {
    for _ in 0..10 {
        create(service, &[])?;
    }
    Ok(ready(vec![way_in("203.0.113.10")]))
}

fn create(service: &Service, targets: &[Node]) -> Result<(), Error> {
    log::info("creating a load balancer", &[("service", &service.name)]);
    let request = Request::post("api", "/balancers");
    request.json(&names(targets))?.send()?.ok()?;
    Ok(())
}

/// Requests the Service's load balancer.
fn look(service: &Service, kept: bool) -> Result<Option<Response>, Error> {
    let request = Request::get("api", path(service));
    let request = match kept {
        true => request.max_age(Duration::from_secs(3600)),
        false => request,
    };
    request.send()?.found()
}

fn path(service: &Service) -> String {
    format!("/balancers/{}", service.uid)
}

fn names(nodes: &[Node]) -> Vec<&str> {
    nodes.iter().map(|node| node.name.as_str()).collect()
}

fn found(answer: Option<Response>) -> Result<Found, Error> {
    Ok(match answer {
        Some(_) => Found::Present(LoadBalancerStatus {
            ingress: vec![way_in("203.0.113.10")],
        }),
        None => Found::Absent,
    })
}

fn ready(ingress: Vec<Ingress>) -> Ensured {
    Ensured::Ready(LoadBalancerStatus { ingress })
}

fn progress(balancing: Balancing) -> Progress {
    match balancing {
        Balancing::HugeHint | Balancing::Never | Balancing::AtOnce => {
            Progress::Pending(pending(balancing))
        }
        _ => Progress::Done,
    }
}

fn reply(balancing: Balancing, progress: Progress) -> ProgressReply {
    ProgressReply {
        progress,
        events: events(balancing),
        annotations: annotations(balancing),
    }
}

fn pending(balancing: Balancing) -> Pending {
    let (retry_after_ms, hint) = match balancing {
        Balancing::HugeHint => (1_000, MIB),
        Balancing::Never => (u64::MAX, 1),
        _ => (0, 1),
    };
    Pending {
        retry_after_ms,
        hint: Some(vec![7; hint]),
    }
}

fn way_in(ip: &str) -> Ingress {
    Ingress {
        ip: Some(ip.to_owned()),
        hostname: None,
        ip_mode: None,
        ports: Vec::new(),
    }
}

fn named(hostname: &str) -> Ingress {
    Ingress {
        ip: None,
        hostname: Some(hostname.to_owned()),
        ip_mode: None,
        ports: Vec::new(),
    }
}

fn ways_in(balancing: Balancing) -> Vec<Ingress> {
    match balancing {
        Balancing::ManyWaysIn => vec![way_in("203.0.113.10"); 1_000],
        Balancing::NoWayIn => vec![Ingress {
            ip: None,
            ..way_in("")
        }],
        Balancing::HostileWaysIn => vec![
            way_in("127.0.0.1"),
            way_in("169.254.169.254"),
            way_in("::ffff:169.254.169.254"),
            way_in("10.96.0.1"),
            way_in("0.0.0.0"),
            way_in("203.0.113.10/32"),
            named("kubernetes.default.svc.cluster.local"),
            named("localhost"),
            named("*.example.com"),
            named("<script>alert(1)</script>"),
            named("two\nlines"),
        ],
        Balancing::LongHostname => vec![named(&"x".repeat(300))],
        Balancing::BadPorts => vec![Ingress {
            ports: vec![port(80, "it does not work"), port(0, "NoPort")],
            ..way_in("203.0.113.10")
        }],
        _ => vec![way_in("203.0.113.10")],
    }
}

fn port(port: u16, error: &str) -> PortStatus {
    PortStatus::new(port, Protocol::Tcp).with_error(error)
}

fn annotations(balancing: Balancing) -> Vec<AnnotationChange> {
    match balancing {
        Balancing::ForeignAnnotations => vec![
            change("kubectl.kubernetes.io/last-applied-configuration", "{}"),
            change("service.kubernetes.io/load-balancer-cleanup", "no"),
            change("wasm-ccm.dev/provider", "somebody-else"),
            change("another.example/thing", "mine"),
            change("misbehaving.example.evil.example/thing", "mine"),
            change("no-domain", "mine"),
        ],
        Balancing::ManyAnnotations => vec![change("misbehaving.example/a", "b"); 1_000],
        Balancing::HugeAnnotation => vec![change("misbehaving.example/a", &"b".repeat(MIB))],
        Balancing::TerminalAnnotation => vec![change("misbehaving.example/a", GARBAGE)],
        _ => Vec::new(),
    }
}

fn change(key: &str, value: &str) -> AnnotationChange {
    AnnotationChange {
        key: key.to_owned(),
        value: Some(value.to_owned()),
    }
}

fn events(balancing: Balancing) -> Vec<Event> {
    match balancing {
        Balancing::ManyEvents => vec![event("Flood", "one of many"); 100_000],
        Balancing::MarkupEvents => vec![
            event("Markup", "<script>alert(1)</script>"),
            event("Terminal", GARBAGE),
        ],
        Balancing::MarkupReason => vec![event("<b>Bold</b>", "as it is")],
        _ => Vec::new(),
    }
}

fn event(reason: &str, message: &str) -> Event {
    Event {
        event_type: EventType::Warning,
        reason: reason.to_owned(),
        message: message.to_owned(),
    }
}

/// The parts of `ensure`'s request but the status, one annotation for each group.
fn request_parts(request: &EnsureRequest) -> Vec<AnnotationChange> {
    let service = &request.service;
    let ends = (request.targets.first(), request.targets.last());
    let ends = match ends {
        (Some(first), Some(last)) => format!("{} to {}", first.name, last.name),
        _ => "none".to_owned(),
    };
    let groups = [
        (
            "name",
            format!("{}/{} {}", service.namespace, service.name, service.uid),
        ),
        (
            "maps",
            format!("{:?} {:?}", service.annotations, service.labels),
        ),
        ("ports", format!("{:?}", service.ports)),
        (
            "addresses",
            format!(
                "{:?} {:?} {:?}",
                service.requested_ip, service.source_ranges, service.cluster_ips
            ),
        ),
        (
            "policies",
            format!(
                "{:?} {:?} {:?} {:?}",
                service.class,
                service.external_traffic_policy,
                service.health_check_node_port,
                service.session_affinity_seconds
            ),
        ),
        (
            "families",
            format!("{:?} {:?}", service.ip_families, service.ip_family_policy),
        ),
        ("targets", format!("{}: {ends}", request.targets.len())),
        ("request", format!("{:?} {:?}", request.adopt, request.hint)),
    ];
    groups
        .map(|(name, value)| change(&format!("{DOMAIN}/{name}"), &value))
        .into()
}
