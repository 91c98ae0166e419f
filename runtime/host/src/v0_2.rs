//! Contract version 0.2, the newest: converts its types to core's and back, and implements the calls of the
//! controllers. Guests of older versions are called with these types, too: see `v0_1`.
//!
//! Only the *shape* of answers is checked here; core judges their meaning.

mod answer_limits;
mod functions;
mod load_balancer;
mod redaction;
mod routes;

use std::borrow::Borrow;
use std::sync::Arc;
use std::time::Duration;

use ccm_core::cloud::load_balancer::{
    CloudService, DeleteRequest, EnsureReply, EnsureRequest, GetReply, IpFamilyPolicy, IpMode,
    ProgressReply, Protocol, TrafficPolicy, UpdateRequest,
};
use ccm_core::cloud::route::{CreateRouteRequest, DeleteRouteRequest, ListRoutesReply, RouteReply};
use ccm_core::cloud::{
    Address, AddressType, Capabilities, CloudEvent, CloudNode, EventType, FindReply, Instance,
    Lookup, Owner, ProviderError, Readiness,
};
use ccm_core::cloud_provider::{CloudProvider, Reply};
use ccm_core::safety::permit::Permit;
use ccm_core::string_map::StringMap;

use crate::bindings::lifecycle::Capability;
use crate::bindings::{self, common, instances};
use crate::egress::CallScope;
use crate::limits;
use crate::provider::{DeferredAsk, Provider, not_asked};
use crate::sandbox::{Answer, Ask, Function};
use crate::sanitize::clean;

pub(crate) use functions::{call, functions, init};

impl CloudProvider for Provider {
    fn name(&self) -> &str {
        &self.name
    }

    fn digest(&self) -> String {
        self.calls.digest.to_string()
    }

    fn schemes(&self) -> &[String] {
        &self.manifest.schemes
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn find<'a>(&'a self, nodes: &'a [CloudNode], permit: Arc<Permit>) -> Reply<'a, FindReply> {
        Box::pin(self.shown(self.find_with(nodes, permit, false)))
    }

    fn find_fresh<'a>(
        &'a self,
        nodes: &'a [CloudNode],
        permit: Arc<Permit>,
    ) -> Reply<'a, FindReply> {
        Box::pin(self.shown(self.find_with(nodes, permit, true)))
    }

    fn annotation_prefixes(&self) -> &[String] {
        &self.annotation_prefixes
    }

    fn ensure_load_balancer<'a>(
        &'a self,
        request: &'a EnsureRequest,
        permit: Arc<Permit>,
    ) -> Reply<'a, EnsureReply> {
        Box::pin(self.shown(self.ensure(request, permit)))
    }

    fn update_targets<'a>(
        &'a self,
        request: &'a UpdateRequest,
        permit: Arc<Permit>,
    ) -> Reply<'a, ProgressReply> {
        Box::pin(self.shown(self.update(request, permit)))
    }

    fn delete_load_balancer<'a>(
        &'a self,
        request: &'a DeleteRequest,
        permit: Arc<Permit>,
    ) -> Reply<'a, ProgressReply> {
        Box::pin(self.shown(self.delete(request, permit)))
    }

    fn get_load_balancer<'a>(
        &'a self,
        service: &'a CloudService,
        permit: Arc<Permit>,
    ) -> Reply<'a, GetReply> {
        Box::pin(self.shown(self.get(service, permit)))
    }

    fn list_routes<'a>(
        &'a self,
        nodes: &'a [CloudNode],
        permit: Arc<Permit>,
    ) -> Reply<'a, ListRoutesReply> {
        Box::pin(self.shown(self.routes_listed(nodes, permit)))
    }

    fn create_route<'a>(
        &'a self,
        request: &'a CreateRouteRequest,
        permit: Arc<Permit>,
    ) -> Reply<'a, RouteReply> {
        Box::pin(self.shown(self.route_made(request, permit)))
    }

    fn delete_route<'a>(
        &'a self,
        request: &'a DeleteRouteRequest,
        permit: Arc<Permit>,
    ) -> Reply<'a, RouteReply> {
        Box::pin(self.shown(self.route_removed(request, permit)))
    }
}

impl Provider {
    async fn find_with(
        &self,
        nodes: &[CloudNode],
        permit: Arc<Permit>,
        fresh: bool,
    ) -> Result<FindReply, ProviderError> {
        // Asking in batches would break the rule that doubts about one node concern all nodes of an answer.
        few_enough(nodes.len(), limits::NODES, "asked for")?;
        let asking = DeferredAsk::new(Function::Find, || Ask::Find(guest_nodes(nodes)))
            .of_bytes(bytes_of(nodes));
        let read = |answer| match answer {
            Answer::Found(reply) => {
                answer_limits::checked(reply, |reply| answer_limits::check_find(reply, nodes.len()))
            }
            _ => Err(not_asked()),
        };
        let (reply, scope) = self.ask(asking, permit, fresh, read).await?;
        Ok(FindReply {
            lookups: reply.lookups.into_iter().map(Lookup::from).collect(),
            events: reply
                .events
                .into_iter()
                .map(|event| (event.node as usize, event.event.into()))
                .collect(),
            complete: scope.is_some_and(|scope| scope.complete()),
        })
    }

