//! A stream whose peer has to read. Written bytes that the peer does not take within a time limit end the connection:
//! otherwise a client that sends requests and does not read keeps its answers in memory.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// The stream with its limit. The time counts from the first write that is not taken whole to one that is, so a peer
/// that takes a byte now and then gains nothing.
pub(crate) struct WriteLimit<S> {
    stream: S,
    limit: Duration,
    /// Ends when the bytes that were not taken are too old. `None`: all were taken.
    rest: Option<Pin<Box<Sleep>>>,
}

impl<S: Unpin> WriteLimit<S> {
    pub(crate) fn new(stream: S, limit: Duration) -> WriteLimit<S> {
        WriteLimit {
            stream,
            limit,
            rest: None,
        }
    }

    /// Starts, ends or checks the limit after a write of `length` bytes.
    fn judge(
        &mut self,
        context: &mut Context<'_>,
        length: usize,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match &written {
            Poll::Ready(Ok(taken)) if *taken < length => {}
            Poll::Ready(_) => {
                self.rest = None;
                return written;
            }
            Poll::Pending => {}
        }
        let limit = self.limit;
        let rest = self.rest.get_or_insert_with(|| Box::pin(sleep(limit)));
        if written.is_pending() {
            ready!(rest.as_mut().poll(context));
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        written
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteLimit<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteLimit<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, buffer);
        self.judge(context, buffer.len(), written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let length = buffers.iter().map(|buffer| buffer.len()).sum();
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, buffers);
        self.judge(context, length, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::time::Instant;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn what_is_not_taken_in_time_ends_the_connection() {
        for takes_a_byte in [false, true] {
            let (stream, mut peer) = tokio::io::duplex(64);
            let mut stream = WriteLimit::new(stream, 10 * SECOND);
            let begun = Instant::now();
            let slow = async {
                loop {
                    sleep(SECOND).await;
                    if takes_a_byte {
                        peer.read_u8().await.unwrap();
                    }
                }
            };
            let error = tokio::select! {
                result = stream.write_all(&[0; 1000]) => result.unwrap_err(),
                () = slow => unreachable!(),
            };
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            assert!(begun.elapsed() <= 11 * SECOND, "{:?}", begun.elapsed());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_taken_in_time_leaves_the_next_write_all_its_time() {
        let (stream, mut peer) = tokio::io::duplex(64);
        let mut stream = WriteLimit::new(stream, 10 * SECOND);
        for _ in 0..3 {
            let takes = async {
                sleep(9 * SECOND).await;
                peer.read_exact(&mut [0; 100]).await.unwrap();
            };
            let (written, ()) = tokio::join!(stream.write_all(&[0; 100]), takes);
            written.unwrap();
        }
    }
}
