//! Values cross the boundary whole, or are refused whole.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ccm_core::cloud::load_balancer::{
    Adoptable, CloudService, EnsureRequest, Ensured, Ingress, IpFamily, IpFamilyPolicy, IpMode,
    LoadBalancerStatus, PortStatus, Progress, Protocol, ServicePort, TrafficPolicy, UpdateRequest,
};
use ccm_core::cloud::{Capabilities, CloudNode, Lookup};
use ccm_core::cloud_provider::CloudProvider as _;
use ccm_core::safety::permit::{Mode, Permit};
use ccm_fixtures::objects::cloud_node;
use ccm_host::{LoadErrorKind, Module};
use guest_misbehaving::behaviour::{Balancing, Behaviour};

use super::service;
use crate::misbehaving::files::with;
use crate::misbehaving::target::{Target, TargetMode};
use crate::misbehaving::world::{self, TIMEOUT, block_on};
use crate::permits;
use ccm_tests::harness::Test;

pub(crate) const TESTS: &[Test] = &[
    (
        "load_balancers::a_request_arrives_in_the_guest_as_it_was_asked",
        a_request_arrives_in_the_guest_as_it_was_asked,
    ),
    (
        "load_balancers::thousands_of_targets_arrive_and_more_are_refused",
        thousands_of_targets_arrive_and_more_are_refused,
    ),
    (
        "load_balancers::many_that_wait_for_their_cloud_leave_room_for_nodes",
        many_that_wait_for_their_cloud_leave_room_for_nodes,
    ),
    (
        "load_balancers::requests_about_many_leave_requests_to_look_ups_of_nodes",
        requests_about_many_leave_requests_to_look_ups_of_nodes,
    ),
    (
        "load_balancers::what_init_did_not_enable_is_not_called",
        what_init_did_not_enable_is_not_called,
    ),
    (
        "load_balancers::an_export_of_another_type_is_not_loaded",
        an_export_of_another_type_is_not_loaded,
    ),
    (
        "load_balancers::the_granted_prefixes_are_known",
        the_granted_prefixes_are_known,
    ),
];

/// An address without a listener, because nothing is sent.
const NOWHERE: &str = "http://127.0.0.1:9/v1";

fn permit() -> Arc<Permit> {
    permits::permit(TIMEOUT, Mode::Enforce, 0)
}

fn texts<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).to_vec()
}

fn pairs<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    pairs
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into()
}

/// A Service in which every field has a value of its own.
fn full() -> CloudService {
    let error = |text: &str| Some(text.to_owned());
    CloudService {
        annotations: pairs([("b.example/x", "2\n3"), ("a.example/ü", "")]),
        labels: pairs([("app", "web")]),
        ports: vec![ServicePort {
            name: Some("quic".to_owned()),
            protocol: Protocol::Udp,
            app_protocol: Some("kubernetes.io/h2c".to_owned()),
            port: 65_535,
            node_port: None,
        }],
        class: Some("misbehaving.example/lb".to_owned()),
        requested_ip: Some("203.0.113.9".to_owned()),
        source_ranges: texts(["192.0.2.0/24", "2001:db8::/32"]),
        external_traffic_policy: Some(TrafficPolicy::Local),
        health_check_node_port: Some(31_000),
        ip_families: vec![IpFamily::V6, IpFamily::V4],
        ip_family_policy: Some(IpFamilyPolicy::RequireDualStack),
        session_affinity_seconds: Some(10_800),
        cluster_ips: texts(["fd00::1", "10.96.0.1"]),
        status: LoadBalancerStatus {
            ingress: vec![
                Ingress {
                    ip: Some("203.0.113.10".to_owned()),
                    hostname: None,
                    ip_mode: Some(IpMode::Proxy),
                    ports: vec![
                        PortStatus {
                            port: 1,
                            protocol: Protocol::Sctp,
                            error: error("misbehaving.example/PortInUse"),
                        },
                        PortStatus {
                            port: 65_535,
                            protocol: Protocol::Tcp,
                            error: None,
                        },
                    ],
                },
                Ingress {
                    ip: Some("2001:db8::10".to_owned()),
                    hostname: Some("lb.example".to_owned()),
                    ip_mode: Some(IpMode::Vip),
                    ports: Vec::new(),
                },
            ],
        },
        ..service()
    }
}

