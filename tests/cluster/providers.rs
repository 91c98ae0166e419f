//! Providers that arrive as files, on a real API server: versions take over one after the other while the process runs
//! on, a bad one is taken back, one with wider requests waits for a person, and several serve beside each other.

use ccm_sim::hetzner::ServerSpec;
use ccm_tests::process::Process;
use ccm_tests::registry::Registry;
use ccm_tests::versions::{numbered, trapping, wider};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use serde_json::{Value, json};

use crate::delivered::{CONFIG_MAP, Delivered, RIGHTS, digest, push};
use crate::record::{granted, used};
use crate::services::{Services, load_balancer};
use crate::world::{COMPILED_MODULES, Setup, World, manifests, until};

const OWNER: &str = "wasm-ccm.dev/provider";
pub(crate) const APPROVE: &str = "wasm-ccm.dev/approve";
pub(crate) const ROLL_BACK: &str = "wasm-ccm.dev/roll-back";
/// The function that only a canary's calls reach: the shadow phase does not call it.
const ENSURE: &str = "ccm:provider/load-balancer@0.2.0#ensure";
const OTHER_TOKEN: &str = "the-token-of-another-account";

pub(crate) async fn world() -> World {
    World::start(Setup {
        rights: RIGHTS,
        // An API server that does not stream lists: listing needs one verb more.
        server_flags: vec!["--feature-gates=WatchList=false".to_owned()],
        ..Setup::default()
    })
    .await
}

/// A version of the shipped module. A `ccm` that starts from now on finds it compiled.
pub(crate) async fn version(number: &str) -> Vec<u8> {
    let wasm = numbered(embedded_guests::HCLOUD, number);
    COMPILED_MODULES.add(wasm.clone()).await.unwrap();
    wasm
}

/// The additional rule that the wider version requests. It is granted from the beginning.
pub(crate) fn more() -> Value {
    json!({"methods": ["GET"], "path": "/server_types", "access": "read"})
}

/// An entry with the wider version's rule among its grants.
pub(crate) fn entry(delivered: &Delivered<'_>, source: &str) -> Value {
    let mut entry = delivered.entry("hcloud", source);
    let rules = entry["grants"]["targets"][0]["rules"].as_array_mut();
    rules.unwrap().push(more());
    entry
}

fn owner(node: &Node) -> Option<&str> {
    let labels = node.metadata.labels.as_ref()?;
    labels.get(OWNER).map(String::as_str)
}

/// A node joins, and the active version initialises it.
pub(crate) async fn joins(world: &World, ccm: &mut Process, name: &str, labels: Value, by: &str) {
    world.add_node(name, json!({"labels": labels})).await;
    let node = world.initialised(ccm, name).await;
    assert_eq!(owner(&node), Some(by), "{name}");
}

/// A canary answers for half of all UIDs, which are random: of this many Services some are always among them.
const SERVICES: usize = 12;

