//! One rule for each node, or none. Sends no request.
//!
//! # Guarantees
//! - `gone` is only returned for a name on the list of retired machines whose node has the provider ID that a rule
//!   gives it.
//! - A stored provider ID determines the rule. Labels and addresses that change later take no node away from its rule.
//! - A node that is not initialised is only found with an IP address.
//! - An answer depends on its own node and the document alone.

use ccm_guest::{Lookup, Node};

use crate::document::Document;
use crate::rule::Rule;

#[cfg(test)]
mod tests;

/// The answer about one node.
pub fn look_up(document: &Document, node: &Node) -> Lookup {
    let stored = node.provider_id.as_deref().filter(|id| !id.is_empty());
    let is_retired = document.retired.contains(&node.name);
    match (stored, is_retired) {
        // A retired machine is not initialised, and without a provider ID it is not known to be this provider's.
        (None, true) => Lookup::NotMine,
        (None, false) => match document.rules.iter().find(|rule| rule.matches(node)) {
            Some(rule) => found(rule, node),
            None => Lookup::NotMine,
        },
        (Some(id), _) => by_provider_id(document, node, id, is_retired),
    }
}

/// Among the rules that give the node this provider ID, the first that matches; or else the only one.
fn by_provider_id(document: &Document, node: &Node, id: &str, is_retired: bool) -> Lookup {
    let is_its = |rule: &&Rule| rule.is_about(&node.name) && rule.provider_id(&node.name) == id;
    let its: Vec<&Rule> = document.rules.iter().filter(is_its).collect();
    match its.as_slice() {
        [] => Lookup::NotMine,
        _ if is_retired => Lookup::Gone,
        [rule] => found(rule, node),
        rules => match rules.iter().find(|rule| rule.matches(node)) {
            Some(rule) => found(rule, node),
            None => Lookup::Unknown(format!(
                "{} rules give this node its provider ID, and it has the labels and addresses of none of them",
                rules.len()
            )),
        },
    }
}

fn found(rule: &Rule, node: &Node) -> Lookup {
    let remedy = "list its addresses in the document";
    Lookup::found_with_ip(node, rule.instance(node), remedy)
}