fn a_request_arrives_in_the_guest_as_it_was_asked() {
    block_on(async {
        let provider = world::load_balancing(Balancing::Echo, NOWHERE)
            .await
            .unwrap();
        let mut request = EnsureRequest {
            service: Arc::new(full()),
            targets: Arc::new(["one", "two"].map(|name| Arc::new(cloud_node(name)))),
            adopt: Some(Adoptable::Unowned),
            hint: Some(Arc::new([0, 255])),
        };
        let reply = provider
            .ensure_load_balancer(&request, permit())
            .await
            .unwrap();
        assert_eq!(reply.ensured, Ensured::Ready(full().status));
        let listed: Vec<_> = reply
            .annotations
            .iter()
            .map(|change| {
                let name = change.key.strip_prefix("misbehaving.example/").unwrap();
                (name, change.value.as_deref().unwrap())
            })
            .collect();
        let expected = [
            ("name", "default/web uid-1"),
            (
                "maps",
                r#"[("a.example/ü", ""), ("b.example/x", "2\n3")] [("app", "web")]"#,
            ),
            (
                "ports",
                r#"[ServicePort { name: Some("quic"), protocol: Protocol::Udp, app-protocol: Some("kubernetes.io/h2c"), port: 65535, node-port: None }]"#,
            ),
            (
                "addresses",
                r#"Some("203.0.113.9") ["192.0.2.0/24", "2001:db8::/32"] ["fd00::1", "10.96.0.1"]"#,
            ),
            (
                "policies",
                r#"Some("misbehaving.example/lb") Some(TrafficPolicy::Local) Some(31000) Some(10800)"#,
            ),
            (
                "families",
                "[IpFamily::Ipv6, IpFamily::Ipv4] Some(IpFamilyPolicy::RequireDualStack)",
            ),
            ("targets", "2: one to two"),
            ("request", "Some(Adoption::Unowned) Some([0, 255])"),
        ];
        assert_eq!(listed, expected);

        // An absent value stays absent, and never becomes an empty text.
        (request.adopt, request.hint) = (None, None);
        let reply = provider
            .ensure_load_balancer(&request, permit())
            .await
            .unwrap();
        assert_eq!(reply.annotations[7].value.as_deref(), Some("None None"));
    });
}

fn thousands_of_targets_arrive_and_more_are_refused() {
    block_on(async {
        let provider = world::load_balancing(Balancing::Echo, NOWHERE)
            .await
            .unwrap();
        // As large as real nodes, with a kilobyte of labels each.
        let node = |number: usize| CloudNode {
            labels: [("a.example/label", "x".repeat(1_000))].into(),
            ..cloud_node(&format!("node-{number}"))
        };
        for (count, is_served) in [(0, true), (2_500, true), (5_000, true), (5_001, false)] {
            let request = UpdateRequest {
                service: Arc::new(service()),
                targets: (0..count).map(|number| Arc::new(node(number))).collect(),
                hint: Some(Arc::new([1, 2, 3])),
            };
            let updated = provider.update_targets(&request, permit()).await;
            let ensured = EnsureRequest {
                service: request.service.clone(),
                targets: request.targets.clone(),
                adopt: None,
                hint: None,
            };
            let ensured = provider.ensure_load_balancer(&ensured, permit()).await;
            if !is_served {
                for text in [
                    updated.unwrap_err().to_string(),
                    ensured.unwrap_err().to_string(),
                ] {
                    let expected = "invalid: 5001 nodes behind one load balancer, at most 5000";
                    assert_eq!(text, expected);
                }
                continue;
            }
            // The guest waits one millisecond for each node that it gets.
            let Progress::Pending(pending) = updated.unwrap().progress else {
                panic!("{count}: not pending")
            };
            let expected = Duration::from_millis(count as u64).max(Duration::from_millis(100));
            assert_eq!(pending.retry_after, expected);
            assert_eq!(pending.hint, request.hint);
            let listed = ensured.unwrap().annotations[6].value.clone().unwrap();
            match count {
                0 => assert_eq!(listed, "0: none"),
                _ => assert_eq!(listed, format!("{count}: node-0 to node-{}", count - 1)),
            }
        }
    });
}

