//! The port between controllers and clouds: the trait [`CloudProvider`] and the nouns that cross it.
//!
//! The nouns mirror the contract in `wit/`, but belong to us: they know neither Wasm nor Kubernetes
//! types. This file never decides and never talks to anybody; who implements the trait does.

use std::collections::BTreeMap;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use crate::cloud_route::{CreateRouteRequest, DeleteRouteRequest, ListRoutesReply, RouteReply};
use crate::load_balancer::{
    CloudService, DeleteRequest, EnsureReply, EnsureRequest, GetReply, ProgressReply, UpdateRequest,
};
use crate::permit::Permit;

/// The future of one cloud call. Boxed, because providers are swapped at run time.
pub type Reply<'a, T> = Pin<Box<dyn Future<Output = Result<T, ProviderError>> + Send + 'a>>;

/// A cloud, as the controllers see it. Implemented by the Wasm host; by scripted clouds in tests.
///
/// Every call carries a [`Permit`]: what the call may do, and until when.
pub trait CloudProvider: Send + Sync {
    /// The provider's name, such as `hcloud`: what is recorded as the owner of nodes and Services.
    fn name(&self) -> &str;

    /// The digest of the provider's module, for audit records; empty when there is no module.
    fn digest(&self) -> String {
        String::new()
    }

    /// A number that grows whenever another module or other terms, such as another credential, answer from then on: what
    /// was true of the account before has to be shown again.
    fn generation(&self) -> u64 {
        0
    }

    /// The provider ID schemes that this provider owns, without `://`.
    fn schemes(&self) -> &[String];

    /// What the provider can do in its present configuration.
    fn capabilities(&self) -> Capabilities;

    /// Looks many nodes up in one call. The reply has exactly one lookup per node, in order.
    fn find<'a>(&'a self, nodes: &'a [CloudNode], permit: Arc<Permit>) -> Reply<'a, FindReply>;

    /// The same, independent of every other call: nothing that was kept is used, neither answers of the cloud nor
    /// what the provider remembers. Deleting a node needs such a second opinion.
    fn find_fresh<'a>(
        &'a self,
        nodes: &'a [CloudNode],
        permit: Arc<Permit>,
    ) -> Reply<'a, FindReply>;

    /// Prefixes of the annotation keys that the provider may set on Services: those that were granted.
    fn annotation_prefixes(&self) -> &[String] {
        &[]
    }

    /// Makes or updates a Service's load balancer. Idempotent by the Service's UID.
    fn ensure_load_balancer<'a>(
        &'a self,
        request: &'a EnsureRequest,
        permit: Arc<Permit>,
    ) -> Reply<'a, EnsureReply> {
        let _ = (request, permit);
        unserved("load balancers")
    }

    /// Makes the set of targets equal to the one given, and nothing else. A load balancer that is missing is
    /// [`ProviderError::Unavailable`].
    fn update_targets<'a>(
        &'a self,
        request: &'a UpdateRequest,
        permit: Arc<Permit>,
    ) -> Reply<'a, ProgressReply> {
        let _ = (request, permit);
        unserved("load balancers")
    }

    /// Removes everything that belongs to the Service's UID.
    fn delete_load_balancer<'a>(
        &'a self,
        request: &'a DeleteRequest,
        permit: Arc<Permit>,
    ) -> Reply<'a, ProgressReply> {
        let _ = (request, permit);
        unserved("load balancers")
    }

    /// Looks, with nothing that was kept, and changes nothing.
    fn get_load_balancer<'a>(
        &'a self,
        service: &'a CloudService,
        permit: Arc<Permit>,
    ) -> Reply<'a, GetReply> {
        let _ = (service, permit);
        unserved("load balancers")
    }

    /// Every route of this cluster, and where it leads. `nodes` are all nodes of the provider. Nothing that was kept is
    /// used; changes nothing.
    fn list_routes<'a>(
        &'a self,
        nodes: &'a [CloudNode],
        permit: Arc<Permit>,
    ) -> Reply<'a, ListRoutesReply> {
        let _ = (nodes, permit);
        unserved("routes")
    }

    /// Makes a route. One that exists already and is right: done.
    fn create_route<'a>(
        &'a self,
        request: &'a CreateRouteRequest,
        permit: Arc<Permit>,
    ) -> Reply<'a, RouteReply> {
        let _ = (request, permit);
        unserved("routes")
    }

    /// Removes a route that was listed. One that is not there any more: done.
    fn delete_route<'a>(
        &'a self,
        request: &'a DeleteRouteRequest,
        permit: Arc<Permit>,
    ) -> Reply<'a, RouteReply> {
        let _ = (request, permit);
        unserved("routes")
    }
}

