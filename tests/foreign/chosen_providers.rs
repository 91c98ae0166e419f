//! The providers that a build embeds: features of the binary, as PROVIDERS of `deploy/release` names them. Cargo plans
//! the build of the binary; only the crate with the modules is built, so that no engine is compiled twice.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use super::checkout;

const CHOSEN: [&str; 2] = ["hcloud", "static"];

fn cargo(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO"))
        .args(arguments)
        .args(["--locked", "--no-default-features", "--features"])
        .arg(CHOSEN.join(","))
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .current_dir(checkout())
        .output()
        .unwrap();
    let reported = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{reported}");
    String::from_utf8(output.stdout).unwrap()
}

/// The folder in which the crate's build script has put the modules.
fn built() -> PathBuf {
    // The target folder with the compiled guests.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let messages = cargo(&[
        "check",
        "--package=embedded-guests",
        "--message-format=json",
        "--target-dir",
        target.to_str().unwrap(),
    ]);
    let mut messages = messages
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let of_script = messages.find(|message| {
        message["reason"] == "build-script-executed"
            && message["package_id"]
                .as_str()
                .unwrap()
                .contains("/guests/embedded#")
    });
    of_script.unwrap()["out_dir"].as_str().unwrap().into()
}

#[test]
fn the_features_of_the_binary_choose_the_embedded_providers() {
    let tree = cargo(&[
        "tree",
        "--package=ccm",
        "--edges=features,normal",
        "--invert=embedded-guests",
        "--prefix=none",
    ]);
    let features = tree.lines().filter_map(|line| {
        let (_, feature) = line.split_once("embedded-guests feature \"")?;
        feature.split('"').next()
    });
    let features: BTreeSet<&str> = features.filter(|feature| *feature != "default").collect();
    assert_eq!(features, BTreeSet::from(CHOSEN), "{tree}");

    let folder = built();
    let files = std::fs::read_dir(&folder).unwrap().flatten();
    let files: BTreeSet<String> = files
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    assert_eq!(
        files,
        BTreeSet::from(CHOSEN.map(|name| format!("guest-{name}.wasm")))
    );
    // A digest identifies one module, whatever others are embedded.
    for guest in embedded_guests::ALL {
        if CHOSEN.contains(&guest.name) {
            let wasm = std::fs::read(folder.join(format!("guest-{}.wasm", guest.name))).unwrap();
            assert!(wasm == guest.wasm, "{}: other bytes", guest.name);
        }
    }
}

#[test]
fn a_release_embeds_no_provider_that_there_is_not() {
    let build = |providers: &str| -> Output {
        Command::new(checkout().join("deploy/release/build"))
            .arg("amd64")
            .env("PROVIDERS", providers)
            .output()
            .unwrap()
    };
    // The demo is a feature of the binary, too.
    for (providers, unknown) in [("hcloud,nimbus", "nimbus"), ("static,demo", "demo")] {
        let output = build(providers);
        let reported = String::from_utf8_lossy(&output.stderr);
        let expected = format!(
            "error: PROVIDERS: there is no provider {unknown}: known are aws, digitalocean, hcloud, proxmox, static\n"
        );
        assert_eq!(reported, expected);
        assert_eq!(output.status.code(), Some(1));
    }
}
