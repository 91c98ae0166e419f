//! A cloud on loopback that answers every request alike, and counts connections and requests.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, StatusCode};
use axum::serve::ListenerExt as _;

/// The answer to every request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mood {
    /// 200, for every path.
    Well,
    /// 500.
    Broken,
    /// 302 to that address.
    Elsewhere(SocketAddr),
}

/// A running cloud; it ends with the runtime.
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    connections: Arc<AtomicUsize>,
    requests: Arc<AtomicUsize>,
}

impl Target {
    /// Starts a cloud on a free port.
    pub(crate) async fn start(mood: Mood) -> Target {
        let connections = Arc::new(AtomicUsize::new(0));
        let requests = Arc::new(AtomicUsize::new(0));
        let (connected, asked) = (connections.clone(), requests.clone());
        let router = Router::new().fallback(move || {
            asked.fetch_add(1, Ordering::Relaxed);
            async move { answer(mood) }
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let listener = listener.tap_io(move |_| {
            connected.fetch_add(1, Ordering::Relaxed);
        });
        tokio::spawn(async move { axum::serve(listener, router).await });
        Target {
            address,
            connections,
            requests,
        }
    }

    /// Its base URL, by address.
    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// How many connections were accepted.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// How many requests have arrived.
    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }
}

fn answer(mood: Mood) -> (StatusCode, HeaderMap, &'static str) {
    let mut headers = HeaderMap::new();
    let status = match mood {
        Mood::Well => StatusCode::OK,
        Mood::Broken => StatusCode::INTERNAL_SERVER_ERROR,
        Mood::Elsewhere(address) => {
            let location = format!("http://{address}/v1/machines/one");
            headers.insert(LOCATION, location.parse().unwrap());
            StatusCode::FOUND
        }
    };
    (status, headers, "{}")
}
