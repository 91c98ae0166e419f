//! Watches the calls of one loaded module, and disturbs its requests: for the commands that try and test modules. The
//! manager loads no module with an interceptor.
//!
//! An interceptor is called behind every check of the egress, so it sees only granted and permitted requests. It sees
//! no credential, no header and no body, and cannot change what is sent: it can only withhold a request from the cloud,
//! or an answer from the guest.

use std::time::Duration;

use bytes::Bytes;
use ccm_core::safety::permit::CloudRequest;
use http::HeaderMap;
use http::header::{HeaderValue, RETRY_AFTER};
use tokio::time::{Instant, sleep_until};

use crate::egress::{FetchError, FetchResponse};

/// An observer of one module's calls that may withhold its requests and their answers.
pub trait Interceptor: Send + Sync {
    /// A permitted request is about to be sent. Returns what happens to it.
    fn before(&self, request: &CloudRequest) -> InjectedFault;

    /// A request has ended after `took`. `answer`: the result for the guest; `cloud`: the cloud's status, if the
    /// request was sent and answered.
    fn ended(
        &self,
        request: &CloudRequest,
        answer: &Result<u16, FetchError>,
        cloud: Option<u16>,
        took: Duration,
    );

    /// A call of the guest has ended; `log` has the last lines that it logged.
    fn called(&self, usage: &CallUsage, log: &[String]);
}

/// The fault that an interceptor injects into one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InjectedFault {
    /// No fault: the cloud gets the request, and the guest gets the answer.
    None,
    /// The request is not sent, and answered with this status and no body.
    Answer(u16),
    /// The request is not sent, and answered with 429 and `Retry-After`, in whole seconds. The egress holds further
    /// requests back, as after such an answer of the cloud.
    Throttle(Duration),
    /// The cloud gets the request and acts on it, and the connection breaks before the answer arrives.
    LoseAnswer,
    /// The guest gets the first half of the answer's body as if it were the whole body.
    CutAnswer,
    /// The request is not sent, and never answered: the call ends when its time is over.
    Hang,
}

/// Time, memory and requests of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallUsage {
    /// The called function of the contract.
    pub function: &'static str,
    /// Duration of the call, from its start.
    pub took: Duration,
    /// CPU time of the guest.
    pub computed: Duration,
    /// Linear memory of the guest at the end of the call, which is its maximum: memory never shrinks. `None`: the guest
    /// ran in another process.
    pub memory_bytes: Option<usize>,
    /// Requests that the guest tried to send from `init`; they are always refused.
    pub requests_in_init: usize,
}

/// Runs `exchange` with the fault that the interceptor chooses.
///
/// # Errors
/// The error of the exchange, or of the fault.
pub(crate) async fn disturbed(
    interceptor: &dyn Interceptor,
    request: &CloudRequest,
    until: Instant,
    observe: impl Fn(u16, &HeaderMap),
    exchange: impl Future<Output = Result<FetchResponse, FetchError>>,
) -> Result<FetchResponse, FetchError> {
    let began = Instant::now();
    let (answer, cloud) = match interceptor.before(request) {
        InjectedFault::None => sent(exchange).await,
        InjectedFault::Answer(status) => (Ok(made(status, &HeaderMap::new())), None),
        InjectedFault::Throttle(wait) => {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, HeaderValue::from(wait.as_secs()));
            observe(429, &headers);
            (Ok(made(429, &headers)), None)
        }
        InjectedFault::LoseAnswer => {
            let (_, cloud) = sent(exchange).await;
            let lost = "the connection was closed before the answer arrived";
            (Err(FetchError::Unavailable(lost.to_owned())), cloud)
        }
        InjectedFault::CutAnswer => {
            let (answer, cloud) = sent(exchange).await;
            (answer.map(cut), cloud)
        }
        InjectedFault::Hang => {
            sleep_until(until).await;
            (
                Err(FetchError::TimedOut("no answer in time".to_owned())),
                None,
            )
        }
    };
    let got = answer
        .as_ref()
        .map(|answer| answer.status)
        .map_err(Clone::clone);
    interceptor.ended(request, &got, cloud, began.elapsed());
    answer
}

/// Runs the exchange; returns the answer, and the cloud's status if it answered.
async fn sent(
    exchange: impl Future<Output = Result<FetchResponse, FetchError>>,
) -> (Result<FetchResponse, FetchError>, Option<u16>) {
    let answer = exchange.await;
    let status = answer.as_ref().ok().map(|answer| answer.status);
    (answer, status)
}

fn made(status: u16, headers: &HeaderMap) -> FetchResponse {
    let shown = headers.iter().filter_map(|(name, value)| {
        let value = value.to_str().ok()?;
        Some((name.as_str().to_owned(), value.to_owned()))
    });
    FetchResponse {
        status,
        headers: shown.collect(),
        body: Bytes::new().into(),
    }
}

fn cut(answer: FetchResponse) -> FetchResponse {
    let half = answer.body.len() / 2;
    FetchResponse {
        body: Bytes::copy_from_slice(&answer.body[..half]).into(),
        ..answer
    }
}
