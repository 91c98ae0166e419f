//! The interface `load-balancer`: what a provider that makes load balancers implements.

use crate::{Error, Event, LoadBalancerStatus, Pending, Provider};

pub use crate::bindings::load_balancer::exports::ccm::provider::load_balancer::{
    DeleteRequest, EnsureReply, EnsureRequest, Ensured, Found, IpFamilyPolicy, Progress,
    ProgressReply, Service, ServicePort, TrafficPolicy, UpdateRequest,
};

/// Makes load balancers for Services of type LoadBalancer. Every function is idempotent by the Service's UID, and
/// reads before it writes. Work that takes the cloud longer than a moment is returned as `Pending`, never polled for.
pub trait LoadBalancer: Provider {
    /// Makes the cloud agree with the Service; writes only what differs.
    ///
    /// # Errors
    /// [`Error::Conflict`] when the load balancer belongs to another Service and `adopt` does not name it.
    fn ensure(&self, request: EnsureRequest) -> Result<EnsureReply, Error>;

    /// Makes the set of targets equal to the one given, and changes nothing else.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when there is no load balancer: the host then calls `ensure`.
    fn update_targets(&self, request: UpdateRequest) -> Result<ProgressReply, Error>;

    /// Removes everything that belongs to the Service's UID, and nothing of anybody else. Nothing there: done.
    ///
    /// # Errors
    /// Whatever kept the cloud from removing it.
    fn delete(&self, request: DeleteRequest) -> Result<ProgressReply, Error>;

    /// Looks, changes nothing. `Absent` needs a complete answer of the cloud.
    ///
    /// # Errors
    /// Whatever kept the cloud from answering.
    fn get(&self, service: Service) -> Result<Found, Error>;
}

impl EnsureReply {
    /// The cloud agrees with the Service.
    pub fn ready(status: LoadBalancerStatus) -> EnsureReply {
        EnsureReply::new(Ensured::Ready(status))
    }

    /// Begun; the host calls again.
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

    /// With these events, at most 16.
    #[must_use]
    pub fn with_events(self, events: Vec<Event>) -> EnsureReply {
        EnsureReply { events, ..self }
    }
}

impl ProgressReply {
    /// Done.
    pub fn done() -> ProgressReply {
        ProgressReply::new(Progress::Done)
    }

    /// Begun; the host calls again.
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

    /// With these events, at most 16.
    #[must_use]
    pub fn with_events(self, events: Vec<Event>) -> ProgressReply {
        ProgressReply { events, ..self }
    }
}

impl Service {
    /// The value of an annotation, as the tenant wrote it.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        let mut annotations = self.annotations.iter();
        let found = annotations.find(|(name, _)| name == key)?;
        Some(found.1.as_str())
    }
}
