//! `ccm provider pull`, `inspect`, `diff` and `verify` before a real registry and the tools of others: crane has pushed
//! the pulled modules, cosign has signed the verified ones.

use std::process::{Command, Output};

use ccm_host::Digest;
use ccm_tests::registry::Registry;
use serde_json::Value;

const CCM: &str = env!("CARGO_BIN_EXE_ccm");

/// A module other than the shipped one: it has one more section.
fn module() -> Vec<u8> {
    let mut wasm = embedded_guests::HCLOUD.to_vec();
    wasm.extend([0, 5, 4, b'n', b'o', b't', b'e']);
    wasm
}

struct World {
    registry: Registry,
    /// Kept because the registry's process is watched on it.
    _runtime: tokio::runtime::Runtime,
}

impl World {
    fn new() -> World {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let registry = runtime.block_on(Registry::start()).unwrap();
        let cosign = registry.cosign(["generate-key-pair"]).unwrap();
        assert!(cosign.status.success(), "{}", all(&cosign));
        World {
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
    let world = World::new();
    let (file, copy) = (world.path("provider.wasm"), world.path("copy.wasm"));
    std::fs::write(&file, module()).unwrap();
    let tag = world.reference("clouds/hcloud:1");
    let digest = world.registry.push("clouds/hcloud:1", &module()).unwrap();
    let reference = format!("{tag}@{digest}");

    let pulled = world.is(0, &["pull", &reference, "--to", &copy]);
    assert!(pulled.contains(&digest), "{pulled}");
    assert_eq!(std::fs::read(&copy).unwrap(), module());
    let inspected = world.is(0, &["inspect", "-o", "json", &tag]);
    let inspected: Value = serde_json::from_str(&inspected).unwrap();
    assert_eq!(inspected["digest"], Digest::of(&module()).to_string());
    assert_eq!(inspected["manifestDigest"], digest);
    let inspected = world.is(0, &["inspect", &tag]);
    let both = [digest.clone(), Digest::of(&module()).to_string()];
    assert!(
        both.iter().all(|one| inspected.contains(one)),
        "{inspected}"
    );
    let same = world.is(0, &["diff", &file, &reference]);
    assert!(same.contains("It asks for the same."), "{same}");

    let missing = world.is(
        1,
        &["pull", &world.reference("clouds/nothing:1"), "--to", &copy],
    );
    assert!(missing.contains("clouds/nothing"), "{missing}");
    let login = world.ccm(
        &["inspect", &tag, "--registry-config", "/nowhere.json"],
        true,
    );
    assert_eq!(login.status.code(), Some(1), "{}", all(&login));
    let untrusted = world.ccm(&["inspect", &tag], false);
    assert_eq!(untrusted.status.code(), Some(1), "{}", all(&untrusted));
}

#[test]
fn what_cosign_has_signed_is_verified() {
    let world = World::new();
    let file = world.path("provider.wasm");
    std::fs::write(&file, module()).unwrap();
    let public = world.path("cosign.pub");
    let cosign = |command: &[&str], what: &str| {
        let offline = ["--tlog-upload=false", "--use-signing-config=false", what];
        let signed = world.registry.cosign([command, &offline].concat()).unwrap();
        assert!(signed.status.success(), "{}", all(&signed));
    };

    // A file with its signature in a second file.
    world.is(2, &["verify", "--key", &public, &file]);
    let bundle = format!("{file}.sigstore.json");
    cosign(
        &["sign-blob", "--key", "cosign.key", "--bundle", &bundle],
        &file,
    );
    let output = world.is(0, &["verify", "--key", &public, &file]);
    assert!(output.contains("yes: hcloud"), "{output}");

    // An artifact in a registry.
    world.registry.push("clouds/hcloud:1", &module()).unwrap();
    let host = world.registry.host();
    let digest = world
        .registry
        .crane(["digest", &format!("{host}/clouds/hcloud:1")])
        .unwrap();
    let digest = String::from_utf8(digest.stdout).unwrap();
    let digest = digest.trim();
    let pinned = format!("clouds/hcloud@{digest}");
    let tag = world.reference("clouds/hcloud:1");
    world.is(2, &["verify", "--key", &public, &tag]);
    let signed = format!("{host}/{pinned}");
    cosign(&["sign", "--key", "cosign.key"], &signed);
    world.is(0, &["verify", "--key", &public, &tag]);
    world.is(0, &["verify", "--key", &public, &world.reference(&pinned)]);

    // The signature does not cover another module.
    let mut other = module();
    other.extend([0, 5, 4, b'm', b'o', b'r', b'e']);
    std::fs::write(&file, other).unwrap();
    world.is(2, &["verify", "--key", &public, &file]);
    world.is(
        2,
        &[
            "verify",
            "--digest",
            &Digest::of(&module()).to_string(),
            &file,
        ],
    );
    world.is(1, &["verify", &file]);
}
