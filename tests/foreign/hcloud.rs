//! The cloud simulator, driven over TLS by the vendor's own client in Python (`hcloud` from PyPI): load balancers with
//! all their parts, and the routes of networks. An answer that this client cannot read has not the vendor's shape.

use std::path::Path;
use std::time::Duration;

use ccm_fixtures::TOKEN;
use ccm_sim::hetzner::{Fault, Hetzner, Location, Options, ServerSpec, Trouble};
use ccm_tests::authority;
use serde_json::{Value, json};

use super::python::Client;

#[path = "hcloud/routes.rs"]
mod routes;

/// The duration of a change.
const ACTION: Duration = Duration::from_millis(60);

fn drive(client: &Client, cloud: &Hetzner, calls: Value) -> Vec<Value> {
    let authority = client.trust(cloud.ca_pem().unwrap());
    let task = json!({"endpoint": cloud.endpoint(), "token": TOKEN, "calls": calls});
    let trusted: &Path = &authority;
    client.drive(&task, &[("REQUESTS_CA_BUNDLE", trusted)])
}

/// The answers of calls, all of which must have succeeded.
fn answers(said: &[Value]) -> Vec<&Value> {
    said.iter()
        .map(|one| {
            let answer = one.get("answer");
            answer.unwrap_or_else(|| panic!("{one:#}\namong {said:#?}"))
        })
        .collect()
}

fn lb11() -> Value {
    json!({"class": "LoadBalancerType", "name": "lb11"})
}

fn tcp_service(listen: u16) -> Value {
    json!({
        "class": "LoadBalancerService", "protocol": "tcp", "listen_port": listen,
        "destination_port": 30_080, "proxyprotocol": true,
        "health_check": {
            "class": "LoadBalancerHealthCheck", "protocol": "http", "port": 30_081,
            "interval": 5, "timeout": 3, "retries": 2,
            "http": {
                "class": "LoadBalancerHealthCheckHttp", "domain": "example.com", "path": "/healthz",
                "response": "ok", "status_codes": ["200"], "tls": true,
            },
        },
    })
}

/// A service as the client shows it: the answer's fields, without the client's own.
fn shown(mut service: Value) -> Value {
    strip_classes(&mut service);
    service["http"] = Value::Null;
    service
}

fn strip_classes(value: &mut Value) {
    if let Some(fields) = value.as_object_mut() {
        fields.remove("class");
        fields.values_mut().for_each(strip_classes);
    }
}

fn server_target(id: u64, private: bool) -> Value {
    let server = json!({"class": "Server", "id": id});
    json!({
        "class": "LoadBalancerTarget", "type": "server", "server": server, "use_private_ip": private,
    })
}

async fn start() -> Hetzner {
    let options = Options {
        tls: Some(authority::issue("hcloud").unwrap()),
        action_duration: ACTION,
        ..Options::new(TOKEN)
    };
    Hetzner::start(options).await.unwrap()
}

/// A reference to the object of an earlier call's answer.
fn of(call: usize, take: &str) -> Value {
    json!({"of": call, "take": take})
}

#[test]
fn load_balancers_and_routes_are_understood_by_the_vendors_client() {
    let client = Client::install("hcloud");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let cloud = runtime.block_on(start());
    creation(&client, &cloud);
    changes(&client, &cloud);
    certificates(&client, &cloud);
    refusals(&client, &cloud);
    routes::check(&client, &cloud);
}

