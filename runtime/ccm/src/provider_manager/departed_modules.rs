//! Has the store's files of providers removed that are not configured any more: its volume is often small, and nothing else
//! removes them. Decides only when, and which names stay.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use ccm_delivery::store::ModuleStore;

use super::{Wanted, names};

/// How often the folders are looked at.
const AGAIN: Duration = Duration::from_secs(3_600);

/// The store's folder, and when it was last looked through.
pub(super) struct DepartedModules {
    store: Option<PathBuf>,
    looked: Option<Instant>,
}

impl DepartedModules {
    /// Those in the subfolders of `store`; `None`: nothing is stored.
    pub(super) fn of(store: Option<PathBuf>) -> DepartedModules {
        DepartedModules {
            store,
            looked: None,
        }
    }

    /// Removes them, hourly at most. Nothing while a part of the configuration is unknown. Objects whose specs are refused
    /// are configured, too.
    pub(super) async fn remove(&mut self, wanted: &Wanted) {
        let is_due = self.looked.is_none_or(|at| at.elapsed() >= AGAIN);
        let Some(store) = self.store.clone().filter(|_| is_due && wanted.is_complete) else {
            return;
        };
        self.looked = Some(Instant::now());
        let mut configured = names(&wanted.all());
        configured.extend(wanted.specifications.keys().cloned());
        ModuleStore::remove_departed(store, configured).await;
    }
}