#[tokio::test]
async fn providers_come_as_files_and_go_while_the_process_stays() {
    let (world, registry) = (world().await, Registry::start().await.unwrap());
    let delivered = Delivered::of(&world).await;
    let services = Services::of(&world).await;
    let account = json!({"account": "a"});
    for number in 1..=9 {
        let name = format!("worker-{number}");
        world.cloud.add_server(ServerSpec::named(name));
    }

    // The first version, from a ConfigMap.
    let (first, second) = (version("1.0.0").await, version("2.0.0").await);
    let third = version("3.0.0").await;
    delivered.apply(&first).await;
    delivered.configure(&[entry(&delivered, CONFIG_MAP)]);
    let variables = [("OTHER_TOKEN", OTHER_TOKEN)];
    let mut ccm = delivered.ccm(&variables);
    joins(&world, &mut ccm, "worker-1", account.clone(), "hcloud").await;
    let status = delivered.serves(&mut ccm, "hcloud", &first).await;
    assert_eq!(status["active"]["version"], "1.0.0", "{status}");
    assert_eq!(status["shortDigest"], digest(&first)[7..19], "{status}");
    assert_eq!(status["observedSource"], CONFIG_MAP, "{status}");
    for number in 0..SERVICES {
        let name = format!("web-{number}");
        services.create(&name, load_balancer(&[80])).await;
        services.has_address(&mut ccm, &name).await;
    }

    // The second, by applying another ConfigMap.
    delivered.apply(&second).await;
    let status = delivered.serves(&mut ccm, "hcloud", &second).await;
    assert_eq!(status["previous"]["digest"], digest(&first), "{status}");
    // A new pod with an empty cache fetches the recorded bytes.
    world.stop(ccm).await;
    std::fs::remove_dir_all(delivered.cache()).unwrap();
    let mut ccm = delivered.ccm(&variables);
    joins(&world, &mut ccm, "worker-2", account.clone(), "hcloud").await;

    // The third, from a registry, by its digest.
    delivered.login(&registry).await;
    let from_registry = |source: &str| {
        let mut entry = entry(&delivered, source);
        entry["registry"] = delivered.registry(&registry);
        entry
    };
    let source = push(&registry, &third, "3.0.0");
    delivered.configure(&[from_registry(&source)]);
    let status = delivered.serves(&mut ccm, "hcloud", &third).await;
    // The reference by digest from which these bytes can be fetched again; the tag may move.
    let (_, manifest) = source.split_once('@').unwrap();
    let origin = format!("oci://{}/providers/hcloud@{manifest}", registry.host());
    assert_eq!(status["active"]["origin"], origin, "{status}");
    joins(&world, &mut ccm, "worker-3", account.clone(), "hcloud").await;

    // A bad fourth: it answers every read, and traps in a function that only the canary calls.
    let fourth = trapping(&numbered(embedded_guests::HCLOUD, "4.0.0"), ENSURE);
    let bad = push(&registry, &fourth, "4.0.0");
    delivered.configure(&[from_registry(&bad)]);
    let mut hostname = 0;
    let rejected = async |status: &Value| status["rejected"][0]["digest"] == digest(&fourth);
    loop {
        let status = delivered.status("hcloud").await;
        if rejected(&status).await {
            break;
        }
        assert_ne!(status["active"]["digest"], digest(&fourth), "{status}");
        // The Services change meanwhile, so that both versions have something to do.
        hostname += 1;
        assert!(hostname < 600, "{status}:\n{}", ccm.tail());
        for number in 0..SERVICES {
            let key = "load-balancer.hetzner.cloud/hostname";
            let name = format!("{hostname}.example.com");
            let patch = json!({"metadata": {"annotations": {key: name}}});
            services.change(&format!("web-{number}"), patch).await;
        }
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        ccm.check().unwrap();
    }
    let status = delivered.serves(&mut ccm, "hcloud", &third).await;
    let before = status["rejected"].clone();
    // The version is in shadow or canary.
    let state = status["state"].as_str().unwrap();
    assert!(matches!(state, "Rejected" | "RolledBack"), "{status}");
    let reason = before[0]["reason"].as_str().unwrap();
    assert!(
        reason.contains("trap") || reason.contains("unreachable"),
        "{reason}"
    );
    // Every Service gets what its spec says, from the active version.
    let last = format!("{hostname}.example.com");
    for number in 0..SERVICES {
        let name = format!("web-{number}");
        services.shows(&mut ccm, &name, &last).await;
    }

    // Not after a restart either, with the next leader.
    world.stop(ccm).await;
    let seen = world.log().len();
    let mut ccm = delivered.ccm(&variables);
    joins(&world, &mut ccm, "worker-4", account.clone(), "hcloud").await;
    let status = delivered.serves(&mut ccm, "hcloud", &third).await;
    assert_eq!(status["rejected"], before);
    // An Event says that it is offered again, and why it was rejected.
    let reported = world.log()[seen..].to_owned();
    let mut lines = reported.lines();
    let is_told = |line: &str| line.contains("was rejected before");
    assert!(
        !lines.any(|line| line.contains("unreachable") && !is_told(line)),
        "it was tried again:\n{reported}"
    );

    // A wider fifth waits until a person approves it.
    let fifth = wider(&numbered(embedded_guests::HCLOUD, "5.0.0"), &more());
    let source = push(&registry, &fifth, "5.0.0");
    delivered.configure(&[from_registry(&source)]);
    let waits = |status: &Value| status["trial"]["phase"] == "WaitsForApproval";
    let what = "a trial that waits";
    let status = delivered.until(&mut ccm, "hcloud", what, waits).await;
    assert_eq!(status["trial"]["digest"], digest(&fifth), "{status}");
    assert_eq!(status["state"], "WaitsForApproval", "{status}");
    assert_eq!(status["active"]["digest"], digest(&third), "{status}");
    let lines = status["trial"]["lines"].to_string();
    assert!(lines.contains("/server_types"), "{lines}");
    delivered.annotate("hcloud", APPROVE, &digest(&fifth)).await;
    let status = delivered.serves(&mut ccm, "hcloud", &fifth).await;
    assert_eq!(status["approved"], json!([digest(&fifth)]), "{status}");
    joins(&world, &mut ccm, "worker-5", account.clone(), "hcloud").await;

    // Another account of the same cloud, and another cloud, beside it.
    let other = world.cloud.project(OTHER_TOKEN);
    other.add_server(ServerSpec::named("other-1"));
    let on = |mut entry: Value, selector: &str| {
        entry["nodes"] = json!({"selector": selector});
        entry
    };
    let mut second_account = delivered.entry("hcloud-b", &source);
    second_account["registry"] = delivered.registry(&registry);
    let target = &mut second_account["grants"]["targets"][0];
    target["credential"] = json!({"bearer": {"env": "OTHER_TOKEN"}});
    target["rules"].as_array_mut().unwrap().push(more());
    second_account["loadBalancerClasses"] = json!(["example.com/b"]);
    let mut first_account = from_registry(&source);
    first_account["defaultLoadBalancer"] = json!(true);
    let module = world.file("toy.wasm", test_guests::MISBEHAVING);
    let toy = json!({
        "name": "toy",
        "source": format!("file://{}", module.display()),
        "config": {"behaviour": "honest"},
        "grants": other_cloud_grants(),
    });
    delivered.configure(&[
        on(first_account, "account=a"),
        on(second_account, "account=b"),
        on(toy, "cloud=toy"),
    ]);
    joins(
        &world,
        &mut ccm,
        "other-1",
        json!({"account": "b"}),
        "hcloud-b",
    )
    .await;
    joins(&world, &mut ccm, "toy-1", json!({"cloud": "toy"}), "toy").await;
    joins(&world, &mut ccm, "worker-6", account, "hcloud").await;
    delivered.serves(&mut ccm, "hcloud-b", &fifth).await;
    delivered
        .serves(&mut ccm, "toy", test_guests::MISBEHAVING)
        .await;
    services.create("late", load_balancer(&[80])).await;
    services.has_address(&mut ccm, "late").await;
    assert_eq!(
        other.load_balancers().len(),
        0,
        "it is of the first account"
    );

    // An annotation, set by a person, rolls back.
    delivered.annotate("hcloud", ROLL_BACK, "true").await;
    let status = delivered.serves(&mut ccm, "hcloud", &third).await;
    let latest = &status["rejected"][0]["digest"];
    assert_eq!(*latest, digest(&fifth).as_str(), "{status}");
    until(&mut ccm, "the order to be taken away", async || {
        let annotations = delivered.annotations("hcloud").await;
        annotations[ROLL_BACK].is_null().then_some(())
    })
    .await;

    let reported = delivered.event_reasons("hcloud").await;
    for reason in ["ProviderActivated", "PermissionsPending"] {
        assert!(
            reported.contains(&reason.to_owned()),
            "{reason}: {reported:?}"
        );
    }
    assert!(
        reported
            .iter()
            .any(|reason| reason == "ProviderRejected" || reason == "ProviderRolledBack"),
        "{reported:?}"
    );
    world.stop(ccm).await;

    // Every right beyond those of the base was used; every world checks that no other one was.
    let beyond: Vec<Value> = RIGHTS.iter().flat_map(|file| manifests(file)).collect();
    let (used, beyond) = (used(&world.asked()), granted(&beyond));
    let spare: Vec<_> = beyond.difference(&used).collect();
    assert!(spare.is_empty(), "granted, and not used: {spare:?}");
}

