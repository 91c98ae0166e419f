//! A hundred swaps while thousands of calls are under way: every call is answered once, every change is made once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use ccm_core::cloud::Lookup;
use ccm_core::cloud::load_balancer::{DeleteRequest, EnsureRequest, Ensured, Progress};
use ccm_core::cloud_provider::CloudProvider as _;
use ccm_core::rollout::TrialKind;
use ccm_delivery::active::{Active, Generation};
use ccm_fixtures::objects::ready_node;
use ccm_host::Module;
use ccm_host::grant::Grants;
use tokio::time::Instant;

use crate::swap::cloud::{Cloud, Life};
use crate::swap::world::{self, BALANCING, block_on, percentile, permit};
use ccm_tests::counts::Count;
use ccm_tests::harness::Test;
use ccm_tests::harness::figure;

pub(crate) const TESTS: &[Test] = &[(
    "swaps_under_load_lose_nothing_and_do_nothing_twice",
    swaps_under_load_lose_nothing_and_do_nothing_twice,
)];

/// Calls under swaps. The goal is a hundred swaps under at least ten thousand calls.
const CALLS: Count = Count {
    variable: "CCM_SWAP_CALLS",
    default: 200,
    ci: 2_000,
    full: 10_000,
};
/// Calls for each swap, where there are enough of them.
const CALLS_PER_SWAP: usize = 100;
/// Number of simultaneous calls: as many as a provider takes at once, so that waits for each other are not measured.
const AT_ONCE: usize = 8;
const NAME: &str = "entry";

/// The calls and their durations.
#[derive(Default)]
struct Load {
    calls: usize,
    waits: Vec<Duration>,
    /// The Services that were made, and whether they were deleted again.
    services: BTreeMap<String, bool>,
    wrong: Vec<String>,
}

fn swaps_under_load_lose_nothing_and_do_nothing_twice() {
    let calls = usize::try_from(CALLS.get().unwrap()).unwrap();
    let swaps = (calls / CALLS_PER_SWAP).max(10);
    block_on(async {
        let cloud = Cloud::start().await;
        let versions = ["0.1.0", "0.2.0"].map(world::version);
        let versions = Versions {
            grants: world::grants(&versions[0], cloud.endpoint()),
            modules: versions,
        };
        let active = Active::new(NAME, versions.next(0).await);

        let mut quiet = load(&active, "quiet", &Progressed::new(calls), calls).await;
        let begun = Progressed::new(calls);
        let (mut swapped, made) = tokio::join!(
            load(&active, "swapped", &begun, calls),
            swap(&active, &versions, &begun, swaps)
        );

        for load in [&quiet, &swapped] {
            assert_eq!(load.wrong, Vec::<String>::new());
            assert!(load.calls >= calls);
        }
        let lives = cloud.balancers();
        for (uid, is_deleted) in quiet.services.iter().chain(&swapped.services) {
            let life = Life {
                made: 1,
                deleted: u32::from(*is_deleted),
            };
            assert_eq!(lives.get(uid), Some(&life), "{uid}");
        }
        let services = quiet.services.len() + swapped.services.len();
        assert_eq!(lives.len(), services, "load balancers of nobody");
        assert_eq!(made, swaps);
        let before = [50, 99, 100].map(|percent| percentile(&mut quiet.waits, percent));
        let after = [50, 99, 100].map(|percent| percentile(&mut swapped.waits, percent));
        figure(format!(
            "swaps: {made} under {} calls, {services} load balancers each made once, 0 lost, 0 doubled; \
             wait p50/p99/max {:.1}/{:.1}/{:.1} ms, without swaps {:.1}/{:.1}/{:.1} ms: p99 {:+.1} ms",
            swapped.calls,
            after[0],
            after[1],
            after[2],
            before[0],
            before[1],
            before[2],
            after[1] - before[1],
        ));
    });
}

/// Two versions, made before the measurement.
struct Versions {
    modules: [Module; 2],
    grants: Grants,
}

impl Versions {
    /// Both versions in turn, each time loaded anew.
    async fn next(&self, number: usize) -> Arc<Generation> {
        let module = self.modules[number % 2].clone();
        world::generation_granted(NAME, module, self.grants.clone(), BALANCING).await
    }
}

/// The number of calls that have ended, to be waited for.
struct Progressed {
    ended: AtomicU64,
    all: u64,
    is_over: AtomicBool,
    more: tokio::sync::Notify,
}

impl Progressed {
    fn new(all: usize) -> Progressed {
        Progressed {
            ended: AtomicU64::new(0),
            all: all as u64,
            is_over: AtomicBool::new(false),
            more: tokio::sync::Notify::new(),
        }
    }

    /// Waits until a share of the calls has ended.
    async fn at(&self, part: usize, parts: usize) {
        let wanted = self.all * part as u64 / parts as u64;
        while self.ended.load(Ordering::SeqCst) < wanted && !self.is_over.load(Ordering::SeqCst) {
            self.more.notified().await;
        }
    }

