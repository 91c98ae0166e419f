//! Every behaviour of the misbehaving guest as a provider of load balancers, at the real host, followed by a call of an
//! honest one. An answer of the wrong shape is an error of the guest; one of the right shape with a wrong meaning is
//! passed on, for core to judge; no call changes more than its permit allows.

pub(crate) mod steps;
mod whole;

use std::sync::Arc;
use std::time::Duration;

use ccm_core::cloud::ProviderError;
use ccm_core::cloud::load_balancer::{
    CloudService, DeleteRequest, EnsureReply, EnsureRequest, Ensured, Pending, UpdateRequest,
};
use ccm_core::cloud_provider::CloudProvider as _;
use ccm_core::safety::permit::Mode;
use ccm_fixtures::objects::{cloud_node, cloud_service};
use ccm_host::Provider;
use ccm_tests::harness::trial;
use guest_misbehaving::behaviour::Balancing;
use libtest_mimic::Trial;

use crate::misbehaving::behaviours::SHORT;
use crate::misbehaving::steps::{Law, Step, answers, fails};
use crate::misbehaving::target::{Target, TargetMode};
use crate::misbehaving::world::{self, TIMEOUT, block_on};
use crate::permits;
use steps::Function::{self, Delete, Ensure, Get, UpdateTargets};
use steps::Reply;

pub(crate) use whole::TESTS;

/// One test per behaviour.
pub(crate) fn trials() -> Vec<Trial> {
    let trial = |balancing: &Balancing| {
        let balancing = *balancing;
        trial(format!("balancing::{}", balancing.word()), move || {
            block_on(check(balancing, law(balancing)));
            Ok(())
        })
    };
    Balancing::ALL.iter().map(trial).collect()
}

