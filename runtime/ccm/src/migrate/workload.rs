//! Reads a workload of the cluster: the arguments, variables and mounted files of the container that runs the Go
//! manager. Secrets and ConfigMaps are read only where it refers to them, with the caller's rights, and never printed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{ConfigMap, EnvVarSource, KeyToPath, Secret};
use kube::api::{ApiResource, DynamicObject};
use kube::{Api, Client};
use zeroize::Zeroizing;

use super::pod_template::{self, Container, PodSpec, Volume};

use crate::provider_loading::WorkloadSurroundings;

/// The argument that identifies the container of a manager.
const TELLING: &str = "--cloud-provider";

/// A workload's kind, namespace and name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WorkloadName {
    kind: Kind,
    namespace: String,
    name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    DaemonSet,
    Deployment,
}

impl WorkloadName {
    /// Parses `KIND/NAMESPACE/NAME`.
    pub(crate) fn parse(text: &str) -> Result<WorkloadName, String> {
        let parts: Vec<&str> = text.split('/').collect();
        let kind = match parts.first() {
            Some(&("daemonset" | "daemonsets" | "ds")) => Kind::DaemonSet,
            Some(&("deployment" | "deployments" | "deploy")) => Kind::Deployment,
            _ => return Err("expected daemonset/… or deployment/…".to_owned()),
        };
        match parts.as_slice() {
            [_, namespace, name] if !namespace.is_empty() && !name.is_empty() => Ok(WorkloadName {
                kind,
                namespace: (*namespace).to_owned(),
                name: (*name).to_owned(),
            }),
            _ => Err("expected KIND/NAMESPACE/NAME".to_owned()),
        }
    }
}

/// The arguments, variables and files of the manager's container.
pub(super) struct Workload {
    /// Command and arguments of the container.
    pub(super) arguments: Vec<String>,
    pub(super) context: WorkloadSurroundings,
}

/// Reads the workload.
///
/// # Errors
/// It does not exist, may not be read, or refers to something that is not there.
pub(super) async fn read(
    client: &Client,
    wanted: &WorkloadName,
    container: Option<&str>,
) -> anyhow::Result<Workload> {
    let WorkloadName {
        kind,
        namespace,
        name,
    } = wanted;
    let resource = match kind {
        Kind::DaemonSet => ApiResource::erase::<DaemonSet>(&()),
        Kind::Deployment => ApiResource::erase::<Deployment>(&()),
    };
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    let label = || format!("{kind:?} {namespace}/{name}");
    let found = api.get(name).await.with_context(label)?;
    let pod = pod_template::of(&found).with_context(label)?;
    let container = pick(&pod, container)?;
    let mut sources = Sources {
        client,
        namespace,
        read: BTreeMap::new(),
    };
    let variables = variables(&mut sources, container).await?;
    let words = container.command.iter().chain(&container.args).flatten();
    Ok(Workload {
        arguments: words.map(|word| expanded(word, &variables)).collect(),
        context: WorkloadSurroundings {
            files: files(&mut sources, &pod, container).await?,
            variables,
        },
    })
}

fn pick<'a>(pod: &'a PodSpec, name: Option<&str>) -> anyhow::Result<&'a Container> {
    let all = &pod.containers;
    let is_it = |one: &&Container| match name {
        Some(name) => one.name == name,
        None => {
            let mut words = one.command.iter().chain(&one.args).flatten();
            all.len() == 1 || words.any(|word| word.starts_with(TELLING))
        }
    };
    all.iter().find(is_it).ok_or_else(|| {
        let names: Vec<_> = all.iter().map(|one| one.name.as_str()).collect();
        anyhow!(
            "which container is meant? --container is one of {}",
            names.join(", ")
        )
    })
}

/// Content of a Secret or ConfigMap, by key.
type Data = BTreeMap<String, Zeroizing<String>>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    Secret,
    ConfigMap,
}

/// The Secrets and ConfigMaps of the workload's namespace, each read once.
struct Sources<'a> {
    client: &'a Client,
    namespace: &'a str,
    read: BTreeMap<(Source, String), Data>,
}

