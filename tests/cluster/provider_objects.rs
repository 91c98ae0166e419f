//! Providers that objects configure: how one is added, changed and removed while the process runs on, without effect on
//! others.

use std::process::Command;

use ccm_sim::hetzner::ServerSpec;
use ccm_tests::process::Process;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::delivered::{CONFIG_MAP, Delivered, RIGHTS};
use crate::deploy::{api, apply};
use crate::providers::{joins, version};
use crate::world::{Setup, World, until};

pub(crate) const FLAG: &str = "--enable-provider-objects";

pub(crate) async fn world() -> World {
    World::start(Setup {
        rights: RIGHTS,
        server_flags: vec!["--feature-gates=WatchList=false".to_owned()],
        ..Setup::default()
    })
    .await
}

/// The object Provider for an entry of the file, with a Secret in place of the variable.
pub(crate) fn object(entry: &Value, secret: &Value) -> Value {
    let mut spec = entry.clone();
    let name = spec.as_object_mut().unwrap().remove("name").unwrap();
    spec["grants"]["targets"][0]["credential"] = json!({"bearer": secret});
    json!({
        "apiVersion": "wasm-ccm.dev/v1alpha1", "kind": "Provider",
        "metadata": {"name": name}, "spec": spec,
    })
}

/// A command of kubectl.
pub(crate) fn kubectl(kubeconfig: &std::path::Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(ccm_tests::kubernetes::kubectl().unwrap());
    command
        .arg(format!("--kubeconfig={}", kubeconfig.display()))
        .args(arguments);
    command
}

pub(crate) async fn output_of(command: Command) -> String {
    let mut command = tokio::process::Command::from(command);
    let output = command.output().await.unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

pub(crate) fn minimal() -> Value {
    json!({
        "apiVersion": "wasm-ccm.dev/v1alpha1", "kind": "Provider", "metadata": {"name": "cloud"},
        "spec": {
            "source": "embedded:hcloud",
            "grants": {"targets": [{
                "name": "api", "endpoint": "https://api.example.com/v1",
                "credential": {"bearer": {"secret": {"namespace": "kube-system", "name": "cloud", "key": "token"}}},
                "rules": [{"methods": ["GET"], "path": "/servers", "access": "read"}],
            }]},
        },
    })
}

fn condition<'a>(status: &'a Value, kind: &str) -> &'a Value {
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let mut found = conditions.filter(|one| one["type"] == kind);
    found.next().unwrap_or(&Value::Null)
}

/// Waits until a condition of a provider has this status and reason, and returns the status of the object.
pub(crate) async fn has(
    delivered: &Delivered<'_>,
    ccm: &mut Process,
    name: &str,
    wanted: (&str, &str, &str),
) -> Value {
    let (kind, is, reason) = wanted;
    delivered
        .until(ccm, name, &format!("{kind}={is}, {reason}"), |status| {
            let found = condition(status, kind);
            found["status"] == is && found["reason"] == reason
        })
        .await
}

