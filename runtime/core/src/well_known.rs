//! Names shared with other programs: labels, taints, annotations and controller names, each defined once. Other
//! programs match on them: do not change any. Holds no logic.

/// The provider that owns a node, a Service or a cloud object; the value is its name. Written at initialisation.
pub const OWNER_LABEL: &str = "wasm-ccm.dev/provider";
/// Domain of this project's labels and annotations; no provider may write under it.
pub const OUR_DOMAIN: &str = "wasm-ccm.dev";
/// Domains of labels and annotations that no provider may set, at or below them: those of Kubernetes (NODE-034), and this
/// project's.
pub const RESERVED_DOMAINS: [&str; 3] = ["kubernetes.io", "k8s.io", OUR_DOMAIN];

/// The owner of a Service, as an annotation: written before the first load balancer is made.
pub const SERVICE_OWNER: &str = OWNER_LABEL;
/// Keeps a Service until its load balancer is gone (SVC-031).
pub const LOAD_BALANCER_FINALIZER: &str = "service.kubernetes.io/load-balancer-cleanup";
/// Keeps a node out of all load balancers, unless its value is `false` or equivalent (SVC-060).
pub const EXCLUDE_FROM_LOAD_BALANCERS: &str =
    "node.kubernetes.io/exclude-from-external-load-balancers";
/// Source ranges as an annotation, for Services without `spec.loadBalancerSourceRanges` (SVC-090).
pub const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";

/// This project's Service condition: whether the load balancer is in its desired state.
pub const LOAD_BALANCER_CONDITION: &str = "wasm-ccm.dev/LoadBalancer";
/// Kubernetes' own condition: ports of a Service that its load balancer does not serve.
pub const PORTS_CONDITION: &str = "LoadBalancerPortsError";

/// Set by a person. On a node: its deletion is requested until this time (RFC 3339), even if no known-good node
/// verifies the answers or the node has no provider ID, and despite any brake. On a Service: its load balancer is given
/// up until then, even if no known object was found in the provider's account.
pub const DELETE_UNTIL: &str = "wasm-ccm.dev/delete-until";

/// API group of this project's kinds.
pub const PROVIDER_GROUP: &str = OUR_DOMAIN;
/// API version of this project's kinds.
pub const PROVIDER_VERSION: &str = "v1alpha1";
/// Kind of the object that records one provider's versions.
pub const PROVIDER_KIND: &str = "Provider";
/// The same in URLs.
pub const PROVIDER_PLURAL: &str = "providers";
/// Set by a person on a Provider: only this digest may serve.
pub const PIN: &str = "wasm-ccm.dev/pin";
/// Set by a person on a Provider: no new version is tried, unless its value is `false` or equivalent.
pub const PAUSE: &str = "wasm-ccm.dev/pause";
/// Set by a person on a Provider: return to the previous version. Removed when done.
pub const ROLL_BACK: &str = "wasm-ccm.dev/roll-back";
/// Set by a person on a Provider: approves the wider requests of this digest.
pub const APPROVE: &str = "wasm-ccm.dev/approve";
/// Set by a person on a Provider: this digest may be tried again. Removed when done.
pub const RETRY: &str = "wasm-ccm.dev/retry";
/// Set by a person on a Provider: this digest may be older than versions that have served, but not than the minimum version.
pub const ALLOW_DOWNGRADE: &str = "wasm-ccm.dev/allow-downgrade";
/// Set by a person on a Provider: this digest may change many load balancers that the active version leaves alone.
pub const ALLOW_CHANGES: &str = "wasm-ccm.dev/allow-changes";
/// Set by a person on the definition of the kind Provider: it may be deleted, and every Provider with it. The policy of
/// `deploy/kustomize` asks for it.
pub const ALLOW_DELETION: &str = "wasm-ccm.dev/allow-deletion";

/// Written by this manager on its Lease: when Nodes were deleted and for which provider, as far as these deletions count
/// for the brake.
pub const SPENT_NODE_DELETIONS: &str = "wasm-ccm.dev/spent-node-deletions";
/// Written by this manager on its Lease: the same for load balancers.
pub const SPENT_LOAD_BALANCER_DELETIONS: &str = "wasm-ccm.dev/spent-load-balancer-deletions";
/// Written by this manager on its Lease: the same for routes.
pub const SPENT_ROUTE_DELETIONS: &str = "wasm-ccm.dev/spent-route-deletions";

/// Source component of the Events about Providers.
pub const PROVIDER_EVENTS: &str = "ccm";

