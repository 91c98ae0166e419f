//! The laws about Services and their load balancers, checked on the records of the API server and the cloud: the
//! finalizer is there from before the first call until absence is proven (S5), a Service has one load balancer at most
//! (S6), another owner's is not touched (S7), fields of others stay (S10), no more are deleted than the brake allows
//! (S11), every change has its record (S12), and calls come neither too soon nor two at a time. The rules for a status
//! are in `ingress_laws.rs`.

use std::collections::BTreeMap;
use std::time::Duration;

use ccm_core::cloud::{Owner, ProviderError};
use ccm_core::safety::brake::{Allowances, Brake};
use ccm_core::safety::permit::Mode;
use ccm_core::settings::ServiceRules;
use ccm_core::well_known::{LOAD_BALANCER_FINALIZER, OUR_DOMAIN, PORTS_CONDITION, SERVICE_OWNER};
use ccm_sim::cluster::Write;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::audited::{self, AuditedChange};
use crate::cloud::SIM;
use crate::cloud_changes::BRAKED;
use crate::deletions::risen;
use crate::ingress_laws;
use crate::laws::{describe, list};
use crate::load_balancer_answers::PREFIX;
use crate::load_balancers::{Called, Changed, Operation, Recorded};

/// The record of Services and load balancers of one provider.
#[derive(Default)]
pub(crate) struct ServiceRecord {
    /// The provider; `None`: the provider of scripts that name none.
    pub(crate) provider: Option<String>,
    /// The writes of nodes and Services by all clients, in order.
    pub(crate) history: Vec<Write>,
    /// The user of the controllers at the API server.
    pub(crate) identity: &'static str,
    pub(crate) cloud: Recorded,
    pub(crate) audited: Vec<AuditedChange>,
    pub(crate) mode: Mode,
    pub(crate) allowances: Allowances,
    /// The start of each process, and its rules.
    pub(crate) starts: Vec<(Instant, ServiceRules)>,
}

/// The state of a Service after a request.
enum State<'a> {
    /// Created, and not written to since.
    Untouched,
    Present(&'a Value),
    Gone,
}

fn uid(object: Option<&Value>) -> &str {
    let uid = object.and_then(|object| object["metadata"]["uid"].as_str());
    uid.unwrap_or_default()
}

fn before(write: &Write) -> Option<&Value> {
    write.before.as_deref()
}

fn after(write: &Write) -> Option<&Value> {
    write.after.as_deref()
}

impl ServiceRecord {
    fn us(&self) -> &str {
        self.provider.as_deref().unwrap_or(SIM)
    }

    /// The writes of Services up to this request, the last one first.
    fn writes(&self, until: u64) -> impl Iterator<Item = &Write> {
        let all = self.history.iter().rev();
        all.filter(move |one| one.request.resource == "services" && one.request.sequence <= until)
    }

    fn state(&self, of: &str, at: u64) -> State<'_> {
        let mut writes = self.writes(at);
        if let Some(last) = writes.find(|one| uid(before(one)) == of || uid(after(one)) == of) {
            return match after(last).filter(|object| uid(Some(object)) == of) {
                Some(object) => State::Present(object),
                None => State::Gone,
            };
        }
        let mut all = self.history.iter();
        let next = all.find(|one| one.request.resource == "services" && uid(before(one)) == of);
        match next.and_then(|one| before(one)) {
            Some(object) => State::Present(object),
            None => State::Untouched,
        }
    }

    /// Whether finalizer and owner are there by the controllers' own writes: other clients may remove them at any time.
    fn is_guarded(&self, of: &str, at: u64) -> bool {
        let mut ours = self
            .writes(at)
            .filter(|one| one.request.identity == self.identity);
        let last = ours.find(|one| uid(before(one)) == of || uid(after(one)) == of);
        let is_guarded = |object: &Value| has_finalizer(object) && recorded(object) == self.us();
        match last {
            Some(last) => after(last).is_some_and(is_guarded),
            None => matches!(self.state(of, at), State::Present(object) if is_guarded(object)),
        }
    }

    /// Whether the rules of that time make the Service the provider's.
    fn is_ours(&self, service: &Value, at: Instant) -> bool {
        let rules = self.rules(at);
        let class = service["spec"]["loadBalancerClass"].as_str();
        match (recorded(service), class) {
            ("", None) => rules.is_default,
            ("", Some(class)) => rules.classes.contains(class),
            (owner, _) => owner == self.us(),
        }
    }

    /// Whether this provider is the last one that was recorded for a Service that has no owner now: it may still have
    /// its load balancer, which nobody else removes.
    fn was_ours(&self, of: &str, at: u64) -> bool {
        let states = self
            .writes(at)
            .flat_map(|write| [after(write), before(write)]);
        let mut owners = states.filter(|one| uid(*one) == of).flatten().map(recorded);
        owners.find(|owner| !owner.is_empty()) == Some(self.us())
    }

    /// The rules of the process that ran at this time.
    pub(crate) fn rules(&self, at: Instant) -> ServiceRules {
        let started = self.starts.iter().rev().find(|(start, _)| *start <= at);
        started.map(|(_, rules)| rules.clone()).unwrap_or_default()
    }

    /// The Services that exist after a request, in their state then.
    pub(crate) fn present(&self, at: u64) -> BTreeMap<&str, &Value> {
        let mut seen: BTreeMap<&str, Option<&Value>> = BTreeMap::new();
        for write in self.writes(at) {
            let (old, new) = (uid(before(write)), uid(after(write)));
            seen.entry(new).or_insert_with(|| after(write));
            seen.entry(old).or_insert(None);
        }
        let there = seen.into_iter().filter(|(uid, _)| !uid.is_empty());
        there.filter_map(|(uid, one)| Some((uid, one?))).collect()
    }
}

