//! The state that generations do not share, and the limits that they do.

use std::sync::Arc;
use std::time::Duration;

use ccm_core::cloud::load_balancer::EnsureRequest;
use ccm_core::cloud::{Lookup, ProviderError};
use ccm_core::cloud_provider::CloudProvider as _;
use ccm_core::rollout::TrialKind;
use ccm_core::safety::audit::Author;
use ccm_core::safety::permit::Mode;
use ccm_delivery::active::{Active, Generation};
use ccm_fixtures::audit::RecordingAudit;
use ccm_fixtures::objects::ready_node;
use ccm_fixtures::permits::audited;
use ccm_sim::hetzner::{Hetzner, Options, ServerSpec};

use crate::swap::cloud::Cloud;
use crate::swap::world::{self, BALANCING, LOCATION, TOKEN, behaving, block_on, permit};
use ccm_tests::harness::Test;

pub(crate) const TESTS: &[Test] = &[
    (
        "state_ends_with_its_generation_and_with_a_canary_beside_it",
        state_ends_with_its_generation,
    ),
    (
        "kept_answers_end_with_their_generation_and_with_a_canary_beside_it",
        kept_answers_end_with_their_generation,
    ),
    (
        "connections_close_with_the_last_call_of_a_generation",
        connections_close_with_the_last_call_of_a_generation,
    ),
    (
        "what_a_cloud_asked_for_holds_for_the_next_generation_and_for_no_other_provider",
        what_a_cloud_asked_for_holds_for_the_next_generation_and_for_no_other_provider,
    ),
    (
        "what_a_cloud_asked_of_a_version_on_trial_holds_nobody_else_until_it_serves",
        what_a_cloud_asked_of_a_version_on_trial_holds_nobody_else_until_it_serves,
    ),
    (
        "two_providers_of_one_module_are_told_apart",
        two_providers_of_one_module_are_told_apart,
    ),
];

/// In its second call this guest uses the state of its first one.
fn state_ends_with_its_generation() {
    block_on(async {
        let config = behaving("from-state");
        let next = async || {
            let module = world::version("0.1.0");
            world::generation("entry", module, "http://127.0.0.1:9/v1", &config).await
        };
        let active = Active::new("entry", next().await);
        let nodes = [ready_node("one", None)];
        let find = async || {
            active
                .find(&nodes, permit())
                .await
                .unwrap()
                .lookups
                .remove(0)
        };
        assert!(matches!(find().await, Lookup::Found(_)));
        assert_eq!(find().await, Lookup::Gone, "it remembers");
        active.set_roles(next().await, None);
        assert!(
            matches!(find().await, Lookup::Found(_)),
            "the same module, another generation"
        );
        assert_eq!(find().await, Lookup::Gone);
        ends_without_promotion(&active, TrialKind::Shadow, next().await);
        assert_eq!(find().await, Lookup::Gone);
        ends_without_promotion(&active, TrialKind::Canary, next().await);
        assert!(matches!(find().await, Lookup::Found(_)));
    });
}

/// A trial beside the active version. Only a canary may change what that one remembers.
fn ends_without_promotion(active: &Active, kind: TrialKind, candidate: Arc<Generation>) {
    active.set_roles(active.serving(), Some((kind, candidate)));
    active.set_roles(active.serving(), None);
}

fn kept_answers_end_with_their_generation() {
    block_on(async {
        let cloud = Hetzner::start(Options::new(TOKEN)).await.unwrap();
        let server = cloud.add_server(ServerSpec::named("worker-1"));
        let next = async || {
            world::generation("entry", world::hcloud(0), &cloud.endpoint(), LOCATION).await
        };
        let active = Active::new("entry", next().await);
        let nodes = [ready_node("worker-1", Some(&format!("hcloud://{server}")))];
        let asked = async || {
            let before = cloud.requests().len();
            let reply = active.find(&nodes, permit()).await.unwrap();
            assert!(matches!(reply.lookups[0], Lookup::Found(_)));
            cloud.requests().len() - before
        };
        assert_eq!(
            (asked().await, asked().await),
            (1, 0),
            "the second answer was kept"
        );
        let (shadow, canary) = (next().await, next().await);
        active.set_roles(next().await, None);
        assert_eq!((asked().await, asked().await), (1, 0));
        ends_without_promotion(&active, TrialKind::Shadow, shadow);
        assert_eq!(asked().await, 0);
        ends_without_promotion(&active, TrialKind::Canary, canary);
        assert_eq!((asked().await, asked().await), (1, 0));
    });
}

fn connections_close_with_the_last_call_of_a_generation() {
    block_on(async {
        let cloud = Cloud::start().await;
        let next = async |number| {
            let module = world::version(number);
            world::generation("entry", module, cloud.endpoint(), BALANCING).await
        };
        let active = Active::new("entry", next("0.1.0").await);
        let nodes = [ready_node("one", None)];
        active.find(&nodes, permit()).await.unwrap();
        assert_eq!(cloud.connections(), 1);
        active.set_roles(next("0.2.0").await, None);
        // No call uses it any more, so that only the old generation's end closes it.
        closed(&cloud, 0).await;
        active.find(&nodes, permit()).await.unwrap();
        assert_eq!(cloud.connections(), 1);
    });
}

