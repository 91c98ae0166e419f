//! The requests of the processes, from the records of their servers: the API server's audit log and the cloud's
//! journal. Each process has an address of its own, so its name is not needed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use ccm_sim::hetzner::Hetzner;
use ccm_tests::apiserver::{ApiServer, Arrival, AuditEntry};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use crate::oracle::{Record, What, Who};
use crate::world::LEASE;

/// The writes to one node.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeWrites {
    /// Successful writes that initialised it.
    pub(crate) initialised: usize,
    /// Writes that would have initialised it, for which the API server recorded neither success nor refusal: their
    /// client had gone before the answer.
    pub(crate) unanswered: usize,
    /// Events that say that it is initialised.
    pub(crate) synced: usize,
}

/// The record so far.
#[derive(Default)]
pub(crate) struct Recorder {
    traffic: Vec<Record>,
    nodes: BTreeMap<String, NodeWrites>,
    /// The latest `renewTime` that a process wrote, and when that arrived.
    renew_times: BTreeMap<Who, (Timestamp, Timestamp)>,
    /// The contents of each Lease so far, by its name: a write that changes nothing is not about leadership. Two
    /// Leases may have the same: a process can release both in one microsecond.
    terms: BTreeSet<(String, String)>,
    /// Requests about other Leases, by name, in the order of the answers.
    others: Vec<(String, Who, What)>,
    read: u64,
    sequence: u64,
}

/// The address of a process.
pub(crate) fn address(replica: u32) -> Ipv4Addr {
    let [.., high, low] = replica.to_be_bytes();
    Ipv4Addr::new(127, 1, high, low)
}

/// The client with this address.
fn who(address: Option<IpAddr>) -> Who {
    match address {
        Some(IpAddr::V4(address)) if address.octets()[1] == 1 => {
            let [.., high, low] = address.octets();
            Who::Replica(u32::from_be_bytes([0, 0, high, low]))
        }
        _ => Who::Hand,
    }
}

impl Recorder {
    /// Reads the records since the last time.
    pub(crate) fn refresh(&mut self, api: &ApiServer, cloud: &Hetzner) {
        for arrival in api.read_audit_log(&mut self.read).unwrap() {
            self.take(arrival);
        }
        for request in cloud.requests_since(self.sequence) {
            self.sequence = request.sequence;
            let at = Timestamp::try_from(request.received).unwrap();
            self.traffic.push(Record {
                at,
                answered: at,
                by: who(Some(request.peer)),
                what: What::Act(format!("cloud: {} {}", request.method, request.path)),
            });
        }
        self.traffic.sort_by_key(|record| record.at);
    }

    fn take(&mut self, arrival: Arrival) {
        let by = who(arrival.source);
        let entry = arrival.entry;
        let what = if entry.resource == "leases" {
            let what = self.lease(by, arrival.received, &entry);
            let name = lease_name(&entry);
            if name != LEASE {
                let other = what.map(|what| (name.to_owned(), by, what));
                return self.others.extend(other);
            }
            what
        } else if by == Who::Hand || is_about_lease(&entry) {
            None
        } else {
            self.node(&entry);
            let what = format!("API server: {} {} ({})", entry.verb, entry.uri, entry.code);
            Some(What::Act(what))
        };
        self.traffic.extend(what.map(|what| Record {
            at: arrival.received,
            answered: arrival.answered,
            by,
            what,
        }));
    }

    fn lease(&mut self, by: Who, at: Timestamp, entry: &AuditEntry) -> Option<What> {
        let is_read = matches!(entry.verb.as_str(), "get" | "list" | "watch");
        if is_read || entry.code == 409 {
            return Some(What::Looked);
        }
        if !(200..300).contains(&entry.code) {
            return None;
        }
        let spec = &entry.body.as_ref()?["spec"];
        let terms = (lease_name(entry).to_owned(), spec.to_string());
        if spec.is_null() || !self.terms.insert(terms) {
            let what = format!("API server: {} {} ({})", entry.verb, entry.uri, entry.code);
            return Some(What::Act(what));
        }
        if let Some(time) = spec["renewTime"].as_str() {
            self.renew_times.insert(by, (time.parse().unwrap(), at));
        }
        match spec["holderIdentity"].as_str() {
            None | Some("") => Some(What::Released),
            Some(_) => Some(What::Renewed),
        }
    }

    fn node(&mut self, entry: &AuditEntry) {
        let Some(body) = &entry.body else { return };
        let is_done = (200..300).contains(&entry.code);
        if entry.resource == "nodes" && entry.subresource.is_empty() && entry.verb == "patch" {
            let writes = self.nodes.entry(entry.name.clone()).or_default();
            if body["spec"]["providerID"].is_string() {
                let is_refused = (400..499).contains(&entry.code);
                writes.initialised += usize::from(is_done);
                writes.unanswered += usize::from(!is_done && !is_refused);
            }
        } else if entry.resource == "events" && body["reason"] == "Synced" && is_done {
            let name = about(body)["name"].as_str().unwrap_or_default();
            self.nodes.entry(name.to_owned()).or_default().synced += 1;
        }
    }

