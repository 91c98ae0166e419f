//! Lets a provider begin anew whose rollout has ended with a panic. No other provider is affected.

use super::ProviderManager;

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
