//! R15: another version takes over at every call of a load balancer that takes several calls, before the call or in the
//! middle of it. The end is always the same, and nothing is made twice.

use std::net::IpAddr;
use std::sync::Arc;

use ccm_core::cloud::CloudNode;
use ccm_core::cloud::load_balancer::{
    CloudService, DeleteRequest, EnsureRequest, Ensured, Pending, Progress, UpdateRequest,
};
use ccm_core::cloud_provider::CloudProvider as _;
use ccm_delivery::active::{Active, Generation};
use ccm_fixtures::objects::{cloud_service, ready_node};
use ccm_sim::hetzner::{Hetzner, Options, ServerSpec};
use serde_json::Value;

use crate::swap::world::{self, LOCATION, TOKEN, block_on, permit};
use ccm_tests::harness::Test;
use ccm_tests::harness::figure;

pub(crate) const TESTS: &[Test] = &[
    (
        "r15_a_swap_before_any_call_changes_nothing_in_the_end",
        || every_call(When::Before),
    ),
    (
        "r15_a_swap_in_the_midst_of_any_call_changes_nothing_in_the_end",
        || every_call(When::Midst),
    ),
];

const UID: &str = "0f6f3a52-7a0b-4a55-9d2f-1f1f7b1f2a10";
/// More calls than any step takes.
const MOST: usize = 40;

/// When the other version takes over, relative to one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    Before,
    /// While the call's first request is on the wire.
    Midst,
}

/// The result of a life.
#[derive(Debug, PartialEq, Eq)]
struct Ended {
    calls: usize,
    /// The load balancers at the cloud after each step.
    steps: Vec<Vec<Value>>,
    /// Number of load balancers that were ever made.
    made: usize,
}

fn every_call(when: When) {
    block_on(async {
        let expected = lifecycle(None).await;
        assert_eq!(expected.made, 1);
        assert!(
            expected.calls > expected.steps.len(),
            "something has to be pending: {}",
            expected.calls
        );
        for index in 0..expected.calls {
            let swapped = lifecycle(Some((index, when))).await;
            assert_eq!(swapped.steps, expected.steps, "{when:?} call {index}");
            assert_eq!(swapped.made, 1, "{when:?} call {index}");
        }
        figure(format!(
            "swap {when:?} each of the {} calls of a load balancer's life: the same end, made once",
            expected.calls
        ));
    });
}

/// A load balancer is made, changed, loses a node and goes; another version takes over at one of its calls.
async fn lifecycle(swap: Option<(usize, When)>) -> Ended {
    let cloud = Hetzner::start(Options {
        rate_limit: None,
        ..Options::new(TOKEN)
    })
    .await
    .unwrap();
    let nodes: Vec<_> = ["worker-1", "worker-2"]
        .into_iter()
        .map(|name| {
            let server = cloud.add_server(ServerSpec::named(name));
            ready_node(name, Some(&format!("hcloud://{server}")))
        })
        .collect();
    let next = async |more| {
        world::generation("entry", world::hcloud(more), &cloud.endpoint(), LOCATION).await
    };
    let active = Active::new("entry", next(0).await);
    let mut caller = Caller {
        other: Some(next(1).await),
        cloud,
        active,
        swap,
        calls: 0,
    };
    let mut steps = Vec::new();
    caller.ensure(&[80, 443], &nodes).await;
    steps.push(caller.balancers());
    caller.ensure(&[80, 8080], &nodes).await;
    steps.push(caller.balancers());
    caller.update(&[80, 8080], &nodes[..1]).await;
    steps.push(caller.balancers());
    caller.delete(&[80, 8080]).await;
    steps.push(caller.balancers());
    assert!(
        swap.is_none() || caller.other.is_none(),
        "{swap:?}: nobody took over"
    );
    let is_create = |request: &ccm_sim::hetzner::Request| {
        request.method == "POST" && request.path == "/load_balancers" && request.status == Some(201)
    };
    let made = caller
        .cloud
        .requests()
        .iter()
        .filter(|one| is_create(one))
        .count();
    Ended {
        calls: caller.calls,
        steps,
        made,
    }
}

