//! Records what a module does while a command calls it: its calls with their cost, every request, and every refusal.
//! Injects the faults that a command orders. Decides nothing.

use std::time::Duration;

use ccm_core::safety::audit::{Attempt, AuditRecord, AuditSink, Refused, Subject, Unrecordable};
use ccm_core::safety::permit::{Access, CloudRequest};
use ccm_host::egress::FetchError;
use ccm_host::{CallUsage, InjectedFault, Interceptor};
use parking_lot::Mutex;
use serde::Serialize;

/// Returns the fault of a request.
type FaultOf = dyn Fn(&CloudRequest) -> InjectedFault + Send + Sync;

/// The recorded calls and requests of a module, and the ordered faults.
#[derive(Default)]
pub(super) struct ObservedCalls {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    calls: Vec<ObservedCall>,
    /// The requests of the call under way.
    requests: Vec<ObservedRequest>,
    refused: Vec<RefusedRequest>,
    faults: Option<Box<FaultOf>>,
}

/// One call of the module.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ObservedCall {
    /// Name of the contract's function.
    pub(super) function: &'static str,
    /// Duration of the call, in milliseconds.
    pub(super) took_ms: u64,
    /// CPU time of the call, in microseconds.
    pub(super) computed_us: u64,
    /// Largest memory of the guest, in KiB; absent where the guest runs in another process.
    #[serde(rename = "memoryKiB", skip_serializing_if = "Option::is_none")]
    pub(super) memory_kib: Option<usize>,
    /// Number of requests that it tried to send from `init`.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) requests_in_init: usize,
    /// The requests that were sent, in the order in which they ended.
    pub(super) requests: Vec<ObservedRequest>,
    /// The requests that were refused, and not sent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) refused: Vec<RefusedRequest>,
    /// The last lines that the guest logged.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) log: Vec<String>,
}

/// One request that was permitted.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ObservedRequest {
    pub(super) method: String,
    /// The name of the granted target.
    pub(super) target: String,
    /// The path below the endpoint, without query.
    pub(super) path: String,
    /// The rule that admitted it.
    pub(super) rule: String,
    /// Whether the request may have changed something.
    pub(super) is_change: bool,
    /// The guest's answer: a status, or why there was none.
    pub(super) answer: String,
    /// The cloud's status, whatever the guest got.
    pub(super) status: Option<u16>,
    /// Duration of the request, in milliseconds.
    pub(super) took_ms: u64,
}

/// One request that was not sent.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RefusedRequest {
    pub(super) method: String,
    pub(super) target: String,
    /// The path; absent where the request is not granted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) path: Option<String>,
    pub(super) why: String,
    /// Whether the request is granted, and only its permit refused it.
    pub(super) is_granted: bool,
    /// The last line that the guest logged before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) said: Option<String>,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl ObservedCalls {
    /// Injects these faults from now on.
    pub(super) fn inject(
        &self,
        faults: impl Fn(&CloudRequest) -> InjectedFault + Send + Sync + 'static,
    ) {
        self.state.lock().faults = Some(Box::new(faults));
    }

    /// Number of calls that have ended.
    pub(super) fn count(&self) -> usize {
        self.state.lock().calls.len()
    }

    /// The calls that have ended, without the first `before`.
    pub(super) fn since(&self, before: usize) -> Vec<ObservedCall> {
        self.state
            .lock()
            .calls
            .get(before..)
            .unwrap_or_default()
            .to_vec()
    }
}

impl ObservedRequest {
    /// Whether the cloud has carried out the request.
    pub(super) fn is_done(&self) -> bool {
        matches!(self.status, Some(200..=299))
    }

    /// Whether the cloud has answered, and the guest got no answer.
    pub(super) fn is_lost(&self) -> bool {
        self.status
            .is_some_and(|status| self.answer != status.to_string())
    }
}

impl ObservedCall {
    /// Requests that may have changed something.
    pub(super) fn changes(&self) -> impl Iterator<Item = &ObservedRequest> {
        self.requests.iter().filter(|request| request.is_change)
    }
}

impl Interceptor for ObservedCalls {
    fn before(&self, request: &CloudRequest) -> InjectedFault {
        let state = self.state.lock();
        let faults = state.faults.as_ref();
        faults.map_or(InjectedFault::None, |faults| faults(request))
    }

    fn ended(
        &self,
        request: &CloudRequest,
        answer: &Result<u16, FetchError>,
        cloud: Option<u16>,
        took: Duration,
    ) {
        let observed = ObservedRequest {
            method: request.method.clone(),
            target: request.target.clone(),
            path: request.path.clone(),
            rule: request.rule.clone(),
            is_change: request.access == Access::Write,
            answer: match answer {
                Ok(status) => status.to_string(),
                Err(error) => error.to_string(),
            },
            status: cloud,
            took_ms: milliseconds(took),
        };
        self.state.lock().requests.push(observed);
    }

    fn called(&self, usage: &CallUsage, log: &[String]) {
        let mut state = self.state.lock();
        let call = ObservedCall {
            function: usage.function,
            took_ms: milliseconds(usage.took),
            computed_us: u64::try_from(usage.computed.as_micros()).unwrap_or(u64::MAX),
            memory_kib: usage.memory_bytes.map(|bytes| bytes >> 10),
            requests_in_init: usage.requests_in_init,
            requests: std::mem::take(&mut state.requests),
            refused: std::mem::take(&mut state.refused),
            log: log.to_vec(),
        };
        state.calls.push(call);
    }
}

/// The commands call one function at a time, so that each refusal belongs to the call under way.
impl AuditSink for ObservedCalls {
    fn before(&self, _: &Subject, _: &CloudRequest) -> Result<(), Unrecordable> {
        Ok(())
    }

    fn after(&self, _: &AuditRecord) {}

    fn refused(&self, refused: &Refused<'_>) {
        let one = RefusedRequest {
            method: refused.request.method.clone(),
            target: refused.request.target.clone(),
            path: Some(refused.request.path.clone()),
            why: refused.refusal.to_string(),
            is_granted: true,
            said: refused.log_line.map(str::to_owned),
        };
        self.state.lock().refused.push(one);
    }

    fn attempted(&self, attempt: &Attempt<'_>) {
        let one = RefusedRequest {
            method: attempt.method.to_owned(),
            target: attempt.target.to_owned(),
            path: None,
            why: attempt.refusal.to_owned(),
            is_granted: false,
            said: None,
        };
        self.state.lock().refused.push(one);
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