/// Of a provider that does not make these, which nobody asks for them: see [`Capabilities`].
fn unserved<'a, T: Send + 'a>(what: &'static str) -> Reply<'a, T> {
    Box::pin(async move {
        Err(ProviderError::Unsupported(format!(
            "this provider makes no {what}"
        )))
    })
}

/// Which groups of calls may be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capabilities {
    /// [`CloudProvider::find`].
    pub instances: bool,
    /// Load balancers for Services.
    pub load_balancer: bool,
    /// Routes to pod networks.
    pub routes: bool,
}

/// What an address is (IFACE, end of 1.5: the type names of the Kubernetes API).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AddressType {
    /// A name, not an IP address.
    Hostname,
    /// Reachable inside the cluster's network.
    InternalIp,
    /// Reachable from outside.
    ExternalIp,
    /// A DNS name for internal addresses.
    InternalDns,
    /// A DNS name for external addresses.
    ExternalDns,
}

impl AddressType {
    /// The spelling of the Kubernetes API.
    pub fn as_str(self) -> &'static str {
        match self {
            AddressType::Hostname => "Hostname",
            AddressType::InternalIp => "InternalIP",
            AddressType::ExternalIp => "ExternalIP",
            AddressType::InternalDns => "InternalDNS",
            AddressType::ExternalDns => "ExternalDNS",
        }
    }

    /// Reads the spelling of the Kubernetes API; `None` for a type that it does not define.
    pub fn parse(text: &str) -> Option<AddressType> {
        [
            AddressType::Hostname,
            AddressType::InternalIp,
            AddressType::ExternalIp,
            AddressType::InternalDns,
            AddressType::ExternalDns,
        ]
        .into_iter()
        .find(|kind| kind.as_str() == text)
    }

    /// Whether an address of this type has to be an IP address.
    pub fn is_ip(self) -> bool {
        matches!(self, AddressType::InternalIp | AddressType::ExternalIp)
    }
}

/// One address of a node or an instance, in the writer's own spelling.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Address {
    /// What it is.
    pub address_type: AddressType,
    /// The address itself.
    pub address: String,
}

impl Address {
    /// The address as an IP, if it is one.
    pub fn ip(&self) -> Option<IpAddr> {
        self.address.parse().ok()
    }

    /// The same, with an IPv4 address that is written as IPv6 as what it is.
    pub fn canonical_ip(&self) -> Option<IpAddr> {
        self.ip().map(|ip| ip.to_canonical())
    }

    /// Whether both say the same: type and meaning are equal. IPv6 has many spellings.
    pub fn is_same(&self, other: &Address) -> bool {
        self.address_type == other.address_type
            && (self.address == other.address || (self.ip().is_some() && self.ip() == other.ip()))
    }
}

/// A Kubernetes Node as a provider sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloudNode {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// `spec.providerID`, when set and not empty.
    pub provider_id: Option<String>,
    /// `metadata.labels`.
    pub labels: BTreeMap<String, String>,
    /// `metadata.annotations`, without kubectl's copy of the object.
    pub annotations: BTreeMap<String, String>,
    /// `status.addresses`, those of known types.
    pub addresses: Vec<Address>,
    /// `spec.podCIDRs`.
    pub pod_cidrs: Vec<String>,
    /// `status.nodeInfo.systemUUID`.
    pub system_uuid: Option<String>,
    /// `metadata.creationTimestamp`, in seconds since the Unix epoch.
    pub created: u64,
    /// Whether it is ready. Some questions about a machine cost a request each, and are only worth it while it is not.
    pub readiness: Readiness,
}

/// What the condition `Ready` of a Node says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Readiness {
    /// The kubelet says that it is.
    Ready,
    /// The kubelet says that it is not.
    NotReady,
    /// Nobody says: the kubelet is silent, or never spoke (LIFE-004).
    #[default]
    Unknown,
}

impl Readiness {
    /// The spelling of the contract.
    pub fn as_str(self) -> &'static str {
        match self {
            Readiness::Ready => "true",
            Readiness::NotReady => "false",
            Readiness::Unknown => "unknown",
        }
    }
}

/// A machine at the cloud, as a provider describes it. Its meaning is unchecked: see `answer`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Instance {
    /// `<scheme>://<id>`.
    pub provider_id: String,
    /// For the instance type labels; `None` leaves them alone (NODE-033).
    pub instance_type: Option<String>,
    /// For the zone labels; `None` leaves them alone.
    pub zone: Option<String>,
    /// For the region labels; `None` leaves them alone.
    pub region: Option<String>,
    /// In the order to be stored; empty keeps what is stored (NODE-056).
    pub addresses: Vec<Address>,
    /// More labels, added where absent (NODE-034).
    pub labels: Vec<(String, String)>,
    /// Whether it is switched off; `None` when the cloud cannot tell.
    pub shutdown: Option<bool>,
}