fn recorded(service: &Value) -> &str {
    let owner = &service["metadata"]["annotations"][SERVICE_OWNER];
    owner.as_str().unwrap_or_default()
}

fn has_finalizer(service: &Value) -> bool {
    let finalizers = list(&service["metadata"]["finalizers"]);
    finalizers.iter().any(|one| one == LOAD_BALANCER_FINALIZER)
}

fn is_wanted(service: &Value) -> bool {
    service["spec"]["type"] == "LoadBalancer" && service["metadata"]["deletionTimestamp"].is_null()
}

/// The violations of one patch of a Service.
pub(crate) fn patch(write: &Write, record: &ServiceRecord) -> Vec<String> {
    let mut found = Vec::new();
    let mut report = |what: &str| found.push(describe(write, what));
    if write.request.subresource != "status" {
        report("does not go through the status (SVC-080)");
    }
    if write.body["metadata"]["uid"]
        .as_str()
        .is_none_or(str::is_empty)
    {
        report("has no UID precondition");
    }
    if write.body.get("spec").is_some() {
        report("writes a spec (S10)");
    }
    let Some(old) = before(write) else {
        return found;
    };
    if !record.is_ours(old, write.at) {
        report("touches a Service that is not ours (SVC-011)");
    }
    if let Some(new) = after(write)
        && theirs(old) != theirs(new)
    {
        report("changes what is not ours (S10)");
    }
    if has_finalizer(old) && !after(write).is_some_and(has_finalizer) {
        let of = uid(Some(old));
        let mut all = record.cloud.all.iter();
        if all.any(|one| one.owner.as_deref() == Some(of) && one.exists(write.at)) {
            report("removes the finalizer while there is a load balancer (S5)");
        } else if !is_proven_absent(of, write, record) {
            report("removes the finalizer before absence is proven (S5)");
        }
    }
    if let Some(ingress) = write.body["status"]["loadBalancer"].get("ingress") {
        let refused = ingress_laws::refused(ingress, uid(Some(old)), write, record);
        refused.iter().for_each(|why| report(why));
    }
    found
}

/// A Service without the fields of the controllers.
fn theirs(service: &Value) -> Value {
    let mut service = service.clone();
    let finalizers: Vec<Value> = list(&service["metadata"]["finalizers"])
        .iter()
        .filter(|one| *one != LOAD_BALANCER_FINALIZER)
        .cloned()
        .collect();
    service["metadata"]["finalizers"] = json!(finalizers);
    let mut annotations = service["metadata"]["annotations"].take();
    let is_ours = |key: &str| key.split('/').next() == Some(OUR_DOMAIN) || key.starts_with(PREFIX);
    if let Some(annotations) = annotations.as_object_mut() {
        annotations.retain(|key, _| !is_ours(key));
    }
    // An empty map equals an absent one.
    if annotations.as_object().is_some_and(|all| !all.is_empty()) {
        service["metadata"]["annotations"] = annotations;
    }
    let conditions: Vec<Value> = list(&service["status"]["conditions"])
        .iter()
        .filter(|one| !is_our_condition(one))
        .cloned()
        .collect();
    service["status"]["conditions"] = json!(conditions);
    service["status"]["loadBalancer"] = Value::Null;
    service["metadata"]["resourceVersion"] = Value::Null;
    service
}

