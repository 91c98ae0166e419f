//! Provider IDs of AWS, and the instance ID in a node's name. Pure.
//!
//! | Form | Meaning |
//! |---|---|
//! | `aws:///ZONE/i-…` | an instance; the form that is written today |
//! | `aws:////i-…`, `aws:///i-…` | an instance whose zone is not stated |
//! | `i-…` | the same, but only targets of load balancers have it: the manager serves no provider ID without a scheme |
//! | `aws:///ZONE/fargate-…` and the like | a Fargate node: see [`Id::Fargate`] |
//! | any other text that begins with `aws:` | unreadable: the node is left alone |

use ccm_guest::Node;

/// The meaning of a provider ID.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Id<'a> {
    /// An EC2 instance.
    Instance {
        /// The instance ID: `i-` and ASCII letters or digits, so that it is no wildcard in a filter.
        id: &'a str,
        /// The zone, if the provider ID names it.
        zone: Option<&'a str>,
    },
    /// A node on Fargate. It has no instance, and only EKS, which runs its own manager, has such nodes.
    Fargate,
    /// A provider ID of another provider's scheme.
    Foreign,
    /// A provider ID with the scheme of AWS and no known form.
    Unreadable,
}

/// Parses a provider ID.
pub fn read(text: &str) -> Id<'_> {
    let path = match text.strip_prefix("aws://") {
        // The text up to the next slash would be a host, which no form has.
        Some(rest) => match rest.split_once('/') {
            Some((_, path)) => path,
            None => return Id::Unreadable,
        },
        None if text.contains(':') && !text.starts_with("aws:") => return Id::Foreign,
        None => text,
    };
    let path = path.trim_matches('/');
    let (before, last) = path.rsplit_once('/').unwrap_or(("", path));
    let zone = before.rsplit('/').next().filter(|zone| !zone.is_empty());
    if last.starts_with("fargate-") {
        Id::Fargate
    } else if is_instance_id(last) {
        Id::Instance { id: last, zone }
    } else {
        Id::Unreadable
    }
}

/// The ID of the instance that a node's provider ID names.
pub fn instance_of(node: &Node) -> Option<&str> {
    match read(node.provider_id.as_deref()?) {
        Id::Instance { id, .. } => Some(id),
        _ => None,
    }
}

/// The provider ID of an instance, in the form that is written today.
pub fn write(zone: &str, id: &str) -> String {
    format!("aws:///{zone}/{id}")
}

/// The instance ID in the name of a node with resource-based naming, with or without a domain.
pub fn in_name(name: &str) -> Option<&str> {
    let first = name.split('.').next()?;
    is_instance_id(first).then_some(first)
}

/// Whether the text is an instance ID, and so no wildcard in a filter.
pub fn is_instance_id(text: &str) -> bool {
    let rest = text.strip_prefix("i-").unwrap_or_default();
    (1..=62).contains(&rest.len()) && rest.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_that_the_go_provider_reads_is_read() {
        let instance = |zone| Id::Instance {
            id: "i-0abc123",
            zone,
        };
        for (text, id) in [
            ("aws:///us-east-1a/i-0abc123", instance(Some("us-east-1a"))),
            ("aws:////i-0abc123", instance(None)),
            ("aws:///i-0abc123", instance(None)),
            (
                "aws://host/us-east-1a/i-0abc123",
                instance(Some("us-east-1a")),
            ),
            ("aws:///us-east-1a/i-0abc123/", instance(Some("us-east-1a"))),
            ("i-0abc123", instance(None)),
            ("aws:///us-east-1a/fargate-10.0.0.1", Id::Fargate),
            (
                "aws:///us-east-1a/abc/fargate-ip-10-0-0-1.ec2.internal",
                Id::Fargate,
            ),
            ("hcloud://1", Id::Foreign),
            ("aws://i-0abc123", Id::Unreadable),
            ("aws:///us-east-1a/i-*", Id::Unreadable),
            ("aws:///us-east-1a/i-", Id::Unreadable),
            ("aws:///us-east-1a/vol-1", Id::Unreadable),
            ("aws:", Id::Unreadable),
        ] {
            assert_eq!(read(text), id, "{text}");
        }
        assert_eq!(
            read(&write("us-east-1a", "i-0abc123")),
            instance(Some("us-east-1a"))
        );
    }

    #[test]
    fn names_with_resource_based_naming_name_their_instance() {
        for (name, id) in [
            ("i-0abc123", Some("i-0abc123")),
            ("i-0abc123.us-west-2.compute.internal", Some("i-0abc123")),
            ("ip-10-0-0-1.ec2.internal", None),
            ("i-", None),
            ("i-am-a-name", None),
        ] {
            assert_eq!(in_name(name), id, "{name}");
        }
    }
}
