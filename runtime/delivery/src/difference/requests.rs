//! Everything a module requests, in a serializable form, so that it can be compared with another module when its own
//! bytes are no longer available. Texts for people are left out.

use ccm_core::rollout::MOST_REQUESTS;
use ccm_host::egress::rules::Rule;
use ccm_host::manifest::Manifest;
use ccm_host::{CONTRACT_PACKAGE, Inspection};
use serde::Deserialize;
use serde_json::{Value, json};

/// The requests of a module. The default has none, for an unknown module: any request of another one is wider.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Requests {
    pub(super) manifest: Manifest,
    /// Imported interfaces without their versions.
    pub(super) imports: Vec<String>,
    /// Exported interfaces of the contract only, without versions: toolchains add unused ones of their own.
    pub(super) exports: Vec<String>,
}

impl Requests {
    /// The requests of a module.
    pub fn of(found: &Inspection) -> Requests {
        Requests {
            manifest: found.manifest.clone(),
            imports: interfaces(&found.imports, ""),
            exports: interfaces(&found.exports, &format!("{CONTRACT_PACKAGE}/")),
        }
    }

    /// Serializes for [`Requests::read`]. `None`: the text would exceed the length limit of a record.
    pub fn write(&self) -> Option<String> {
        let Manifest {
            contract,
            name,
            version,
            description: _,
            schemes,
            targets,
            annotation_prefixes,
            config,
            limits,
        } = &self.manifest;
        let targets = targets.iter().map(|target| {
            json!({
                "name": target.name,
                "endpoint": target.names_endpoint().then_some(target.endpoint.as_str()),
                "auth": target.auth,
                "required": target.required,
                "rules": target.rules.iter().map(rule).collect::<Vec<_>>(),
            })
        });
        let config = config.iter().filter(|key| key.required);
        let config = config.map(|key| json!({"key": key.key, "required": true}));
        let manifest = json!({
            "contract": contract,
            "name": name,
            "version": version,
            "schemes": schemes,
            "targets": targets.collect::<Vec<_>>(),
            "annotationPrefixes": annotation_prefixes,
            "config": config.collect::<Vec<_>>(),
            "limits": {"memoryMiB": limits.memory_mib, "callSeconds": limits.call_seconds},
        });
        let text = json!({
            "manifest": manifest,
            "imports": self.imports,
            "exports": self.exports,
        });
        Some(text.to_string()).filter(|text| text.len() <= MOST_REQUESTS)
    }

    /// Parses a serialized text; the default if there is none or it is invalid.
    pub fn read(text: Option<&str>) -> Requests {
        let read = text.and_then(|text| serde_json::from_str::<Written>(text).ok());
        let read = read.and_then(|written| {
            let manifest = written.manifest.to_string();
            Some(Requests {
                manifest: Manifest::parse(manifest.as_bytes()).ok()?,
                imports: written.imports,
                exports: written.exports,
            })
        });
        read.unwrap_or_default()
    }
}

#[derive(Deserialize)]
struct Written {
    manifest: Value,
    imports: Vec<String>,
    exports: Vec<String>,
}

/// Interfaces of one package without their versions: this host supports one version of each and links to the same
/// functions whichever version a module names.
fn interfaces(names: &[String], package: &str) -> Vec<String> {
    let bare = |name: &String| match name.split_once('@') {
        Some((bare, _)) => bare.to_owned(),
        None => name.clone(),
    };
    let mut found: Vec<String> = names
        .iter()
        .filter(|name| name.starts_with(package))
        .map(bare)
        .collect();
    found.sort();
    found.dedup();
    found
}

/// A rule with its proofs of absence, which the serialized form of a grant's rule leaves out.
fn rule(rule: &Rule) -> Value {
    let absence = rule.absence().iter();
    let absence = absence.map(|one| json!({"status": one.status, "contains": one.contains}));
    let absence: Vec<_> = absence.collect();
    let mut rule = json!(rule);
    if let (Some(rule), false) = (rule.as_object_mut(), absence.is_empty()) {
        rule.insert("absence".to_owned(), absence.into());
    }
    rule
}
