//! The configuration of this process, read again after each change: the file, the files and Secrets it refers to, the
//! flags that select from it, and the objects `Provider` where a flag allows them. Reads only; applies nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use ccm_delivery::record::{RefusalReason, SpecRefusal, Specification};
use ccm_delivery::source::Location;
use ccm_host::egress::{instance_id, instance_region};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Mutex as AsyncMutex;

use super::LOOK;
use super::objects::{ObjectSpec, ProviderObjects};
use super::secrets::Secrets;
use crate::builtin_grants;
use crate::config::{
    self, ConfigContext, MOST_SPEC_BYTES, Mistakes, ProviderConfig, ProxyChoice, SecretKey,
    Written, WrittenObject,
};
use crate::flags::CloudProxy;
use crate::provider_loading::{PROCESS, read_text};

/// Maximum number of objects that are read; the oldest count.
const MOST_OBJECTS: usize = 32;

/// The providers that the configuration asks for.
#[derive(Default)]
pub(crate) struct Wanted {
    /// The providers of the file and the flags.
    pub file: Vec<ProviderConfig>,
    /// The providers of objects; none has the name of one of the file.
    pub objects: Vec<ProviderConfig>,
    /// The state of each object's spec, by the object's name.
    pub specifications: BTreeMap<String, Specification>,
    /// Why the file as it is written now is not used; then `file` is what it said before.
    pub file_trouble: Option<String>,
    /// Number of objects that were read. Refused ones count, too: their Secrets are watched.
    pub objects_read: usize,
    /// Whether this is all that is configured: the file has no mistake, and the objects were listed.
    pub is_complete: bool,
}

/// The objects that configure providers, beside the file.
pub(crate) struct ObjectConfiguration {
    /// The watched objects of the cluster.
    pub objects: ProviderObjects,
    /// `--provider-secret-namespace`.
    pub secret_namespace: String,
    /// The last accepted spec of each object, by the object's name.
    pub accepted: Mutex<BTreeMap<String, AcceptedSpec>>,
}

/// The last accepted spec of an object.
#[derive(Clone)]
pub(crate) struct AcceptedSpec {
    /// UID of the object.
    uid: Option<String>,
    /// As written, so that it can be read again with the Secrets as they are then.
    spec: Value,
    /// What it said when it was last read without a mistake.
    config: ProviderConfig,
}

/// The file when it was last without a mistake.
#[derive(Clone, Default)]
pub(crate) struct ValidFile {
    /// As written; `None`: there was no file, or it has the form of a vendor's.
    written: Option<Written>,
    /// The providers in it.
    configured: Vec<ProviderConfig>,
}

/// The last parsed file. Most looks find the same text, and only the files and Secrets that it names may have changed.
#[derive(Default)]
pub(crate) struct ParsedFile(Mutex<Option<(String, Written)>>);

/// Where the configuration of this process comes from, and the last file without a mistake.
pub(crate) struct Configuration {
    /// `--config`.
    pub file: Option<PathBuf>,
    /// Whether `file` is that of `--cloud-config`, which may be empty for the Go provider.
    pub is_cloud_config: bool,
    /// The parsed text of `file`.
    pub parsed: ParsedFile,
    /// `file` when it was last without a mistake.
    pub last_valid: Mutex<Option<ValidFile>>,
    /// `--cloud-provider`; `None`: all providers of the file.
    pub name: Option<String>,
    /// `--provider-module`, which overrides the file.
    pub module: Option<String>,
    /// `--cloud-proxy`.
    pub cloud_proxy: CloudProxy,
    /// Secrets of the cluster.
    pub secrets: Secrets,
    /// `--enable-provider-objects`.
    pub objects: Option<ObjectConfiguration>,
    /// The region of this machine.
    pub region: MachineAnswer,
    /// The ID of the instance that this machine is.
    pub instance: MachineAnswer,
}

/// An answer of this machine's metadata service, asked for once. After a failure the next look asks again, half a
/// minute later at the earliest.
#[derive(Default)]
pub(crate) struct MachineAnswer(AsyncMutex<Option<(Instant, Result<String, String>)>>);

impl MachineAnswer {
    const AGAIN: Duration = Duration::from_secs(30);

