//! Opens the sockets that listen. Knows nothing of TLS or HTTP.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use rustix::net::sockopt::set_ipv6_v6only;
use tokio::net::{TcpListener, TcpSocket};

use crate::ServingError;

/// Length of the kernel's queue of connections that wait to be accepted.
const BACKLOG: u32 = 1024;

/// Listens on an address; on `0.0.0.0`, as in Go, on the IPv6 addresses of this machine, too. Requires a tokio runtime.
///
/// # Errors
/// [`ServingError::Listen`].
pub(crate) fn listen(address: SocketAddr, share_port: bool) -> Result<TcpListener, ServingError> {
    let listener = match address.ip() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => {
            let both = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), address.port());
            open(both, share_port).or_else(|error| match error.kind() {
                io::ErrorKind::AddrInUse => Err(error),
                // The machine has no IPv6.
                _ => open(address, share_port),
            })
        }
        _ => open(address, share_port),
    };
    listener.map_err(|source| ServingError::Listen { address, source })
}

fn open(address: SocketAddr, share_port: bool) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => {
            let socket = TcpSocket::new_v6()?;
            // The kernel has another default where `net.ipv6.bindv6only` is set.
            set_ipv6_v6only(&socket, false)?;
            socket
        }
    };
    // As Go on every listener: otherwise a restarted process waits for old connections to time out. So
    // `--permit-address-sharing` changes nothing.
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(share_port)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use tokio::net::TcpStream;

    use super::*;

    /// A kubelet of a cluster with IPv6 alone probes the pod's IPv6 address, whatever the default of `--bind-address`.
    #[tokio::test]
    async fn proc_070_an_unspecified_address_is_all_addresses_of_both_families_as_in_go() {
        let (four, six) = (
            IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(Ipv6Addr::LOCALHOST),
        );
        let has_ipv6 = TcpListener::bind((six, 0)).await.is_ok();
        for (address, reached) in [
            ("0.0.0.0", [(four, true), (six, has_ipv6)]),
            ("127.0.0.1", [(four, true), (six, false)]),
        ] {
            let listener = listen(SocketAddr::new(address.parse().unwrap(), 0), false).unwrap();
            let port = listener.local_addr().unwrap().port();
            for (to, is_reached) in reached {
                let connected = TcpStream::connect((to, port)).await;
                assert_eq!(connected.is_ok(), is_reached, "{address} at {to}");
            }
        }
    }

    #[tokio::test]
    async fn a_port_that_another_process_has_in_one_family_is_taken() {
        let one = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).await.unwrap();
        let another = listen(one.local_addr().unwrap(), false);
        let text = another.unwrap_err().to_string();
        assert!(text.starts_with("failed to listen on 0.0.0.0:"), "{text}");
    }

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
