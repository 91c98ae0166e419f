//! Built-in grant profiles of shipped modules, from the environment variables that an operator sets for the vendor's Go
//! binary, or from variables of our own where no vendor has one. A profile belongs to the *bytes* of the module embedded
//! in this binary, never to a name: any other module needs configured grants.

mod aws;
mod cloud_config;
#[cfg(test)]
mod listed;
mod login;
mod metrics;
mod profile;
mod unknown;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use ccm_core::name_syntax::is_dns_label;
use ccm_core::settings::Adoption;
use ccm_delivery::source::Location;
use ccm_host::Digest;
use ccm_host::grant::{Credential, Grants, Issuer, Secret, TargetGrant};
use ccm_host::manifest::Manifest;

pub(crate) use self::aws::add_instance;
pub(crate) use self::cloud_config::{CloudConfig, cloud_config};
#[cfg(test)]
pub(crate) use self::listed::{Variables, listed};
pub(crate) use self::login::{header, secret_key};
pub(crate) use self::metrics::{MetricsMistake, metrics_address};
use self::profile::{Login, PROFILES, PrivateServer, Profile, Switch, TargetProfile};
pub(crate) use self::unknown::unknown;
use crate::config::{self, ConfigContext, ProviderConfig, url};
use crate::flags::go_bool;

/// The embedded module of this name.
pub(crate) fn module(name: &str) -> Option<&'static [u8]> {
    embedded_guests::ALL
        .iter()
        .find(|guest| guest.name == name)
        .map(|guest| guest.wasm)
}

/// The load balancers that the embedded module of this name may adopt if no file says it.
pub(crate) fn adoption(name: &str) -> Adoption {
    profile_of(name).map_or_else(Adoption::default, |profile| profile.adoption)
}

/// Flags that the vendor's manager of this name sets by itself, before it reads its arguments.
pub(crate) fn flags_of_vendor(name: &str) -> &'static [&'static str] {
    let profile = profile_of(name);
    profile
        .map(|profile| profile.flags_of_vendor)
        .unwrap_or_default()
}

/// Names of the embedded modules.
fn names() -> Vec<&'static str> {
    embedded_guests::ALL
        .iter()
        .map(|guest| guest.name)
        .collect()
}

/// A message that no module of this name is embedded, with the names of those that are.
pub(crate) fn not_embedded(name: &str) -> String {
    format!(
        "no module {name:?} is embedded: embedded {}",
        others(&names(), name)
    )
}

/// A message that no provider has this name, with the names of those that need no file.
pub(crate) fn unknown_provider(name: &str) -> String {
    format!(
        "unknown cloud provider {name:?}: known {}",
        others(&names(), name)
    )
}

/// The end of a message that `name` is not among the embedded modules. For a shipped provider that this build leaves out,
/// it says how to build it in.
fn others(embedded: &[&str], name: &str) -> String {
    let known = match embedded {
        [] => "none".to_owned(),
        known => known.join(", "),
    };
    format!("are {known}{}", left_out_of(embedded, name))
}

fn left_out_of(embedded: &[&str], name: &str) -> String {
    if embedded_guests::SHIPPED.contains(&name) && !embedded.contains(&name) {
        format!("; a build with the Cargo feature {name} has it (`cargo run --features {name}`)")
    } else {
        String::new()
    }
}

/// The name of the embedded module with exactly these bytes.
pub(crate) fn recognise(digest: &Digest) -> Option<&'static str> {
    static DIGESTS: LazyLock<Vec<(&str, Digest)>> = LazyLock::new(|| {
        let guests = embedded_guests::ALL.iter();
        guests
            .map(|guest| (guest.name, Digest::of(guest.wasm)))
            .collect()
    });
    let mut known = DIGESTS.iter();
    known
        .find(|(_, known)| known == digest)
        .map(|(name, _)| *name)
}

/// Current contents of the files from which a provider's built-in grants read secrets and authorities, for detecting a
/// rotation. Unreadable ones are left out.
pub(crate) fn ambient(config: &ProviderConfig, context: &ConfigContext<'_>) -> Vec<Secret> {
    if config.grants.is_some() {
        return Vec::new();
    }
    let targets = || PROFILES.iter().flat_map(|profile| profile.targets);
    let variables = targets().flat_map(|target| target.login.variables());
    let variables = BTreeSet::from_iter(variables);
    let paths = variables
        .into_iter()
        .filter(|name| (context.variable)(name).is_none())
        .filter_map(|name| (context.variable)(&format!("{name}_FILE")));
    let private = targets().filter_map(|target| target.private.as_ref());
    let authorities: BTreeSet<&str> = private.map(|private| private.ca_file).collect();
    let authorities = authorities
        .into_iter()
        .filter_map(|name| (context.variable)(name));
    paths
        .chain(authorities)
        .filter_map(|path| (context.file)(path.as_ref()).ok())
        .map(Secret::new)
        .collect()
}