fn creation(client: &Client, cloud: &Hetzner) {
    let range = "10.0.0.0/24".parse().unwrap();
    let network = cloud.add_network("nodes", range, Location::Fsn1);
    let node = cloud.add_server(ServerSpec::named("node-1"));
    cloud.attach(node, network, None).unwrap();
    cloud.own_address("198.51.100.7".parse().unwrap());
    let robot = json!({
        "class": "LoadBalancerTarget", "type": "ip",
        "ip": {"class": "LoadBalancerTargetIP", "ip": "198.51.100.7"},
    });
    let calls = json!([
        ["load_balancers.create", {
            "name": "web", "load_balancer_type": lb11(), "network_zone": "eu-central",
            "algorithm": {"class": "LoadBalancerAlgorithm", "type": "least_connections"},
            "services": [tcp_service(80)], "targets": [server_target(node, true), robot],
            "labels": {"owner": "web"}, "network": {"class": "Network", "id": network},
        }],
        ["wait", {"action": of(0, "action")}],
        ["load_balancers.get_by_name", {"name": "web"}],
        ["load_balancers.get_all", {"label_selector": "owner=web"}],
        ["load_balancers.get_actions", {"load_balancer": {"of": 2}}],
        ["load_balancer_types.get_all", {}],
    ]);
    let said = drive(client, cloud, calls);
    let answers = answers(&said);
    let made = &answers[0]["load_balancer"];
    assert_eq!(made["public_net"]["ipv4"]["ip"], "198.19.192.1");
    assert_eq!(answers[0]["action"]["status"], "running");
    let action = &answers[1];
    let resources = json!([{"id": made["id"], "type": "load_balancer"}]);
    assert_eq!(
        (&action["command"], &action["status"], &action["resources"]),
        (
            &json!("create_load_balancer"),
            &json!("success"),
            &resources
        )
    );
    let found = answers[2];
    let health = |status: &str| json!([{"listen_port": 80, "status": status, "detail": null, "http_status_code": null}]);
    let target = |kind: &str, status: &str, fields: Value| {
        let mut shown = json!({
            "type": kind, "server": null, "label_selector": null, "ip": null,
            "use_private_ip": null, "health_status": health(status), "targets": null,
        });
        for (key, value) in fields.as_object().unwrap() {
            shown[key] = value.clone();
        }
        shown
    };
    assert_eq!(
        found["targets"],
        json!([
            target(
                "server",
                "healthy",
                json!({"server": {"id": node}, "use_private_ip": true})
            ),
            target("ip", "unknown", json!({"ip": {"ip": "198.51.100.7"}})),
        ])
    );
    assert_eq!(found["services"], json!([shown(tcp_service(80))]));
    assert_eq!(
        found["private_net"],
        json!([{"network": {"id": network}, "ip": "10.0.0.3"}])
    );
    assert_eq!(found["algorithm"], json!({"type": "least_connections"}));
    assert_eq!(
        (&found["labels"], &found["protection"]),
        (&json!({"owner": "web"}), &json!({"delete": false}))
    );
    assert_eq!(found["location"]["name"], "fsn1");
    // The answer has every field of a load balancer that the client knows.
    let fields = found.as_object().unwrap();
    let absent: Vec<_> = fields.iter().filter(|(_, value)| value.is_null()).collect();
    assert_eq!(absent, Vec::<(&String, &Value)>::new());
    assert_eq!(answers[3], &json!([found]));
    assert_eq!(answers[4][0]["command"], "create_load_balancer");
    let limits: Vec<_> = answers[5].as_array().unwrap().iter().collect();
    let limits: Vec<_> = limits
        .iter()
        .map(|one| (&one["name"], &one["max_targets"]))
        .collect();
    assert_eq!(
        limits,
        [
            (&json!("lb11"), &json!(25)),
            (&json!("lb21"), &json!(75)),
            (&json!("lb31"), &json!(150))
        ]
    );
}