/// Waits until this many connections are left.
async fn closed(cloud: &Cloud, left: usize) {
    let all_closed = async {
        while cloud.connections() != left {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    // Idle connections would be closed after 30 s.
    let within = tokio::time::timeout(Duration::from_secs(15), all_closed).await;
    within.expect("the connections of a generation that is gone are closed");
}

fn what_a_cloud_asked_for_holds_for_the_next_generation_and_for_no_other_provider() {
    block_on(async {
        let cloud = Cloud::start().await;
        let load = async |name, number| {
            let module = world::version(number);
            world::generation(name, module, cloud.endpoint(), BALANCING).await
        };
        let (serving, beside) = (load("entry", "0.1.0").await, load("other", "0.1.0").await);
        let early = load("entry", "0.2.0").await;
        let tried = world::version("0.3.0");
        let tried = world::candidate("entry", tried, cloud.endpoint()).await;
        cloud.throttle();
        let nodes = [ready_node("one", None)];
        serving.provider.find(&nodes, permit()).await.unwrap();
        assert_eq!(cloud.requests(), 1);

        let late = load("entry", "0.2.0").await;
        for held in [&serving, &early, &late, &tried] {
            assert!(held.provider.held_for().is_some());
            let reply = held.provider.find(&nodes, permit()).await.unwrap();
            assert!(matches!(reply.lookups[0], Lookup::Unknown(_)));
        }
        assert_eq!(cloud.requests(), 1, "none of them asked again");
        assert_eq!(beside.provider.held_for(), None);
        beside.provider.find(&nodes, permit()).await.unwrap();
        assert_eq!(cloud.requests(), 2);

        let active = Active::new("entry", serving);
        let tried = Some((TrialKind::Shadow, late));
        active.set_roles(active.serving(), tried);
        active.read_each_capability(&permit()).await;
        assert_eq!(cloud.requests(), 2, "nothing is tried meanwhile");
    });
}

fn what_a_cloud_asked_of_a_version_on_trial_holds_nobody_else_until_it_serves() {
    block_on(async {
        let cloud = Cloud::start().await;
        let version = world::version;
        let serving =
            world::generation("entry", version("0.1.0"), cloud.endpoint(), BALANCING).await;
        let candidate =
            async |number| world::candidate("entry", version(number), cloud.endpoint()).await;
        let (tried, another) = (candidate("0.2.0").await, candidate("0.3.0").await);
        let nodes = [ready_node("one", None)];
        let asks = async |generation: &Generation| {
            let before = cloud.requests();
            generation.provider.find(&nodes, permit()).await.unwrap();
            cloud.requests() > before
        };
        cloud.throttle();
        assert!(asks(&tried).await);
        assert!(!asks(&tried).await, "its own hold");
        assert!(asks(&another).await, "one on trial has nothing of another");
        assert_eq!(serving.provider.held_for(), None);
        assert!(asks(&serving).await);

        // All of that once more after the candidate has taken over.
        let cloud = Cloud::start().await;
        let serving =
            world::generation("entry", version("0.1.0"), cloud.endpoint(), BALANCING).await;
        let promoted = world::candidate("entry", version("0.2.0"), cloud.endpoint()).await;
        let active = Active::new("entry", serving.clone());
        active.set_roles(promoted.clone(), None);
        cloud.throttle();
        promoted.provider.find(&nodes, permit()).await.unwrap();
        assert!(serving.provider.held_for().is_some());
    });
}

fn two_providers_of_one_module_are_told_apart() {
    block_on(async {
        let cloud = Cloud::start().await;
        let received = Arc::<RecordingAudit>::default();
        let mut digests = Vec::new();
        for (name, values) in [
            ("berlin", BALANCING),
            ("helsinki", BALANCING),
            ("nowhere", &BALANCING[..1]),
        ] {
            let module = world::version("0.1.0");
            let provider = world::load(name, module, cloud.endpoint(), values)
                .await
                .unwrap();
            assert_eq!(provider.name(), name);
            assert_eq!(
                provider.manifest().name,
                "misbehaving",
                "what describes the module"
            );
            digests.push(provider.digest().to_string());
            let request = EnsureRequest {
                service: Arc::new(world::service(name)),
                targets: Arc::new([Arc::new(ready_node(name, None))]),
                adopt: None,
                hint: None,
            };
            let until = ccm_host::egress::now().after(Duration::from_secs(60));
            let permit = audited(until, Mode::Enforce, 1, received.clone());
            let made = provider.ensure_load_balancer(&request, permit).await;
            if name == "nowhere" {
                let expected = "nowhere makes no load balancers".to_owned();
                assert_eq!(made, Err(ProviderError::Unsupported(expected)));
            } else {
                made.unwrap();
            }
        }
        let requests = received.requests().into_iter();
        let authors: Vec<Author> = requests.map(|request| request.author).collect();
        let author = |name: &str| Author {
            provider: name.to_owned(),
            digest: digests[0].clone(),
        };
        assert_eq!(authors, [author("berlin"), author("helsinki")]);
    });
}
