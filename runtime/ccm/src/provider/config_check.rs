//! `ccm config check`: reads a configuration as `run` would, without fetching anything or contacting a cluster, and
//! prints all mistakes or what it allows.

use std::fmt::Write as _;

use bytes::Bytes;
use ccm_delivery::source::Location;
use ccm_delivery::source::file::FileSource;
use ccm_delivery::trust::TrustPolicy;
use ccm_host::grant::{Grants, ProxyGrant, TargetGrant};
use ccm_host::{GuestConfig, Inspection, Loading, limits};
use serde_json::{Value, json};

use super::arguments::{ConfigCheck, Form};
use super::configured_providers::{self, Inputs, Read};
use super::{Verdict, cluster_name, output};
use crate::builtin_grants;
use crate::config::{self, Mistakes, ProviderConfig, ProxyChoice};
use crate::load_policy::{ConfiguredLoadPolicy, Remarks, needs_grants};
use crate::provider_loading::PROCESS;

/// The region that a metadata service is assumed to name.
const REGION: &str = "us-east-1";

/// Reads the configuration and reports the result.
pub(super) fn check(options: &ConfigCheck) -> anyhow::Result<Verdict> {
    let inputs = match options.require_inputs {
        true => Inputs::Here,
        false => Inputs::Elsewhere,
    };
    let Read {
        providers,
        mut absent,
        ignored,
    } = configured_providers::read(&options.file, options.cloud_provider.as_deref(), inputs)?;
    let read = providers.and_then(|providers| {
        config::together(&providers)?;
        let mut mistakes = Vec::new();
        for provider in &providers {
            match module(provider) {
                Module::Here(wasm) => mistakes.extend(of_module(provider, &wasm, inputs)),
                Module::Unusable(why) => mistakes.push(about(provider, &why)),
                Module::Absent(what) if inputs == Inputs::Here => {
                    mistakes.push(about(provider, &format!("there is no {what}")));
                }
                Module::Absent(what) => absent.push(format!("the {what}")),
                Module::Remote => {}
            }
        }
        Mistakes(mistakes).or(providers)
    });
    let file = options.file.display();
    let is_yes = read.is_ok();
    let text = match (options.printed.output, read) {
        (Form::Json, Ok(providers)) => output::json(&json!({
            "file": file.to_string(),
            "ok": true,
            "providers": providers.iter().map(as_json).collect::<Vec<_>>(),
            "assumed": absent,
            "ignored": ignored,
        })),
        (Form::Json, Err(Mistakes(mistakes))) => output::json(&json!({
            "file": file.to_string(),
            "ok": false,
            "mistakes": mistakes,
            "assumed": absent,
        })),
        (Form::Text, Ok(providers)) => {
            let described: String = providers.iter().map(describe).collect();
            let ignored = listed("without effect:", &ignored);
            let assumed = assumed(&absent);
            format!(
                "{file}: yes: {} provider(s)\n{described}{ignored}{assumed}",
                providers.len()
            )
        }
        (Form::Text, Err(Mistakes(mistakes))) => {
            let lines: String = mistakes
                .iter()
                .flat_map(|mistake| mistake.lines())
                .map(|line| format!("  {line}\n"))
                .collect();
            let assumed = assumed(&absent);
            format!(
                "{file}: no: {} mistake(s)\n{lines}{assumed}",
                mistakes.len()
            )
        }
    };
    Ok(Verdict { text, is_yes })
}

/// The assumptions about missing inputs, if there are any.
fn assumed(absent: &[String]) -> String {
    listed(
        "assumed to be where ccm runs, because this machine does not have it:",
        absent,
    )
}

/// The lines under a title, if there are any.
fn listed(title: &str, lines: &[String]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let lines: String = lines.iter().map(|line| format!("  {line}\n")).collect();
    format!("\n{title}\n{lines}")
}

/// The module of an entry, as far as it is on this machine.
enum Module {
    /// The module's bytes.
    Here(Bytes),
    /// There is a file or a name, but no usable module; with the reason.
    Unusable(String),
    /// The file does not exist here.
    Absent(String),
    /// The module would have to be fetched.
    Remote,
}

