//! Renders a module as a ConfigMap, in the forms that a `configmap://` source reads.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::bail;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ccm_delivery::source::{ConfigMapKey, Location};
use ccm_host::Digest;
use serde_json::{Value, json};

use super::arguments::Form;
use super::output;

/// Limit of the API server for one object's `data` and `binaryData`, in bytes before base64.
const MOST_BYTES: usize = 1 << 20;
/// Default key, without the extension of the compression.
const KEY: &str = "provider.wasm";
/// Maximum number of keys for one module.
const MOST_PIECES: usize = 100;

/// A ConfigMap and one of its keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfigMapTarget {
    place: ConfigMapKey,
    has_key: bool,
}

impl ConfigMapTarget {
    /// Parses `namespace/name` or `namespace/name/key`.
    ///
    /// # Errors
    /// The text has neither form.
    pub(crate) fn parse(text: &str) -> Result<ConfigMapTarget, String> {
        let expected = || "expected NAMESPACE/NAME or NAMESPACE/NAME/KEY".to_owned();
        let has_key = match text.matches('/').count() {
            1 => false,
            2 => true,
            _ => return Err(expected()),
        };
        let whole = if has_key {
            format!("configmap://{text}")
        } else {
            format!("configmap://{text}/{KEY}")
        };
        match Location::parse(&whole) {
            Ok(Location::ConfigMap(place)) => Ok(ConfigMapTarget { place, has_key }),
            Ok(_) => Err(expected()),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// The properties of the object, without the module.
pub(super) struct Shape<'a> {
    /// Namespace, name and key of the ConfigMap.
    pub target: &'a ConfigMapTarget,
    /// Extension appended to the default key.
    pub extension: &'a str,
    /// Whether the ConfigMap is immutable.
    pub is_immutable: bool,
    /// Maximum bytes under one key. `None`: one key.
    pub piece: Option<usize>,
    /// A Sigstore bundle with the module's signature.
    pub bundle: Option<&'a str>,
}

/// The object as text: YAML, or JSON for programs.
///
/// # Errors
/// The API server would refuse it, or no source could read it.
pub(super) fn object(shape: &Shape<'_>, packed: &[u8], form: Form) -> anyhow::Result<String> {
    let ConfigMapTarget { place, has_key } = shape.target;
    let key = match has_key {
        true => place.key.clone(),
        false => format!("{}{}", place.key, shape.extension),
    };
    let mut texts = BTreeMap::new();
    let mut pieces = BTreeMap::new();
    match shape.piece {
        None => {
            pieces.insert(key.clone(), packed);
        }
        Some(piece) => {
            for (number, piece) in packed.chunks(piece.max(1)).enumerate() {
                pieces.insert(format!("{key}.{number:02}"), piece);
            }
            texts.insert(format!("{key}.sha256"), Digest::of(packed).hex());
        }
    }
    if pieces.len() > MOST_PIECES {
        bail!(
            "it would be split over {} keys, at most {MOST_PIECES}",
            pieces.len()
        );
    }
    if let Some(bundle) = shape.bundle {
        texts.insert(format!("{key}.sigstore.json"), bundle.to_owned());
    }
    let bytes = packed.len() + texts.values().map(String::len).sum::<usize>();
    if bytes > MOST_BYTES {
        bail!(
            "it has {bytes} bytes, and a ConfigMap at most {MOST_BYTES}: compress it (--compress gzip), or put it into a registry (wkg oci push)"
        );
    }
    let encoded = |piece: &[u8]| STANDARD.encode(piece);
    Ok(match form {
        Form::Json => {
            let mut object = json!({
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": { "namespace": place.namespace, "name": place.name },
                "binaryData": pieces.iter().map(|(key, piece)| (key, encoded(piece))).collect::<BTreeMap<_, _>>(),
            });
            if shape.is_immutable {
                object["immutable"] = Value::Bool(true);
            }
            if !texts.is_empty() {
                object["data"] = json!(texts);
            }
            output::json(&object)
        }
        Form::Text => {
            // JSON strings are valid YAML with the same meaning.
            let quoted = |text: &str| Value::from(text).to_string();
            let mut text = format!(
                "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  namespace: {}\n  name: {}\n",
                quoted(&place.namespace),
                quoted(&place.name)
            );
            if shape.is_immutable {
                text.push_str("immutable: true\n");
            }
            // Writing to a String cannot fail.
            if !texts.is_empty() {
                text.push_str("data:\n");
            }
            for (key, value) in &texts {
                let _ = writeln!(text, "  {}: {}", quoted(key), quoted(value));
            }
            text.push_str("binaryData:\n");
            for (key, piece) in &pieces {
                let _ = writeln!(text, "  {}: {}", quoted(key), encoded(piece));
            }
            text
        }
    })
}
