//! The texts of an answer that people read later, in Events, annotations and logs: without a credential, should a guest have
//! come by one. No guest is given any; this is for the day on which a cloud repeats one in a way that nobody thought of.

use ccm_core::cloud::{CloudEvent, FindReply, Lookup, ProviderError};
use ccm_core::cloud_route::{ListRoutesReply, RouteReply, RouteTarget};
use ccm_core::load_balancer::{AnnotationChange, EnsureReply, GetReply, ProgressReply};

use crate::provider::Provider;

/// An answer with texts.
pub(super) trait Shown {
    /// Those that are shown to people.
    fn texts(&mut self) -> Vec<&mut String>;
}

impl Provider {
    /// The answer as it may be shown.
    pub(super) async fn shown<R: Shown>(
        &self,
        answer: impl Future<Output = Result<R, ProviderError>>,
    ) -> Result<R, ProviderError> {
        match answer.await {
            Ok(mut reply) => {
                for text in reply.texts() {
                    *text = self.egress.redacted(text);
                }
                Ok(reply)
            }
            Err(error) => Err(error.with_text(|text| self.egress.redacted(&text))),
        }
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
}

impl Shown for EnsureReply {
    fn texts(&mut self) -> Vec<&mut String> {
        of_service(&mut self.events, &mut self.annotations)
    }
}

impl Shown for ProgressReply {
    fn texts(&mut self) -> Vec<&mut String> {
        of_service(&mut self.events, &mut self.annotations)
    }
}

impl Shown for GetReply {
    fn texts(&mut self) -> Vec<&mut String> {
        Vec::new()
    }
}

impl Shown for ListRoutesReply {
    fn texts(&mut self) -> Vec<&mut String> {
        let routes = self.routes.iter_mut();
        let others = routes.filter_map(|route| match &mut route.target {
            RouteTarget::Other(what) => Some(what),
            RouteTarget::Node(_) | RouteTarget::Outdated(_) | RouteTarget::Blackhole => None,
        });
        others.collect()
    }
}

impl Shown for RouteReply {
    fn texts(&mut self) -> Vec<&mut String> {
        self.events
            .iter_mut()
            .map(|event| &mut event.message)
            .collect()
    }
}

fn of_service<'a>(
    events: &'a mut [CloudEvent],
    annotations: &'a mut [AnnotationChange],
) -> Vec<&'a mut String> {
    let events = events.iter_mut().map(|event| &mut event.message);
    let values = annotations.iter_mut().filter_map(|one| one.value.as_mut());
    events.chain(values).collect()
}