fn changes(client: &Client, cloud: &Hetzner) {
    let network = cloud.add_network("other", "10.1.0.0/24".parse().unwrap(), Location::Fsn1);
    let node = cloud.add_server(ServerSpec::named("node-2"));
    let balancer = json!({"of": 0});
    let mut calls = vec![json!(["load_balancers.get_by_name", {"name": "web"}])];
    // Each change waits for the previous one: a load balancer is locked while an action runs on it.
    let mut change = |method: &str, fields: Value| {
        let mut arguments = fields;
        arguments["load_balancer"] = balancer.clone();
        let place = calls.len();
        calls.push(json!([format!("load_balancers.{method}"), arguments]));
        calls.push(json!(["wait", {"action": {"of": place}}]));
    };
    let old = json!({"class": "Network", "id": 1});
    let new = json!({"class": "Network", "id": network});
    let selector = json!({"class": "LoadBalancerTargetLabelSelector", "selector": "role=web"});
    let by_label = json!({"class": "LoadBalancerTarget", "type": "label_selector", "label_selector": selector, "use_private_ip": false});
    let small =
        json!({"class": "LoadBalancerService", "listen_port": 80, "destination_port": 31_000});
    change("add_service", json!({"service": tcp_service(443)}));
    change("update_service", json!({"service": small}));
    change(
        "delete_service",
        json!({"service": {"class": "LoadBalancerService", "listen_port": 443}}),
    );
    change("add_target", json!({"target": server_target(node, false)}));
    change("add_target", json!({"target": by_label}));
    change(
        "remove_target",
        json!({"target": server_target(node, false)}),
    );
    change("detach_from_network", json!({"network": old}));
    change(
        "attach_to_network",
        json!({"network": new, "ip": "10.1.0.9"}),
    );
    change(
        "change_algorithm",
        json!({"algorithm": {"class": "LoadBalancerAlgorithm", "type": "round_robin"}}),
    );
    change(
        "change_type",
        json!({"load_balancer_type": {"class": "LoadBalancerType", "name": "lb21"}}),
    );
    change(
        "change_dns_ptr",
        json!({"ip": "198.19.192.1", "dns_ptr": "web.example.com"}),
    );
    change(
        "change_dns_ptr",
        json!({"ip": "2001:db8:fffe::1", "dns_ptr": "web6.example.com"}),
    );
    change("change_protection", json!({"delete": true}));
    let place = calls.len();
    calls.push(json!(["load_balancers.update", {"load_balancer": balancer, "name": "web-2", "labels": {"owner": "other"}}]));
    calls.push(json!(["load_balancers.delete", {"load_balancer": balancer}]));
    cloud.change_server(node, |spec| {
        drop(spec.labels.insert("role".to_owned(), "web".to_owned()))
    });
    let said = drive(client, cloud, json!(calls));
    let (refused, rest) = said.split_last().unwrap();
    assert_eq!(refused["refused"], "protected");
    let changed = answers(rest)[place].clone();
    let mut service = shown(tcp_service(80));
    service["destination_port"] = json!(31_000);
    assert_eq!(changed["services"], json!([service]));
    let kinds: Vec<_> = changed["targets"].as_array().unwrap().iter().collect();
    let kinds: Vec<_> = kinds
        .iter()
        .map(|one| one["type"].as_str().unwrap())
        .collect();
    // The target that was reached through the network left with it.
    assert_eq!(kinds, ["ip", "label_selector"]);
    assert_eq!(changed["targets"][1]["targets"][0]["server"]["id"], node);
    assert_eq!(
        changed["private_net"],
        json!([{"network": {"id": network}, "ip": "10.1.0.9"}])
    );
    assert_eq!(changed["public_net"]["ipv4"]["dns_ptr"], "web.example.com");
    assert_eq!(changed["public_net"]["ipv6"]["dns_ptr"], "web6.example.com");
    assert_eq!(
        (&changed["name"], &changed["labels"]),
        (&json!("web-2"), &json!({"owner": "other"}))
    );
    assert_eq!(
        (
            &changed["algorithm"]["type"],
            &changed["load_balancer_type"]["name"]
        ),
        (&json!("round_robin"), &json!("lb21"))
    );

    let id = cloud.load_balancer_ids()[0];
    cloud.change_load_balancer(id, |spec| spec.delete_protected = false);
    let calls = json!([
        ["load_balancers.get_by_id", {"id": id}],
        ["load_balancers.delete", {"load_balancer": {"of": 0}}],
        ["wait", {"action": of(1, "action")}],
        ["load_balancers.get_by_name", {"name": "web-2"}],
    ]);
    let said = drive(client, cloud, calls);
    let answers = answers(&said);
    assert_eq!(
        (&answers[2]["command"], answers[3]),
        (&json!("delete_load_balancer"), &Value::Null)
    );
}

