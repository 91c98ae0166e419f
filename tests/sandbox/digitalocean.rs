//! The shipped guest for DigitalOcean in the real sandbox before a simulated DigitalOcean: nodes and Services from end
//! to end with the controllers, the cost of each event, and the answers that prove no absence.

use std::time::Duration;

use ccm_core::cloud::Lookup;
use ccm_sim::digitalocean::{DropletSpec, Fault, Trouble};
use ccm_tests::harness::{figure, trial};
use libtest_mimic::{Failed, Trial};
use serde_json::{Value, json};

use crate::digitalocean::world::{ID, World, brief, find, in_world, silent};
use crate::quiet::Quiet;

mod world;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("digitalocean::a_node_and_a_service_from_end_to_end", || {
            in_world(&[("DO_CLUSTER_ID", "c1")], end_to_end)
        }),
        trial("digitalocean::each_event_costs_at_most_its_calls", || {
            in_world(&[], costs)
        }),
        trial("digitalocean::gone_is_what_the_droplet_itself_says", || {
            in_world(&[], absence)
        }),
        trial(
            "digitalocean::what_the_go_manager_made_is_taken_over_and_given_back",
            || in_world(&[], migration),
        ),
        trial(
            "digitalocean::lost_answers_and_refusals_make_nothing_twice",
            || in_world(&[], trouble),
        ),
    ]
}

const TAG: &str = "k8s-service-uid:";

/// Waits for the nodes that the test has joined.
async fn initialised(world: &World, names: &[&str]) -> Result<(), Failed> {
    for name in names {
        let is_so = async || world.node(name).await["spec"]["providerID"].is_string();
        world.until("a provider ID", is_so).await?;
    }
    Ok(())
}

async fn has_address(world: &World, name: &str) -> Result<(), Failed> {
    let is_so = async || world.address(name).await.is_string();
    world.until("an address", is_so).await
}

async fn end_to_end(world: &World) -> Result<(), Failed> {
    world
        .cloud
        .set_durations(Duration::from_millis(300), Duration::ZERO);
    let droplet = world.join("worker-1").await;
    world
        .managed(async || {
            initialised(world, &["worker-1"]).await?;
            let node = world.node("worker-1").await;
            assert_eq!(
                node["spec"]["providerID"],
                format!("digitalocean://{droplet}")
            );
            assert_eq!(
                node["metadata"]["labels"]["node.kubernetes.io/instance-type"],
                "s-2vcpu-4gb"
            );
            assert_eq!(
                node["metadata"]["labels"]["topology.kubernetes.io/region"],
                "fra1"
            );
            let types: Vec<&Value> = node["status"]["addresses"]
                .as_array()
                .unwrap()
                .iter()
                .map(|one| &one["type"])
                .collect();
            assert_eq!(types, ["Hostname", "InternalIP", "ExternalIP"]);

            world.create("web", json!({})).await;
            has_address(world, "web").await?;
            let [made] = world.cloud.load_balancers().try_into().unwrap();
            let service = world.service("web").await;
            let uid = service["metadata"]["uid"].as_str().unwrap();
            assert_eq!(
                made["ip"],
                service["status"]["loadBalancer"]["ingress"][0]["ip"]
            );
            assert_eq!(made["tags"], json!([format!("{TAG}{uid}"), "k8s:c1"]));
            assert_eq!(made["name"], format!("a{}", uid.replace('-', ""))[..32]);
            assert_eq!(made["droplet_ids"], json!([droplet]));
            let is_written =
                async || world.service("web").await["metadata"]["annotations"][ID] == made["id"];
            world
                .until("the annotation with the id", is_written)
                .await?;

            world.delete("web").await?;
            assert!(world.cloud.load_balancers().is_empty());
            assert!(
                !world.cloud.tags().iter().any(|tag| tag.starts_with(TAG)),
                "a tag was left"
            );
            Ok(())
        })
        .await
}

/// An event, its maximum number of requests, and how many the Go manager 0.1.68 sends, counted in its source
/// (`loadbalancers.go`, functions named).
const LIMITS: &[(&str, usize, &str)] = &[
    // list and POST in EnsureLoadBalancer, GET and PUT again because of the annotations that it writes, and GET and PUT
    // every 15 s until it is active: after a minute twelve.
    ("create, 2 ports, 4 nodes, a minute", 4, "12"),
    // EnsureLoadBalancer: retrieveAndAnnotateLoadBalancer, updateLoadBalancer.
    ("unrelated annotation", 1, "2"),
    ("proxy protocol on", 2, "2"),
    // UpdateLoadBalancer: the same two.
    ("node added", 2, "2"),
    ("node removed", 2, "2"),
    // GetLoadBalancer, EnsureLoadBalancerDeleted: GET, GET, DELETE.
    ("delete", 4, "3"),
];

