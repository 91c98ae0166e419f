//! A cloud on loopback with two servers, or one that fails as a test says.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Json, Response};
use axum::routing::get;

/// Ids and names.
const SERVERS: [(u64, &str); 2] = [(42, "worker-1"), (43, "worker-2")];

/// How the cloud answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mood {
    /// As documented.
    Well,
    /// With status 500.
    Broken,
    /// Never.
    Silent,
}

/// A running cloud.
pub(crate) struct Cloud {
    pub(crate) endpoint: String,
    requests: Arc<AtomicUsize>,
}

#[derive(Clone)]
struct Shared {
    mood: Mood,
    requests: Arc<AtomicUsize>,
}

impl Cloud {
    /// Starts a cloud on a free port; it ends with the runtime.
    pub(crate) async fn start(mood: Mood) -> Cloud {
        let requests = Arc::new(AtomicUsize::new(0));
        let shared = Shared {
            mood,
            requests: requests.clone(),
        };
        let router = Router::new()
            .route("/v1/servers", get(servers))
            .route("/v1/servers/{id}", get(server))
            .with_state(shared);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}/v1", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Cloud { endpoint, requests }
    }

    /// How many requests have arrived.
    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }
}

impl Shared {
    async fn answer(&self, status: StatusCode, body: serde_json::Value) -> Response {
        self.requests.fetch_add(1, Ordering::Relaxed);
        match self.mood {
            Mood::Well => (status, Json(body)).into_response(),
            Mood::Broken => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
            Mood::Silent => {
                tokio::time::sleep(Duration::from_secs(3_600)).await;
                StatusCode::OK.into_response()
            }
        }
    }
}

async fn servers(
    State(shared): State<Shared>,
    Query(query): Query<HashMap<String, String>>,
) -> Response {
    let named = |(_, name): &&(u64, &str)| query.get("name").is_none_or(|asked| asked == name);
    let servers: Vec<_> = SERVERS.iter().filter(named).map(worker).collect();
    let body = serde_json::json!({
        "servers": servers,
        "meta": { "pagination": { "page": 1, "per_page": 50, "previous_page": null, "next_page": null, "last_page": 1, "total_entries": servers.len() } }
    });
    shared.answer(StatusCode::OK, body).await
}

async fn server(State(shared): State<Shared>, Path(id): Path<u64>) -> Response {
    match SERVERS.iter().find(|(known, _)| *known == id) {
        Some(server) => {
            let body = serde_json::json!({ "server": worker(server) });
            shared.answer(StatusCode::OK, body).await
        }
        None => {
            let body = serde_json::json!({ "error": { "code": "not_found", "message": "server not found", "details": null } });
            shared.answer(StatusCode::NOT_FOUND, body).await
        }
    }
}

fn worker((id, name): &(u64, &str)) -> serde_json::Value {
    serde_json::json!({
        "id": id,
        "name": name,
        "status": "running",
        "created": "2024-01-01T00:00:00+00:00",
        "server_type": { "id": 1, "name": "cx22" },
        "datacenter": { "id": 4, "name": "fsn1-dc14", "location": { "id": 1, "name": "fsn1", "network_zone": "eu-central" } },
        "location": { "id": 1, "name": "fsn1", "network_zone": "eu-central" },
        "public_net": {
            "ipv4": { "id": 1, "ip": "203.0.113.7", "blocked": false, "dns_ptr": "" },
            "ipv6": { "id": 2, "ip": "2001:db8:1::/64", "blocked": false, "dns_ptr": [] },
            "floating_ips": [], "firewalls": []
        },
        "private_net": [],
        "labels": {}
    })
}
