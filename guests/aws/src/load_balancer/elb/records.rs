//! Load balancers, listeners and target groups as AWS returns them.

use ccm_guest::{Ingress, LoadBalancerStatus};
use serde::{Deserialize, Serialize};

/// A load balancer of the API's version 2.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct LoadBalancer {
    /// The ARN, which identifies it in requests.
    pub load_balancer_arn: String,
    /// The name, made of the Service's UID.
    pub load_balancer_name: String,
    /// `network`, `application` or `gateway`.
    #[serde(default, rename = "Type")]
    pub kind: String,
    /// `internal` or `internet-facing`.
    #[serde(default)]
    pub scheme: String,
    /// The DNS name for clients.
    #[serde(default, rename = "DNSName")]
    pub dns_name: String,
    /// The ID of the VPC.
    #[serde(default)]
    pub vpc_id: String,
    /// The state of its creation and operation: `active`, `provisioning`, `active_impaired` or `failed`.
    #[serde(rename = "State.Code", default)]
    pub state: String,
    /// IDs of its subnets, one in each of its zones.
    #[serde(rename = "AvailabilityZones.*.SubnetId", default)]
    pub subnets: Vec<String>,
    /// IDs of the security groups; empty if it was created without any.
    #[serde(rename = "SecurityGroups.*", default)]
    pub security_groups: Vec<String>,
}

/// A listener of a load balancer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Listener {
    /// The ARN, which identifies it in requests.
    pub listener_arn: String,
    /// The port for clients.
    pub port: u16,
    /// `TCP`, `UDP`, `TLS` and so on.
    pub protocol: String,
    /// Name of the security policy; only with TLS.
    pub ssl_policy: Option<String>,
    /// ARNs of the certificates; only with TLS.
    #[serde(rename = "Certificates.*.CertificateArn", default)]
    pub certificates: Vec<String>,
    /// ARN of the target group that receives the connections.
    #[serde(rename = "DefaultActions.*.TargetGroupArn", default)]
    pub target_groups: Vec<String>,
}

/// A target group: a port on the nodes, with its health check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct TargetGroup {
    /// The ARN, which identifies it in requests.
    pub target_group_arn: String,
    /// The name, which contains a digest of the Service's UID and of all that cannot be changed.
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
    /// ARNs of the load balancers that use it.
    #[serde(rename = "LoadBalancerArns.*", default)]
    pub load_balancers: Vec<String>,
}

impl LoadBalancer {
    /// The status for the Service: the DNS name, if the load balancer works or is being created.
    pub fn status(&self) -> LoadBalancerStatus {
        let works = matches!(
            self.state.as_str(),
            "active" | "provisioning" | "active_impaired"
        );
        let name = Some(self.dns_name.to_lowercase()).filter(|name| works && !name.is_empty());
        LoadBalancerStatus::new(name.map(Ingress::hostname))
    }
}
