//! Exchanges of one guest call: their results, whether the answers were complete, and their log lines.
//!
//! Log lines and records hold provider, target, method, path pattern, the fields named by a rule of the manifest,
//! status, sizes and times; never a header, a body or the rest of a query. Only a refusal names the requested path
//! itself.

use std::sync::atomic::{AtomicUsize, Ordering};

use ccm_core::safety::permit::Access;
use ccm_metrics::requests::{EndedRequest, RequestEnd};
use http::Method;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::Egress;
use super::message::{Exchange, ExchangeEnd, FetchError, FetchResponse};
use super::rules::Line;

/// Maximum number of warnings per call, so that a guest that is denied repeatedly cannot flood the log.
const MAX_WARNINGS: usize = 10;

/// Exchanges of one call.
#[derive(Debug, Default)]
pub(super) struct Records {
    begun: AtomicUsize,
    warnings: AtomicUsize,
    ended: Mutex<Vec<Exchange>>,
}

impl Records {
    /// Counts a new exchange; returns the number begun before it.
    pub(super) fn begin(&self) -> usize {
        self.begun.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether one more refusal of this call is logged as a warning; false after [`MAX_WARNINGS`].
    pub(super) fn may_warn(&self) -> bool {
        self.warnings.fetch_add(1, Ordering::Relaxed) < MAX_WARNINGS
    }

    /// Ended exchanges, in the order in which they ended.
    pub(super) fn exchanges(&self) -> Vec<Exchange> {
        self.ended.lock().clone()
    }

    /// Whether the call saw only complete answers, as defined by `FindReply::complete`: every exchange ended with 2xx,
    /// or said that the requested object does not exist; with `live`, this call itself also sent at least one request
    /// that got 2xx. Supplementary exchanges count neither for nor against completeness.
    pub(super) fn complete(&self, live: bool) -> bool {
        let ended = self.ended.lock();
        let is_success =
            |exchange: &Exchange| matches!(exchange.end, ExchangeEnd::Answered(200..=299));
        let proves = |exchange: &&Exchange| !exchange.supplementary;
        // An exchange without an end is still under way, or was over the cap.
        ended.len() == self.begun.load(Ordering::Relaxed)
            && ended
                .iter()
                .filter(proves)
                .all(|exchange| is_success(exchange) || exchange.absent)
            && (!live
                || ended
                    .iter()
                    .filter(proves)
                    .any(|exchange| is_success(exchange) && !exchange.kept))
    }
}

/// One exchange under way. Recorded when it ends, also when the guest abandons it.
pub(super) struct Record<'a> {
    egress: &'a Egress,
    records: &'a Records,
    begun: Instant,
    /// The line of the grant that admits the request.
    line: Option<Line>,
    exchange: Exchange,
}

impl<'a> Record<'a> {
    /// Starts the record; [`Records::begin`] has already counted it.
    pub(super) fn new(
        egress: &'a Egress,
        records: &'a Records,
        target: &str,
        method: &Method,
        supplementary: bool,
    ) -> Record<'a> {
        let exchange = Exchange {
            target: egress.shown(target),
            method: method.clone(),
            template: None,
            end: ExchangeEnd::Failed("cancelled"),
            kept: false,
            absent: false,
            supplementary,
            bytes: 0,
            took: std::time::Duration::ZERO,
        };
        Record {
            egress,
            records,
            begun: Instant::now(),
            line: None,
            exchange,
        }
    }

    /// Notes the grant line that admits the request.
    pub(super) fn admitted(&mut self, target: &str, line: Line) {
        self.exchange.target = target.to_owned();
        self.exchange.template = Some(line.label());
        self.line = Some(line);
        self.egress.requests.begun(self.egress.provider(), target);
    }

    /// Counts the exchange if its target was granted: other names of a guest must not become labels of a series.
    fn count(&self) {
        let Exchange {
            target,
            method,
            template,
            end,
            kept,
            took,
            ..
        } = &self.exchange;
        let mut targets = self.egress.targets.iter();
        if targets.any(|known| known.name == *target) {
            self.egress.requests.ended(&EndedRequest {
                provider: self.egress.provider(),
                target,
                method: method.as_str(),
                endpoint: template.as_deref(),
                end: match end {
                    ExchangeEnd::Answered(_) if *kept => RequestEnd::Kept,
                    ExchangeEnd::Answered(status) => RequestEnd::Answered(*status),
                    ExchangeEnd::Failed(why) => RequestEnd::Failed(why),
                },
                took: *took,
            });
        }
    }

    /// Stores the result of the exchange, and logs a failure. `kept`: nothing was sent for this exchange.
    pub(super) fn ended(&mut self, end: &Result<FetchResponse, FetchError>, kept: bool) {
        self.exchange.kept = kept;
        self.exchange.end = match end {
            Ok(answer) => {
                self.exchange.bytes = answer.body.len() as u64;
                let line = self.line.as_ref();
                self.exchange.absent =
                    line.is_some_and(|line| line.proves_absence(answer.status, &answer.body));
                ExchangeEnd::Answered(answer.status)
            }
            Err(error) => ExchangeEnd::Failed(error.reason()),
        };
        if let Err(error) = end {
            self.complain(error);
        }
    }

    /// Logs a failed exchange. Refusals are warnings, because they show what the grant lacks or the guest tried.
    fn complain(&self, error: &FetchError) {
        let Exchange { target, method, .. } = &self.exchange;
        let provider = self.egress.provider();
        let may_warn = self.records.may_warn();
        match error {
            FetchError::Denied(text) | FetchError::Invalid(text) if may_warn => {
                tracing::warn!(target: "egress", provider, name = target, %method, reason = error.reason(), "refused: {text}");
            }
            _ => tracing::debug!(target: "egress", provider, name = target, %method, "{error}"),
        }
    }
}