    /// All requests, in the order of arrival.
    pub(crate) fn traffic(&self) -> &[Record] {
        &self.traffic
    }

    /// The last process that wrote itself into the Lease, and when; `None` after a release or a theft.
    pub(crate) fn holder(&self) -> Option<(u32, Timestamp)> {
        let mut records = self.traffic.iter().rev();
        let last = records.find(|record| matches!(record.what, What::Renewed | What::Released))?;
        match (&last.what, last.by) {
            (What::Renewed, Who::Replica(replica)) => Some((replica, last.at)),
            _ => None,
        }
    }

    /// When a process wrote itself into the Lease for the last time.
    pub(crate) fn renewed(&self, replica: u32) -> Option<Timestamp> {
        let mut records = self.by(replica).rev();
        Some(records.find(|record| record.what == What::Renewed)?.at)
    }

    /// When a process wrote itself into the Lease for the first time.
    pub(crate) fn taken(&self, replica: u32) -> Option<Timestamp> {
        let mut records = self.by(replica);
        Some(records.find(|record| record.what == What::Renewed)?.at)
    }

    /// Whether a process released the Lease.
    pub(crate) fn released(&self, replica: u32) -> bool {
        self.by(replica).any(|record| record.what == What::Released)
    }

    /// When a process had read, after `since`, who holds the Lease.
    pub(crate) fn holder_read_at(&self, replica: u32, since: Timestamp) -> Option<Timestamp> {
        let mut records = self.by(replica);
        let looked = |record: &&Record| record.what == What::Looked && record.at > since;
        Some(records.find(looked)?.answered)
    }

    /// How often a process has read who holds the Lease.
    pub(crate) fn looks(&self, replica: u32) -> usize {
        let looks = self
            .by(replica)
            .filter(|record| record.what == What::Looked);
        looks.count()
    }

    /// Difference of a process's clock to the machine's by its last renewal, in seconds.
    pub(crate) fn clock_offset(&self, replica: u32) -> Option<f64> {
        let (written, arrived) = self.renew_times.get(&Who::Replica(replica))?;
        Some(written.duration_since(*arrived).as_secs_f64())
    }

    /// Whether a process made such a request about a Lease other than the manager's main one.
    pub(crate) fn did(&self, replica: u32, lease: &str, what: &What) -> bool {
        let mut others = self.others.iter();
        others.any(|(name, by, did)| name == lease && *by == Who::Replica(replica) && did == what)
    }

    /// The writes to a node.
    pub(crate) fn node_writes(&self, name: &str) -> NodeWrites {
        self.nodes.get(name).cloned().unwrap_or_default()
    }

    fn by(&self, replica: u32) -> impl DoubleEndedIterator<Item = &Record> {
        let who = Who::Replica(replica);
        self.traffic.iter().filter(move |record| record.by == who)
    }
}

/// The name of an entry's Lease; a creation has it in the body.
fn lease_name(entry: &AuditEntry) -> &str {
    let body = entry.body.as_ref();
    let named = body.and_then(|body| body["metadata"]["name"].as_str());
    match entry.name.as_str() {
        "" => named.unwrap_or_default(),
        name => name,
    }
}

/// Whether an entry is an Event about the Lease: a process records in one that it leads, or no longer does.
fn is_about_lease(entry: &AuditEntry) -> bool {
    let body = entry.body.as_ref();
    entry.resource == "events" && body.is_some_and(|body| about(body)["kind"] == "Lease")
}

/// The object of an Event, in either of its two forms.
fn about(event: &Value) -> &Value {
    match &event["involvedObject"] {
        Value::Null => &event["regarding"],
        object => object,
    }
}

#[test]
fn two_leases_that_one_process_releases_in_the_same_microsecond_are_both_released() {
    const OTHER: &str = "another-lease";
    let now = Timestamp::now();
    let release = |name: &str| Arrival {
        received: now,
        answered: now,
        source: Some(address(1).into()),
        entry: AuditEntry {
            user: String::new(),
            verb: "update".to_owned(),
            group: "coordination.k8s.io".to_owned(),
            resource: "leases".to_owned(),
            subresource: String::new(),
            namespace: "kube-system".to_owned(),
            name: name.to_owned(),
            uri: String::new(),
            code: 200,
            body: Some(json!({"spec": {"holderIdentity": "", "renewTime": now.to_string()}})),
        },
    };
    let mut recorder = Recorder::default();
    recorder.take(release(OTHER));
    recorder.take(release(LEASE));
    assert!(recorder.did(1, OTHER, &What::Released));
    assert!(recorder.released(1));
}