/// The required result of each behaviour. Every behaviour has a line: without one this does not compile.
pub(crate) fn law(balancing: Balancing) -> Law<Function> {
    let worthless = |words| Law::new([fails(Ensure, "internal", words)]);
    match balancing {
        Balancing::Honest => Law::new([
            answers(Get, |reply| {
                assert_eq!(reply.absent(), Some(false), "404 alone proves nothing")
            }),
            fails(Ensure, "denied", &["POST /balancers", "plan"]).planned(),
            answers(Ensure, |reply| {
                assert_eq!(reply.pending().hint.as_deref(), Some(&b"made"[..]));
            }),
            fails(UpdateTargets, "unavailable", &["there is no load balancer"]),
            answers(Delete, |reply| assert!(reply.is_done())),
        ])
        .asking(
            TargetMode::Empty,
            &[
                "GET /v1/balancers/uid-1",
                "GET /v1/balancers/uid-1",
                "GET /v1/balancers/uid-1",
                "POST /v1/balancers",
                "GET /v1/balancers/uid-1",
                "GET /v1/balancers/uid-1",
            ],
        ),
        Balancing::Echo => Law::new([
            answers(Ensure, |reply| {
                assert_eq!(*reply.status(), service().status)
            }),
            answers(Get, |reply| assert_eq!(*reply.status(), service().status)),
        ]),

        Balancing::Panic => Law::new([
            fails(
                Ensure,
                "trapped",
                &["load-balancer.ensure in module", "told to"],
            ),
            fails(
                UpdateTargets,
                "trapped",
                &["load-balancer.update-targets in module"],
            ),
            fails(Delete, "trapped", &["load-balancer.delete in module"]),
            fails(Get, "trapped", &["load-balancer.get in module"]),
        ]),
        Balancing::Spin => Law::new([
            fails(
                Ensure,
                "timed-out",
                &["load-balancer.ensure", "did not end"],
            )
            .within(SHORT),
            fails(Get, "timed-out", &["load-balancer.get", "did not end"]).within(SHORT),
        ]),
        Balancing::MemoryBomb => Law::new([fails(
            Delete,
            "trapped",
            &["load-balancer.delete", "more than its 64 MiB of memory"],
        )]),
        Balancing::HugeOwner => worthless(&["a conflict: 1048576 bytes of an owner, at most 128"]),
        Balancing::NamelessOwner => {
            worthless(&["a conflict: an owner that no object can be called"])
        }
        Balancing::ManyFailureEvents => Law::new([
            fails(
                Ensure,
                "internal",
                &["a failure: 100000 events, at most 16"],
            ),
            fails(UpdateTargets, "internal", &["a failure: 100000 events"]),
            fails(Delete, "internal", &["a failure: 100000 events"]),
            fails(Get, "internal", &["a failure: 100000 events"]),
        ]),
        Balancing::MarkupFailureReason => {
            worthless(&["a failure: event 0: its reason is not a CamelCase word"])
        }
        Balancing::GarbageError => Law::new([
            fails(Ensure, "invalid", &["\\u{1b}[31mall is well", "…"]),
            fails(Delete, "invalid", &["\\u{1b}[31mall is well", "…"]),
        ]),

        Balancing::ManyWaysIn => Law::new([
            fails(Ensure, "internal", &["ensure: 1000 ways in, at most 16"]),
            fails(Get, "internal", &["get: 1000 ways in, at most 16"]),
        ]),
        Balancing::NoWayIn => {
            worthless(&["ensure: way in 0: it has neither an IP address nor a hostname"])
        }
        // These have the right shape; core judges their meaning.
        Balancing::HostileWaysIn => Law::new([answers(Ensure, |reply| {
            assert_eq!(reply.status().ingress.len(), 11);
        })]),
        Balancing::LongHostname => worthless(&["300 bytes of its hostname, at most 253"]),
        Balancing::BadPorts => worthless(&["way in 0: the error of port 80"]),

        Balancing::HugeHint => Law::new([
            fails(
                Ensure,
                "internal",
                &["1048576 bytes of a hint, at most 4096"],
            ),
            fails(
                UpdateTargets,
                "internal",
                &["update-targets: 1048576 bytes of a hint"],
            ),
            fails(Delete, "internal", &["delete: 1048576 bytes of a hint"]),
        ]),
        Balancing::Never => Law::new([
            answers(Ensure, |reply| waits(reply, Duration::from_secs(600))),
            answers(Delete, |reply| waits(reply, Duration::from_secs(600))),
        ]),
        Balancing::AtOnce => Law::new([
            answers(Ensure, |reply| waits(reply, Duration::from_millis(100))),
            answers(UpdateTargets, |reply| {
                waits(reply, Duration::from_millis(100))
            }),
        ]),

        Balancing::ForeignAnnotations => Law::new([
            answers(Ensure, |reply| assert_eq!(annotation_changes(reply), 6)),
            answers(Delete, |reply| assert_eq!(annotation_changes(reply), 6)),
        ]),
        Balancing::ManyAnnotations => Law::new([
            fails(
                Ensure,
                "internal",
                &["ensure: 1000 annotations, at most 16"],
            ),
            fails(
                UpdateTargets,
                "internal",
                &["update-targets: 1000 annotations"],
            ),
            fails(
                Delete,
                "internal",
                &["delete: 1000 annotations, at most 16"],
            ),
        ]),
        Balancing::HugeAnnotation => {
            worthless(&["annotation 0: 1048576 bytes of a value, at most 4096"])
        }
        Balancing::TerminalAnnotation => worthless(&["annotation 0: it has control characters"]),
        Balancing::ManyEvents => worthless(&["100000 events, at most 16"]),
        Balancing::MarkupEvents => Law::new([answers(Ensure, |reply| {
            let Reply::Ensured(reply) = reply else {
                panic!("{reply:?}")
            };
            let messages = reply.events.iter().map(|event| event.message.as_str());
            let cleaned = "\\u{1b}[2J\\u{1b}[31mall is well  \\u{0}\\u{202e}";
            assert!(
                messages.eq(["<script>alert(1)</script>", cleaned]),
                "{reply:?}"
            );
        })]),
        Balancing::MarkupReason => worthless(&["event 0: its reason is not a CamelCase word"]),

        Balancing::ManyCreates => Law::new([
            fails(Ensure, "denied", &["POST /balancers on target api", "3"]),
            fails(Ensure, "denied", &["POST /balancers on target api", "plan"]).planned(),
        ])
        .asking(TargetMode::Empty, &["POST /v1/balancers"; 3]),
        Balancing::DeletesInGet => Law::new([fails(
            Get,
            "denied",
            &["DELETE /balancers/uid-1 on target api"],
        )]),
        Balancing::AbsentWithoutAsking => Law::new([answers(Get, |reply| {
            assert_eq!(reply.absent(), Some(false), "nobody was asked");
        })]),
        Balancing::AbsentAfterFailure => Law::new([answers(Get, |reply| {
            assert_eq!(reply.absent(), Some(false), "the cloud answered 500");
        })])
        .asking(TargetMode::Broken, &["GET /v1/balancers/uid-1"]),
        Balancing::BelievesKept => Law::new([
            answers(Ensure, |_| {}),
            answers(Ensure, |_| {}),
            answers(Get, |reply| {
                let Reply::Got(got) = reply else {
                    panic!("{reply:?}")
                };
                assert!(got.complete, "its own answer");
            }),
        ])
        // The second `ensure` uses the answer cached by the first; `get` does not.
        .asking(TargetMode::Well, &["GET /v1/balancers/uid-1"; 2]),
        Balancing::BelievesState => Law::new([
            answers(Ensure, |_| {}),
            answers(Get, |reply| {
                assert_eq!(reply.absent(), None, "it saw what `ensure` kept");
            }),
        ]),
        Balancing::ManyLooks => Law::new([answers(Get, |reply| {
            assert_eq!(reply.absent(), None, "{reply:?}");
        })])
        .asking(TargetMode::Well, &["GET /v1/balancers/uid-1"; 8]),
    }
}

