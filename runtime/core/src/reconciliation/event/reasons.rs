//! Every Event reason of this program, with its meaning and what a person can do about it. The reasons of providers'
//! own Events are not here. Holds no logic. `deploy/docs/reference/events.md` is made from it.

use crate::cloud::instance::EventType;

/// Kind of the object that an Event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A node.
    Node,
    /// A Service.
    Service,
    /// A `Provider`.
    Provider,
    /// The manager's Lease.
    Lease,
}

/// An Event reason and its documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventReason {
    /// Reason as written into the Event.
    pub reason: &'static str,
    /// Type of such Events.
    pub event_type: EventType,
    /// Kinds of the objects that have such Events.
    pub about: &'static [Kind],
    /// The situation that the Event reports, as a sentence.
    pub meaning: &'static str,
    /// What a person can do; empty: nothing.
    pub action: &'static str,
}

/// Defines a constant for each reason, and the table of all.
macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $reason:literal, $type:ident, [$($kind:ident),+], $meaning:literal, $action:literal;)+) => {
        $($(#[$doc])* #[doc = $meaning] pub const $name: &EventReason = &EventReason {
            reason: $reason,
            event_type: EventType::$type,
            about: &[$(Kind::$kind),+],
            meaning: $meaning,
            action: $action,
        };)+

        /// All reasons, in the order of the documentation.
        pub const REASONS: &[&EventReason] = &[$($name),+];
    };
}

