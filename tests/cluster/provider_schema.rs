//! The kind `Provider` on a real API server: refused specs, the output of `ccm provider init`, and the status under an
//! earlier definition.

use std::process::Command;

use ccm_core::rollout::{Noted, Placed, Record, Rejected, Release};
use ccm_delivery::record::{ClusterRecordStore, MemoryRecordStore, RecordStore as _, Report};
use ccm_tests::apiserver::ApiServer;
use ccm_tests::registry::{PASSWORD, Registry};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::delivered::digest;
use crate::deploy::{api, apply, define, define_providers};
use crate::provider_objects::{minimal, output_of};
use crate::world::manifests;

/// JSON pointer, value there, message of the API server. A `null` removes the field.
fn mistakes() -> Vec<(&'static str, Value, &'static str)> {
    const TARGET: &str = "/spec/grants/targets/0";
    let at = |key: &str| -> &'static str { Box::leak(format!("{TARGET}/{key}").into_boxed_str()) };
    let secret = json!({"namespace": "a", "name": "b", "key": "c"});
    let aws = |source: Value| json!({"awsSigV4": {"region": "eu-central-1", "service": "ec2", "source": source}});
    vec![
        ("/spec/grants", Value::Null, "grants: an object says itself"),
        ("/spec/sources", json!("x"), "unknown field"),
        (
            "/spec/source",
            json!("https://x"),
            "the forms are `embedded:<name>`",
        ),
        (
            "/spec/source",
            json!("configmap://a/b/c"),
            "need a digest, keys or keyless",
        ),
        (
            "/spec/source",
            json!("oci://registry.example.com/a:1"),
            "need a digest, keys or keyless",
        ),
        ("/spec/source", json!("x".repeat(3000)), "Too long"),
        (
            "/spec/registry",
            json!({"plainHttp": true}),
            "only a source `oci://…` has one",
        ),
        (
            "/spec/trust",
            json!({"unsigned": true, "digest": format!("sha256:{}", "0".repeat(64))}),
            "remove one of them",
        ),
        (
            "/spec/trust",
            json!({"digest": "sha256:short"}),
            "should match",
        ),
        (
            "/spec/trust",
            json!({"keys": [{"file": "/etc/key"}]}),
            "an object holds the text as pem",
        ),
        (
            "/spec/trust",
            json!({"keys": [{}]}),
            "exactly one of file, pem",
        ),
        (
            "/spec/trust",
            json!({"keys": [{"pem": "a", "file": "/b"}]}),
            "exactly one of file, pem",
        ),
        (
            "/spec/loadBalancerClasses",
            json!(vec!["a.example/b"; 17]),
            "must have at most 16 items",
        ),
        (
            "/spec/config",
            json!({"KEY": "x".repeat(70_000)}),
            "Too long",
        ),
        (
            "/spec/limits",
            json!({"memoryMiB": 0}),
            "greater than or equal to 1",
        ),
        (
            "/spec/rollout",
            json!({"shadowTime": "soon"}),
            "should match",
        ),
        (
            "/spec/rollout",
            json!({"shadowtime": "1s"}),
            "unknown field",
        ),
        ("/spec/ingressCIDRs", json!(["everywhere"]), "should match"),
        (
            "/spec/nodes",
            json!({"schemes": vec!["a"; 9]}),
            "must have at most 8 items",
        ),
        (
            at("endpoint"),
            json!("http://api.example.com"),
            "expected https, or http to loopback",
        ),
        (
            at("endpoint"),
            json!("http://127.0.0.1.example.com/"),
            "expected https, or http to loopback",
        ),
        (
            at("endpoint"),
            json!("https://user:word@api.example.com"),
            "scheme, host, port and base path only",
        ),
        (
            at("caFile"),
            json!("/etc/ca"),
            "an object holds the certificates as caPem",
        ),
        (at("rules"), json!([]), "should have at least 1 items"),
        (
            at("rules/0/methods"),
            json!(["get"]),
            "Unsupported value: \"get\"",
        ),
        (
            at("rules/0/methods"),
            json!(["DELETE"]),
            "their access is write",
        ),
        (
            at("rules/0/access"),
            json!("readwrite"),
            "Unsupported value: \"readwrite\"",
        ),
        (
            at("credential"),
            json!({}),
            "exactly one of awsSigV4, basic, bearer, header, keystone, oauth2",
        ),
        (
            at("credential"),
            json!({"bearer": {"secret": secret}, "header": {"name": "a", "value": {"secret": secret}}}),
            "exactly one of awsSigV4, basic, bearer, header, keystone, oauth2",
        ),
        (
            at("credential"),
            json!({"bearer": {}}),
            "exactly one of env, file, secret",
        ),
        (
            at("credential"),
            json!({"bearer": {"env": "HCLOUD_TOKEN"}}),
            "env and file are for the file of --config",
        ),
        (
            at("credential"),
            json!({"bearer": {"file": "/token"}}),
            "env and file are for the file of --config",
        ),
        (
            at("credential"),
            aws(json!({"instanceMetadata": {}})),
            "no identity of the manager's own",
        ),
        (
            at("credential"),
            aws(
                json!({"keys": {"accessKeyId": {"env": "AWS_ACCESS_KEY_ID"}, "secretAccessKey": {"secret": secret}}}),
            ),
            "env and file are for the file of --config",
        ),
        (
            at("credential"),
            aws(
                json!({"webIdentity": {"roleArn": "arn:aws:iam::123456789012:role/x", "token": {"secret": secret}, "issuer": {"endpoint": "https://u@sts.example.com"}}}),
            ),
            "expected scheme, host, port and path only",
        ),
        (
            at("credential"),
            json!({"awsSigV4": {"region": "eu-central-1", "service": "s3", "source": {"keys": {"accessKeyId": {"secret": secret}, "secretAccessKey": {"secret": secret}}}}}),
            "it signs in another way",
        ),
        (
            at("credential"),
            json!({"oauth2": {"issuer": {"endpoint": "https://login.example.com", "caFile": "/ca"}, "client": {"id": "a"}}}),
            "caFile is for the file of --config",
        ),
        (
            at("credential"),
            json!({"keystone": {"issuer": {"endpoint": "https://keystone.example.com/v3"}, "method": {}}}),
            "exactly one of applicationCredential, password",
        ),
        (
            at("credential"),
            json!({"bearer": "a-token"}),
            "expected map",
        ),
        (
            at("requestBudget"),
            json!({"requests": 0, "per": "1h"}),
            "greater than or equal to 1",
        ),
        (
            "/metadata/name",
            json!("external"),
            "what the kubelet calls",
        ),
        (
            "/metadata/name",
            json!("a.b"),
            "lower-case letters, digits and dashes",
        ),
    ]
}

