//! Sockets that listen, and the connections that are open: how many there may be, and which one goes when there are too
//! many. Knows nothing of TLS or HTTP.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::net::{TcpListener, TcpSocket};
use tokio::task::AbortHandle;

use crate::ServingError;

/// Connections that may be open. Probes and scrapers need a handful; a slow one costs some 25 KiB, with TLS up to 45.
pub(crate) const MOST: usize = 512;
/// Length of the kernel's queue.
const BACKLOG: u32 = 1024;

/// Listens on an address. Requires a tokio runtime.
///
/// # Errors
/// [`ServingError::Listen`].
pub(crate) fn listen(address: SocketAddr, share_port: bool) -> Result<TcpListener, ServingError> {
    let listen = || {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        // As Go on every listener: otherwise a restarted process waits for old connections to time out. So
        // `--permit-address-sharing` has nothing to add.
        socket.set_reuseaddr(true)?;
        socket.set_reuseport(share_port)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    listen().map_err(|source| ServingError::Listen { address, source })
}

/// The open connections. When there are too many, the one goes that has waited longest without a complete request: a
/// client that is slow on purpose loses its place to one that asks.
#[derive(Clone, Default)]
pub(crate) struct Slots(Arc<Mutex<Open>>);

#[derive(Default)]
struct Open {
    count: usize,
    next: u64,
    /// Connections without a complete request so far, oldest first.
    silent: VecDeque<(u64, AbortHandle)>,
}

/// The place of one connection; dropped with it.
pub(crate) struct Slot {
    slots: Slots,
    number: u64,
}

impl Slots {
    /// A place for a new connection, if need be another one's. `None`: all connections have asked something and are
    /// busy.
    pub(crate) fn take(&self) -> Option<Slot> {
        let mut open = self.lock();
        if open.count >= MOST {
            // Its slot is freed when its task is dropped, a moment later.
            open.silent.pop_front()?.1.abort();
        }
        open.count += 1;
        open.next += 1;
        Some(Slot {
            slots: self.clone(),
            number: open.next,
        })
    }

    /// From now on this connection may lose its place.
    pub(crate) fn silent(&self, number: u64, task: AbortHandle) {
        self.lock().silent.push_back((number, task));
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The connection has sent a complete request, and keeps its place.
    pub(crate) fn asks(&self) {
        self.slots
            .lock()
            .silent
            .retain(|(number, _)| *number != self.number);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut open = self.slots.lock();
        open.count -= 1;
        open.silent.retain(|(number, _)| *number != self.number);
    }
}
