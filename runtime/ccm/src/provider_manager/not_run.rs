//! Has metrics show the providers that are configured and do not run, as after a restart with a spec that is refused: no rollout
//! controller shows them.

use std::collections::{BTreeMap, BTreeSet};

use ccm_delivery::record::Specification;

use super::ProviderManager;

impl ProviderManager {
    /// Adds the series of the providers that do not run now, and removes those of the others.
    pub(super) fn show_not_run(&mut self, specifications: &BTreeMap<String, Specification>) {
        let of_objects = specifications.iter().filter(|(_, one)| one.is_source);
        let configured = self.wanted.iter().map(|one| &one.name);
        let configured = configured.chain(of_objects.map(|(name, _)| name));
        let not_run = configured.filter(|name| !self.instances.contains_key(*name));
        let not_run: BTreeSet<String> = not_run.cloned().collect();
        let metrics = &self.shared.metrics;
        for name in self.not_run.difference(&not_run) {
            metrics.show_not_run(name, false);
        }
        // A rollout controller that has ended since the last look may have removed the same series.
        for name in &not_run {
            metrics.show_not_run(name, true);
        }
        self.not_run = not_run;
    }

    /// Removes the series of a provider that is about to run: its rollout controller may begin with the same one.
    pub(super) fn shows_itself(&mut self, name: &str) {
        if self.not_run.remove(name) {
            self.shared.metrics.show_not_run(name, false);
        }
    }
}
