//! A stateful Hetzner Cloud API on loopback, for the demo and the tests.
//!
//! It answers with the vendor's objects, envelopes, paging, actions and rate-limit headers (API
//! reference: <https://docs.hetzner.cloud>), over HTTP or over TLS with a private authority. Faults
//! are injected on purpose, and every request is recorded. The same requests in the same order give
//! the same state: ids come from counters, addresses from the order of creation, and only shown
//! times come from a clock, which the caller may give.
//!
//! It never listens anywhere but on 127.0.0.1, and it never asks another server for anything.
//!
//! ```no_run
//! # async fn example() -> Result<(), ccm_sim::hetzner::StartError> {
//! use ccm_sim::hetzner::{Fault, Hetzner, Options, ServerSpec, Trouble};
//!
//! let cloud = Hetzner::start(Options::new("token")).await?;
//! let id = cloud.add_server(ServerSpec::named("node-1"));
//! cloud.inject(Fault::new(Trouble::ResetAfter).path("/servers").times(1));
//! // A client of `cloud.endpoint()` now loses its first answer about servers.
//! assert!(cloud.requests().is_empty());
//! # let _ = id;
//! # Ok(())
//! # }
//! ```

mod actions;
mod answer;
mod api;
mod attachments;
mod control;
mod exchange;
mod faults;
mod journal;
mod locations;
mod network_rules;
mod networks;
mod objects;
mod query;
mod rate;
mod serve;
mod server_types;
mod servers;
mod tls;
mod wire;
mod world;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use exchange::{Shared, State};
use journal::Journal;
use rate::Bucket;
use world::World;

pub use control::ControlError;
pub use faults::{Fault, Trouble};
pub use journal::Request;
pub use locations::Location;
pub use objects::{ServerSpec, ServerStatus};
pub use rate::RateLimit;
pub use server_types::ServerType;
pub use tls::TlsError;
pub use world::Clock;

/// How a simulator is set up. Start from [`Options::new`] and change what matters.
///
/// There is no `Debug`: the token is one a client must keep secret, even if it opens nothing real.
#[derive(Clone)]
pub struct Options {
    /// What clients must send after `Bearer `.
    pub token: String,
    /// TLS with a private authority (see [`Hetzner::ca_pem`]) in place of plain HTTP.
    pub tls: bool,
    /// The request budget. `None` means unlimited, and no `RateLimit-*` headers.
    pub rate_limit: Option<RateLimit>,
    /// How long every request waits before it is carried out.
    pub latency: Duration,
    /// How long actions run. With zero they end before the next request is answered; with
    /// `Duration::MAX` they never end.
    pub action_duration: Duration,
    /// The first id of each kind of object; the next ones follow without gaps.
    pub first_id: u64,
    /// Where the times come from that objects show.
    pub clock: Clock,
}

impl Options {
    /// Plain HTTP, the vendor's budget, no latency, actions that end at once, the system's clock.
    #[must_use]
    pub fn new(token: impl Into<String>) -> Self {
        Self {
            token: token.into(),
            tls: false,
            rate_limit: Some(RateLimit::VENDOR),
            latency: Duration::ZERO,
            action_duration: Duration::ZERO,
            first_id: 1,
            clock: Arc::new(SystemTime::now),
        }
    }
}

/// Why a simulator could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// No port on 127.0.0.1 could be had.
    #[error("cannot listen on 127.0.0.1")]
    Listen(#[source] io::Error),
    /// TLS was wanted and could not be set up.
    #[error("cannot set up TLS")]
    Tls(#[from] TlsError),
}

/// A handle on a running simulator. Clones are handles on the same one; the last one to be dropped
/// stops it.
#[derive(Clone)]
pub struct Hetzner(Arc<Running>);

struct Running {
    shared: Arc<Shared>,
    address: SocketAddr,
    ca_pem: Option<String>,
    server: Mutex<Option<JoinHandle<()>>>,
    stop: Arc<Notify>,
}

impl Hetzner {
    /// Starts a simulator on a free port of 127.0.0.1, on the current tokio runtime.
    ///
    /// # Errors
    ///
    /// When no port can be had, or no certificate made.
    pub async fn start(options: Options) -> Result<Self, StartError> {
        let Options {
            token,
            tls,
            rate_limit,
            latency,
            action_duration,
            first_id,
            clock,
        } = options;
        let (acceptor, ca_pem) = if tls {
            let (acceptor, pem) = tls::acceptor()?;
            (Some(acceptor), Some(pem))
        } else {
            (None, None)
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .map_err(StartError::Listen)?;
        let address = listener.local_addr().map_err(StartError::Listen)?;
        let state = State {
            token,
            world: World::new(first_id, action_duration, Arc::clone(&clock)),
            journal: Journal::default(),
            faults: Vec::new(),
            bucket: rate_limit.map(|rule| Bucket::new(rule, Instant::now())),
        };
        let shared = Arc::new(Shared::new(state, latency, clock));
        let stop = Arc::new(Notify::new());
        let server = serve::listen(Arc::clone(&shared), listener, acceptor, Arc::clone(&stop));
        Ok(Self(Arc::new(Running {
            shared,
            address,
            ca_pem,
            server: Mutex::new(Some(tokio::spawn(server))),
            stop,
        })))
    }

    /// The base URL for clients: `http://127.0.0.1:PORT/v1`, with TLS `https://localhost:PORT/v1`.
    #[must_use]
    pub fn endpoint(&self) -> String {
        let port = self.0.address.port();
        match self.0.ca_pem {
            None => format!("http://127.0.0.1:{port}/v1"),
            Some(_) => format!("https://localhost:{port}/v1"),
        }
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.0.address
    }

    /// The authority that clients must trust, as PEM; `None` without TLS. The certificate holds for
    /// `localhost` and `127.0.0.1`.
    #[must_use]
    pub fn ca_pem(&self) -> Option<&str> {
        self.0.ca_pem.as_deref()
    }

    /// Stops listening, drops all connections and waits until that is done. The handle stays usable
    /// for reading the records.
    pub async fn stop(&self) {
        let running = &self.0;
        let server = running
            .server
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(server) = server {
            running.stop.notify_one();
            // It can only fail by a panic of the server, which has been reported on its own.
            let _ = server.await;
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let server = self
            .server
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = server.take() {
            server.abort();
        }
    }
}