#[tokio::test]
async fn an_object_is_a_provider_that_comes_changes_and_goes_while_the_process_stays() {
    let world = world().await;
    let delivered = Delivered::of(&world).await;
    let admin: Client = world.api.client_for("admin").await.unwrap();
    for name in ["worker-1", "worker-2", "worker-3"] {
        world.cloud.add_server(ServerSpec::named(name));
    }
    let secret = delivered.keep("cloud-token", world.token()).await;
    let (first, second) = (version("1.0.0").await, version("2.0.0").await);
    delivered.apply(&first).await;
    let entry = delivered.entry("hcloud", CONFIG_MAP);
    let provider = object(&entry, &secret);
    let cache = format!("--compiled-cache-dir={}", delivered.cache().display());
    let arguments = ["run", FLAG, &cache].map(str::to_owned);
    let mut ccm = world.spawn(&arguments, &[]);

    // One command creates the object, and another waits for it.
    let admin_config = world.api.kubeconfig("admin").unwrap();
    let file = world.file("provider.json", provider.to_string());
    let file = file.to_str().unwrap();
    output_of(kubectl(
        &admin_config,
        &["apply", "--server-side", "-f", file],
    ))
    .await;
    let wait = [
        "wait",
        "--for=condition=Ready",
        "provider/hcloud",
        "--timeout=240s",
    ];
    output_of(kubectl(&admin_config, &wait)).await;
    let table = output_of(kubectl(&admin_config, &["get", "ccmp"])).await;
    let mut lines = table
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    assert_eq!(
        lines.next().unwrap(),
        ["NAME", "VERSION", "READY", "STATE", "CANDIDATE", "AGE"]
    );
    assert_eq!(
        lines.next().unwrap()[..4],
        ["hcloud", "1.0.0", "True", "Active"]
    );
    joins(&world, &mut ccm, "worker-1", json!({}), "hcloud").await;
    let status = has(
        &delivered,
        &mut ccm,
        "hcloud",
        ("Accepted", "True", "Accepted"),
    )
    .await;
    assert_eq!(status["observedGeneration"], 1, "{status}");
    assert_eq!(
        condition(&status, "Degraded")["status"],
        "False",
        "{status}"
    );

    // An invalid edit: a Secret of another namespace, which no schema refuses.
    let edit = async |edit: &dyn Fn(&mut Value)| {
        let mut object = provider.clone();
        edit(&mut object["spec"]);
        let params = PatchParams::apply("a-person").force();
        let patch = Patch::Apply(&object);
        api(&admin, &object)
            .patch("hcloud", &params, &patch)
            .await
            .unwrap();
    };
    let pointer = "/grants/targets/0/credential/bearer/secret/namespace";
    edit(&|spec| *spec.pointer_mut(pointer).unwrap() = json!("default")).await;
    let refused = ("Accepted", "False", "SecretNotAllowed");
    let status = has(&delivered, &mut ccm, "hcloud", refused).await;
    assert_eq!(status["observedGeneration"], 2, "{status}");
    assert_eq!(condition(&status, "Ready")["status"], "True", "{status}");
    assert_eq!(
        condition(&status, "Degraded")["status"],
        "False",
        "{status}"
    );
    joins(&world, &mut ccm, "worker-2", json!({}), "hcloud").await;

    // A valid edit: the version changes, and the process stays.
    delivered.apply(&second).await;
    edit(&|spec| spec["limits"] = json!({"callSeconds": 30})).await;
    delivered.serves(&mut ccm, "hcloud", &second).await;
    let used = |status: &Value| status["limits"]["callSeconds"] == 30;
    delivered
        .until(&mut ccm, "hcloud", "its new limit", used)
        .await;
    has(
        &delivered,
        &mut ccm,
        "hcloud",
        ("Accepted", "True", "Accepted"),
    )
    .await;

    // A rotated Secret is noticed, as with a provider of the file.
    world.cloud.set_token("another-token");
    delivered.keep("cloud-token", "another-token").await;
    joins(&world, &mut ccm, "worker-3", json!({}), "hcloud").await;

    // Invalid objects, and one whose registry does not answer, do not disturb the others.
    let mut wrong = object(&delivered.entry("wrong", "embedded:nothing"), &secret);
    wrong["spec"]["nodes"] = json!({"selector": "cloud=wrong"});
    apply(&admin, &wrong).await.unwrap();
    has(
        &delivered,
        &mut ccm,
        "wrong",
        ("Accepted", "False", "NotApplied"),
    )
    .await;

    // A provider ends with its object; what it made stays.
    let providers: Api<DynamicObject> = api(&admin, &provider);
    providers
        .delete("hcloud", &DeleteParams::default())
        .await
        .unwrap();
    until(&mut ccm, "nobody to serve", async || {
        let reported = world.log();
        reported
            .contains("the configuration has changed")
            .then_some(())
    })
    .await;
    until(&mut ccm, "the object to be gone", async || {
        providers
            .get_opt("hcloud")
            .await
            .unwrap()
            .is_none()
            .then_some(())
    })
    .await;
    assert_eq!(
        world
            .nodes
            .list(&Default::default())
            .await
            .unwrap()
            .items
            .len(),
        3
    );
    world.stop(ccm).await;
    assert!(providers.get_opt("hcloud").await.unwrap().is_none());
    assert!(!world.log().contains(world.token()));
}

