//! Injectable faults and the requests they affect. A fault changes what the client sees of a request, never the effect
//! of a request that is executed.

use std::time::Duration;

use super::Verb;
use super::ask::Place;

/// An injected fault and the requests it affects.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The affected verb; `None`: any.
    pub verb: Option<Verb>,
    /// The plural name of the resource, such as `nodes`.
    pub resource: String,
    /// The subresource; empty: only requests on the object itself, not its status.
    pub subresource: String,
    /// The object's name; `None`: any.
    pub name: Option<String>,
    /// The client's identity; `None`: any.
    pub identity: Option<String>,
    /// Number of requests it affects before it is removed.
    pub times: u32,
    /// The effect on these requests.
    pub effect: FaultEffect,
}

impl Fault {
    /// A fault for the next request with this verb on this resource.
    pub fn next(verb: Verb, resource: &str, effect: FaultEffect) -> Self {
        Self {
            verb: Some(verb),
            resource: resource.to_owned(),
            subresource: String::new(),
            name: None,
            identity: None,
            times: 1,
            effect,
        }
    }

    /// Limits the fault to a subresource.
    pub fn on(mut self, subresource: &str) -> Self {
        self.subresource = subresource.to_owned();
        self
    }

    /// Limits the fault to the object with this name.
    pub fn named(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Limits the fault to the requests of one identity.
    pub fn sent_by(mut self, identity: &str) -> Self {
        self.identity = Some(identity.to_owned());
        self
    }

    /// Sets the number of affected requests.
    pub fn times(mut self, times: u32) -> Self {
        self.times = times;
        self
    }

    fn hits(&self, identity: &str, verb: Verb, place: &Place) -> bool {
        self.times > 0
            && self
                .identity
                .as_deref()
                .is_none_or(|wanted| wanted == identity)
            && self.verb.is_none_or(|wanted| wanted == verb)
            && self.resource == place.kind.plural
            && self.subresource == place.subresource
            && self.name.as_ref().is_none_or(|name| *name == place.name)
    }
}

/// The effect of a fault on a request.
#[derive(Clone, Debug)]
pub enum FaultEffect {
    /// The server refuses it with this HTTP status and does nothing.
    Refused {
        /// The HTTP status, such as 409, 429, 500 or 503.
        code: u16,
        /// Whole seconds for a `Retry-After` header.
        retry_after: Option<u32>,
    },
    /// The connection breaks before the server does anything.
    LostBeforeCommit,
    /// The server executes the request, and the connection breaks before the client gets the response.
    LostAfterCommit,
    /// The response is delayed by this time, on tokio's clock.
    Delayed(Duration),
}

/// Takes the effect of the oldest fault that matches this request.
pub(super) fn take(
    faults: &mut Vec<Fault>,
    identity: &str,
    verb: Verb,
    place: &Place,
) -> Option<FaultEffect> {
    let mut all = faults.iter();
    let index = all.position(|fault| fault.hits(identity, verb, place))?;
    let fault = faults.get_mut(index)?;
    fault.times -= 1;
    let effect = fault.effect.clone();
    if fault.times == 0 {
        faults.remove(index);
    }
    Some(effect)
}