/// The requests of the other cloud's module. Its endpoint has no listener: the module answers by itself.
fn other_cloud_grants() -> Value {
    let inspection = ccm_host::inspect("toy.wasm", test_guests::MISBEHAVING).unwrap();
    let target = &inspection.manifest.targets[0];
    let rules = [
        json!({"methods": ["GET"], "path": "/machines/{name}", "access": "read"}),
        json!({"methods": ["GET"], "path": "/balancers/{uid}", "access": "read"}),
        json!({"methods": ["POST"], "path": "/balancers", "access": "write"}),
        json!({"methods": ["PUT", "DELETE"], "path": "/balancers/{uid}", "access": "write"}),
    ];
    json!({
        "targets": [{
            "name": target.name, "endpoint": "http://127.0.0.1:9/v1", "addresses": ["127.0.0.1"],
            "credential": {"bearer": {"env": "CLOUD_TOKEN"}}, "rules": rules,
        }],
        "annotationPrefixes": ["misbehaving.example/"],
    })
}

#[tokio::test]
async fn a_folder_swaps_a_module_as_a_mounted_config_map_does() {
    let world = world().await;
    let delivered = Delivered::of(&world).await;
    world.cloud.add_server(ServerSpec::named("worker-1"));
    // A kubelet updates files this way: a folder for each content, and a link that is renamed over the one before.
    let (first, second) = (version("1.0.0").await, version("2.0.0").await);
    let mount = world.file("mount", "").with_file_name("mounted");
    let swap = |name: &str, wasm: &[u8]| {
        std::fs::create_dir_all(mount.join(name)).unwrap();
        std::fs::write(mount.join(name).join("provider.wasm"), wasm).unwrap();
        let link = mount.join("..data_tmp");
        std::os::unix::fs::symlink(name, &link).unwrap();
        std::fs::rename(&link, mount.join("..data")).unwrap();
    };
    swap("..first", &first);
    std::os::unix::fs::symlink("..data/provider.wasm", mount.join("provider.wasm")).unwrap();
    let source = format!("file://{}/", mount.display());
    delivered.configure(&[entry(&delivered, &source)]);
    let mut ccm = delivered.ccm(&[]);
    delivered.serves(&mut ccm, "hcloud", &first).await;
    swap("..second", &second);
    delivered.serves(&mut ccm, "hcloud", &second).await;
    world.add_node("worker-1", json!({})).await;
    world.initialised(&mut ccm, "worker-1").await;
    until(&mut ccm, "an Event about it", async || {
        let reported = delivered.event_reasons("hcloud").await;
        reported
            .contains(&"ProviderActivated".to_owned())
            .then_some(())
    })
    .await;
    world.stop(ccm).await;
}

#[tokio::test]
async fn edge_095_nobody_stands_for_the_lease_before_a_provider_serves() {
    let world = world().await;
    let delivered = Delivered::of(&world).await;
    world.cloud.add_server(ServerSpec::named("worker-1"));
    let aside = world.file("aside.wasm", version("1.0.0").await);
    let file = aside.with_file_name("provider.wasm");
    let source = format!("file://{}", file.display());
    delivered.configure(&[delivered.entry("hcloud", &source)]);
    let mut ccm = delivered.ccm(&[]);
    until(&mut ccm, "it says that it does not stand", async || {
        let reported = world.log().contains("not a candidate for the Lease");
        reported.then_some(())
    })
    .await;
    let admin = world.api.client_for("admin").await.unwrap();
    let leases: Api<Lease> = Api::namespaced(admin, "kube-system");
    let lease = leases.get_opt("cloud-controller-manager").await.unwrap();
    assert!(lease.is_none(), "{lease:?}");

    std::fs::rename(aside, file).unwrap();
    joins(&world, &mut ccm, "worker-1", json!({}), "hcloud").await;
    world.stop(ccm).await;
}
