//! Converts a guest's answer to core's types, and a route back to the guest's. The shape was checked before
//! (`answer_limits`), so nothing is cut here.

use ccm_core::cloud::load_balancer::Progress;
use ccm_core::cloud::route::{CloudRoute, RouteReply, RouteTarget};

use crate::bindings::routes;
use crate::sanitize::clean;
use crate::v0_2::answer_limits;

impl From<routes::Route> for CloudRoute {
    fn from(route: routes::Route) -> CloudRoute {
        let routes::Route {
            id,
            destination_cidr,
            target,
            extra,
        } = route;
        CloudRoute {
            id,
            destination_cidr,
            target: match target {
                routes::Target::Node(name) => RouteTarget::Node(name),
                routes::Target::Outdated(name) => RouteTarget::Outdated(name),
                routes::Target::Blackhole => RouteTarget::Blackhole,
                routes::Target::Other(what) => {
                    RouteTarget::Other(clean(&what, answer_limits::OTHER_BYTES))
                }
            },
            extra,
        }
    }
}

impl From<&CloudRoute> for routes::Route {
    fn from(route: &CloudRoute) -> routes::Route {
        routes::Route {
            id: route.id.clone(),
            destination_cidr: route.destination_cidr.clone(),
            target: match &route.target {
                RouteTarget::Node(name) => routes::Target::Node(name.clone()),
                RouteTarget::Outdated(name) => routes::Target::Outdated(name.clone()),
                RouteTarget::Blackhole => routes::Target::Blackhole,
                RouteTarget::Other(what) => routes::Target::Other(what.clone()),
            },
            extra: route.extra.clone(),
        }
    }
}

impl From<routes::ProgressReply> for RouteReply {
    fn from(reply: routes::ProgressReply) -> RouteReply {
        RouteReply {
            progress: match reply.progress {
                routes::Progress::Done => Progress::Done,
                routes::Progress::Pending(pending) => Progress::Pending(pending.into()),
            },
            events: reply.events.into_iter().map(Into::into).collect(),
        }
    }
}
