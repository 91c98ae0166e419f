//! Ports for servers that are told one, and do not choose it themselves.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Mutex, PoisonError};

use tokio::net::TcpSocket;

/// The sockets that keep the ports. They do not listen: whoever connects before the server listens is refused.
static KEPT: Mutex<Vec<TcpSocket>> = Mutex::new(Vec::new());

/// A free port of 127.0.0.1 for a server that a test starts. As long as this process lives, the system gives it to
/// nobody who does not name it. A server that sets `SO_REUSEADDR`, as those in Go and in Python and our own do, can
/// listen there, and again after its end.
///
/// # Errors
/// No port is free.
pub fn keep() -> io::Result<u16> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    let port = socket.local_addr()?.port();
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    kept.push(socket);
    Ok(port)
}
