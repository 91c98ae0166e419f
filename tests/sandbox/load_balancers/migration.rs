//! Takes over a cluster whose load balancers the Go manager has made: nothing changes in the cloud, and only the owner
//! and the condition are written to each Service. The inventory is made by the requests that the Go manager sends.

use std::collections::BTreeSet;

use ccm_sim::cluster::Write;
use ccm_tests::harness::trial;
use kube::api::{Patch, PatchParams};
use libtest_mimic::{Failed, Trial};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::load_balancers::inventory::{FINALIZER, OWNER, PREFIX, PROVIDER, findings};
use crate::load_balancers::world::{CONTROLLERS, Setup, TOKEN, World, in_world, load_balancer};

const NODES: [&str; 4] = ["worker-1", "worker-2", "worker-3", "worker-4"];

pub(crate) fn trials() -> Vec<Trial> {
    let made = |name: &'static str, has_network| {
        trial(name, move || {
            let setup = Setup {
                has_network,
                ..Setup::default()
            };
            in_world(setup, take_over)
        })
    };
    vec![
        made("migration::from_the_go_manager_changes_no_cloud", false),
        made("migration::in_a_network_changes_no_cloud", true),
    ]
}

/// A Service's annotations, and the fields of the requests that the Go manager sends for them.
struct Made {
    name: &'static str,
    annotations: Value,
    /// Fields of the request that creates the load balancer.
    order: Value,
    /// Fields of every port's service, besides the ports themselves.
    service: Value,
    /// The domain of a managed certificate, which every port then has.
    managed: Option<&'static str>,
    health_check: Value,
}

fn inventory() -> Vec<Made> {
    let key = |name: &str| format!("{PREFIX}/{name}");
    vec![
        Made {
            name: "plain",
            annotations: json!({}),
            order: json!({}),
            service: json!({"protocol": "tcp"}),
            managed: None,
            health_check: json!({"protocol": "tcp"}),
        },
        Made {
            name: "chosen",
            annotations: json!({
                key("name"): "the-shop",
                key("algorithm-type"): "least_connections",
                key("type"): "lb21",
                key("uses-proxyprotocol"): "true",
                key("health-check-interval"): "20s",
                key("health-check-timeout"): "5s",
                key("health-check-retries"): "5",
            }),
            order: json!({
                "name": "the-shop",
                "load_balancer_type": "lb21",
                "algorithm": {"type": "least_connections"},
            }),
            service: json!({"protocol": "tcp", "proxyprotocol": true}),
            managed: None,
            health_check: json!({"protocol": "tcp", "interval": 20, "timeout": 5, "retries": 5}),
        },
        Made {
            name: "http",
            annotations: json!({
                key("protocol"): "http",
                key("http-sticky-sessions"): "true",
                key("http-cookie-name"): "SHOP",
                key("http-cookie-lifetime"): "1h",
                key("health-check-protocol"): "http",
                key("health-check-http-path"): "/healthz",
                key("health-check-port"): "8080",
            }),
            order: json!({}),
            service: json!({
                "protocol": "http",
                "http": {"sticky_sessions": true, "cookie_name": "SHOP", "cookie_lifetime": 3600},
            }),
            managed: None,
            health_check: json!({"protocol": "http", "port": 8080, "http": {"path": "/healthz"}}),
        },
        Made {
            name: "certified",
            annotations: json!({
                key("protocol"): "https",
                key("certificate-type"): "managed",
                key("http-managed-certificate-domains"): "shop.example.com",
            }),
            order: json!({}),
            service: json!({"protocol": "https", "http": {}}),
            managed: Some("shop.example.com"),
            health_check: json!({"protocol": "tcp"}),
        },
    ]
}

