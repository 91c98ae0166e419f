//! `ccm provider pull`, `inspect`, `diff` and `verify` before a real registry and the tools of others: crane has pushed
//! what is pulled, cosign has signed what is verified.

use std::process::{Command, Output};

use ccm_host::Digest;
use ccm_tests::registry::Registry;
use serde_json::Value;

const CCM: &str = env!("CARGO_BIN_EXE_ccm");

/// A module that is no shipped one: the shipped one with one more section.
fn module() -> Vec<u8> {
    let mut wasm = embedded_guests::HCLOUD.to_vec();
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
fn what_crane_has_pushed_is_pulled_inspected_and_compared() {
    let stage = Stage::new();
    let (file, copy) = (stage.path("provider.wasm"), stage.path("copy.wasm"));
    std::fs::write(&file, module()).unwrap();
    let tag = stage.reference("clouds/hcloud:1");
    let digest = stage.registry.push("clouds/hcloud:1", &module()).unwrap();
    let reference = format!("{tag}@{digest}");

    let pulled = stage.is(0, &["pull", &reference, "--to", &copy]);
    assert!(pulled.contains(&digest), "{pulled}");
    assert_eq!(std::fs::read(&copy).unwrap(), module());
    let inspected = stage.is(0, &["inspect", "-o", "json", &tag]);
    let inspected: Value = serde_json::from_str(&inspected).unwrap();
    assert_eq!(inspected["digest"], Digest::of(&module()).to_string());
    assert_eq!(inspected["manifestDigest"], digest);
    let inspected = stage.is(0, &["inspect", &tag]);
    let both = [digest.clone(), Digest::of(&module()).to_string()];
    assert!(
        both.iter().all(|one| inspected.contains(one)),
        "{inspected}"
    );
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
fn what_cosign_has_signed_is_verified() {
    let stage = Stage::new();
    let file = stage.path("provider.wasm");
    std::fs::write(&file, module()).unwrap();
    let public = stage.path("cosign.pub");
    let cosign = |command: &[&str], what: &str| {
        let offline = ["--tlog-upload=false", "--use-signing-config=false", what];
        let signed = stage.registry.cosign([command, &offline].concat()).unwrap();
        assert!(signed.status.success(), "{}", all(&signed));
    };

    // A file, with its signature beside it.
    stage.is(2, &["verify", "--key", &public, &file]);
    let bundle = format!("{file}.sigstore.json");
    cosign(
        &["sign-blob", "--key", "cosign.key", "--bundle", &bundle],
        &file,
    );
    let said = stage.is(0, &["verify", "--key", &public, &file]);
    assert!(said.contains("yes: hcloud"), "{said}");

    // A registry's artifact.
    stage.registry.push("clouds/hcloud:1", &module()).unwrap();
    let host = stage.registry.host();
    let digest = stage
        .registry
        .crane(["digest", &format!("{host}/clouds/hcloud:1")])
        .unwrap();
    let digest = String::from_utf8(digest.stdout).unwrap();
    let digest = digest.trim();
    let pinned = format!("clouds/hcloud@{digest}");
    let tag = stage.reference("clouds/hcloud:1");
    stage.is(2, &["verify", "--key", &public, &tag]);
    let signed = format!("{host}/{pinned}");
    cosign(&["sign", "--key", "cosign.key"], &signed);
    stage.is(0, &["verify", "--key", &public, &tag]);
    stage.is(0, &["verify", "--key", &public, &stage.reference(&pinned)]);

    // Another module is not vouched for by it.
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
