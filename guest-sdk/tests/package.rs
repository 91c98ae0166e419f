//! The crate is complete: Cargo packages it, and with the package alone, outside this repository, a reader's copy of
//! the README's first provider builds and passes its tests.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use flate2::read::GzDecoder;

/// Runs Cargo without network: the registry's crates are on disk, because this workspace was built.
fn cargo(folder: &Path, arguments: &[&str]) {
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("package");
    let output = Command::new(env!("CARGO"))
        .args(arguments)
        .arg("--offline")
        .env("CARGO_TARGET_DIR", kept)
        .env_remove("RUSTFLAGS")
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "cargo {}: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Packages the crate, and unpacks it below `into`.
fn unpacked(into: &Path) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    // Without a build of its own: the steps below build the unpacked crate.
    cargo(here, &["package", "--allow-dirty", "--no-verify"]);
    let name = concat!("ccm-guest-", env!("CARGO_PKG_VERSION"));
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("package/package");
    let file = fs::File::open(kept.join(format!("{name}.crate"))).unwrap();
    tar::Archive::new(GzDecoder::new(file))
        .unpack(into)
        .unwrap();
    into.join(name)
}

/// The README's code blocks of this language, in their order.
fn blocks<'a>(readme: &'a str, language: &str) -> Vec<&'a str> {
    let begin = format!("\n```{language}\n");
    let blocks = readme.split(&begin).skip(1);
    blocks
        .map(|rest| rest.split("```").next().unwrap())
        .collect()
}

#[test]
fn the_first_provider_of_the_readme_builds_with_the_package_alone() {
    let elsewhere = tempfile::tempdir().unwrap();
    let package = unpacked(elsewhere.path());
    for part in ["README.md", "LICENSE", "wit/v0.2/http.wit", "wit/README.md"] {
        assert!(package.join(part).is_file(), "{part} is not in the package");
    }
    assert!(!package.join("bindings").exists());

    let readme = fs::read_to_string(package.join("README.md")).unwrap();
    let tiny = elsewhere.path().join("tiny");
    fs::create_dir_all(tiny.join("src")).unwrap();
    // Until the crate is published, the package takes the place of the registry's.
    let patch = format!("\n[patch.crates-io]\nccm-guest = {{ path = {package:?} }}\n");
    let manifest = [blocks(&readme, "toml")[0], &patch].concat();
    fs::write(tiny.join("Cargo.toml"), manifest).unwrap();
    fs::write(tiny.join("manifest.json"), blocks(&readme, "json")[0]).unwrap();
    let code = blocks(&readme, "rust,ignore");
    fs::write(tiny.join("src/lib.rs"), code[..2].concat()).unwrap();

    // Both commands below would write it.
    cargo(&tiny, &["generate-lockfile"]);
    std::thread::scope(|scope| {
        scope.spawn(|| cargo(&tiny, &["test"]));
        cargo(&tiny, &["build", "--release", "--target", "wasm32-wasip2"]);
    });
    let built = "package/wasm32-wasip2/release/tiny.wasm";
    let module = fs::read(Path::new(env!("CARGO_TARGET_TMPDIR")).join(built)).unwrap();
    let holds = |text: &[u8]| module.windows(text.len()).any(|part| part == text);
    for text in [
        "ccm:manifest{\"version\":\"0.1.0\",",
        "ccm:provider/instances@0.2.0",
    ] {
        assert!(holds(text.as_bytes()), "{text} is not in the module");
    }
}
