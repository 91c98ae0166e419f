//! One connection: its TLS handshake, then HTTP/1.1 or HTTP/2, with limits on time, headers and streams. Reads no
//! request's body.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use http::{Request, Response};
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt as _;

use crate::authentication::PeerCertificates;
use crate::connection_limit::{Slot, Unread};
use crate::endpoints::common_headers;
use crate::write_limit::WriteLimit;

/// Interval of HTTP/2 pings, and the timeout of their answers.
const PING: Duration = Duration::from_secs(30);
/// Maximum bytes of a request's head, and of what is read ahead.
const HEAD_BYTES: usize = 16 * 1024;
/// Maximum bytes of bodies that an HTTP/2 client sends before they are read, which hardly any is: of one request, and of all
/// requests of a connection, where HTTP/2 allows no less.
const BODY_BYTES: u32 = 16 * 1024;
const BODIES_BYTES: u32 = 65_535;
/// Go's default of `--http2-max-streams-per-connection`.
const STREAMS: u32 = 250;

/// Time limits of a connection.
#[derive(Debug, Clone)]
pub(crate) struct Limits {
    /// Limit of the TLS handshake.
    pub handshake: Duration,
    /// Limit of a request's head, and of the silence before it; and of an answer that an HTTP/2 client leaves in the
    /// server by its flow control.
    pub silence: Duration,
    /// Limit of an answer that a client leaves in the network's buffers.
    pub unread: Duration,
    /// Limit of the whole connection.
    pub life: Duration,
    /// Limit of the requests under way when the connection is over its limit.
    pub last: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            handshake: Duration::from_secs(10),
            // Longer than the usual scrape interval.
            silence: Duration::from_secs(75),
            // Longer than the usual timeout of a scrape.
            unread: Duration::from_secs(20),
            life: Duration::from_secs(15 * 60),
            last: Duration::from_secs(10),
        }
    }
}

/// How connections are served.
pub(crate) struct HttpProtocol {
    /// `None`: without TLS, and HTTP/1.1 only.
    pub tls: Option<TlsAcceptor>,
    /// Streams of an HTTP/2 connection; 0: Go's default.
    pub streams: u32,
    /// Time limits of each connection.
    pub limits: Limits,
}

/// Serves a connection until it ends.
pub(crate) async fn serve(stream: TcpStream, protocol: &HttpProtocol, router: Router, slot: Slot) {
    // Answers are written at once; waiting for more makes them late.
    let _ = stream.set_nodelay(true);
    let stream = WriteLimit::new(stream, protocol.limits.unread);
    let Some(tls) = &protocol.tls else {
        let peer = PeerCertificates::default();
        return http(stream, false, protocol, peer, router, slot).await;
    };
    // A failed handshake is the client's fault, and happens with every port scan.
    let Ok(Ok(stream)) = timeout(protocol.limits.handshake, tls.accept(stream)).await else {
        return;
    };
    let session = stream.get_ref().1;
    let chain: Arc<[CertificateDer<'static>]> = match session.peer_certificates() {
        Some(chain) => chain.iter().map(|one| one.clone().into_owned()).collect(),
        None => Arc::default(),
    };
    let is_http2 = session.alpn_protocol() == Some(b"h2");
    let peer = PeerCertificates(chain);
    http(stream, is_http2, protocol, peer, router, slot).await;
}

async fn http<S>(
    stream: S,
    is_http2: bool,
    protocol: &HttpProtocol,
    peer: PeerCertificates,
    router: Router,
    slot: Slot,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let io = TokioIo::new(stream);
    let (limits, streams) = (&protocol.limits, protocol.streams);
    let slot = Arc::new(slot);
    let own = slot.clone();
    let service =
        service_fn(move |request| answer(request, peer.clone(), router.clone(), own.clone()));
    if is_http2 {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .max_concurrent_streams(if streams == 0 { STREAMS } else { streams })
            .max_header_list_size(HEAD_BYTES as u32)
            .initial_stream_window_size(BODY_BYTES)
            .initial_connection_window_size(BODIES_BYTES)
            .max_send_buf_size(64 * 1024)
            .keep_alive_interval(Some(PING))
            .keep_alive_timeout(PING);
        let connection = builder.serve_connection(io, service);
        until_late(
            connection,
            http2::Connection::graceful_shutdown,
            limits,
            &slot,
        )
        .await;
    } else {
        let mut builder = http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(limits.silence)
            .max_buf_size(HEAD_BYTES);
        let connection = builder.serve_connection(io, service);
        until_late(
            connection,
            http1::Connection::graceful_shutdown,
            limits,
            &slot,
        )
        .await;
    }
}

/// Runs a connection until it ends by itself, or has been silent or open for too long; then the requests under way may
/// finish.
async fn until_late<C: Future>(
    connection: C,
    shut_down: fn(Pin<&mut C>),
    limits: &Limits,
    slot: &Slot,
) {
    let mut connection = pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => return,
        () = slot.waits(limits.silence) => {}
        () = sleep(limits.life) => {}
    }
    shut_down(connection.as_mut());
    let _ = timeout(limits.last, connection).await;
}

async fn answer(
    request: Request<Incoming>,
    peer: PeerCertificates,
    router: Router,
    slot: Arc<Slot>,
) -> Result<Response<Body>, Infallible> {
    let _working = slot.works();
    let mut request = request.map(Body::new);
    request.extensions_mut().insert(peer);
    let response = router.oneshot(request).await?;
    let unread = Arc::new(slot.answers());
    Ok(common_headers(response).map(|body| Body::new(UnreadBody { body, unread })))
}

/// The body of an answer, which counts as unread until its last byte is with the operating system: an HTTP/2 client may
/// leave any number of answers to its flow control.
struct UnreadBody {
    body: Body,
    unread: Arc<Unread>,
}

/// Bytes of such a body. HTTP/2 keeps them after the body itself is dropped.
struct UnreadBytes {
    bytes: Bytes,
    _unread: Arc<Unread>,
}

impl AsRef<[u8]> for UnreadBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl HttpBody for UnreadBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        let unread = |bytes| UnreadBytes {
            bytes,
            _unread: self.unread.clone(),
        };
        frame.map_ok(|frame| frame.map_data(|bytes| Bytes::from_owner(unread(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests;
