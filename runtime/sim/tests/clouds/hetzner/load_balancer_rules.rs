//! Which requests about load balancers the cloud accepts and refuses: tables of requests and answers, without any
//! client library.

use std::time::SystemTime;

use ccm_sim::hetzner::{
    Hetzner, LoadBalancerSpec, LoadBalancerType, Offer, Options, ServerSpec, Service, Target,
};
use http::Method;
use serde_json::{Value, json};

use super::{TOKEN, cloud, cloud_with, reqwest_client};

thread_local! {
    /// One client for each test: creating it takes longer than most tests.
    static CLIENT: reqwest::Client = reqwest_client();
}

/// Sends one request and returns status and body; without a body it is null.
pub(super) async fn ask(cloud: &Hetzner, method: Method, path: &str, body: Value) -> (u16, Value) {
    let url = format!("{}{path}", cloud.endpoint());
    let client = CLIENT.with(Clone::clone);
    let request = client.request(method, url).bearer_auth(TOKEN);
    let request = if body.is_null() {
        request
    } else {
        request.body(body.to_string())
    };
    let answer = request.send().await.unwrap();
    let status = answer.status().as_u16();
    let text = answer.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or_default())
}

pub(super) async fn post(cloud: &Hetzner, path: &str, body: Value) -> (u16, Value) {
    ask(cloud, Method::POST, path, body).await
}

/// A refusal in short: the code and, if there is one, the field or the limit.
pub(super) fn brief(body: &Value) -> String {
    let error = &body["error"];
    let code = error["code"].as_str().unwrap_or("no error");
    let details = &error["details"];
    match details["fields"][0]["name"]
        .as_str()
        .or(details["limits"][0]["name"].as_str())
    {
        Some(name) => format!("{code} {name}"),
        None => code.to_owned(),
    }
}

pub(super) async fn refuses(cloud: &Hetzner, path: &str, rows: Vec<(Value, u16, &str)>) {
    let before = cloud.load_balancers();
    for (body, status, expected) in rows {
        let (answered, answer) = post(cloud, path, body.clone()).await;
        assert_eq!(
            (answered, brief(&answer).as_str()),
            (status, expected),
            "{path} {body}"
        );
    }
    assert_eq!(
        cloud.load_balancers(),
        before,
        "a refused request changed something"
    );
}

pub(super) fn service(protocol: &str, listen: u64) -> Value {
    json!({"protocol": protocol, "listen_port": listen, "destination_port": 30_000})
}

pub(super) fn with(mut body: Value, key: &str, value: Value) -> Value {
    body[key] = value;
    body
}

pub(super) fn server(id: u64, private: bool) -> Value {
    json!({"type": "server", "server": {"id": id}, "use_private_ip": private})
}

#[tokio::test]
async fn a_wish_that_breaks_a_rule_makes_nothing() {
    let cloud = cloud().await;
    cloud.add_load_balancer(LoadBalancerSpec::named("taken"));
    let base = || json!({"name": "web", "load_balancer_type": "lb11", "location": "hel1"});
    let but = |key: &str, value: Value| with(base(), key, value);
    let over = |port: u64| {
        (0..port)
            .map(|port| service("tcp", port + 1))
            .collect::<Value>()
    };
    let rows = vec![
        (
            json!({"load_balancer_type": "lb11", "location": "hel1"}),
            422,
            "invalid_input name",
        ),
        (
            json!({"name": "web", "location": "hel1"}),
            422,
            "invalid_input load_balancer_type",
        ),
        (
            json!({"name": "web", "load_balancer_type": "lb11"}),
            422,
            "invalid_input location",
        ),
        (but("name", json!(" web")), 422, "invalid_input name"),
        (but("name", json!("")), 422, "invalid_input name"),
        (but("name", json!(7)), 422, "invalid_input body"),
        (
            but("name", json!("x".repeat(129))),
            422,
            "invalid_input name",
        ),
        (but("name", json!("taken")), 409, "uniqueness_error name"),
        (but("colour", json!("red")), 422, "invalid_input colour"),
        (
            but("network_zone", json!("eu-central")),
            422,
            "invalid_input location",
        ),
        (
            but("location", json!("mars")),
            422,
            "invalid_input location",
        ),
        (
            but("load_balancer_type", json!("lb99")),
            422,
            "invalid_input load_balancer_type",
        ),
        (
            but("algorithm", json!({"type": "random"})),
            422,
            "invalid_input algorithm.type",
        ),
        (
            but("labels", json!({"a": "-"})),
            422,
            "invalid_input labels",
        ),
        (
            but("labels", json!({"hetzner.cloud/a": "b"})),
            422,
            "invalid_input labels",
        ),
        (
            but("labels", json!({"a b": "c"})),
            422,
            "invalid_input labels",
        ),
        (
            but("labels", json!({"a": "x".repeat(64)})),
            422,
            "invalid_input labels",
        ),
        (but("network", json!(9)), 404, "not_found"),
        (
            but("public_net", json!({"ipv4": 9})),
            422,
            "invalid_input public_net",
        ),
        (
            but("services", over(6)),
            403,
            "resource_limit_exceeded load_balancer_service_limit",
        ),
        (
            but("services", json!([service("tcp", 80), service("http", 80)])),
            412,
            "source_port_already_used",
        ),
        (but("targets", json!([server(9, false)])), 404, "not_found"),
        (
            but("targets", json!([server(9, true), 1])),
            422,
            "invalid_input body",
        ),
    ];
    refuses(&cloud, "/load_balancers", rows).await;
    cloud.set_load_balancer_quota(1);
    let rows = vec![(base(), 403, "resource_limit_exceeded load_balancer_limit")];
    refuses(&cloud, "/load_balancers", rows).await;
    let (status, answer) = ask(
        &cloud,
        Method::PUT,
        "/load_balancers/1",
        json!({"labels": {"_": "x"}}),
    )
    .await;
    assert_eq!(
        (status, brief(&answer).as_str()),
        (422, "invalid_input labels")
    );
    let url = format!("{}/load_balancers", cloud.endpoint());
    let broken = reqwest_client()
        .post(url)
        .bearer_auth(TOKEN)
        .body("{")
        .send()
        .await
        .unwrap();
    assert_eq!(broken.status().as_u16(), 400);
}

