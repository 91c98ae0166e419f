//! Connections: accepts them, speaks TLS and HTTP on them, and can reset them.
//!
//! Knows nothing of the contents of requests and responses.

use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::wire::Body;

/// Maximum number of concurrent connections; more are closed at once.
const MAX_CONNECTIONS: usize = 4096;
/// Timeout for a TLS handshake, for the head of a request, and for its body.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// A simulated cloud that answers requests.
pub(crate) trait Respond: Send + Sync + 'static {
    /// Answers one request, or resets its connection.
    fn respond(
        &self,
        line: &Line,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<Body>> + Send;
}

/// The listener and its settings.
pub(super) struct Listener {
    pub(super) listener: TcpListener,
    pub(super) tls: Option<TlsAcceptor>,
    /// The number of accepted connections.
    pub(super) connections: Arc<AtomicU64>,
}

/// Serves until `stop` is notified or the future is dropped; its connections end with it.
pub(super) async fn listen(cloud: Arc<impl Respond>, listening: Listener, stop: Arc<Notify>) {
    let Listener {
        listener,
        tls,
        connections: accepted_so_far,
    } = listening;
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = stop.notified() => break,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, peer)) = accepted else {
            // Probably out of file descriptors: wait until some are free.
            sleep(Duration::from_millis(20)).await;
            continue;
        };
        while connections.try_join_next().is_some() {}
        if connections.len() < MAX_CONNECTIONS {
            let line = Line {
                number: accepted_so_far.fetch_add(1, Ordering::Relaxed) + 1,
                peer: peer.ip(),
                reset: Arc::new(Notify::new()),
            };
            connections.spawn(connection(Arc::clone(&cloud), line, stream, tls.clone()));
        }
    }
    drop(listener);
    connections.shutdown().await;
}

/// The connection of a request.
#[derive(Clone)]
pub(crate) struct Line {
    pub(super) number: u64,
    pub(super) peer: IpAddr,
    reset: Arc<Notify>,
}

impl Line {
    /// Resets the connection. Never returns: the request ends with its connection.
    pub(crate) async fn reset(&self) -> Infallible {
        self.reset.notify_one();
        std::future::pending().await
    }
}

async fn connection(
    cloud: Arc<impl Respond>,
    line: Line,
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
) {
    let reset = Arc::clone(&line.reset);
    // The second descriptor outlives the protocol layers, so that a reset can reach the bare socket.
    let Ok((stream, bare)) = duplicate(stream) else {
        return;
    };
    let serving = async {
        match tls {
            None => serve_connection(cloud, line, stream).await,
            Some(tls) => {
                if let Ok(Ok(stream)) = timeout(REQUEST_TIMEOUT, tls.accept(stream)).await {
                    serve_connection(cloud, line, stream).await;
                }
            }
        }
    };
    tokio::select! {
        () = serving => {}
        () = reset.notified() => {
            if let Ok(bare) = TcpStream::from_std(bare) {
                // If this fails, the client sees an orderly close instead of a reset.
                let _ = bare.set_zero_linger();
            }
        }
    }
}

fn duplicate(stream: TcpStream) -> io::Result<(TcpStream, std::net::TcpStream)> {
    stream.set_nodelay(true)?;
    let stream = stream.into_std()?;
    let bare = stream.try_clone()?;
    Ok((TcpStream::from_std(stream)?, bare))
}

async fn serve_connection<C, S>(cloud: Arc<C>, line: Line, stream: S)
where
    C: Respond,
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let service = service_fn(move |request| {
        let (cloud, line) = (Arc::clone(&cloud), line.clone());
        async move { Ok::<_, Infallible>(cloud.respond(&line, request).await) }
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_TIMEOUT);
    // A broken connection affects only its client.
    let _ = builder
        .serve_connection(TokioIo::new(stream), service)
        .await;
}