async fn costs(world: &World) -> Result<(), Failed> {
    let names = ["worker-1", "worker-2", "worker-3", "worker-4"];
    for name in names {
        world.join(name).await;
    }
    world
        .managed(async || {
            initialised(world, &names).await?;
            // The manager has proved the account before the counting begins.
            world.create("first", json!({})).await;
            has_address(world, "first").await?;
            world.delete("first").await?;
            let mut counts = Vec::new();
            let mut count = || {
                counts.push(about_load_balancers(world));
                world.cloud.clear_requests();
            };
            world.cloud.clear_requests();
            // A minute of the controllers: see the world's pace.
            world
                .cloud
                .set_durations(Duration::from_millis(950), Duration::ZERO);
            world.create("web", json!({})).await;
            has_address(world, "web").await?;
            let is_written =
                async || world.service("web").await["metadata"]["annotations"][ID].is_string();
            world.until("the annotation", is_written).await?;
            settled(world).await?;
            count();
            let annotate = async |annotations: Value| {
                world
                    .change("web", json!({"metadata": {"annotations": annotations}}))
                    .await;
                settled(world).await
            };
            annotate(json!({"example.com/note": "1"})).await?;
            count();
            let key = "service.beta.kubernetes.io/do-loadbalancer-enable-proxy-protocol";
            annotate(json!({key: "true"})).await?;
            assert_eq!(
                world.cloud.load_balancers()[0]["enable_proxy_protocol"],
                true
            );
            count();
            world.join("worker-5").await;
            world
                .until("five droplets", async || droplets(world) == 5)
                .await?;
            settled(world).await?;
            count();
            world.nodes.delete("worker-5", &Default::default()).await?;
            world
                .until("four droplets", async || droplets(world) == 4)
                .await?;
            settled(world).await?;
            count();
            world.delete("web").await?;
            settled(world).await?;
            count();
            for ((event, most, peer), asked) in LIMITS.iter().zip(&counts) {
                figure(format!(
                    "digitalocean calls: {event:<36} {:>2} (limit {most}, Go manager {peer})",
                    asked.len()
                ));
                if asked.len() > *most {
                    return Err(format!("{event}: {asked:#?}").into());
                }
            }
            Ok(())
        })
        .await
}

/// The requests that are not about nodes, which are initialised at the same time.
fn about_load_balancers(world: &World) -> Vec<String> {
    let mut asked = world.asked();
    asked.retain(|line| !line.contains("/droplets?") && !line.contains("/v2/droplets/"));
    asked
}

/// The number of droplets of the first load balancer.
fn droplets(world: &World) -> usize {
    let all = world.cloud.load_balancers();
    all[0]["droplet_ids"].as_array().map_or(0, Vec::len)
}

/// How many checks of [`settled`], five milliseconds apart, find no new request.
const QUIET: u32 = 300;

/// Waits until no request has come for a while.
async fn settled(world: &World) -> Result<(), Failed> {
    let quiet = Quiet::from(world.asked().len());
    let is_over = async || quiet.check(world.asked().len()) >= QUIET;
    world.until("no more requests", is_over).await
}

async fn absence(world: &World) -> Result<(), Failed> {
    let stays = world.cloud.add_droplet(DropletSpec::named("worker-1"));
    let goes = world.cloud.add_droplet(DropletSpec::named("worker-2"));
    // No list contains it.
    let gpu = world.cloud.add_droplet(DropletSpec {
        gpu: true,
        ..DropletSpec::named("gpu-1")
    });
    let nodes = [
        silent("worker-1", stays),
        silent("worker-2", goes),
        silent("gpu-1", gpu),
    ];
    let provider = world.provider().await?;
    let expected = [stays, goes, gpu].map(|id| format!("digitalocean://{id}"));
    assert_eq!(brief(&find(&provider, &nodes).await?), expected);
    let lies = [
        Trouble::EmptyList,
        Trouble::PartialPage,
        Trouble::Truncated,
        Trouble::Cut,
        Trouble::ResetAfter,
        Trouble::Refuse {
            status: 500,
            code: "server_error".to_owned(),
        },
        Trouble::Foreign {
            status: 404,
            content_type: "text/html".to_owned(),
            body: b"<html>".to_vec(),
        },
        Trouble::Foreign {
            status: 200,
            content_type: "text/html".to_owned(),
            body: b"<html>".to_vec(),
        },
    ];
    for trouble in lies {
        for path in ["/v2/droplets?", "/v2/droplets/"] {
            world.cloud.inject(Fault::new(trouble.clone()).path(path));
            let reply = find(&provider, &nodes).await?;
            assert!(
                !reply.lookups.contains(&Lookup::Gone),
                "{trouble:?} {path}: {reply:?}"
            );
            world.cloud.clear_faults();
        }
    }
    world.cloud.remove_droplet(goes);
    let reply = find(&provider, &nodes).await?;
    assert_eq!(
        brief(&reply),
        [expected[0].clone(), "gone".to_owned(), expected[2].clone()]
    );
    assert!(reply.complete);
    // One node alone: the look-up includes a proof of the account.
    let reply = find(&provider, &nodes[1..2]).await?;
    assert!(brief(&reply) == ["gone"] && reply.complete, "{reply:?}");
    Ok(())
}

