//! Opens the sockets that listen. Knows nothing of TLS or HTTP.

use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpSocket};

use crate::ServingError;

/// Length of the kernel's queue of connections that wait to be accepted.
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
        // `--permit-address-sharing` changes nothing.
        socket.set_reuseaddr(true)?;
        socket.set_reuseport(share_port)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    listen().map_err(|source| ServingError::Listen { address, source })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[tokio::test]
    async fn two_processes_listen_on_one_port_only_where_both_permit_it() {
        for (first, second, is_shared) in [
            (true, true, true),
            (true, false, false),
            (false, true, false),
            (false, false, false),
        ] {
            let one = listen(([127, 0, 0, 1], 0).into(), first).unwrap();
            let another = listen(one.local_addr().unwrap(), second);
            assert_eq!(another.is_ok(), is_shared, "{first}, {second}");
        }
    }
}