/// Set by this manager on nodes whose machine is shut down (LIFE-013).
pub const SHUTDOWN_TAINT: &str = "node.cloudprovider.kubernetes.io/shutdown";
/// Set by the cluster autoscaler on nodes whose machine it is about to remove.
pub const TO_BE_DELETED_TAINT: &str = "ToBeDeletedByClusterAutoscaler";
/// Set by a person on nodes whose machine will not come back.
pub const OUT_OF_SERVICE_TAINT: &str = "node.kubernetes.io/out-of-service";
/// Set by Karpenter, since its API v1, on nodes whose machine it is about to remove.
pub const KARPENTER_DISRUPTED_TAINT: &str = "karpenter.sh/disrupted";
/// The same in Karpenter's API v1beta1.
pub const KARPENTER_DISRUPTION_TAINT: &str = "karpenter.sh/disruption";
/// Taints that announce the removal of the node's machine.
pub const LEAVING_TAINTS: [&str; 4] = [
    TO_BE_DELETED_TAINT,
    OUT_OF_SERVICE_TAINT,
    KARPENTER_DISRUPTED_TAINT,
    KARPENTER_DISRUPTION_TAINT,
];

/// Set by the kubelet under `--cloud-provider=external`, removed by this manager (NODE-011, IFACE-063).
pub const UNINITIALIZED_TAINT: &str = "node.cloudprovider.kubernetes.io/uninitialized";

/// The kubelet's `--node-ip` (NODE-025, NODE-084).
pub const PROVIDED_NODE_IP: &str = "alpha.kubernetes.io/provided-node-ip";
/// kubectl's copy of the whole object: never shown to a provider, never cached.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Machine type, current name (NODE-031).
pub const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
/// Machine type, deprecated name, still written (NODE-031).
pub const INSTANCE_TYPE_BETA: &str = "beta.kubernetes.io/instance-type";
/// Zone, current name (NODE-032).
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// Zone, deprecated name, still written (NODE-032).
pub const ZONE_BETA: &str = "failure-domain.beta.kubernetes.io/zone";
/// Region, current name (NODE-032).
pub const REGION: &str = "topology.kubernetes.io/region";
/// Region, deprecated name, still written (NODE-032).
pub const REGION_BETA: &str = "failure-domain.beta.kubernetes.io/region";

/// Marks a control-plane node. Cannot be set with a kubelet's permissions.
pub const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";

/// This program's name as a component: upstream's, because people filter Events by it, and files of leader migration
/// name it.
pub const COMPONENT: &str = "cloud-controller-manager";
/// The node controller's Event source component, and its name in logs and in `--controllers` (NODE-001).
pub const NODE_CONTROLLER: &str = "cloud-node-controller";
/// The same for the node lifecycle controller (LIFE-001).
pub const NODE_LIFECYCLE_CONTROLLER: &str = "cloud-node-lifecycle-controller";
/// The service controller's name (SVC-001); its Events come from `service-controller`.
pub const SERVICE_CONTROLLER: &str = "service-lb-controller";
/// Source component of the service controller's Events (SVC-001).
pub const SERVICE_EVENTS: &str = "service-controller";
/// The route controller's name; its Events come from `route_controller` (ROUTE-006).
pub const ROUTE_CONTROLLER: &str = "node-route-controller";
/// Source component of the route controller's Events (ROUTE-006).
pub const ROUTE_EVENTS: &str = "route_controller";
/// The node IPAM controller's name; its Events come from `cidrAllocator` (IPAM-001, IPAM-029).
pub const IPAM_CONTROLLER: &str = "node-ipam-controller";
/// Source component of the node IPAM controller's Events (IPAM-029).
pub const IPAM_EVENTS: &str = "cidrAllocator";
/// Node condition: pods on the node cannot reach others. Written by the route controller and by network plugins.
pub const NETWORK_UNAVAILABLE: &str = "NetworkUnavailable";
/// Namespace and name of the Lease whose holder is the kube-controller-manager that acts.
pub const KUBE_CONTROLLER_MANAGER_LEASE: (&str, &str) = ("kube-system", "kube-controller-manager");
/// Field manager of every write of this manager.
pub const FIELD_MANAGER: &str = "ccm";

#[cfg(test)]
mod tests {
    use super::*;