fn is_our_condition(condition: &Value) -> bool {
    let kind = condition["type"].as_str().unwrap_or_default();
    kind.split('/').next() == Some(OUR_DOMAIN) || kind == PORTS_CONDITION
}

/// Whether a complete answer reported no load balancer after all calls that could have created one.
fn is_proven_absent(of: &str, write: &Write, record: &ServiceRecord) -> bool {
    let calls = record.cloud.calls.iter().filter(|one| one.uid == of);
    let ended = |one: &Called| one.ended.map(|(_, sequence)| sequence);
    let known = calls.filter(|one| ended(one).is_some_and(|end| end < write.request.sequence));
    let known: Vec<&Called> = known.collect();
    let last = known
        .iter()
        .rposition(|one| one.operation != Operation::Get);
    known[last.map_or(0, |last| last + 1)..].iter().any(|one| {
        match &one.answer {
            Some(Ok(listed)) => listed.complete && listed.status.is_none(),
            // Another component made it.
            Some(Err(error)) => *error == ProviderError::Elsewhere,
            None => false,
        }
    })
}

/// The violations of all other laws.
pub(crate) fn broken(record: &ServiceRecord) -> Vec<String> {
    let mut found = Vec::new();
    let cloud = &record.cloud;
    if record.mode != Mode::Enforce && !cloud.changes.is_empty() {
        found.push(format!(
            "{:?} although nothing may be changed",
            cloud.changes[0]
        ));
    }
    for call in &cloud.calls {
        found.extend(allowed(call, record));
    }
    for change in &cloud.changes {
        found.extend(owned(change, record));
    }
    found.extend(doubled(record));
    found.extend(too_soon(record));
    found.extend(brake(record));
    found.extend(audited::unrecorded(&cloud.changes, &record.audited));
    found
}

/// The violations of the conditions under which the provider may be called about a Service.
fn allowed(call: &Called, record: &ServiceRecord) -> Vec<String> {
    let (of, operation) = (&call.uid, call.operation);
    let mut found = Vec::new();
    let mut report = |what: &str| found.push(format!("{} for {of} {what}", operation.as_str()));
    // A call that changes nothing needs no guard.
    if record.mode == Mode::Enforce
        && matches!(operation, Operation::Ensure | Operation::Update)
        && !record.is_guarded(of, call.after)
    {
        report("without finalizer and owner (S5)");
    }
    if let State::Present(service) = record.state(of, call.after) {
        let may_be_left = !is_wanted(service)
            && matches!(operation, Operation::Delete | Operation::Get)
            && record.was_ours(of, call.after);
        if !may_be_left && !record.is_ours(service, call.at) {
            report("although the Service is not ours (SVC-011)");
        }
        if operation == Operation::Delete && is_wanted(service) {
            report("although the load balancer is wanted");
        }
    }
    if let Some(owner) = &call.adopt {
        let named = (!owner.is_empty()).then(|| Owner::Uid(owner.clone()));
        if !record.rules(call.at).adoption.allows(named.as_ref()) {
            report("takes over what somebody else has although nobody allowed it (S7)");
        }
        if let State::Present(_) = record.state(owner, call.after) {
            report("takes over what belongs to a Service that is there (S7)");
        }
        let mut earlier = record
            .cloud
            .calls
            .iter()
            .filter(|one| one.at <= call.at && one.uid == *of);
        let was_said = earlier.any(|one| match &one.answer {
            Some(Err(ProviderError::Conflict {
                owner: reported, ..
            })) => reported.as_ref().map(Owner::to_string).unwrap_or_default() == *owner,
            _ => false,
        });
        if !was_said {
            report("takes over what nobody said that somebody has (S7)");
        }
    }
    found
}

/// S7: only the Service's own load balancer is changed.
fn owned(change: &Changed, record: &ServiceRecord) -> Option<String> {
    let is_free = match change.what {
        "create" => true,
        "adopt" => record.cloud.calls.iter().any(|one| {
            one.uid == change.uid
                && one.adopt.as_deref() == Some(change.owner.as_deref().unwrap_or(""))
        }),
        _ => change.owner.as_ref() == Some(&change.uid),
    };
    (!is_free).then(|| format!("{change:?} changes what belongs to somebody else (S7)"))
}

