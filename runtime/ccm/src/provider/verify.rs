//! `ccm provider verify`: checks a module's signatures against the options or a configuration. Offline except for
//! fetching the module.

use std::sync::Arc;
use std::time::SystemTime;

use anyhow::{Context as _, bail};
use ccm_delivery::artifact::Artifact;
use ccm_delivery::source::Location;
use ccm_delivery::trust::{Identity, Keyless, MinimumVersion, Pin, PublicKey, Roots, TrustPolicy};
use serde_json::json;

use super::arguments::{Form, Verify};
use super::configured_providers::{self, Inputs};
use super::module_reference::ModuleReference;
use super::terminal::Screen;
use super::{Verdict, output};
use crate::provider_loading::read_text;

/// Verifies the current content.
pub(super) async fn verify(options: &Verify, screen: Screen) -> anyhow::Result<Verdict> {
    let (place, policy) = demanded(options)?;
    let artifact = place.bring(&options.access, screen).await?;
    let inspection = ccm_host::inspect(&place.to_string(), &artifact.wasm)?;
    let manifest = inspection.manifest;
    let version = manifest.version.clone();
    let bar = screen.busy("verifying");
    let pin = place.location().and_then(Location::pin);
    let judged = tokio::task::spawn_blocking(move || judge(&policy, artifact, pin, &version));
    let (artifact, provenance) = judged.await??;
    drop(bar);
    Ok(Verdict::yes(match options.printed.output {
        Form::Json => output::json(&json!({
            "file": place.to_string(),
            "ok": true,
            "name": manifest.name,
            "version": manifest.version,
            "digest": artifact.digest.to_string(),
            "manifestDigest": artifact.manifest_digest,
            "provenance": provenance,
        })),
        Form::Text => format!(
            "{place}: yes: {} {}, {}\n{provenance}\n",
            manifest.name, manifest.version, artifact.digest
        ),
    }))
}

/// Verifies on a blocking thread: hostile evidence can take a second.
fn judge(
    policy: &TrustPolicy,
    artifact: Artifact,
    location_pin: Option<Pin>,
    version: &str,
) -> anyhow::Result<(Artifact, String)> {
    let provenance = policy.verify(&artifact, location_pin.as_ref(), version, SystemTime::now())?;
    Ok((artifact, provenance.to_string()))
}

/// The module and the trust policy for it.
fn demanded(options: &Verify) -> anyhow::Result<(ModuleReference, TrustPolicy)> {
    if let Some(path) = &options.config {
        let configured = configured_providers::read_valid(path, Inputs::Here)?;
        let name = options.provider.as_deref();
        let entry = configured_providers::entry(configured, path, name, None)?;
        let place = match &options.place {
            Some(place) => place.clone(),
            None => ModuleReference::configured(&entry),
        };
        return Ok((place, entry.trust));
    }
    let Some(place) = options.place.clone() else {
        bail!("no module is named");
    };
    let policy = policy(options)?;
    if policy.digest.is_none() && policy.keys.is_empty() && policy.keyless.is_empty() {
        bail!(
            "no trusted signer is named: use --key, --certificate-identity, --digest or --config"
        );
    }
    Ok((place, policy))
}

/// The trust policy of the options.
fn policy(options: &Verify) -> anyhow::Result<TrustPolicy> {
    let digest = options.digest.as_deref().map(Pin::parse).transpose();
    let mut policy = TrustPolicy {
        digest: digest.context("--digest cannot be used")?,
        ..TrustPolicy::default()
    };
    for path in &options.key {
        let key = PublicKey::from_pem(&read_text(path)?);
        policy
            .keys
            .push(key.with_context(|| format!("{} cannot be used", path.display()))?);
    }
    let identity = match (
        &options.certificate_identity,
        &options.certificate_identity_regexp,
    ) {
        (Some(name), _) => Some(Identity::exact(name)),
        (None, Some(pattern)) => {
            let identity = Identity::pattern(pattern);
            Some(identity.context("--certificate-identity-regexp cannot be used")?)
        }
        (None, None) => None,
    };
    if let (Some(identity), Some(issuer), Some(root)) = (
        identity,
        &options.certificate_oidc_issuer,
        &options.trust_root,
    ) {
        let roots = Roots::from_trusted_root(&read_text(root)?)
            .with_context(|| format!("{} cannot be used", root.display()))?;
        let keyless = Keyless::new(identity, issuer.clone(), Arc::new(roots));
        policy.keyless.push(keyless);
    }
    let minimum = options.minimum_version.as_deref();
    let minimum = minimum.map(MinimumVersion::parse).transpose();
    policy.minimum_version = minimum.context("--minimum-version cannot be used")?;
    Ok(policy)
}
