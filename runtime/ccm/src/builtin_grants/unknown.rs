//! Variables that look as if they were for a shipped module and are not: names with a typing error, and names of other
//! versions. Reads names, never values.

use std::collections::BTreeSet;

use ccm_host::list_first;
use ccm_host::manifest::Manifest;

use super::profile::Profile;
use super::profile_of;

/// Maximum number of names in one warning.
const SHOWN: usize = 10;

/// A warning that names the variables of the process that no part of this program reads, if there are any.
pub(crate) fn unknown(
    guest: &str,
    manifest: &Manifest,
    names: &BTreeSet<String>,
) -> Option<String> {
    let profile = profile_of(guest)?;
    let is_ours = |name: &&str| {
        let mut prefixes = profile.prefixes.iter();
        prefixes.any(|prefix| name.starts_with(prefix))
    };
    let unknown: Vec<&str> = names
        .iter()
        .map(String::as_str)
        .filter(is_ours)
        .filter(|name| !is_known(profile, manifest, name) && !is_of_a_service(names, name))
        .collect();
    if unknown.is_empty() {
        return None;
    }
    Some(format!(
        "without effect, because nothing here has such a setting (is there a typing error?): {}",
        list_first(&unknown, SHOWN)
    ))
}

/// Whether this program reads the variable, or reports it elsewhere as unsupported.
pub(super) fn is_known(profile: &Profile, manifest: &Manifest, name: &str) -> bool {
    let is_of_target = |variable: &str| name == variable || name == format!("{variable}_FILE");
    let mut targets = profile.targets.iter();
    let mut unserved = profile.unserved.iter().flat_map(|one| one.variables);
    manifest.config.iter().any(|key| key.key == name)
        || targets.any(|target| {
            let mut variables = target.login.variables().into_iter();
            let private = target.private.as_ref();
            name == target.endpoint
                || private.is_some_and(|private| private.variables().contains(&name))
                || variables.any(is_of_target)
        })
        || profile
            .metrics
            .as_ref()
            .is_some_and(|metrics| [metrics.switch, metrics.address].contains(&name))
        || unserved.any(|variable| *variable == name)
}

/// Whether Kubernetes has set it in every pod of the namespace, for a Service whose name begins like our variables,
/// such as hcloud-csi-controller-metrics: `NAME_SERVICE_HOST`, `NAME_SERVICE_PORT…` and `NAME_PORT…`.
fn is_of_a_service(names: &BTreeSet<String>, name: &str) -> bool {
    let ends = ["_SERVICE_", "_PORT"];
    let mut prefixes = ends
        .iter()
        .flat_map(|end| name.match_indices(end))
        .filter_map(|(at, _)| name.get(..at));
    prefixes.any(|prefix| names.contains(&format!("{prefix}_SERVICE_HOST")))
}
