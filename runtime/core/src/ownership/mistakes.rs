//! What is wrong with the claims of several providers, before any of them does anything.

use std::collections::BTreeSet;

use super::Claim;

/// All mistakes, for people, each with the names of those that it is about. Where a provider's schemes are not known
/// yet, nothing is said about them.
pub fn mistakes(claims: &[Claim]) -> Vec<String> {
    let mut mistakes = Vec::new();
    let mut names = BTreeSet::new();
    let mut twice = BTreeSet::new();
    for claim in claims {
        if !names.insert(&claim.name) && twice.insert(&claim.name) {
            mistakes.push(format!(
                "two providers have the name {:?}: it is what is written down on nodes and Services, and would not say which",
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

/// Why two providers would not know which of them a provider ID belongs to.
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
