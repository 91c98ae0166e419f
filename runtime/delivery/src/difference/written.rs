//! All that a module requests, and how it is written down: so that it can be compared with another one when the module itself is
//! nowhere any more. What it says for people is left out.

use ccm_core::rollout::MOST_REQUESTS;
use ccm_host::manifest::{Manifest, WantedLimits};
use ccm_host::{CONTRACT_PACKAGE, Inspection};
use serde::Deserialize;
use serde_json::{Value, json};

/// What a module requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requests {
    pub(super) manifest: Manifest,
    /// Interfaces without their versions.
    pub(super) imports: Vec<String>,
    /// The same, of the contract alone: toolchains add some of their own, which nobody calls.
    pub(super) exports: Vec<String>,
}

impl Requests {
    /// Those of a module.
    pub fn of(found: &Inspection) -> Requests {
        Requests {
            manifest: found.manifest.clone(),
            imports: interfaces(&found.imports, ""),
            exports: interfaces(&found.exports, &format!("{CONTRACT_PACKAGE}/")),
        }
    }

    /// Those of a module of which nothing is known: whatever another one requests is more.
    pub fn unknown() -> Requests {
        let manifest = Manifest {
            contract: String::new(),
            name: String::new(),
            version: String::new(),
            description: String::new(),
            schemes: Vec::new(),
            targets: Vec::new(),
            annotation_prefixes: Vec::new(),
            config: Vec::new(),
            limits: WantedLimits::default(),
        };
        Requests {
            manifest,
            imports: Vec::new(),
            exports: Vec::new(),
        }
    }

    /// As a text, which [`Requests::read`] reads. `None`: it would be longer than anybody writes down.
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
                "endpoint": target.endpoint.as_str(),
                "auth": target.auth,
                "required": target.required,
                "rules": target.rules,
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
            "limits": {"memoryMib": limits.memory_mib, "callSeconds": limits.call_seconds},
        });
        let text = json!({
            "manifest": manifest,
            "imports": self.imports,
            "exports": self.exports,
        });
        Some(text.to_string()).filter(|text| text.len() <= MOST_REQUESTS)
    }

    /// What was written down; of what was not, nothing is known.
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
        read.unwrap_or_else(Requests::unknown)
    }
}

#[derive(Deserialize)]
struct Written {
    manifest: Value,
    imports: Vec<String>,
    exports: Vec<String>,
}

/// Interfaces of one package without their versions: this host speaks one version of each, and links to the same
/// functions whichever a module names.
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
