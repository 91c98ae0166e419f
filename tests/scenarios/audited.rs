//! The audit of a play, and its law (S12): each deletion has one record, each record of a completed deletion has its
//! deletion, and each change at the cloud has one record that names its Service and the brake `cloud-mutations`.

use std::sync::{Arc, Mutex};

use ccm_core::safety::audit::{Act, AuditRecord, AuditSink, End, Refused, Subject, Unrecordable};
use ccm_core::safety::brake::Brake;
use ccm_core::safety::permit::CloudRequest;
use ccm_sim::cluster::Write;

use crate::crash::Life;
use crate::laws::describe;
use crate::load_balancers::Changed;

/// One record of a deletion.
#[derive(Debug, Clone)]
pub(crate) struct Audited {
    /// UID of the node.
    pub(crate) uid: String,
    /// Whether the record says that the node was deleted.
    pub(crate) is_done: bool,
}

/// One record of a change at the cloud: the path, and the UID of the object that it was made for.
pub(crate) type AuditedChange = (String, String);

/// Keeps the records of all processes of a play. Clones are the same audit.
#[derive(Clone, Default)]
pub(crate) struct Audit {
    records: Arc<Mutex<Vec<Audited>>>,
    changes: Arc<Mutex<Vec<AuditedChange>>>,
    /// The process that is audited; a change may kill it.
    life: Option<Life>,
}

impl Audit {
    /// All records so far.
    pub(crate) fn records(&self) -> Vec<Audited> {
        self.records.lock().unwrap().clone()
    }

    /// All records of changes at the cloud so far.
    pub(crate) fn changes(&self) -> Vec<AuditedChange> {
        self.changes.lock().unwrap().clone()
    }

    /// The same audit, for a process with this life.
    pub(crate) fn for_process(&self, life: Option<Life>) -> Audit {
        Audit {
            life,
            ..self.clone()
        }
    }
}

impl AuditSink for Audit {
    fn before(&self, subject: &Subject, request: &CloudRequest) -> Result<(), Unrecordable> {
        match &self.life {
            Some(life) => life.before(subject, request),
            None => Ok(()),
        }
    }

    fn after(&self, record: &AuditRecord) {
        if record.act == Act::NodeDeletion {
            self.records.lock().unwrap().push(Audited {
                uid: record.subject.uid.clone(),
                is_done: record.end == End::Done,
            });
            return;
        }
        // A change that no brake counts has no valid record, and S12 finds it. A panic here would be a death.
        let brake = record.brake.map(|state| state.brake);
        if let (Act::CloudMutation { path, .. }, Some(Brake::CloudMutations)) = (&record.act, brake)
        {
            let change = (path.clone(), record.subject.uid.clone());
            self.changes.lock().unwrap().push(change);
        }
        if let Some(life) = &self.life {
            life.after(record);
        }
    }

    fn refused(&self, _: &Refused<'_>) {}
}

/// The violations in the records of these writes.
pub(crate) fn broken(writes: &[Write], records: &[Audited]) -> Vec<String> {
    let is_deletion = |write: &&Write| {
        (write.request.resource, write.request.verb) == ("nodes", "delete")
            && write.before.is_some()
            && write.after.is_none()
    };
    let deletions: Vec<&Write> = writes.iter().filter(is_deletion).collect();
    let uid = |write: &Write| {
        write.body["preconditions"]["uid"]
            .as_str()
            .map(str::to_owned)
    };
    let mut found = Vec::new();
    for write in &deletions {
        let uid = uid(write).unwrap_or_default();
        let about: Vec<&Audited> = records.iter().filter(|one| one.uid == uid).collect();
        let done = about.iter().filter(|one| one.is_done).count();
        if about.is_empty() || done > 1 {
            let why = format!("has {} records, {done} of them done (S12)", about.len());
            found.push(describe(write, &why));
        }
    }
    let is_done = |one: &&Audited| one.is_done;
    for one in records.iter().filter(is_done) {
        let was_deleted = deletions
            .iter()
            .any(|write| uid(write).as_deref() == Some(&one.uid));
        if !was_deleted {
            found.push(format!(
                "a record calls {} deleted, which it was not (S12)",
                one.uid
            ));
        }
    }
    found
}

/// Takes the records of these changes at one cloud out of `records`.
pub(crate) fn of(changes: &[Changed], records: &mut Vec<AuditedChange>) -> Vec<AuditedChange> {
    let mut theirs = Vec::new();
    for change in changes {
        let is_its = |record: &AuditedChange| is_of(record, change);
        if let Some(index) = records.iter().position(is_its) {
            theirs.push(records.remove(index));
        }
    }
    theirs
}

fn is_of((path, uid): &AuditedChange, change: &Changed) -> bool {
    path.ends_with(&format!("/{}", change.what)) && *uid == change.uid
}

/// The violations in the records of these changes at the cloud.
pub(crate) fn unrecorded(changes: &[Changed], records: &[AuditedChange]) -> Vec<String> {
    let mut left = records.to_vec();
    let mut found = Vec::new();
    for change in changes {
        let is_its = |record: &AuditedChange| is_of(record, change);
        match left.iter().position(is_its) {
            Some(index) => drop(left.remove(index)),
            None => found.push(format!(
                "{} for {} has no record (S12)",
                change.what, change.uid
            )),
        }
    }
    let rest = left.iter();
    found.extend(rest.map(|one| format!("a record says {one:?}, which was not done (S12)")));
    found
}
