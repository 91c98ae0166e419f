//! The manifest's requests, as far as the host enforces them on a provider.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::fields::{Content, Place, check_fields};
use super::path;
use crate::Config;
use crate::bindings::host::ccm::provider::http::{FetchError, Request};
use crate::http::method_name;

mod mistakes;

/// The parts of a manifest that are checked or enforced here; the host checks the whole of it when it loads the module.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Manifest {
    #[serde(default)]
    pub(super) name: String,
    /// Those of the nodes that are this provider's, unless the operator's configuration names others.
    #[serde(default)]
    schemes: Vec<String>,
    /// Those that the operator's configuration names.
    #[serde(skip)]
    configured_schemes: Vec<String>,
    #[serde(default)]
    targets: Vec<Target>,
    #[serde(default)]
    pub(super) config: Vec<ConfigKey>,
    #[serde(default)]
    pub(super) annotation_prefixes: Vec<String>,
    #[serde(default)]
    pub(super) limits: Limits,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Limits {
    #[serde(rename = "memoryMiB", alias = "memoryMib")]
    memory_mib: Option<u64>,
    pub(super) call_seconds: Option<u64>,
}

/// A key of the operator's configuration.
#[derive(Debug, Deserialize)]
pub(super) struct ConfigKey {
    pub(super) key: String,
    #[serde(default)]
    pub(super) why: String,
    #[serde(default)]
    pub(super) required: bool,
}

#[derive(Debug, Deserialize)]
struct Target {
    name: String,
    endpoint: Option<String>,
    #[serde(default)]
    auth: String,
    rules: Vec<Rule>,
    /// Whether the operator's configuration does not grant it.
    #[serde(skip)]
    is_withheld: bool,
}

/// Field names, each with its allowed values.
type Fields = BTreeMap<String, BTreeSet<String>>;

#[derive(Debug, Deserialize)]
struct Rule {
    methods: Vec<String>,
    path: String,
    #[serde(default)]
    query: Fields,
    #[serde(default)]
    form: Fields,
    access: String,
    #[serde(default)]
    absence: Vec<Absence>,
}

/// An answer that proves, beside 404, that the requested object does not exist.
#[derive(Debug, Clone, Deserialize)]
struct Absence {
    status: u16,
    contains: String,
}

impl Absence {
    fn is(&self, status: u16, body: &[u8]) -> bool {
        let text = self.contains.as_bytes();
        // `windows` has none of length 0.
        self.status == status
            && (text.is_empty() || body.windows(text.len()).any(|part| part == text))
    }
}

/// A request that a rule admits.
#[derive(Debug, Default)]
pub(super) struct Admitted {
    /// For a change: what a refusal calls it.
    pub(super) change: Option<String>,
    /// Whether the path names one object, so that 404 means that it does not exist.
    names_one_object: bool,
    absence: Vec<Absence>,
}

impl Admitted {
    /// Whether this answer proves that the requested object does not exist.
    pub(super) fn proves_absence(&self, status: u16, body: &[u8]) -> bool {
        status == 404 && self.names_one_object
            || self.absence.iter().any(|one| one.is(status, body))
    }
}

impl Manifest {
    /// Parses a manifest.
    ///
    /// # Panics
    /// When it cannot be parsed, or has a mistake that authors make.
    pub(super) fn parse(manifest: &str) -> Manifest {
        let manifest: Manifest = match serde_json::from_str(manifest) {
            Ok(manifest) => manifest,
            Err(error) => panic!("the manifest cannot be read: {error}"),
        };
        let mistakes = mistakes::mistakes(&manifest);
        assert!(
            mistakes.is_empty(),
            "the manifest has {} mistake(s): {}",
            mistakes.len(),
            mistakes.join("; ")
        );
        manifest
    }

    /// Withholds the targets that the configuration does not grant, and those alone.
    pub(super) fn grant(&mut self, config: &Config) {
        for target in &mut self.targets {
            target.is_withheld = !config.is_granted(&target.name);
        }
    }

    /// Takes the schemes that the configuration names; one without any gets the manifest's.
    pub(super) fn own_schemes(&mut self, config: &mut Config) {
        self.configured_schemes.clone_from(&config.schemes);
        config.schemes = self.owned_schemes().to_vec();
    }

    /// The schemes of the nodes that are this provider's.
    pub(super) fn owned_schemes(&self) -> &[String] {
        match self.configured_schemes.is_empty() {
            true => &self.schemes,
            false => &self.configured_schemes,
        }
    }

    /// Whether a target is granted: a provider without one proves an absence without a request.
    pub(super) fn has_granted_target(&self) -> bool {
        self.targets.iter().any(|target| !target.is_withheld)
    }