impl Sources<'_> {
    /// Reads one of them; an optional one that is missing is empty.
    async fn get(
        &mut self,
        source: Source,
        name: &str,
        is_optional: bool,
    ) -> anyhow::Result<&Data> {
        let key = (source, name.to_owned());
        if !self.read.contains_key(&key) {
            let data = self.fetch(source, name).await;
            let data = data.with_context(|| format!("{source:?} {}/{name}", self.namespace))?;
            let data = match data {
                Some(data) => data,
                None if is_optional => Data::new(),
                None => bail!("there is no {source:?} {}/{name}", self.namespace),
            };
            self.read.insert(key.clone(), data);
        }
        self.read
            .get(&key)
            .ok_or_else(|| anyhow!("{source:?} {name} was not kept; this is a defect"))
    }

    async fn fetch(&self, source: Source, name: &str) -> anyhow::Result<Option<Data>> {
        let client = self.client.clone();
        Ok(match source {
            Source::Secret => {
                let api: Api<Secret> = Api::namespaced(client, self.namespace);
                let found = api.get_opt(name).await?;
                found.map(|it| {
                    let data = it.data.unwrap_or_default().into_iter();
                    // A value that is not UTF-8 can be no variable, and no file that this program reads.
                    data.filter_map(|(key, value)| Some((key, String::from_utf8(value.0).ok()?)))
                        .map(|(key, value)| (key, Zeroizing::new(value)))
                        .collect()
                })
            }
            Source::ConfigMap => {
                let api: Api<ConfigMap> = Api::namespaced(client, self.namespace);
                let found = api.get_opt(name).await?;
                found.map(|it| {
                    let data = it.data.unwrap_or_default().into_iter();
                    data.map(|(key, value)| (key, Zeroizing::new(value)))
                        .collect()
                })
            }
        })
    }

    /// The value of one key; `None` if it is optional and missing.
    async fn value(
        &mut self,
        source: Source,
        name: &str,
        key: &str,
        is_optional: bool,
    ) -> anyhow::Result<Option<Zeroizing<String>>> {
        let namespace = self.namespace;
        match self.get(source, name, is_optional).await?.get(key) {
            Some(value) => Ok(Some(value.clone())),
            None if is_optional => Ok(None),
            None => bail!("{source:?} {namespace}/{name} has no key {key:?}"),
        }
    }
}

async fn variables(
    sources: &mut Sources<'_>,
    container: &Container,
) -> anyhow::Result<BTreeMap<String, Zeroizing<String>>> {
    let mut variables = BTreeMap::new();
    for from in container.env_from.iter().flatten() {
        let prefix = from.prefix.as_deref().unwrap_or_default();
        let (source, name, is_optional) = match (&from.secret_ref, &from.config_map_ref) {
            (Some(it), _) => (Source::Secret, &it.name, it.optional),
            (None, Some(it)) => (Source::ConfigMap, &it.name, it.optional),
            (None, None) => continue,
        };
        let data = sources.get(source, name, is_optional == Some(true)).await?;
        let named = data.iter();
        variables.extend(named.map(|(key, value)| (format!("{prefix}{key}"), value.clone())));
    }
    for variable in container.env.iter().flatten() {
        let value = match &variable.value_from {
            None => {
                let value = variable.value.as_deref().unwrap_or_default();
                Some(Zeroizing::new(expanded(value, &variables)))
            }
            Some(from) => referred(sources, from)
                .await
                .with_context(|| format!("variable {}", variable.name))?,
        };
        if let Some(value) = value {
            variables.insert(variable.name.clone(), value);
        }
    }
    Ok(variables)
}

/// The value that a variable refers to. Values that only a running pod has, such as its IP address, are left out.
async fn referred(
    sources: &mut Sources<'_>,
    from: &EnvVarSource,
) -> anyhow::Result<Option<Zeroizing<String>>> {
    let (source, name, key, is_optional) = match (&from.secret_key_ref, &from.config_map_key_ref) {
        (Some(it), _) => (Source::Secret, &it.name, &it.key, it.optional),
        (None, Some(it)) => (Source::ConfigMap, &it.name, &it.key, it.optional),
        (None, None) => return Ok(None),
    };
    sources
        .value(source, name, key, is_optional == Some(true))
        .await
}