/// The body that the Go manager sends for a plain Service.
fn of_the_go_manager(name: &str, droplet: u64) -> Value {
    let rule = |port: u16| json!({"entry_protocol": "tcp", "entry_port": port, "target_protocol": "tcp", "target_port": port});
    json!({
        "name": name, "algorithm": "round_robin", "region": "fra1", "type": "REGIONAL_NETWORK",
        "forwarding_rules": [rule(80), rule(443)],
        "health_check": {
            "protocol": "http", "port": 10256, "path": "/healthz", "check_interval_seconds": 3,
            "response_timeout_seconds": 5, "healthy_threshold": 5, "unhealthy_threshold": 3, "proxy_protocol": false,
        },
        "sticky_sessions": {"type": "none"}, "droplet_ids": [droplet], "disable_lets_encrypt_dns_records": false,
        "firewall": {}, "network": "EXTERNAL", "network_stack": "IPV4",
    })
}

async fn migration(world: &World) -> Result<(), Failed> {
    let droplet = world.join("worker-1").await;
    let id = world
        .cloud
        .add_load_balancer(of_the_go_manager("shop", droplet))?;
    world
        .managed(async || {
            initialised(world, &["worker-1"]).await?;
            // As the Go manager has left it: an ID, a type, and a name of its own.
            let key = |name: &str| format!("service.beta.kubernetes.io/do-loadbalancer-{name}");
            world.create("web", json!({ID: id, key("type"): "REGIONAL_NETWORK", key("name"): "shop"})).await;
            has_address(world, "web").await?;
            settled(world).await?;
            let [found] = world.cloud.load_balancers().try_into().unwrap();
            assert_eq!((&found["id"], &found["name"]), (&json!(id), &json!("shop")));
            // Its owner was written down, and nothing else.
            let uid = world.service("web").await["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
            assert_eq!(found["tags"], json!([format!("{TAG}{uid}")]));
            let mut writes = world.asked();
            writes.retain(|line| !line.starts_with("GET"));
            let is_about_tags = writes.iter().all(|line| line.starts_with("POST /v2/tags"));
            assert!(writes.len() == 2 && is_about_tags, "{writes:#?}");

            // A tenant's Service names the same ID, and gets nothing.
            world.create("thief", json!({ID: id})).await;
            settled(world).await?;
            assert!(world.address("thief").await.is_null());
            world.delete("thief").await?;
            assert_eq!(world.cloud.load_balancers(), [found]);

            // Disowned: the Service can be deleted, the load balancer stays, and another Service may have it.
            world.change("web", json!({"metadata": {"annotations": {"service.kubernetes.io/do-loadbalancer-disown": "true"}}})).await;
            settled(world).await?;
            world.create("heir", json!({ID: id})).await;
            settled(world).await?;
            // The address is still that of the former Service.
            assert!(world.address("heir").await.is_null());
            world.delete("web").await?;
            assert_eq!(world.cloud.load_balancers().len(), 1);
            has_address(world, "heir").await?;
            world.delete("heir").await?;
            assert!(world.cloud.load_balancers().is_empty());
            Ok(())
        })
        .await
}

async fn trouble(world: &World) -> Result<(), Failed> {
    world.join("worker-1").await;
    world
        .managed(async || {
            initialised(world, &["worker-1"]).await?;
            let lies = [
                Trouble::ResetAfter,
                Trouble::RefuseAfter {
                    status: 500,
                    code: "server_error".to_owned(),
                },
                Trouble::Refuse {
                    status: 503,
                    code: "service_unavailable".to_owned(),
                },
                Trouble::TooManyRequests {
                    retry_after: Some("1".to_owned()),
                },
            ];
            for (number, trouble) in lies.into_iter().enumerate() {
                let name = format!("web-{number}");
                for method in [http::Method::POST, http::Method::PUT, http::Method::DELETE] {
                    world
                        .cloud
                        .inject(Fault::new(trouble.clone()).method(method).times(1));
                }
                world.create(&name, json!({})).await;
                has_address(world, &name).await?;
                assert_eq!(world.cloud.load_balancers().len(), 1, "{trouble:?}");
                let key = "service.beta.kubernetes.io/do-loadbalancer-enable-backend-keepalive";
                world
                    .change(&name, json!({"metadata": {"annotations": {key: "true"}}}))
                    .await;
                let is_changed =
                    async || world.cloud.load_balancers()[0]["enable_backend_keepalive"] == true;
                world.until("the change", is_changed).await?;
                world.delete(&name).await?;
                assert!(world.cloud.load_balancers().is_empty(), "{trouble:?}");
                world.cloud.clear_faults();
            }
            Ok(())
        })
        .await
}
