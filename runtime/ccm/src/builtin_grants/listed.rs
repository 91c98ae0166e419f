//! The variables of a profile with their meanings, for the page of the configuration: those that are no keys of the
//! module. For tests alone. Each field of a profile is named, so that a new one is not forgotten.

use super::aws;
use super::profile::{Login, MetricsProfile, Profile, TargetProfile, Unserved};
use super::profile_of;

/// Variables with one meaning.
pub(crate) struct Variables {
    /// Their names.
    pub(crate) names: Vec<String>,
    /// The meaning.
    pub(crate) meaning: String,
}

/// All variables of an embedded module's profile.
pub(crate) fn listed(guest: &str) -> Vec<Variables> {
    let Some(profile) = profile_of(guest) else {
        return Vec::new();
    };
    let Profile {
        guest: _,
        targets,
        metrics,
        unserved,
        adoption: _,
        prefixes: _,
        flags_of_vendor: _,
    } = profile;
    let mut rows: Vec<(Variables, Vec<&str>)> = Vec::new();
    for target in *targets {
        for variables in of_target(target) {
            // Targets of one server share its variables.
            let known = rows
                .iter_mut()
                .find(|(row, _)| row.names == variables.names);
            match known {
                Some((_, targets)) => targets.push(target.name),
                None => rows.push((variables, vec![target.name])),
            }
        }
    }
    let rows = rows.into_iter().map(|(row, targets)| {
        let targets: Vec<String> = targets.iter().map(|name| format!("`{name}`")).collect();
        Variables {
            meaning: format!("{} Target: {}.", row.meaning, targets.join(", ")),
            ..row
        }
    });
    let metrics = metrics.iter().flat_map(of_metrics);
    let unserved = unserved
        .iter()
        .map(|Unserved { why, variables }| Variables {
            names: variables.iter().map(|name| (*name).to_owned()).collect(),
            meaning: format!("No effect: {why}."),
        });
    rows.chain(metrics).chain(unserved).collect()
}

fn of_target(target: &TargetProfile) -> Vec<Variables> {
    let TargetProfile {
        name: _,
        endpoint,
        private,
        login,
        switch: _,
        without_login: _,
    } = target;
    let secret = |name: &str, what: &str| Variables {
        names: vec![name.to_owned(), format!("{name}_FILE")],
        meaning: format!("{what}, or the file with it."),
    };
    let mut found = match login {
        Login::Token {
            variable,
            length: _,
            key: _,
        }
        | Login::Authorization {
            variable,
            before: _,
            key: _,
        } => vec![secret(variable, "Token")],
        Login::Basic {
            user,
            password,
            key: _,
        } => {
            vec![secret(user, "User"), secret(password, "Password")]
        }
        Login::Aws { service: _ } => {
            let [id, key, token] = aws::SECRETS;
            vec![
                secret(id, "Access key ID"),
                secret(key, "Secret access key"),
                secret(token, "Session token of temporary keys"),
            ]
        }
    };
    let one = |name: &str, meaning: &str| Variables {
        names: vec![name.to_owned()],
        meaning: meaning.to_owned(),
    };
    let replaced = match (private, login) {
        (Some(_), _) => "URL of the server. Required.",
        (None, Login::Aws { .. }) => "Endpoint in place of the region's.",
        (None, _) => "Endpoint in place of the vendor's.",
    };
    found.push(one(endpoint, replaced));
    if let Some(private) = private {
        let [addresses, ca_file, fingerprints] = private.variables();
        found.extend([
            one(
                addresses,
                "Private ranges that the server's name may resolve to, separated by commas.",
            ),
            one(ca_file, "File with the authorities of its certificate."),
            one(
                fingerprints,
                "Fingerprints of its certificate, separated by commas.",
            ),
        ]);
    }
    found
}

fn of_metrics(metrics: &MetricsProfile) -> [Variables; 2] {
    let MetricsProfile {
        switch,
        address,
        default_address,
    } = metrics;
    [
        Variables {
            names: vec![(*switch).to_owned()],
            meaning: "Whether metrics are served in plain HTTP, as by the vendor's manager. Default: true."
                .to_owned(),
        },
        Variables {
            names: vec![(*address).to_owned()],
            meaning: format!("The address of these metrics. Default: `{default_address}`."),
        },
    ]
}