#[tokio::test]
async fn the_api_server_refuses_mistakes_in_an_object_and_says_what_is_wrong() {
    let server = ApiServer::start().await.unwrap();
    let admin = server.client_for("admin").await.unwrap();
    define_providers(&admin).await;
    apply(&admin, &minimal()).await.unwrap();
    // An object that only records the status of a provider of the file.
    let mut bare = minimal();
    bare.as_object_mut().unwrap().remove("spec");
    bare["metadata"]["name"] = json!("bare");
    apply(&admin, &bare).await.unwrap();
    let mut others = Vec::new();
    for (place, value, expected) in mistakes() {
        let mut object = minimal();
        if place != "/metadata/name" {
            object["metadata"]["name"] = json!("mistaken");
        }
        let (parent, key) = place.rsplit_once('/').unwrap();
        let parent = object.pointer_mut(parent).unwrap();
        match value.is_null() {
            true => drop(parent.as_object_mut().unwrap().remove(key)),
            false => parent[key] = value.clone(),
        }
        let refusal = match apply(&admin, &object).await {
            Ok(_) => "it was taken".to_owned(),
            Err(kube::Error::Api(status)) => status.message.clone(),
            Err(error) => error.to_string(),
        };
        // The oldest API server has another message for an unknown field.
        let expected = match expected {
            "unknown field" if refusal.contains("field not declared in schema") => "not declared",
            expected => expected,
        };
        if !refusal.contains(expected) {
            others.push(format!("{place} {value}: not {expected:?}: {refusal}"));
        }
    }
    assert!(others.is_empty(), "{}", others.join("\n"));
}