/// S6, and one call at a time.
fn doubled(record: &ServiceRecord) -> Vec<String> {
    let mut found = Vec::new();
    let all = &record.cloud.all;
    for (index, one) in all.iter().enumerate() {
        let Some(owner) = &one.owner else { continue };
        let others = all[index + 1..]
            .iter()
            .filter(|other| other.owner.as_ref() == Some(owner));
        for other in others {
            if one.exists(other.made) || other.exists(one.made) {
                found.push(format!(
                    "{owner} has two load balancers at the same time (S6)"
                ));
            }
        }
    }
    let mut open: BTreeMap<&str, Instant> = BTreeMap::new();
    // A look-up changes nothing, and may be made for another Service whose witness this one is.
    let is_look = |call: &&Called| call.operation == Operation::Get;
    for call in record.cloud.calls.iter().filter(|call| !is_look(call)) {
        let end = call.ended.map_or(call.at, |(end, _)| end);
        let before = open.insert(&call.uid, end);
        if before.is_some_and(|before| before > call.at) {
            found.push(format!(
                "{} is asked about twice at a time (SVC-071)",
                call.uid
            ));
        }
    }
    found
}

/// A throttled call is not repeated before its time. A pending one may be, if something has changed; and a brake that holds
/// a call holds no other one.
fn too_soon(record: &ServiceRecord) -> Vec<String> {
    let mut found = Vec::new();
    let mut last: BTreeMap<&str, &Called> = BTreeMap::new();
    for call in &record.cloud.calls {
        let Some(before) = last.insert(&call.uid, call) else {
            continue;
        };
        let (Some((ended, sequence)), Some(answer)) = (before.ended, &before.answer) else {
            continue;
        };
        let (patience, word) = match answer {
            Err(ProviderError::Throttled { retry_after, .. }) => (*retry_after, "throttled"),
            Ok(listed) => (
                listed.pending.as_ref().map(|one| one.retry_after),
                "pending",
            ),
            Err(_) => (None, ""),
        };
        let is_soon = patience.is_some_and(|patience| call.at < ended + patience);
        let is_another = call.process != before.process;
        let mut since = record
            .history
            .iter()
            .filter(|one| one.request.sequence > sequence);
        let is_another_call = call.operation != before.operation;
        let is_news = word == "pending"
            && (since.any(|one| one.request.identity != record.identity) || is_another_call);
        let is_of_brake = matches!(
            answer,
            Err(ProviderError::Throttled { message, .. }) if message == BRAKED
        );
        let is_unbraked = is_of_brake && is_another_call;
        // One of them may have been made for another Service whose witness this one is.
        let is_look = [call.operation, before.operation].contains(&Operation::Get);
        if is_soon && !is_another && !is_news && !is_look && !is_unbraked {
            found.push(format!(
                "{} is asked about again too soon: {word}",
                call.uid
            ));
        }
    }
    found.extend(hints(record));
    found
}

/// A hint is that of the Service's last pending answer.
fn hints(record: &ServiceRecord) -> Vec<String> {
    let mut given: BTreeMap<&str, &[u8]> = BTreeMap::new();
    let mut found = Vec::new();
    for call in &record.cloud.calls {
        let hint = call.hint.as_deref();
        if hint.is_some() && hint != given.get(call.uid.as_str()).copied() {
            found.push(format!(
                "{} is asked with a hint that is not its own",
                call.uid
            ));
        }
        let listed = call.answer.as_ref().and_then(|answer| answer.as_ref().ok());
        let pending = listed.and_then(|listed| listed.pending.as_ref());
        if let Some(hint) = pending.and_then(|pending| pending.hint.as_deref()) {
            given.insert(&call.uid, hint);
        }
    }
    found
}

/// S11: no more deletions in any window than the brake allows, across restarts.
fn brake(record: &ServiceRecord) -> Vec<String> {
    let deletions = record
        .cloud
        .changes
        .iter()
        .filter(|one| one.what == "delete");
    let times: Vec<Instant> = deletions.map(|one| one.at).collect();
    let allowance = record.allowances.of(Brake::LoadBalancerDeletion);
    let services = record.history.iter();
    let services =
        services.filter(|one| (one.request.resource, one.request.verb) == ("services", "create"));
    let services = services.count();
    // A deletion may be carried out a while after its budget was used.
    let window = allowance.window.saturating_sub(Duration::from_secs(60));
    let mut found = Vec::new();
    for last in &times {
        let within = |at: &&Instant| **at <= *last && **at + window > *last;
        let most = allowance.risen(services, risen(&times, *last));
        if times.iter().filter(within).count() > most {
            found.push("more load balancers go than the brake lets through (S11)".to_owned());
        }
    }
    found
}
