//! Locations of modules, as operators write them. Parses and formats them; accesses none.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use ccm_core::name_syntax::{is_dns_label, is_dns_name, is_dns_subdomain};
use ccm_host::Digest;
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, percent_encode};
use thiserror::Error;

use crate::trust::Pin;

/// The forms that [`Location::parse`] accepts, for messages.
pub const FORMS: &str = "`embedded:<name>`, `file:///path/provider.wasm`, `file:///folder/`, \
    `configmap://<namespace>/<name>/<key>` and `oci://<registry>[:port]/<repository>[:tag][@sha256:<digest>]`";

/// The location of a module.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Location {
    /// A module embedded in this program, by its name.
    Embedded(String),
    /// A file or a folder.
    File(FilePlace),
    /// A key of a ConfigMap.
    ConfigMap(ConfigMapKey),
    /// An artifact in a registry.
    Oci(OciPlace),
}

/// A file or folder of this machine, by its absolute path without `..`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FilePlace {
    /// The absolute path.
    pub path: PathBuf,
    /// Whether it was written with a trailing `/` or `/.` and so must be a folder. Otherwise this is determined on access.
    pub is_folder: bool,
}

/// One key of one ConfigMap.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ConfigMapKey {
    /// The ConfigMap's namespace.
    pub namespace: String,
    /// The ConfigMap's name.
    pub name: String,
    /// The key in its `data` or `binaryData`.
    pub key: String,
}

/// An artifact in a registry.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OciPlace {
    /// Host, with the port if one was written.
    pub registry: String,
    /// The repository, such as `clouds/hcloud`.
    pub repository: String,
    /// The tag, if one was written.
    pub tag: Option<String>,
    /// `sha256:<hex>` of the manifest, if one was written.
    pub digest: Option<String>,
}

/// A text that is not a location.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{what}; the forms are {FORMS}")]
pub struct LocationError {
    /// The mistake, for people. Never shows anything that could be a password.
    what: String,
}

/// Characters encoded in a path because URLs reserve them.
const IN_PATHS: &AsciiSet = &CONTROLS.add(b' ').add(b'%').add(b'?').add(b'#');

impl Location {
    /// Parses one of the forms in [`FORMS`].
    ///
    /// # Errors
    /// The text has none of the forms.
    pub fn parse(text: &str) -> Result<Location, LocationError> {
        if let Some(name) = text.strip_prefix("embedded:") {
            if !is_dns_label(name) {
                return Err(wrong(
                    "`embedded:` is followed by the name of a shipped provider",
                ));
            }
            return Ok(Self::Embedded(name.to_owned()));
        }
        match text.split_once("://") {
            Some(("file", path)) => FilePlace::parse(path).map(Self::File),
            Some(("configmap", rest)) => ConfigMapKey::parse(rest).map(Self::ConfigMap),
            Some(("oci", rest)) => OciPlace::parse(rest).map(Self::Oci),
            Some((scheme, _)) if is_dns_label(scheme) => {
                Err(wrong(&format!("`{scheme}://` is not known")))
            }
            _ => Err(wrong("this names no place")),
        }
    }

    /// Whether other people than the operator of this machine can write there, so that its modules need a signature.
    pub fn needs_trust(&self) -> bool {
        matches!(self, Self::ConfigMap(_) | Self::Oci(_))
    }

    /// The digest by which the location itself names its module.
    pub fn pin(&self) -> Option<Pin> {
        match self {
            Self::Oci(place) => Pin::parse(place.digest.as_ref()?).ok(),
            Self::Embedded(_) | Self::File(_) | Self::ConfigMap(_) => None,
        }
    }
}

impl FilePlace {
    fn parse(text: &str) -> Result<Self, LocationError> {
        if !text.starts_with('/') {
            return Err(wrong(
                "`file://` is followed by an absolute path, so by a third slash",
            ));
        }
        if text.contains(['?', '#']) {
            return Err(wrong(
                "a `file://` address has no `?` and no `#`; in a path they are %3F and %23",
            ));
        }
        let bytes: Vec<u8> = percent_decode_str(text).collect();
        if bytes.contains(&0) {
            return Err(wrong("a path has no zero byte"));
        }
        let path = Path::new(OsStr::from_bytes(&bytes));
        if path.components().any(|part| part == Component::ParentDir) {
            return Err(wrong("a `file://` path is written without `..`"));
        }
        Ok(Self {
            is_folder: bytes.ends_with(b"/") || bytes.ends_with(b"/."),
            path: path.components().collect(),
        })
    }
}