/// Values of the manifest's configuration keys, from variables of the same names.
pub(crate) fn values(manifest: &Manifest, context: &ConfigContext<'_>) -> BTreeMap<String, String> {
    let keys = manifest.config.iter().map(|key| key.key.clone());
    keys.filter_map(|key| (context.variable)(&key).map(|value| (key, value)))
        .collect()
}

/// Load policy of a module, with its mistakes and warnings.
pub(crate) struct BuiltinGrants {
    /// Granted permissions. If there are mistakes, some credentials are placeholders: the module may be asked for its
    /// own mistakes, but the grants must not be used.
    pub(crate) grants: Grants,
    /// All missing or malformed variables.
    pub(crate) mistakes: Vec<String>,
    /// Settings that have no effect, or look wrong but may be right.
    pub(crate) warnings: Vec<String>,
    /// Consequences of valid settings.
    pub(crate) notes: Vec<String>,
    /// The region of this machine, or why it is not known; `None` if it was not asked for.
    asked_region: Option<Result<String, String>>,
}

/// A secret that was read.
struct Read {
    text: String,
    /// The variable or file, for messages.
    origin: String,
}

impl Read {
    fn into_secret(self) -> Secret {
        Secret::new(self.text).read_from(&self.origin)
    }
}

/// Placeholder for a missing credential.
const OPENS_NOTHING: &str = "missing";

/// Reads endpoints and credentials of a shipped module: exactly the required targets, and the optional ones that are
/// switched on. `values` is the module's configuration, which contains the switches; `asked_region` is the answer of
/// [`region_issuer`].
pub(crate) fn grants(
    guest: &str,
    manifest: &Manifest,
    values: &BTreeMap<String, String>,
    asked_region: Option<&Result<String, String>>,
    context: &ConfigContext<'_>,
) -> BuiltinGrants {
    let mut read = BuiltinGrants::written(manifest.as_grants());
    read.asked_region = asked_region.cloned();
    if let Some(profile) = profile_of(guest) {
        for target in profile.targets {
            read.target(manifest, target, values, context);
        }
        read.unserved(profile, context);
        match metrics_address(guest, context) {
            Ok(_) => {}
            Err(MetricsMistake::Switch(mistake)) => read.mistakes.push(mistake),
            Err(MetricsMistake::Address(mistake)) => read.warnings.push(mistake),
        }
    }
    let mut seen = BTreeSet::new();
    read.warnings.retain(|text| seen.insert(text.clone()));
    read
}

/// The metadata service that knows the region of this machine, if the provider's built-in grants need the region and
/// no variable names it.
pub(crate) fn region_issuer(
    config: &ProviderConfig,
    context: &ConfigContext<'_>,
) -> Option<Issuer> {
    let is_named = aws::region(&config.values, context).is_some();
    metadata_issuer(config, context).filter(|_| !is_named)
}

/// The metadata service that knows the ID of the instance that this machine is, if the module of the provider's
/// built-in grants find the cluster's ID in its tags and no setting names either ID.
pub(crate) fn instance_issuer(
    config: &ProviderConfig,
    context: &ConfigContext<'_>,
) -> Option<Issuer> {
    let is_named = aws::names_cluster(&config.values, context);
    metadata_issuer(config, context).filter(|_| !is_named)
}

/// The metadata service of this machine, if the provider has built-in grants of AWS.
fn metadata_issuer(config: &ProviderConfig, context: &ConfigContext<'_>) -> Option<Issuer> {
    let Location::Embedded(guest) = &config.source else {
        return None;
    };
    let profile = profile_of(guest).filter(|_| config.grants.is_none())?;
    let mut logins = profile.targets.iter().map(|target| &target.login);
    if !logins.any(|login| matches!(login, Login::Aws { .. })) {
        return None;
    }
    // A mistake in its URL is reported with the credentials.
    aws::instance_metadata(context).ok().flatten()
}

fn profile_of(guest: &str) -> Option<&'static Profile> {
    PROFILES.iter().find(|profile| profile.guest == guest)
}

