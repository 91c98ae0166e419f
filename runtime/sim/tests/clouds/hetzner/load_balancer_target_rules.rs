//! Which targets and networks the cloud accepts and refuses: tables of requests and answers.

use ccm_sim::hetzner::{LoadBalancerSpec, Location, ServerSpec};
use serde_json::{Value, json};

use super::cloud;
use super::load_balancer_rules::{post, refuses, server, with};

fn ip(ip: &str) -> Value {
    json!({"type": "ip", "ip": {"ip": ip}})
}

#[tokio::test]
async fn a_target_that_cannot_be_reached_is_refused() {
    let cloud = cloud().await;
    let network = cloud.add_network("nodes", "10.0.0.0/24".parse().unwrap(), Location::Fsn1);
    let node = cloud.add_server(ServerSpec::named("node-1"));
    let inside = cloud.add_server(ServerSpec {
        public_ipv4: false,
        ..ServerSpec::named("node-2")
    });
    cloud.attach(inside, network, None).unwrap();
    let id = cloud.add_load_balancer(LoadBalancerSpec::named("web"));
    cloud.own_address("198.51.100.7".parse().unwrap());
    let path = format!("/load_balancers/{id}/actions/add_target");
    let selector =
        |text: &str| json!({"type": "label_selector", "label_selector": {"selector": text}});
    for target in [
        server(node, false),
        ip("198.51.100.7"),
        selector("role=web"),
    ] {
        assert_eq!(post(&cloud, &path, target).await.0, 201);
    }
    let rows = vec![
        (server(node, true), 422, "target_already_defined"),
        (ip("198.51.100.7"), 422, "target_already_defined"),
        (selector("role=web"), 422, "target_already_defined"),
        (server(99, false), 404, "not_found"),
        (
            server(inside, false),
            422,
            "resolve_cloud_public_targets_error",
        ),
        (
            server(inside, true),
            422,
            "load_balancer_not_attached_to_network",
        ),
        (
            with(selector("a"), "use_private_ip", json!(true)),
            422,
            "load_balancer_not_attached_to_network",
        ),
        (selector(""), 422, "invalid_input label_selector.selector"),
        (selector("a in"), 422, "invalid_input label_selector"),
        (ip("198.51.100.8"), 422, "ip_not_owned"),
        (ip("198.18.0.1"), 422, "cloud_resource_ip_not_allowed"),
        (ip("2001:db8:0:1::5"), 422, "cloud_resource_ip_not_allowed"),
        (ip("10.0.0.7"), 422, "load_balancer_not_attached_to_network"),
        (ip("x"), 422, "invalid_input ip.ip"),
        (
            with(ip("198.51.100.9"), "use_private_ip", json!(true)),
            422,
            "invalid_input use_private_ip",
        ),
        (json!({"type": "server"}), 422, "invalid_input type"),
        (
            json!({"type": "server", "server": {"id": node}, "ip": {"ip": "1.2.3.4"}}),
            422,
            "invalid_input type",
        ),
        (json!({"type": "cat"}), 422, "invalid_input type"),
        (
            json!({"type": "server", "server": {"name": "node-1"}}),
            422,
            "invalid_input name",
        ),
    ];
    refuses(&cloud, &path, rows).await;
    let remove = format!("/load_balancers/{id}/actions/remove_target");
    let rows = vec![(server(inside, false), 404, "load_balancer_target_not_found")];
    refuses(&cloud, &remove, rows).await;

    let attach = format!("/load_balancers/{id}/actions/attach_to_network");
    assert_eq!(
        post(&cloud, &attach, json!({"network": network})).await.0,
        201
    );
    let rows = vec![(ip("10.0.0.7"), 422, "network_has_no_vswitch_subnet")];
    refuses(&cloud, &path, rows).await;
    assert_eq!(post(&cloud, &path, server(inside, true)).await.0, 201);
    let stranger = cloud.add_server(ServerSpec::named("node-3"));
    let rows = vec![(
        server(stranger, true),
        422,
        "resolve_cloud_private_targets_error",
    )];
    refuses(&cloud, &path, rows).await;
}

