//! Servers that never complete an answer and never stop: a request ends within its time, and its connection with it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ccm_fixtures::http_server::{Reply, Server};
use ccm_host::egress::{Egress, EgressLimits};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::tls::{acceptor, authority, limited};
use crate::world::{error, eventually, get, scope};

/// Short time limits.
fn impatient() -> EgressLimits {
    EgressLimits {
        first_byte: Duration::from_secs(1),
        total: Duration::from_secs(2),
        ..EgressLimits::standard()
    }
}

#[tokio::test]
async fn e19_answers_that_are_none_are_not_waited_for_without_end() {
    for (what, piece) in [
        ("continue", "HTTP/1.1 100 Continue\r\n\r\n"),
        ("hints", "HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n"),
        ("nothing", "\r\n"),
    ] {
        let endless = Reply::Endless(piece.as_bytes().repeat(64));
        let server = Server::start(move |_| endless.clone()).await;
        let url = format!("http://{}", server.address);
        let egress = crate::world::limited(&url, impatient());
        let failed = error(scope(&egress).fetch(get("/servers")).await);
        assert!(
            ["timed-out", "unavailable"].contains(&failed.reason()),
            "{what}: {failed}"
        );
        eventually("the connection is closed", || server.closed() == 1).await;
        assert_eq!(server.connections(), 1, "{what}");
    }
}

/// Types of frames (RFC 9113, 6).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
/// Flags of frames.
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// `:status: 200` (RFC 7541, A), and a field of 60 bytes that is in no table.
const OK: &[u8] = &[0x88];
const FIELD: &[u8] = b"\x00\x02xy\x38yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy";

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// A server's answer to a request.
#[derive(Clone)]
struct Answer {
    /// Bytes that are sent once.
    first: Vec<u8>,
    /// Bytes that are sent again and again; empty: nothing more is sent, and the connection stays open.
    then: Vec<u8>,
    /// Whether the connection ends after `first`.
    ends: bool,
}

/// A hand-written HTTP/2 server.
struct Http2 {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    closed: Arc<AtomicUsize>,
    requests: Arc<AtomicUsize>,
}

impl Http2 {
    /// Starts a server that answers the request of a stream by `script`.
    async fn start(
        tls: TlsAcceptor,
        script: impl Fn(u32) -> Answer + Send + Sync + 'static,
    ) -> Http2 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Http2 {
            address: listener.local_addr().unwrap(),
            connections: Arc::default(),
            closed: Arc::default(),
            requests: Arc::default(),
        };
        let (connections, closed, requests) = (
            server.connections.clone(),
            server.closed.clone(),
            server.requests.clone(),
        );
        let script = Arc::new(script);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                connections.fetch_add(1, Ordering::SeqCst);
                let (tls, script) = (tls.clone(), script.clone());
                let (closed, requests) = (closed.clone(), requests.clone());
                tokio::spawn(async move {
                    let stream = tls.accept(stream).await.unwrap();
                    let _ = serve(stream, &*script, &requests).await;
                    closed.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
        server
    }
}

/// Serves until one side closes the connection.
async fn serve(
    mut stream: TlsStream<TcpStream>,
    script: &(impl Fn(u32) -> Answer + Send + Sync),
    requests: &AtomicUsize,
) -> std::io::Result<()> {
    // The connection preface of every client.
    stream.read_exact(&mut [0; 24]).await?;
    stream.write_all(&frame(SETTINGS, 0, 0, &[])).await?;
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let mut payload = vec![0; length as usize];
        stream.read_exact(&mut payload).await?;
        if head[3] != HEADERS {
            continue;
        }
        requests.fetch_add(1, Ordering::SeqCst);
        let Answer { first, then, ends } = script(id);
        stream.write_all(&first).await?;
        if ends {
            return stream.shutdown().await;
        }
        if !then.is_empty() {
            let (mut read, mut write) = tokio::io::split(stream);
            let mut received = [0; 4096];
            // Reads what the client sends meanwhile, so that only its time limit can end the request.
            let hears =
                async { while read.read(&mut received).await.is_ok_and(|count| count > 0) {} };
            let says = async { while write.write_all(&then).await.is_ok() {} };
            tokio::select! {
                () = hears => {}
                () = says => {}
            }
            return Ok(());
        }
    }
}