impl BuiltinGrants {
    /// Configured grants; the variables are ignored.
    pub(crate) fn written(grants: Grants) -> BuiltinGrants {
        BuiltinGrants {
            grants,
            mistakes: Vec::new(),
            warnings: Vec::new(),
            notes: Vec::new(),
            asked_region: None,
        }
    }

    fn target(
        &mut self,
        manifest: &Manifest,
        profile: &TargetProfile,
        values: &BTreeMap<String, String>,
        context: &ConfigContext<'_>,
    ) {
        let name = profile.name;
        let Some(requested) = manifest.targets.iter().find(|target| target.name == name) else {
            self.mistakes.push(format!(
                "the embedded {} module has no target {name:?}",
                manifest.name
            ));
            return;
        };
        match &profile.switch {
            Some(Switch::True(key)) if !values.get(*key).is_some_and(|value| is_true(value)) => {
                self.switched_off(key, &profile.login, context);
                return;
            }
            Some(Switch::AnySet(keys)) if !keys.iter().any(|key| values.contains_key(*key)) => {
                return;
            }
            Some(_) | None => {}
        }
        let mut grant = requested.as_grant();
        let (region, any_endpoint) = match profile.login {
            Login::Aws { .. } => {
                grant.addresses = aws::ADDRESSES.to_vec();
                (self.region(values, context), Some(aws::ANY_ENDPOINT))
            }
            _ => (String::new(), None),
        };
        grant.endpoint = aws::endpoint(requested, &region).unwrap_or(grant.endpoint);
        let mut names = [profile.endpoint].into_iter().chain(any_endpoint);
        match names.find_map(|name| Some((name, (context.variable)(name)?))) {
            Some((name, endpoint)) => match url(endpoint.trim().trim_end_matches('/')) {
                Ok(url) => grant.endpoint = url,
                // Not quoted: it may contain a password.
                Err(error) => self.mistake(format!("{name}: {error}")),
            },
            None if profile.private.is_some() => self.mistake(format!(
                "{} is not set: the URL of your {} server",
                profile.endpoint, manifest.name
            )),
            None => {
                if let Some(mistake) = aws::unnamed_endpoint(&region) {
                    self.mistake(mistake);
                }
            }
        }
        if let Some(private) = &profile.private {
            self.private(private, &mut grant, context);
        }
        match self.login(&profile.login, &region, profile.without_login, context) {
            Some(credential) => {
                grant.credential = credential;
                self.put(grant);
            }
            None => self.notes.extend(profile.without_login.map(str::to_owned)),
        }
    }

    /// Adds a mistake once: targets of the same server can have the same one.
    fn mistake(&mut self, mistake: String) {
        if !self.mistakes.contains(&mistake) {
            self.mistakes.push(mistake);
        }
    }

    /// Adds the addresses and certificates of a server that the operator runs.
    fn private(
        &mut self,
        profile: &PrivateServer,
        grant: &mut TargetGrant,
        context: &ConfigContext<'_>,
    ) {
        let list = |name: &str| -> Vec<String> {
            let text = (context.variable)(name).unwrap_or_default();
            let parts = text
                .split(',')
                .map(str::trim)
                .filter(|part| !part.is_empty());
            parts.map(str::to_owned).collect()
        };
        let mut mistakes = Vec::new();
        let place = profile.addresses;
        grant.addresses = config::ranges(place, &list(place), &mut mistakes);
        let place = profile.fingerprints;
        grant.fingerprints = config::fingerprints(place, &list(place), &mut mistakes);
        if let Some(path) = (context.variable)(profile.ca_file) {
            match (context.file)(path.as_ref()) {
                Ok(pem) => grant.ca_pem = Some(pem),
                Err(error) => mistakes.push(format!("{} {path}: {error}", profile.ca_file)),
            }
        }
        for mistake in mistakes {
            self.mistake(mistake);
        }
    }

    /// Replaces the grant of the same target, or adds one.
    fn put(&mut self, grant: TargetGrant) {
        let targets = &mut self.grants.targets;
        match targets.iter_mut().find(|other| other.name == grant.name) {
            Some(required) => *required = grant,
            None => targets.push(grant),
        }
    }

