//! Which provider speaks for a node. What is written down decides; nobody is an answer. Never changes
//! an owner: a recorded one stays, also when the configuration says otherwise.

use k8s_openapi::api::core::v1::Node;

use crate::names::OWNER_LABEL;
use crate::provider_id::ProviderId;

/// Who a provider is, as far as ownership goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimant {
    /// The provider's name.
    pub name: String,
    /// The provider ID schemes that it owns.
    pub schemes: Vec<String>,
}

/// Who speaks for a node, seen from one provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    /// This provider, by its recorded name.
    Recorded,
    /// This provider, because the provider ID has one of its schemes; not written down yet. So are nodes
    /// that another cloud-controller-manager initialised.
    Implied,
    /// Nobody yet: no owner and no provider ID.
    Nobody,
    /// Somebody else; the text says who.
    Other(String),
}

/// Who speaks for `node`, as `claimant` has to see it.
pub fn owner(node: &Node, claimant: &Claimant) -> Owner {
    if let Some(recorded) = recorded_owner(node) {
        return if recorded == claimant.name {
            Owner::Recorded
        } else {
            Owner::Other(format!("the provider {recorded:?}"))
        };
    }
    let Some(stored) = stored_provider_id(node) else {
        return Owner::Nobody;
    };
    match ProviderId::parse(stored) {
        Ok(id) if claimant.schemes.iter().any(|ours| ours == id.scheme) => Owner::Implied,
        Ok(id) => Owner::Other(format!("the owner of the scheme {:?}", id.scheme)),
        Err(_) => Owner::Other(format!("whoever wrote the provider ID {stored:?}")),
    }
}

/// The owner that is written down on `node`. An empty label is none.
pub fn recorded_owner(node: &Node) -> Option<&str> {
    let labels = node.metadata.labels.as_ref()?;
    labels
        .get(OWNER_LABEL)
        .map(String::as_str)
        .filter(|name| !name.is_empty())
}

/// `spec.providerID`, if it is set and not empty.
pub fn stored_provider_id(node: &Node) -> Option<&str> {
    node.spec
        .as_ref()?
        .provider_id
        .as_deref()
        .filter(|id| !id.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::NodeSpec;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

    fn seen_by_sim(label: Option<&str>, provider_id: Option<&str>) -> Owner {
        let node = Node {
            metadata: ObjectMeta {
                labels: label.map(|name| [(OWNER_LABEL.to_owned(), name.to_owned())].into()),
                ..ObjectMeta::default()
            },
            spec: Some(NodeSpec {
                provider_id: provider_id.map(str::to_owned),
                ..NodeSpec::default()
            }),
            ..Node::default()
        };
        let claimant = Claimant {
            name: "sim".to_owned(),
            schemes: vec!["sim".to_owned()],
        };
        owner(&node, &claimant)
    }

    #[test]
    fn what_is_recorded_decides_over_the_scheme() {
        assert_eq!(seen_by_sim(Some("sim"), Some("other://1")), Owner::Recorded);
        assert!(matches!(
            seen_by_sim(Some("other"), Some("sim://1")),
            Owner::Other(_)
        ));
    }

    #[test]
    fn without_a_record_the_scheme_decides_and_without_both_nobody_owns() {
        assert_eq!(seen_by_sim(None, Some("sim://1")), Owner::Implied);
        assert_eq!(seen_by_sim(None, None), Owner::Nobody);
        assert_eq!(seen_by_sim(Some(""), Some("")), Owner::Nobody);
        for foreign in ["simx://1", "other://1", "1", "sim:1", "Sim://1"] {
            assert!(
                matches!(seen_by_sim(None, Some(foreign)), Owner::Other(_)),
                "{foreign}"
            );
        }
    }
}
