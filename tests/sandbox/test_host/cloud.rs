//! A cloud with one answer for each path: a server on loopback for the real host, a script for the `TestHost`.

use ccm_fixtures::http_server::{Arrived, Reply, Server};
use ccm_guest::testing::{Answer, Seen};

/// Paths with an answer of their own; every other one is answered with 200 and `{}`.
pub(super) const PARTIAL: &str = "/things/partial";
pub(super) const NOT_THERE: &str = "/things/not-there";
pub(super) const DECLARED: &str = "/things/declared";
pub(super) const BAD_REQUEST: &str = "/things/bad-request";
pub(super) const NO_STATUS: &str = "/things/no-status";
pub(super) const COMPRESSED: &str = "/things/compressed";
pub(super) const IDENTITY: &str = "/things/identity";
pub(super) const MANY_HEADERS: &str = "/things/many-headers";
pub(super) const TOO_MANY_HEADERS: &str = "/things/too-many-headers";
pub(super) const LARGEST: &str = "/things/largest";
pub(super) const TOO_LARGE: &str = "/things/too-large";

/// The largest body that the host reads.
const MOST: usize = 16 << 20;

struct Response {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

fn response(path: &str) -> Response {
    let mut response = Response {
        status: 200,
        headers: Vec::new(),
        body: b"{}".to_vec(),
    };
    let mut header = |name: &str, value: &str| {
        response.headers.push((name.to_owned(), value.to_owned()));
    };
    match path {
        PARTIAL => response.status = 206,
        NOT_THERE => response.status = 404,
        // The manifest declares that this says that the thing is not there.
        DECLARED => {
            response.status = 400;
            response.body = br#"{"code": "NoSuchThing"}"#.to_vec();
        }
        BAD_REQUEST => response.status = 400,
        NO_STATUS => response.status = 600,
        COMPRESSED => header("Content-Encoding", "gzip"),
        IDENTITY => header("Content-Encoding", "Identity"),
        MANY_HEADERS => (0..5).for_each(|_| header("x-long", &"v".repeat(16 << 10))),
        TOO_MANY_HEADERS => (0..101).for_each(|number| header(&format!("x-{number}"), "v")),
        LARGEST => response.body = vec![b'x'; MOST],
        TOO_LARGE => response.body = vec![b'x'; MOST + 1],
        _ => {}
    }
    response
}

/// The cloud as a script of the `TestHost`.
pub(super) fn answer(seen: &Seen) -> Answer {
    let Response {
        status,
        mut headers,
        body,
    } = response(seen.path_only());
    // A server says the length, and the host counts the bytes of every header.
    headers.push(("content-length".to_owned(), body.len().to_string()));
    Ok((status, headers, body))
}

/// The cloud as a server that runs until it is dropped.
pub(super) struct Cloud(Server);

impl Cloud {
    pub(super) async fn start() -> Cloud {
        Cloud(Server::start(reply).await)
    }

    /// Its base URL, by address.
    pub(super) fn endpoint(&self) -> String {
        format!("http://{}/v1", self.0.address)
    }

    /// How many requests have arrived.
    pub(super) fn requests(&self) -> usize {
        self.0.requests()
    }
}

fn reply(arrived: &Arrived) -> Reply {
    let target = arrived.line.split(' ').nth(1).unwrap();
    let path = target.strip_prefix("/v1").unwrap();
    let response = response(path.split('?').next().unwrap());
    let headers = response.headers.iter();
    let headers: String = headers
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    let head = format!(
        "HTTP/1.1 {} X\r\n{headers}content-length: {}\r\n\r\n",
        response.status,
        response.body.len()
    );
    Reply::Bytes([head.into_bytes(), response.body].concat())
}
