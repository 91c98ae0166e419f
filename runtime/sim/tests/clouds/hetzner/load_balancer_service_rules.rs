//! Which services the cloud accepts and refuses: tables of requests and answers.

use ccm_sim::hetzner::LoadBalancerSpec;
use serde_json::{Value, json};

use super::cloud;
use super::load_balancer_rules::{post, refuses, service, with};

#[tokio::test]
async fn a_service_outside_the_documented_bounds_is_refused() {
    let cloud = cloud().await;
    let id = cloud.add_load_balancer(LoadBalancerSpec::named("web"));
    let path = format!("/load_balancers/{id}/actions/add_service");
    let (status, _) = post(&cloud, &path, service("tcp", 80)).await;
    assert_eq!(status, 201);
    let tcp = || service("tcp", 81);
    let check = |key: &str, value: Value| {
        with(
            tcp(),
            "health_check",
            json!({"protocol": "http", key: value}),
        )
    };
    let asked = |key: &str, value: Value| check("http", json!({key: value}));
    let http = |key: &str, value: Value| with(service("http", 81), "http", json!({key: value}));
    let rows = vec![
        (
            json!({"listen_port": 81, "destination_port": 1}),
            422,
            "invalid_input protocol",
        ),
        (
            json!({"protocol": "tcp", "destination_port": 1}),
            422,
            "invalid_input listen_port",
        ),
        (
            json!({"protocol": "tcp", "listen_port": 81}),
            422,
            "invalid_input destination_port",
        ),
        (service("udp", 81), 422, "invalid_input protocol"),
        (service("tcp", 0), 422, "invalid_input listen_port"),
        (service("tcp", 65_536), 422, "invalid_input listen_port"),
        (service("tcp", 80), 412, "source_port_already_used"),
        (json!({"protocol": "http"}), 412, "source_port_already_used"),
        (
            with(tcp(), "http", json!({"sticky_sessions": true})),
            422,
            "invalid_input http.sticky_sessions",
        ),
        (
            http("redirect_http", json!(true)),
            422,
            "invalid_input http.redirect_http",
        ),
        (
            http("certificates", json!([1])),
            422,
            "invalid_input http.certificates",
        ),
        (
            http("cookie_lifetime", json!(29)),
            422,
            "invalid_input http.cookie_lifetime",
        ),
        (
            http("cookie_name", json!("")),
            422,
            "invalid_input http.cookie_name",
        ),
        (
            http("timeout_idle", json!(301)),
            422,
            "invalid_input http.timeout_idle",
        ),
        (
            with(service("https", 81), "http", json!({"certificates": [1]})),
            422,
            "invalid_input http.certificates",
        ),
        (
            check("protocol", json!("https")),
            422,
            "invalid_input health_check.protocol",
        ),
        (
            check("port", json!(0)),
            422,
            "invalid_input health_check.port",
        ),
        (
            check("interval", json!(2)),
            422,
            "invalid_input health_check.interval",
        ),
        (
            check("timeout", json!(61)),
            422,
            "invalid_input health_check.timeout",
        ),
        (
            check("retries", json!(6)),
            422,
            "invalid_input health_check.retries",
        ),
        (
            asked("domain", json!("a b")),
            422,
            "invalid_input health_check.http.domain",
        ),
        (
            asked("path", json!("/a b")),
            422,
            "invalid_input health_check.http.path",
        ),
        (
            asked("path", json!("")),
            422,
            "invalid_input health_check.http.path",
        ),
        (
            asked("status_codes", json!(vec!["200"; 21])),
            422,
            "invalid_input health_check.http.status_codes",
        ),
        (
            asked("response", json!("x".repeat(257))),
            422,
            "invalid_input health_check.http.response",
        ),
        (asked("port", json!(1)), 422, "invalid_input port"),
    ];
    refuses(&cloud, &path, rows).await;

    // Omitted fields get the vendor's defaults.
    let (status, _) = post(
        &cloud,
        &path,
        with(json!({"protocol": "https"}), "listen_port", json!(8443)),
    )
    .await;
    assert_eq!(status, 201);
    let shown = cloud.load_balancer(id).unwrap()["services"][1].clone();
    assert_eq!(
        shown,
        json!({
            "protocol": "https", "listen_port": 8443, "destination_port": 80, "proxyprotocol": false,
            "http": {
                "cookie_name": "HCLBSTICKY", "cookie_lifetime": 300, "timeout_idle": 50,
                "certificates": [], "redirect_http": false, "sticky_sessions": false,
            },
            "health_check": {"protocol": "tcp", "port": 80, "interval": 15, "timeout": 10, "retries": 3},
        })
    );
    let path = format!("/load_balancers/{id}/actions/update_service");
    let rows = vec![
        (json!({"listen_port": 81}), 404, "not_found"),
        (
            json!({"destination_port": 1}),
            422,
            "invalid_input listen_port",
        ),
        (
            json!({"listen_port": 8443, "http": {"redirect_http": true}}),
            422,
            "source_port_already_used",
        ),
    ];
    refuses(&cloud, &path, rows).await;
    let path = format!("/load_balancers/{id}/actions/delete_service");
    refuses(
        &cloud,
        &path,
        vec![(json!({"listen_port": 81}), 404, "not_found")],
    )
    .await;
}

#[tokio::test]
async fn an_update_of_a_service_keeps_what_it_does_not_name() {
    let cloud = cloud().await;
    let id = cloud.add_load_balancer(LoadBalancerSpec::named("web"));
    let add = with(
        with(
            service("http", 80),
            "http",
            json!({"sticky_sessions": true}),
        ),
        "health_check",
        json!({"protocol": "http", "port": 9, "http": {"domain": "example.com", "path": "/healthz"}}),
    );
    post(
        &cloud,
        &format!("/load_balancers/{id}/actions/add_service"),
        add,
    )
    .await;
    let before = cloud.load_balancer(id).unwrap()["services"][0].clone();
    let path = format!("/load_balancers/{id}/actions/update_service");
    let update =
        json!({"listen_port": 80, "health_check": {"interval": 30, "http": {"domain": null}}});
    assert_eq!(post(&cloud, &path, update).await.0, 201);
    let mut expected = before;
    expected["health_check"]["interval"] = json!(30);
    expected["health_check"]["http"]["domain"] = Value::Null;
    assert_eq!(
        cloud.load_balancer(id).unwrap()["services"],
        json!([expected])
    );
}
