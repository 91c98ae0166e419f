//! `ccm provider push`, `pull`, `sign` and `verify` between a real registry and the tools of others: crane reads what
//! was pushed, cosign verifies what was signed, and the other way round.

use std::path::Path;
use std::process::{Command, Output};

use ccm_host::Digest;
use ccm_tests::registry::Registry;
use serde_json::Value;

const CCM: &str = env!("CARGO_BIN_EXE_ccm");

/// A module that is no shipped one: the shipped one with one more section.
fn module() -> Vec<u8> {
    let guest = embedded_guests::all()[0];
    let mut wasm = guest.wasm.to_vec();
    wasm.extend([0, 5, 4, b'n', b'o', b't', b'e']);
    wasm
}

struct Stage {
    registry: Registry,
    /// Keeps the registry's process watched.
    _runtime: tokio::runtime::Runtime,
}

impl Stage {
    fn new() -> Stage {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let registry = runtime.block_on(Registry::start()).unwrap();
        let cosign = registry.cosign(["generate-key-pair"]).unwrap();
        assert!(cosign.status.success(), "{}", all(&cosign));
        Stage {
            registry,
            _runtime: runtime,
        }
    }

    fn path(&self, name: &str) -> String {
        let path = self.registry.folder().join(name);
        path.to_str().unwrap().to_owned()
    }

    fn reference(&self, rest: &str) -> String {
        format!("oci://{}/{rest}", self.registry.host())
    }

    /// The binary with the registry's CA and login.
    fn ccm(&self, arguments: &[&str], needs_registry: bool) -> Output {
        let mut command = Command::new(CCM);
        command.arg("provider").args(arguments);
        if needs_registry {
            command.arg("--ca-file").arg(self.registry.ca_file());
        }
        command
            .env("DOCKER_CONFIG", self.registry.docker_config())
            .env("COSIGN_PASSWORD", "")
            .output()
            .unwrap()
    }

    fn is(&self, code: i32, arguments: &[&str]) -> String {
        let output = self.ccm(arguments, true);
        assert_eq!(
            output.status.code(),
            Some(code),
            "{arguments:?}: {}",
            all(&output)
        );
        all(&output)
    }
}

fn all(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

#[test]
fn what_is_pushed_is_what_others_pull_and_what_comes_back() {
    let stage = Stage::new();
    let (file, copy) = (stage.path("provider.wasm"), stage.path("copy.wasm"));
    std::fs::write(&file, module()).unwrap();
    let tag = stage.reference("clouds/hcloud:1");
    let pushed = stage.is(0, &["push", &file, &tag]);
    let reference = pushed.trim().to_owned();
    assert!(reference.contains("@sha256:"), "{pushed}");

    let crane = stage
        .registry
        .crane(["manifest", reference.trim_start_matches("oci://")])
        .unwrap();
    assert!(crane.status.success(), "{}", all(&crane));
    let manifest: Value = serde_json::from_slice(&crane.stdout).unwrap();
    assert_eq!(manifest["layers"][0]["mediaType"], "application/wasm");
    assert_eq!(
        manifest["layers"][0]["digest"],
        Digest::of(&module()).to_string()
    );

    stage.is(0, &["pull", &reference, "--to", &copy]);
    assert_eq!(std::fs::read(&copy).unwrap(), module());
    let inspected = stage.is(0, &["inspect", "-o", "json", &tag]);
    let inspected: Value = serde_json::from_str(&inspected).unwrap();
    assert_eq!(inspected["digest"], Digest::of(&module()).to_string());
    let same = stage.is(0, &["diff", &file, &reference]);
    assert!(same.contains("It asks for the same."), "{same}");

    let missing = stage.is(
        1,
        &["pull", &stage.reference("clouds/nothing:1"), "--to", &copy],
    );
    assert!(missing.contains("clouds/nothing"), "{missing}");
    let login = stage.ccm(
        &["inspect", &tag, "--registry-config", "/nowhere.json"],
        true,
    );
    assert_eq!(login.status.code(), Some(1), "{}", all(&login));
    let untrusted = stage.ccm(&["inspect", &tag], false);
    assert_eq!(untrusted.status.code(), Some(1), "{}", all(&untrusted));
}

#[test]
fn what_is_signed_is_verified_by_others_and_the_other_way_round() {
    let stage = Stage::new();
    let file = stage.path("provider.wasm");
    std::fs::write(&file, module()).unwrap();
    let (key, public) = (stage.path("cosign.key"), stage.path("cosign.pub"));

    // A file: ours verified by cosign.
    stage.is(2, &["verify", "--key", &public, &file]);
    stage.is(0, &["sign", "--key", &key, &file]);
    let bundle = format!("{file}.sigstore.json");
    assert!(Path::new(&bundle).exists());
    let said = stage.is(0, &["verify", "--key", &public, &file]);
    assert!(said.contains("yes: hcloud"), "{said}");
    let cosign = stage
        .registry
        .cosign([
            "verify-blob",
            "--key",
            &public,
            "--bundle",
            &bundle,
            "--insecure-ignore-tlog=true",
            &file,
        ])
        .unwrap();
    assert!(cosign.status.success(), "{}", all(&cosign));

    // A registry's artifact: ours verified by cosign, and by us.
    let ours = stage.is(0, &["push", &file, &stage.reference("clouds/ours:1")]);
    let ours = ours.trim();
    stage.is(2, &["verify", "--key", &public, ours]);
    stage.is(0, &["sign", "--key", &key, ours]);
    stage.is(0, &["verify", "--key", &public, ours]);
    let cosign = stage
        .registry
        .cosign([
            "verify",
            "--key",
            &public,
            "--insecure-ignore-tlog=true",
            ours.trim_start_matches("oci://"),
        ])
        .unwrap();
    assert!(cosign.status.success(), "{}", all(&cosign));

    // Another module is not vouched for by it, nor does another key vouch.
    let mut other = module();
    other.extend([0, 5, 4, b'm', b'o', b'r', b'e']);
    std::fs::write(&file, other).unwrap();
    stage.is(2, &["verify", "--key", &public, &file]);
    stage.is(
        2,
        &[
            "verify",
            "--digest",
            &Digest::of(&module()).to_string(),
            &file,
        ],
    );
    stage.is(1, &["verify", &file]);
}
