//! Calls that are repeated until nothing is pending, as the manager repeats them, and the changes that they made.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use ccm_core::cloud::ProviderError;
use ccm_core::cloud::load_balancer::{
    CloudService, DeleteRequest, EnsureRequest, Ensured, LoadBalancerStatus, Pending, Progress,
    TargetNodes, UpdateRequest,
};
use ccm_core::cloud_provider::CloudProvider as _;
use ccm_core::safety::permit::LOAD_BALANCER_CHANGES;
use tokio::time::{Instant, sleep};

use super::{all_targets, name_of_balancer};
use crate::provider::conformance::module_under_test::{LoadedModule, ModuleUnderTest};
use crate::provider::observed_calls::ObservedCall;

/// Number of failures in a row that end a sequence. One fault causes one or two.
const MOST_FAILURES: usize = 8;
/// Number of calls of a sequence in which the same rule's POST may be carried out, beside one for each port and one for
/// each port and node: a module may create one object in each call. Beyond it, the module makes objects without end.
const MOST_POSTING_CALLS: usize = 8;
/// The wait after a failure.
const BACK_OFF: Duration = Duration::from_millis(200);

/// Whether the next call gets the hint of a pending one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::provider::conformance) enum Hints {
    /// Hints are passed on.
    Kept,
    /// Hints are lost, as when the leader changes.
    Dropped,
}

/// How a load balancer was made.
pub(super) struct Made {
    pub(super) status: LoadBalancerStatus,
    pub(super) calls: Vec<ObservedCall>,
    pub(super) has_hints: bool,
}

impl Made {
    /// Number of changes that were sent.
    pub(super) fn changes(&self) -> usize {
        self.calls.iter().map(|call| call.changes().count()).sum()
    }

    /// Number of requests that were sent.
    pub(super) fn requests(&self) -> usize {
        self.calls.iter().map(|call| call.requests.len()).sum()
    }

    /// Whether both statuses have as many ingress points, of the same kinds. Addresses are each load balancer's own.
    pub(super) fn is_like(&self, other: &Made) -> bool {
        shape(&self.status) == shape(&other.status)
    }
}

fn shape(status: &LoadBalancerStatus) -> Vec<(Option<bool>, bool)> {
    let ingress = status.ingress.iter();
    ingress
        .map(|one| {
            let is_v4 = one.canonical_ip().map(|ip| ip.is_ipv4());
            (is_v4, one.hostname.is_some())
        })
        .collect()
}

/// Compares how many objects were created: by POST, which alone creates objects.
///
/// # Errors
/// A rule's POST was carried out more often than usual.
pub(in crate::provider::conformance) fn no_more_posts(
    calls: &[ObservedCall],
    usual: &[ObservedCall],
) -> anyhow::Result<()> {
    let usual = posts(usual);
    for (rule, count) in posts(calls) {
        let usual = usual.get(rule).copied().unwrap_or_default();
        if count > usual {
            bail!("{rule} succeeded {count} time(s), and usually {usual}");
        }
    }
    Ok(())
}

/// How often each rule's POST was carried out.
fn posts<'a>(calls: impl IntoIterator<Item = &'a ObservedCall>) -> BTreeMap<&'a str, usize> {
    let mut counts = BTreeMap::new();
    for request in calls.into_iter().flat_map(ObservedCall::changes) {
        if request.method == "POST" && request.is_done() {
            *counts.entry(request.rule.as_str()).or_default() += 1;
        }
    }
    counts
}

/// One answer of a call that may be pending.
pub(in crate::provider::conformance) enum Step<T> {
    Done(T),
    Pending(Pending),
}

/// Verifies that the calls of a sequence that is not done do not create objects again and again.
///
/// # Errors
/// The same rule's POST was carried out in more calls than [`MOST_POSTING_CALLS`] permits.
fn posts_end(tested: &ModuleUnderTest, calls: &[ObservedCall]) -> anyhow::Result<()> {
    let spec = tested.subjects.service.spec.as_ref();
    let ports = spec.and_then(|spec| spec.ports.as_ref());
    let ports = ports.map_or(0, Vec::len);
    let most = MOST_POSTING_CALLS + ports * (1 + tested.known().len());
    let rules = calls.iter().flat_map(|call| posts([call]).into_keys());
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for rule in rules {
        let count = counts.entry(rule).or_default();
        *count += 1;
        if *count > most {
            bail!("{rule} succeeded in {count} calls, and it is not done");
        }
    }
    Ok(())
}

