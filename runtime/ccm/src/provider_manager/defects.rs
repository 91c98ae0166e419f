//! Lets what has ended with a panic begin anew, after a pause: the rollout of one provider, and tasks that all share. No
//! other provider is affected.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt as _;

use super::ProviderManager;

/// Pause after a panic. What panics again and again must not keep the process busy.
pub(super) const AFTER_PANIC: Duration = Duration::from_secs(10);

/// Runs the task that `begin` returns, and another one after each panic.
pub(super) async fn again_after_panics<Task: Future<Output = ()>>(begin: impl Fn() -> Task) {
    while AssertUnwindSafe(begin()).catch_unwind().await.is_err() {
        tokio::time::sleep(AFTER_PANIC).await;
    }
}

impl ProviderManager {
    /// Leaves out the providers whose rollouts have ended, so that they are tried again as all that could not be applied.
    pub(super) fn leave_out_ended(&mut self) {
        let left_out = &mut self.left_out;
        self.instances.retain(|name, instance| {
            let has_ended = instance.has_ended();
            if has_ended {
                let why = "its rollout ended with a panic; this is a defect";
                tracing::error!(provider = name, "the provider is restarted: {why}");
                left_out.insert(name.clone(), why.to_owned());
            }
            !has_ended
        });
    }
}
