//! Source and trust policy of a provider's module.

use std::sync::Arc;
use std::time::Duration;

use ccm_delivery::source::Location;
use ccm_delivery::source::oci::{Mirror, POLL, RegistryAccess, RegistryCredentials};
use ccm_delivery::trust::{Identity, Keyless, MinimumVersion, Pin, PublicKey, Roots, TrustPolicy};

use super::ConfigContext;
use super::grants::{authorities, ranges};
use super::proxy::registry_proxy;
use super::raw::{RawKeyless, RawPem, RawRegistry, RawTrust};

/// Shortest interval; shorter ones only burden the registry.
const SHORTEST_POLL: Duration = Duration::from_secs(5);

/// How to access a registry.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct RegistryConfig {
    /// `credentials`: the text of a docker configuration, as in Secrets of the type `kubernetes.io/dockerconfigjson`.
    pub credentials: Option<RegistryCredentials>,
    /// All other keys.
    pub access: RegistryAccess,
}

/// Interprets the entry; adds errors to `mistakes`.
pub(super) fn registry(
    place: &str,
    raw: RawRegistry,
    context: &ConfigContext<'_>,
    mistakes: &mut Vec<String>,
) -> RegistryConfig {
    let place = format!("{place}: registry");
    let credentials = raw.credentials.and_then(|source| {
        let text = source.text(context);
        text.and_then(|text| {
            RegistryCredentials::parse_docker_config(&text).map_err(|error| error.to_string())
        })
        .map_err(|mistake| mistakes.push(format!("{place}: credentials: {mistake}")))
        .ok()
    });
    let mut mirrors = Vec::new();
    for text in &raw.mirrors {
        match Mirror::parse(text) {
            Some(mirror) => mirrors.push(mirror),
            None => mistakes.push(format!(
                "{place}: mirror {text:?}: expected host[:port][/prefix]"
            )),
        }
    }
    let ca_pem = authorities(&place, raw.ca_file, raw.ca_pem, context, mistakes);
    let poll = match raw.poll_interval.as_deref().map(crate::flags::go_duration) {
        None => POLL,
        Some(Ok(poll)) if poll >= SHORTEST_POLL => poll,
        Some(Ok(poll)) => {
            mistakes.push(format!(
                "{place}: pollInterval {poll:?}: at least {SHORTEST_POLL:?}"
            ));
            POLL
        }
        Some(Err(error)) => {
            mistakes.push(format!("{place}: pollInterval: {error}"));
            POLL
        }
    };
    let access = RegistryAccess {
        ca_pem,
        mirrors,
        poll,
        addresses: ranges(&place, &raw.addresses, mistakes),
        proxy: registry_proxy(&place, raw.proxy, context, mistakes),
        plain_http: raw.plain_http,
    };
    RegistryConfig {
        credentials,
        access,
    }
}

/// Trust policy for modules from `location`; adds errors to `mistakes`.
pub(super) fn trust(
    place: &str,
    raw: RawTrust,
    location: Option<&Location>,
    context: &ConfigContext<'_>,
    mistakes: &mut Vec<String>,
) -> TrustPolicy {
    let place = format!("{place}: trust");
    let requires_signature =
        raw.digest.is_some() || !raw.keys.is_empty() || !raw.keyless.is_empty();
    if raw.unsigned && requires_signature {
        mistakes.push(format!(
            "{place}: unsigned accepts modules without a signature, and digest, keys or keyless require one: remove one of them"
        ));
    }
    let needs = location.is_some_and(Location::needs_trust);
    let is_pinned = location.and_then(Location::pin).is_some();
    if needs && !requires_signature && !raw.unsigned && !is_pinned {
        mistakes.push(format!(
            "{place}: modules from this source need a digest, keys or keyless; `unsigned: true` accepts any module"
        ));
    }
    // Writing the operator's files requires the operator's rights, and the operator chose the bytes that a digest
    // names.
    let allows_unsigned = !requires_signature && (raw.unsigned || !needs || is_pinned);
    let mut noted = |what: &str, error: String| mistakes.push(format!("{place}: {what}: {error}"));
    let digest = raw.digest.and_then(|text| {
        Pin::parse(&text)
            .map_err(|error| noted("digest", error.to_string()))
            .ok()
    });
    let mut keys = Vec::new();
    for pem in raw.keys {
        let read = |text: String| {
            PublicKey::from_pem(&text).map_err(|error| match &pem {
                RawPem::Pem(_) => error.to_string(),
                RawPem::File(path) => format!("{}: {error}", path.display()),
            })
        };
        let text = text(&pem, context);
        match text.and_then(|text| text.map(read).transpose()) {
            Ok(key) => keys.extend(key),
            Err(error) => noted("keys", error),
        }
    }
    let mut signers = Vec::new();
    for raw in raw.keyless {
        match keyless(&raw, context) {
            Ok(signer) => signers.extend(signer),
            Err(error) => noted("keyless", error),
        }
    }
    let minimum_version = raw.minimum_version.and_then(|text| {
        MinimumVersion::parse(&text)
            .map_err(|error| noted("minimumVersion", error.to_string()))
            .ok()
    });
    TrustPolicy {
        digest,
        keys,
        keyless: signers,
        minimum_version,
        allows_unsigned,
    }
}

/// One keyless signer; `None` if its files are missing, and that is no mistake. JSON in `roots` is a complete trusted
/// root.
fn keyless(raw: &RawKeyless, context: &ConfigContext<'_>) -> Result<Option<Keyless>, String> {
    let joined = |pems: &[RawPem]| -> Result<Option<String>, String> {
        let texts: Result<Option<Vec<String>>, String> =
            pems.iter().map(|pem| text(pem, context)).collect();
        Ok(texts?.map(|texts| texts.join("\n")))
    };
    let (roots, logs) = (text(&raw.roots, context)?, joined(&raw.logs)?);
    let (Some(roots), Some(logs), Some(time_stamps)) = (roots, logs, joined(&raw.time_stamps)?)
    else {
        return Ok(None);
    };
    let roots = if roots.trim_start().starts_with('{') {
        if !raw.logs.is_empty() || !raw.time_stamps.is_empty() {
            return Err(
                "a trusted root in JSON has its logs and time stamp authorities in it".to_owned(),
            );
        }
        Roots::from_trusted_root(&roots)
    } else {
        Roots::from_pem(&roots, &logs, &time_stamps)
    };
    let roots = roots.map_err(|error| error.to_string())?;
    Ok(Some(Keyless::new(
        Identity::exact(&raw.identity),
        raw.issuer.clone(),
        Arc::new(roots),
    )))
}

/// The text; `None` if its file is missing, and that is no mistake.
fn text(pem: &RawPem, context: &ConfigContext<'_>) -> Result<Option<String>, String> {
    match pem {
        RawPem::Pem(text) => Ok(Some(text.clone())),
        RawPem::File(path) => {
            let text = context.text_of(path);
            text.map_err(|error| format!("{}: {error}", path.display()))
        }
    }
}
