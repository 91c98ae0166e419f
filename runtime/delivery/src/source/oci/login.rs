//! Registry credentials, from the text of a docker `config.json` or a Secret of type `kubernetes.io/dockerconfigjson`.
//! Credential helpers named in such a file are never run.

use std::collections::BTreeMap;

use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::{Engine as _, alphabet};
use serde::{Deserialize, Deserializer};
use thiserror::Error;
use zeroize::Zeroizing;

/// Maximum size, in bytes; larger than any real file.
const MOST_BYTES: usize = 1 << 20;

/// As docker and the kubelet read `auth`: with or without the padding at the end.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A secret text: no `Debug`, zeroed on drop.
pub(super) type Hidden = Zeroizing<String>;

/// Registry credentials by scope. No `Debug`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RegistryCredentials {
    logins: Vec<(Scope, Login)>,
    helped: Vec<String>,
}

/// A login at a registry.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Login {
    /// User and password, for Basic authentication or the token endpoint.
    Password { user: String, password: Hidden },
    /// Exchanged for a token at the registry's token endpoint.
    IdentityToken(Hidden),
    /// A bearer token, sent unchanged.
    RegistryToken(Hidden),
}

/// A registry or a part of one. A `*` matches one label of the name, as in Kubernetes.
#[derive(Clone, PartialEq, Eq)]
struct Scope {
    host: String,
    path: String,
}

/// Why a text holds no credentials. Shows nothing of the text.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CredentialsError {
    /// The text is not the JSON of such a file.
    #[error(
        "the registry credentials are not the JSON of a docker config.json (line {line}, column {column})"
    )]
    Unreadable {
        /// Line of the error.
        line: usize,
        /// Column of the error.
        column: usize,
    },
    /// The text exceeds 1 MiB.
    #[error("the registry credentials are longer than 1 MiB")]
    TooLong,
    /// One login cannot be used.
    #[error("the registry credentials for {registry}: {why}")]
    Login {
        /// The login's key in the file.
        registry: String,
        /// The mistake in the login.
        why: &'static str,
    },
}

#[derive(Deserialize)]
struct File {
    auths: Option<BTreeMap<String, Entry>>,
    #[serde(default, rename = "credHelpers")]
    helpers: BTreeMap<String, String>,
}

#[derive(Deserialize, Default)]
struct Entry {
    #[serde(default, deserialize_with = "hidden")]
    auth: Option<Hidden>,
    username: Option<String>,
    #[serde(default, deserialize_with = "hidden")]
    password: Option<Hidden>,
    #[serde(default, rename = "identitytoken", deserialize_with = "hidden")]
    identity_token: Option<Hidden>,
    #[serde(default, rename = "registrytoken", deserialize_with = "hidden")]
    registry_token: Option<Hidden>,
}

/// Also accepts `null`, as absent.
pub(super) fn hidden<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Hidden>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    Ok(text.map(Zeroizing::new))
}

impl RegistryCredentials {
    /// Parses the text of a docker `config.json`, also in the older form without `auths` (`.dockercfg`).
    ///
    /// # Errors
    /// See [`CredentialsError`].
    pub fn parse_docker_config(text: &str) -> Result<Self, CredentialsError> {
        if text.len() > MOST_BYTES {
            return Err(CredentialsError::TooLong);
        }
        let unreadable = |error: serde_json::Error| CredentialsError::Unreadable {
            line: error.line(),
            column: error.column(),
        };
        let file: File = serde_json::from_str(text).map_err(unreadable)?;
        let entries = match file.auths {
            Some(entries) => entries,
            None if !file.helpers.is_empty() => BTreeMap::new(),
            None => older(text).map_err(unreadable)?,
        };
        let mut logins = Vec::new();
        for (key, entry) in entries {
            if let Some(login) = login(&key, entry)? {
                logins.push((Scope::of(&key), login));
            }
        }
        Ok(Self {
            logins,
            helped: file
                .helpers
                .into_keys()
                .map(|key| Scope::of(&key).host)
                .collect(),
        })
    }

