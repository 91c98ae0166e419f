//! Every behaviour of the misbehaving guest as a provider of routes, at the real host, followed by a call of an honest
//! one. An answer of the wrong shape is an error of the guest, for the whole list; one of the right shape with a wrong
//! meaning is passed on, for core to judge; no call changes more than its permit allows, and `list` nothing.

pub(crate) mod replies;
mod whole;

use std::sync::Arc;
use std::time::Duration;

use ccm_core::cloud::route::{CloudRoute, CreateRouteRequest, DeleteRouteRequest, RouteTarget};
use ccm_core::cloud::{CloudNode, ProviderError};
use ccm_core::cloud_provider::CloudProvider as _;
use ccm_core::safety::permit::Mode;
use ccm_fixtures::objects::cloud_node;
use ccm_host::Provider;
use ccm_tests::harness::trial;
use guest_misbehaving::behaviour::Routing;
use libtest_mimic::Trial;

use crate::misbehaving::behaviours::SHORT;
use crate::misbehaving::steps::{Law, Step, answers, fails};
use crate::misbehaving::target::{Target, TargetMode};
use crate::misbehaving::world::{self, TIMEOUT, block_on};
use crate::permits;
use replies::Function::{self, Create, Delete, List};
use replies::Reply;

pub(crate) use whole::TESTS;

/// One test per behaviour.
pub(crate) fn trials() -> Vec<Trial> {
    let trial = |routing: &Routing| {
        let routing = *routing;
        trial(format!("routing::{}", routing.word()), move || {
            block_on(check(routing, law(routing)));
            Ok(())
        })
    };
    Routing::ALL.iter().map(trial).collect()
}

