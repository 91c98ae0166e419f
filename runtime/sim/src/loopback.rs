//! Common base of the simulated clouds: a listener on 127.0.0.1 that speaks HTTP or TLS, credentials and budgets of their
//! tenants, responses with a described delivery, faults for chosen requests, and the record of requests.
//!
//! Knows no vendor and never listens anywhere else.

mod access;
mod exchange;
mod faults;
mod handle;
mod journal;
mod rate;
mod serve;
mod tls;
mod trouble;
mod wire;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::SystemTime;

use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use serve::Respond;

pub(crate) use access::bearer;
pub(crate) use exchange::{Api, Cloud, Denial, Tenant};
pub use faults::Fault;
pub use handle::Handle;
pub use journal::Request;
pub use rate::RateLimit;
pub use tls::{Tls, TlsError};
pub(crate) use trouble::Reply;
pub use trouble::Trouble;

/// Source of wall-clock times, which are shown and compared, never waited for.
pub type Clock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// Why a simulator could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// No port on 127.0.0.1 is available.
    #[error("cannot listen on 127.0.0.1")]
    Listen(#[source] io::Error),
    /// The requested TLS could not be set up.
    #[error("cannot set up TLS")]
    Tls(#[from] TlsError),
}

/// A running listener. Dropping it stops it.
struct Loopback {
    address: SocketAddr,
    ca_pem: Option<String>,
    connections: Arc<AtomicU64>,
    server: Mutex<Option<JoinHandle<()>>>,
    stop: Arc<Notify>,
}

impl Loopback {
    /// Listens on a free port, on the current tokio runtime.
    async fn start(cloud: Arc<impl Respond>, tls: Option<Tls>) -> Result<Self, StartError> {
        let acceptor = tls.as_ref().map(tls::acceptor).transpose()?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .map_err(StartError::Listen)?;
        let address = listener.local_addr().map_err(StartError::Listen)?;
        let stop = Arc::new(Notify::new());
        let connections = Arc::new(AtomicU64::new(0));
        let listener = serve::Listener {
            listener,
            tls: acceptor,
            connections: Arc::clone(&connections),
        };
        let server = tokio::spawn(serve::listen(cloud, listener, Arc::clone(&stop)));
        Ok(Self {
            address,
            ca_pem: tls.map(|tls| tls.ca_pem),
            connections,
            server: Mutex::new(Some(server)),
            stop,
        })
    }

    /// Stops listening, drops all connections and waits until that is done.
    async fn stop(&self) {
        let server = self.server.lock().take();
        if let Some(server) = server {
            self.stop.notify_one();
            // Fails only if the server panicked, which was reported already.
            let _ = server.await;
        }
    }
}

impl Drop for Loopback {
    fn drop(&mut self) {
        if let Some(server) = self.server.get_mut().take() {
            server.abort();
        }
    }
}
