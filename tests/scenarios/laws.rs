//! The laws of every play, disturbed or not, checked on the recorded requests to the API server and the cloud: the
//! taint goes last (S3), a provider ID stays (S4), fields of others are not touched (S10), nothing dangerous follows
//! from one answer, and every write has its preconditions. The laws about deletions are in `deletions.rs`, about
//! Services in `service_laws.rs`, about routes in `route_laws.rs` and about pod networks in `pod_network_laws.rs`. The
//! transcripts of failures show the numbers.

use std::collections::BTreeSet;
use std::time::Duration;

use ccm_core::cloud::{AddressType, Lookup};
use ccm_core::safety::brake::Allowances;
use ccm_core::safety::permit::Mode;
use ccm_core::well_known;
use ccm_sim::cluster::Write;
use serde_json::{Map, Value, json};

use crate::audited::{self, Audited};
use crate::cloud::{Answered, Truth};
use crate::deletions;
use crate::pod_network_laws;
use crate::route_laws::{self, RouteRecord};
use crate::service_laws::{self, ServiceRecord};
use crate::transcript::Surveyed;
use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

/// The labels of a machine's type, zone and region.
const LABELS: [&str; 6] = [
    well_known::INSTANCE_TYPE,
    well_known::INSTANCE_TYPE_BETA,
    well_known::ZONE,
    well_known::ZONE_BETA,
    well_known::REGION,
    well_known::REGION_BETA,
];
/// Minimum time between the two answers that a deletion, or another InternalIP of a Ready node, needs.
pub(crate) const APART: Duration = Duration::from_secs(10);

/// The recorded events of a play.
pub struct Record {
    /// The writes of the controllers alone.
    pub(crate) writes: Vec<Write>,
    /// The answers of the clouds.
    pub(crate) answered: Vec<Answered>,
    /// The true states of the machines, with their times.
    pub(crate) truth: Vec<Truth>,
    /// The node lifecycle controller's look-ups.
    pub(crate) surveys: Vec<Surveyed>,
    /// The start of each process.
    pub(crate) starts: Vec<Instant>,
    /// The mode of the controllers.
    pub(crate) mode: Mode,
    /// The limits of the brakes.
    pub(crate) allowances: Allowances,
    /// The largest number of nodes at a time.
    pub(crate) most_nodes: usize,
    /// The start of the play, on both clocks.
    pub(crate) began: Option<(Instant, Timestamp)>,
    /// Whether nodes may be deleted although no witness is left.
    pub(crate) may_delete_the_last: bool,
    /// If a process dies in the play, how much later its last write may be carried out.
    pub(crate) lateness: Option<Duration>,
    /// The audit records; `None` without an audit.
    pub(crate) audited: Option<Vec<Audited>>,
    /// Whether an answer came late: it may come together with that of a later question.
    pub(crate) has_late_answers: bool,
    /// The record of Services and load balancers of each provider.
    pub(crate) services: Vec<ServiceRecord>,
    /// The record of routes and pod networks.
    pub(crate) routes: RouteRecord,
}

impl Record {
    /// A record with these parts alone.
    pub fn of(writes: Vec<Write>, answered: Vec<Answered>, mode: Mode) -> Record {
        Record {
            writes,
            answered,
            truth: Vec::new(),
            surveys: Vec::new(),
            starts: Vec::new(),
            mode,
            allowances: Allowances::default(),
            most_nodes: 0,
            began: None,
            may_delete_the_last: false,
            lateness: None,
            audited: None,
            has_late_answers: false,
            services: vec![ServiceRecord::default()],
            routes: RouteRecord::default(),
        }
    }
}

