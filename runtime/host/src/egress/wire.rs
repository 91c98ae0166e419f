//! The last check before the wire: connections that take bytes only while every tenure under which requests are sent
//! allows it.
//!
//! It sits below TLS, HTTP, the pool and every buffer of ours, in the call that hands bytes to the operating system.
//! The permit is asked before a request sets out; this is for the request that set out in time and was kept waiting,
//! by a name, a handshake or a process that stood still, until the lease was lost. It is broken off with its
//! connection. Which request the bytes belong to is not known here, and need not be: a process that has lost one of
//! its leases is about to end.
//!
//! One gap is left, some instructions wide: between the check and the system call a process can be stopped, too.

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

/// The tenures under which requests were sent, as long as anybody has them. Usually one; two during a leader
/// migration.
#[derive(Default)]
pub(super) struct LeaseGate {
    tenures: Mutex<Vec<Weak<Tenure>>>,
}

impl LeaseGate {
    /// A request sets out under this tenure.
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

    /// Nothing that is done under this lock can panic half-way; a poisoned one is as good as any.
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

/// Dials, and puts the check on what it has dialled.
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
            // What the operating system has taken and not delivered goes with the connection. Not being able to
            // ask for that is no reason not to connect.
            let _ = stream.inner().set_zero_linger();
            Ok(Gated { stream, gate })
        })
    }
}

/// A connection with the check.
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

    /// There is no buffer below: what was written is with the operating system.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    /// The end of a connection is no request.
    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

impl Connection for Gated {
    fn connected(&self) -> Connected {
        self.stream.connected()
    }
}
