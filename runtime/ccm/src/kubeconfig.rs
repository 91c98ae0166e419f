//! Kubeconfig files, read as client-go reads them: a field that is empty is not set. kube takes an empty one for a value,
//! and an empty path for the folder of the file.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use serde_json::Value;

use crate::api_server_proxy::{cluster, named};

/// The files that kubectl reads without `--kubeconfig`: those of $KUBECONFIG, or else `~/.kube/config`. Whoever names files
/// means these: if none of them exists, the one in the home folder, perhaps of another cluster, does not take their place.
pub(crate) fn usual_files() -> Vec<PathBuf> {
    match std::env::var_os("KUBECONFIG").filter(|list| !list.is_empty()) {
        Some(list) => std::env::split_paths(&list)
            .filter(|file| !file.as_os_str().is_empty())
            .collect(),
        None => std::env::home_dir()
            .map(|home| home.join(".kube").join("config"))
            .into_iter()
            .collect(),
    }
}

/// Reads those of these files that exist as one kubeconfig: of each value, cluster, user and context, the first counts.
/// `None` if there is no file or if the files name no context at all: `KUBECONFIG=/dev/null` stands for none.
///
/// # Errors
/// A file exists and cannot be read, or is no kubeconfig.
pub(crate) fn read_existing(files: &[PathBuf]) -> anyhow::Result<Option<Kubeconfig>> {
    let mut merged = Kubeconfig::default();
    for file in files {
        // An error of the look-up is not an absence.
        if !matches!(file.try_exists(), Ok(false)) {
            merged = merged.merge(read_kubeconfig(file)?)?;
        }
    }
    let names_a_context = merged.current_context.is_some() || !merged.contexts.is_empty();
    Ok(names_a_context.then_some(merged))
}

/// The [`configuration`] of the kubeconfig in this file.
///
/// # Errors
/// The file cannot be read, is no kubeconfig, or has no usable context of this name.
pub(crate) async fn configuration_of(
    path: &Path,
    context: Option<&str>,
) -> anyhow::Result<(Config, Option<String>)> {
    configuration(read_kubeconfig(path)?, context)
        .await
        .with_context(|| format!("kubeconfig {} is not usable", path.display()))
}

/// The client configuration of a kubeconfig's `context`, or of its current one, and the proxy that it names.
///
/// # Errors
/// It has no usable context of this name.
pub(crate) async fn configuration(
    kubeconfig: Kubeconfig,
    context: Option<&str>,
) -> Result<(Config, Option<String>), KubeconfigError> {
    let proxy = named(&kubeconfig, context);
    // kube follows this file only if it is named here.
    let authority = cluster(&kubeconfig, context)
        .filter(|cluster| cluster.certificate_authority_data.is_none())
        .and_then(|cluster| cluster.certificate_authority.as_ref().map(PathBuf::from));
    let options = KubeConfigOptions {
        context: context.map(str::to_owned),
        ..KubeConfigOptions::default()
    };
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
    config.root_cert_file = authority;
    Ok((config, proxy))
}

/// Reads the kubeconfig in this file.
fn read_kubeconfig(path: &Path) -> anyhow::Result<Kubeconfig> {
    let unreadable = || format!("cannot read kubeconfig {}", path.display());
    let kubeconfig = Kubeconfig::read_from(path).with_context(unreadable)?;
    let folder = path.parent().map(|folder| folder.join(""));
    let folder = folder.as_deref().and_then(Path::to_str);
    // As JSON, its fields can be looked at without naming them all, and so can those that kube keeps secret.
    let mut written = serde_json::to_value(kubeconfig).with_context(unreadable)?;
    for (list, object) in [("clusters", "cluster"), ("users", "user")] {
        let entries = written.get_mut(list).and_then(Value::as_array_mut);
        let entries = entries.into_iter().flatten();
        let objects = entries.filter_map(|entry| entry.get_mut(object));
        for fields in objects.filter_map(Value::as_object_mut) {
            fields.retain(|key, value| {
                let text = value.as_str();
                let is_empty = text.is_some_and(|text| text.is_empty() || Some(text) == folder);
                // The password of a user may be empty; without a user's name it does not count.
                !is_empty || key == "password"
            });
        }
    }
    let mut kubeconfig: Kubeconfig = serde_json::from_value(written).with_context(unreadable)?;
    let context = kubeconfig.current_context.take();
    kubeconfig.current_context = context.filter(|name| !name.is_empty());
    Ok(kubeconfig)
}
