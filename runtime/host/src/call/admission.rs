//! Admission of the calls of one generation: how many are under way at once, so that the memory of their guests fits into
//! the provider's share. Load balancers and routes leave one of them to nodes.

use ccm_core::cloud::ProviderError;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout_at};

use super::Waiting;
use crate::bindings::lifecycle::Capability;
use crate::limits;
use crate::memory_budget::{MemoryBudget, MemoryHold, MemoryUser};

/// Limits shared by all calls of one generation.
pub(crate) struct Admission {
    guest_bytes: usize,
    user: MemoryUser,
    all: Slots,
    /// For calls about load balancers; such a call needs one of `all` as well.
    balancing: Slots,
    /// For calls about routes; such a call needs one of `all` as well. `None`: they use the slot of load balancers, because
    /// no more than two calls fit.
    routing: Option<Slots>,
}

/// What a call has while it is under way.
pub(super) struct Admitted<'a> {
    _memory: MemoryHold<'a>,
    _slots: SemaphorePermit<'a>,
    _narrower: Option<SemaphorePermit<'a>>,
}

impl Admission {
    /// Limits for guests of this size, in the provider's share of this budget.
    pub(crate) fn new(memory: &MemoryBudget, guest_bytes: usize) -> Admission {
        let at_once = memory.calls_of_one(guest_bytes).min(limits::CALLS_AT_ONCE);
        let others = at_once.saturating_sub(1);
        let routing = (others / 2).min(limits::ROUTING_AT_ONCE);
        let balancing = (others - routing).clamp(1, limits::BALANCING_AT_ONCE);
        Admission {
            guest_bytes,
            user: MemoryUser::new(),
            all: Slots::new(at_once),
            balancing: Slots::new(balancing),
            routing: (routing > 0).then(|| Slots::new(routing)),
        }
    }

    /// Waits until a call of this interface may be under way and its guest and its arguments fit into the memory of all
    /// guests, or until this time. The call is under way until the result is dropped.
    ///
    /// # Errors
    /// What it waited for in vain.
    pub(super) async fn admit<'a>(
        &'a self,
        memory: &'a MemoryBudget,
        interface: Option<Capability>,
        argument_bytes: usize,
        until: Instant,
        waiting: Waiting,
    ) -> Result<Admitted<'a>, ProviderError> {
        // In this order: a call that waits for the narrower limit takes no general slot.
        let narrower = match self.narrower(interface) {
            Some(narrower) => Some(narrower.take(until, waiting).await?),
            None => None,
        };
        let slots = self.all.take(until, waiting).await?;
        let memory = memory.take(self.user, self.guest_bytes + argument_bytes);
        let memory = timeout_at(until, memory).await.map_err(|_| {
            waiting.not_begun(|ms| {
                format!(
                    "there was no memory for it in the whole {ms} ms, because other calls have it"
                )
            })
        })?;
        Ok(Admitted {
            _memory: memory,
            _slots: slots,
            _narrower: narrower,
        })
    }

    /// The slots that only calls of this interface need.
    fn narrower(&self, interface: Option<Capability>) -> Option<&Slots> {
        match interface? {
            // Tenants can create any number of load balancers.
            Capability::LoadBalancer => Some(&self.balancing),
            Capability::Routes => Some(self.routing.as_ref().unwrap_or(&self.balancing)),
            Capability::Instances => None,
        }
    }
}

/// A number of concurrent calls.
struct Slots {
    at_once: usize,
    free: Semaphore,
}

impl Slots {
    fn new(at_once: usize) -> Slots {
        Slots {
            at_once,
            free: Semaphore::new(at_once),
        }
    }

    /// Waits until one is free, or until this time.
    async fn take(
        &self,
        until: Instant,
        waiting: Waiting,
    ) -> Result<SemaphorePermit<'_>, ProviderError> {
        let at_once = self.at_once;
        match timeout_at(until, self.free.acquire()).await {
            Ok(Ok(slot)) => Ok(slot),
            _ => Err(waiting.not_begun(|ms| {
                format!("other calls of the provider ({at_once} at once) were under way for the whole {ms} ms")
            })),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use futures::FutureExt as _;

    use super::*;

    /// Memory of one call with a guest of the usual size, in MiB.
    const CALL_MIB: u32 = 96;

    fn waiting() -> (Instant, Waiting) {
        let began = Instant::now();
        let function = "init";
        (began + limits::WAIT, Waiting { function, began })
    }

    /// A call that is admitted at once, if there is one.
    fn begin<'a>(
        admission: &'a Admission,
        memory: &'a MemoryBudget,
        interface: Capability,
    ) -> Option<Admitted<'a>> {
        let (until, waiting) = waiting();
        let admitted = admission.admit(memory, Some(interface), 0, until, waiting);
        admitted.now_or_never()?.ok()
    }

    #[tokio::test(start_paused = true)]
    async fn load_balancers_and_routes_leave_room_for_one_call_about_nodes() {
        for (fit, balancing, routing) in [
            (2, 1, 0),
            (3, 1, 1),
            (4, 2, 1),
            (5, 2, 2),
            (7, 4, 2),
            (8, 5, 2),
            (30, 5, 2),
        ] {
            let memory = MemoryBudget::of(Some(2 * fit * CALL_MIB));
            let admission = Admission::new(&memory, limits::MEMORY_BYTES);
            let begin = |interface| begin(&admission, &memory, interface);
            let all = |interface| std::iter::from_fn(|| begin(interface)).collect::<Vec<_>>();
            let balancers = all(Capability::LoadBalancer);
            let routes = all(Capability::Routes);
            let under_way = (balancers.len(), routes.len());
            assert_eq!(under_way, (balancing, routing), "{fit} fit");
            assert!(begin(Capability::Instances).is_some(), "{fit} fit");
            // The runtime allows one task only so many steps without a pause.
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_never_begins_says_what_it_waited_for() {
        for (is_own, expected) in [
            (true, "other calls of the provider"),
            (false, "there was no memory"),
        ] {
            let memory = MemoryBudget::of(Some(2 * CALL_MIB));
            let admission = Admission::new(&memory, limits::MEMORY_BYTES);
            let attempt = || {
                let (until, waiting) = waiting();
                admission.admit(&memory, None, 0, until, waiting)
            };
            let own = match is_own {
                true => Some(attempt().await.unwrap()),
                false => None,
            };
            let others = match is_own {
                true => None,
                false => Some(memory.take(MemoryUser::new(), 1 << 30).await),
            };
            let error = attempt().await.map(drop).unwrap_err();
            assert_eq!(error.reason(), "not-begun", "{error}");
            assert!(error.to_string().contains(expected), "{error}");
            drop((own, others));
            assert!(attempt().await.is_ok());
        }
    }
}