/// Repeats a call until it is done. Every failure counts as temporary.
///
/// # Errors
/// The last of [`MOST_FAILURES`] failures in a row, objects without end, or the time is over.
pub(in crate::provider::conformance) async fn until_done<T>(
    loaded: &LoadedModule<'_>,
    hints: Hints,
    mut call: impl AsyncFnMut(Option<Arc<[u8]>>) -> Result<Step<T>, ProviderError>,
) -> anyhow::Result<(T, bool)> {
    let timeout = loaded.tested.subjects.pending_timeout;
    let (mark, until) = (loaded.mark(), Instant::now() + timeout);
    let (mut hint, mut has_hints, mut failures) = (None, false, 0);
    loop {
        let wait = match loaded.recorded(call(hint.take()).await) {
            Ok(Step::Done(end)) => return Ok((end, has_hints)),
            Ok(Step::Pending(pending)) => {
                failures = 0;
                has_hints |= pending.hint.is_some();
                hint = pending.hint.filter(|_| hints == Hints::Kept);
                pending.retry_after
            }
            Err(error) => {
                failures += 1;
                if failures >= MOST_FAILURES {
                    bail!("{failures} failures in a row, the last: {error}");
                }
                BACK_OFF
            }
        };
        posts_end(loaded.tested, &loaded.since(mark))?;
        if Instant::now() + wait > until {
            bail!("it is not done within {timeout:?}");
        }
        sleep(wait).await;
        loaded.wait_out().await;
    }
}

/// Calls `ensure` for all nodes until the load balancer is ready.
///
/// # Errors
/// The reason why it does not become ready.
pub(super) async fn made(
    loaded: &LoadedModule<'_>,
    service: &Arc<CloudService>,
    hints: Hints,
) -> anyhow::Result<Made> {
    let (mark, targets) = (loaded.mark(), all_targets(loaded.tested));
    loaded.tested.make(name_of_balancer(service));
    let done = until_done(loaded, hints, async |hint| {
        let request = EnsureRequest {
            service: service.clone(),
            targets: targets.clone(),
            adopt: None,
            hint,
        };
        let reply = loaded
            .provider
            .ensure_load_balancer(&request, loaded.changing(LOAD_BALANCER_CHANGES));
        Ok(match reply.await?.ensured {
            Ensured::Ready(status) => Step::Done(status),
            Ensured::Pending(pending) => Step::Pending(pending),
        })
    });
    let (status, has_hints) = done.await.context("ensure")?;
    Ok(Made {
        status,
        calls: loaded.since(mark),
        has_hints,
    })
}

/// Updates the targets until the update is done.
///
/// # Errors
/// The reason why it is not done.
pub(super) async fn targets_set(
    loaded: &LoadedModule<'_>,
    service: &Arc<CloudService>,
    targets: &TargetNodes,
) -> anyhow::Result<()> {
    let done = until_done(loaded, Hints::Kept, async |hint| {
        let request = UpdateRequest {
            service: service.clone(),
            targets: targets.clone(),
            hint,
        };
        let reply = loaded
            .provider
            .update_targets(&request, loaded.changing(LOAD_BALANCER_CHANGES));
        Ok(step(reply.await?.progress))
    });
    done.await.map(drop).context("update-targets")
}

/// Deletes until the load balancer is gone.
///
/// # Errors
/// The reason why something may be left.
pub(super) async fn removed(
    loaded: &LoadedModule<'_>,
    service: &Arc<CloudService>,
) -> anyhow::Result<()> {
    let done = until_done(loaded, Hints::Kept, async |hint| {
        let request = DeleteRequest {
            service: service.clone(),
            hint,
        };
        let reply = loaded
            .provider
            .delete_load_balancer(&request, loaded.changing(LOAD_BALANCER_CHANGES));
        Ok(step(reply.await?.progress))
    });
    done.await.context("delete")?;
    loaded.tested.remove(&name_of_balancer(service));
    Ok(())
}

/// Converts the progress of a call.
pub(in crate::provider::conformance) fn step(progress: Progress) -> Step<()> {
    match progress {
        Progress::Done => Step::Done(()),
        Progress::Pending(pending) => Step::Pending(pending),
    }
}
