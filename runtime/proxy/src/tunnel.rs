//! Asks a proxy for a tunnel on a connection to it: HTTP CONNECT (RFC 9110, 9.3.6) or SOCKS 5. Limits the size of the
//! proxy's answer; the caller limits the time. Only the status of an answer is ever shown.

use std::error::Error as StdError;
use std::future::ready;
use std::io;
use std::pin::pin;

use bytes::Bytes;
use futures::future::{Either, select};
use http::header::{HOST, PROXY_AUTHORIZATION};
use http::uri::Scheme as UriScheme;
use http::{HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper::rt::{Read, Write};
use hyper_util::client::legacy::connect::proxy::SocksV5;
use thiserror::Error;
use tower::{BoxError, Service as _, service_fn};

use crate::Proxy;
use crate::address::Scheme;

/// Maximum number of header fields of a proxy's answer, and maximum bytes of its head; real ones have ten and 1 KiB.
const MOST_HEADERS: usize = 64;
const MOST_HEAD_BYTES: usize = 16 << 10;

/// Why there is no connection through a proxy. Names the proxy without its login.
#[derive(Debug, Error)]
pub enum ProxyError {
    /// No connection to the proxy itself.
    #[error("the proxy {proxy} cannot be reached")]
    Unreachable {
        /// Scheme, host and port of the proxy.
        proxy: String,
        /// Error of the connection.
        #[source]
        source: BoxError,
    },
    /// The proxy refuses the tunnel.
    #[error("the proxy {proxy} refuses CONNECT to {target} with status {}: {}", .status.as_u16(), advice(*.status))]
    Refused {
        /// Scheme, host and port of the proxy.
        proxy: String,
        /// Host and port of the server.
        target: String,
        /// Status of the proxy's answer.
        status: StatusCode,
    },
    /// The proxy's answer is not HTTP or SOCKS, or ended early.
    #[error(
        "the proxy {proxy} did not answer as a proxy when asked for {target}: is it one, and of this scheme?"
    )]
    NoAnswer {
        /// Scheme, host and port of the proxy.
        proxy: String,
        /// Host and port of the server.
        target: String,
        /// Error of the exchange with the proxy.
        #[source]
        source: BoxError,
    },
    /// The proxy sent bytes before the client did. No server can have sent them: in a tunnel the client speaks first.
    #[error(
        "the proxy {proxy} sent something in the name of {target} before that was asked anything"
    )]
    SpokeFirst {
        /// Scheme, host and port of the proxy.
        proxy: String,
        /// Host and port of the server.
        target: String,
    },
}

fn advice(status: StatusCode) -> &'static str {
    match status.as_u16() {
        // Tinyproxy answers 401 to a wrong password.
        401 | 407 => "it wants a user and a password, or others than it was given",
        300..400 => "redirects are not followed; is this the proxy's own address?",
        400..500 => "its rules have to allow CONNECT to this host and port",
        500..600 => "it cannot reach the server; its log says why",
        _ => "that is no answer to CONNECT",
    }
}

/// Asks for a tunnel to the host and port of `server`.
pub(crate) async fn open<S>(proxy: &Proxy, stream: S, server: &Uri) -> Result<S, ProxyError>
where
    S: Read + Write + Send + Unpin + 'static,
{
    let default = match server.scheme() == Some(&UriScheme::HTTP) {
        true => 80,
        false => 443,
    };
    let port = server.port_u16().unwrap_or(default);
    let target = format!("{}:{port}", server.host().unwrap_or_default());
    match proxy.scheme() {
        Scheme::Http | Scheme::Https => connect(proxy, stream, target).await,
        Scheme::Socks5 => socks(proxy, stream, target).await,
    }
}

async fn connect<S>(proxy: &Proxy, stream: S, target: String) -> Result<S, ProxyError>
where
    S: Read + Write + Send + Unpin + 'static,
{
    let no_answer = |source: Box<dyn StdError + Send + Sync>| ProxyError::NoAnswer {
        proxy: proxy.to_string(),
        target: target.clone(),
        source,
    };
    let request = request(proxy, &target).map_err(|error| no_answer(error.into()))?;
    let (mut sender, connection) = http1::Builder::new()
        .title_case_headers(true)
        .max_headers(MOST_HEADERS)
        .max_buf_size(MOST_HEAD_BYTES)
        .handshake(stream)
        .await
        .map_err(|error| no_answer(error.into()))?;
    let asked = pin!(sender.send_request(request));
    let driven = pin!(connection.without_shutdown());
    let (answer, driven) = match select(asked, driven).await {
        Either::Left((answer, driven)) => (answer, Either::Left(driven)),
        // The connection's future has ended, with the answer or without one.
        Either::Right((parts, asked)) => (asked.await, Either::Right(parts)),
    };
    let status = answer.map_err(|error| no_answer(error.into()))?.status();
    if !status.is_success() {
        return Err(ProxyError::Refused {
            proxy: proxy.to_string(),
            target,
            status,
        });
    }
    let parts = match driven {
        Either::Left(driven) => driven.await,
        Either::Right(parts) => parts,
    };
    let parts = parts.map_err(|error| no_answer(error.into()))?;
    match parts.read_buf.is_empty() {
        true => Ok(parts.io),
        false => Err(ProxyError::SpokeFirst {
            proxy: proxy.to_string(),
            target,
        }),
    }
}

fn request(proxy: &Proxy, target: &str) -> Result<Request<Empty<Bytes>>, http::Error> {
    let mut request = Request::builder()
        .method(Method::CONNECT)
        .uri(target)
        .header(HOST, HeaderValue::from_str(target)?)
        .body(Empty::new())?;
    if let Some(value) = proxy.authorization() {
        request.headers_mut().insert(PROXY_AUTHORIZATION, value);
    }
    Ok(request)
}

async fn socks<S>(proxy: &Proxy, stream: S, target: String) -> Result<S, ProxyError>
where
    S: Read + Write + Send + Unpin + 'static,
{
    let no_answer = |source: BoxError| ProxyError::NoAnswer {
        proxy: proxy.to_string(),
        target: target.clone(),
        source,
    };
    let server = Uri::builder()
        .scheme("https")
        .authority(target.as_str())
        .path_and_query("/")
        .build();
    let server = server.map_err(|error| no_answer(error.into()))?;
    let url = proxy.url().map_err(|error| no_answer(error.into()))?;
    // The connection exists already.
    let mut stream = Some(stream);
    let dialled = service_fn(move |_: Uri| {
        let stream = stream.take();
        ready(stream.ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected)))
    });
    let mut socks = SocksV5::new(url, dialled);
    if let Some(login) = proxy.login() {
        socks = socks.with_auth(login.user.to_string(), login.password.to_string());
    }
    socks
        .call(server)
        .await
        .map_err(|error| no_answer(error.into()))
}
