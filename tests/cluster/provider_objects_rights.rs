//! The output of `ccm provider init`, put to work with exactly the rights of `components/provider-objects`.

use std::process::Command;

use ccm_sim::hetzner::ServerSpec;
use ccm_tests::apiserver::AuditEntry;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::delivered::Delivered;
use crate::deploy::apply;
use crate::provider_objects::{FLAG, has, output_of};
use crate::providers::{ROLL_BACK, joins};
use crate::record::{granted, used};
use crate::services::{PLACE, Services};
use crate::world::{Setup, World, manifests, until};

/// The rights of the component, relative to the base.
const RIGHTS: &str = "../components/provider-objects/rbac.yaml";

const CLASS: &str = "example.com/web";

/// The edits of a person: the API's endpoint, fewer grants, a location for load balancers, and a class of Services.
fn edited(text: &str, endpoint: &str) -> Value {
    let mut object: Value = serde_saphyr::from_str(text).unwrap();
    let spec = &mut object["spec"];
    let targets = spec["grants"]["targets"].as_array_mut().unwrap();
    targets.truncate(1);
    targets[0]["endpoint"] = json!(endpoint);
    targets[0]["addresses"] = json!(["127.0.0.1", "::1"]);
    spec["config"] = json!({PLACE.0: PLACE.1});
    spec["loadBalancerClasses"] = json!([CLASS]);
    object
}

#[tokio::test]
async fn what_init_writes_serves_nodes_and_a_class_of_services_with_the_rights_of_the_component() {
    let world = World::start(Setup {
        rights: &[RIGHTS],
        server_flags: vec!["--feature-gates=WatchList=false".to_owned()],
        ..Setup::default()
    })
    .await;
    let delivered = Delivered::of(&world).await;
    let services = Services::of(&world).await;
    let admin = world.api.client_for("admin").await.unwrap();
    world.cloud.add_server(ServerSpec::named("worker-1"));

    let mut init = Command::new(env!("CARGO_BIN_EXE_ccm"));
    init.args(["provider", "init", "embedded:hcloud"]);
    let object = edited(&output_of(init).await, &world.endpoint());
    let reference = &object["spec"]["grants"]["targets"][0]["credential"]["bearer"]["secret"];
    // The Secret of the manifests, which may be read.
    let expected = json!({"namespace": "kube-system", "name": "hcloud", "key": "token"});
    assert_eq!(*reference, expected);
    let secret: Secret = serde_json::from_value(json!({
        "metadata": {"name": "hcloud"},
        "stringData": {"token": world.token()},
    }))
    .unwrap();
    let secrets: Api<Secret> = Api::namespaced(admin.clone(), "kube-system");
    let params = PostParams::default();
    secrets.create(&params, &secret).await.unwrap();
    apply(&admin, &object).await.unwrap();

    let cache = format!("--compiled-cache-dir={}", delivered.cache().display());
    let arguments = ["run", FLAG, &cache].map(str::to_owned);
    let mut ccm = world.spawn(&arguments, &[]);
    has(&delivered, &mut ccm, "hcloud", ("Ready", "True", "Serving")).await;
    joins(&world, &mut ccm, "worker-1", json!({}), "hcloud").await;
    let mut spec = crate::services::load_balancer(&[80]);
    spec["loadBalancerClass"] = json!(CLASS);
    services.create("web", spec).await;
    services.has_address(&mut ccm, "web").await;
    services.delete("web").await;
    services.is_gone(&mut ccm, "web").await;
    // Orders are for modules that are not part of the binary. This one is answered and taken away.
    let mut elsewhere = object.clone();
    elsewhere["spec"]["source"] = json!(format!("file://{}", world.module_file().display()));
    apply(&admin, &elsewhere).await.unwrap();
    delivered.annotate("hcloud", ROLL_BACK, "true").await;
    delivered
        .wait_for_event(&mut ccm, "hcloud", "RollBackImpossible")
        .await;
    until(&mut ccm, "the order to be taken away", async || {
        let annotations = delivered.annotations("hcloud").await;
        annotations[ROLL_BACK].is_null().then_some(())
    })
    .await;
    world.stop(ccm).await;

    let mut log = world.asked();
    let refused: Vec<_> = log.iter().filter(|entry| entry.code == 403).collect();
    assert!(refused.is_empty(), "not granted: {refused:?}");
    log.retain(is_about_providers);
    assert_eq!(used(&log), granted(&manifests(RIGHTS)));
}

/// Whether a request is about an object Provider: the object itself, an Event about it, or the Secret that it names.
fn is_about_providers(entry: &AuditEntry) -> bool {
    let about = entry.body.as_ref().map(|body| &body["involvedObject"]);
    match entry.resource.as_str() {
        "events" => about.is_some_and(|about| about["kind"] == "Provider"),
        resource => ["providers", "secrets"].contains(&resource),
    }
}