    /// Whether there is a login for a repository.
    pub fn has_login(&self, host: &str, repository: &str) -> bool {
        self.login(host, repository).is_some()
    }

    /// The login with the narrowest scope that matches a repository.
    pub(super) fn login(&self, host: &str, repository: &str) -> Option<&Login> {
        // As the key of a login, in either case and by each of the names of Docker Hub.
        let host = Scope::of(host).host;
        let fitting = self
            .logins
            .iter()
            .filter(|(scope, _)| scope.holds(&host, repository));
        let narrowest =
            fitting.max_by_key(|(scope, _)| (scope.path.len(), !scope.host.contains('*')));
        narrowest.map(|(_, login)| login)
    }

    /// Whether only a helper, which is not run, could know the login.
    pub(super) fn is_helped(&self, host: &str) -> bool {
        self.helped.contains(&Scope::of(host).host)
    }
}

/// Parses the older form: the map itself. Other members, such as `credsStore`, are ignored.
fn older(text: &str) -> Result<BTreeMap<String, Entry>, serde_json::Error> {
    let members: BTreeMap<String, Box<serde_json::value::RawValue>> = serde_json::from_str(text)?;
    let entries = members
        .into_iter()
        .filter(|(_, value)| value.get().starts_with('{'));
    entries
        .map(|(key, value)| Ok((key, serde_json::from_str(value.get())?)))
        .collect()
}

fn login(key: &str, entry: Entry) -> Result<Option<Login>, CredentialsError> {
    let wrong = |why| CredentialsError::Login {
        registry: Scope::of(key).host,
        why,
    };
    let given = |text: Option<Hidden>| text.filter(|text| !text.is_empty());
    if let Some(token) = given(entry.registry_token) {
        return Ok(Some(Login::RegistryToken(token)));
    }
    if let Some(token) = given(entry.identity_token) {
        return Ok(Some(Login::IdentityToken(token)));
    }
    // It comes before user and password, as for docker and the kubelet.
    let Some(auth) = given(entry.auth) else {
        let named = entry.username.zip(given(entry.password));
        return Ok(named.map(|(user, password)| Login::Password { user, password }));
    };
    // `base64` breaks lines, and they remain in the JSON. A text that grows would leave copies behind that are not zeroed.
    let mut whole = Zeroizing::new(String::with_capacity(auth.len()));
    whole.extend(auth.split_ascii_whitespace());
    let decoded = BASE64.decode(whole.as_bytes()).map(Zeroizing::new);
    let decoded = decoded.map_err(|_| wrong("`auth` is not base64"))?;
    let text = std::str::from_utf8(&decoded).map_err(|_| wrong("`auth` is not text"))?;
    // docker pads some of them.
    let text = text.trim_end_matches('\0');
    let (user, password) = text
        .split_once(':')
        .ok_or_else(|| wrong("`auth` holds no user and password"))?;
    Ok(Some(Login::Password {
        user: user.to_owned(),
        password: Zeroizing::new(password.to_owned()),
    }))
}

impl Scope {
    /// Keys are hosts, hosts with a path, or URLs in which the API version begins the path.
    fn of(key: &str) -> Self {
        let bare = key.split_once("://").map_or(key, |(_, rest)| rest);
        let (host, path) = bare.split_once('/').unwrap_or((bare, ""));
        let path = path.trim_matches('/');
        let path = match path.split_once('/').unwrap_or((path, "")) {
            ("v1" | "v2", rest) => rest,
            _ => path,
        };
        let host = host.to_ascii_lowercase();
        let host = match host.as_str() {
            "index.docker.io" | "registry-1.docker.io" => "docker.io".to_owned(),
            _ => host,
        };
        Self {
            host,
            path: path.to_owned(),
        }
    }

    fn holds(&self, host: &str, repository: &str) -> bool {
        let same_host = self.host.split('.').count() == host.split('.').count()
            && self
                .host
                .split('.')
                .zip(host.split('.'))
                .all(|(own, other)| own == "*" || own == other);
        let below = repository.strip_prefix(self.path.as_str());
        let inside = self.path.is_empty()
            || below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        same_host && inside
    }
}