fn module(provider: &ProviderConfig) -> Module {
    match &provider.source {
        Location::Embedded(guest) => match builtin_grants::module(guest) {
            Some(wasm) => Module::Here(Bytes::from_static(wasm)),
            None => Module::Unusable(builtin_grants::not_embedded(guest)),
        },
        Location::File(place) if !place.path.exists() => {
            Module::Absent(format!("module {}", provider.source))
        }
        Location::File(place) => {
            let (source, name) = (provider.source.to_string(), provider.name.clone());
            let source = FileSource::new(source, place.clone(), name);
            let runtime = tokio::runtime::Builder::new_current_thread().build();
            match runtime.map(|runtime| runtime.block_on(source.now())) {
                Ok(Ok(artifact)) => Module::Here(artifact.wasm),
                Ok(Err(error)) => Module::Unusable(format!("{:#}", anyhow::Error::from(error))),
                Err(error) => Module::Unusable(error.to_string()),
            }
        }
        Location::ConfigMap(_) | Location::Oci(_) => Module::Remote,
    }
}

fn about(provider: &ProviderConfig, mistake: &str) -> String {
    format!("provider {:?}: {mistake}", provider.name)
}

/// Mistakes that `run` would find when it loads this module. Ignores what a shipped module reads from variables, unless
/// they have to be on this machine.
fn of_module(provider: &ProviderConfig, wasm: &[u8], inputs: Inputs) -> Vec<String> {
    let place = |mistake: String| about(provider, &mistake);
    let inspection = match ccm_host::inspect(&provider.source.to_string(), wasm) {
        Ok(inspection) => inspection,
        Err(error) => return vec![place(format!("{:#}", anyhow::Error::from(error)))],
    };
    let manifest = &inspection.manifest;
    let mut mistakes = Vec::new();
    let mut values = provider.values.clone();
    match &provider.grants {
        Some(grants) => {
            let missing = manifest.narrow(grants.clone()).err();
            mistakes.extend(missing.into_iter().flat_map(|missing| missing.lines));
        }
        None if inputs == Inputs::Here => match of_variables(provider, &inspection) {
            Ok((policy, missing)) => {
                values = policy.config.values;
                mistakes.extend(missing);
            }
            Err(mistake) => mistakes.push(mistake),
        },
        None if builtin_grants::recognise(&inspection.digest).is_none() => {
            mistakes.push(needs_grants(&provider.source));
        }
        None => {
            let required = manifest.config.iter().filter(|key| key.required);
            for key in required {
                values.entry(key.key.clone()).or_default();
            }
        }
    }
    let config = GuestConfig {
        values,
        ..GuestConfig::default()
    };
    mistakes.extend(config.mistakes(manifest));
    mistakes.into_iter().map(place).collect()
}

/// The load policy of a shipped module by this machine's variables and files, and what is missing of them. The machine's
/// metadata service is not asked, and is assumed to answer.
///
/// # Errors
/// The module is not a shipped one.
fn of_variables(
    provider: &ProviderConfig,
    inspection: &Inspection,
) -> Result<(Loading, Vec<String>), String> {
    let mut config = provider.clone();
    if builtin_grants::region_issuer(&config, &PROCESS).is_some() {
        config.region = Some(Ok(REGION.to_owned()));
    }
    let policy = ConfiguredLoadPolicy {
        config,
        cluster_name: cluster_name(),
        cluster_cidrs: Vec::new(),
        remarks: Remarks::default(),
    };
    policy.read(inspection)
}

fn describe(provider: &ProviderConfig) -> String {
    let mut text = format!("\n{}\n", provider.name);
    let mut row = |name: &str, value: &str| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {name:<14} {value}");
    };
    row("source", &provider.source.to_string());
    if let Some(route) = &provider.registry.access.proxy {
        row("", &format!("  {}", through(route)));
    }
    row("trust", &trust(&provider.trust));
    match &provider.grants {
        None => {
            row(
                "may",
                "the built-in grants of a shipped module, and nothing with any other module",
            );
            if let ProxyChoice::Through(route) = &provider.proxy {
                row("", &format!("  {}", through(route)));
            }
        }
        Some(grants) => grant_rows(grants, &mut row),
    }
    if let Some(selector) = &provider.nodes.selector {
        row("nodes", &selector.to_string());
    }
    let balancers = &provider.load_balancers;
    if !balancers.classes.is_empty() {
        let classes: Vec<_> = balancers.classes.iter().map(String::as_str).collect();
        row("classes", &classes.join(", "));
    }
    row(
        "Services",
        match balancers.is_default {
            Some(true) => "those without a class, too",
            Some(false) => "those of its classes alone",
            None => "those without a class, too, if it is the only provider",
        },
    );
    for key in provider.values.keys() {
        row("config", key);
    }
    for line in beyond_ceilings(provider) {
        row("warning", &line);
    }
    text
}

