//! Intersects requested and granted rights: the result, missing rights, and superfluous ones.
//!
//! A module gets the smaller of both. An ungranted request makes the module unusable, so that it never runs with
//! half of its rights; a grant that is not requested only causes a warning. An optional target may be missing, but
//! only as a whole.

use ccm_core::safety::permit::Access;
use thiserror::Error;

use super::{AuthKind, Manifest, Target};
use crate::egress::rules::{Line, Rule};
use crate::grant::{Credential, Grants, TargetGrant};

/// Rights of a module: both requested and granted.
#[derive(Clone)]
pub struct Granted {
    /// Targets, in the manifest's order.
    pub targets: Vec<GrantedTarget>,
    /// Annotation prefixes that the manifest requests; all of them are granted.
    pub annotation_prefixes: Vec<String>,
    /// Names of optional targets that are requested and not granted.
    pub withheld: Vec<String>,
    /// Rights that are granted but not requested, for the operator to tidy up.
    pub warnings: Vec<String>,
}

/// A target that was both requested and granted.
#[derive(Clone)]
pub struct GrantedTarget {
    /// Endpoint, credential and addresses. Its rules are the granted ones, not the intersection.
    pub grant: TargetGrant,
    /// Requested lines, each with the granted access.
    pub lines: Vec<Line>,
    /// Lines that the grant calls changes. A request that one of these admits is a change, whichever requested line
    /// admits it: a module must not evade a narrow line by requesting a wide one.
    pub changes: Vec<Line>,
}

/// Rights that are requested but not granted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("not granted: {}", .lines.join("; "))]
pub struct Missing {
    /// One text per missing line, as the operator would have to grant it.
    pub lines: Vec<String>,
}

pub(super) fn narrow(manifest: &Manifest, grants: Grants) -> Result<Granted, Missing> {
    let Grants {
        targets: mut granted,
        annotation_prefixes: prefixes,
    } = grants;
    let mut missing = Vec::new();
    let mut warnings = Vec::new();
    let (mut targets, mut withheld) = (Vec::new(), Vec::new());
    for requested in &manifest.targets {
        let Some(at) = granted
            .iter()
            .position(|grant| grant.name == requested.name)
        else {
            match requested.required {
                true => missing.extend(ungranted(requested)),
                false => withheld.push(requested.name.clone()),
            }
            continue;
        };
        targets.push(target(
            requested,
            granted.swap_remove(at),
            &mut missing,
            &mut warnings,
        ));
    }
    warnings.extend(
        granted
            .iter()
            .map(|grant| format!("target {} is granted, but not requested", grant.name)),
    );
    for prefix in &manifest.annotation_prefixes {
        if !prefixes
            .iter()
            .any(|granted| prefix_covers(granted, prefix))
        {
            missing.push(format!("annotation prefix {prefix}"));
        }
    }
    let is_idle = |granted: &&String| {
        !manifest
            .annotation_prefixes
            .iter()
            .any(|prefix| prefix_covers(granted, prefix))
    };
    warnings.extend(
        prefixes
            .iter()
            .filter(is_idle)
            .map(|prefix| format!("annotation prefix {prefix} is granted, but not requested")),
    );
    if missing.is_empty() {
        Ok(Granted {
            targets,
            annotation_prefixes: manifest.annotation_prefixes.clone(),
            withheld,
            warnings,
        })
    } else {
        Err(Missing { lines: missing })
    }
}

/// Whether an annotation prefix covers another. It covers longer ones only if it contains a slash: `a.example/`
/// covers `a.example/x`, `a.exam` covers nothing.
pub fn prefix_covers(granted: &str, requested: &str) -> bool {
    granted == requested || (granted.contains('/') && requested.starts_with(granted))
}

fn ungranted(requested: &Target) -> Vec<String> {
    let Target {
        name,
        endpoint,
        auth,
        rules,
        ..
    } = requested;
    let endpoint = match requested.names_endpoint() {
        true => endpoint.as_str(),
        false => "the endpoint, which only you know,",
    };
    let mut missing = vec![format!("target {name}: {endpoint} with {auth} credential")];
    missing.extend(
        rules
            .iter()
            .flat_map(Rule::lines)
            .map(|line| format!("target {name}: {line}")),
    );
    missing
}

fn target(
    requested: &Target,
    mut grant: TargetGrant,
    missing: &mut Vec<String>,
    warnings: &mut Vec<String>,
) -> GrantedTarget {
    let name = &requested.name;
    let kind = grant.credential.kind();
    if requested.auth == AuthKind::None && kind != AuthKind::None {
        warnings.push(format!(
            "target {name}: a {kind} credential is granted, but not requested, and is not used"
        ));
        grant.credential = Credential::None;
    } else if requested.auth != kind {
        missing.push(format!(
            "target {name}: {} credential (granted: {kind})",
            requested.auth
        ));
    }
    let wanted: Vec<Line> = requested.rules.iter().flat_map(Rule::lines).collect();
    let given: Vec<Line> = grant.rules.iter().flat_map(Rule::lines).collect();
    let mut lines = Vec::with_capacity(wanted.len());
    for line in &wanted {
        match given.iter().find(|given| given.covers(line)) {
            // The grant decides whether this line changes something.
            Some(given) => lines.push(Line {
                access: given.access,
                ..line.clone()
            }),
            None => missing.push(format!("target {name}: {line}")),
        }
    }
    let is_idle = |given: &&Line| !wanted.iter().any(|line| given.covers(line));
    warnings.extend(
        given
            .iter()
            .filter(is_idle)
            .map(|line| format!("target {name}: {line} is granted, but not requested")),
    );
    let changes = given
        .into_iter()
        .filter(|line| line.access == Access::Write);
    GrantedTarget {
        changes: changes.collect(),
        grant,
        lines,
    }
}
