//! The provenance of a release: an in-toto statement with SLSA's predicate for provenance, version 1. It names the
//! inputs, and no time of a build, so that two builds state the same.

use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::{Release, SOURCE, sha256};

const STATEMENT: &str = "https://in-toto.io/Statement/v1";
const PREDICATE: &str = "https://slsa.dev/provenance/v1";
/// The form of the parameters below; `deploy/docs/images.md` describes it.
const BUILD_TYPE: &str = "https://wasm-ccm.dev/release/v1";
/// The builder, unless another one is given: the release script, on some machine.
const BUILDER: &str = "https://wasm-ccm.dev/deploy/release";

/// The predicate: SLSA's provenance of the release.
pub(crate) fn predicate(release: &Release) -> Result<Value> {
    let revision = &release.revision;
    let digest_of =
        |file: &str| Ok::<_, anyhow::Error>(sha256(&crate::read(&release.checkout.join(file))?));
    let rust = rust_version(&release.checkout)?;
    let targets: Vec<_> = release
        .binaries
        .iter()
        .map(|binary| binary.architecture.target())
        .collect();
    let modules = release.modules()?.iter();
    let providers: Vec<_> = modules.map(|module| &module.name).collect();
    let builder = std::env::var("BUILDER_ID").unwrap_or_else(|_| BUILDER.to_owned());
    Ok(json!({
        "buildDefinition": {
            "buildType": BUILD_TYPE,
            "externalParameters": {
                "version": release.version, "providers": providers, "targets": targets,
            },
            "internalParameters": {"SOURCE_DATE_EPOCH": release.created},
            "resolvedDependencies": [
                {"uri": format!("git+{SOURCE}@{revision}"), "digest": {"gitCommit": revision}},
                {"uri": format!("pkg:generic/rust@{rust}")},
                {"name": "Cargo.lock", "digest": {"sha256": digest_of("Cargo.lock")?}},
                {"name": "deploy/release/zig", "digest": {"sha256": digest_of("deploy/release/zig")?}},
            ],
        },
        "runDetails": {"builder": {"id": builder}},
    }))
}

/// The statement that these files and the image with this digest were made as `predicate` says.
pub(crate) fn statement(predicate: &Value, sums: &[(String, String)], image: &str) -> Value {
    let mut subjects: Vec<_> = sums
        .iter()
        .map(|(name, sum)| json!({"name": name, "digest": {"sha256": sum}}))
        .collect();
    let image = image.trim_start_matches("sha256:");
    subjects.push(json!({"name": "image", "digest": {"sha256": image}}));
    json!({
        "_type": STATEMENT,
        "subject": subjects,
        "predicateType": PREDICATE,
        "predicate": predicate,
    })
}

/// The Rust version that the checkout pins.
pub(crate) fn rust_version(checkout: &Path) -> Result<String> {
    let text = String::from_utf8(crate::read(&checkout.join("rust-toolchain.toml"))?)?;
    let mut lines = text.lines();
    let version = lines.find_map(|line| line.strip_prefix("channel = \"")?.strip_suffix('"'));
    Ok(version
        .context("rust-toolchain.toml has no channel")?
        .to_owned())
}
