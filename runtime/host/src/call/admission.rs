//! Admission of the calls of one generation: how many are under way at once, so that the memory of their guests fits
//! into the provider's share. Load balancers and routes leave one of them to nodes. Copies of nodes do not count
//! against the share. Otherwise those for load-balancer calls would use up the place that is kept for nodes.
//!
//! A call about a load balancer cannot be split as look-ups can. So its guest gets more memory where its targets are
//! large, and it counts as that many calls of the usual size.

use ccm_core::cloud::ProviderError;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout_at};

use super::Waiting;
use crate::bindings::lifecycle::Capability;
use crate::limits;
use crate::memory_budget::{MemoryBudget, MemoryHold, MemoryUser, needed_mib};

/// Limits shared by all calls of one generation.
pub(crate) struct Admission {
    /// Memory of the guest of a usual call.
    guest_bytes: usize,
    user: MemoryUser,
    all: Slots,
    /// For calls about load balancers; such a call needs as many of `all` as well.
    balancing: Slots,
    /// For calls about routes; such a call needs one of `all` as well. `None`: they use the slot of load balancers, because
    /// no more than two calls fit.
    routing: Option<Slots>,
}

/// What a call has while it is under way.
pub(super) struct Admitted<'a> {
    /// Memory that its guest may have.
    pub(super) guest_bytes: usize,
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
        let (guest_bytes, slots) = match interface {
            Some(Capability::LoadBalancer) => self.with_targets(argument_bytes),
            Some(Capability::Instances | Capability::Routes) | None => (self.guest_bytes, 1),
        };
        // In this order: a call that waits for the narrower limit takes no general slot.
        let narrower = match self.narrower(interface) {
            Some(narrower) => Some(narrower.take(slots, until, waiting).await?),
            None => None,
        };
        let slots = self.all.take(slots, until, waiting).await?;
        let memory = memory.take(self.user, guest_bytes + argument_bytes);
        let memory = timeout_at(until, memory).await.map_err(|_| {
            waiting.not_begun(|ms| {
                format!(
                    "there was no memory for it in the whole {ms} ms, because other calls have it"
                )
            })
        })?;
        Ok(Admitted {
            guest_bytes,
            _memory: memory,
            _slots: slots,
            _narrower: narrower,
        })
    }

    /// Memory of a guest that gets targets of this size, and the number of slots that it takes: beside the targets at
    /// least half of what a usual guest has, as far as the ceiling and the slots of load balancers allow.
    fn with_targets(&self, target_bytes: usize) -> (usize, u32) {
        let wanted = target_bytes
            .saturating_add(self.guest_bytes / 2)
            .min(limits::MEMORY_CEILING_BYTES)
            .max(self.guest_bytes);
        let usual = needed_mib(self.guest_bytes);
        let slots = needed_mib(wanted)
            .div_ceil(usual)
            .min(self.balancing.at_once as u32);
        let fits = ((slots * usual) as usize) << 20;
        let guest_bytes = wanted.min(fits - limits::HELD_BYTES);
        (guest_bytes.max(self.guest_bytes), slots)
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

/// A number of concurrent calls of the usual size.
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

    /// Waits until so many are free, or until this time.
    async fn take(
        &self,
        slots: u32,
        until: Instant,
        waiting: Waiting,
    ) -> Result<SemaphorePermit<'_>, ProviderError> {
        let at_once = self.at_once;
        match timeout_at(until, self.free.acquire_many(slots)).await {
            Ok(Ok(taken)) => Ok(taken),
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
    const MIB: usize = 1 << 20;

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
        argument_bytes: usize,
    ) -> Option<Admitted<'a>> {
        let (until, waiting) = waiting();
        let admitted = admission.admit(memory, Some(interface), argument_bytes, until, waiting);
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
            let begin = |interface| begin(&admission, &memory, interface, 0);
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

    /// Sizes of targets, memory of the guest, and calls at once, all in MiB; with eight usual calls in the share, and
    /// with two.
    #[tokio::test(start_paused = true)]
    async fn large_targets_get_memory_and_count_as_several_calls() {
        for (fit, targets, guest, at_once) in [
            (8, 10, 64, 5),
            (8, 32, 64, 5),
            (8, 100, 132, 2),
            (8, 200, 232, 1),
            (8, 1_000, 256, 1),
            (2, 100, 64, 1),
        ] {
            let memory = MemoryBudget::of(Some(2 * fit * CALL_MIB));
            let admission = Admission::new(&memory, limits::MEMORY_BYTES);
            let begin = |interface, mib| begin(&admission, &memory, interface, mib * MIB);
            let balancers: Vec<_> =
                std::iter::from_fn(|| begin(Capability::LoadBalancer, targets)).collect();
            assert_eq!(balancers.len(), at_once, "{targets} MiB");
            for admitted in &balancers {
                assert_eq!(admitted.guest_bytes / MIB, guest, "{targets} MiB");
            }
            drop(balancers);
            // Look-ups are split instead.
            let nodes = begin(Capability::Instances, targets).unwrap();
            assert_eq!(nodes.guest_bytes, limits::MEMORY_BYTES);
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