/// Reports limits above the ceilings, which no grant can raise.
fn beyond_ceilings(provider: &ProviderConfig) -> Vec<String> {
    let memory = (limits::MEMORY_CEILING_BYTES >> 20) as u64;
    let seconds = limits::CALL_CEILING.as_secs();
    let granted = provider.limits;
    [
        ("memoryMiB", granted.memory_mib, memory),
        ("callSeconds", granted.call_seconds, seconds),
    ]
    .into_iter()
    .filter_map(|(key, granted, most)| {
        let granted = granted.filter(|granted| u64::from(*granted) > most)?;
        Some(format!(
            "limits: {key} {granted} is granted, and {most} is the most that is given"
        ))
    })
    .collect()
}

fn grant_rows(grants: &Grants, row: &mut impl FnMut(&str, &str)) {
    if grants.targets.is_empty() {
        row("may", "send no request");
    }
    for target in &grants.targets {
        row("may", &title(target));
        for rule in &target.rules {
            row("", &format!("  {rule}"));
        }
        if !target.addresses.is_empty() {
            let addresses: Vec<_> = target.addresses.iter().map(ToString::to_string).collect();
            row(
                "",
                &format!("  at the addresses {}, too", addresses.join(", ")),
            );
        }
        if let Some(route) = target.route() {
            row("", &format!("  {}", through(route)));
        }
    }
    for prefix in &grants.annotation_prefixes {
        row("annotations", &format!("{prefix}…"));
    }
}

/// The proxy, and what it means for the rules about addresses.
fn through(route: &ProxyGrant) -> String {
    format!(
        "through the proxy {}, which resolves the name: it decides to which address the requests go",
        route.proxy
    )
}

fn title(target: &TargetGrant) -> String {
    format!(
        "target {}: {} (credential: {})",
        target.name,
        target.endpoint,
        target.credential.kind()
    )
}

/// The required signatures, in one line.
fn trust(policy: &TrustPolicy) -> String {
    let mut parts = Vec::new();
    if policy.digest.is_some() {
        parts.push("exactly one digest".to_owned());
    }
    if !policy.keys.is_empty() {
        parts.push(format!(
            "a signature by one of {} key(s)",
            policy.keys.len()
        ));
    }
    if !policy.keyless.is_empty() {
        parts.push(format!(
            "a signature by one of {} identity(ies)",
            policy.keyless.len()
        ));
    }
    if parts.is_empty() {
        parts.push(match policy.allows_unsigned {
            true => "no signature is required".to_owned(),
            // At least one signer is required, so their keys or roots are in files that are not on this machine.
            false => "signers whose files are not on this machine".to_owned(),
        });
    }
    if policy.minimum_version.is_some() {
        parts.push("nothing below a version".to_owned());
    }
    parts.join(", ")
}

fn as_json(provider: &ProviderConfig) -> Value {
    json!({
        "name": provider.name,
        "source": provider.source.to_string(),
        "trust": trust(&provider.trust),
        "grants": provider.grants.as_ref().map(|grants| json!({
            "targets": grants.targets.iter().map(|target| json!({
                "name": target.name,
                "endpoint": target.endpoint.as_str(),
                "credential": target.credential.kind(),
                "proxy": target.route().map(|route| route.proxy.to_string()),
                "addresses": target.addresses.iter().map(ToString::to_string).collect::<Vec<_>>(),
                "rules": target.rules,
            })).collect::<Vec<_>>(),
            "annotationPrefixes": grants.annotation_prefixes,
        })),
        "nodeSelector": provider.nodes.selector.as_ref().map(ToString::to_string),
        "loadBalancerClasses": provider.load_balancers.classes,
        "defaultLoadBalancer": provider.load_balancers.is_default,
        "config": provider.values.keys().collect::<Vec<_>>(),
        "warnings": beyond_ceilings(provider),
    })
}