/// The files that the container has from Secrets and ConfigMaps.
async fn files(
    sources: &mut Sources<'_>,
    pod: &PodSpec,
    container: &Container,
) -> anyhow::Result<BTreeMap<PathBuf, Zeroizing<String>>> {
    let mut files = BTreeMap::new();
    for mount in container.volume_mounts.iter().flatten() {
        let mut volumes = pod.volumes.iter().flatten();
        let Some(volume) = volumes.find(|volume| volume.name == mount.name) else {
            continue;
        };
        let Some((source, name, items, is_optional)) = source_of(volume) else {
            continue;
        };
        let data = sources.get(source, name, is_optional).await?;
        let target = Path::new(&mount.mount_path);
        for (key, value) in data {
            let path = match items {
                None => Some(key.as_str()),
                Some(items) => {
                    let mut items = items.iter();
                    items
                        .find(|item| item.key == *key)
                        .map(|item| item.path.as_str())
                }
            };
            let (Some(path), sub_path) = (path, mount.sub_path.as_deref()) else {
                continue;
            };
            let place = match sub_path.filter(|sub_path| !sub_path.is_empty()) {
                None => target.join(path),
                Some(sub_path) if sub_path == path => target.to_owned(),
                Some(_) => continue,
            };
            files.insert(place, value.clone());
        }
    }
    Ok(files)
}

fn source_of(volume: &Volume) -> Option<(Source, &str, Option<&[KeyToPath]>, bool)> {
    if let Some(it) = &volume.secret {
        let name = it.secret_name.as_deref()?;
        let items = it.items.as_deref();
        return Some((Source::Secret, name, items, it.optional == Some(true)));
    }
    let it = volume.config_map.as_ref()?;
    let items = it.items.as_deref();
    Some((
        Source::ConfigMap,
        &it.name,
        items,
        it.optional == Some(true),
    ))
}

/// Replaces `$(NAME)` as Kubernetes does: an unknown name stays, and `$$` is one `$`.
fn expanded(text: &str, variables: &BTreeMap<String, Zeroizing<String>>) -> String {
    let mut result = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        result.push_str(before);
        if let Some(after) = after.strip_prefix('$') {
            result.push('$');
            rest = after;
            continue;
        }
        let name = after
            .strip_prefix('(')
            .and_then(|after| after.split_once(')'));
        match name.and_then(|(name, after)| Some((variables.get(name)?, after))) {
            Some((value, after)) => {
                result.push_str(value);
                rest = after;
            }
            None => {
                result.push('$');
                rest = after;
            }
        }
    }
    result + rest
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn a_workload_is_named_by_kind_namespace_and_name() {
        let parsed = WorkloadName::parse("ds/kube-system/ccm").unwrap();
        assert_eq!(parsed.kind, Kind::DaemonSet);
        assert_eq!(
            (parsed.namespace.as_str(), parsed.name.as_str()),
            ("kube-system", "ccm")
        );
        for text in [
            "",
            "pod/a/b",
            "deployment/a",
            "deployment/a/",
            "deployment/a/b/c",
            "ds",
        ] {
            assert!(WorkloadName::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn references_in_arguments_are_expanded_as_kubernetes_does() {
        let variables = [("NAME", "value"), ("EMPTY", "")];
        let variables = variables
            .map(|(name, value)| (name.to_owned(), Zeroizing::new(value.to_owned())))
            .into();
        for (text, expected) in [
            ("--a=$(NAME)", "--a=value"),
            ("$(NAME)$(EMPTY)$(NAME)", "valuevalue"),
            ("$$(NAME)", "$(NAME)"),
            ("$(OTHER) $ $NAME $(", "$(OTHER) $ $NAME $("),
            ("plain", "plain"),
        ] {
            assert_eq!(expanded(text, &variables), expected, "{text}");
        }
    }
}
