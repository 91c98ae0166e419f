//! G7: the changes that a new version would make to load balancers that are as they should be.

use std::sync::Arc;

use ccm_core::cloud::CloudNode;
use ccm_core::cloud::load_balancer::{CloudService, EnsureRequest, Ensured};
use ccm_core::cloud_provider::CloudProvider as _;
use ccm_core::rollout::Orders;
use ccm_core::safety::permit::Mode;
use ccm_delivery::active::Active;
use ccm_fixtures::objects::cloud_service;
use ccm_sim::hetzner::{Hetzner, ServerSpec};

use crate::permits;
use crate::rollout::shipped::{self, version};
use crate::rollout::world::{Start, TIMEOUT, World, block_on, node};
use ccm_tests::harness::Test;

pub(crate) const TESTS: &[Test] = &[
    (
        "g7_a_version_that_would_change_every_load_balancer_changes_none_until_a_person_allows_it",
        g7_a_version_that_would_change_every_load_balancer_changes_none_until_a_person_allows_it,
    ),
    (
        "g7_the_only_load_balancer_of_a_small_cluster_is_protected_as_well",
        g7_the_only_load_balancer_of_a_small_cluster_is_protected_as_well,
    ),
];

/// More calls than any load balancer takes.
const MOST: usize = 40;

fn g7_a_version_that_would_change_every_load_balancer_changes_none_until_a_person_allows_it() {
    changes_none_until_a_person_allows_it(6);
}

fn g7_the_only_load_balancer_of_a_small_cluster_is_protected_as_well() {
    changes_none_until_a_person_allows_it(1);
}

/// In a cluster with this many Services.
fn changes_none_until_a_person_allows_it(services: u16) {
    block_on(async {
        let cloud = shipped::cloud().await;
        let server = cloud.add_server(ServerSpec::named("node-1"));
        let targets = [CloudNode {
            provider_id: Some(format!("hcloud://{server}")),
            ..node()
        }];
        let world = World::start(Start {
            load_policy: Some(shipped::load_policy(&cloud)),
            ..Start::default()
        });
        let (one, changed, equal) = (version("8.0.0"), version("9.0.0"), version("8.0.1"));
        world.offer(&one);
        world.serves(&one).await;
        let active = world.active().await;
        for number in 0..services {
            ready(&active, number, &targets).await;
        }
        let made = changes(&cloud);
        assert!(made >= usize::from(services), "{made}");

        world.offer(&changed);
        let digest = changed.digest.to_string();
        let record = world.recorded("it is rejected", |it| it.is_rejected(&digest));
        let reason = record.await.rejected.remove(0).reason;
        let expected = format!(
            "it would change {services} of {services} load balancers that the version that serves leaves alone; "
        );
        assert!(reason.starts_with(&expected), "{reason}");
        assert_eq!(world.serving().await, one.digest.to_string());

        world.offer(&equal);
        world.serves(&equal).await;

        world.order(Orders {
            allow_changes: Some(digest.clone()),
            retry: Some(digest),
            ..Orders::default()
        });
        world.offer(&changed);
        world.serves(&changed).await;
        assert_eq!(changes(&cloud), made, "nobody has asked for a change yet");
        ready(&active, 0, &targets).await;
        assert!(changes(&cloud) > made, "now somebody has");
    });
}

/// Calls until the cloud agrees with this Service.
async fn ready(active: &Active, number: u16, targets: &[CloudNode]) {
    let mut request = EnsureRequest {
        service: Arc::new(service(number)),
        targets: targets.iter().cloned().map(Arc::new).collect(),
        adopt: None,
        hint: None,
    };
    for _ in 0..MOST {
        let permit = permits::permit(TIMEOUT, Mode::Enforce, 32);
        let reply = active.ensure_load_balancer(&request, permit);
        match reply.await.unwrap().ensured {
            Ensured::Ready(_) => return,
            Ensured::Pending(pending) => request.hint = pending.hint,
        }
    }
    panic!("it is never ready");
}

/// Number of requests for changes that the cloud has had.
fn changes(cloud: &Hetzner) -> usize {
    let requests = cloud.requests();
    requests.iter().filter(|one| one.method != "GET").count()
}

fn service(number: u16) -> CloudService {
    // The first digits become a part of the load balancer's name.
    let uid = format!("{number:08x}-7a0b-4a55-9d2f-1f1f7b1f2a10");
    cloud_service(&format!("web-{number}"), &uid, &[(80, 30_080 + number)])
}
