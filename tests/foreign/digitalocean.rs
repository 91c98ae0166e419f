//! The simulated DigitalOcean, driven over TLS by the vendor's own client in Python (`pydo` from PyPI), and its answers
//! compared with the vendor's OpenAPI document, if `CCM_DIGITALOCEAN_OPENAPI` names a checkout of it.

use std::path::Path;
use std::time::Duration;

use ccm_fixtures::TOKEN;
use ccm_sim::digitalocean::{DigitalOcean, DropletSpec, Fault, Options, Trouble};
use ccm_tests::authority;
use serde_json::{Value, json};

use super::python::Client;

/// A call of the client, and where the vendor's document describes its answer.
struct Call {
    method: &'static str,
    arguments: Value,
    path: &'static str,
    verb: &'static str,
    status: u16,
}

fn call(
    method: &'static str,
    arguments: Value,
    path: &'static str,
    verb: &'static str,
    status: u16,
) -> Call {
    Call {
        method,
        arguments,
        path,
        verb,
        status,
    }
}

async fn start() -> DigitalOcean {
    let options = Options {
        tls: Some(authority::issue("digitalocean").unwrap()),
        ..Options::new(TOKEN)
    };
    DigitalOcean::start(options).await.unwrap()
}

#[test]
fn the_vendors_client_and_document_understand_the_simulator() {
    let client = Client::install("digitalocean");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let cloud = runtime.block_on(start());
    let first = cloud.add_droplet(DropletSpec::named("node-1"));
    cloud.add_droplet(DropletSpec {
        ipv6: true,
        ..DropletSpec::named("node-2")
    });
    let calls = calls(&cloud, first);
    let listed: Vec<Value> = calls
        .iter()
        .map(|one| json!([one.method, one.arguments]))
        .collect();
    let reported = drive(&client, &cloud, json!(listed));
    let bodies: Vec<&Value> = calls
        .iter()
        .zip(&reported)
        .map(|(call, reported)| match call.status {
            200..300 => reported
                .get("answer")
                .unwrap_or_else(|| panic!("{}: {reported:#}", call.method)),
            _ => reported
                .get("refused")
                .unwrap_or_else(|| panic!("{}: {reported:#}", call.method)),
        })
        .collect();
    understood(&bodies, first);
    busy(&client, &cloud);
    // `.ci/run` reports when they are not compared.
    if let Ok(checkout) = std::env::var("CCM_DIGITALOCEAN_OPENAPI") {
        documented(&checkout, &calls, &bodies);
    }
}

fn drive(client: &Client, cloud: &DigitalOcean, calls: Value) -> Vec<Value> {
    let authority = client.trust(cloud.ca_pem().unwrap());
    let task = json!({"endpoint": cloud.endpoint(), "token": TOKEN, "calls": calls});
    let trusted: &Path = &authority;
    client.drive(&task, &[("REQUESTS_CA_BUNDLE", trusted)])
}

/// A reference to a part of an earlier call's answer.
fn of(call: usize, take: &[&str]) -> Value {
    json!({"of": call, "take": take})
}

fn body(droplets: Value, more: Value) -> Value {
    let mut body = json!({
        "name": "web", "region": "fra1", "type": "REGIONAL", "droplet_ids": droplets,
        "forwarding_rules": [{"entry_protocol": "http", "entry_port": 80, "target_protocol": "http", "target_port": 30080}],
    });
    for (key, value) in more.as_object().unwrap() {
        body[key] = value.clone();
    }
    body
}

/// Calls every endpoint once, with every form of each kind of object.
fn calls(cloud: &DigitalOcean, first: u64) -> Vec<Call> {
    let id = of(0, &["load_balancer", "id"]);
    let one = "/v2/load_balancers/{lb_id}";
    let all = "/v2/load_balancers";
    let certificate = cloud.add_certificate("shop", "lets_encrypt");
    let more = json!({
        "health_check": {"protocol": "http", "port": 10256, "path": "/healthz", "check_interval_seconds": 3,
            "response_timeout_seconds": 5, "healthy_threshold": 5, "unhealthy_threshold": 3},
        "sticky_sessions": {"type": "cookies", "cookie_name": "DO-LB", "cookie_ttl_seconds": 300},
        "firewall": {"allow": ["cidr:10.0.0.0/8"], "deny": ["ip:192.0.2.1"]},
        "forwarding_rules": [{"entry_protocol": "https", "entry_port": 443, "target_protocol": "http",
            "target_port": 30443, "certificate_id": certificate}],
        "size_unit": 2, "enable_proxy_protocol": true, "http_idle_timeout_seconds": 90, "tags": ["k8s:c1"],
    });
    vec![
        call(
            "load_balancers.create",
            json!({"body": body(json!([first]), json!({"network_stack": "DUALSTACK", "tags": ["k8s:c1"]}))}),
            all,
            "post",
            202,
        ),
        call("load_balancers.get", json!({"lb_id": id}), one, "get", 200),
        call(
            "load_balancers.update",
            json!({"lb_id": id, "body": body(json!([first]), json!({"network_stack": "DUALSTACK", "tags": ["k8s:c1"]}))}),
            one,
            "put",
            200,
        ),
        call(
            "load_balancers.list",
            json!({"per_page": 1}),
            all,
            "get",
            200,
        ),
        call(
            "load_balancers.add_droplets",
            json!({"lb_id": id, "body": {"droplet_ids": [first + 1]}}),
            "/v2/load_balancers/{lb_id}/droplets",
            "post",
            204,
        ),
        call(
            "load_balancers.remove_droplets",
            json!({"lb_id": id, "body": {"droplet_ids": [first]}}),
            "/v2/load_balancers/{lb_id}/droplets",
            "delete",
            204,
        ),
        call(
            "load_balancers.create",
            json!({"body": body(json!([first]), more)}),
            all,
            "post",
            202,
        ),
        call(
            "load_balancers.list",
            json!({"per_page": 1, "page": 2}),
            all,
            "get",
            200,
        ),
        call(
            "load_balancers.get",
            json!({"lb_id": "00000000-0000-4000-8000-00000000ffff"}),
            one,
            "get",
            404,
        ),
        call(
            "droplets.list",
            json!({"per_page": 1}),
            "/v2/droplets",
            "get",
            200,
        ),
        call(
            "droplets.list",
            json!({"name": "NODE-2"}),
            "/v2/droplets",
            "get",
            200,
        ),
        call(
            "droplets.get",
            json!({"droplet_id": first}),
            "/v2/droplets/{droplet_id}",
            "get",
            200,
        ),
        call(
            "droplets.get",
            json!({"droplet_id": 1}),
            "/v2/droplets/{droplet_id}",
            "get",
            404,
        ),
        call(
            "certificates.list",
            json!({}),
            "/v2/certificates",
            "get",
            200,
        ),
        call(
            "certificates.get",
            json!({"certificate_id": certificate}),
            "/v2/certificates/{certificate_id}",
            "get",
            200,
        ),
        call(
            "tags.get",
            json!({"tag_id": "k8s:c1"}),
            "/v2/tags/{tag_id}",
            "get",
            200,
        ),
        call(
            "tags.delete",
            json!({"tag_id": "k8s:c1"}),
            "/v2/tags/{tag_id}",
            "delete",
            204,
        ),
        call(
            "tags.get",
            json!({"tag_id": "k8s:c1"}),
            "/v2/tags/{tag_id}",
            "get",
            404,
        ),
        call("regions.list", json!({}), "/v2/regions", "get", 200),
        call(
            "vpcs.get",
            json!({"vpc_id": cloud.vpc("fra1")}),
            "/v2/vpcs/{vpc_id}",
            "get",
            200,
        ),
        call("projects.list", json!({}), "/v2/projects", "get", 200),
        call("account.get", json!({}), "/v2/account", "get", 200),
        call(
            "load_balancers.delete",
            json!({"lb_id": id}),
            one,
            "delete",
            204,
        ),
    ]
}

