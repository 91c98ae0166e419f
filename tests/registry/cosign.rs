//! cosign and we agree: what it signs, we verify, and what we sign, it verifies; at a real registry and for files. It
//! never asks a transparency log or anybody else outside of this machine.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::SystemTime;

use ccm_delivery::artifact::{Artifact, Evidence};
use ccm_delivery::push::{self, Parcel};
use ccm_delivery::sign::{self, SigningKey};
use ccm_delivery::source::Location;
use ccm_delivery::source::oci::{OciSettings, POLL, RegistryCredentials};
use ccm_delivery::trust::{Provenance, PublicKey, TrustPolicy};
use ccm_host::Digest;
use ccm_tests::registry::{self, Registry};
use rcgen::KeyPair;
use tempfile::TempDir;
use tokio::sync::watch;

const PASSWORD: &str = "";
/// The only flags that signing without a transparency log takes.
const OFFLINE: [&str; 2] = ["--tlog-upload=false", "--use-signing-config=false"];

fn succeeded(output: &Output) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}

fn settings(registry: &Registry, reference: &str) -> OciSettings {
    let text = format!("oci://{}/{reference}", registry.host());
    let Location::Oci(place) = Location::parse(&text).unwrap() else {
        panic!("{text}")
    };
    let login = registry.docker_config_json().unwrap();
    let login = RegistryCredentials::parse_docker_config(&login).unwrap();
    OciSettings {
        place,
        credentials: watch::channel(Some(login)).1,
        ca_pem: Some(registry.ca_pem().to_owned()),
        mirrors: Vec::new(),
        poll: POLL,
        addresses: Vec::new(),
        plain_http: false,
    }
}

/// Pushes a module, and says its manifest's digest.
async fn pushed(settings: &OciSettings, wasm: &[u8]) -> String {
    let inspection = ccm_host::inspect("a test", wasm).unwrap();
    let parcel = Parcel {
        wasm: wasm.to_vec().into(),
        inspection: &inspection,
        created: None,
        author: None,
    };
    let pushed = push::push(settings, &parcel, Arc::new(|_| ()))
        .await
        .unwrap();
    pushed.manifest_digest
}

fn module(version: &'static str) -> Vec<u8> {
    test_guests::misbehaving(test_guests::Version {
        version: Some(version),
        behaviour: None,
        is_wider: false,
    })
}

fn trusting(key: &PublicKey) -> TrustPolicy {
    TrustPolicy {
        keys: vec![key.clone()],
        ..TrustPolicy::default()
    }
}

/// Who vouches, or the reason why nobody does.
fn verdict(key: &PublicKey, artifact: &Artifact) -> Result<Provenance, &'static str> {
    trusting(key)
        .verify(artifact, "1.0.0", SystemTime::now())
        .map_err(|distrust| distrust.reason())
}

/// cosign's key pair in `folder`, made by cosign.
fn key_in(folder: &Path) -> SigningKey {
    let text = fs::read_to_string(folder.join("cosign.key")).unwrap();
    let key = SigningKey::from_pem(&text, Some(PASSWORD.as_bytes())).unwrap();
    let public = fs::read_to_string(folder.join("cosign.pub")).unwrap();
    assert_eq!(
        key.public_pem(),
        public,
        "cosign and we should see the same public half"
    );
    key
}

fn stranger() -> PublicKey {
    PublicKey::from_pem(&KeyPair::generate().unwrap().public_key_pem()).unwrap()
}

#[tokio::test]
async fn what_cosign_signs_in_a_registry_in_either_form_is_verified() {
    let registry = Registry::start().await.unwrap();
    succeeded(&registry.cosign(["generate-key-pair"]).unwrap());
    let key = key_in(registry.folder());
    let trusted = key.public_key().unwrap();

    for (form, flag) in [
        ("bundle", "--new-bundle-format=true"),
        ("older", "--new-bundle-format=false"),
    ] {
        let settings = settings(&registry, &format!("{form}/provider:1"));
        let digest = pushed(&settings, &module("1.0.0")).await;
        let before = push::pull(&settings, &|_| ()).await.unwrap();
        assert_eq!(verdict(&trusted, &before), Err("unsigned"), "{form}");

        let reference = format!("{}/{form}/provider@{digest}", registry.host());
        let mut arguments = vec!["sign", "--key", "cosign.key", flag];
        arguments.extend(OFFLINE);
        arguments.push(&reference);
        succeeded(&registry.cosign(arguments).unwrap());

        let signed = push::pull(&settings, &|_| ()).await.unwrap();
        let is_bundle = matches!(signed.evidence.as_slice(), [Evidence::Bundle(_)]);
        assert_eq!(
            (signed.evidence.len(), is_bundle),
            (1, form == "bundle"),
            "{form}"
        );
        let fingerprint = key.fingerprint();
        assert_eq!(
            verdict(&trusted, &signed),
            Ok(Provenance::Key { fingerprint }),
            "{form}"
        );
        assert_eq!(verdict(&stranger(), &signed), Err("wrong-key"), "{form}");
    }
}

