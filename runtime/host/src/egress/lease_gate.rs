//! Lease gate: the last check before the wire. Connections accept bytes only while every tenure under which requests
//! are sent allows it.
//!
//! It sits below TLS, HTTP, the connection pool and every other buffer, in the call that hands bytes to the
//! operating system. The permit is asked before a request starts; the gate stops a request that started in time and
//! was delayed, by name resolution, a handshake or a suspended process, until the lease was lost. It breaks the
//! connection. It does not know which request the bytes belong to, and need not: a process that has lost one of its
//! leases is about to end.
//!
//! One gap of a few instructions remains: the process can be suspended between the check and the system call.

use std::fmt;
use std::io;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use ccm_core::safety::tenure::Tenure;
use ccm_proxy::{Gated, WriteGate};
use futures::future::BoxFuture;
use http::Uri;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tower::{BoxError, Service};

use super::permit::now;
use super::resolve::Resolver;

/// Tenures under which requests were sent, as weak references. Usually one; two during a leader migration.
#[derive(Default)]
pub(super) struct LeaseGate {
    tenures: Mutex<Vec<Weak<Tenure>>>,
}

impl LeaseGate {
    /// Registers the tenure of a request that starts.
    pub(super) fn enter(&self, tenure: &Arc<Tenure>) {
        let mut tenures = self.tenures.lock();
        tenures.retain(|known| known.strong_count() > 0);
        if !tenures
            .iter()
            .any(|known| known.as_ptr() == Arc::as_ptr(tenure))
        {
            tenures.push(Arc::downgrade(tenure));
        }
    }
}

impl WriteGate for LeaseGate {
    fn check(&self) -> io::Result<()> {
        let now = now();
        let is_open = |tenure: &Weak<Tenure>| {
            let tenure = tenure.upgrade();
            tenure.is_none_or(|tenure| tenure.may_write(now))
        };
        if self.tenures.lock().iter().all(is_open) {
            Ok(())
        } else {
            Err(io::Error::new(io::ErrorKind::PermissionDenied, NotLeader))
        }
    }
}

/// Bytes were to be written outside of a tenure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NotLeader;

impl fmt::Display for NotLeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("broken off: this process does not hold the lease (any more)")
    }
}

impl std::error::Error for NotLeader {}

/// A connection behind the gate.
type GatedStream = Gated<TokioIo<TcpStream>, Arc<LeaseGate>>;

/// Dials and wraps each connection in the gate.
#[derive(Clone)]
pub(super) struct Dial {
    pub(super) http: HttpConnector<Resolver>,
    pub(super) gate: Arc<LeaseGate>,
}

impl Service<Uri> for Dial {
    type Response = GatedStream;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<GatedStream, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.http.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let dialled = self.http.call(uri);
        let gate = self.gate.clone();
        Box::pin(async move {
            let stream = dialled.await?;
            // Zero linger discards bytes that the operating system has buffered when the connection is dropped.
            // Failing to set it is no reason not to connect.
            let _ = stream.inner().set_zero_linger();
            Ok(Gated::new(stream, gate))
        })
    }
}
