//! The provider's configuration. Keys and defaults are the Go manager's, so that either can replace the other. It never
//! contains a token: the host adds it to requests.

use ccm_guest::values::Values;
use ccm_guest::{Config, Error};

#[cfg(test)]
mod tests;

/// The parsed configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// `REGION`: the region of new load balancers. `None`: that of the VPC or of the nodes.
    pub region: Option<String>,
    /// `DO_CLUSTER_ID`: load balancers carry the tag `k8s:ID`.
    pub cluster: Option<String>,
    /// `DO_CLUSTER_VPC_ID`: the VPC of load balancers.
    pub vpc: Option<String>,
    /// `DEFAULT_LB_TYPE`: the type of new load balancers.
    pub default_type: Type,
    /// `DO_PROJECT_ID`, not in the Go manager: the project of new load balancers.
    pub project: Option<String>,
}

/// The type of a load balancer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    /// Terminates connections: TCP, UDP and HTTP.
    Regional,
    /// Forwards packets: TCP and UDP.
    RegionalNetwork,
}

impl Type {
    /// All variants, each with its name in the API.
    pub const NAMES: [(&'static str, Type); 2] = [
        ("REGIONAL", Type::Regional),
        ("REGIONAL_NETWORK", Type::RegionalNetwork),
    ];
}

impl Settings {
    /// Reads and checks the configuration.
    ///
    /// # Errors
    /// [`Error::Invalid`] with every mistake at once.
    pub fn read(config: &Config) -> Result<Settings, Error> {
        config.read(|values| Settings {
            region: tag_text(values, "REGION"),
            cluster: tag_text(values, "DO_CLUSTER_ID"),
            vpc: tag_text(values, "DO_CLUSTER_VPC_ID"),
            default_type: values
                .choice("DEFAULT_LB_TYPE", &Type::NAMES)
                .unwrap_or(Type::RegionalNetwork),
            project: tag_text(values, "DO_PROJECT_ID"),
        })
    }

    /// The tag of the cluster's load balancers.
    pub fn cluster_tag(&self) -> Option<String> {
        self.cluster.as_ref().map(|id| format!("k8s:{id}"))
    }
}

/// A value whose characters are all allowed in a path and in a tag.
fn tag_text(values: &mut Values<'_>, key: &str) -> Option<String> {
    let text = values.text(key)?;
    if !is_tag(text) {
        values.wrong::<()>(
            key,
            "may contain only letters, digits, colons, dashes and underscores",
        );
    }
    Some(text.to_owned())
}

/// Whether the vendor accepts this text as a tag, or as a part of one.
pub fn is_tag(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b":-_".contains(&byte);
    (1..=200).contains(&text.len()) && text.bytes().all(is_allowed)
}
