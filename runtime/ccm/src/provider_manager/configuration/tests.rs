//! What is picked from the file, and a start that waits for its Secrets.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ccm_core::settings::Adoption;
use http::{Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tempfile::TempDir;
use tower::service_fn;

use super::*;

fn configuration(name: Option<&str>, module: Option<&str>, secrets: Secrets) -> Configuration {
    Configuration {
        file: None,
        is_cloud_config: false,
        parsed: ParsedFile::default(),
        last_valid: Mutex::default(),
        name: name.map(str::to_owned),
        module: module.map(str::to_owned),
        cloud_proxy: CloudProxy::Direct,
        secrets,
        objects: None,
        region: MachineAnswer::default(),
        instance: MachineAnswer::default(),
    }
}

#[test]
fn only_the_shipped_module_without_a_file_adopts_what_nobody_owns() {
    let written = || vec![ProviderConfig::unwritten("hcloud")];
    let table = [
        (Vec::new(), None, Adoption::Unowned),
        (Vec::new(), Some("embedded:hcloud"), Adoption::Unowned),
        (Vec::new(), Some("file:///hcloud.wasm"), Adoption::Never),
        (written(), None, Adoption::Never),
        (written(), Some("embedded:hcloud"), Adoption::Never),
    ];
    for (configured, module, expected) in table {
        let configuration = configuration(Some("hcloud"), module, Secrets::of(None));
        let picked = configuration.pick(configured).unwrap();
        let adoption = picked[0].load_balancers.adoption;
        assert_eq!(adoption, expected, "{module:?}");
    }
}

#[test]
fn a_file_without_the_provider_that_the_flag_names_is_a_mistake_and_no_built_in_grants_follow() {
    let written = |names: &[&str]| {
        let names = names.iter();
        names.map(|name| ProviderConfig::unwritten(name)).collect()
    };
    let of_a_file = |module| Configuration {
        file: Some("/etc/ccm/ccm.yaml".into()),
        ..configuration(Some("hcloud"), module, Secrets::of(None))
    };
    for module in [None, Some("file:///hcloud.wasm")] {
        let configuration = of_a_file(module);
        let picked = configuration.pick(written(&["aws", "hcloud-fsn"]));
        let error = picked.err().unwrap().to_string();
        assert_eq!(
            error,
            "--cloud-provider=hcloud: the file of --config has no provider of this name: it has aws, hcloud-fsn"
        );
        let picked = configuration.pick(written(&["aws", "hcloud"])).unwrap();
        assert_eq!(picked.len(), 1);
        assert_eq!(picked[0].load_balancers.adoption, Adoption::Never);
    }
}

/// A flag says nothing about who has to vouch for the module.
#[test]
fn a_module_that_the_flag_names_comes_from_where_others_can_write_only_if_the_file_says_so() {
    const REGISTRY: &str = "oci://registry.example.com/hcloud:v1";
    const CONFIG_MAP: &str = "configmap://kube-system/ccm/hcloud.wasm";
    let of_file = |source: &str| {
        let mut written = ProviderConfig::unwritten("hcloud");
        written.source = location(source).unwrap();
        vec![written]
    };
    for (configured, module, is_taken) in [
        (Vec::new(), "file:///hcloud.wasm", true),
        (Vec::new(), REGISTRY, false),
        (Vec::new(), CONFIG_MAP, false),
        (of_file("file:///hcloud.wasm"), REGISTRY, false),
        (of_file(REGISTRY), CONFIG_MAP, false),
        (of_file(REGISTRY), REGISTRY, true),
        (of_file(REGISTRY), "file:///hcloud.wasm", true),
    ] {
        let configuration = configuration(Some("hcloud"), Some(module), Secrets::of(None));
        match configuration.pick(configured) {
            Ok(picked) => {
                assert!(is_taken, "{module}");
                assert_eq!(picked[0].source.to_string(), module);
            }
            Err(error) => {
                let why = error.to_string();
                assert!(!is_taken && why.contains("need a `trust` section"), "{why}");
            }
        }
    }
}

#[test]
fn a_file_that_had_content_and_is_empty_now_may_be_half_written() {
    let nothing = ProviderConfig::unwritten("aws");
    let mut something = nothing.clone();
    something
        .values
        .insert("VPC".to_owned(), "vpc-1".to_owned());
    let file = |provider| ValidFile {
        written: None,
        configured: vec![provider],
    };
    for (last, expected) in [
        (None, true),
        (Some(file(nothing)), true),
        (Some(file(something)), false),
    ] {
        let configuration = configuration(Some("aws"), None, Secrets::of(None));
        *configuration.last_valid.lock() = last;
        assert_eq!(configuration.said_nothing(), expected);
    }
}

/// An API server that says nothing, is away, then not ready, and then gives this answer to whoever lists Secrets. Watches of
/// Secrets fail.
fn late_api_server(code: StatusCode, body: &Value) -> Client {
    let body = body.to_string();
    let lists = Arc::new(AtomicUsize::new(0));
    let answer = move |request: Request<Body>| {
        let is_watch = request
            .uri()
            .query()
            .is_some_and(|it| it.contains("limit="));
        let number = match is_watch {
            true => 1,
            false => lists.fetch_add(1, Ordering::Relaxed),
        };
        let (answer, body) = (Response::builder(), body.clone());
        async move {
            match number {
                0 => std::future::pending().await,
                1 => Err(io::Error::from(io::ErrorKind::ConnectionRefused)),
                2 => Ok(answer.status(503).body(Body::empty()).unwrap()),
                _ => Ok(answer
                    .status(code)
                    .body(Body::from(body.into_bytes()))
                    .unwrap()),
            }
        }
    };
    Client::new(service_fn(answer), "default")
}

#[tokio::test(start_paused = true)]
async fn proc_050_a_start_waits_for_the_api_server_that_has_the_files_secrets() {
    let entry = json!({
        "name": "hcloud",
        "grants": {"targets": [{
            "name": "api",
            "endpoint": "https://cloud.test",
            "credential": {"bearer": {"secret": {"namespace": "n", "name": "cloud", "key": "token"}}},
            "rules": [{"access": "read", "methods": ["GET"], "path": "/servers"}],
        }]},
    });
    let text = json!({
        "apiVersion": config::API_VERSION,
        "kind": config::KIND,
        "providers": [entry],
    });
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("ccm.yaml");
    std::fs::write(&file, text.to_string()).unwrap();
    let start = async |waits: bool, code, body: &Value| {
        let secrets = Secrets::of(Some(late_api_server(code, body)));
        let configuration = Configuration {
            file: Some(file.clone()),
            ..configuration(None, None, secrets)
        };
        let first = configuration.first(waits).await;
        first.map(|wanted| wanted.all().len())
    };
    let secret = json!({"metadata": {"name": "cloud"}, "data": {"token": "dG9rZW4="}});
    let found = json!({"metadata": {}, "items": [secret]});
    assert_eq!(start(true, StatusCode::OK, &found).await.unwrap(), 1);
    // A plan that is made once has no time to wait.
    assert!(start(false, StatusCode::OK, &found).await.is_err());

    // What the API server answers is final.
    let none = json!({"metadata": {}, "items": []});
    let refused = json!({"status": "Failure", "reason": "Forbidden", "message": "no", "code": 403});
    for (code, body, expected) in [
        (StatusCode::OK, none, "there is no such Secret"),
        (StatusCode::FORBIDDEN, refused, "cannot be read"),
    ] {
        let error = start(true, code, &body).await.unwrap_err();
        assert!(format!("{error:#}").contains(expected), "{error:#}");
    }
}
