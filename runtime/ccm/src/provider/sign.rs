//! `ccm provider sign`: puts a signature beside a file, or into the registry.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use ccm_delivery::push;
use ccm_delivery::sign::{self, SigningKey};
use ccm_delivery::source::Location;
use serde_json::json;

use super::arguments::{Form, Sign};
use super::terminal::Screen;
use super::{Verdict, output, registry};
use crate::assemble::PROCESS;

/// Signs what is there now.
pub(super) async fn sign(options: &Sign, screen: Screen) -> anyhow::Result<Verdict> {
    let place = &options.module.place;
    let access = &options.module.access;
    let key = key(options)?;
    let artifact = place.bring(access, screen).await?;
    let inspection = ccm_host::inspect(&place.to_string(), &artifact.wasm)?;
    let (subject, signature) = match (place.location(), &artifact.manifest_digest) {
        (Some(Location::Oci(at)), Some(digest)) => {
            if options.to.is_some() {
                bail!(
                    "--to is for files: the signature of a registry's artifact is put into the registry"
                );
            }
            let attachment = sign::manifest(&key, digest)?;
            let settings = registry::settings(at, access)?;
            let bar = screen.busy("attaching the signature");
            push::attach(&settings, digest, &attachment).await?;
            drop(bar);
            (digest.clone(), place.to_string())
        }
        (location, _) => {
            let to = match (&options.to, location) {
                (Some(to), _) => to.clone(),
                (None, Some(Location::File(file))) => beside(&file.path),
                (None, _) => {
                    bail!("{place} has no file beside which the signature could be put: --to FILE")
                }
            };
            let bundle = sign::file(&key, &artifact.wasm)?;
            output::write(&to, &bundle)?;
            (artifact.digest.to_string(), to.display().to_string())
        }
    };
    Ok(Verdict::yes(match options.printed.output {
        Form::Json => output::json(&json!({
            "name": inspection.manifest.name,
            "version": inspection.manifest.version,
            "signed": subject,
            "signature": signature,
            "key": key.fingerprint(),
        })),
        Form::Text => format!(
            "{place}: {} {}, {subject}\nsigned by {}: {signature}\n",
            inspection.manifest.name,
            inspection.manifest.version,
            key.fingerprint()
        ),
    }))
}

fn key(options: &Sign) -> anyhow::Result<SigningKey> {
    let path = options.key.display();
    let pem = (PROCESS.file)(&options.key)
        .map_err(anyhow::Error::msg)
        .with_context(|| format!("cannot read {path}"))?;
    // An empty password is one, too: cosign seals with it when it is told to.
    let password = std::env::var_os("COSIGN_PASSWORD");
    let password = password
        .as_ref()
        .map(|password| password.as_encoded_bytes());
    SigningKey::from_pem(&pem, password).with_context(|| {
        format!("{path} cannot be used (its password is read from COSIGN_PASSWORD)")
    })
}

/// Where sources look for it.
fn beside(module: &std::path::Path) -> PathBuf {
    let mut name = module.as_os_str().to_owned();
    name.push(".sigstore.json");
    PathBuf::from(name)
}