#[tokio::test]
async fn a_signature_that_is_moved_to_another_module_is_refused() {
    let registry = Registry::start().await.unwrap();
    succeeded(&registry.cosign(["generate-key-pair"]).unwrap());
    let key = key_in(registry.folder());
    let settings = settings(&registry, "moved/provider:1");
    let repository = format!("{}/moved/provider", registry.host());
    let good = pushed(&settings, &module("1.0.0")).await;
    let reference = format!("{repository}@{good}");
    let mut arguments = vec!["sign", "--key", "cosign.key", "--new-bundle-format=false"];
    arguments.extend(OFFLINE);
    arguments.push(&reference);
    succeeded(&registry.cosign(arguments).unwrap());

    let evil = pushed(&settings, &module("6.6.6")).await;
    let signature_of = |digest: &str| format!("{repository}:{}.sig", digest.replace(':', "-"));
    succeeded(
        &registry
            .crane(["copy", &signature_of(&good), &signature_of(&evil)])
            .unwrap(),
    );
    let artifact = push::pull(&settings, &|_| ()).await.unwrap();
    assert_eq!(artifact.manifest_digest, Some(evil));
    assert_eq!(
        verdict(&key.public_key().unwrap(), &artifact),
        Err("other-artifact")
    );
}

#[tokio::test]
async fn what_we_attach_to_a_manifest_is_verified_by_cosign() {
    let registry = Registry::start().await.unwrap();
    succeeded(&registry.cosign(["generate-key-pair"]).unwrap());
    let key = key_in(registry.folder());
    fs::write(
        registry.folder().join("stranger.pub"),
        KeyPair::generate().unwrap().public_key_pem(),
    )
    .unwrap();
    let settings = settings(&registry, "ours/provider:1");
    let digest = pushed(&settings, &module("1.0.0")).await;
    let reference = format!("{}/ours/provider@{digest}", registry.host());
    let verify = |key: &str| {
        registry
            .cosign([
                "verify",
                "--insecure-ignore-tlog=true",
                "--key",
                key,
                &reference,
            ])
            .unwrap()
    };
    assert!(
        !verify("cosign.pub").status.success(),
        "nothing is signed yet"
    );

    let attachment = sign::manifest(&key, &digest).unwrap();
    push::attach(&settings, &digest, &attachment).await.unwrap();
    succeeded(&verify("cosign.pub"));
    assert!(
        !verify("stranger.pub").status.success(),
        "somebody else's key"
    );

    let artifact = push::pull(&settings, &|_| ()).await.unwrap();
    assert!(verdict(&key.public_key().unwrap(), &artifact).is_ok());
}

/// cosign without a registry, in `folder`.
fn cosign(folder: &TempDir, arguments: &[&str]) -> Output {
    Command::new(registry::tool("cosign").unwrap())
        .args(arguments)
        .current_dir(folder)
        .env("HOME", folder.path())
        .env("COSIGN_PASSWORD", PASSWORD)
        .env("COSIGN_YES", "true")
        .output()
        .unwrap()
}

fn file(wasm: &[u8], evidence: Vec<u8>) -> Artifact {
    Artifact {
        wasm: wasm.into(),
        digest: Digest::of(wasm),
        origin: "file:///provider.wasm".to_owned(),
        manifest_digest: None,
        is_pinned: false,
        evidence: vec![Evidence::Bundle(evidence)],
    }
}

#[test]
fn files_are_signed_and_verified_both_ways() {
    let folder = TempDir::new().unwrap();
    succeeded(&cosign(&folder, &["generate-key-pair"]));
    let key = key_in(folder.path());
    let trusted = key.public_key().unwrap();
    let wasm = module("1.0.0");
    fs::write(folder.path().join("provider.wasm"), &wasm).unwrap();

    let theirs = [
        "sign-blob",
        "--key",
        "cosign.key",
        "--bundle",
        "theirs.json",
    ];
    succeeded(&cosign(
        &folder,
        &[&theirs[..], &OFFLINE, &["provider.wasm"]].concat(),
    ));
    let theirs = fs::read(folder.path().join("theirs.json")).unwrap();
    assert!(verdict(&trusted, &file(&wasm, theirs.clone())).is_ok());
    assert_eq!(
        verdict(&stranger(), &file(&wasm, theirs.clone())),
        Err("wrong-key")
    );
    assert_eq!(
        verdict(&trusted, &file(&module("1.0.1"), theirs)),
        Err("other-artifact")
    );

    let ours = sign::file(&key, &wasm).unwrap();
    fs::write(folder.path().join("provider.wasm.sigstore.json"), ours).unwrap();
    let verify = [
        "verify-blob",
        "--insecure-ignore-tlog=true",
        "--key",
        "cosign.pub",
    ];
    let bundle = ["--bundle", "provider.wasm.sigstore.json", "provider.wasm"];
    succeeded(&cosign(&folder, &[&verify[..], &bundle].concat()));
    fs::write(folder.path().join("provider.wasm"), module("1.0.1")).unwrap();
    assert!(
        !cosign(&folder, &[&verify[..], &bundle].concat())
            .status
            .success()
    );
}

#[test]
fn keys_that_were_not_made_by_cosign_sign_what_cosign_verifies() {
    let folder = TempDir::new().unwrap();
    let wasm = module("1.0.0");
    fs::write(folder.path().join("provider.wasm"), &wasm).unwrap();
    for kind in [&rcgen::PKCS_ECDSA_P256_SHA256, &rcgen::PKCS_ED25519] {
        let pair = KeyPair::generate_for(kind).unwrap();
        let key = SigningKey::from_pem(&pair.serialize_pem(), None).unwrap();
        fs::write(folder.path().join("key.pub"), key.public_pem()).unwrap();
        fs::write(
            folder.path().join("bundle.json"),
            sign::file(&key, &wasm).unwrap(),
        )
        .unwrap();
        let verify = [
            "verify-blob",
            "--insecure-ignore-tlog=true",
            "--key",
            "key.pub",
        ];
        let bundle = ["--bundle", "bundle.json", "provider.wasm"];
        succeeded(&cosign(&folder, &[&verify[..], &bundle].concat()));
    }
}
