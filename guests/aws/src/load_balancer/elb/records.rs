//! Load balancers, listeners and target groups as AWS tells them.

use ccm_guest::{Ingress, LoadBalancerStatus};
use serde::{Deserialize, Serialize};

use crate::query::List;

/// A load balancer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct LoadBalancer {
    /// Its name for requests.
    pub load_balancer_arn: String,
    /// Its name.
    pub load_balancer_name: String,
    /// `network`, `application` or `gateway`.
    #[serde(default, rename = "Type")]
    pub kind: String,
    /// `internal` or `internet-facing`.
    #[serde(default)]
    pub scheme: String,
    /// The address that clients use.
    #[serde(default, rename = "DNSName")]
    pub dns_name: String,
    /// Its VPC.
    #[serde(default)]
    pub vpc_id: String,
    /// Whether it works.
    #[serde(default)]
    pub state: State,
    /// Its subnets.
    #[serde(default)]
    pub availability_zones: List<ZoneOf>,
    /// Its security groups.
    #[serde(default)]
    pub security_groups: List<String>,
}

/// State of a load balancer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct State {
    /// `active`, `provisioning`, `active_impaired` or `failed`.
    pub code: String,
}

/// A zone of a load balancer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ZoneOf {
    /// The subnet in that zone.
    pub subnet_id: String,
}

/// A listener.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Listener {
    /// Its name for requests.
    pub listener_arn: String,
    /// Its port.
    pub port: u16,
    /// `TCP`, `UDP`, `TLS` and so on.
    pub protocol: String,
    /// Policy for TLS.
    #[serde(default)]
    pub ssl_policy: Option<String>,
    /// Certificates for TLS.
    #[serde(default)]
    pub certificates: List<Certificate>,
    /// Where connections go.
    #[serde(default)]
    pub default_actions: List<Action>,
}

/// A certificate of a listener.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Certificate {
    /// The certificate.
    pub certificate_arn: String,
}

/// Where a listener's connections go.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Action {
    /// The target group.
    pub target_group_arn: String,
}

/// A target group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct TargetGroup {
    /// Its name for requests.
    pub target_group_arn: String,
    /// Its name.
    pub target_group_name: String,
    /// Port of its targets.
    #[serde(default)]
    pub port: u16,
    /// Protocol of its targets.
    #[serde(default)]
    pub protocol: String,
    /// Protocol of health checks.
    #[serde(default)]
    pub health_check_protocol: String,
    /// Port of health checks, or `traffic-port`.
    #[serde(default)]
    pub health_check_port: String,
    /// Path of health checks.
    #[serde(default)]
    pub health_check_path: Option<String>,
    /// Seconds between health checks.
    #[serde(default)]
    pub health_check_interval_seconds: u32,
    /// Successes until a node is healthy.
    #[serde(default)]
    pub healthy_threshold_count: u32,
    /// Failures until a node is unhealthy.
    #[serde(default)]
    pub unhealthy_threshold_count: u32,
    /// Load balancers that use it.
    #[serde(default)]
    pub load_balancer_arns: List<String>,
}

impl LoadBalancer {
    /// What the Service stores: the name, while it works or is being made.
    pub fn status(&self) -> LoadBalancerStatus {
        let works = matches!(
            self.state.code.as_str(),
            "active" | "provisioning" | "active_impaired"
        );
        let name = Some(self.dns_name.to_lowercase()).filter(|name| works && !name.is_empty());
        LoadBalancerStatus::new(name.map(Ingress::hostname))
    }

    /// The IDs of its subnets.
    pub fn subnets(&self) -> Vec<String> {
        self.availability_zones
            .items
            .iter()
            .map(|zone| zone.subnet_id.clone())
            .collect()
    }
}
