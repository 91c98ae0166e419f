//! We verify cosign's signatures, in a registry and of files. It never contacts a transparency log or another host
//! outside this machine.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::SystemTime;

use ccm_delivery::artifact::{Artifact, SignatureEvidence};
use ccm_delivery::source::oci;
use ccm_delivery::trust::{Distrust, EvidenceRefusal, Provenance, PublicKey, TrustPolicy};
use ccm_tests::registry::{self, Registry};
use rcgen::KeyPair;
use tempfile::TempDir;

use crate::exchange::{module, settings};

const PASSWORD: &str = "";
/// The only flags with which cosign signs without a transparency log.
const OFFLINE: [&str; 2] = ["--tlog-upload=false", "--use-signing-config=false"];

fn succeeded(output: &Output) {
    let reported = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{reported}");
}

fn trusting(key: &PublicKey) -> TrustPolicy {
    TrustPolicy {
        keys: vec![key.clone()],
        ..TrustPolicy::default()
    }
}

/// The verified provenance, or the reason why there is none.
fn verdict(key: &PublicKey, artifact: &Artifact) -> Result<Provenance, Distrust> {
    trusting(key).verify(artifact, None, "1.0.0", SystemTime::now())
}

/// Why the first signature is refused.
fn refusal(verdict: Result<Provenance, Distrust>) -> Option<EvidenceRefusal> {
    match verdict {
        Err(Distrust::Refused { reasons }) => reasons.into_iter().next(),
        _ => None,
    }
}

/// The public half of the key pair that cosign made in `folder`.
fn key_in(folder: &Path) -> PublicKey {
    let text = fs::read_to_string(folder.join("cosign.pub")).unwrap();
    PublicKey::from_pem(&text).unwrap()
}

fn untrusted_key() -> PublicKey {
    PublicKey::from_pem(&KeyPair::generate().unwrap().public_key_pem()).unwrap()
}

#[tokio::test]
async fn what_cosign_signs_in_a_registry_in_either_form_is_verified() {
    let registry = Registry::start().await.unwrap();
    succeeded(&registry.cosign(["generate-key-pair"]).unwrap());
    let trusted = key_in(registry.folder());

    for (form, flag) in [
        ("bundle", "--new-bundle-format=true"),
        ("older", "--new-bundle-format=false"),
    ] {
        let place = format!("{form}/provider:1");
        let settings = settings(&registry, &place);
        let digest = registry.push(&place, &module("1.0.0")).unwrap();
        let before = oci::pull(&settings, &|_| ()).await.unwrap();
        assert_eq!(
            verdict(&trusted, &before),
            Err(Distrust::SignatureMissing),
            "{form}"
        );

        let reference = format!("{}/{form}/provider@{digest}", registry.host());
        let mut arguments = vec!["sign", "--key", "cosign.key", flag];
        arguments.extend(OFFLINE);
        arguments.push(&reference);
        succeeded(&registry.cosign(arguments).unwrap());

        let signed = oci::pull(&settings, &|_| ()).await.unwrap();
        let is_bundle = matches!(signed.evidence.as_slice(), [SignatureEvidence::Bundle(_)]);
        assert_eq!(
            (signed.evidence.len(), is_bundle),
            (1, form == "bundle"),
            "{form}"
        );
        let fingerprint = trusted.fingerprint().to_owned();
        assert_eq!(
            verdict(&trusted, &signed),
            Ok(Provenance::Key { fingerprint }),
            "{form}"
        );
        assert_eq!(
            refusal(verdict(&untrusted_key(), &signed)),
            Some(EvidenceRefusal::WrongKey),
            "{form}"
        );
    }
}

#[tokio::test]
async fn a_signature_that_is_moved_to_another_module_is_refused() {
    let registry = Registry::start().await.unwrap();
    succeeded(&registry.cosign(["generate-key-pair"]).unwrap());
    let place = "moved/provider:1";
    let repository = format!("{}/moved/provider", registry.host());
    let good = registry.push(place, &module("1.0.0")).unwrap();
    let reference = format!("{repository}@{good}");
    let mut arguments = vec!["sign", "--key", "cosign.key", "--new-bundle-format=false"];
    arguments.extend(OFFLINE);
    arguments.push(&reference);
    succeeded(&registry.cosign(arguments).unwrap());

    let evil = registry.push(place, &module("6.6.6")).unwrap();
    let signature_of = |digest: &str| format!("{repository}:{}.sig", digest.replace(':', "-"));
    succeeded(
        &registry
            .crane(["copy", &signature_of(&good), &signature_of(&evil)])
            .unwrap(),
    );
    let artifact = oci::pull(&settings(&registry, place), &|_| ())
        .await
        .unwrap();
    assert_eq!(artifact.manifest_digest, Some(evil));
    let trusted = key_in(registry.folder());
    assert!(matches!(
        refusal(verdict(&trusted, &artifact)),
        Some(EvidenceRefusal::OtherArtifact { .. })
    ));
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

/// The bundle that cosign writes over `wasm` with the key in this file of `folder`.
fn signed(folder: &TempDir, key: &str, wasm: &[u8]) -> Vec<u8> {
    fs::write(folder.path().join("provider.wasm"), wasm).unwrap();
    let bundle = "provider.wasm.sigstore.json";
    let sign = ["sign-blob", "--key", key, "--bundle", bundle];
    succeeded(&cosign(
        folder,
        &[&sign[..], &OFFLINE, &["provider.wasm"]].concat(),
    ));
    fs::read(folder.path().join(bundle)).unwrap()
}

fn file(wasm: &[u8], evidence: Vec<u8>) -> Artifact {
    Artifact {
        evidence: vec![SignatureEvidence::Bundle(evidence)],
        ..Artifact::new("file:///provider.wasm", wasm.to_vec())
    }
}

#[test]
fn files_that_cosign_signs_are_verified() {
    let folder = TempDir::new().unwrap();
    succeeded(&cosign(&folder, &["generate-key-pair"]));
    let trusted = key_in(folder.path());
    let wasm = module("1.0.0");
    let bundle = signed(&folder, "cosign.key", &wasm);
    assert!(verdict(&trusted, &file(&wasm, bundle.clone())).is_ok());
    assert_eq!(
        refusal(verdict(&untrusted_key(), &file(&wasm, bundle.clone()))),
        Some(EvidenceRefusal::WrongKey)
    );
    assert!(matches!(
        refusal(verdict(&trusted, &file(&module("1.0.1"), bundle))),
        Some(EvidenceRefusal::OtherArtifact { .. })
    ));
}

#[test]
fn files_that_cosign_signs_with_a_key_of_others_are_verified() {
    let wasm = module("1.0.0");
    for kind in [
        &rcgen::PKCS_ECDSA_P256_SHA256,
        &rcgen::PKCS_ECDSA_P384_SHA384,
        &rcgen::PKCS_ED25519,
    ] {
        let folder = TempDir::new().unwrap();
        let pair = KeyPair::generate_for(kind).unwrap();
        fs::write(folder.path().join("pair.pem"), pair.serialize_pem()).unwrap();
        succeeded(&cosign(
            &folder,
            &[
                "import-key-pair",
                "--key",
                "pair.pem",
                "--output-key-prefix",
                "imported",
            ],
        ));
        let trusted = PublicKey::from_pem(&pair.public_key_pem()).unwrap();
        let bundle = signed(&folder, "imported.key", &wasm);
        let reported = String::from_utf8_lossy(&bundle).into_owned();
        assert!(
            verdict(&trusted, &file(&wasm, bundle)).is_ok(),
            "{kind:?}: {reported}"
        );
    }
}
