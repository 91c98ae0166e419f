//! The interface `load-balancer`, for providers that create load balancers.

use crate::values::Values;
use crate::{
    AnnotationChange, Error, Event, Failure, LoadBalancerStatus, Pending, Provider, event,
};

pub use crate::bindings::load_balancer::exports::ccm::provider::load_balancer::{
    Adoption, DeleteRequest, EnsureReply, EnsureRequest, Ensured, Found, IpFamilyPolicy, Progress,
    ProgressReply, Service, ServicePort, TrafficPolicy, UpdateRequest,
};

#[cfg(test)]
mod tests;

/// Creates load balancers for Services of type LoadBalancer. Every function is idempotent per Service UID and reads
/// before it writes. Return long-running work as `Pending`; never poll within a call.
pub trait LoadBalancer: Provider {
    /// Makes the load balancer match the Service; writes only differences.
    ///
    /// # Errors
    /// [`Error::Conflict`] when the load balancer belongs to another Service and `adopt` does not name it.
    fn ensure(&self, request: EnsureRequest) -> Result<EnsureReply, Failure>;

    /// Replaces the targets with those of the request and changes nothing else.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when there is no load balancer: the host then calls `ensure`.
    fn update_targets(&self, request: UpdateRequest) -> Result<ProgressReply, Failure>;

    /// Removes everything that belongs to the Service's UID and nothing else. Done if nothing exists.
    ///
    /// # Errors
    /// The reason why the cloud could not remove it.
    fn delete(&self, request: DeleteRequest) -> Result<ProgressReply, Failure>;

    /// Reads the load balancer without changing anything. `Absent` needs a complete response of the cloud: no request
    /// failed, and at least one was answered with 2xx. After a single 404 the host does not believe it, and the Service
    /// keeps its finalizer: ask for a list.
    ///
    /// # Errors
    /// The reason why the state is not known.
    fn get(&self, service: Service) -> Result<Found, Failure>;
}

impl EnsureReply {
    /// The load balancer matches the Service.
    pub fn ready(status: LoadBalancerStatus) -> EnsureReply {
        EnsureReply::new(Ensured::Ready(status))
    }

    /// The work has begun; the host calls again.
    pub fn pending(pending: Pending) -> EnsureReply {
        EnsureReply::new(Ensured::Pending(pending))
    }

    fn new(ensured: Ensured) -> EnsureReply {
        EnsureReply {
            ensured,
            events: Vec::new(),
            annotations: Vec::new(),
        }
    }

    /// Sets the events: the first 16, which are as many as the contract allows.
    #[must_use]
    pub fn with_events(self, events: Vec<Event>) -> EnsureReply {
        EnsureReply {
            events: event::first(events),
            ..self
        }
    }

    /// Sets the changes requested for the Service's annotations, at most 16: the host refuses the whole reply for more.
    /// See the manifest's `annotationPrefixes`.
    #[must_use]
    pub fn with_annotations(self, annotations: Vec<AnnotationChange>) -> EnsureReply {
        EnsureReply {
            annotations,
            ..self
        }
    }
}

impl ProgressReply {
    /// The work is done.
    pub fn done() -> ProgressReply {
        ProgressReply::new(Progress::Done)
    }

    /// The work has begun; the host calls again.
    pub fn pending(pending: Pending) -> ProgressReply {
        ProgressReply::new(Progress::Pending(pending))
    }

    fn new(progress: Progress) -> ProgressReply {
        ProgressReply {
            progress,
            events: Vec::new(),
            annotations: Vec::new(),
        }
    }

    /// Sets the events: the first 16, which are as many as the contract allows.
    #[must_use]
    pub fn with_events(self, events: Vec<Event>) -> ProgressReply {
        ProgressReply {
            events: event::first(events),
            ..self
        }
    }

    /// Sets the changes requested for the Service's annotations, at most 16: the host refuses the whole reply for more.
    /// See the manifest's `annotationPrefixes`.
    #[must_use]
    pub fn with_annotations(self, annotations: Vec<AnnotationChange>) -> ProgressReply {
        ProgressReply {
            annotations,
            ..self
        }
    }
}

impl Service {
    /// Reads annotations key by key.
    ///
    /// # Errors
    /// [`Error::Invalid`] with every mistake that `read` came upon.
    pub fn read<'a, T>(&'a self, read: impl FnOnce(&mut Values<'a>) -> T) -> Result<T, Error> {
        let mut values = self.values();
        let wanted = read(&mut values);
        values.finish().map(|()| wanted)
    }

    /// Starts reading annotations. End with [`Values::finish`]; [`Service::read`] does both.
    pub fn values(&self) -> Values<'_> {
        Values::of_annotations(&self.annotations)
    }

    /// Starts reading the annotations that begin with `prefix`, by what follows it. Unlike with [`Service::values`],
    /// whitespace around a value does not count, and an empty value counts as not set.
    pub fn values_of<'a>(&'a self, prefix: &'a str) -> Values<'a> {
        Values::of_prefix(&self.annotations, prefix)
    }

    /// The name that Kubernetes gives a load balancer by default: `a` and the UID's first 31 letters and digits
    /// (`DefaultLoadBalancerName` of Go's `cloud-provider`). Every cloud accepts it.
    pub fn default_name(&self) -> String {
        let letters = self.uid.chars().filter(|letter| *letter != '-');
        std::iter::once('a').chain(letters).take(32).collect()
    }

    /// Whether only nodes with endpoints of the Service receive its traffic (`externalTrafficPolicy: Local`).
    pub fn is_local(&self) -> bool {
        self.external_traffic_policy == Some(TrafficPolicy::Local)
    }

    /// The port on every node that says whether the node has such endpoints. `None` with other policies.
    pub fn local_health_port(&self) -> Option<u16> {
        self.health_check_node_port.filter(|_| self.is_local())
    }

    /// The unmodified value of an annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        let mut annotations = self.annotations.iter();
        let found = annotations.find(|(name, _)| name == key)?;
        Some(found.1.as_str())
    }
}