    /// The credential; `None` if no part of it is set and it may be missing. After a mistake it is a placeholder.
    fn login(
        &mut self,
        login: &Login,
        region: &str,
        without: Option<&str>,
        context: &ConfigContext<'_>,
    ) -> Option<Credential> {
        let is_set = |name: &str| {
            let variable = context.variable;
            variable(name).is_some() || variable(&format!("{name}_FILE")).is_some()
        };
        if without.is_some() && !login.variables().into_iter().any(is_set) {
            return None;
        }
        Some(match login {
            Login::Token {
                variable, length, ..
            } => {
                let token = self.secret(variable, context);
                let characters = token.text.chars().count();
                if token.text != OPENS_NOTHING && characters != *length {
                    self.warnings.push(format!(
                        "{variable} has {characters} characters, and the vendor's tokens have {length}: tried all the same"
                    ));
                }
                Credential::Bearer(token.into_secret())
            }
            Login::Basic { user, password, .. } => Credential::Basic {
                user: self.secret(user, context).text,
                password: self.secret(password, context).into_secret(),
            },
            Login::Authorization {
                before, variable, ..
            } => {
                let Read { text, origin } = self.secret(variable, context);
                let token = text.strip_prefix(before).unwrap_or(&text);
                Credential::Header {
                    name: "Authorization".to_owned(),
                    value: Secret::new(format!("{before}{token}")).read_from(&origin),
                }
            }
            Login::Aws { service } => self.aws(service, region, context),
        })
    }

    /// The region of AWS; after a mistake, a placeholder.
    fn region(&mut self, values: &BTreeMap<String, String>, context: &ConfigContext<'_>) -> String {
        let named = aws::region(values, context);
        let unknown = match named.map(Ok).or_else(|| self.asked_region.clone()) {
            Some(Ok(region)) if is_dns_label(&region) => return region,
            Some(Ok(region)) => format!("AWS_REGION {region:?}: this is no region"),
            Some(Err(why)) => {
                format!("AWS_REGION is not set, and the instance does not tell it: {why}")
            }
            None => "AWS_REGION is not set".to_owned(),
        };
        self.mistake(unknown);
        OPENS_NOTHING.to_owned()
    }

    /// The value of a variable or its file; after a mistake, a placeholder. If both are set, the variable counts, as in
    /// the vendor's manager.
    fn secret(&mut self, variable: &str, context: &ConfigContext<'_>) -> Read {
        let file = format!("{variable}_FILE");
        let text = (context.variable)(variable);
        let path = (context.variable)(&file);
        let origin = match (&text, &path) {
            (None, Some(path)) => format!("the file {path} ({file})"),
            _ => format!("the variable {variable}"),
        };
        if text.is_some() && path.is_some() {
            self.warnings.push(format!(
                "{variable} and {file} are both set: {variable} counts, and the file is not read, so that a new secret needs a restart"
            ));
        }
        let read = match (text, path) {
            (Some(text), _) => Ok(text),
            (None, Some(path)) => {
                (context.file)(path.as_ref()).map_err(|error| format!("{file} {path}: {error}"))
            }
            (None, None) => Err(format!("neither {variable} nor {file} is set")),
        };
        let filled = read.and_then(|text| match text.trim() {
            "" => Err(format!("{variable} is empty")),
            secret => Ok(secret.to_owned()),
        });
        let text = filled.unwrap_or_else(|mistake| {
            self.mistake(mistake);
            OPENS_NOTHING.to_owned()
        });
        Read { text, origin }
    }

    /// Warns about credentials of a switched-off target, which are probably meant to be used.
    fn switched_off(&mut self, switch: &str, login: &Login, context: &ConfigContext<'_>) {
        for variable in login.variables() {
            let is_set = |name: &str| (context.variable)(name).is_some();
            if is_set(variable) || is_set(&format!("{variable}_FILE")) {
                self.warnings.push(format!(
                    "{variable} is set and not used, because {switch} is not true"
                ));
            }
        }
    }

    fn unserved(&mut self, profile: &Profile, context: &ConfigContext<'_>) {
        for unserved in profile.unserved {
            let is_asked_for =
                |name: &&&str| (context.variable)(name).is_some_and(|value| !is_false(&value));
            let set: Vec<&str> = unserved
                .variables
                .iter()
                .filter(is_asked_for)
                .copied()
                .collect();
            if !set.is_empty() {
                let why = unserved.why;
                self.warnings
                    .push(format!("without effect, because {why}: {}", set.join(", ")));
            }
        }
    }
}

/// The module rejects values that are neither true nor false.
fn is_true(text: &str) -> bool {
    go_bool(text.trim()) == Ok(true)
}

fn is_false(text: &str) -> bool {
    go_bool(text.trim()) == Ok(false)
}

#[cfg(test)]
mod tests;