    /// The known answer, or that of `ask`.
    async fn get(
        &self,
        ask: impl Future<Output = Result<String, String>>,
    ) -> Result<String, String> {
        let mut known = self.0.lock().await;
        match &*known {
            Some((_, Ok(answer))) => Ok(answer.clone()),
            Some((at, Err(why))) if at.elapsed() < MachineAnswer::AGAIN => Err(why.clone()),
            _ => {
                let answer = ask.await;
                *known = Some((Instant::now(), answer.clone()));
                answer
            }
        }
    }
}

impl ParsedFile {
    fn read(&self, text: String) -> Result<Written, Mistakes> {
        let mut last = self.0.lock();
        if let Some((known, written)) = &*last
            && *known == text
        {
            return Ok(written.clone());
        }
        let written = Written::read(&text)?;
        *last = Some((text, written.clone()));
        Ok(written)
    }
}

impl Wanted {
    /// All providers; those of the file first.
    pub(crate) fn all(&self) -> Vec<ProviderConfig> {
        [self.file.as_slice(), &self.objects].concat()
    }

    /// Number of objects that configure a provider, refused ones included.
    pub(crate) fn configuring_objects(&self) -> usize {
        let specifications = self.specifications.values();
        specifications.filter(|one| one.is_source).count()
    }
}

impl Configuration {
    /// Reads the current configuration. Mistakes of an object are part of the result: they affect no other provider. So
    /// are those of the file once it was valid: its providers are then those from before, with their current
    /// credentials.
    ///
    /// # Errors
    /// All mistakes of the file together, if it was never valid.
    pub(crate) async fn read(&self) -> anyhow::Result<Wanted> {
        let mut named = BTreeSet::new();
        let (file, file_trouble) = self.read_file(&mut named).await?;
        let objects = self.objects.as_ref();
        let are_listed = objects.is_none_or(|it| it.objects.are_listed());
        let mut wanted = Wanted {
            file,
            is_complete: are_listed && file_trouble.is_none(),
            file_trouble,
            ..Wanted::default()
        };
        if let Some(objects) = objects {
            for object in objects.objects.all().await {
                self.add(objects, object, &mut wanted, &mut named).await;
            }
            let mut accepted = objects.accepted.lock();
            accepted.retain(|name, _| wanted.objects.iter().any(|one| one.name == *name));
        }
        self.secrets.keep(&named);
        Ok(wanted)
    }

    /// Reads the providers of the file and the flags, and adds the Secrets that the file names to `named`. Also returns the
    /// mistake of a file that was valid before.
    async fn read_file(
        &self,
        named: &mut BTreeSet<SecretKey>,
    ) -> anyhow::Result<(Vec<ProviderConfig>, Option<String>)> {
        let error = match self.valid_file(named).await {
            Ok((file, picked)) => {
                *self.last_valid.lock() = Some(file);
                return Ok((picked, None));
            }
            Err(error) => error,
        };
        let Some(last) = self.last_valid.lock().clone() else {
            return Err(error);
        };
        // What one provider lacks keeps no other from a credential that was rotated.
        let configured = match last.written {
            None => last.configured,
            Some(written) => {
                named.extend(written.secrets());
                self.secrets.learn(named).await;
                self.interpret(|context| written.refreshed(&last.configured, context))
            }
        };
        match self.completed(configured).await {
            Ok(picked) => Ok((picked, Some(format!("{error:#}")))),
            Err(_) => Err(error),
        }
    }

    /// Whether the file has had no content so far. One that had and is empty now may be half written.
    fn said_nothing(&self) -> bool {
        self.last_valid.lock().as_ref().is_none_or(|last| {
            let mut configured = last.configured.iter();
            last.written.is_none() && configured.all(|one| one.values.is_empty())
        })
    }

    async fn valid_file(
        &self,
        named: &mut BTreeSet<SecretKey>,
    ) -> anyhow::Result<(ValidFile, Vec<ProviderConfig>)> {
        let mut file = ValidFile::default();
        if let Some(path) = &self.file {
            let text = read_text(path)?;
            let invalid = || format!("{} is not a valid configuration", path.display());
            let name = self.name.as_deref();
            let may_be_empty = self.is_cloud_config && self.said_nothing();
            let read = builtin_grants::cloud_config(name, &text, may_be_empty);
            match read.with_context(invalid)? {
                Some(read) => file.configured = vec![read.provider],
                None => {
                    let written = self.parsed.read(text).with_context(invalid)?;
                    *named = written.secrets();
                    self.secrets.learn(named).await;
                    file.written = Some(written.clone());
                    let read = self.interpret(|context| written.meaning(context));
                    file.configured = read.with_context(invalid)?;
                }
            }
        }
        let picked = self.completed(file.configured.clone()).await?;
        Ok((file, picked))
    }

