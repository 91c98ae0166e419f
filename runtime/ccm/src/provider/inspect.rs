//! `ccm provider inspect`: shows what a module is and requests. Neither runs nor compiles it.

use std::fmt::Write as _;

use ccm_core::cloud::Capabilities;
use ccm_host::egress::rules::Absence;
use ccm_host::manifest::Target;
use ccm_host::{Inspection, LimitsGranted};
use serde::Serialize;
use serde_json::{Value, json};

use super::arguments::{Inspect, InspectForm};
use super::grants_form::{GrantsEntry, grants, targets, with_hints};
use super::init::config_keys;
use super::terminal::Screen;
use super::{Verdict, output};

/// Reads and describes a module.
pub(super) async fn inspect(options: &Inspect, screen: Screen) -> anyhow::Result<Verdict> {
    let place = &options.module.place;
    let artifact = place.bring(&options.module.access, screen).await?;
    let found = ccm_host::inspect(&place.to_string(), &artifact.wasm)?;
    Ok(Verdict::yes(match options.output {
        InspectForm::Text => describe(&found, artifact.manifest_digest.as_deref()),
        InspectForm::Json => output::json(&as_json(&found, artifact.manifest_digest.as_deref())),
        InspectForm::Grants => as_grants(&found)?,
    }))
}

/// The interfaces that the module exports, as the contract names them.
pub(super) fn capabilities(found: &Inspection) -> Vec<&'static str> {
    interfaces(found.capabilities, found.self_check)
}

/// The names of interfaces.
pub(super) fn interfaces(of_clouds: Capabilities, self_check: bool) -> Vec<&'static str> {
    let all = [
        ("instances", of_clouds.instances),
        ("load-balancer", of_clouds.load_balancer),
        ("routes", of_clouds.routes),
        ("self-check", self_check),
    ];
    all.into_iter()
        .filter(|(_, has)| *has)
        .map(|(name, _)| name)
        .collect()
}

fn describe(found: &Inspection, in_registry: Option<&str>) -> String {
    let manifest = &found.manifest;
    let mut text = String::new();
    let mut row = |name: &str, value: &str| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{name:<13} {value}");
    };
    row("name", &format!("{} {}", manifest.name, manifest.version));
    row("description", &manifest.description);
    row("digest", &found.digest.to_string());
    if let Some(manifest) = in_registry {
        row("", &format!("in the registry its manifest has {manifest}"));
    }
    row("size", &format!("{} bytes", found.size));
    row("contract", &format!("ccm:provider@{}", manifest.contract));
    row("capabilities", &capabilities(found).join(", "));
    row(
        "provider IDs",
        &manifest
            .schemes
            .iter()
            .map(|scheme| format!("{scheme}://…"))
            .collect::<Vec<_>>()
            .join(", "),
    );
    if manifest.targets.is_empty() {
        row("requests", "no network");
    }
    for target in &manifest.targets {
        row(
            "requests",
            &format!(
                "target {}: {} ({}credential: {}) – {}",
                target.name,
                match target.names_endpoint() {
                    true => target.endpoint.as_str(),
                    false => "where its grant says",
                },
                if target.required { "" } else { "optional, " },
                target.auth,
                target.why
            ),
        );
        for rule in &target.rules {
            row("", &format!("  {rule}"));
            for Absence { status, contains } in rule.absence() {
                row(
                    "",
                    &format!("    {status} with {contains:?} says that it is not there"),
                );
            }
        }
    }
    for prefix in &manifest.annotation_prefixes {
        row("annotations", &format!("{prefix}…"));
    }
    for key in &manifest.config {
        let need = if key.required { "required" } else { "optional" };
        row("config", &format!("{} ({need}) – {}", key.key, key.why));
    }
    let call = LimitsGranted::default().call(manifest);
    row(
        "limits",
        &format!(
            "a call gets {} MiB of memory and {} s, unless the configuration grants others; the host holds at most {} MiB for it besides",
            call.memory_mib, call.call_seconds, call.held_mib
        ),
    );
    for import in &found.imports {
        row("imports", import);
    }
    text
}

fn as_json(found: &Inspection, in_registry: Option<&str>) -> Value {
    let manifest = &found.manifest;
    json!({
        "name": manifest.name,
        "version": manifest.version,
        "description": manifest.description,
        "digest": found.digest.to_string(),
        "manifestDigest": in_registry,
        "size": found.size,
        "contract": manifest.contract,
        "capabilities": capabilities(found),
        "schemes": manifest.schemes,
        "targets": manifest.targets.iter().map(|target| json!({
            "name": target.name,
            "endpoint": target.names_endpoint().then_some(target.endpoint.as_str()),
            "auth": target.auth,
            "why": target.why,
            "required": target.required,
            "rules": target.rules,
        })).collect::<Vec<_>>(),
        "annotationPrefixes": manifest.annotation_prefixes,
        "config": manifest.config.iter().map(|key| json!({
            "key": key.key, "required": key.required, "why": key.why,
        })).collect::<Vec<_>>(),
        "limits": LimitsGranted::default().call(manifest),
        "imports": found.imports,
        "exports": found.exports,
    })
}

/// The comment above the digest in a configuration that `inspect` prints.
const ONE_VERSION: &str = "    # Exactly these bytes: another version is refused until its digest stands here. To have all versions that you
    # sign instead, put this in its place:
    #   keys: [{ file: /etc/ccm/provider.pub }]
    # While you write the module, put this in its place, so that each build that you rename over the file takes over:
    #   unsigned: true
";

/// A configuration that grants all requests of the module, to be read, completed and used with `--config`. Optional
/// targets and keys are commented out.
fn as_grants(found: &Inspection) -> anyhow::Result<String> {
    let manifest = &found.manifest;
    let document = Document {
        api_version: crate::config::API_VERSION,
        kind: crate::config::KIND,
        providers: [ProviderEntry {
            name: &manifest.name,
            source: "file:///path/to/provider.wasm",
            trust: TrustEntry {
                digest: found.digest.to_string(),
            },
            grants: grants(manifest, &variable),
        }],
    };
    let mut text = serde_saphyr::to_string(&document)?;
    // Of a file, only a digest can be trusted, and it covers no later version.
    if let Some(at) = text.find("    digest: ") {
        text.insert_str(at, ONE_VERSION);
    }
    let optional = targets(manifest, false, &variable);
    if !optional.is_empty() {
        text.push_str("# Optional targets, to be moved into the list above:\n");
        for line in serde_saphyr::to_string(&optional)?.lines() {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "#     {line}");
        }
    }
    text.push_str(&config_keys(manifest));
    Ok(with_hints(&text))
}

/// The reference to a secret in a variable of the environment.
fn variable(target: &Target, shared: Option<&str>) -> Value {
    let own = format!("{}-secret", target.name);
    let name = shared.unwrap_or(&own).to_uppercase().replace('-', "_");
    json!({ "env": name })
}

// The form that `config.rs` reads, ordered for human readers.

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    api_version: &'a str,
    kind: &'a str,
    providers: [ProviderEntry<'a>; 1],
}

#[derive(Serialize)]
struct ProviderEntry<'a> {
    name: &'a str,
    source: &'a str,
    trust: TrustEntry,
    grants: GrantsEntry<'a>,
}

#[derive(Serialize)]
struct TrustEntry {
    digest: String,
}
