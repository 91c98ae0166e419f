//! WASI for guests whose toolchain needs it: every interface exists and is empty. No files, environment, arguments
//! or sockets; output goes to the guest's log; `wasi:http` uses the same egress as the contract's own `http`.

mod names;
mod output;

use std::time::Duration;

use ::http::uri::Scheme;
use ::http::{Request, Response};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use wasmtime::component::Linker;
use wasmtime_wasi::{HostMonotonicClock, HostWallClock, WasiCtx};
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody, WasiHttpHooks};

use crate::egress::{FetchError, FetchResponse};
use crate::guest_egress::GuestEgress;
use crate::guest_log::{GuestLog, Output};
use crate::host_functions::{monotonic_ms, wall_clock_ms};
use crate::limits;
use crate::store_data::Guest;
use output::LogStream;

/// Interfaces that guests may import, at any version 0.2.x. The standard libraries of Rust (`wasm32-wasip2`, `cargo
/// component`), JavaScript (jco) and Python (componentize-py) import them, used or not.
pub(crate) const INTERFACES: &[&str] = &[
    "wasi:cli/environment",
    "wasi:cli/exit",
    "wasi:cli/stderr",
    "wasi:cli/stdin",
    "wasi:cli/stdout",
    "wasi:cli/terminal-input",
    "wasi:cli/terminal-output",
    "wasi:cli/terminal-stderr",
    "wasi:cli/terminal-stdin",
    "wasi:cli/terminal-stdout",
    "wasi:clocks/monotonic-clock",
    "wasi:clocks/wall-clock",
    "wasi:filesystem/preopens",
    "wasi:filesystem/types",
    "wasi:http/outgoing-handler",
    "wasi:http/types",
    "wasi:io/error",
    "wasi:io/poll",
    "wasi:io/streams",
    "wasi:random/insecure",
    "wasi:random/insecure-seed",
    "wasi:random/random",
    // componentize-py imports these; creating and binding sockets, connecting and name look-ups are all refused.
    "wasi:sockets/instance-network",
    "wasi:sockets/ip-name-lookup",
    "wasi:sockets/network",
    "wasi:sockets/tcp",
    "wasi:sockets/tcp-create-socket",
    "wasi:sockets/udp",
    "wasi:sockets/udp-create-socket",
];

/// Links WASI 0.2.
///
/// # Errors
/// An interface is linked twice.
pub(crate) fn link(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    wasmtime_wasi::p2::add_to_linker_async(linker)?;
    wasmtime_wasi_http::p2::add_only_http_to_linker_async(linker)?;
    names::link(linker)
}

/// An empty WASI context with its output in the log.
pub(crate) fn context(log: &GuestLog) -> WasiCtx {
    WasiCtx::builder()
        .stdout(LogStream::new(log.clone(), Output::Stdout))
        .stderr(LogStream::new(log.clone(), Output::Stderr))
        .allow_tcp(false)
        .allow_udp(false)
        .allow_ip_name_lookup(false)
        .max_random_size(u64::from(limits::RANDOM_BYTES))
        .wall_clock(Coarse)
        .monotonic_clock(Coarse)
        .build()
}

/// Clocks with a resolution of one millisecond, as in the contract: too coarse for timing attacks on the host's
/// caches.
struct Coarse;

impl HostWallClock for Coarse {
    fn resolution(&self) -> Duration {
        Duration::from_millis(1)
    }

    fn now(&self) -> Duration {
        Duration::from_millis(wall_clock_ms())
    }
}

impl HostMonotonicClock for Coarse {
    fn resolution(&self) -> u64 {
        1_000_000
    }

    fn now(&self) -> u64 {
        monotonic_ms().saturating_mul(1_000_000)
    }
}

/// Egress of one guest, for `wasi:http` requests and for those of the contract.
#[derive(Default)]
pub(crate) struct Hooks {
    /// `None`: all requests are denied.
    pub(crate) egress: Option<GuestEgress>,
    /// Number of requests denied because the egress was closed.
    pub(crate) refused: usize,
}

impl Hooks {
    /// Egress for one more request, or for several that are sent together.
    pub(crate) fn open(&mut self) -> Option<GuestEgress> {
        self.refused += usize::from(self.egress.is_none());
        self.egress.clone()
    }
}

type Sent = (
    Response<WasiBody>,
    Box<dyn Future<Output = Result<(), Error>> + Send>,
);

impl WasiHttpHooks for Hooks {
    fn default_scheme(&mut self) -> Option<Scheme> {
        // The guest has to give the scheme, because a grant names one.
        None
    }

    fn set_host_header(&mut self) -> bool {
        // The egress writes the header.
        false
    }

    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        limits::REQUEST_PIECE_BYTES
    }

    fn send_request(
        &mut self,
        request: Request<WasiBody>,
        options: Option<RequestOptions>,
        _: Box<dyn Future<Output = Result<(), Error>> + Send>,
    ) -> Box<dyn Future<Output = Result<Sent, Error>> + Send> {
        let egress = self.open();
        Box::new(async move {
            let egress = egress.ok_or(Error::HttpRequestDenied)?;
            let response_timeout = options
                .unwrap_or_default()
                .first_byte_timeout
                .unwrap_or(Duration::MAX);
            let response = tokio::time::timeout(response_timeout, send(&egress, request))
                .await
                .map_err(|_| Error::HttpResponseTimeout)??;
            // The response is already complete, so no I/O future has to be driven.
            let io: Box<dyn Future<Output = Result<(), Error>> + Send> = Box::new(async { Ok(()) });
            Ok((response, io))
        })
    }
}

async fn send(
    egress: &GuestEgress,
    request: Request<WasiBody>,
) -> Result<Response<WasiBody>, Error> {
    // Until a body permit is free, the body stays with the guest.
    let _place = egress.place().await.map_err(error_code)?;
    let (parts, body) = request.into_parts();
    let body = Limited::new(body, limits::REQUEST_BODY_BYTES)
        .collect()
        .await
        .map_err(|_| Error::HttpRequestBodySize(None))?
        .to_bytes();
    let answer = match egress.fetch_url(Request::from_parts(parts, body)).await {
        Err(FetchError::Throttled(milliseconds)) => Ok(too_many_requests(milliseconds)),
        answer => answer,
    };
    let response = answer.and_then(Response::<Bytes>::try_from);
    Ok(response.map_err(error_code)?.map(|body| {
        Full::new(body)
            .map_err(|never| match never {})
            .boxed_unsync()
    }))
}

/// Response for a throttled target: every HTTP library understands 429.
fn too_many_requests(milliseconds: u64) -> FetchResponse {
    let seconds = milliseconds.div_ceil(1_000).to_string();
    FetchResponse {
        status: 429,
        headers: vec![("retry-after".to_owned(), seconds)],
        body: Bytes::new().into(),
    }
}

fn error_code(error: FetchError) -> Error {
    match error {
        FetchError::Denied(_) => Error::HttpRequestDenied,
        FetchError::TimedOut(_) => Error::HttpResponseTimeout,
        FetchError::TooLarge(_) => Error::HttpResponseBodySize(None),
        FetchError::Unavailable(_) => Error::DestinationUnavailable,
        // WASI has no error code with a text for these.
        FetchError::Invalid(_) | FetchError::Throttled(_) => {
            Error::InternalError(Some(error.to_string()))
        }
    }
}