/// What is known about one node's machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lookup {
    /// The machine exists.
    Found(Box<Instance>),
    /// A complete answer says that it does not exist.
    Gone,
    /// Not a machine of this provider.
    NotMine,
    /// Could not be told; the reason is for people.
    Unknown(String),
}

/// How loud an event is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventType {
    /// Something happened as it should.
    Normal,
    /// Somebody should look.
    Warning,
}

impl EventType {
    /// The spelling of the Kubernetes API.
    pub fn as_str(self) -> &'static str {
        match self {
            EventType::Normal => "Normal",
            EventType::Warning => "Warning",
        }
    }
}

/// Something to be recorded as a Kubernetes Event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloudEvent {
    /// How loud.
    pub event_type: EventType,
    /// CamelCase, at most 64 bytes.
    pub reason: String,
    /// At most 1024 bytes.
    pub message: String,
}

/// The answer to [`CloudProvider::find`]. The host has checked its shape: one lookup per node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FindReply {
    /// One per node asked for, in the same order.
    pub lookups: Vec<Lookup>,
    /// Events about nodes: index into the list asked for, and the event.
    pub events: Vec<(usize, CloudEvent)>,
    /// Whether the answer may prove absence: every exchange of the call ended 2xx (or 404 on a path
    /// that names one object), and with an HTTP grant at least one 2xx was among them.
    pub complete: bool,
}

/// Why a cloud call did not do what was asked. The cases are the contract's, and two that only the
/// host can produce. Controllers decide on the case, never on the text.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ProviderError {
    /// The request or the configuration is wrong: a person has to change something.
    #[error("invalid: {0}")]
    Invalid(String),
    /// The cloud refused the credential, or the grant does not cover the request.
    #[error("denied: {0}")]
    Denied(String),
    /// Another object holds what was asked for.
    #[error("conflict: {message}")]
    Conflict {
        /// For people.
        message: String,
        /// UID of the owner, if the cloud has it written down.
        owner: Option<String>,
    },
    /// The cloud asked for patience.
    #[error("throttled: {message}")]
    Throttled {
        /// For people.
        message: String,
        /// Between 1 s and 1 h; `None` when the cloud did not say.
        retry_after: Option<Duration>,
    },
    /// Not now; worth retrying.
    #[error("unavailable: {0}")]
    Unavailable(String),
    /// Cannot be done by this provider.
    #[error("unsupported: {0}")]
    Unsupported(String),
    /// Somebody else implements this (IFACE-012).
    #[error("implemented by alternate to cloud provider")]
    Elsewhere,
    /// A defect of the provider, by its own account or because its answer had the wrong shape.
    #[error("internal error of the provider: {0}")]
    Internal(String),
    /// The call did not end in time. Whether the cloud acted is not known.
    #[error("timed out: {0}")]
    TimedOut(String),
    /// The provider crashed; the text has function, cause, digest and its last log lines.
    #[error("trapped: {0}")]
    Trapped(String),
}

impl ProviderError {
    /// The same case with another text.
    pub fn with_text(self, change: impl FnOnce(String) -> String) -> ProviderError {
        match self {
            ProviderError::Invalid(text) => ProviderError::Invalid(change(text)),
            ProviderError::Denied(text) => ProviderError::Denied(change(text)),
            ProviderError::Conflict { message, owner } => ProviderError::Conflict {
                message: change(message),
                owner,
            },
            ProviderError::Throttled {
                message,
                retry_after,
            } => ProviderError::Throttled {
                message: change(message),
                retry_after,
            },
            ProviderError::Unavailable(text) => ProviderError::Unavailable(change(text)),
            ProviderError::Unsupported(text) => ProviderError::Unsupported(change(text)),
            ProviderError::Elsewhere => ProviderError::Elsewhere,
            ProviderError::Internal(text) => ProviderError::Internal(change(text)),
            ProviderError::TimedOut(text) => ProviderError::TimedOut(change(text)),
            ProviderError::Trapped(text) => ProviderError::Trapped(change(text)),
        }
    }

    /// A fixed word per case, for metrics and log fields.
    pub fn reason(&self) -> &'static str {
        match self {
            ProviderError::Invalid(_) => "invalid",
            ProviderError::Denied(_) => "denied",
            ProviderError::Conflict { .. } => "conflict",
            ProviderError::Throttled { .. } => "throttled",
            ProviderError::Unavailable(_) => "unavailable",
            ProviderError::Unsupported(_) => "unsupported",
            ProviderError::Elsewhere => "elsewhere",
            ProviderError::Internal(_) => "internal",
            ProviderError::TimedOut(_) => "timed-out",
            ProviderError::Trapped(_) => "trapped",
        }
    }
}