#[tokio::test]
async fn what_init_writes_of_a_module_is_taken_by_the_api_server() {
    let server = ApiServer::start().await.unwrap();
    let admin = server.client_for("admin").await.unwrap();
    define_providers(&admin).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("toy.wasm");
    std::fs::write(&file, test_guests::MISBEHAVING).unwrap();
    // A private registry, with a login and an authority of its own.
    let registry = Registry::start().await.unwrap();
    registry
        .push("clouds/toy:1", test_guests::MISBEHAVING)
        .unwrap();
    let source = format!("oci://{}/clouds/toy:1", registry.host());
    let logins = folder.path().join("config.json");
    std::fs::write(&logins, registry.docker_config_json().unwrap()).unwrap();
    for module in ["embedded:hcloud", file.to_str().unwrap(), &source] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ccm"));
        command.args(["provider", "init", module, "--name=written"]);
        command.arg("--ca-file").arg(registry.ca_file());
        command.arg("--registry-config").arg(&logins);
        let text = output_of(command).await;
        assert!(!text.contains(PASSWORD), "{text}");
        let object: Value = serde_saphyr::from_str(&text).unwrap();
        let params = PatchParams::apply("a-person").validation_strict().dry_run();
        let dry = api(&admin, &object);
        let taken = dry.patch("written", &params, &Patch::Apply(&object)).await;
        let taken = taken.unwrap_or_else(|error| panic!("{module}: {error}\n{text}"));
        let spec = &taken.data["spec"];
        assert!(spec["grants"]["targets"][0]["rules"].is_array());
        if module == source {
            let secret =
                json!({"namespace": "kube-system", "name": "written", "key": ".dockerconfigjson"});
            assert_eq!(spec["source"], json!(source));
            assert_eq!(
                spec["trust"],
                json!({"digest": digest(test_guests::MISBEHAVING)})
            );
            let reached = json!({"caPem": registry.ca_pem(), "credentials": {"secret": secret}});
            assert_eq!(spec["registry"], reached);
        } else {
            assert!(spec["registry"].is_null(), "{text}");
        }
    }
}

#[tokio::test]
async fn a_status_is_written_without_the_fields_that_an_earlier_definition_lacks() {
    let server = ApiServer::start().await.unwrap();
    let admin = server.client_for("admin").await.unwrap();
    let mut definition = manifests("crd.yaml").remove(0);
    for (parent, field) in [
        ("", "goneBack"),
        ("/active/properties", "untried"),
        ("/rejected/items/properties", "hasAnswered"),
    ] {
        let status = "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties";
        let fields = definition.pointer_mut(&format!("{status}{parent}"));
        let fields = fields.unwrap().as_object_mut().unwrap();
        fields.remove(field).unwrap();
    }
    define(&admin, &definition).await;

    let writing = tokio::sync::watch::Sender::new(Some(admin.clone()));
    let memory = MemoryRecordStore::new();
    let store = ClusterRecordStore::new("cloud", admin.clone(), writing.subscribe(), memory);
    let digest = format!("sha256:{}", "0f".repeat(32));
    let rejected = Rejected {
        digest: digest.clone(),
        version: String::new(),
        reason: "it traps".to_owned(),
        has_answered: true,
        at: 1_700_000_050,
    };
    let active = Placed {
        release: Release {
            digest: digest.clone(),
            version: "1.0.1".to_owned(),
            origin: String::new(),
        },
        since: 1_700_000_000,
        noted: Noted::default(),
        untried: Some("1.0.0 is gone".to_owned()),
    };
    let report = Report {
        record: Record {
            active: Some(active),
            rejected: vec![rejected],
            has_gone_back: true,
            ..Record::default()
        },
        ..Report::default()
    };
    store.write(&report).await.unwrap();
    let providers = api(&admin, &minimal());
    let status = json!(providers.get("cloud").await.unwrap())["status"].take();
    assert_eq!(status["active"]["version"], "1.0.1", "{status}");
    assert!(status["active"].get("untried").is_none(), "{status}");
    let rejected = json!({"digest": digest, "version": "", "reason": "it traps", "at": "2023-11-14T22:14:10Z"});
    assert_eq!(status["rejected"], json!([rejected]), "{status}");
    assert!(status.get("goneBack").is_none(), "{status}");

    store.write(&Report::default()).await.unwrap();
    let status = json!(providers.get("cloud").await.unwrap())["status"].take();
    assert!(status.get("active").is_none(), "{status}");
    assert_eq!(status["rejected"], json!([]), "{status}");
}