/// A server, and an egress with these limits to it.
async fn http2(
    limits: EgressLimits,
    script: impl Fn(u32) -> Answer + Send + Sync + 'static,
) -> (Http2, Arc<Egress>) {
    let authority = authority();
    let tls = acceptor(&authority, &["cloud.test"], false, &["h2"]);
    let server = Http2::start(tls, script).await;
    let url = format!("https://cloud.test:{}", server.address.port());
    (server, limited(&url, &authority.pem(), limits))
}

#[tokio::test]
async fn e19_frames_without_end_end_the_request_and_the_connection() {
    /// Frames of a stream.
    type Frames = fn(u32) -> Vec<u8>;
    let rows: [(&str, Frames, Frames); 8] = [
        (
            "header fields that go on in further frames",
            |id| frame(HEADERS, 0, id, OK),
            |id| frame(CONTINUATION, 0, id, FIELD),
        ),
        (
            "empty frames of header fields",
            |id| frame(HEADERS, 0, id, OK),
            |id| frame(CONTINUATION, 0, id, &[]),
        ),
        (
            "interim answers",
            |_| Vec::new(),
            // `:status: 103`, as a new name and value.
            |id| frame(HEADERS, END_HEADERS, id, b"\x48\x03103"),
        ),
        ("settings", |_| Vec::new(), |_| frame(SETTINGS, 0, 0, &[])),
        ("pings", |_| Vec::new(), |_| frame(PING, 0, 0, &[7; 8])),
        (
            "larger windows",
            |_| Vec::new(),
            |_| frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]),
        ),
        (
            "empty pieces of a body",
            |id| frame(HEADERS, END_HEADERS, id, OK),
            |id| frame(DATA, 0, id, &[]),
        ),
        (
            "frames of no kind",
            |_| Vec::new(),
            |_| frame(77, 0, 0, &[0; 64]),
        ),
    ];
    for (what, first, then) in rows {
        let (server, egress) = http2(impatient(), move |id| Answer {
            first: first(id),
            then: then(id).repeat(64),
            ends: false,
        })
        .await;
        let failed = error(scope(&egress).fetch(get("/servers")).await);
        assert!(
            ["timed-out", "unavailable", "too-large"].contains(&failed.reason()),
            "{what}: {failed}"
        );
        drop(egress);
        eventually(what, || server.closed.load(Ordering::SeqCst) == 1).await;
        assert_eq!(server.connections.load(Ordering::SeqCst), 1, "{what}");
        assert_eq!(server.requests.load(Ordering::SeqCst), 1, "{what}");
    }
}

#[tokio::test]
async fn e19_header_fields_beyond_the_cap_are_no_answer() {
    // Ten thousand header fields, in frames of no more than 16 KiB.
    let (server, egress) = http2(impatient(), |id| {
        let fields = FIELD.repeat(10_000);
        let mut frames = frame(HEADERS, 0, id, OK);
        for fields in fields.chunks(16 << 10) {
            frames.extend(frame(CONTINUATION, 0, id, fields));
        }
        frames.extend(frame(CONTINUATION, END_HEADERS, id, &[]));
        Answer {
            first: frames,
            then: Vec::new(),
            ends: false,
        }
    })
    .await;
    let failed = error(scope(&egress).fetch(get("/servers")).await);
    assert!(
        ["unavailable", "too-large"].contains(&failed.reason()),
        "{failed}"
    );
    assert_eq!(server.requests.load(Ordering::SeqCst), 1);
}

