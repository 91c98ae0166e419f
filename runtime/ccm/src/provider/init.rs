//! `ccm provider init`: writes the object `Provider` that runs a module, with the module's requests as grants. Neither
//! runs nor compiles the module, and reads no Secret.

use std::fmt::Write as _;

use ccm_core::name_syntax::is_dns_label;
use ccm_core::well_known::PROVIDER_KIND;
use ccm_delivery::source::Location;
use ccm_host::Inspection;
use ccm_host::manifest::{Manifest, Target};
use serde_json::{Map, Value, json};

use super::arguments::Init;
use super::grants_form::{grants, targets, with_hints};
use super::terminal::Screen;
use super::{Verdict, registry};
use crate::{builtin_grants, config};

/// Reads a module and writes its object.
pub(super) async fn init(options: &Init, screen: Screen) -> anyhow::Result<Verdict> {
    let place = &options.module.place;
    let artifact = place.bring(&options.module.access, screen).await?;
    let found = ccm_host::inspect(&place.to_string(), &artifact.wasm)?;
    let name = options.name.as_ref().unwrap_or(&found.manifest.name);
    anyhow::ensure!(
        is_dns_label(name),
        "{name:?} cannot be the name of an object: --name says another one"
    );
    let object = Object {
        name,
        source: place.location(),
        registry: match place.location() {
            Some(Location::Oci(at)) => {
                let login = json!({ "secret": {
                    "namespace": options.secret_namespace, "name": name, "key": ".dockerconfigjson",
                }});
                registry::of_object(at, &options.module.access, login)?
            }
            _ => Value::Null,
        },
        secret_namespace: &options.secret_namespace,
        found: &found,
    };
    Ok(Verdict::yes(object.text()?))
}

struct Object<'a> {
    name: &'a str,
    source: Option<&'a Location>,
    /// The `registry` settings of the source; null: the defaults.
    registry: Value,
    secret_namespace: &'a str,
    found: &'a Inspection,
}

impl Object<'_> {
    fn text(&self) -> anyhow::Result<String> {
        let manifest = &self.found.manifest;
        let mut text = format!(
            "# {} {}: {}\n# What it asks for is granted below: read it. Every line is needed: without one of them the module is not loaded.\napiVersion: {}\nkind: {PROVIDER_KIND}\nmetadata:\n  name: {}\nspec:\n",
            manifest.name,
            manifest.version,
            one_line(&manifest.description),
            config::API_VERSION,
            self.name
        );
        self.origin(&mut text)?;
        let secret = |target: &Target, shared: Option<&str>| {
            let known = builtin_grants::secret_key(&manifest.name, &target.name);
            let key = shared.or(known).unwrap_or(&target.name);
            json!({ "secret": {
                "namespace": self.secret_namespace, "name": self.name, "key": key,
            }})
        };
        let grants = json!({ "grants": grants(manifest, &secret) });
        write(&mut text, "  ", &grants)?;
        let optional = targets(manifest, false, &secret);
        if !optional.is_empty() {
            text.push_str("  # Optional targets, to be moved into the list above:\n");
            write(&mut text, "  #   ", &json!(optional))?;
        }
        text.push_str(&config_keys(manifest));
        Ok(with_hints(&text))
    }

    /// Adds the source of the module, and the trust policy for it.
    fn origin(&self, text: &mut String) -> anyhow::Result<()> {
        let digest = self.found.digest.to_string();
        let mut spec = Map::new();
        match self.source {
            Some(Location::Embedded(name)) => {
                spec.insert("source".to_owned(), json!(format!("embedded:{name}")));
                return write(text, "  ", &Value::Object(spec));
            }
            Some(location @ (Location::Oci(_) | Location::ConfigMap(_))) => {
                spec.insert("source".to_owned(), json!(location.to_string()));
                if !self.registry.is_null() {
                    spec.insert("registry".to_owned(), self.registry.clone());
                }
            }
            Some(Location::File(_)) | None => {
                text.push_str("  # The manager reads it there, on its own machine: a registry or a ConfigMap is an alternative.\n");
                spec.insert("source".to_owned(), json!("file:///path/to/provider.wasm"));
            }
        }
        write(text, "  ", &Value::Object(spec))?;
        text.push_str(
            "  # Exactly these bytes. `keys` and `keyless` let later versions in, too.\n",
        );
        write(text, "  ", &json!({ "trust": { "digest": digest } }))
    }
}

/// The module's configuration keys below an entry or a spec, without values; optional ones as comments.
pub(super) fn config_keys(manifest: &Manifest) -> String {
    let keys = &manifest.config;
    let mut text = String::new();
    if keys.is_empty() {
        return text;
    }
    let is_needed = keys.iter().any(|key| key.required);
    text.push_str(if is_needed {
        "  config:\n"
    } else {
        "  # config:\n"
    });
    for key in keys {
        let mark = if key.required { "" } else { "# " };
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "  {mark}  {}: \"\" # {}",
            one_line(&key.key),
            one_line(&key.why)
        );
    }
    text
}

/// Appends a value as YAML, each line after `indent`.
fn write(text: &mut String, indent: &str, value: &Value) -> anyhow::Result<()> {
    for line in serde_saphyr::to_string(value)?.lines() {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{indent}{line}");
    }
    Ok(())
}

/// A text by the module's author, as part of a comment.
fn one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    /// The keys of the Secrets in the object of an embedded module, in its order, with those of optional targets.
    fn keys(guest: &str, module: &str) -> Vec<String> {
        let wasm = builtin_grants::module(guest).unwrap();
        let mut found = ccm_host::inspect(guest, wasm).unwrap();
        found.manifest.name = module.to_owned();
        let object = Object {
            name: module,
            source: None,
            registry: Value::Null,
            secret_namespace: "kube-system",
            found: &found,
        };
        let text = object.text().unwrap();
        let lines = text.lines();
        let lines = lines.map(|line| line.trim_start_matches(['#', ' ']));
        let keys = lines.filter_map(|line| line.strip_prefix("key: "));
        keys.map(str::to_owned).collect()
    }

    #[test]
    fn the_keys_of_a_shipped_module_are_those_of_the_secret_in_its_manifests() {
        let aws = [
            "aws-access-key-id",
            "aws-secret-access-key",
            "aws-access-key-id",
            "aws-secret-access-key",
        ];
        for (guest, module, expected) in [
            ("hcloud", "hcloud", &["token", "robot-password"][..]),
            ("digitalocean", "digitalocean", &["access-token"]),
            ("proxmox", "proxmox", &["token", "token"]),
            ("aws", "aws", &aws),
            ("static", "static", &[]),
            // Of any other module, they are the names of the targets.
            ("hcloud", "nimbus", &["api", "robot"]),
        ] {
            assert_eq!(keys(guest, module), expected, "{module}");
        }
    }
}
