//! Lets what has ended with a panic begin anew: a provider's rollout. No other provider is affected.

use std::time::Duration;

use super::ProviderManager;

/// Pause after a panic. What panics again and again must not keep the process busy.
pub(super) const AFTER_PANIC: Duration = Duration::from_secs(10);

impl ProviderManager {
    /// Leaves out the providers whose rollouts have ended, so that they are tried again as all that could not be applied.
    pub(super) fn leave_out_ended(&mut self) {
        let left_out = &mut self.left_out;
        self.instances.retain(|name, instance| {
            let has_ended = instance.has_ended();
            if has_ended {
                let why = "its rollout ended with a panic; this is a defect";
                tracing::error!(provider = name, "the provider begins anew: {why}");
                left_out.insert(name.clone(), why.to_owned());
            }
            !has_ended
        });
    }
}