#[tokio::test]
async fn a_type_limits_what_fits_and_may_be_sold_no_more() {
    let now = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
    let cloud = cloud_with(Options {
        clock: std::sync::Arc::new(move || now),
        ..Options::new(TOKEN)
    })
    .await;
    let ids = cloud.add_servers((1..=26).map(|number| ServerSpec::named(format!("node-{number}"))));
    let id = cloud.add_load_balancer(LoadBalancerSpec::named("web"));
    cloud.change_load_balancer(id, |spec| {
        let target = |id: &u64| Target::Server {
            id: *id,
            use_private_ip: false,
        };
        spec.targets = ids[..25].iter().map(target).collect();
    });
    let add = format!("/load_balancers/{id}/actions/add_target");
    let rows = vec![(
        server(ids[25], false),
        403,
        "resource_limit_exceeded load_balancer_target_limit",
    )];
    refuses(&cloud, &add, rows).await;
    let change = format!("/load_balancers/{id}/actions/change_type");
    let to = |name: &str| json!({"load_balancer_type": name});
    assert_eq!(post(&cloud, &change, to("lb21")).await.0, 201);
    assert_eq!(post(&cloud, &add, server(ids[25], false)).await.0, 201);
    refuses(
        &cloud,
        &change,
        vec![(to("lb11"), 422, "invalid_load_balancer_type")],
    )
    .await;

    let at = |seconds: i64| jiff::Timestamp::from_second(seconds).unwrap();
    let until = |unavailable_after| Offer::Deprecated {
        announced: at(900_000),
        unavailable_after,
    };
    cloud.set_offer(LoadBalancerType::Lb31, until(at(2_000_000)));
    let (_, types) = ask(
        &cloud,
        Method::GET,
        "/load_balancer_types?name=lb31",
        Value::Null,
    )
    .await;
    assert_eq!(
        types["load_balancer_types"][0]["deprecation"],
        json!({"announced": "1970-01-11T10:00:00Z", "unavailable_after": "1970-01-24T03:33:20Z"})
    );
    assert_eq!(post(&cloud, &change, to("lb31")).await.0, 201);
    for offer in [until(at(1_000_000)), Offer::SoldOut] {
        cloud.set_offer(LoadBalancerType::Lb21, offer);
        refuses(
            &cloud,
            &change,
            vec![(to("lb21"), 412, "resource_unavailable")],
        )
        .await;
    }
}

#[tokio::test]
async fn the_owner_of_the_handle_sees_and_changes_everything() {
    let cloud = cloud().await;
    let id = cloud.add_load_balancer(LoadBalancerSpec::named("web"));
    let twin = cloud.add_load_balancer(LoadBalancerSpec::named("web"));
    assert_eq!(cloud.load_balancer_ids(), [id, twin]);
    let (_, listed) = ask(&cloud, Method::GET, "/load_balancers?name=web", Value::Null).await;
    assert_eq!(listed["load_balancers"], json!(cloud.load_balancers()));
    cloud.change_load_balancer(id, |spec| {
        spec.delete_protected = true;
        spec.services.push(Service {
            protocol: ccm_sim::hetzner::Protocol::Tcp,
            listen_port: 80,
            destination_port: 8080,
            proxyprotocol: false,
            http: Default::default(),
            health_check: ccm_sim::hetzner::HealthCheck::connects_to(8080),
        });
    });
    let (status, answer) = ask(
        &cloud,
        Method::DELETE,
        &format!("/load_balancers/{id}"),
        Value::Null,
    )
    .await;
    assert_eq!((status, brief(&answer).as_str()), (423, "protected"));
    assert_eq!(
        cloud.load_balancer_spec(id).unwrap().services[0].listen_port,
        80
    );
    cloud.set_old_load_balancer_deletion(true);
    let (status, answer) = ask(
        &cloud,
        Method::DELETE,
        &format!("/load_balancers/{twin}"),
        Value::Null,
    )
    .await;
    assert_eq!((status, answer), (204, Value::Null));
    assert!(cloud.remove_load_balancer(id) && !cloud.remove_load_balancer(id));
    assert_eq!(cloud.load_balancers(), Vec::<Value>::new());
}
