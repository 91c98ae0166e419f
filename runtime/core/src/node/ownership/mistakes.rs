//! Checks the claims of all providers for conflicts, before any of them acts.

use std::collections::BTreeSet;

use super::Claim;

/// All mistakes, human-readable, each with the names of the providers involved. Providers whose schemes are not known
/// yet are skipped in the scheme checks.
pub fn mistakes(claims: &[Claim]) -> Vec<String> {
    let mut mistakes = Vec::new();
    let mut names = BTreeSet::new();
    let mut twice = BTreeSet::new();
    for claim in claims {
        if !names.insert(&claim.name) && twice.insert(&claim.name) {
            mistakes.push(format!(
                "two providers are named {:?}; names identify the owners of nodes and Services and must be unique",
                claim.name
            ));
        }
    }
    for (index, one) in claims.iter().enumerate() {
        for other in claims.iter().skip(index + 1) {
            if one.name != other.name {
                mistakes.extend(clash(one, other));
            }
        }
    }
    mistakes
}

/// Why the owner of a provider ID would be ambiguous between two providers.
fn clash(one: &Claim, other: &Claim) -> Option<String> {
    let shared: Vec<&str> = one
        .schemes
        .iter()
        .filter(|scheme| other.has_scheme(scheme))
        .map(String::as_str)
        .collect();
    if shared.is_empty() {
        return None;
    }
    let (a, b) = (&one.name, &other.name);
    let schemes = shared.join(", ");
    let begin = format!("the providers {a:?} and {b:?} share the provider ID scheme {schemes}");
    Some(match (&one.selector, &other.selector) {
        (Some(left), Some(right)) if !left.may_overlap(right) => return None,
        (Some(left), Some(right)) => format!(
            "{begin}, and a node could match both their node selectors, {left:?} and {right:?}: write selectors that exclude each other, such as `account={a}` and `account={b}`",
            left = left.to_string(),
            right = right.to_string()
        ),
        (left, right) => {
            let without = match (left, right) {
                (None, None) => "neither has a node selector".to_owned(),
                (None, Some(_)) => format!("{a:?} has no node selector"),
                (Some(_), _) => format!("{b:?} has no node selector"),
            };
            format!(
                "{begin}, and {without}: write selectors that exclude each other, such as `account={a}` and `account={b}`"
            )
        }
    })
}