/// The required result of each behaviour. Every behaviour has a line: without one this does not compile.
pub(crate) fn law(routing: Routing) -> Law<Function> {
    let worthless = |words| Law::new([fails(List, "internal", words)]);
    match routing {
        Routing::Honest => Law::new([
            answers(List, |reply| {
                let listed = reply.listed();
                assert!(listed.complete);
                let to: Vec<_> = listed.routes.iter().map(|route| &route.target).collect();
                let node = |name: &str| RouteTarget::Node(name.to_owned());
                assert_eq!(to, [&node("one"), &node("two")]);
            }),
            fails(Create, "denied", &["POST /routes", "plan"]).planned(),
            answers(Create, |reply| {
                assert_eq!(reply.pending().hint.as_deref(), Some(&b"made"[..]));
            }),
            answers(Create, |reply| assert!(reply.is_done())),
            answers(Delete, |reply| assert!(reply.is_done())),
        ])
        .asking(
            TargetMode::Well,
            &["GET /v1/routes", "POST /v1/routes", "DELETE /v1/routes/1"],
        ),
        Routing::Echo => Law::new([answers(List, |reply| {
            let listed = reply.listed();
            assert_eq!(listed.routes.len(), 2);
            assert!(!listed.complete, "nobody was asked");
        })]),

        Routing::Panic => Law::new([
            fails(List, "trapped", &["routes.list in module", "told to"]),
            fails(Create, "trapped", &["routes.create in module"]),
            fails(Delete, "trapped", &["routes.delete in module"]),
        ]),
        Routing::Spin => Law::new([
            fails(List, "timed-out", &["routes.list", "did not end"]).within(SHORT),
            fails(Create, "timed-out", &["routes.create", "did not end"]).within(SHORT),
        ]),
        Routing::Sleep => Law::new([
            fails(List, "timed-out", &["routes.list", "did not end"]).within(SHORT),
            fails(Delete, "timed-out", &["routes.delete", "did not end"]).within(SHORT),
        ]),
        Routing::MemoryBomb => Law::new([fails(
            List,
            "trapped",
            &["routes.list", "more than its 64 MiB of memory"],
        )]),
        Routing::GarbageError => Law::new([
            fails(List, "invalid", &["\\u{1b}[31mall is well", "…"]),
            fails(Create, "invalid", &["\\u{1b}[31mall is well", "…"]),
            fails(Delete, "invalid", &["\\u{1b}[31mall is well", "…"]),
        ]),

        Routing::ManyRoutes => worthless(&["list: 50000 routes, at most 40000"]),
        Routing::LongRoutes => Law::new([fails(List, "trapped", &["routes.list"])]),
        Routing::LongId => worthless(&["list, route 0: 513 bytes of an id, at most 512"]),
        Routing::NoId | Routing::TerminalId => {
            worthless(&["list, route 0: its id is empty or has control characters"])
        }
        Routing::LongDestination => worthless(&["1048576 bytes of a destination, at most 64"]),
        Routing::TerminalDestination => {
            worthless(&["list, route 0: its destination is empty or has characters that no CIDR"])
        }
        Routing::HostileDestinations => Law::new([answers(List, |reply| {
            assert_eq!(reply.listed().routes.len(), 7);
        })])
        .asking(TargetMode::Well, &["GET /v1/routes"]),
        Routing::UnknownNode => {
            worthless(&["list, route 0: it leads to a node that the call was not about"])
        }
        Routing::LongTarget => worthless(&["1048576 bytes of what it leads to, at most 256"]),
        Routing::TerminalTarget => Law::new([answers(List, |reply| {
            let cleaned = "\\u{1b}[2J\\u{1b}[31mall is well  \\u{0}\\u{202e}".to_owned();
            assert_eq!(reply.listed().routes[0].target, RouteTarget::Other(cleaned));
        })])
        .asking(TargetMode::Well, &["GET /v1/routes"]),
        Routing::ManyExtras => worthless(&["1000 entries of extra, at most 16"]),
        Routing::HugeExtra => worthless(&["1048576 bytes of extra, at most 1024"]),

        Routing::HugeHint => Law::new([
            fails(
                Create,
                "internal",
                &["create: 1048576 bytes of a hint, at most 4096"],
            ),
            fails(Delete, "internal", &["delete: 1048576 bytes of a hint"]),
        ]),
        Routing::Never => Law::new([
            answers(Create, |reply| waits(reply, Duration::from_secs(600))),
            answers(Delete, |reply| waits(reply, Duration::from_secs(600))),
        ]),
        Routing::AtOnce => Law::new([
            answers(Create, |reply| waits(reply, Duration::from_millis(100))),
            answers(Delete, |reply| waits(reply, Duration::from_millis(100))),
        ]),
        Routing::ManyEvents => Law::new([
            fails(Create, "internal", &["create: 100000 events, at most 16"]),
            fails(Delete, "internal", &["delete: 100000 events, at most 16"]),
        ]),
        Routing::MarkupEvents => Law::new([answers(Create, |reply| {
            let events = &reply.changed().events;
            let messages = events.iter().map(|event| event.message.as_str());
            let cleaned = "\\u{1b}[2J\\u{1b}[31mall is well  \\u{0}\\u{202e}";
            assert!(
                messages.eq(["<script>alert(1)</script>", cleaned]),
                "{reply:?}"
            );
        })]),
        Routing::MarkupReason => Law::new([fails(
            Create,
            "internal",
            &["create: event 0: its reason is not a CamelCase word"],
        )]),

        Routing::ManyCreates => Law::new([
            fails(Create, "denied", &["POST /routes on target network", "3"]),
            fails(
                Create,
                "denied",
                &["POST /routes on target network", "plan"],
            )
            .planned(),
        ])
        .asking(TargetMode::Well, &["POST /v1/routes"; 3]),
        Routing::DeletesInList => Law::new([
            fails(List, "denied", &["DELETE /routes/1 on target network"]),
            fails(List, "denied", &["DELETE /routes/1 on target network"]).planned(),
        ]),
        Routing::CreatesInList => Law::new([answers(List, |reply| {
            let listed = reply.listed();
            assert_eq!(listed.routes.len(), 0);
            assert!(!listed.complete, "one of its requests was refused");
        })])
        .asking(TargetMode::Well, &["GET /v1/routes"]),
        Routing::Dead => Law::new([answers(List, |reply| {
            assert!(reply.listed().complete, "the cloud was asked");
        })])
        .asking(TargetMode::Well, &["GET /v1/routes"]),
        Routing::DeadWithoutAsking => Law::new([answers(List, |reply| {
            assert_eq!(reply.listed().routes[0].target, RouteTarget::Blackhole);
            assert!(!reply.listed().complete, "nobody was asked");
        })]),
        Routing::NoneWithoutAsking => Law::new([answers(List, |reply| {
            assert!(!reply.listed().complete, "nobody was asked");
        })]),
        Routing::NoneAfterFailure => Law::new([answers(List, |reply| {
            assert!(!reply.listed().complete, "the cloud answered 500");
        })])
        .asking(TargetMode::Broken, &["GET /v1/routes"]),
        Routing::BelievesKept => Law::new([
            answers(List, |reply| assert!(reply.listed().complete)),
            answers(List, |reply| assert!(reply.listed().complete)),
        ])
        .asking(TargetMode::Well, &["GET /v1/routes"; 2]),
        Routing::BelievesState => Law::new([
            answers(Create, |reply| assert!(reply.is_done())),
            answers(List, |reply| {
                assert_eq!(reply.listed().routes.len(), 1, "it saw what `create` kept");
            }),
        ]),
    }
}

