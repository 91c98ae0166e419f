//! The vendor's load balancer types: limits and prices as constants, and whether each may be ordered.

use http::StatusCode;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::api::{Call, Refusal, Reply};
use super::query;
use super::server_types::prices;
use super::world::World;

/// A load balancer type. The default is the smallest one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LoadBalancerType {
    /// 5 services, 25 targets.
    #[default]
    Lb11,
    /// 15 services, 75 targets.
    Lb21,
    /// 30 services, 150 targets.
    Lb31,
}

/// Whether a load balancer type may be ordered. By default it may, without an announced end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Offer {
    /// It may be ordered.
    #[default]
    Current,
    /// It may be ordered until `unavailable_after`, and is shown as deprecated.
    Deprecated {
        /// When the end was announced.
        announced: Timestamp,
        /// Orders are refused from this time on.
        unavailable_after: Timestamp,
    },
    /// Orders are refused, without a sign of it in the type.
    SoldOut,
}

/// The vendor's data about one type; price in euro per month.
struct Facts {
    id: u64,
    name: &'static str,
    description: &'static str,
    max_connections: u64,
    max_services: usize,
    max_targets: usize,
    max_certificates: usize,
    monthly: f64,
}

impl LoadBalancerType {
    /// Every type, in the order of their ids.
    pub const ALL: [Self; 3] = [Self::Lb11, Self::Lb21, Self::Lb31];

    /// The vendor's name, for example `lb11`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.facts().name
    }

    /// Maximum number of services of one load balancer.
    #[must_use]
    pub fn max_services(self) -> usize {
        self.facts().max_services
    }

    /// Maximum number of targets of one load balancer.
    #[must_use]
    pub fn max_targets(self) -> usize {
        self.facts().max_targets
    }

    /// Maximum number of certificates of all services of one load balancer.
    #[must_use]
    pub fn max_certificates(self) -> usize {
        self.facts().max_certificates
    }

    /// Finds a type by its ID or name, as the vendor's write requests allow.
    pub(super) fn find(id_or_name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|size| size.name() == id_or_name || size.facts().id.to_string() == id_or_name)
    }

    pub(super) fn json(self, world: &World) -> Value {
        let facts = self.facts();
        // The older field contains only the announcement.
        let (deprecated, deprecation) = match world.offer(self) {
            Offer::Current | Offer::SoldOut => (Value::Null, Value::Null),
            Offer::Deprecated {
                announced,
                unavailable_after,
            } => {
                let (announced, end) = (announced.to_string(), unavailable_after.to_string());
                let deprecation = json!({"announced": announced, "unavailable_after": end});
                (json!(announced), deprecation)
            }
        };
        json!({
            "id": facts.id, "name": facts.name, "description": facts.description,
            "max_connections": facts.max_connections, "max_services": facts.max_services,
            "max_targets": world.max_targets(self), "max_assigned_certificates": facts.max_certificates,
            "deprecated": deprecated, "deprecation": deprecation, "prices": prices(facts.monthly),
        })
    }

    /// The type requested by ID or name, if it may be ordered.
    pub(super) fn ordered(world: &World, id_or_name: &str) -> Result<Self, Refusal> {
        let size = Self::find(id_or_name)
            .ok_or_else(|| Refusal::invalid("load_balancer_type", "unknown load balancer type"))?;
        let is_over = match world.offer(size) {
            Offer::Current => false,
            Offer::Deprecated {
                unavailable_after, ..
            } => world.timestamp() >= unavailable_after,
            Offer::SoldOut => true,
        };
        if is_over {
            let message = "the load balancer type is not available for order";
            return Err(Refusal::new(
                StatusCode::PRECONDITION_FAILED,
                "resource_unavailable",
                message,
            ));
        }
        Ok(size)
    }

    fn facts(self) -> Facts {
        match self {
            Self::Lb11 => Facts {
                id: 1,
                name: "lb11",
                description: "LB11",
                max_connections: 10_000,
                max_services: 5,
                max_targets: 25,
                max_certificates: 10,
                monthly: 5.39,
            },
            Self::Lb21 => Facts {
                id: 2,
                name: "lb21",
                description: "LB21",
                max_connections: 20_000,
                max_services: 15,
                max_targets: 75,
                max_certificates: 25,
                monthly: 16.4,
            },
            Self::Lb31 => Facts {
                id: 3,
                name: "lb31",
                description: "LB31",
                max_connections: 40_000,
                max_services: 30,
                max_targets: 150,
                max_certificates: 50,
                monthly: 32.9,
            },
        }
    }
}

/// Handles `GET /load_balancer_types` and everything below it.
pub(super) fn read(world: &World, call: &Call, rest: &[&str]) -> Result<Reply, Refusal> {
    match rest {
        [] => {
            let name = call.query.first("name");
            let named: Vec<LoadBalancerType> = LoadBalancerType::ALL
                .into_iter()
                .filter(|size| name.is_none_or(|name| size.name() == name))
                .collect();
            query::list(call, "load_balancer_types", &named, |size| size.json(world))
        }
        [id] => LoadBalancerType::ALL
            .into_iter()
            .find(|size| size.facts().id.to_string() == *id)
            .map(|size| Reply::ok(json!({"load_balancer_type": size.json(world)})))
            .ok_or_else(|| Refusal::not_found("load balancer type", id)),
        _ => Err(Refusal::no_endpoint(call)),
    }
}
