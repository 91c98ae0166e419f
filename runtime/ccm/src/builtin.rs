//! The built-in grant profiles of shipped modules: what an operator of the Go binary would have set as
//! environment variables. A profile belongs to the *bytes* of the module that is embedded in this binary,
//! never to a name: any other module needs grants that somebody wrote down.

use std::collections::BTreeMap;

use ccm_host::grant::{Credential, Grants, Secret};
use ccm_host::manifest::Manifest;

use crate::config::{Mistakes, Surroundings};

/// How a shipped provider is told its endpoint and its credential.
struct Profile {
    /// Name of the embedded module.
    guest: &'static str,
    /// Name of the manifest's target.
    target: &'static str,
    /// Variable that replaces the endpoint.
    endpoint: &'static str,
    /// Variable with the bearer token; with `_FILE` appended: a file that holds it.
    token: &'static str,
}

/// Variables as the vendors' own managers name them.
const PROFILES: &[Profile] = &[Profile {
    guest: "hcloud",
    target: "api",
    endpoint: "HCLOUD_ENDPOINT",
    token: "HCLOUD_TOKEN",
}];

/// The embedded module of this name.
pub(crate) fn module(name: &str) -> Option<&'static [u8]> {
    embedded_guests::all()
        .iter()
        .find(|guest| guest.name == name)
        .map(|guest| guest.wasm)
}

/// Names of the embedded modules.
pub(crate) fn names() -> Vec<&'static str> {
    embedded_guests::all()
        .iter()
        .map(|guest| guest.name)
        .collect()
}

/// The name of the embedded module that has exactly these bytes.
pub(crate) fn recognise(wasm: &[u8]) -> Option<&'static str> {
    embedded_guests::all()
        .iter()
        .find(|guest| guest.wasm == wasm)
        .map(|guest| guest.name)
}

/// Grants exactly what the manifest requests, with endpoint and credential from the environment.
///
/// # Errors
/// Every variable that is missing or malformed.
pub(crate) fn grants(
    guest: &str,
    manifest: &Manifest,
    surroundings: &Surroundings<'_>,
) -> Result<Grants, Mistakes> {
    let mut grants = manifest.as_grants();
    let mut mistakes = Vec::new();
    for profile in PROFILES.iter().filter(|profile| profile.guest == guest) {
        let Some(target) = grants
            .targets
            .iter_mut()
            .find(|target| target.name == profile.target)
        else {
            mistakes.push(format!(
                "the embedded {guest} module has no target {:?}",
                profile.target
            ));
            continue;
        };
        if let Some(endpoint) = (surroundings.variable)(profile.endpoint) {
            match endpoint.parse() {
                Ok(url) => target.endpoint = url,
                Err(error) => mistakes.push(format!("{} {endpoint:?}: {error}", profile.endpoint)),
            }
        }
        match token(profile.token, surroundings) {
            Ok(secret) => target.credential = Credential::Bearer(secret),
            Err(mistake) => mistakes.push(mistake),
        }
    }
    if mistakes.is_empty() {
        Ok(grants)
    } else {
        Err(Mistakes(mistakes))
    }
}

fn token(variable: &str, surroundings: &Surroundings<'_>) -> Result<Secret, String> {
    let file = format!("{variable}_FILE");
    let text = match (
        (surroundings.variable)(variable),
        (surroundings.variable)(&file),
    ) {
        (Some(_), Some(_)) => return Err(format!("{variable} and {file} are both set: set one")),
        (Some(text), None) => text,
        (None, Some(path)) => {
            (surroundings.file)(path.as_ref()).map_err(|error| format!("{file} {path}: {error}"))?
        }
        (None, None) => return Err(format!("neither {variable} nor {file} is set")),
    };
    match text.trim() {
        "" => Err(format!("{variable} is empty")),
        token => Ok(Secret::new(token.to_owned())),
    }
}

/// Values for the configuration keys that the manifest declares, from variables of the same names.
pub(crate) fn values(
    manifest: &Manifest,
    surroundings: &Surroundings<'_>,
) -> BTreeMap<String, String> {
    let keys = manifest.config.iter().map(|key| key.key.clone());
    keys.filter_map(|key| (surroundings.variable)(&key).map(|value| (key, value)))
        .collect()
}