#[tokio::test]
async fn the_file_wins_for_what_it_names_and_a_base_install_shows_what_serves() {
    let world = world().await;
    let delivered = Delivered::of(&world).await;
    let admin: Client = world.api.client_for("admin").await.unwrap();
    world.cloud.add_server(ServerSpec::named("worker-1"));
    let mut entry = delivered.entry("hcloud", "embedded:hcloud");
    entry["rollout"] = json!({});
    delivered.configure(&[entry]);
    // Without the flag: the status of the embedded module is written, and objects are not read.
    let mut ccm = delivered.ccm(&[]);
    joins(&world, &mut ccm, "worker-1", json!({}), "hcloud").await;
    let status = has(&delivered, &mut ccm, "hcloud", ("Ready", "True", "Serving")).await;
    assert_eq!(status["informational"], true, "{status}");
    assert!(status["observedGeneration"].is_null(), "{status}");
    assert!(!status["active"]["version"].as_str().unwrap().is_empty());
    world.stop(ccm).await;

    // With the flag: the object of the same name keeps only its status.
    let mut object = minimal();
    object["metadata"]["name"] = json!("hcloud");
    object["spec"]["source"] = json!("file:///nowhere.wasm");
    apply(&admin, &object).await.unwrap();
    let mut ccm = delivered.ccm_with(&[FLAG.to_owned()], &[]);
    let overridden = ("Accepted", "False", "OverriddenByFile");
    let status = has(&delivered, &mut ccm, "hcloud", overridden).await;
    let ready = |status: &Value| condition(status, "Ready")["status"] == "True";
    delivered.until(&mut ccm, "hcloud", "ready", ready).await;
    assert_eq!(status["observedSource"], "embedded:hcloud", "{status}");
    world.stop(ccm).await;
}

#[tokio::test]
async fn g16_objects_without_end_disturb_no_other_provider() {
    let world = world().await;
    let delivered = Delivered::of(&world).await;
    let admin: Client = world.api.client_for("admin").await.unwrap();
    for name in ["worker-1", "worker-2"] {
        world.cloud.add_server(ServerSpec::named(name));
    }
    // A listener accepts connections, and never answers.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = listener.local_addr().unwrap();
    let secret = delivered.keep("cloud-token", world.token()).await;
    let mut hung = object(&delivered.entry("hung", "embedded:hcloud"), &secret);
    hung["spec"]["source"] = json!(format!("oci://{silent}/clouds/hcloud:v1"));
    hung["spec"]["registry"] = json!({"addresses": ["127.0.0.0/8"]});
    hung["spec"]["trust"] = json!({"unsigned": true});
    hung["spec"]["nodes"] = json!({"selector": "cloud=hung"});
    apply(&admin, &hung).await.unwrap();
    for number in 0..100 {
        let mut one = minimal();
        one["metadata"]["name"] = json!(format!("one-{number}"));
        one["spec"]["source"] = json!("file:///nowhere.wasm");
        one["spec"]["nodes"] = json!({"selector": format!("cloud=one-{number}")});
        apply(&admin, &one).await.unwrap();
    }
    let mut entry = delivered.entry("hcloud", "embedded:hcloud");
    entry["rollout"] = json!({});
    entry["nodes"] = json!({"selector": "cloud=hcloud"});
    delivered.configure(&[entry]);
    let mut ccm = delivered.ccm_with(&[FLAG.to_owned()], &[]);
    let labels = json!({"cloud": "hcloud"});
    joins(&world, &mut ccm, "worker-1", labels.clone(), "hcloud").await;

    // Objects are created and deleted all the while.
    let mut brief = minimal();
    brief["metadata"]["name"] = json!("brief");
    brief["spec"]["nodes"] = json!({"selector": "cloud=brief"});
    let providers: Api<DynamicObject> = api(&admin, &brief);
    for _ in 0..20 {
        apply(&admin, &brief).await.unwrap();
        providers
            .delete("brief", &DeleteParams::default())
            .await
            .unwrap();
    }
    joins(&world, &mut ccm, "worker-2", labels, "hcloud").await;
    let status = has(
        &delivered,
        &mut ccm,
        "one-99",
        ("Accepted", "False", "TooMany"),
    )
    .await;
    assert_eq!(condition(&status, "Ready")["status"], "False", "{status}");
    assert!(providers.get_opt("brief").await.unwrap().is_none());
    world.stop(ccm).await;
}