reasons! {
    SYNCED = "Synced", Normal, [Node],
        "The node is initialised.",
        "";
    INSTANCE_NOT_FOUND = "InstanceNotFound", Warning, [Node],
        "No responsible provider finds the node's machine.",
        "The machine's name has to be the node's, or the kubelet gets `--provider-id`. Is the credential the right project's?";
    INSTANCE_LOOKUP_FAILED = "InstanceLookupFailed", Warning, [Node],
        "The cloud did not answer, or its answer was not conclusive.",
        "See the text: the credential, the network, two machines of one name.";
    NODE_NOT_SERVED = "NodeNotServed", Warning, [Node],
        "The node's recorded owner does not serve here: it is not configured, no version of it serves, or it contradicts another provider; or no provider's node selector matches the new node, or no provider that serves here has the scheme of its provider ID.",
        "Configure it, look up with `ccm provider status` why it does not serve, change the label `wasm-ccm.dev/provider`, or correct the node's labels or the selectors. With a provider ID of another cloud: if another manager serves that cloud, see why it does not initialise the node; otherwise (`k3s://…`) delete the Node and restart its kubelet, because the provider ID cannot be changed.";
    PROVIDER_AMBIGUOUS = "ProviderAmbiguous", Warning, [Node],
        "Two providers find the machine.",
        "Use selectors, `--provider-id`, or the label `wasm-ccm.dev/provider`.";
    PROVIDER_UNDECIDED = "ProviderUndecided", Warning, [Node],
        "One provider finds the machine, and another one cannot be asked.",
        "Repair the other one.";
    DUPLICATE_PROVIDER_ID = "DuplicateProviderID", Warning, [Node],
        "Two nodes have the same machine.",
        "Delete the node that does not run on this machine.";
    INVALID_PROVIDER_ANSWER = "InvalidProviderAnswer", Warning, [Node, Service],
        "A part of the provider's answer is not used; the text says why.",
        "Usually the cloud or the module is at fault. `safety.md`, \"What is checked of a provider's answers\", lists the rules; `load-balancers.md` has those for Services.";
    INVALID_PROVIDED_NODE_IP = "InvalidProvidedNodeIP", Warning, [Node],
        "The kubelet's `--node-ip` is not an address, or not one of the machine's.",
        "Correct the flag, or configure the network that it is in (`HCLOUD_NETWORK`).";
    CHANGE_UNCONFIRMED = "ChangeUnconfirmed", Warning, [Node],
        "A dangerous change waits for a second, equal answer.",
        "Nothing, unless it lasts.";
    BRAKE_ENGAGED = "BrakeEngaged", Warning, [Node, Service],
        "The number of changes allowed in a period is used up.",
        "Find the reason for the many changes. `--brake` changes the limit.";
    NODE_UPDATE_FAILED = "NodeUpdateFailed", Warning, [Node],
        "The API server refuses a write.",
        "Check rights and admission webhooks.";
    NODE_DELETION_HELD = "NodeDeletionHeld", Warning, [Node],
        "The node's machine is gone, or seems to be, and a condition holds the deletion.",
        "See `safety.md`, \"A deletion that is held\".";
    DELETING_NODE = "DeletingNode", Normal, [Node],
        "The node is deleted, because its machine is gone.",
        "";
    DELETING_NODE_FAILED = "DeletingNodeFailed", Warning, [Node],
        "The API server refused to delete the node.",
        "Check rights and admission webhooks.";
    FAILED_TO_CREATE_ROUTE = "FailedToCreateRoute", Warning, [Node],
        "The cloud refused a route; the text has its error message. It is retried with growing delays.",
        "See the text, and `pod-networks.md`.";
    FOREIGN_ROUTE = "ForeignRoute", Warning, [Node],
        "A foreign route occupies the destination of the node's route; the text has its target.",
        "Delete it at the cloud if it is not needed.";
    CLUSTER_CIDR_MISCONFIGURED = "ClusterCIDRMisconfigured", Warning, [Node],
        "The node's pod CIDR lies outside of `--cluster-cidr`, or is not a CIDR: no route is created.",
        "Correct `--cluster-cidr`.";
    POD_CIDR_OVERLAPS = "PodCIDROverlaps", Warning, [Node],
        "Another node has addresses of the node's pod CIDR: no route is created.",
        "Delete one of the nodes, and let it join again.";
    INVALID_POD_CIDR = "InvalidPodCIDR", Warning, [Node],
        "No node can have these pod CIDRs: nothing is changed.",
        "Delete the node, and let it join again.";
    CIDR_NOT_AVAILABLE = "CIDRNotAvailable", Warning, [Node],
        "All pod ranges are used. The next free range goes to a waiting node.",
        "Remove nodes, or widen `--cluster-cidr`.";
    CIDR_ASSIGNMENT_FAILED = "CIDRAssignmentFailed", Warning, [Node],
        "The API server did not accept the node's pod CIDRs; they are free again.",
        "Check rights and admission webhooks.";
    OTHER_POD_CIDR_ALLOCATOR = "OtherPodCIDRAllocator", Warning, [Node],
        "Another allocator assigns the nodes' pod CIDRs; `ccm` assigns none meanwhile.",
        "Drop `--allocate-node-cidrs` from one of the two.";
    POD_CIDR_ALLOCATION_TAKEN_OVER = "PodCIDRAllocationTakenOver", Normal, [Node],
        "The other allocator is gone, and `ccm` allocates.",
        "";
    ENSURING_LOAD_BALANCER = "EnsuringLoadBalancer", Normal, [Service],
        "A load balancer is created or changed.",
        "";
    ENSURED_LOAD_BALANCER = "EnsuredLoadBalancer", Normal, [Service],
        "The load balancer is as the Service wants it.",
        "";
    UPDATED_LOAD_BALANCER = "UpdatedLoadBalancer", Normal, [Service],
        "The load balancer has a new set of nodes.",
        "";
    DELETING_LOAD_BALANCER = "DeletingLoadBalancer", Normal, [Service],
        "The load balancer is removed.",
        "";
    DELETED_LOAD_BALANCER = "DeletedLoadBalancer", Normal, [Service],
        "The load balancer is proven to be gone.",
        "";
    SYNC_LOAD_BALANCER_FAILED = "SyncLoadBalancerFailed", Warning, [Service],
        "The load balancer could not be created or changed or, for a Service that is being deleted, removed.",
        "See the text. If a person has to act, any change of the Service triggers a retry at once.";
    UPDATE_LOAD_BALANCER_FAILED = "UpdateLoadBalancerFailed", Warning, [Service],
        "A new set of nodes could not be applied.",
        "A full sync follows at once, and its Event says more.";
    DELETE_LOAD_BALANCER_FAILED = "DeleteLoadBalancerFailed", Warning, [Service],
        "The load balancer of a Service that was removed by force could not be removed, or is still there.",
        "See the text. It is tried again while this manager runs.";
    UNAVAILABLE_LOAD_BALANCER = "UnAvailableLoadBalancer", Warning, [Service],
        "No node qualifies as a target.",
        "Check provider IDs, exclusion labels and taints: `load-balancers.md`.";
    LOAD_BALANCER_NOT_SERVED = "LoadBalancerNotServed", Warning, [Service],
        "The Service names a provider that does not serve here, or a class that no provider here serves.",
        "Correct the annotation, the class, or the configuration. `ccm provider status` shows why a provider does not serve.";
    LOAD_BALANCER_OWNER_RESTORED = "LoadBalancerOwnerRestored", Warning, [Service],
        "The annotation `wasm-ccm.dev/provider` was changed while its provider has the load balancer, and was set back.",
        "To move the Service to another provider, delete it and create it again.";
    LOAD_BALANCER_PENDING = "LoadBalancerPending", Warning, [Service],
        "The cloud began to create, change or delete the load balancer ten minutes ago and has not finished.",
        "Look at the cloud's actions. With managed certificates: does their name resolve to the load balancer?";
    LOAD_BALANCER_ADOPTED = "LoadBalancerAdopted", Normal, [Service],
        "A load balancer without an existing owner was taken over: `adoptLoadBalancers` or `adoptUnownedLoadBalancers` allows it, or there is no file, and the shipped `hcloud` or `digitalocean` does so by default.",
        "`safety.md` says how to forbid it.";
    LOAD_BALANCER_STATUS_CLEARED = "LoadBalancerStatusCleared", Warning, [Service],
        "The Service's addresses are removed, because two answers of the provider had none.",
        "Look at the load balancer at the cloud.";
    PROVIDER_ACTIVATED = "ProviderActivated", Normal, [Provider],
        "This version serves; the text says so if it was not tried because its predecessor is lost.",
        "";
    PERMISSIONS_PENDING = "PermissionsPending", Warning, [Provider],
        "A version requests more than the grants, than the active or lost version, or than this ccm offers.",
        "`ccm provider status` shows the lines, and the command that approves them.";
    PROVIDER_DISTRUSTED = "ProviderDistrusted", Warning, [Provider],
        "A version has no valid signature or digest (yet), or it is older than the highest version that has served.",
        "Sign it, or correct `trust`; it is checked again. If the older one is intended: `wasm-ccm.dev/allow-downgrade`.";
    PROVIDER_REJECTED = "ProviderRejected", Warning, [Provider],
        "A version failed before it answered any call.",
        "Offer a new version, or set `wasm-ccm.dev/retry` if the environment was at fault.";
    PROVIDER_ROLLED_BACK = "ProviderRolledBack", Warning, [Provider],
        "A version that answered calls was worse than the one before, or a person requested the roll-back.",
        "Offer a new version, or set `wasm-ccm.dev/retry` if the environment was at fault.";
    REJECTED_VERSION_OFFERED = "RejectedVersionOffered", Warning, [Provider],
        "The source offers a version that was rejected before, such as a tag that was moved back.",
        "Offer another version, or set `wasm-ccm.dev/retry`.";
    PROVIDER_NOT_SERVING = "ProviderNotServing", Warning, [Provider],
        "No version serves; the text, the condition `Ready` and `trouble` have the reason.",
        "Follow the text. Most often no source has the module of the active version any more: restore it.";
    ROLL_BACK_IMPOSSIBLE = "RollBackImpossible", Warning, [Provider],
        "No previous version is known, or it cannot be loaded.",
        "Put the old module at the source.";
    LEADER_ELECTION = "LeaderElection", Normal, [Lease],
        "An instance became leader, or stopped leading.",
        "";
}