/// The calls of a controller for one Service.
struct Caller {
    cloud: Hetzner,
    active: Arc<Active>,
    other: Option<Arc<Generation>>,
    swap: Option<(usize, When)>,
    calls: usize,
}

impl Caller {
    async fn ensure(&mut self, ports: &[u16], nodes: &[CloudNode]) {
        let mut request = EnsureRequest {
            service: Arc::new(service(ports)),
            targets: nodes.iter().cloned().map(Arc::new).collect(),
            adopt: None,
            hint: None,
        };
        for _ in 0..MOST {
            let active = self.active.clone();
            let asked = request.clone();
            let call = async move { active.ensure_load_balancer(&asked, permit()).await };
            match self.call(call).await.unwrap().ensured {
                Ensured::Ready(status) => {
                    let ip: IpAddr = status.ingress[0].ip.as_deref().unwrap().parse().unwrap();
                    assert!(!ip.is_loopback());
                    return;
                }
                Ensured::Pending(pending) => request.hint = hint(pending),
            }
        }
        panic!("it is never ready");
    }

    async fn update(&mut self, ports: &[u16], nodes: &[CloudNode]) {
        let mut request = UpdateRequest {
            service: Arc::new(service(ports)),
            targets: nodes.iter().cloned().map(Arc::new).collect(),
            hint: None,
        };
        for _ in 0..MOST {
            let (active, asked) = (self.active.clone(), request.clone());
            let call = async move { active.update_targets(&asked, permit()).await };
            match self.call(call).await.unwrap().progress {
                Progress::Done => return,
                Progress::Pending(pending) => request.hint = hint(pending),
            }
        }
        panic!("it is never done");
    }

    async fn delete(&mut self, ports: &[u16]) {
        let mut request = DeleteRequest {
            service: Arc::new(service(ports)),
            hint: None,
        };
        for _ in 0..MOST {
            let (active, asked) = (self.active.clone(), request.clone());
            let call = async move { active.delete_load_balancer(&asked, permit()).await };
            match self.call(call).await.unwrap().progress {
                Progress::Done => return,
                Progress::Pending(pending) => request.hint = hint(pending),
            }
        }
        panic!("it is never done");
    }

    /// Makes a call; if it is the chosen one, the other version takes over before it or in the middle.
    async fn call<T>(&mut self, call: impl Future<Output = T>) -> T {
        let number = self.calls;
        self.calls += 1;
        let when = self
            .swap
            .filter(|(index, _)| *index == number)
            .map(|(_, when)| when);
        if when.is_none() {
            return call.await;
        }
        let other = self.other.take().unwrap();
        if when == Some(When::Before) {
            self.active.set_roles(other, None);
            return call.await;
        }
        let (cloud, before) = (self.cloud.clone(), self.cloud.requests().len());
        let active = self.active.clone();
        let swap = async move {
            while cloud.requests().len() == before {
                tokio::task::yield_now().await;
            }
            active.set_roles(other, None);
        };
        // A call without a request to the cloud ends before the swap, which then comes after it.
        let mut call = std::pin::pin!(call);
        let mut swap = std::pin::pin!(swap);
        tokio::select! {
            biased;
            () = &mut swap => call.await,
            answer = &mut call => {
                swap.await;
                answer
            }
        }
    }

    /// All load balancers, without what differs from run to run.
    fn balancers(&self) -> Vec<Value> {
        let mut balancers = self.cloud.load_balancers();
        for one in &mut balancers {
            one.as_object_mut().unwrap().remove("created");
        }
        balancers
    }
}

fn hint(pending: Pending) -> Option<Arc<[u8]>> {
    pending.hint
}

fn service(ports: &[u16]) -> CloudService {
    let ports = ports.iter().map(|port| (*port, 30_000 + port % 1_000));
    cloud_service("web", UID, &ports.collect::<Vec<_>>())
}
