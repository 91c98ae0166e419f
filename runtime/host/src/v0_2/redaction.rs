//! Redaction of answers: removes credentials from texts that are shown later, in Events, annotations and logs. An
//! answer with a credential in a name is rejected as a whole, because names become parts of objects and a redacted
//! name would be another name. Guests get no credentials; this is for a cloud that repeats one in an unexpected
//! encoding. The fields of records that have texts are named, so that a new one is not forgotten.

use ccm_core::cloud::load_balancer::{
    AnnotationChange, EnsureReply, Ensured, Found, GetReply, Ingress, LoadBalancerStatus,
    PortStatus, ProgressReply,
};
use ccm_core::cloud::route::{CloudRoute, ListRoutesReply, RouteReply, RouteTarget};
use ccm_core::cloud::{CloudEvent, FindReply, Instance, Lookup, Owner, ProviderError};

use crate::egress::Egress;
use crate::provider::Provider;

/// An answer with texts and names.
pub(super) trait Shown {
    /// Texts shown to people; these are redacted.
    fn texts(&mut self) -> Vec<&mut String>;

    /// Names that are written into objects, compared, or passed back to the guest.
    fn names(&self) -> Vec<&str>;
}

impl Provider {
    /// Returns the answer redacted, or an error if a name contains a credential.
    pub(super) async fn shown<R: Shown>(
        &self,
        answer: impl Future<Output = Result<R, ProviderError>>,
    ) -> Result<R, ProviderError> {
        show(&self.egress, answer.await)
    }
}

fn show<R: Shown>(egress: &Egress, answer: Result<R, ProviderError>) -> Result<R, ProviderError> {
    let names = match &answer {
        Ok(reply) => reply.names(),
        Err(ProviderError::Conflict { owner, .. }) => match owner {
            Some(Owner::Uid(uid)) => vec![uid.as_str()],
            Some(Owner::Name { namespace, name }) => vec![namespace.as_str(), name.as_str()],
            None => Vec::new(),
        },
        Err(_) => Vec::new(),
    };
    if egress.finds_credential(&names) {
        return Err(ProviderError::Internal(
            "the answer has a credential where a name has to be".to_owned(),
        ));
    }
    match answer {
        Ok(mut reply) => {
            for text in reply.texts() {
                *text = egress.redacted(text);
            }
            Ok(reply)
        }
        Err(error) => Err(error.with_text(|text| egress.redacted(&text))),
    }
}

impl Shown for FindReply {
    fn texts(&mut self) -> Vec<&mut String> {
        let events = self.events.iter_mut().map(|(_, event)| &mut event.message);
        let reasons = self.lookups.iter_mut().filter_map(|lookup| match lookup {
            Lookup::Unknown(why) => Some(why),
            Lookup::Found(_) | Lookup::Gone | Lookup::NotMine => None,
        });
        reasons.chain(events).collect()
    }

    fn names(&self) -> Vec<&str> {
        let instances = self.lookups.iter().flat_map(|lookup| match lookup {
            Lookup::Found(instance) => of_instance(instance),
            Lookup::Gone | Lookup::NotMine | Lookup::Unknown(_) => Vec::new(),
        });
        let reasons = self.events.iter().map(|(_, event)| event.reason.as_str());
        instances.chain(reasons).collect()
    }
}

impl Shown for EnsureReply {
    fn texts(&mut self) -> Vec<&mut String> {
        let EnsureReply {
            ensured: _,
            events,
            annotations,
        } = self;
        of_service(events, annotations)
    }

    fn names(&self) -> Vec<&str> {
        let EnsureReply {
            ensured,
            events,
            annotations,
        } = self;
        let mut names = keys(events, annotations);
        match ensured {
            Ensured::Ready(status) => names.extend(of_status(status)),
            Ensured::Pending(_) => {}
        }
        names
    }
}

impl Shown for ProgressReply {
    fn texts(&mut self) -> Vec<&mut String> {
        of_service(&mut self.events, &mut self.annotations)
    }

    fn names(&self) -> Vec<&str> {
        keys(&self.events, &self.annotations)
    }
}

impl Shown for GetReply {
    fn texts(&mut self) -> Vec<&mut String> {
        Vec::new()
    }

    fn names(&self) -> Vec<&str> {
        match &self.found {
            Found::Present(status) => of_status(status),
            Found::Absent => Vec::new(),
        }
    }
}

impl Shown for ListRoutesReply {
    fn texts(&mut self) -> Vec<&mut String> {
        let routes = self.routes.iter_mut();
        let others = routes.filter_map(|route| {
            let CloudRoute {
                id: _,
                destination_cidr: _,
                target,
                extra: _,
            } = route;
            match target {
                RouteTarget::Other(what) => Some(what),
                RouteTarget::Node(_) | RouteTarget::Outdated(_) | RouteTarget::Blackhole => None,
            }
        });
        others.collect()
    }

    fn names(&self) -> Vec<&str> {
        let names = self.routes.iter().flat_map(|route| {
            // Next hops that are nodes come from the request, so they need no check. Nobody but the guest sees `extra`.
            let CloudRoute {
                id,
                destination_cidr,
                target: _,
                extra: _,
            } = route;
            [id.as_str(), destination_cidr.as_str()]
        });
        names.collect()
    }
}

impl Shown for RouteReply {
    fn texts(&mut self) -> Vec<&mut String> {
        self.events
            .iter_mut()
            .map(|event| &mut event.message)
            .collect()
    }

    fn names(&self) -> Vec<&str> {
        keys(&self.events, &[])
    }
}

fn of_service<'a>(
    events: &'a mut [CloudEvent],
    annotations: &'a mut [AnnotationChange],
) -> Vec<&'a mut String> {
    let messages = events.iter_mut().map(|event| {
        let CloudEvent {
            event_type: _,
            reason: _,
            message,
            is_from_provider: _,
        } = event;
        message
    });
    let values = annotations.iter_mut().filter_map(|change| {
        let AnnotationChange { key: _, value } = change;
        value.as_mut()
    });
    messages.chain(values).collect()
}

fn keys<'a>(events: &'a [CloudEvent], annotations: &'a [AnnotationChange]) -> Vec<&'a str> {
    let reasons = events.iter().map(|event| event.reason.as_str());
    let keys = annotations.iter().map(|one| one.key.as_str());
    reasons.chain(keys).collect()
}

fn of_instance(instance: &Instance) -> Vec<&str> {
    let Instance {
        provider_id,
        instance_type,
        zone,
        region,
        addresses,
        labels,
        shutdown: _,
    } = instance;
    let kinds = [instance_type, zone, region];
    let labels = labels.iter();
    let mut names = vec![provider_id.as_str()];
    names.extend(kinds.into_iter().flatten().map(String::as_str));
    names.extend(addresses.iter().map(|one| one.address.as_str()));
    names.extend(labels.flat_map(|(key, value)| [key.as_str(), value.as_str()]));
    names
}

fn of_status(status: &LoadBalancerStatus) -> Vec<&str> {
    let ways_in = status.ingress.iter();
    ways_in
        .flat_map(|one| {
            let Ingress {
                ip,
                hostname,
                ip_mode: _,
                ports,
            } = one;
            let errors = ports.iter().map(|port| {
                let PortStatus {
                    port: _,
                    protocol: _,
                    error,
                } = port;
                error
            });
            errors.chain([ip, hostname]).flatten()
        })
        .map(String::as_str)
        .collect()
}

#[cfg(test)]
mod tests;