fn many_that_wait_for_their_cloud_leave_room_for_nodes() {
    block_on(async {
        let cloud = Target::start(TargetMode::Silent).await;
        let provider = world::load_balancing(Balancing::Honest, &cloud.endpoint())
            .await
            .unwrap();
        let service = service();
        let waiting = (0..32).map(|_| provider.get_load_balancer(&service, permit()));
        let nodes = [cloud_node("one")];
        tokio::select! {
            // All of them take their memory before the node is looked up.
            biased;
            (end, ..) = futures::future::select_all(waiting) => {
                panic!("the node had to wait until a load balancer was done: {end:?}")
            }
            found = provider.find(&nodes, permit()) => {
                let reply = found.unwrap();
                assert!(matches!(reply.lookups.as_slice(), [Lookup::Found(_)]), "{reply:?}");
            }
        }
    });
}

fn requests_about_many_leave_requests_to_look_ups_of_nodes() {
    block_on(async {
        let cloud = Target::start(TargetMode::Silent).await;
        let words = [
            ("behaviour", "honest-requests"),
            ("balancing", "many-looks"),
        ];
        let provider = world::load_making(&words, &cloud.endpoint()).await.unwrap();
        let service = service();
        let waiting = (0..5).map(|_| provider.get_load_balancer(&service, permit()));
        let nodes = [cloud_node("one")];
        let pause = Duration::from_millis(10);
        let looked_up = async {
            while cloud.requests() < 12 {
                tokio::time::sleep(pause).await;
            }
            provider.find(&nodes, permit()).await
        };
        let arrived = async {
            while !cloud.asked().contains(&"GET /v1/machines/one".to_owned()) {
                tokio::time::sleep(pause).await;
            }
        };
        tokio::select! {
            () = arrived => {}
            (end, ..) = futures::future::select_all(waiting) => {
                panic!("the node had to wait until a load balancer was done: {end:?}")
            }
            end = looked_up => panic!("nothing is answered: {end:?}"),
        }
    });
}

fn what_init_did_not_enable_is_not_called() {
    block_on(async {
        let provider = world::load(Behaviour::Honest, NOWHERE).await.unwrap();
        let instances = Capabilities {
            instances: true,
            ..Capabilities::default()
        };
        assert_eq!(provider.capabilities(), instances);
        let error = provider
            .get_load_balancer(&service(), permit())
            .await
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "unsupported: misbehaving makes no load balancers"
        );

        let provider = world::load_balancing(Balancing::Echo, NOWHERE)
            .await
            .unwrap();
        let both = Capabilities {
            load_balancer: true,
            ..instances
        };
        assert_eq!(provider.capabilities(), both);
    });
}

fn an_export_of_another_type_is_not_loaded() {
    let cases = [
        // A field of a record deep in the request.
        (
            "session-affinity-seconds",
            "session-affinity-minutes",
            "load-balancer@0.2.0: ensure has another type than in the contract",
        ),
        // A field of the answer.
        (
            "retry-after-ms",
            "retry-after-us",
            "has another type than in the contract",
        ),
        (
            "update-targets",
            "update-targetz",
            "load-balancer@0.2.0 lacks the function update-targets",
        ),
    ];
    block_on(async {
        for (from, to, text) in cases {
            let module = Module {
                source: "bad.wasm".to_owned(),
                wasm: with(from, to).into(),
            };
            // Also for functions that would not be called.
            let config = world::config(Behaviour::Honest);
            let loaded = world::HOST.load(module, world::grants(NOWHERE), config);
            let error = loaded.await.err().unwrap();
            let reported = world::chain(&error);
            assert!(
                matches!(error.kind, LoadErrorKind::Signature(_)),
                "{reported}"
            );
            assert!(reported.contains(text), "{text}: {reported}");
        }
    });
}

fn the_granted_prefixes_are_known() {
    block_on(async {
        let provider = world::load_balancing(Balancing::Echo, NOWHERE)
            .await
            .unwrap();
        assert_eq!(provider.annotation_prefixes(), ["misbehaving.example/"]);
        // A prefix that is granted and was not requested has no effect.
        let mut grants = world::grants(NOWHERE);
        grants.annotation_prefixes.push("more.example/".to_owned());
        let config = world::config(Behaviour::Honest);
        let provider = world::HOST
            .load(world::module(), grants.clone(), config.clone())
            .await
            .unwrap();
        assert_eq!(provider.annotation_prefixes(), ["misbehaving.example/"]);
        // A prefix that is requested and was not granted keeps the module from loading.
        grants.annotation_prefixes.remove(0);
        let refused = world::HOST.load(world::module(), grants, config).await;
        let text = world::chain(&refused.err().unwrap());
        assert!(
            text.contains("not granted: annotation prefix misbehaving.example/"),
            "{text}"
        );
    });
}