impl ConfigMapKey {
    fn parse(text: &str) -> Result<Self, LocationError> {
        let mut parts = text.split('/');
        let (Some(namespace), Some(name), Some(key), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(wrong(
                "`configmap://` is followed by a namespace, a name and a key",
            ));
        };
        if !is_dns_label(namespace) {
            return Err(wrong(
                "the namespace of a `configmap://` address is not one",
            ));
        }
        if !is_dns_subdomain(name) {
            return Err(wrong(
                "the name in a `configmap://` address is not one of a ConfigMap",
            ));
        }
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        if key.is_empty() || key.len() > 253 || !key.bytes().all(legal) {
            return Err(wrong(
                "the key in a `configmap://` address is not one of a ConfigMap",
            ));
        }
        Ok(Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            key: key.to_owned(),
        })
    }
}

impl OciPlace {
    fn parse(text: &str) -> Result<Self, LocationError> {
        let (registry, rest) = text
            .split_once('/')
            .ok_or_else(|| wrong("an `oci://` address has a registry and a repository"))?;
        if registry.contains('@') {
            return Err(wrong(
                "credentials belong under `registry`, not in an `oci://` address",
            ));
        }
        if !is_host(registry) {
            return Err(wrong(
                "the registry of an `oci://` address is a host, and a port where needed",
            ));
        }
        let (rest, digest) = match rest.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest)),
            None => (rest, None),
        };
        if digest.is_some_and(|digest| Digest::parse(digest).is_none()) {
            return Err(wrong(
                "a digest is `sha256:` and 64 lower-case hexadecimal digits",
            ));
        }
        let (repository, tag) = match rest.split_once(':') {
            Some((repository, tag)) => (repository, Some(tag)),
            None => (rest, None),
        };
        if tag.is_some_and(|tag| !is_tag(tag)) {
            return Err(wrong(
                "a tag has letters, digits, `_`, `.` and `-`, and at most 128 of them",
            ));
        }
        if repository.len() > 255 || !repository.split('/').all(is_repository_part) {
            return Err(wrong(
                "a repository has lower-case letters, digits, `/`, and `.`, `_` or `-` between them",
            ));
        }
        Ok(Self {
            registry: registry.to_owned(),
            repository: repository.to_owned(),
            tag: tag.map(str::to_owned),
            digest: digest.map(str::to_owned),
        })
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Embedded(name) => write!(f, "embedded:{name}"),
            Self::File(place) => place.fmt(f),
            Self::ConfigMap(place) => place.fmt(f),
            Self::Oci(place) => place.fmt(f),
        }
    }
}

impl fmt::Display for FilePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.as_os_str().as_bytes();
        let slash = if self.is_folder && path != b"/" {
            "/"
        } else {
            ""
        };
        write!(f, "file://{}{slash}", percent_encode(path, IN_PATHS))
    }
}

impl fmt::Display for ConfigMapKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "configmap://{}/{}/{}",
            self.namespace, self.name, self.key
        )
    }
}

impl fmt::Display for OciPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "oci://{}/{}", self.registry, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(f, "@{digest}")?;
        }
        Ok(())
    }
}

fn wrong(what: &str) -> LocationError {
    LocationError {
        what: what.to_owned(),
    }
}

/// Accepts host names, IPv4 addresses and IPv6 addresses in brackets, with or without a port.
fn is_host(text: &str) -> bool {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (text, None),
    };
    let is_port = |port: &str| {
        let digits = port.bytes().all(|byte| byte.is_ascii_digit());
        digits && port.parse::<u16>().is_ok_and(|port| port > 0)
    };
    if let Some(address) = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
    {
        return address.parse::<std::net::Ipv6Addr>().is_ok() && port.is_none_or(is_port);
    }
    is_dns_name(host) && port.is_none_or(is_port)
}

fn is_tag(tag: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    tag.len() <= 128
        && tag.bytes().next().is_some_and(word)
        && tag.bytes().all(|byte| word(byte) || b".-".contains(&byte))
}

/// Lower-case letters and digits, separated by one `.`, one or two `_`, or any number of `-`, as registries require.
fn is_repository_part(part: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let inside = part
        .bytes()
        .all(|byte| word(byte) || b"._-".contains(&byte));
    let edges = part.bytes().next().is_some_and(word) && part.bytes().next_back().is_some_and(word);
    let separators = part
        .split(|letter: char| letter.is_ascii_alphanumeric())
        .all(|between| {
            matches!(between, "" | "." | "_" | "__") || between.bytes().all(|byte| byte == b'-')
        });
    inside && edges && separators
}

#[cfg(test)]
mod tests;