/// A client that repeats requests by itself would never stop here.
#[tokio::test]
async fn e19_a_connection_that_is_taken_away_with_each_request_is_dialled_once_for_each() {
    const REFUSED_STREAM: [u8; 4] = [0, 0, 0, 7];
    /// No stream was processed, and there was no error.
    const GOODBYE: [u8; 8] = [0; 8];
    for (what, leave) in [
        (
            "with a farewell",
            (|_| frame(GOAWAY, 0, 0, &GOODBYE)) as fn(u32) -> Vec<u8>,
        ),
        ("without a word", |_| Vec::new()),
        ("by refusing it", |id| {
            let refused = frame(RST_STREAM, 0, id, &REFUSED_STREAM);
            [refused, frame(GOAWAY, 0, 0, &GOODBYE)].concat()
        }),
    ] {
        let (server, egress) = http2(impatient(), move |id| Answer {
            first: leave(id),
            then: Vec::new(),
            ends: true,
        })
        .await;
        for number in 1..=5 {
            let failed = error(scope(&egress).fetch(get("/servers")).await);
            assert_eq!(failed.reason(), "unavailable", "{what}: {failed}");
            assert_eq!(server.connections.load(Ordering::SeqCst), number, "{what}");
            assert_eq!(server.requests.load(Ordering::SeqCst), number, "{what}");
        }
    }
}

#[tokio::test]
async fn e19_an_answer_with_a_farewell_is_an_answer_and_the_next_request_dials() {
    let (server, egress) = http2(impatient(), |id| {
        let answer = frame(HEADERS, END_HEADERS | END_STREAM, id, OK);
        let farewell = [id.to_be_bytes(), [0; 4]].concat();
        Answer {
            first: [answer, frame(GOAWAY, 0, 0, &farewell)].concat(),
            then: Vec::new(),
            ends: true,
        }
    })
    .await;
    for number in 1..=5 {
        let answer = scope(&egress).fetch(get("/servers")).await.unwrap();
        assert_eq!(answer.status, 200);
        assert_eq!(server.connections.load(Ordering::SeqCst), number);
    }
}

#[tokio::test]
async fn e19_a_connection_on_which_an_answer_did_not_come_is_not_used_again() {
    let nothing: fn(u32) -> Vec<u8> = |_| Vec::new();
    let a_head: fn(u32) -> Vec<u8> = |id| frame(HEADERS, END_HEADERS, id, OK);
    let (soon, patient) = (Duration::from_secs(1), EgressLimits::standard());
    let rows = [
        (
            "no answer from target api",
            nothing,
            EgressLimits {
                first_byte: soon,
                ..patient
            },
        ),
        (
            "the answer stopped after 0 bytes",
            a_head,
            EgressLimits {
                idle: soon,
                ..patient
            },
        ),
        // The connection ends before the time of the request is over.
        (
            "keep-alive timed out",
            nothing,
            EgressLimits {
                ping_after: soon,
                ping_answer: soon,
                ..patient
            },
        ),
    ];
    for (why, first, limits) in rows {
        let connections = AtomicUsize::new(0);
        let (server, egress) = http2(limits, move |id| {
            // Stream 1 is the first one of each connection.
            let is_answered = id == 1 && connections.fetch_add(1, Ordering::SeqCst) == 1;
            Answer {
                first: match is_answered {
                    true => frame(HEADERS, END_HEADERS | END_STREAM, id, OK),
                    false => first(id),
                },
                then: Vec::new(),
                ends: false,
            }
        })
        .await;
        let failed = error(scope(&egress).fetch(get("/servers")).await);
        assert_eq!(failed.reason(), "timed-out", "{failed}");
        assert!(failed.to_string().contains(why), "{failed}");
        let answer = scope(&egress).fetch(get("/servers")).await.unwrap();
        assert_eq!(answer.status, 200, "{why}");
        eventually(why, || server.closed.load(Ordering::SeqCst) == 1).await;
        assert_eq!(server.connections.load(Ordering::SeqCst), 2, "{why}");
        assert_eq!(server.requests.load(Ordering::SeqCst), 2, "{why}");
    }
}
