//! The audit of a play, and the law about it (S12): what was deleted has one record, and what a record calls done was
//! deleted.

use std::sync::{Arc, Mutex};

use ccm_core::audit::{Act, AuditRecord, AuditSink, End, Refused, Unrecordable};
use ccm_core::permit::CloudRequest;
use ccm_sim::cluster::Write;

use crate::laws::told;

/// One record of a deletion.
#[derive(Debug, Clone)]
pub(crate) struct Audited {
    /// UID of the node.
    pub(crate) uid: String,
    /// Whether the record says that it was deleted.
    pub(crate) is_done: bool,
}

/// Keeps the records of all processes of a play. Clones are the same audit.
#[derive(Clone, Default)]
pub(crate) struct Audit(Arc<Mutex<Vec<Audited>>>);

impl Audit {
    /// All records so far.
    pub(crate) fn records(&self) -> Vec<Audited> {
        self.0.lock().unwrap().clone()
    }
}

impl AuditSink for Audit {
    fn before(&self, _: &CloudRequest) -> Result<(), Unrecordable> {
        Ok(())
    }

    fn after(&self, _: &AuditRecord) {}

    fn refused(&self, _: &Refused<'_>) {}

    fn deleted(&self, record: &AuditRecord) {
        assert_eq!(record.act, Act::NodeDeletion);
        self.0.lock().unwrap().push(Audited {
            uid: record.subject.uid.clone(),
            is_done: record.end == End::Done,
        });
    }
}

/// What is wrong with the records of these writes.
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
            found.push(told(write, &why));
        }
    }
    let is_told = |one: &&Audited| one.is_done;
    for one in records.iter().filter(is_told) {
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