    fn ended(&self) {
        self.ended.fetch_add(1, Ordering::SeqCst);
        self.more.notify_one();
    }
}

/// Replaces the generation again and again, spread over the calls: at once, or after a canary; and every fourth
/// candidate is taken back in the midst of its canary before the next one is placed.
async fn swap(
    active: &Arc<Active>,
    versions: &Versions,
    begun: &Progressed,
    swaps: usize,
) -> usize {
    let mut made = 0;
    for number in 0..swaps {
        begun.at(number, swaps + 1).await;
        let next = versions.next(number + 1).await;
        assert!(active.fits(&next));
        if number % 4 == 1 {
            let tried = Some((TrialKind::Canary, next.clone()));
            active.set_roles(active.serving(), tried);
            begun.at(2 * number + 1, 2 * (swaps + 1)).await;
        }
        if number % 4 == 3 {
            let tried = Some((TrialKind::Canary, versions.next(number).await));
            active.set_roles(active.serving(), tried);
            begun.at(2 * number + 1, 2 * (swaps + 1)).await;
            active.set_roles(active.serving(), None);
        }
        let serving = next.provider.digest().to_string();
        active.set_roles(next, None);
        assert_eq!(active.digest(), serving);
        made += 1;
    }
    made
}

/// Makes calls, this many at a time, until there were enough.
async fn load(active: &Arc<Active>, name: &str, begun: &Progressed, calls: usize) -> Load {
    let made = AtomicUsize::new(0);
    let callers = (0..AT_ONCE).map(|caller| {
        let (active, made) = (active.clone(), &made);
        async move {
            let mut load = Load::default();
            while made.load(Ordering::SeqCst) < calls {
                let number = load.calls;
                if number.is_multiple_of(4) {
                    let uid = format!("{name}-{caller}-{number}");
                    load.live(&active, begun, made, uid, number.is_multiple_of(8))
                        .await;
                } else {
                    load.find(&active, begun, made, caller).await;
                }
            }
            load
        }
    });
    let mut sum = Load::default();
    for load in futures::future::join_all(callers).await {
        sum.calls += load.calls;
        sum.waits.extend(load.waits);
        sum.services.extend(load.services);
        sum.wrong.extend(load.wrong);
    }
    begun.is_over.store(true, Ordering::SeqCst);
    begun.more.notify_one();
    sum
}

impl Load {
    fn ended(&mut self, since: Instant, begun: &Progressed, made: &AtomicUsize) {
        self.waits.push(since.elapsed());
        self.calls += 1;
        made.fetch_add(1, Ordering::SeqCst);
        begun.ended();
    }

    async fn find(
        &mut self,
        active: &Active,
        begun: &Progressed,
        made: &AtomicUsize,
        caller: usize,
    ) {
        let since = Instant::now();
        let name = format!("node-{caller}-{}", self.calls);
        let reply = active.find(&[ready_node(&name, None)], permit()).await;
        self.ended(since, begun, made);
        let expected = format!("misbehaving://{name}");
        match reply.map(|reply| reply.lookups) {
            Ok(lookups) => match lookups.as_slice() {
                [Lookup::Found(instance)] if instance.provider_id == expected => {}
                other => self.wrong.push(format!("{name}: {other:?}")),
            },
            Err(error) => self.wrong.push(format!("{name}: {error}")),
        }
    }

    /// The calls for a Service from the first to the last, as the service controller makes them: one after the other,
    /// with the hint of the one before.
    async fn live(
        &mut self,
        active: &Active,
        begun: &Progressed,
        made: &AtomicUsize,
        uid: String,
        is_deleted: bool,
    ) {
        let service = Arc::new(world::service(&uid));
        let mut request = EnsureRequest {
            service: service.clone(),
            targets: Arc::new([Arc::new(ready_node(&uid, None))]),
            adopt: None,
            hint: None,
        };
        loop {
            let since = Instant::now();
            let reply = active.ensure_load_balancer(&request, permit()).await;
            self.ended(since, begun, made);
            match reply.map(|reply| reply.ensured) {
                Ok(Ensured::Ready(_)) => break,
                Ok(Ensured::Pending(pending)) => request.hint = pending.hint,
                Err(error) => return self.wrong.push(format!("{uid}: {error}")),
            }
        }
        self.services.insert(uid.clone(), is_deleted);
        if is_deleted {
            let request = DeleteRequest {
                service,
                hint: None,
            };
            let since = Instant::now();
            let reply = active.delete_load_balancer(&request, permit()).await;
            self.ended(since, begun, made);
            if !matches!(&reply, Ok(reply) if reply.progress == Progress::Done) {
                self.wrong.push(format!("{uid}: {reply:?}"));
            }
        }
    }
}
