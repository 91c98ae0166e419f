//! A cloud on loopback that answers every request alike, counts connections and writes down requests.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};

use axum::Router;
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::serve::ListenerExt as _;

/// The answer to every request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mood {
    /// 200, for every path.
    Well,
    /// 200 with 15 MiB, for every path.
    Large,
    /// Nothing is there: 404 to `GET`, 200 to everything else.
    Empty,
    /// No answer at all.
    Silent,
    /// 500.
    Broken,
    /// 302 to that address.
    Elsewhere(SocketAddr),
}

/// A little less than the largest answer that is read.
static LARGE: LazyLock<String> = LazyLock::new(|| "x".repeat(15 << 20));

/// A running cloud; it ends with the runtime.
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    connections: Arc<AtomicUsize>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Target {
    /// Starts a cloud on a free port.
    pub(crate) async fn start(mood: Mood) -> Target {
        let connections = Arc::new(AtomicUsize::new(0));
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let (connected, noted) = (connections.clone(), asked.clone());
        let router = Router::new().fallback(move |method: Method, uri: Uri| {
            noted.lock().unwrap().push(format!("{method} {uri}"));
            async move {
                if mood == Mood::Silent {
                    std::future::pending::<()>().await;
                }
                answer(mood, &method)
            }
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
            asked,
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
        self.asked.lock().unwrap().len()
    }

    /// Method and path of each, in the order in which they arrived.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn answer(mood: Mood, method: &Method) -> (StatusCode, HeaderMap, &'static str) {
    let mut headers = HeaderMap::new();
    let status = match mood {
        Mood::Empty if method == Method::GET => StatusCode::NOT_FOUND,
        // Who is silent does not come to this.
        Mood::Well | Mood::Large | Mood::Empty | Mood::Silent => StatusCode::OK,
        Mood::Broken => StatusCode::INTERNAL_SERVER_ERROR,
        Mood::Elsewhere(address) => {
            let location = format!("http://{address}/v1/machines/one");
            headers.insert(LOCATION, location.parse().unwrap());
            StatusCode::FOUND
        }
    };
    let body = match mood {
        Mood::Large => LARGE.as_str(),
        _ => "{}",
    };
    (status, headers, body)
}