fn waits(reply: &Reply, time: Duration) {
    let Pending { retry_after, hint } = reply.pending();
    assert_eq!((*retry_after, hint.as_deref()), (time, Some(&[7][..])));
}

fn annotation_changes(reply: &Reply) -> usize {
    match reply {
        Reply::Ensured(reply) => reply.annotations.len(),
        Reply::Progressed(reply) => reply.annotations.len(),
        Reply::Got(_) => panic!("get has no wishes"),
    }
}

/// The Service of every call.
pub(crate) fn service() -> CloudService {
    CloudService {
        cluster_ips: vec!["10.96.0.1".to_owned()],
        ..cloud_service("web", "uid-1", &[(80, 30_080)])
    }
}

async fn check(balancing: Balancing, law: Law<Function>) {
    let cloud = Target::start(law.cloud).await;
    let provider = world::load_balancing(balancing, &cloud.endpoint())
        .await
        .unwrap();
    let mut hint = None;
    for step in &law.steps {
        let end = call(&provider, step, hint.take()).await;
        step.check(&end, &provider.digest().short());
        if let Ok(reply @ (Reply::Ensured(_) | Reply::Progressed(_))) = &end
            && !reply.is_done()
            && !matches!(reply, Reply::Ensured(reply) if is_ready(reply))
        {
            hint = reply.pending().hint.clone();
        }
    }
    assert_eq!(cloud.asked(), law.asked, "requests that reached the cloud");
    assert_works().await;
}

fn is_ready(reply: &EnsureReply) -> bool {
    matches!(reply.ensured, Ensured::Ready(_))
}

async fn call(
    provider: &Provider,
    step: &Step<Function>,
    hint: Option<Arc<[u8]>>,
) -> Result<Reply, ProviderError> {
    let permit = permits::permit(step.time, step.mode, step.changes);
    let service = Arc::new(service());
    let targets: Arc<[_]> = Arc::new(["one", "two"].map(|name| Arc::new(cloud_node(name))));
    match step.function {
        Ensure => {
            let request = EnsureRequest {
                service,
                targets,
                adopt: None,
                hint,
            };
            let reply = provider.ensure_load_balancer(&request, permit).await;
            reply.map(Reply::Ensured)
        }
        UpdateTargets => {
            let request = UpdateRequest {
                service,
                targets,
                hint,
            };
            let reply = provider.update_targets(&request, permit).await;
            reply.map(Reply::Progressed)
        }
        Delete => {
            let request = DeleteRequest { service, hint };
            let reply = provider.delete_load_balancer(&request, permit).await;
            reply.map(Reply::Progressed)
        }
        Get => {
            let reply = provider.get_load_balancer(&service, permit).await;
            reply.map(Reply::Got)
        }
    }
}

/// The next call of the same module, on the same host.
async fn assert_works() {
    let cloud = Target::start(TargetMode::Well).await;
    let honest = world::load_balancing(Balancing::Honest, &cloud.endpoint())
        .await
        .unwrap();
    let permit = permits::permit(TIMEOUT, Mode::Enforce, 0);
    let reply = honest.get_load_balancer(&service(), permit).await.unwrap();
    assert!(reply.complete, "{reply:?}");
}
