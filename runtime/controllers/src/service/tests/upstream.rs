//! Upstream's dynamic cases about Services, as far as they need the whole controller.

use ccm_core::cloud::Owner;
use ccm_core::safety::brake::Objects;
use ccm_core::service::OwnerState;

use super::*;

#[tokio::test(start_paused = true)]
async fn test_service_queue_delay() {
    let asked_again = |error: ProviderError| async move {
        let world = World::new();
        world.cloud.fail("ensure", error);
        let before = tokio::time::Instant::now();
        let mut times = Vec::new();
        world
            .run_while(settings(), async {
                world.serve("web").await;
                let start = tokio::time::Instant::now();
                // A minute, checked every tenth of a second.
                for _ in 0..600 {
                    for call in world.cloud.take() {
                        assert_eq!(call.function, "ensure");
                        times.push(start.elapsed().as_secs());
                    }
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            })
            .await;
        assert!(before.elapsed() > Duration::from_secs(60));
        times
    };
    let plain = asked_again(ProviderError::Unavailable(String::new())).await;
    assert_eq!(plain, [0, 1], "the first step of the back-off");
    let throttled = asked_again(ProviderError::Throttled {
        message: String::new(),
        retry_after: Some(Duration::from_secs(42)),
    })
    .await;
    assert_eq!(throttled, [0, 42], "exactly as long as it was asked to");
}

#[tokio::test(start_paused = true)]
async fn test_service_queue_delay_success_is_not_repeated() {
    let world = World::new();
    world
        .run_while(settings(), async {
            world.serve("web").await;
            tokio::time::sleep(Duration::from_secs(600)).await;
            assert_eq!(world.cloud.asked(), ["ensure default/web"]);
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn svc_022_while_a_cloud_wants_patience_no_change_wakes_its_service() {
    let world = World::new();
    world.cloud.fail(
        "ensure",
        ProviderError::Throttled {
            message: String::new(),
            retry_after: Some(Duration::from_secs(90)),
        },
    );
    world
        .run_while(settings(), async {
            world.serve("web").await;
            a_while().await;
            assert_eq!(world.cloud.asked(), ["ensure default/web"]);
            world
                .edit("web", json!({ "spec": { "ports": [{ "port": 81 }] } }))
                .await;
            a_while().await;
            assert_eq!(world.cloud.asked(), [""; 0]);
            tokio::time::sleep(Duration::from_secs(60)).await;
            assert_eq!(world.cloud.asked(), ["ensure default/web"]);
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn our_own_writes_do_not_shorten_a_wait() {
    let waits = [
        (ProviderError::Denied(String::new()), 10),
        (
            ProviderError::Throttled {
                message: String::new(),
                retry_after: Some(Duration::from_secs(120)),
            },
            120,
        ),
    ];
    for (error, seconds) in waits {
        let world = World::new();
        // The answer comes late enough that the watch has shown the finalizer before.
        world.cloud.hold("ensure", "default/web");
        world.cloud.fail("ensure", error);
        world
            .run_while(settings(), async {
                world.serve("web").await;
                a_while().await;
                world.cloud.release();
                tokio::time::sleep(Duration::from_secs(seconds - 1)).await;
                assert_eq!(world.cloud.asked(), ["ensure default/web"]);
                tokio::time::sleep(Duration::from_secs(2)).await;
                assert_eq!(world.cloud.asked(), ["ensure default/web"]);
            })
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn test_process_service_deletion() {
    let world = World::new();
    world.serve("web").await;
    world
        .run_while(settings(), async {
            world.cloud.take();
            // A new Service.
            world.serve_as("inside", json!({})).await;
            world.remove("inside").await;
            a_while().await;
            assert_eq!(world.cloud.asked(), [""; 0]);
            // The provider fails, and is called again.
            let away = ProviderError::Unavailable("on purpose".to_owned());
            world.cloud.fail("delete", away);
            world.remove("web").await;
            a_while().await;
            let asked = world.cloud.asked();
            let all = [
                "delete default/web",
                "delete default/web",
                "get default/web",
            ];
            assert_eq!(asked, all);
            let reasons = world.reasons().await;
            assert!(
                reasons.contains(&"SyncLoadBalancerFailed".to_owned()),
                "{reasons:?}"
            );
            // No object is left to be asked about.
            tokio::time::sleep(Duration::from_secs(7200)).await;
            assert_eq!(world.cloud.asked(), [""; 0]);
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn test_sync_service_that_is_absent_from_a_list() {
    // The deletion is missed: the watch ends, and the next list does not have the Service.
    let world = World::new();
    world.serve("web").await;
    world
        .run_while(settings(), async {
            world.cloud.take();
            let away = FaultEffect::Refused {
                code: 503,
                retry_after: None,
            };
            let watch = Fault::next(Verb::Watch, "services", away);
            world.cluster.inject(watch.sent_by("ccm").times(2));
            world.cluster.expire_watches();
            world.remove_by_force("web").await;
            tokio::time::sleep(Duration::from_secs(120)).await;
            world.cloud.removed("default/web");
        })
        .await;
}

fn service(name: &str, uid: &str, ip: &str) -> Service {
    let service = json!({
        "metadata": {
            "namespace": "default", "name": name, "uid": uid,
            "annotations": { "wasm-ccm.dev/provider": "sim" },
        },
        "spec": { "type": "LoadBalancer", "clusterIPs": [ip] },
    });
    serde_json::from_value(service).unwrap()
}

#[test]
fn an_owner_is_found_by_its_name() {
    let mut service_index = ServiceIndex::default();
    let named = |name: &str| Owner::Name {
        namespace: "default".to_owned(),
        name: name.to_owned(),
    };
    assert_eq!(service_index.owner(&named("b")), OwnerState::Unsynced);
    service_index.apply(&service("b", "2", "10.0.0.2"));
    service_index.complete();
    let alive = |uid: &str| matches!(service_index.owner(&named("b")), OwnerState::Alive(one) if one.uid == uid);
    assert!(alive("2"));
    assert_eq!(service_index.owner(&named("c")), OwnerState::Gone);
    let elsewhere = Owner::Name {
        namespace: "other".to_owned(),
        name: "b".to_owned(),
    };
    assert_eq!(service_index.owner(&elsewhere), OwnerState::Gone);
    service_index.apply(&service("b", "3", "10.0.0.3"));
    assert!(matches!(service_index.owner(&named("b")), OwnerState::Alive(one) if one.uid == "3"));
    service_index.forget(&service("b", "3", "10.0.0.3"));
    assert_eq!(service_index.owner(&named("b")), OwnerState::Gone);
}

fn uid(uid: &str) -> Owner {
    Owner::Uid(uid.to_owned())
}

#[test]
fn test_service_cache() {
    let mut service_index = ServiceIndex::default();
    let (one, two) = (service("a", "1", "10.0.0.1"), service("b", "2", "10.0.0.2"));
    assert_eq!(service_index.owner(&uid("1")), OwnerState::Unsynced);
    service_index.apply(&one);
    assert!(matches!(
        service_index.owner(&uid("1")),
        OwnerState::Alive(_)
    ));
    assert_eq!(
        service_index.owner(&uid("2")),
        OwnerState::Unsynced,
        "nobody has seen everybody"
    );
    service_index.apply(&two);
    service_index.complete();
    assert_eq!(service_index.served_by("sim"), Objects { own: 2, all: 2 });
    assert_eq!(service_index.served_by("other"), Objects { own: 0, all: 2 });
    let asker = ccm_core::service::service_ref(&one);
    let ips = ["10.0.0.1", "10.0.0.2"].map(|ip| ip.parse().unwrap());
    let in_use = service_index.in_use(&asker, ips);
    assert_eq!(in_use.len(), 1, "its own does not count: {in_use:?}");
    assert_eq!(in_use[0].by, "service/default/b");
    // The Service was created again under the same name.
    service_index.apply(&service("b", "3", "10.0.0.3"));
    assert_eq!(service_index.owner(&uid("2")), OwnerState::Gone);
    assert!(service_index.in_use(&asker, ips).is_empty());
    // A late event of the old Service does not change the new one.
    service_index.forget(&two);
    assert!(matches!(
        service_index.owner(&uid("3")),
        OwnerState::Alive(_)
    ));
    service_index.forget(&service("b", "3", "10.0.0.3"));
    assert_eq!(service_index.owner(&uid("3")), OwnerState::Gone);
    assert_eq!(service_index.served_by("sim").own, 1);
}
