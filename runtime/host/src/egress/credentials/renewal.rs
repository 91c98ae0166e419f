//! Holds a credential that is issued for a while, and has it renewed before it ends.
//!
//! One exchange runs at a time, for all callers. It begins some time before the credential's end, chosen at random, so
//! that replicas do not ask together; until then, and if it fails, the former credential is used as long as it is
//! valid. After a failure the next exchange begins after a pause. An expired credential is never used, and one that its
//! target has refused only after an exchange that failed.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ccm_core::reconciliation::retry::Backoff;
use ccm_core::safety::tenure::Tenure;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::issuer_client::WallClock;
use super::issuers::{Issued, Material, Source};
use super::redactor::SecretRedactor;
use crate::egress::message::FetchError;

/// A credential is not used this shortly before its end: a request takes time, and clocks differ a little.
const LAST_MOMENTS: Duration = Duration::from_secs(5);
/// Pauses after failures.
const PAUSES: Backoff = Backoff {
    first: Duration::from_secs(1),
    most: Duration::from_secs(60),
};
/// A credential that its target refuses is exchanged again, unless it is younger than this.
const NEW: Duration = Duration::from_secs(30);

/// The credential of one target, which is renewed before it ends.
pub(in crate::egress) struct Renewal {
    source: Source,
    target: String,
    redactor: Arc<SecretRedactor>,
    clock: WallClock,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    current: Option<Current>,
    /// Closes when the exchange that is under way has ended.
    under_way: Option<watch::Receiver<()>>,
    failed: Option<Failed>,
}

#[derive(Clone)]
struct Current {
    material: Arc<Material>,
    issued: SystemTime,
    renew_from: SystemTime,
    expires: SystemTime,
    /// Whether the target has refused it, and no exchange has failed since.
    is_refused: bool,
}

struct Failed {
    why: String,
    times: u32,
    again: Instant,
}

/// Next step of a caller.
enum Turn {
    Use(Arc<Material>),
    UseAndRenew(Arc<Material>),
    Wait(watch::Receiver<()>),
    Renew,
    Fail(String),
}

impl State {
    fn turn(&mut self, now: SystemTime, instant: Instant) -> Turn {
        // An exchange that panicked has closed its channel as well.
        let is_over = |under_way: &watch::Receiver<()>| under_way.has_changed().is_err();
        self.under_way.take_if(|under_way| is_over(under_way));
        let pauses = self
            .failed
            .as_ref()
            .is_some_and(|failed| instant < failed.again);
        let usable = self.current.as_ref().filter(|current| {
            let last = current.expires.checked_sub(LAST_MOMENTS);
            last.is_some_and(|last| now < last)
        });
        match (usable, &self.under_way) {
            (Some(current), Some(under_way)) if current.is_refused => Turn::Wait(under_way.clone()),
            (Some(current), None) if current.is_refused && !pauses => Turn::Renew,
            (Some(current), None) if now >= current.renew_from && !pauses => {
                Turn::UseAndRenew(current.material.clone())
            }
            (Some(current), _) => Turn::Use(current.material.clone()),
            (None, Some(under_way)) => Turn::Wait(under_way.clone()),
            (None, None) => match self.failed.as_ref().filter(|_| pauses) {
                Some(failed) => Turn::Fail(failed.why.clone()),
                None => Turn::Renew,
            },
        }
    }

    /// Stores an issued credential. `dice`, a random number between 0 and 1, sets when it is renewed.
    fn succeeded(&mut self, issued: Issued, now: SystemTime, dice: f64) {
        let lifetime = issued.expires.duration_since(now).unwrap_or_default();
        // Renewed after three quarters to nine tenths of the lifetime.
        let until_renewal = lifetime.mul_f64(0.75 + 0.15 * dice.clamp(0.0, 1.0));
        self.current = Some(Current {
            material: Arc::new(issued.material),
            issued: now,
            renew_from: now.checked_add(until_renewal).unwrap_or(now),
            expires: issued.expires,
            is_refused: false,
        });
        self.failed = None;
    }

    /// Has the credential renewed before the next use, unless it is new. One that was issued in the future is not new: the
    /// clock was set back since, and its end is further away than it seems.
    fn doubt(&mut self, now: SystemTime) {
        if let Some(current) = &mut self.current
            && now
                .duration_since(current.issued)
                .map_or(true, |age| age >= NEW)
        {
            current.renew_from = now;
            current.is_refused = true;
        }
    }

