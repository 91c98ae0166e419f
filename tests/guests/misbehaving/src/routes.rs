//! Routes, made well or badly: answers that must not be believed or are too large, too many writes, and false proofs of
//! absence.

use std::time::Duration;

use ccm_guest::http::{Request, Response};
use ccm_guest::routes::{CreateRequest, DeleteRequest, Progress, ProgressReply, Route, Target};
use ccm_guest::{Error, Event, EventType, Node, Pending, log, state};

use crate::behaviour::Routing;
use crate::resources;

const MIB: usize = 1024 * 1024;
/// Destinations that no route of a cluster has, one of them twice.
const HOSTILE: [&str; 7] = [
    "0.0.0.0/0",
    "::/0",
    "169.254.169.254/32",
    "10.0.1.0/99",
    "everywhere",
    "10.0.1.0/24",
    "10.0.1.0/24",
];
const GARBAGE: &str = "\x1b[2J\x1b[31mall is well\r\n\0\u{202e}";

/// # Errors
/// Where the behaviour is an error, and where the cloud does not answer.
pub fn list(routing: Routing, nodes: &[Node]) -> Result<Vec<Route>, Error> {
    before(routing)?;
    let first = || nodes.first().map(route).into_iter().collect::<Vec<_>>();
    let towards = |destination: &str| {
        let mut routes = first();
        let lead = |route: &mut Route| route.destination_cidr = destination.to_owned();
        routes.iter_mut().for_each(lead);
        routes
    };
    let changed = |change: fn(&mut Route)| {
        let mut routes = first();
        routes.iter_mut().for_each(change);
        routes
    };
    Ok(match routing {
        Routing::Honest => {
            ask(false)?.ok()?;
            nodes.iter().flat_map(routes_of).collect()
        }
        Routing::Echo => nodes.iter().flat_map(routes_of).collect(),
        Routing::ManyRoutes => many(first(), 50_000),
        Routing::LongRoutes => many(changed(lengthen), 20_000),
        Routing::LongId => changed(|route| route.id = "x".repeat(513)),
        Routing::NoId => changed(|route| route.id.clear()),
        Routing::TerminalId => changed(|route| route.id = GARBAGE.to_owned()),
        Routing::LongDestination => changed(|route| route.destination_cidr = "1".repeat(MIB)),
        Routing::TerminalDestination => {
            changed(|route| route.destination_cidr = "10.0.1.0/24\n10.0.2.0/24".to_owned())
        }
        Routing::HostileDestinations => {
            ask(false)?.ok()?;
            HOSTILE.iter().flat_map(|text| towards(text)).collect()
        }
        Routing::Dead => {
            ask(false)?.ok()?;
            vec![dead()]
        }
        Routing::DeadWithoutAsking => vec![dead()],
        Routing::UnknownNode => changed(|route| route.target = Target::Node("nobody".to_owned())),
        Routing::LongTarget => changed(|route| route.target = Target::Other("x".repeat(MIB))),
        Routing::TerminalTarget => {
            ask(false)?.ok()?;
            changed(|route| route.target = Target::Other(GARBAGE.to_owned()))
        }
        Routing::ManyExtras => changed(|route| route.extra = vec![Default::default(); 1_000]),
        Routing::HugeExtra => changed(|route| route.extra = vec![(String::new(), "x".repeat(MIB))]),
        Routing::DeletesInList => {
            Request::delete("network", "/routes/1").send()?.ok()?;
            Vec::new()
        }
        Routing::CreatesInList => {
            ask(false)?.ok()?;
            // The result does not matter.
            let _ = make("10.0.1.0/24");
            Vec::new()
        }
        Routing::NoneWithoutAsking => Vec::new(),
        Routing::NoneAfterFailure => {
            // The result does not matter.
            let _ = ask(false);
            Vec::new()
        }
        Routing::BelievesKept => {
            ask(true)?.ok()?;
            first()
        }
        Routing::BelievesState if state::get("verdict").is_some() => Vec::new(),
        _ => first(),
    })
}

/// # Errors
/// Where the behaviour is an error, and where the cloud does not answer.
pub fn create(routing: Routing, request: &CreateRequest) -> Result<ProgressReply, Error> {
    before(routing)?;
    let progress = match routing {
        Routing::Honest if request.hint.is_some() => Progress::Done,
        Routing::Honest => {
            log::info("making a route", &[("node", &request.node.name)]);
            make(&request.destination_cidr)?;
            pending(500, b"made")
        }
        Routing::Echo => pending(1_000, format!("{request:?}").as_bytes()),
        Routing::Dead | Routing::DeadWithoutAsking => {
            make(&request.destination_cidr)?;
            Progress::Done
        }
        Routing::ManyCreates => {
            for _ in 0..10 {
                make(&request.destination_cidr)?;
            }
            Progress::Done
        }
        Routing::BelievesState => {
            state::set("verdict", b"none", Duration::from_secs(3600));
            Progress::Done
        }
        routing => progress(routing),
    };
    Ok(reply(routing, progress))
}