fn waits(reply: &Reply, time: Duration) {
    let pending = reply.pending();
    let reported = (pending.retry_after, pending.hint.as_deref());
    assert_eq!(reported, (time, Some(&[7][..])));
}

/// A node for the calls.
fn node(name: &str) -> CloudNode {
    CloudNode {
        pod_cidrs: vec!["10.0.1.0/24".to_owned()],
        ..cloud_node(name)
    }
}

/// The route that the calls delete.
fn route() -> CloudRoute {
    CloudRoute {
        id: "1".to_owned(),
        destination_cidr: "10.0.1.0/24".to_owned(),
        target: RouteTarget::Blackhole,
        extra: Vec::new(),
    }
}

async fn check(routing: Routing, law: Law<Function>) {
    let cloud = Target::start(law.cloud).await;
    let provider = world::load_routing(routing, &cloud.endpoint())
        .await
        .unwrap();
    let mut hint = None;
    for step in &law.steps {
        let end = call(&provider, step, hint.take()).await;
        step.check(&end, &provider.digest().short());
        if let Ok(reply @ Reply::Changed(_)) = &end
            && !reply.is_done()
        {
            hint = reply.pending().hint.clone();
        }
    }
    assert_eq!(cloud.asked(), law.asked, "requests that reached the cloud");
    assert_works().await;
}

async fn call(
    provider: &Provider,
    step: &Step<Function>,
    hint: Option<Arc<[u8]>>,
) -> Result<Reply, ProviderError> {
    let permit = permits::permit(step.time, step.mode, step.changes);
    match step.function {
        List => {
            let nodes = [node("one"), node("two")];
            provider
                .list_routes(&nodes, permit)
                .await
                .map(Reply::Listed)
        }
        Create => {
            let request = CreateRouteRequest {
                node: Arc::new(node("one")),
                destination_cidr: "10.0.1.0/24".to_owned(),
                hint,
            };
            let reply = provider.create_route(&request, permit).await;
            reply.map(Reply::Changed)
        }
        Delete => {
            let request = DeleteRouteRequest {
                route: Arc::new(route()),
                hint,
            };
            let reply = provider.delete_route(&request, permit).await;
            reply.map(Reply::Changed)
        }
    }
}

/// The next call of the same module, on the same host.
async fn assert_works() {
    let cloud = Target::start(TargetMode::Well).await;
    let honest = world::load_routing(Routing::Honest, &cloud.endpoint())
        .await
        .unwrap();
    let permit = permits::permit(TIMEOUT, Mode::Enforce, 0);
    let listed = honest.list_routes(&[node("one")], permit).await.unwrap();
    assert!(listed.complete && listed.routes.len() == 1, "{listed:?}");
}