impl Drop for Record<'_> {
    fn drop(&mut self) {
        self.exchange.took = self.begun.elapsed();
        self.count();
        let Exchange {
            target,
            method,
            template,
            end,
            kept,
            bytes,
            took,
            ..
        } = &self.exchange;
        let provider = self.egress.provider();
        let path = template.as_deref().unwrap_or_default();
        let (status, reason) = match end {
            ExchangeEnd::Answered(status) => (*status, ""),
            ExchangeEnd::Failed(reason) => (0, *reason),
        };
        let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        // Changes are logged at info level, reads are not. Refusals were already logged.
        let is_logged = match end {
            ExchangeEnd::Failed("denied" | "invalid" | "throttled") => false,
            ExchangeEnd::Failed("cancelled") => self.records.may_warn(),
            _ => true,
        };
        let line = self.line.as_ref();
        if line.is_some_and(|line| line.access == Access::Write) && is_logged {
            tracing::info!(target: "egress", provider, name = target, %method, path, status, reason, bytes, ms, "change");
        } else {
            tracing::debug!(target: "egress", provider, name = target, %method, path, status, reason, kept, bytes, ms, "read");
        }
        let mut ended = self.records.ended.lock();
        // Exchanges over the cap are refused and not recorded one by one, so memory stays bounded.
        if ended.len() < self.egress.limits.requests_per_call {
            ended.push(self.exchange.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Any end of any request.
    fn some_exchange() -> impl Strategy<Value = Exchange> {
        let end = prop_oneof![
            prop::sample::select(vec![200, 204, 299, 302, 400, 401, 404, 429, 500, 503])
                .prop_map(ExchangeEnd::Answered),
            prop::sample::select(vec!["denied", "invalid", "timed-out", "cancelled"])
                .prop_map(ExchangeEnd::Failed),
        ];
        let flags = (any::<bool>(), any::<bool>(), any::<bool>());
        (end, flags).prop_map(|(end, (kept, absent, supplementary))| Exchange {
            target: "api".to_owned(),
            method: Method::GET,
            template: None,
            end,
            kept,
            // Only an error status of the cloud can prove an absence.
            absent: absent && matches!(end, ExchangeEnd::Answered(400..)),
            supplementary,
            bytes: 0,
            took: std::time::Duration::ZERO,
        })
    }

    fn complete(exchanges: &[Exchange], live: bool) -> bool {
        let records = Records::default();
        for exchange in exchanges {
            records.begin();
            let mut ended = records.ended.lock();
            ended.push(exchange.clone());
        }
        records.complete(live)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn a_failed_request_that_is_not_supplementary_makes_a_call_incomplete(
            exchanges in prop::collection::vec(some_exchange(), 0..6),
            live in any::<bool>(),
        ) {
            let is_success = |one: &Exchange| matches!(one.end, ExchangeEnd::Answered(200..=299));
            let failed = |one: &Exchange| !one.supplementary && !one.absent && !is_success(one);
            if exchanges.iter().any(failed) {
                prop_assert!(!complete(&exchanges, live));
            }
            // Supplementary exchanges change nothing: the call counts as if they had not been sent.
            let mut without = exchanges.clone();
            without.retain(|one| !one.supplementary);
            prop_assert_eq!(complete(&exchanges, live), complete(&without, live));
            // With `live`, a call needs a success of its own.
            if !without.iter().any(|one| is_success(one) && !one.kept) {
                prop_assert!(!complete(&exchanges, true));
            }
        }
    }
}