fn understood(bodies: &[&Value], first: u64) {
    let made = &bodies[0]["load_balancer"];
    assert_eq!((&made["status"], &made["ip"]), (&json!("new"), &json!("")));
    let found = &bodies[1]["load_balancer"];
    assert_eq!(
        (&found["status"], &found["type"]),
        (&json!("active"), &json!("REGIONAL"))
    );
    assert!(
        found["ip"].as_str().unwrap().starts_with("198.19."),
        "{found:#}"
    );
    assert!(
        found["ipv6"].as_str().unwrap().starts_with("2001:db8:"),
        "{found:#}"
    );
    assert_eq!(found["droplet_ids"], json!([first]));
    assert_eq!(found["region"]["slug"], "fra1");
    let (list, second) = (bodies[3], bodies[7]);
    assert_eq!(list["meta"]["total"], 1);
    assert_eq!(second["meta"]["total"], 2);
    assert_eq!(
        second["load_balancers"][0]["sticky_sessions"]["cookie_name"],
        "DO-LB"
    );
    let pages = &second["links"]["pages"];
    assert!(
        pages["prev"].as_str().unwrap().contains("page=1") && pages["next"].is_null(),
        "{pages:#}"
    );
    let pages = &bodies[9]["links"]["pages"];
    assert!(
        pages["next"].as_str().unwrap().contains("page=2"),
        "{pages:#}"
    );
    assert_eq!(pages["next"], pages["last"]);
    assert_eq!(bodies[10]["droplets"][0]["name"], "node-2");
    assert_eq!(bodies[8]["id"], "not_found");
}

/// While it is made, and after a change, a load balancer refuses changes; too many requests are refused with a
/// `Retry-After`.
fn busy(client: &Client, cloud: &DigitalOcean) {
    cloud.set_durations(Duration::MAX, Duration::ZERO);
    let droplet = cloud.add_droplet(DropletSpec::named("node-3"));
    cloud.inject(Fault::new(Trouble::TooManyRequests { retry_after: None }).path("/v2/account"));
    let requested = body(json!([droplet]), json!({"name": "slow"}));
    let id = of(0, &["load_balancer", "id"]);
    let calls = json!([
        ["load_balancers.create", {"body": requested}],
        ["load_balancers.update", {"lb_id": id, "body": requested}],
        ["load_balancers.create", {"body": body(json!([1]), json!({}))}],
        ["account.get", {}],
    ]);
    let reported = drive(client, cloud, calls);
    let message = reported[1]["refused"]["message"].as_str().unwrap();
    assert!(message.contains("previous actions"), "{reported:#?}");
    assert_eq!(reported[2]["refused"]["id"], "unprocessable_entity");
    assert_eq!(reported[3]["refused"]["id"], "too_many_requests");
}

fn documented(checkout: &str, calls: &[Call], bodies: &[&Value]) {
    let document = Path::new(checkout).join("specification/DigitalOcean-public.v2.yaml");
    let answers: Vec<Value> = calls
        .iter()
        .zip(bodies)
        .map(|(call, body)| json!({"path": call.path, "method": call.verb, "status": call.status, "body": body}))
        .collect();
    let task = json!({"document": document, "answers": answers});
    let reported = Client::install("digitalocean_schema").drive(&task, &[]);
    let wrong: Vec<String> = calls
        .iter()
        .zip(&reported)
        .filter(|(_, errors)| !errors.as_array().unwrap().is_empty())
        .map(|(call, errors)| format!("{} {}: {errors:#}", call.verb, call.path))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