    /// As upstream's `cloud-provider/api`, Kubernetes' own API and other programs spell them.
    #[test]
    fn iface_063_every_name_shared_with_other_programs_is_spelt_as_they_spell_it() {
        for (ours, theirs) in [
            (
                UNINITIALIZED_TAINT,
                "node.cloudprovider.kubernetes.io/uninitialized",
            ),
            (SHUTDOWN_TAINT, "node.cloudprovider.kubernetes.io/shutdown"),
            (PROVIDED_NODE_IP, "alpha.kubernetes.io/provided-node-ip"),
            (
                LOAD_BALANCER_FINALIZER,
                "service.kubernetes.io/load-balancer-cleanup",
            ),
            (
                EXCLUDE_FROM_LOAD_BALANCERS,
                "node.kubernetes.io/exclude-from-external-load-balancers",
            ),
            (
                SOURCE_RANGES,
                "service.beta.kubernetes.io/load-balancer-source-ranges",
            ),
            (PORTS_CONDITION, "LoadBalancerPortsError"),
            (NETWORK_UNAVAILABLE, "NetworkUnavailable"),
            (INSTANCE_TYPE, "node.kubernetes.io/instance-type"),
            (INSTANCE_TYPE_BETA, "beta.kubernetes.io/instance-type"),
            (ZONE, "topology.kubernetes.io/zone"),
            (ZONE_BETA, "failure-domain.beta.kubernetes.io/zone"),
            (REGION, "topology.kubernetes.io/region"),
            (REGION_BETA, "failure-domain.beta.kubernetes.io/region"),
            (CONTROL_PLANE, "node-role.kubernetes.io/control-plane"),
            (
                LAST_APPLIED,
                "kubectl.kubernetes.io/last-applied-configuration",
            ),
            (TO_BE_DELETED_TAINT, "ToBeDeletedByClusterAutoscaler"),
            (OUT_OF_SERVICE_TAINT, "node.kubernetes.io/out-of-service"),
            (KARPENTER_DISRUPTED_TAINT, "karpenter.sh/disrupted"),
            (KARPENTER_DISRUPTION_TAINT, "karpenter.sh/disruption"),
            (COMPONENT, "cloud-controller-manager"),
            (NODE_CONTROLLER, "cloud-node-controller"),
            (NODE_LIFECYCLE_CONTROLLER, "cloud-node-lifecycle-controller"),
            (SERVICE_CONTROLLER, "service-lb-controller"),
            (SERVICE_EVENTS, "service-controller"),
            (ROUTE_CONTROLLER, "node-route-controller"),
            (ROUTE_EVENTS, "route_controller"),
            (IPAM_CONTROLLER, "node-ipam-controller"),
            (IPAM_EVENTS, "cidrAllocator"),
            (KUBE_CONTROLLER_MANAGER_LEASE.0, "kube-system"),
            (KUBE_CONTROLLER_MANAGER_LEASE.1, "kube-controller-manager"),
        ] {
            assert_eq!(ours, theirs);
        }
    }

    /// Clusters have them in their objects, and people in their manifests.
    #[test]
    fn the_names_of_our_own_in_a_cluster_never_change() {
        for (name, stored) in [
            (OWNER_LABEL, "wasm-ccm.dev/provider"),
            (SERVICE_OWNER, "wasm-ccm.dev/provider"),
            (LOAD_BALANCER_CONDITION, "wasm-ccm.dev/LoadBalancer"),
            (DELETE_UNTIL, "wasm-ccm.dev/delete-until"),
            (PROVIDER_GROUP, "wasm-ccm.dev"),
            (PROVIDER_VERSION, "v1alpha1"),
            (PROVIDER_KIND, "Provider"),
            (PROVIDER_PLURAL, "providers"),
            (PIN, "wasm-ccm.dev/pin"),
            (PAUSE, "wasm-ccm.dev/pause"),
            (ROLL_BACK, "wasm-ccm.dev/roll-back"),
            (APPROVE, "wasm-ccm.dev/approve"),
            (RETRY, "wasm-ccm.dev/retry"),
            (ALLOW_DOWNGRADE, "wasm-ccm.dev/allow-downgrade"),
            (ALLOW_CHANGES, "wasm-ccm.dev/allow-changes"),
            (ALLOW_DELETION, "wasm-ccm.dev/allow-deletion"),
            (SPENT_NODE_DELETIONS, "wasm-ccm.dev/spent-node-deletions"),
            (
                SPENT_LOAD_BALANCER_DELETIONS,
                "wasm-ccm.dev/spent-load-balancer-deletions",
            ),
            (SPENT_ROUTE_DELETIONS, "wasm-ccm.dev/spent-route-deletions"),
            (FIELD_MANAGER, "ccm"),
        ] {
            assert_eq!(name, stored);
        }
    }
}
