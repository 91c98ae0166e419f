//! Which providers the controllers get. They refuse a list that contradicts itself as a whole, which only the loaded modules
//! may show, and a new leader ends with it.

use std::collections::BTreeMap;

use ccm_controllers::{Provided, contradictions};

/// What is published.
pub(super) struct Consistent {
    /// The providers of the file in its order, and then those of objects.
    pub(super) provided: Vec<Provided>,
    /// The others, and what each contradicts.
    pub(super) contradicting: BTreeMap<String, String>,
    /// Contradictions between those that are published: of the first list, with which the start ends, or of an edit of
    /// providers that run, which then run on as before.
    pub(super) accepted: Vec<String>,
}

/// Leaves out the providers that contradict those before them: first those that were `published`, then the others of the
/// file, and then those of objects. Nothing is left out of the file's first list.
pub(super) fn consistent(
    file: Vec<Provided>,
    objects: Vec<Provided>,
    published: &[Provided],
) -> Consistent {
    let order: Vec<String> = file.iter().map(|one| one.cloud.name().to_owned()).collect();
    let is_published = |one: &Provided| {
        let mut names = published.iter().map(|known| known.cloud.name());
        published.is_empty() || names.any(|name| name == one.cloud.name())
    };
    let (mut provided, new): (Vec<_>, Vec<_>) = file.into_iter().partition(is_published);
    let accepted = contradictions(&provided);
    let mut contradicting = BTreeMap::new();
    for one in new.into_iter().chain(objects) {
        let name = one.cloud.name().to_owned();
        provided.push(one);
        let mut why = contradictions(&provided);
        why.retain(|line| !accepted.contains(line));
        if !why.is_empty() {
            contradicting.insert(name, why.join("; "));
            provided.pop();
        }
    }
    let place = |one: &Provided| order.iter().position(|name| name == one.cloud.name());
    provided.sort_by_key(|one| place(one).unwrap_or(usize::MAX));
    Consistent {
        provided,
        contradicting,
        accepted,
    }
}
