//! Opens the sockets that listen. Knows nothing of TLS or HTTP.

use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpSocket};

use crate::ServingError;

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