    fn failed(&mut self, why: String, instant: Instant) {
        // It may have been refused for another reason.
        if let Some(current) = &mut self.current {
            current.is_refused = false;
        }
        let times = self.failed.as_ref().map_or(1, |failed| failed.times + 1);
        self.failed = Some(Failed {
            why,
            times,
            again: instant.checked_add(PAUSES.after(times)).unwrap_or(instant),
        });
    }
}

impl Renewal {
    /// Creates a renewal that has sent nothing yet.
    pub(super) fn new(
        source: Source,
        target: &str,
        redactor: Arc<SecretRedactor>,
        clock: WallClock,
    ) -> Arc<Renewal> {
        Arc::new(Renewal {
            source,
            target: target.to_owned(),
            redactor,
            clock,
            state: Mutex::default(),
        })
    }

    /// The valid credential; waits for one until `until`.
    ///
    /// # Errors
    /// There is no valid credential, with the reason of the last exchange.
    pub(super) async fn material(
        self: &Arc<Self>,
        tenure: &Arc<Tenure>,
        until: Instant,
    ) -> Result<Arc<Material>, FetchError> {
        self.source.enter(tenure);
        loop {
            let mut under_way = {
                let mut state = self.state.lock();
                match state.turn((self.clock)(), Instant::now()) {
                    Turn::Use(material) => return Ok(material),
                    Turn::UseAndRenew(material) => {
                        self.renew(&mut state);
                        return Ok(material);
                    }
                    Turn::Wait(under_way) => under_way,
                    Turn::Renew => self.renew(&mut state),
                    Turn::Fail(why) => return Err(FetchError::Unavailable(why)),
                }
            };
            // The channel carries no value: it only closes.
            if timeout_at(until, under_way.changed()).await.is_err() {
                return Err(FetchError::TimedOut(format!(
                    "the credential of target {} has not come yet: {}",
                    self.target, self.source
                )));
            }
        }
    }

    /// Has a credential that the target refused renewed before the next use, unless it is new.
    pub(super) fn doubt(&self) {
        self.state.lock().doubt((self.clock)());
    }

    /// Begins an exchange in a task of its own, which continues when its callers are cancelled.
    fn renew(self: &Arc<Self>, state: &mut State) -> watch::Receiver<()> {
        let (ended, under_way) = watch::channel(());
        state.under_way = Some(under_way.clone());
        let renewal = self.clone();
        tokio::spawn(async move {
            renewal.exchange().await;
            drop(ended);
        });
        under_way
    }

    async fn exchange(&self) {
        let result = self.source.issue(&self.redactor).await;
        let now = (self.clock)();
        let result = result.and_then(|issued| match issued.expires.duration_since(now) {
            Ok(left) if left > LAST_MOMENTS => Ok(issued),
            Ok(left) => Err(format!("what was issued expires in {left:.0?}")),
            Err(_) => Err(
                "what was issued has expired already: the clock of this machine is wrong, or the issuer is impaired and repeats what it issued before"
                    .to_owned(),
            ),
        });
        let (target, source) = (&self.target, self.source.to_string());
        match result {
            Ok(issued) => {
                // Secrets are redacted before the first use.
                self.redactor.learn(issued.material.secrets());
                let mut state = self.state.lock();
                let had_failed = state.failed.is_some();
                state.succeeded(issued, now, dice());
                if had_failed {
                    tracing::info!(target: "egress", "the credential of target {target} was issued again: {source}");
                }
            }
            Err(why) => {
                let why = self.redactor.redact(&why);
                let mut state = self.state.lock();
                if state.failed.is_none() {
                    let expires = state.current.as_ref().map(|current| current.expires);
                    let left = expires.and_then(|expires| expires.duration_since(now).ok());
                    tracing::error!(target: "egress", former_valid_for = ?left, "no credential for target {target}: {source}: {why}");
                }
                let why = format!("no credential for target {target}: {source}: {why}");
                state.failed(why, Instant::now());
            }
        }
    }
}

/// A random number between 0 and 1.
fn dice() -> f64 {
    getrandom::u32().map_or(0.5, |number| f64::from(number) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests;
