//! What can be made to go wrong, and how often. A fault changes what the client sees of a request, never what the
//! server would have done with it.

use std::time::Duration;

use super::Verb;
use super::ask::Place;

/// A fault that waits for the requests it is meant for.
#[derive(Clone, Debug)]
pub struct Fault {
    /// Which verb; `None`: any.
    pub verb: Option<Verb>,
    /// The plural name of the resource, such as `nodes`.
    pub resource: String,
    /// The subresource; empty: the object itself, not its status.
    pub subresource: String,
    /// Which object; `None`: any.
    pub name: Option<String>,
    /// Whose requests; `None`: anybody's.
    pub identity: Option<String>,
    /// How many requests it hits before it is gone.
    pub times: u32,
    /// What happens to them.
    pub effect: FaultEffect,
}

impl Fault {
    /// A fault for the next request of a verb on a resource.
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

    /// The same for a subresource.
    pub fn on(mut self, subresource: &str) -> Self {
        self.subresource = subresource.to_owned();
        self
    }

    /// The same for one object only.
    pub fn named(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// The same for one identity's requests only.
    pub fn sent_by(mut self, identity: &str) -> Self {
        self.identity = Some(identity.to_owned());
        self
    }

    /// The same for so many requests.
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

/// What happens to a request that a fault hits.
#[derive(Clone, Debug)]
pub enum FaultEffect {
    /// It is refused with this HTTP status, and nothing is done.
    Refused {
        /// Such as 409, 429, 500 or 503.
        code: u16,
        /// Whole seconds for a `Retry-After` header.
        retry_after: Option<u32>,
    },
    /// The connection breaks before the server did anything.
    LostBeforeCommit,
    /// The server does what was asked, and the connection breaks before the client hears of it.
    LostAfterCommit,
    /// The answer takes this much longer, on tokio's clock.
    Delayed(Duration),
}

/// Takes the effect of the oldest fault that is meant for this request.
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