#[tokio::test]
async fn networks_and_the_public_interface_depend_on_each_other() {
    let cloud = cloud().await;
    let network = cloud.add_network("nodes", "10.0.0.0/29".parse().unwrap(), Location::Fsn1);
    let node = cloud.add_server(ServerSpec::named("node-1"));
    cloud.attach(node, network, None).unwrap();
    let far = cloud.add_load_balancer(LoadBalancerSpec {
        location: Location::Ash,
        ..LoadBalancerSpec::named("far")
    });
    let id = cloud.add_load_balancer(LoadBalancerSpec::named("web"));
    let path = |id: u64, command: &str| format!("/load_balancers/{id}/actions/{command}");
    let into = json!({"network": network});
    let rows = vec![(into.clone(), 422, "no_subnet_available")];
    refuses(&cloud, &path(far, "attach_to_network"), rows).await;
    let rows = vec![
        (json!({"network": 9}), 404, "not_found"),
        (
            json!({"network": network, "ip": "10.0.0.2"}),
            422,
            "ip_not_available",
        ),
        (
            json!({"network": network, "ip": "10.0.0.1"}),
            422,
            "ip_not_available",
        ),
        (
            json!({"network": network, "ip": "10.0.1.1"}),
            422,
            "ip_not_available",
        ),
        (
            json!({"network": network, "ip": "x"}),
            422,
            "invalid_input ip",
        ),
        (
            json!({"network": network, "ip_range": "x"}),
            422,
            "invalid_input ip_range",
        ),
        (
            json!({"network": network, "ip_range": "10.0.0.0/30"}),
            422,
            "no_subnet_available",
        ),
        (
            json!({"network": network, "ip": "10.0.0.3", "ip_range": "10.9.0.0/24"}),
            422,
            "invalid_input ip",
        ),
    ];
    refuses(&cloud, &path(id, "attach_to_network"), rows).await;
    let rows = vec![(
        json!({"network": network}),
        422,
        "load_balancer_not_attached_to_network",
    )];
    refuses(&cloud, &path(id, "detach_from_network"), rows).await;
    let rows = vec![(Value::Null, 422, "load_balancer_not_attached_to_network")];
    refuses(&cloud, &path(id, "disable_public_interface"), rows).await;
    assert_eq!(
        post(&cloud, &path(id, "attach_to_network"), into.clone())
            .await
            .0,
        201
    );
    let rows = vec![(into.clone(), 422, "load_balancer_already_attached")];
    refuses(&cloud, &path(id, "attach_to_network"), rows).await;
    assert_eq!(
        post(&cloud, &path(id, "add_target"), server(node, false))
            .await
            .0,
        201
    );
    let rows = vec![(Value::Null, 422, "targets_without_use_private_ip")];
    refuses(&cloud, &path(id, "disable_public_interface"), rows).await;
    assert_eq!(
        post(&cloud, &path(id, "remove_target"), server(node, false))
            .await
            .0,
        201
    );
    assert_eq!(
        post(&cloud, &path(id, "disable_public_interface"), Value::Null)
            .await
            .0,
        201
    );
    let rows = vec![(
        server(node, false),
        422,
        "load_balancer_public_interface_disabled",
    )];
    refuses(&cloud, &path(id, "add_target"), rows).await;
    // The address of a deleted load balancer can be used again.
    assert_eq!(
        cloud.load_balancer(id).unwrap()["private_net"][0]["ip"],
        "10.0.0.3"
    );
    assert!(cloud.remove_load_balancer(id));
    let next = cloud.add_server(ServerSpec::named("node-2"));
    assert_eq!(
        cloud.attach(next, network, None).unwrap().to_string(),
        "10.0.0.3"
    );
}