    /// Performs one call of an interface that `init` has enabled. The returned scope knows which requests it made.
    async fn ask<R: Send, A: FnOnce() -> Ask>(
        &self,
        asking: DeferredAsk<A>,
        permit: Arc<Permit>,
        fresh: bool,
        read: impl FnOnce(Answer) -> Result<R, ProviderError> + Send,
    ) -> Result<(R, Option<CallScope>), ProviderError> {
        let has = self.capabilities;
        let lacks = match asking.function.capability() {
            Some((Capability::Instances, _)) if !has.instances => Some("does not know machines"),
            Some((Capability::LoadBalancer, _)) if !has.load_balancer => {
                Some("makes no load balancers")
            }
            Some((Capability::Routes, _)) if !has.routes => Some("makes no routes"),
            _ => None,
        };
        if let Some(lacks) = lacks {
            let why = format!("{} {lacks}", self.name);
            return Err(ProviderError::Unsupported(why));
        }
        self.calls.run(self.call(asking, permit, fresh), read).await
    }
}

/// Converts the nodes for a guest.
fn guest_nodes<N: Borrow<CloudNode>>(nodes: &[N]) -> Vec<common::Node> {
    let nodes = nodes.iter().map(|node| {
        let node: &CloudNode = node.borrow();
        common::Node::from(node)
    });
    nodes.collect()
}

/// Memory that a node without labels and annotations takes in a guest, in bytes and about.
const NODE_BYTES: usize = 512;

/// Memory that the nodes take in a guest, in bytes and about. Besides its letters each text takes what points to it
/// and a header of the allocator.
fn bytes_of<N: Borrow<CloudNode>>(nodes: &[N]) -> usize {
    const TEXT_BYTES: usize = 32;
    let texts = |map: &StringMap| -> usize {
        map.iter()
            .map(|(key, value)| key.len() + value.len() + 2 * TEXT_BYTES)
            .sum()
    };
    let bytes = nodes.iter().map(|node| {
        let node: &CloudNode = node.borrow();
        NODE_BYTES + texts(&node.labels) + texts(&node.annotations)
    });
    bytes.sum()
}

fn few_enough(nodes: usize, limit: usize, why: &str) -> Result<(), ProviderError> {
    match nodes <= limit {
        true => Ok(()),
        false => Err(ProviderError::Invalid(format!(
            "{nodes} nodes {why}, at most {limit}"
        ))),
    }
}

/// Converts an enum to the one that has the same cases.
macro_rules! same_cases {
    ($($from:ty => $to:ty: $($case:ident),+;)+) => {$(
        impl From<$from> for $to {
            fn from(one: $from) -> $to {
                match one {
                    $(<$from>::$case => <$to>::$case,)+
                }
            }
        }
    )+};
}

same_cases! {
    AddressType => common::AddressType: Hostname, InternalIp, ExternalIp, InternalDns, ExternalDns;
    common::AddressType => AddressType: Hostname, InternalIp, ExternalIp, InternalDns, ExternalDns;
    IpMode => common::IpMode: Vip, Proxy;
    common::IpMode => IpMode: Vip, Proxy;
    Protocol => common::Protocol: Tcp, Udp, Sctp;
    common::Protocol => Protocol: Tcp, Udp, Sctp;
    common::EventType => EventType: Normal, Warning;
    TrafficPolicy => bindings::load_balancer::TrafficPolicy: Cluster, Local;
    IpFamilyPolicy => bindings::load_balancer::IpFamilyPolicy:
        SingleStack, PreferDualStack, RequireDualStack;
}

impl From<&CloudNode> for common::Node {
    fn from(node: &CloudNode) -> common::Node {
        common::Node {
            labels: pairs(node.labels.iter()),
            annotations: pairs(node.annotations.iter()),
            ..recognisable(node)
        }
    }
}

/// A node without labels and annotations: the fields by which a guest recognises a next hop.
fn recognisable(node: &CloudNode) -> common::Node {
    common::Node {
        name: node.name.clone(),
        uid: node.uid.clone(),
        provider_id: node.provider_id.clone(),
        labels: Vec::new(),
        annotations: Vec::new(),
        addresses: node.addresses.iter().map(common::Address::from).collect(),
        pod_cidrs: node.pod_cidrs.clone(),
        system_uuid: node.system_uuid.clone(),
        created: node.created,
        ready: match node.readiness {
            Readiness::Ready => Some(true),
            Readiness::NotReady => Some(false),
            Readiness::Unknown => None,
        },
        initialized: node.initialized,
        extra: Vec::new(),
    }
}

