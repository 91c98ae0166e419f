//! A cloud on loopback with two servers; a test can make it fail.

use ccm_fixtures::http_server::{Arrived, Reply, Server, answer};
use serde_json::{Value, json};

/// IDs and names of the cloud's servers.
const SERVERS: [(u64, &str); 2] = [(42, "worker-1"), (43, "worker-2")];

/// The cloud's way of answering.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CloudMode {
    /// As the vendor documents it.
    Well,
    /// With status 500 to every request.
    Broken,
    /// The cloud accepts requests and never answers.
    Silent,
}

/// A cloud that runs until it is dropped.
pub(crate) struct Cloud {
    pub(crate) endpoint: String,
    server: Server,
}

impl Cloud {
    /// Starts a cloud on a free port.
    pub(crate) async fn start(mode: CloudMode) -> Cloud {
        let server = Server::start(move |request| match mode {
            CloudMode::Well => described(request),
            CloudMode::Broken => answer(500, &[], ""),
            CloudMode::Silent => Reply::Silence,
        })
        .await;
        Cloud {
            endpoint: format!("http://{}/v1", server.address),
            server,
        }
    }

    /// How many requests have arrived.
    pub(crate) fn requests(&self) -> usize {
        self.server.requests()
    }
}

fn described(request: &Arrived) -> Reply {
    let path = request.line.strip_prefix("GET /v1/servers").unwrap();
    if let Some(id) = path.strip_prefix('/') {
        let id = id.parse().ok();
        return match SERVERS.iter().find(|(known, _)| Some(*known) == id) {
            Some(server) => sent(200, &json!({ "server": worker(server) })),
            None => sent(
                404,
                &json!({ "error": { "code": "not_found", "message": "server not found", "details": null } }),
            ),
        };
    }
    let query = path.trim_start_matches('?').split('&');
    let asked = query.filter_map(|pair| pair.strip_prefix("name=")).next();
    let named = |(_, name): &&(u64, &str)| asked.is_none_or(|asked| asked == *name);
    let servers: Vec<_> = SERVERS.iter().filter(named).map(worker).collect();
    let body = json!({
        "servers": servers,
        "meta": { "pagination": { "page": 1, "per_page": 50, "previous_page": null, "next_page": null, "last_page": 1, "total_entries": servers.len() } }
    });
    sent(200, &body)
}

fn sent(status: u16, body: &Value) -> Reply {
    let headers = [("content-type", "application/json")];
    answer(status, &headers, &body.to_string())
}

fn worker((id, name): &(u64, &str)) -> Value {
    json!({
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