/// The messages of all broken laws.
pub fn broken(record: &Record) -> Vec<String> {
    let (writes, answered, mode) = (&record.writes, &record.answered, record.mode);
    let mut found = Vec::new();
    if mode != Mode::Enforce
        && let Some(write) = writes.first()
    {
        found.push(describe(write, "was made although nothing may be changed"));
    }
    for write in writes {
        match (write.request.resource, write.request.verb) {
            ("nodes", "patch") => {
                found.extend(preconditions(write));
                found.extend(effects(write, answered));
            }
            ("nodes", "delete") => found.extend(deletions::deletion(write, record)),
            // The provider that made the write is the one whose laws it breaks least.
            ("services", "patch") => {
                let services = record.services.iter();
                let reported = services.map(|services| service_laws::patch(write, services));
                found.extend(reported.min_by_key(Vec::len).unwrap_or_default());
            }
            ("events", "create" | "patch") => found.extend(component(write)),
            // The annotations of the Lease record the use of the brakes' budgets.
            ("leases", "create" | "update") => {}
            _ => found.push(describe(write, "is nothing that the controllers may do")),
        }
    }
    found.extend(deletions::budgets(record));
    found.extend(deletions::questions(record));
    found.extend(record.services.iter().flat_map(service_laws::broken));
    found.extend(pod_network_laws::broken(&record.routes));
    found.extend(route_laws::broken(&record.routes));
    if let Some(audited) = &record.audited {
        found.extend(audited::broken(writes, audited));
    }
    found
}

pub(crate) fn describe(write: &Write, what: &str) -> String {
    let request = &write.request;
    let subresource = match request.subresource.as_str() {
        "" => String::new(),
        name => format!("/{name}"),
    };
    format!(
        "request {}, {} {}/{}{subresource}, {what}: {}",
        request.sequence, request.verb, request.resource, request.name, write.body
    )
}

/// The Events of upstream's controllers come from components of these names (ROUTE-006, IPAM-029).
fn component(write: &Write) -> Option<String> {
    let reason = write.body["reason"].as_str()?;
    let wanted = match reason {
        "FailedToCreateRoute" => well_known::ROUTE_EVENTS,
        "CIDRNotAvailable" | "CIDRAssignmentFailed" => well_known::IPAM_EVENTS,
        _ => return None,
    };
    let reported = &write.body["reportingComponent"];
    let reported = reported
        .as_str()
        .or(write.body["reportingController"].as_str());
    (reported != Some(wanted)).then(|| describe(write, &format!("does not come from {wanted}")))
}

/// Every patch names the object's UID; a patch of taints, whose list is written as a whole, also the resource version.
fn preconditions(write: &Write) -> Vec<String> {
    let metadata = &write.body["metadata"];
    let mut found = Vec::new();
    if metadata["uid"].as_str().is_none_or(str::is_empty) {
        found.push(describe(write, "has no UID precondition"));
    }
    let has_taints = write.body["spec"].get("taints").is_some();
    if has_taints
        && metadata["resourceVersion"]
            .as_str()
            .is_none_or(str::is_empty)
    {
        found.push(describe(write, "writes taints without a version"));
    }
    found
}

/// The violations in a write's effect on its node.
fn effects(write: &Write, answered: &[Answered]) -> Vec<String> {
    let (Some(before), Some(after)) = (&write.before, &write.after) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    let stored = provider_id(before);
    if !stored.is_empty() && stored != provider_id(after) {
        found.push(describe(write, "changes a provider ID (S4)"));
    }
    if is_tainted(before) && !is_tainted(after) {
        if provider_id(after).is_empty() {
            found.push(describe(
                write,
                "removes the taint without a provider ID (S3)",
            ));
        }
        if !has_addresses(before, write, answered) {
            found.push(describe(
                write,
                "removes the taint before addresses are stored (S3)",
            ));
        }
    }
    if is_ready(before) && !internal(before).is_subset(&internal(after)) {
        let wanted: BTreeSet<String> = internal(after);
        if !has_answered_twice(&wanted, write, answered) {
            found.push(describe(
                write,
                "takes an InternalIP from a Ready node without two equal answers 10 s apart",
            ));
        }
    }
    let theirs = theirs(before, before);
    if theirs != self::theirs(after, before) {
        found.push(describe(write, "changes what is not ours (S10)"));
    }
    found
}

