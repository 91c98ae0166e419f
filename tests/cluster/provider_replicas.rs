//! Two replicas: both follow the status, the leader writes it, and the other one goes on with the same when the leader
//! dies. One of a rolling update has another volume than the leader.

use ccm_sim::hetzner::ServerSpec;
use ccm_tests::ports;
use ccm_tests::process::Process;
use kube::Client;
use serde_json::{Value, json};

use crate::delivered::{CONFIG_MAP, Delivered, digest};
use crate::deploy::apply;
use crate::provider_objects::{FLAG, has, object, world};
use crate::providers::{joins, version};
use crate::services::{Services, load_balancer};
use crate::world::{World, until};

/// A manager with a cache and a port of its own, as each pod has them.
struct Replica {
    ccm: Process,
    port: u16,
}

impl Replica {
    /// Starts with this flag, which says where its providers are configured.
    fn start(world: &World, delivered: &Delivered<'_>, name: &str, flag: &str) -> Replica {
        let cache = delivered.cache().with_file_name(format!("cache-of-{name}"));
        let port = ports::keep().unwrap();
        let arguments = [
            "run".to_owned(),
            flag.to_owned(),
            format!("--compiled-cache-dir={}", cache.display()),
            format!("--secure-port={port}"),
            "--bind-address=127.0.0.1".to_owned(),
            "--authentication-skip-lookup".to_owned(),
        ];
        Replica {
            ccm: world.spawn(&arguments, &[("CLOUD_TOKEN", world.token())]),
            port,
        }
    }

    /// Waits until its provider is active, whichever replica leads.
    async fn ready(&mut self) {
        // Its certificate is made anew at each start, and no client trusts it.
        let client = reqwest::Client::builder()
            .tls_danger_accept_invalid_certs(true)
            .build()
            .unwrap();
        let url = format!("https://127.0.0.1:{}/readyz?verbose", self.port);
        until(&mut self.ccm, "a provider to serve", async || {
            let answer = client.get(&url).send().await.ok()?;
            let is_ready = answer.status() == 200;
            let text = answer.text().await.ok()?;
            (is_ready && text.contains("[+]provider ok")).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn two_replicas_obey_an_object_and_the_second_goes_on_when_the_first_dies() {
    let world = world().await;
    let delivered = Delivered::of(&world).await;
    let services = Services::of(&world).await;
    let admin: Client = world.api.client_for("admin").await.unwrap();
    for name in ["worker-1", "worker-2"] {
        world.cloud.add_server(ServerSpec::named(name));
    }
    let secret = delivered.keep("cloud-token", world.token()).await;
    let module = version("1.0.0").await;
    delivered.apply(&module).await;
    let mut provider = object(&delivered.entry("hcloud", CONFIG_MAP), &secret);

    let mut first = Replica::start(&world, &delivered, "first", FLAG);
    apply(&admin, &provider).await.unwrap();
    joins(&world, &mut first.ccm, "worker-1", json!({}), "hcloud").await;
    let mut second = Replica::start(&world, &delivered, "second", FLAG);
    second.ready().await;
    services.create("web", load_balancer(&[80])).await;
    services.has_address(&mut first.ccm, "web").await;

    // After an edit both load the new version, and the leader writes the status.
    let changed = || {
        let log = world.log();
        log.matches("the configuration has changed").count()
    };
    let before = changed();
    provider["spec"]["limits"] = json!({"callSeconds": 30});
    apply(&admin, &provider).await.unwrap();
    until(&mut second.ccm, "both to hear of it", async || {
        (changed() >= before + 2).then_some(())
    })
    .await;
    let used =
        |status: &Value| status["observedGeneration"] == 2 && status["limits"]["callSeconds"] == 30;
    delivered
        .until(&mut first.ccm, "hcloud", "its new limit", used)
        .await;
    let accepted = ("Accepted", "True", "Accepted");
    has(&delivered, &mut first.ccm, "hcloud", accepted).await;
    let status = delivered.serves(&mut first.ccm, "hcloud", &module).await;
    let reported = delivered.event_reasons("hcloud").await;
    second.ready().await;
    world.cloud.clear_requests();

    first.ccm.kill();
    // The node is not a target of the load balancer, so that nothing needs changing.
    let apart = json!({"node.kubernetes.io/exclude-from-external-load-balancers": ""});
    joins(&world, &mut second.ccm, "worker-2", apart, "hcloud").await;
    second.ready().await;
    assert_eq!(delivered.status("hcloud").await, status);
    assert_eq!(delivered.event_reasons("hcloud").await, reported);
    let requests = world.cloud.requests();
    let changes: Vec<_> = requests
        .iter()
        .filter(|one| one.method != http::Method::GET)
        .collect();
    assert!(!requests.is_empty() && changes.is_empty(), "{changes:?}");
    world.stop(second.ccm).await;
}

/// As when a DaemonSet gets another image volume: the new pod's cache is empty, and its volume offers the next version.
#[tokio::test]
async fn a_pod_of_the_next_image_serves_the_version_before_until_it_leads() {
    let world = world().await;
    let delivered = Delivered::of(&world).await;
    let (one, two) = (version("1.0.0").await, version("2.0.0").await);
    let replica = |name: &str, files: &[(&str, &[u8])]| {
        let image = delivered.cache().with_file_name(format!("image-of-{name}"));
        std::fs::create_dir(&image).unwrap();
        for (file, wasm) in files {
            std::fs::write(image.join(file), wasm).unwrap();
        }
        let source = format!("file://{}/provider.wasm", image.display());
        let mut configuration = world.configuration(json!({}));
        configuration["providers"] = json!([delivered.entry("hcloud", &source)]);
        let file = world.file(&format!("{name}.json"), configuration.to_string());
        let flag = format!("--config={}", file.display());
        Replica::start(&world, &delivered, name, &flag)
    };
    let mut first = replica("first", &[("provider.wasm", &one[..])]);
    delivered.serves(&mut first.ccm, "hcloud", &one).await;
    let mut second = replica(
        "second",
        &[("provider.wasm", &two[..]), ("before.wasm", &one[..])],
    );
    second.ready().await;
    delivered.serves(&mut first.ccm, "hcloud", &one).await;

    world.stop(first.ccm).await;
    let status = delivered.serves(&mut second.ccm, "hcloud", &two).await;
    assert_eq!(status["previous"]["digest"], digest(&one), "{status}");
    assert!(status["active"]["untried"].is_null(), "{status}");
    world.stop(second.ccm).await;
}