    /// Interprets something with what this process has: variables, files and Secrets.
    fn interpret<T>(&self, interpret: impl FnOnce(&ConfigContext<'_>) -> T) -> T {
        interpret(&ConfigContext {
            secret: &|key| self.secrets.get(key),
            ..PROCESS
        })
    }

    /// Picks the providers that the flags select, and adds what the environment and this machine say.
    async fn completed(
        &self,
        configured: Vec<ProviderConfig>,
    ) -> anyhow::Result<Vec<ProviderConfig>> {
        let mut picked = self.pick(configured)?;
        for provider in &mut picked {
            // Included in comparisons: a rotated file counts as a change.
            provider.ambient = builtin_grants::ambient(provider, &PROCESS);
            if let Some(issuer) = builtin_grants::region_issuer(provider, &PROCESS) {
                provider.region = Some(self.region.get(instance_region(&issuer)).await);
            }
            if let Some(issuer) = builtin_grants::instance_issuer(provider, &PROCESS) {
                provider.instance = Some(self.instance.get(instance_id(&issuer)).await);
            }
            if provider.grants.is_none() && provider.proxy == ProxyChoice::Unset {
                provider.proxy = self.proxy(&PROCESS).map_err(anyhow::Error::msg)?;
            }
        }
        if self.objects.is_none() || !picked.is_empty() {
            config::together(&picked)?;
        }
        Ok(picked)
    }

    /// Reads the configuration with which the process starts. If it `waits`, an API server that is away, and has Secrets
    /// that the file names, is waited for.
    ///
    /// # Errors
    /// As for [`Configuration::read`].
    pub(crate) async fn first(&self, waits: bool) -> anyhow::Result<Wanted> {
        let mut is_told = false;
        loop {
            let error = match self.read().await {
                Err(error) if waits && self.secrets.forget_unanswered() => error,
                read => return read,
            };
            if !is_told {
                let error = format!("{error:#}");
                tracing::warn!(
                    error,
                    "the API server does not answer, and has Secrets that the configuration names: waiting for it"
                );
                is_told = true;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Completes when the spec of an object has changed; never where objects configure nothing.
    pub(crate) async fn objects_changed(&self) {
        match &self.objects {
            Some(objects) => objects.objects.changed().await,
            None => std::future::pending().await,
        }
    }

    /// Adds the provider of an object; after an edit that is not used, the provider as it was before, with its current
    /// credentials.
    async fn add(
        &self,
        objects: &ObjectConfiguration,
        object: ObjectSpec,
        wanted: &mut Wanted,
        named: &mut BTreeSet<SecretKey>,
    ) {
        let is_overridden = wanted.file.iter().any(|one| one.name == object.name);
        let read = match is_overridden {
            true => Err(SpecRefusal {
                reason: RefusalReason::OverriddenByFile,
                message: "the file of --config, or --cloud-provider, names a provider of this name: it counts, and this spec does not".to_owned(),
            }),
            false if wanted.objects_read >= MOST_OBJECTS => Err(SpecRefusal {
                reason: RefusalReason::TooMany,
                message: format!("there are {MOST_OBJECTS} older objects with a spec already"),
            }),
            false => self.read_object(objects, &object, wanted, named).await,
        };
        let mut specification = Specification {
            generation: object.generation,
            uid: object.uid.clone(),
            refusal: None,
            is_source: !is_overridden,
        };
        match read {
            Ok(accepted) => {
                wanted.objects.push(accepted.config.clone());
                let name = object.name.clone();
                objects.accepted.lock().insert(name, accepted);
            }
            Err(refusal) => {
                specification.refusal = Some(refusal);
                let before = objects.accepted.lock().get(&object.name).cloned();
                let before = before.filter(|it| !is_overridden && it.uid == object.uid);
                if let Some(before) = before {
                    let config = self.refreshed(objects, &object.name, before, named).await;
                    let fits = config::beside(&wanted.all(), &config).is_ok();
                    wanted.objects.extend(fits.then_some(config));
                }
            }
        }
        wanted.objects_read += usize::from(specification.is_read());
        wanted.specifications.insert(object.name, specification);
    }

    async fn read_object(
        &self,
        objects: &ObjectConfiguration,
        object: &ObjectSpec,
        wanted: &Wanted,
        named: &mut BTreeSet<SecretKey>,
    ) -> Result<AcceptedSpec, SpecRefusal> {
        let Some(spec) = &object.spec else {
            return Err(config::invalid(format!(
                "the spec is larger than {MOST_SPEC_BYTES} bytes"
            )));
        };
        let config = self.read_spec(objects, &object.name, spec, named).await?;
        config::beside(&wanted.all(), &config)?;
        Ok(AcceptedSpec {
            uid: object.uid.clone(),
            spec: spec.clone(),
            config,
        })
    }

    /// Reads a spec with the Secrets as they are now, and adds those that it names to `named`.
    async fn read_spec(
        &self,
        objects: &ObjectConfiguration,
        name: &str,
        spec: &Value,
        named: &mut BTreeSet<SecretKey>,
    ) -> Result<ProviderConfig, SpecRefusal> {
        let written = WrittenObject::read(name, spec, &objects.secret_namespace)?;
        let secrets = written.secrets();
        self.secrets.learn(&secrets).await;
        named.extend(secrets);
        written.meaning(&|key| self.secrets.get(key))
    }

    /// The provider of an accepted spec with its current credentials: whoever rotates one revokes the former one. If one
    /// is missing, the provider as it was last.
    async fn refreshed(
        &self,
        objects: &ObjectConfiguration,
        name: &str,
        before: AcceptedSpec,
        named: &mut BTreeSet<SecretKey>,
    ) -> ProviderConfig {
        let read = self.read_spec(objects, name, &before.spec, named).await;
        let Ok(config) = read else {
            return before.config;
        };
        if let Some(known) = objects.accepted.lock().get_mut(name) {
            known.config = config.clone();
        }
        config
    }

    /// The proxy of a provider with built-in grants for which no file names one.
    fn proxy(&self, context: &ConfigContext<'_>) -> Result<ProxyChoice, String> {
        match self.cloud_proxy {
            CloudProxy::Direct => Ok(ProxyChoice::Unset),
            CloudProxy::Environment => ProxyChoice::environment(context),
        }
    }

    /// The provider selected by the flags: from the file, embedded, or described by the flags alone. Without a name,
    /// all providers of the file.
    fn pick(&self, mut configured: Vec<ProviderConfig>) -> anyhow::Result<Vec<ProviderConfig>> {
        let module = self.module.as_deref().map(location).transpose()?;
        let Some(name) = &self.name else {
            if module.is_some() {
                bail!("--provider-module needs --cloud-provider, which says whose module it is");
            }
            if configured.is_empty() && self.objects.is_none() {
                bail!("the configuration lists no provider");
            }
            return Ok(configured);
        };
        let position = configured
            .iter()
            .position(|provider| provider.name == *name);
        let mut found = match position {
            Some(position) => configured.swap_remove(position),
            // The file limits what runs: grants and adoption of another kind must not come from nowhere.
            None if self.file.is_some() => bail!(config::unlisted(name, &configured)),
            None if module.is_some() || builtin_grants::module(name).is_some() => {
                ProviderConfig::unwritten(name)
            }
            None => bail!(builtin_grants::unknown_provider(name)),
        };
        if let Some(module) = module {
            if module.needs_trust() && found.source != module {
                return Err(Mistakes(vec![format!(
                    "--provider-module {module}: modules from there need a `trust` section, so they stand in the file of --config"
                )])
                .into());
            }
            found.source = module;
        }
        if position.is_none()
            && let Location::Embedded(guest) = &found.source
        {
            found.load_balancers.adoption = builtin_grants::adoption(guest);
        }
        Ok(vec![found])
    }
}

/// Parses a location or a plain path.
pub(crate) fn location(text: &str) -> anyhow::Result<Location> {
    let absolute;
    let text = if text.contains(':') {
        text
    } else {
        let path = std::path::absolute(text).with_context(|| format!("the path {text:?}"))?;
        absolute = format!("file://{}", path.display());
        &absolute
    };
    Location::parse(text).with_context(|| format!("module {text:?}"))
}

#[cfg(test)]
mod tests;
