//! A cloud on loopback that gives every request the same kind of answer, counts connections and records requests.

use std::net::SocketAddr;
use std::sync::LazyLock;
use std::time::Duration;

use ccm_fixtures::http_server::{Arrived, Reply, Server, answer, ok};

/// The cloud's way of answering.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TargetMode {
    /// 200 to every path.
    Well,
    /// 200 with 15 MiB to every path.
    Large,
    /// An empty cloud: 404 to `GET`, 200 to everything else.
    Empty,
    /// 200 to every path, after a second.
    Late,
    /// No answer at all.
    Silent,
    /// 500 to every request.
    Broken,
    /// 302 to that address.
    Elsewhere(SocketAddr),
}

/// An answer a little smaller than the largest that the host reads.
static LARGE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let length = 15 << 20;
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
    let body = std::iter::repeat_n(b'x', length);
    head.into_bytes().into_iter().chain(body).collect()
});

/// A cloud that runs until it is dropped.
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    server: Server,
}

impl Target {
    /// Starts a cloud on a free port.
    pub(crate) async fn start(target_mode: TargetMode) -> Target {
        let server = Server::start(move |request| reply(target_mode, request)).await;
        Target {
            address: server.address,
            server,
        }
    }

    /// Its base URL, by address.
    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// How many connections were accepted.
    pub(crate) fn connections(&self) -> usize {
        self.server.connections()
    }

    /// How many requests have arrived.
    pub(crate) fn requests(&self) -> usize {
        self.server.requests()
    }

    /// Method and path of each request, in the order of arrival.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.server.lines()
    }
}

fn reply(target_mode: TargetMode, request: &Arrived) -> Reply {
    match target_mode {
        TargetMode::Empty if request.line.starts_with("GET ") => answer(404, &[], "{}"),
        TargetMode::Well | TargetMode::Empty => ok("{}"),
        TargetMode::Late => Reply::After(Duration::from_secs(1), Box::new(ok("{}"))),
        TargetMode::Large => Reply::Static(&LARGE),
        TargetMode::Silent => Reply::Silence,
        TargetMode::Broken => answer(500, &[], "{}"),
        TargetMode::Elsewhere(address) => {
            let location = format!("http://{address}/v1/machines/one");
            answer(302, &[("location", location.as_str())], "{}")
        }
    }
}
