//! `ccm provider pull`, and registry access for all commands.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};
use ccm_delivery::artifact::Artifact;
use ccm_delivery::source::oci::{
    self, DownloadProgress, OciSettings, RegistryAccess, RegistryCredentials,
};
use ccm_delivery::source::{Location, OciPlace};
use ccm_host::egress::address_policy::is_loopback_host;
use ccm_host::grant::ProxyGrant;
use indicatif::ProgressBar;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use super::arguments::{Form, Pull, RegistryArguments};
use super::module_reference::ModuleReference;
use super::terminal::Screen;
use super::{Verdict, output};
use crate::cli;
use crate::config::{self, ProxyChoice};
use crate::provider_loading::{PROCESS, read_text};

/// Disables polling.
const NEVER: Duration = Duration::MAX;

/// Downloads a module from a registry to a file.
pub(super) async fn receive(options: &Pull, screen: Screen) -> anyhow::Result<Verdict> {
    let artifact = pull(reference(&options.from)?, &options.access, screen).await?;
    if options.to.as_os_str() == "-" {
        cli::write(&artifact.wasm)?;
        return Ok(Verdict::yes(String::new()));
    }
    output::write(&options.to, &artifact.wasm)?;
    let file = options.to.display();
    Ok(Verdict::yes(match options.printed.output {
        Form::Json => output::json(&json!({
            "file": file.to_string(),
            "origin": artifact.origin,
            "manifestDigest": artifact.manifest_digest,
            "digest": artifact.digest.to_string(),
            "size": artifact.wasm.len(),
        })),
        Form::Text => format!(
            "{file}: {} bytes\ndigest {}\nfrom {}\n",
            artifact.wasm.len(),
            artifact.digest,
            artifact.origin
        ),
    }))
}

/// Fetches the artifact at `at`.
pub(super) async fn pull(
    at: &OciPlace,
    access: &RegistryArguments,
    screen: Screen,
) -> anyhow::Result<Artifact> {
    let settings = settings(at, access)?;
    let bar = screen.bytes("pulling", 0);
    Ok(oci::pull(&settings, &|progress| show(&bar, progress)).await?)
}

fn show(bar: &ProgressBar, progress: DownloadProgress) {
    if progress.total > 0 {
        bar.set_length(progress.total);
    }
    bar.set_position(progress.done);
}

fn reference(place: &ModuleReference) -> anyhow::Result<&OciPlace> {
    match place.location() {
        Some(Location::Oci(at)) => Ok(at),
        _ => bail!("{place} is not a registry's reference: oci://REGISTRY/REPOSITORY:TAG"),
    }
}

/// Registry settings for `at`.
fn settings(at: &OciPlace, access: &RegistryArguments) -> anyhow::Result<OciSettings> {
    if access.plain_http && !is_loopback_host(&at.registry) {
        bail!(
            "--plain-http is for registries on this machine's loopback, not for {}",
            at.registry
        );
    }
    let ca_pem = authorities(access)?;
    // The credentials never change, so the sender is dropped.
    let (_, credentials) = watch::channel(credentials(access)?);
    Ok(OciSettings {
        place: at.clone(),
        credentials,
        access: RegistryAccess {
            ca_pem,
            mirrors: Vec::new(),
            poll: NEVER,
            // A registry named on the command line is allowed at any address except the cloud's metadata addresses.
            addresses: vec![
                IpNet::from(Ipv4Net::default()),
                IpNet::from(Ipv6Net::default()),
            ],
            proxy: proxy(access)?,
            plain_http: access.plain_http,
        },
    })
}

/// The `registry` of an object whose manager reaches `at` as these options do; `login` refers to the credentials, if
/// there are some for it. Null: the defaults suffice.
///
/// # Errors
/// A file of the options cannot be read.
pub(super) fn of_object(
    at: &OciPlace,
    access: &RegistryArguments,
    login: Value,
) -> anyhow::Result<Value> {
    let mut registry = Map::new();
    let credentials = credentials(access)?;
    if credentials.is_some_and(|one| one.has_login(&at.registry, &at.repository)) {
        registry.insert("credentials".to_owned(), login);
    }
    if let Some(pem) = authorities(access)? {
        registry.insert("caPem".to_owned(), json!(pem));
    }
    if access.plain_http {
        registry.insert("plainHttp".to_owned(), json!(true));
    }
    Ok(match registry.is_empty() {
        true => Value::Null,
        false => Value::Object(registry),
    })
}

/// The certificates of `--ca-file`.
fn authorities(access: &RegistryArguments) -> anyhow::Result<Option<String>> {
    let Some(path) = &access.ca_file else {
        return Ok(None);
    };
    let pem = config::certificates(read_text(path)?).map_err(anyhow::Error::msg);
    let pem = pem.with_context(|| format!("--ca-file {} is not usable", path.display()))?;
    Ok(Some(pem))
}

/// The proxy of the environment, if the options ask for it.
fn proxy(access: &RegistryArguments) -> anyhow::Result<Option<ProxyGrant>> {
    if !access.proxy_from_environment {
        return Ok(None);
    }
    let choice = ProxyChoice::environment(&PROCESS).map_err(anyhow::Error::msg)?;
    Ok(choice.grant())
}

/// Credentials from docker's configuration, if it exists.
fn credentials(access: &RegistryArguments) -> anyhow::Result<Option<RegistryCredentials>> {
    let path = match (&access.registry_config, docker_config()) {
        (Some(path), _) => path.clone(),
        (None, Some(path)) if path.exists() => path,
        (None, _) => return Ok(None),
    };
    let read = RegistryCredentials::parse_docker_config(&read_text(&path)?);
    read.map(Some)
        .with_context(|| format!("{} is not a docker configuration", path.display()))
}

/// Path of docker's configuration.
fn docker_config() -> Option<PathBuf> {
    let folder = match (PROCESS.variable)("DOCKER_CONFIG") {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from((PROCESS.variable)("HOME")?).join(".docker"),
    };
    Some(folder.join("config.json"))
}
