//! A connection that asks a gate before each write. It belongs below TLS, the pool and every other buffer: written
//! bytes are with the operating system. Knows no requests, and does not decide who may write.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};

/// Decides whether bytes may be written now.
pub trait WriteGate {
    /// # Errors
    /// Bytes may not be written; this error becomes the error of the write, and ends the connection.
    fn check(&self) -> io::Result<()>;
}

impl<G: WriteGate + ?Sized> WriteGate for Arc<G> {
    fn check(&self) -> io::Result<()> {
        (**self).check()
    }
}

/// A connection behind a gate.
pub struct Gated<S, G> {
    stream: S,
    gate: G,
}

impl<S, G> Gated<S, G> {
    /// All writes to `stream` pass `gate` from now on.
    pub fn new(stream: S, gate: G) -> Gated<S, G> {
        Gated { stream, gate }
    }
}

impl<S: Read + Unpin, G: Unpin> Read for Gated<S, G> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: Write + Unpin, G: WriteGate + Unpin> Write for Gated<S, G> {
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

impl<S: Connection, G> Connection for Gated<S, G> {
    fn connected(&self) -> Connected {
        self.stream.connected()
    }
}