/// # Errors
/// Where the behaviour is an error, and where the cloud does not answer.
pub fn delete(routing: Routing, request: &DeleteRequest) -> Result<ProgressReply, Error> {
    before(routing)?;
    let progress = match routing {
        Routing::Honest
        | Routing::Dead
        | Routing::DeadWithoutAsking
        | Routing::HostileDestinations
        | Routing::TerminalTarget => {
            log::info("removing a route", &[("id", &request.route.id)]);
            Request::delete("network", format!("/routes/{}", request.route.id))
                .send()?
                .found()?;
            Progress::Done
        }
        Routing::Echo => pending(1_000, format!("{request:?}").as_bytes()),
        routing => progress(routing),
    };
    Ok(reply(routing, progress))
}

/// Behaviours that end before an answer.
fn before(routing: Routing) -> Result<(), Error> {
    match routing {
        Routing::Panic => resources::panic_with_message(),
        Routing::Spin => resources::spin(),
        Routing::Sleep => Err(Error::internal(resources::sleep())),
        Routing::MemoryBomb => Err(Error::internal(resources::memory_bomb())),
        Routing::GarbageError => Err(Error::invalid(GARBAGE.repeat(40_000))),
        _ => Ok(()),
    }
}

fn make(destination: &str) -> Result<(), Error> {
    let request = Request::post("network", "/routes");
    request.json(&destination)?.send()?.ok()?;
    Ok(())
}

/// Requests all routes.
fn ask(kept: bool) -> Result<Response, Error> {
    let request = Request::get("network", "/routes");
    let request = match kept {
        true => request.max_age(Duration::from_secs(3600)),
        false => request,
    };
    request.send()
}

/// A correct route to a node.
fn route(node: &Node) -> Route {
    Route {
        id: "1".to_owned(),
        destination_cidr: "10.0.1.0/24".to_owned(),
        target: Target::Node(node.name.clone()),
        extra: Vec::new(),
    }
}

/// A route that leads nowhere.
fn dead() -> Route {
    Route {
        id: "9".to_owned(),
        destination_cidr: "10.0.9.0/24".to_owned(),
        target: Target::Blackhole,
        extra: Vec::new(),
    }
}

/// A route for each of the node's CIDRs, with the node's other fields in `extra`.
fn routes_of(node: &Node) -> Vec<Route> {
    let reported = format!(
        "{} {:?} {:?} {} labels {} annotations",
        node.uid,
        node.provider_id,
        node.addresses,
        node.labels.len(),
        node.annotations.len()
    );
    let of = |destination: &String| Route {
        id: format!("{}-{destination}", node.uid).replace('/', "-"),
        destination_cidr: destination.clone(),
        target: Target::Node(node.name.clone()),
        extra: vec![("told".to_owned(), reported.clone())],
    };
    node.pod_cidrs.iter().map(of).collect()
}

fn many(routes: Vec<Route>, times: usize) -> Vec<Route> {
    let each = |route| std::iter::repeat_n(route, times);
    routes.into_iter().flat_map(each).collect()
}

/// Extends a route to the maximum length.
fn lengthen(route: &mut Route) {
    route.id = "x".repeat(512);
    route.destination_cidr = "1".repeat(64);
    route.target = Target::Other("x".repeat(256));
    route.extra = vec![(String::new(), "x".repeat(1024))];
}

fn progress(routing: Routing) -> Progress {
    match routing {
        Routing::HugeHint => pending(1_000, &vec![7; MIB]),
        Routing::Never => pending(u64::MAX, &[7]),
        Routing::AtOnce => pending(0, &[7]),
        _ => Progress::Done,
    }
}

fn pending(retry_after_ms: u64, hint: &[u8]) -> Progress {
    Progress::Pending(Pending {
        retry_after_ms,
        hint: Some(hint.to_vec()),
    })
}

fn reply(routing: Routing, progress: Progress) -> ProgressReply {
    ProgressReply {
        progress,
        events: events(routing),
    }
}

fn events(routing: Routing) -> Vec<Event> {
    match routing {
        Routing::ManyEvents => vec![event("Flood", "one of many"); 100_000],
        Routing::MarkupEvents => vec![
            event("Markup", "<script>alert(1)</script>"),
            event("Terminal", GARBAGE),
        ],
        Routing::MarkupReason => vec![event("<b>Bold</b>", "as it is")],
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