/// Sends one request of the Go manager, which must succeed.
async fn send(world: &World, method: &str, path: &str, body: &Value) -> Value {
    let body = body.to_string();
    let head = format!(
        "{method} /v1{path} HTTP/1.1\r\nhost: api\r\nauthorization: Bearer {TOKEN}\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let mut wire = TcpStream::connect(world.cloud.address()).await.unwrap();
    wire.write_all(format!("{head}{body}").as_bytes())
        .await
        .unwrap();
    let mut answer = String::new();
    wire.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 20"), "{method} {path}: {answer}");
    serde_json::from_str(body).unwrap()
}

/// Merges the fields of `over` into those of `base`.
fn with(mut base: Value, over: &Value) -> Value {
    for (key, value) in over.as_object().unwrap() {
        base[key] = value.clone();
    }
    base
}

/// A Service as the Go manager leaves it, with its load balancer.
async fn make(world: &World, made: &Made, servers: &[u64]) {
    let service = load_balancer(made.name, &[80, 443], made.annotations.clone());
    let mut service = with(service, &json!({}));
    service["metadata"]["finalizers"] = json!([FINALIZER]);
    let service = json!(world.try_create(&service).await.unwrap());
    let uid = service["metadata"]["uid"].as_str().unwrap();
    let name: String = format!("a{}", uid.replace('-', ""))
        .chars()
        .take(32)
        .collect();
    let mut of_each_port = made.service.clone();
    if let Some(domain) = made.managed {
        let order = json!({
            "name": format!("ccm-managed-certificate-{uid}"), "type": "managed",
            "domain_names": [domain], "labels": {OWNER: uid},
        });
        let answer = send(world, "POST", "/certificates", &order).await;
        of_each_port["http"]["certificates"] = json!([answer["certificate"]["id"]]);
    }
    let order = json!({
        "name": name, "load_balancer_type": "lb11", "location": "fsn1", "labels": {OWNER: uid},
    });
    let order = with(order, &made.order);
    let answer = send(world, "POST", "/load_balancers", &order).await;
    let id = answer["load_balancer"]["id"].as_u64().unwrap();
    let act = async |action: &str, body: Value| {
        let path = format!("/load_balancers/{id}/actions/{action}");
        send(world, "POST", &path, &body).await
    };
    if let Some(network) = world.network {
        act("attach_to_network", json!({"network": network})).await;
    }
    for port in service["spec"]["ports"].as_array().unwrap() {
        let check = with(json!({"port": port["nodePort"]}), &made.health_check);
        let defaults = json!({"interval": 15, "timeout": 10, "retries": 3});
        let one = json!({
            "listen_port": port["port"], "destination_port": port["nodePort"],
            "health_check": with(defaults, &check),
        });
        act("add_service", with(one, &of_each_port)).await;
    }
    for server in servers {
        let target = json!({"type": "server", "server": {"id": server}, "use_private_ip": false});
        act("add_target", target).await;
    }
    let balancer = world.cloud.load_balancer(id).unwrap();
    let public = &balancer["public_net"];
    let mut ips = vec![&public["ipv4"]["ip"], &public["ipv6"]["ip"]];
    let private = balancer["private_net"].as_array().unwrap().iter();
    ips.extend(private.map(|net| &net["ip"]));
    let mode = match made.service["proxyprotocol"] == true {
        true => "Proxy",
        false => "VIP",
    };
    let ingress: Vec<Value> = ips
        .iter()
        .map(|ip| json!({"ip": ip, "ipMode": mode}))
        .collect();
    let status = json!({"status": {"loadBalancer": {"ingress": ingress}}});
    let (params, patch) = (PatchParams::default(), Patch::Merge(status));
    let stored = world.services.patch_status(made.name, &params, &patch);
    stored.await.unwrap();
}

async fn take_over(world: &World) -> Result<(), Failed> {
    let mut servers = Vec::new();
    for name in NODES {
        servers.push(world.join(name).await);
    }
    let inventory = inventory();
    for made in &inventory {
        make(world, made, &servers).await;
    }
    let before = world.cloud.load_balancers();
    world.cloud.clear_requests();
    world.cluster.keep_writes();

    let manager = world.manage().await?;
    let is_taken_over = async || {
        let mut all = Vec::new();
        for made in &inventory {
            all.push(world.service(made.name).await);
        }
        let is_judged = |one: &Value| one["status"]["conditions"][0]["status"] == "True";
        all.iter().all(is_judged) && findings(world, &BTreeSet::new()).await.is_empty()
    };
    world.until("a look at each", is_taken_over).await?;
    manager.stop().await?;

    let written = world.cloud.requests().iter().any(|request| request.write);
    if written || world.cloud.load_balancers() != before {
        return Err(world.failed("the cloud was changed").await);
    }
    let requests = world.cloud.requests();
    let looks = requests
        .iter()
        .filter(|one| one.path.starts_with("/load_balancers"));
    assert_eq!(looks.count(), inventory.len(), "one look at each");
    for made in &inventory {
        let writes = writes_to(world, made.name);
        let [owner, judged] = writes.as_slice() else {
            panic!("{}: {writes:#?}", made.name);
        };
        let uid = &owner.after.as_ref().unwrap()["metadata"]["uid"];
        let annotation = json!({"uid": uid, "annotations": {PROVIDER: "hcloud"}});
        assert_eq!(owner.body, json!({"metadata": annotation}));
        // The condition, which the Go manager does not have; the addresses are not written again.
        assert_eq!(judged.body["metadata"], json!({"uid": uid}));
        let status = judged.body["status"].as_object().unwrap();
        assert_eq!(status.keys().collect::<Vec<_>>(), ["conditions"]);
    }

    // The load balancer is ours from here on: its Service's deletion deletes it.
    let manager = world.manage().await?;
    for made in &inventory {
        world.delete(made.name).await;
    }
    let is_gone = async || world.cloud.load_balancers().is_empty();
    world.until("an empty cloud", is_gone).await?;
    manager.stop().await
}

/// The writes of the controllers to one Service.
fn writes_to(world: &World, name: &str) -> Vec<Write> {
    let is_ours = |write: &Write| {
        let request = &write.request;
        (
            request.identity.as_str(),
            request.resource,
            request.name.as_str(),
        ) == (CONTROLLERS, "services", name)
    };
    world.cluster.writes().into_iter().filter(is_ours).collect()
}