    /// The answer to a request for a target that the manifest does not name, or that is not granted.
    pub(super) fn ungranted_target(&self, request: &Request) -> Option<FetchError> {
        let Request { method, target, .. } = request;
        let mut targets = self.targets.iter();
        let why = match targets.find(|known| known.name == *target) {
            Some(known) if !known.is_withheld => return None,
            Some(_) => {
                "the module's manifest requests this target, and the grants have none of this name"
            }
            None => "the module's own manifest requests no such target",
        };
        let method = method_name(*method);
        Some(FetchError::Denied(format!(
            "{method} on target {target}: {why}"
        )))
    }

    /// The header that carries the credential of a target, beside those that belong to the host in any case. The name of
    /// that of `header` is the operator's.
    pub(super) fn credential_header(&self, target: &str) -> Option<&'static str> {
        (self.auth(target) == Some("keystone")).then_some("x-auth-token")
    }

    /// Checks that no field of the query or of a form belongs to a signature, which the host makes.
    ///
    /// # Errors
    /// The reason, in the real host's words.
    pub(super) fn check_signature(
        &self,
        request: &Request,
        content: &Content,
    ) -> Result<(), String> {
        let name = &request.target;
        if self.auth(name) != Some("aws-sigv4") {
            return Ok(());
        }
        let mut fields = request.query.iter().chain(content.form());
        match fields.find(|(field, _)| is_of_a_signature(field)) {
            Some((field, _)) => Err(format!(
                "field {field} belongs to the host, which signs requests to target {name}"
            )),
            None => Ok(()),
        }
    }

    fn auth(&self, target: &str) -> Option<&str> {
        let mut targets = self.targets.iter();
        let target = targets.find(|known| known.name == target)?;
        Some(&target.auth)
    }

    /// Checks a request whose canonical path has these segments against the rules.
    ///
    /// # Errors
    /// [`FetchError::Denied`], with the real host's message.
    pub(super) fn check(
        &self,
        request: &Request,
        shown_path: &str,
        segments: &[String],
        content: &Content,
    ) -> Result<Admitted, FetchError> {
        let method = method_name(request.method);
        let name = &request.target;
        let targets = self.targets.iter().filter(|target| target.name == *name);
        let at = |rule: &&Rule| {
            rule.methods.iter().any(|allowed| allowed == method)
                && path::matches(&rule.path, segments)
        };
        let rules: Vec<&Rule> = targets
            .flat_map(|target| &target.rules)
            .filter(at)
            .collect();
        let form = content.form();
        let admits = |rule: &&&Rule| {
            is_among(&rule.query, &request.query, form)
                && is_among(&rule.form, form, &request.query)
        };
        let Some(rule) = rules.iter().find(admits) else {
            return Err(FetchError::Denied(format!(
                "{method} {shown_path} on target {name}: the module's own manifest does not request it, and the grants do not allow it either"
            )));
        };
        // A change must not pass as another request because it is spelled so that only the cloud recognises it.
        let near = rules.iter().filter(|rule| rule.access == "write");
        let mut looked = BTreeSet::new();
        for rule in near.chain([rule]) {
            looked.extend(rule.query.keys().map(|name| (name.as_str(), Place::Query)));
            looked.extend(rule.form.keys().map(|name| (name.as_str(), Place::Form)));
        }
        let body = request.body.as_deref().unwrap_or_default();
        check_fields(&looked, &request.query, content, body).map_err(|why| {
            FetchError::Denied(format!("{method} {shown_path} on target {name}: {why}"))
        })?;
        let is_change = rule.access == "write";
        let change = is_change.then(|| {
            let fields = [shown(&rule.query, &request.query), shown(&rule.form, form)].concat();
            format!("{method} {shown_path}{fields} on target {name}")
        });
        Ok(Admitted {
            change,
            names_one_object: path::names_one_object(&rule.path),
            absence: rule.absence.clone(),
        })
    }
}

/// The fields of a rule with their values, each after a space.
fn shown(fields: &Fields, given: &[(String, String)]) -> String {
    let values = fields
        .keys()
        .filter_map(|name| given.iter().find(|(theirs, _)| theirs == name));
    values
        .map(|(name, value)| format!(" {name}={value}"))
        .collect()
}

/// Whether AWS reads an identity or a signature from a field of this name.
fn is_of_a_signature(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let of_version_2 = [
        "awsaccesskeyid",
        "securitytoken",
        "signature",
        "signaturemethod",
        "signatureversion",
    ];
    name.starts_with("x-amz-") || of_version_2.contains(&name.as_str())
}

/// Whether each field is in `here` exactly once with one of its values, and not in `there`.
fn is_among(fields: &Fields, here: &[(String, String)], there: &[(String, String)]) -> bool {
    fields.iter().all(|(name, allowed)| {
        let mut given = here.iter().filter(|(theirs, _)| theirs == name);
        let is_allowed = given
            .next()
            .is_some_and(|(_, value)| allowed.contains(value));
        is_allowed && given.next().is_none() && !there.iter().any(|(theirs, _)| theirs == name)
    })
}