fn provider_id(node: &Value) -> &str {
    node["spec"]["providerID"].as_str().unwrap_or_default()
}

pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn is_tainted(node: &Value) -> bool {
    list(&node["spec"]["taints"])
        .iter()
        .any(|taint| taint["key"] == well_known::UNINITIALIZED_TAINT)
}

/// Whether one of the cloud's addresses is stored, if the cloud has reported any.
fn has_addresses(node: &Value, write: &Write, answered: &[Answered]) -> bool {
    let name = write.request.name.as_str();
    let last = answered.iter().rev().find_map(|one| match &one.lookup {
        Lookup::Found(instance) if one.node == name && one.at <= write.at => Some(instance),
        _ => None,
    });
    let reported: BTreeSet<&str> = last
        .iter()
        .flat_map(|instance| &instance.addresses)
        .map(|one| one.address.as_str())
        .collect();
    let stored = list(&node["status"]["addresses"]);
    reported.is_empty()
        || stored.iter().any(|one| {
            let address = one["address"].as_str().unwrap_or_default();
            reported.contains(address)
        })
}

fn is_ready(node: &Value) -> bool {
    let conditions = list(&node["status"]["conditions"]);
    let is_it = |one: &Value| one["type"] == "Ready" && one["status"] == "True";
    conditions.iter().any(is_it)
}

fn internal(node: &Value) -> BTreeSet<String> {
    let addresses = list(&node["status"]["addresses"]).iter();
    addresses
        .filter(|one| one["type"] == "InternalIP")
        .filter_map(|one| one["address"].as_str().map(str::to_owned))
        .collect()
}

/// Whether the newest answers about the node, over long enough a time, all had these InternalIPs.
fn has_answered_twice(wanted: &BTreeSet<String>, write: &Write, answered: &[Answered]) -> bool {
    let has_them = |one: &&Answered| match &one.lookup {
        Lookup::Found(instance) => wanted.iter().all(|wanted| {
            let mut addresses = instance.addresses.iter();
            addresses
                .any(|one| one.address_type == AddressType::InternalIp && one.address == *wanted)
        }),
        _ => false,
    };
    let about = answered.iter().rev();
    let mut about = about.filter(|one| one.node == write.request.name && one.at <= write.at);
    let Some(newest) = about.next().filter(has_them) else {
        return false;
    };
    about
        .take_while(has_them)
        .any(|one| one.at + APART <= newest.at)
}

/// A node without the fields of the controllers. `before` shows which labels other clients had set.
fn theirs(node: &Value, before: &Value) -> Value {
    let mut node = node.clone();
    let had: Vec<String> = object(&before["metadata"]["labels"])
        .keys()
        .cloned()
        .collect();
    let is_ours =
        |key: &str| LABELS.contains(&key) || key.split('/').next() == Some(well_known::OUR_DOMAIN);
    // The provider may add a label; one that another client had set before stays.
    keep(&mut node["metadata"]["labels"], |key| {
        !is_ours(key) && had.iter().any(|one| one == key)
    });
    keep(&mut node["metadata"]["annotations"], |key| !is_ours(key));
    let taints: Vec<Value> = list(&node["spec"]["taints"])
        .iter()
        .filter(|taint| {
            taint["key"] != well_known::UNINITIALIZED_TAINT
                && taint["key"] != well_known::SHUTDOWN_TAINT
        })
        .cloned()
        .collect();
    node["spec"]["taints"] = json!(taints);
    node["spec"]["providerID"] = Value::Null;
    node["status"]["addresses"] = Value::Null;
    pod_network_laws::without_ours(&mut node, before);
    node["metadata"]["resourceVersion"] = Value::Null;
    node
}

fn object(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

fn keep(fields: &mut Value, is_kept: impl Fn(&str) -> bool) {
    let mut left = object(fields);
    left.retain(|key, _| is_kept(key));
    *fields = Value::Object(left);
}
