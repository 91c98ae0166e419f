//! The layer around every request to the API server: its metrics, and the client-side limit if there is one
//! (`--kube-api-qps`, `--kube-api-burst`). Sends nothing itself, and retries nothing.

mod protobuf;
mod rate_limit;
mod retry_after;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::{Request, Response, StatusCode, Uri};
use hyper::body::{Body, Buf as _, Frame, SizeHint};
use prometheus_client::registry::Registry;
use tokio::time::Instant;
use tower::{Service, ServiceExt as _, service_fn};

use crate::clock::timer_now;
use crate::metrics::{RequestMeter, RestMetrics};
use rate_limit::Bucket;

pub(crate) use protobuf::NodesAsProtobuf;
pub use rate_limit::RateLimit;
pub(crate) use retry_after::with_retry_after;

/// The metrics of all clients, and the limit that each of them has for itself. Clones share the metrics.
#[derive(Debug, Clone, Default)]
pub struct RestClients {
    metrics: RestMetrics,
    limit: Option<RateLimit>,
}

impl RestClients {
    /// Creates and registers the metrics. Each client gets its own `limit`; `None`: no limit, because fairness between
    /// clients is the API server's task.
    pub fn register(registry: &mut Registry, limit: Option<RateLimit>) -> RestClients {
        let metrics = RestMetrics::register(registry);
        RestClients { metrics, limit }
    }

    /// The same metrics, for clients without a limit.
    #[must_use]
    pub fn without_limit(&self) -> RestClients {
        RestClients {
            metrics: self.metrics.clone(),
            limit: None,
        }
    }

    /// Sends the requests of one client of this API server through `inner`, counted, and each in its turn if there is a
    /// limit.
    pub(crate) fn around<S, I, O>(
        &self,
        cluster_url: &Uri,
        inner: S,
    ) -> impl Service<Request<I>, Response = Response<Metered<O>>, Error = S::Error, Future: Send>
    + Clone
    + Send
    + use<S, I, O>
    where
        S: Service<Request<I>, Response = Response<O>> + Clone + Send,
        S::Future: Send,
        I: Body + Send,
        O: Body,
    {
        let host = cluster_url
            .authority()
            .map_or("", |authority| authority.as_str());
        // A kubeconfig's URL can have a user and a password in front of the host.
        let host: Arc<str> = host.rsplit('@').next().unwrap_or_default().into();
        let bucket = self.limit.map(|limit| Arc::new(Bucket::new(limit)));
        let metrics = self.metrics.clone();
        service_fn(move |request: Request<I>| {
            let is_watch = is_watch(request.uri());
            let meter =
                RequestMeter::new(metrics.clone(), host.clone(), request.method(), is_watch);
            let (bucket, inner) = (bucket.clone(), inner.clone());
            async move {
                // As upstream, watches wait for no token: they are few, and a controller whose watch is late sees
                // nothing.
                if let Some(bucket) = bucket.filter(|_| !is_watch) {
                    let turn = bucket.take(timer_now());
                    let wait = turn.wait;
                    if !wait.is_zero() {
                        tokio::time::sleep(wait).await;
                    }
                    turn.used();
                    meter.waited(wait);
                }
                let mut exchange = Exchange {
                    meter: meter.clone(),
                    sent: request.body().size_hint().exact(),
                    begun: timer_now(),
                    status: None,
                };
                let answer = inner.oneshot(request).await;
                exchange.status = answer.as_ref().ok().map(Response::status);
                drop(exchange);
                Ok::<_, S::Error>(answer?.map(|body| Metered {
                    body: Box::pin(body),
                    meter,
                    bytes: 0,
                }))
            }
        })
    }
}

/// A request and its answer, counted at the end, which is also that its sender gives up.
struct Exchange {
    meter: RequestMeter,
    /// Bytes of the request's body.
    sent: Option<u64>,
    begun: Instant,
    /// `None`: no answer so far.
    status: Option<StatusCode>,
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let took = timer_now().saturating_duration_since(self.begun);
        self.meter.answered(self.status, self.sent, took);
    }
}

fn is_watch(uri: &Uri) -> bool {
    let mut fields = uri.query().unwrap_or_default().split('&');
    fields.any(|field| matches!(field, "watch=true" | "watch=1"))
}

/// The body of an answer, whose bytes are counted.
pub(crate) struct Metered<B> {
    body: Pin<Box<B>>,
    meter: RequestMeter,
    bytes: u64,
}

impl<B: Body> Body for Metered<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let frame = ready!(self.body.as_mut().poll_frame(context));
        if let Some(Ok(frame)) = &frame {
            let bytes = frame.data_ref().map_or(0, |data| data.remaining());
            self.bytes = self.bytes.saturating_add(bytes as u64);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B> Drop for Metered<B> {
    fn drop(&mut self) {
        self.meter.received(self.bytes);
    }
}

#[cfg(test)]
mod tests;
