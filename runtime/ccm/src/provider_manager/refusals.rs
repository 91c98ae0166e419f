//! Records in the objects themselves that no running provider uses them: their specs are refused, or their providers
//! have left the configuration. Only the leader writes.

use ccm_delivery::record::{
    ClusterRecordStore, MemoryRecordStore, RecordStoreError, RefusalReason, SpecRefusal,
    Specification,
};
use kube::Client;
use std::time::Duration;
use tokio::sync::watch;

/// An object's name, and the state of its spec.
pub(super) type Refused = (String, Specification);

/// The state of the object of a provider that has left the configuration.
pub(super) fn no_longer_configured() -> Specification {
    Specification {
        refusal: Some(SpecRefusal {
            reason: RefusalReason::NotApplied,
            message: "it is no longer configured".to_owned(),
        }),
        ..Specification::default()
    }
}

/// Delay before a failed write is repeated.
const AGAIN: Duration = Duration::from_secs(10);

/// Writes the refusals until the process ends; begun anew after a panic, it writes all of them again.
pub(super) async fn write(
    reading: Client,
    mut writing: watch::Receiver<Option<Client>>,
    mut refused: watch::Receiver<Vec<Refused>>,
) {
    let mut written: Vec<Refused> = Vec::new();
    loop {
        let all = refused.borrow_and_update().clone();
        let leads = writing.borrow_and_update().is_some();
        written.retain(|one| leads && all.contains(one));
        let mut has_failed = false;
        for one in all.iter().filter(|_| leads) {
            if written.contains(one) {
                continue;
            }
            let (name, specification) = one;
            let store = ClusterRecordStore::new(
                name,
                reading.clone(),
                writing.clone(),
                MemoryRecordStore::new(),
            );
            match store.refuse(specification).await {
                Ok(()) => written.push(one.clone()),
                // Without a spec it is only a courtesy: the right to write it may be missing for good.
                Err(RecordStoreError::Refused(why)) if specification.generation.is_none() => {
                    tracing::debug!(provider = %name, why, "it is not written that the object Provider is not used");
                    written.push(one.clone());
                }
                Err(error) => {
                    tracing::warn!(provider = %name, %error, "it cannot be written that the object Provider is not used");
                    has_failed = true;
                }
            }
        }
        let is_over = tokio::select! {
            changed = refused.changed() => changed.is_err(),
            changed = writing.changed() => changed.is_err(),
            () = tokio::time::sleep(AGAIN), if has_failed => false,
        };
        if is_over {
            return;
        }
    }
}
