//! Load balancer settings of a provider's entry.

use std::collections::{BTreeMap, BTreeSet};

use ccm_core::name_syntax::is_label_key;
use ccm_core::settings::Adoption;
use ipnet::IpNet;

use super::ProviderConfig;
use super::raw::RawProvider;

/// The Services that a provider makes load balancers for, and the limits for those.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct LoadBalancerConfig {
    /// `loadBalancerClasses`: the classes that it serves.
    pub classes: BTreeSet<String>,
    /// `defaultLoadBalancer`: whether it serves Services without a class. Default: if it is the only provider.
    pub is_default: Option<bool>,
    /// `ingressCIDRs`: ranges that must contain every load balancer address. Empty: anywhere outside the cluster.
    pub ingress_cidrs: Vec<IpNet>,
    /// `adoptLoadBalancers`: true for [`Adoption::Orphaned`]; otherwise `adoptUnownedLoadBalancers`: true for
    /// [`Adoption::Unowned`]. Default of both: false, for [`Adoption::Never`]. A shipped module that runs without a
    /// file has the default of its [profile](crate::builtin_grants::adoption).
    pub adoption: Adoption,
}

/// Reports two providers that both serve Services without a class.
pub(super) fn defaults(providers: &[ProviderConfig]) -> Option<String> {
    let mut defaults = providers
        .iter()
        .filter(|provider| provider.load_balancers.is_default == Some(true));
    let (one, other) = (defaults.next()?, defaults.next()?);
    Some(format!(
        "defaultLoadBalancer: Services without a class are served by the providers {:?} and {:?}: one of them has to go",
        one.name, other.name
    ))
}

/// Reports providers that serve the same class.
pub(super) fn class_conflicts(providers: &[ProviderConfig]) -> Vec<String> {
    let mut claimed: BTreeMap<&str, &str> = BTreeMap::new();
    let mut mistakes = Vec::new();
    for provider in providers {
        for class in &provider.load_balancers.classes {
            if let Some(other) = claimed.insert(class, &provider.name) {
                mistakes.push(format!(
                    "loadBalancerClasses: {class:?} is served by the providers {other:?} and {:?}: one of them has to go",
                    provider.name
                ));
            }
        }
    }
    mistakes
}

/// Interprets the entry; adds errors to `mistakes`.
pub(super) fn load_balancers(
    place: &str,
    raw: &RawProvider,
    mistakes: &mut Vec<String>,
) -> LoadBalancerConfig {
    let mut classes = BTreeSet::new();
    for class in &raw.load_balancer_classes {
        // The format that the API server requires for `spec.loadBalancerClass`.
        if !is_label_key(class) {
            mistakes.push(format!(
                "{place}: load balancer class {class:?}: expected a label such as example.com/internal"
            ));
        } else if !classes.insert(class.clone()) {
            mistakes.push(format!(
                "{place}: load balancer class {class:?} is there twice"
            ));
        }
    }
    let mut ingress_cidrs = Vec::new();
    for text in &raw.ingress_cidrs {
        match text.parse() {
            Ok(network) => ingress_cidrs.push(network),
            Err(_) => mistakes.push(format!(
                "{place}: ingressCIDRs {text:?}: expected a range such as 203.0.113.0/24"
            )),
        }
    }
    LoadBalancerConfig {
        classes,
        is_default: raw.default_load_balancer,
        ingress_cidrs,
        adoption: match (raw.adopt_load_balancers, raw.adopt_unowned_load_balancers) {
            (Some(true), _) => Adoption::Orphaned,
            (_, Some(true)) => Adoption::Unowned,
            _ => Adoption::Never,
        },
    }
}
