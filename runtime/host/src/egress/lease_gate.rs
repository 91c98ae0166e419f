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
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};

use ccm_core::tenure::Tenure;
use futures::future::BoxFuture;
use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
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
        let mut tenures = self.tenures();
        tenures.retain(|known| known.strong_count() > 0);
        if !tenures
            .iter()
            .any(|known| known.as_ptr() == Arc::as_ptr(tenure))
        {
            tenures.push(Arc::downgrade(tenure));
        }
    }

    fn check(&self) -> io::Result<()> {
        let now = now();
        let is_open = |tenure: &Weak<Tenure>| {
            let tenure = tenure.upgrade();
            tenure.is_none_or(|tenure| tenure.may_write(now))
        };
        if self.tenures().iter().all(is_open) {
            Ok(())
        } else {
            Err(io::Error::new(io::ErrorKind::PermissionDenied, NotLeader))
        }
    }

    /// No code under this lock can panic halfway, so a poisoned lock is usable.
    fn tenures(&self) -> MutexGuard<'_, Vec<Weak<Tenure>>> {
        self.tenures.lock().unwrap_or_else(PoisonError::into_inner)
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

/// Dials and wraps each connection in the gate.
#[derive(Clone)]
pub(super) struct Dial {
    pub(super) http: HttpConnector<Resolver>,
    pub(super) gate: Arc<LeaseGate>,
}

impl Service<Uri> for Dial {
    type Response = Gated;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Gated, BoxError>>;

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
            Ok(Gated { stream, gate })
        })
    }
}

/// Connection behind the gate.
pub(super) struct Gated {
    stream: TokioIo<TcpStream>,
    gate: Arc<LeaseGate>,
}

impl Read for Gated {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl Write for Gated {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.gate.check()?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.gate.check()?;
        Pin::new(&mut self.stream).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Nothing is buffered below: written bytes are already with the operating system.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    /// Not gated: closing a connection sends no request.
    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

impl Connection for Gated {
    fn connected(&self) -> Connected {
        self.stream.connected()
    }
}