fn certificates(client: &Client, cloud: &Hetzner) {
    cloud.inject(
        Fault::new(Trouble::ActionFails {
            code: "dns_zone_not_found".to_owned(),
            message: "DNS zone not found".to_owned(),
        })
        .path("/certificates")
        .after(1)
        .times(1),
    );
    let pem = "-----BEGIN CERTIFICATE-----\nYQ==\n-----END CERTIFICATE-----\n";
    let key = "-----BEGIN PRIVATE KEY-----\nYQ==\n-----END PRIVATE KEY-----\n";
    let https = json!({
        "class": "LoadBalancerService", "protocol": "https", "listen_port": 443,
        "destination_port": 30_080, "proxyprotocol": false,
        "http": {
            "class": "LoadBalancerServiceHttp", "certificates": [{"of": 0}, of(1, "certificate")],
            "redirect_http": true, "sticky_sessions": true, "cookie_name": "c", "cookie_lifetime": 60,
        },
        "health_check": {
            "class": "LoadBalancerHealthCheck", "protocol": "tcp", "port": 1, "interval": 3,
            "timeout": 1, "retries": 1,
        },
    });
    let calls = json!([
        ["certificates.create", {"name": "own", "certificate": pem, "private_key": key, "labels": {"a": "b"}}],
        ["certificates.create_managed", {"name": "managed", "domain_names": ["example.com"]}],
        ["wait", {"action": of(1, "action")}],
        ["certificates.get_by_name", {"name": "managed"}],
        ["certificates.retry_issuance", {"certificate": of(1, "certificate")}],
        ["wait", {"action": {"of": 4}}],
        ["certificates.get_by_name", {"name": "managed"}],
        ["load_balancers.create", {
            "name": "tls", "load_balancer_type": lb11(), "services": [https],
            "location": {"class": "Location", "name": "hel1"},
        }],
        ["certificates.get_all", {"label_selector": "a=b"}],
        ["certificates.delete", {"certificate": {"of": 0}}],
        ["load_balancers.create", {
            "name": "twice", "load_balancer_type": lb11(),
            "services": [https, {"class": "LoadBalancerService", "protocol": "http"}],
            "location": {"class": "Location", "name": "hel1"},
        }],
    ]);
    let said = drive(client, cloud, calls);
    assert_eq!(said[2]["failed"]["code"], "dns_zone_not_found");
    let before = &said[3]["answer"];
    assert_eq!(
        (
            &before["status"]["issuance"],
            &before["status"]["error"]["code"]
        ),
        (&json!("failed"), &json!("dns_zone_not_found"))
    );
    let after = &said[6]["answer"];
    assert_eq!(
        (&after["status"]["issuance"], &after["domain_names"]),
        (&json!("completed"), &json!(["example.com"]))
    );
    let http = &said[7]["answer"]["load_balancer"]["services"][0]["http"];
    assert_eq!(
        *http,
        json!({
            "cookie_name": "c", "cookie_lifetime": 60, "timeout_idle": 50,
            "certificates": [{"id": said[0]["answer"]["id"]}, {"id": after["id"]}],
            "redirect_http": true, "sticky_sessions": true,
        })
    );
    assert_eq!(said[8]["answer"][0]["certificate"], pem);
    assert_eq!(said[9]["refused"], "resource_in_use");
    // The redirect listens on port 80, where the other service would.
    assert_eq!(said[10]["refused"], "source_port_already_used");
}

/// The code of each refusal.
fn codes(said: &[Value]) -> Vec<Option<&str>> {
    said.iter().map(|one| one["refused"].as_str()).collect()
}

fn refusals(client: &Client, cloud: &Hetzner) {
    cloud.set_load_balancer_quota(2);
    // A load balancer stays locked, however slow the client is.
    cloud.set_action_duration(Duration::MAX);
    let create = |name: &str| {
        let place = json!({"class": "Location", "name": "hel1"});
        json!(["load_balancers.create", {"name": name, "load_balancer_type": lb11(), "location": place}])
    };
    let calls = json!([
        create("tls"),
        create("next"),
        create("one-too-many"),
        ["load_balancers.add_service", {"load_balancer": of(1, "load_balancer"), "service": tcp_service(80)}],
    ]);
    let said = drive(client, cloud, calls);
    let expected = [
        Some("uniqueness_error"),
        None,
        Some("resource_limit_exceeded"),
        Some("locked"),
    ];
    assert_eq!(codes(&said), expected, "{said:#?}");

    cloud.set_action_duration(ACTION);
    let other = json!({"of": 0});
    let calls = json!([
        ["load_balancers.get_by_name", {"name": "tls"}],
        ["load_balancers.add_target", {"load_balancer": other, "target": server_target(99, false)}],
        ["load_balancers.change_dns_ptr", {"load_balancer": other, "ip": "x", "dns_ptr": null}],
    ]);
    let said = drive(client, cloud, calls);
    let expected = [None, Some("not_found"), Some("invalid_input")];
    assert_eq!(codes(&said), expected, "{said:#?}");
    assert_eq!(said[2]["details"]["fields"][0]["name"], "ip");
}