fn pairs<T: AsRef<str>>(map: impl Iterator<Item = (T, T)>) -> Vec<(String, String)> {
    map.map(|(key, value)| (key.as_ref().to_owned(), value.as_ref().to_owned()))
        .collect()
}

impl From<&Address> for common::Address {
    fn from(address: &Address) -> common::Address {
        common::Address {
            address_type: address.address_type.into(),
            address: address.address.clone(),
        }
    }
}

impl From<common::Address> for Address {
    fn from(address: common::Address) -> Address {
        Address {
            address_type: address.address_type.into(),
            address: address.address,
        }
    }
}

impl From<common::Instance> for Instance {
    fn from(instance: common::Instance) -> Instance {
        let common::Instance {
            provider_id,
            instance_type,
            zone,
            region,
            addresses,
            labels,
            shutdown,
            extra: _,
        } = instance;
        Instance {
            provider_id,
            instance_type,
            zone,
            region,
            addresses: addresses.into_iter().map(Address::from).collect(),
            labels,
            shutdown,
        }
    }
}

impl From<instances::Lookup> for Lookup {
    fn from(lookup: instances::Lookup) -> Lookup {
        match lookup {
            instances::Lookup::Found(instance) => Lookup::Found(Box::new(instance.into())),
            instances::Lookup::Gone => Lookup::Gone,
            instances::Lookup::NotMine => Lookup::NotMine,
            instances::Lookup::Unknown(reason) => {
                Lookup::Unknown(clean(&reason, answer_limits::MESSAGE_BYTES))
            }
        }
    }
}

impl From<common::Event> for CloudEvent {
    fn from(event: common::Event) -> CloudEvent {
        let message = clean(&event.message, answer_limits::MESSAGE_BYTES);
        CloudEvent::new(event.event_type.into(), &event.reason, message)
    }
}

impl From<common::Owner> for Owner {
    fn from(owner: common::Owner) -> Owner {
        match owner {
            common::Owner::Uid(uid) => Owner::Uid(uid),
            common::Owner::Name(common::NamespacedName { namespace, name }) => {
                Owner::Name { namespace, name }
            }
        }
    }
}

impl From<&Owner> for common::Owner {
    fn from(owner: &Owner) -> common::Owner {
        match owner.clone() {
            Owner::Uid(uid) => common::Owner::Uid(uid),
            Owner::Name { namespace, name } => {
                common::Owner::Name(common::NamespacedName { namespace, name })
            }
        }
    }
}

/// The error of a guest's failure. Its events go to the caller by way of the call's scope.
pub(crate) fn failed(failure: common::Failure, scope: Option<&CallScope>) -> ProviderError {
    let common::Failure { error, events } = failure;
    if let Err(what) = answer_limits::check_events(&events) {
        return ProviderError::Internal(format!("a failure: {what}"));
    }
    if let (Some(scope), false) = (scope, events.is_empty()) {
        scope.fail_with(events.into_iter().map(CloudEvent::from).collect());
    }
    error.into()
}

impl From<common::Error> for ProviderError {
    fn from(error: common::Error) -> ProviderError {
        let text = |text: String| clean(&text, limits::ERROR_BYTES);
        match error {
            common::Error::Invalid(reason) => ProviderError::Invalid(text(reason)),
            common::Error::Denied(reason) => ProviderError::Denied(text(reason)),
            common::Error::Conflict(conflict) => match answer_limits::check_conflict(&conflict) {
                // A truncated owner would be another owner, and an object without an owner might be adopted.
                Err(what) => ProviderError::Internal(what),
                Ok(()) => ProviderError::Conflict {
                    message: clean(&conflict.message, answer_limits::MESSAGE_BYTES),
                    owner: conflict.owner.map(Owner::from),
                },
            },
            common::Error::Throttled(throttled) => ProviderError::Throttled {
                message: text(throttled.message),
                retry_after: throttled.retry_after_ms.map(retry_delay),
            },
            common::Error::Unavailable(reason) => ProviderError::Unavailable(text(reason)),
            common::Error::Unsupported(reason) => ProviderError::Unsupported(text(reason)),
            common::Error::Elsewhere => ProviderError::Elsewhere,
            common::Error::Internal(reason) => ProviderError::Internal(text(reason)),
        }
    }
}

/// Clamps a retry delay of the cloud to the range from 1 second to 1 hour.
fn retry_delay(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds).clamp(Duration::from_secs(1), Duration::from_secs(3_600))
}

#[cfg(test)]
mod tests;
