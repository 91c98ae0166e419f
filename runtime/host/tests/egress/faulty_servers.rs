//! Clouds that answer wrongly, slowly, too much, or not at all.

use std::time::Duration;

use ccm_fixtures::http_server::{Reply, Server, answer, ok};
use ccm_host::egress::{EgressLimits, FetchError};
use http::Method;

use crate::world::{error, eventually, get, limited, plain, scope};

/// A response limit that a test reaches at once.
fn small() -> EgressLimits {
    EgressLimits {
        response_bytes: 1000,
        ..EgressLimits::standard()
    }
}

/// The same with short time limits, for servers that do not answer. A request that is answered needs time on a busy
/// machine.
fn impatient() -> EgressLimits {
    let soon = Duration::from_millis(300);
    EgressLimits {
        first_byte: soon,
        idle: soon,
        pace_after: soon,
        ..small()
    }
}

fn raw(text: &str) -> Vec<u8> {
    text.as_bytes().to_vec()
}

/// A chunked answer with this many bytes of body.
fn chunked(bytes: usize) -> Vec<u8> {
    let chunk = format!("64\r\n{}\r\n", "x".repeat(100)).repeat(bytes / 100);
    raw(&format!(
        "HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\n{chunk}0\r\n\r\n"
    ))
}

#[tokio::test]
async fn a_broken_answer_is_an_error_of_its_own_kind() {
    let many: String = (0..150)
        .map(|number| format!("x-{number}: y\r\n"))
        .collect();
    let wide = format!("x: {}\r\n", "y".repeat(70 << 10));
    let pause = Duration::from_millis(50);
    let cases: Vec<(&str, Reply, &str)> = vec![
        (
            "announces too much",
            Reply::Bytes(raw("HTTP/1.1 200 X\r\ncontent-length: 10737418240\r\n\r\n")),
            "too-large",
        ),
        (
            "is too large",
            answer(200, &[], &"x".repeat(1001)),
            "too-large",
        ),
        (
            "is too large and does not say so",
            Reply::Bytes(chunked(1100)),
            "too-large",
        ),
        (
            "is too large until the end",
            Reply::Close(raw(&format!("HTTP/1.1 200 X\r\n\r\n{}", "x".repeat(1001)))),
            "too-large",
        ),
        (
            "has too wide headers",
            Reply::Bytes(raw(&format!(
                "HTTP/1.1 200 X\r\n{wide}content-length: 0\r\n\r\n"
            ))),
            "too-large",
        ),
        (
            "has too many headers",
            Reply::Bytes(raw(&format!(
                "HTTP/1.1 200 X\r\n{many}content-length: 0\r\n\r\n"
            ))),
            "unavailable",
        ),
        (
            "has ten thousand headers",
            Reply::Bytes(raw(&format!(
                "HTTP/1.1 200 X\r\n{}content-length: 0\r\n\r\n",
                "x: y\r\n".repeat(10_000)
            ))),
            "unavailable",
        ),
        (
            "is cut off",
            Reply::Close(raw("HTTP/1.1 200 X\r\ncontent-length: 10\r\n\r\nabc")),
            "unavailable",
        ),
        (
            "is cut off in a chunk",
            Reply::Close(raw(
                "HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\n64\r\nabc",
            )),
            "unavailable",
        ),
        (
            "is cut off between chunks",
            Reply::Close(raw(
                "HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n",
            )),
            "unavailable",
        ),
        (
            "is cut off in its head",
            Reply::Close(raw("HTTP/1.1 200 X\r\ncontent-")),
            "unavailable",
        ),
        ("is empty", Reply::Close(Vec::new()), "unavailable"),
        (
            "is no HTTP",
            Reply::Close(raw("SSH-2.0-OpenSSH_9.2\r\n\r\n")),
            "unavailable",
        ),
        (
            "has two lengths",
            Reply::Bytes(raw(
                "HTTP/1.1 200 X\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
            )),
            "unavailable",
        ),
        (
            "has no such status",
            Reply::Bytes(raw("HTTP/1.1 999 X\r\ncontent-length: 0\r\n\r\n")),
            "unavailable",
        ),
        (
            "switches protocols",
            Reply::Bytes(raw(
                "HTTP/1.1 101 X\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n",
            )),
            "unavailable",
        ),
        (
            "is compressed",
            answer(200, &[("content-encoding", "gzip")], "\u{1f}x"),
            "unavailable",
        ),
        (
            "is compressed twice",
            answer(200, &[("content-encoding", "identity, br")], "x"),
            "unavailable",
        ),
        (
            "is compressed by its second field",
            answer(
                200,
                &[
                    ("content-encoding", "identity"),
                    ("content-encoding", "gzip"),
                ],
                "x",
            ),
            "unavailable",
        ),
        ("never comes", Reply::Silence, "timed-out"),
        (
            "has a head without end",
            Reply::Drip(raw(&format!("HTTP/1.1 200 X\r\n{many}")), pause, 10),
            "timed-out",
        ),
        (
            "drips",
            Reply::Drip(
                raw(&format!(
                    "HTTP/1.1 200 X\r\ncontent-length: 900\r\n\r\n{}",
                    "x".repeat(900)
                )),
                pause,
                45,
            ),
            "timed-out",
        ),
    ];
    for (what, reply, reason) in cases {
        let server = Server::start(move |_| reply.clone()).await;
        let limits = if reason == "timed-out" {
            impatient()
        } else {
            small()
        };
        let egress = limited(&format!("http://{}", server.address), limits);
        let failed = error(scope(&egress).fetch(get("/servers")).await);
        assert_eq!(failed.reason(), reason, "an answer that {what}: {failed}");
        assert_eq!(
            server.lines().len(),
            1,
            "an answer that {what} was asked for again"
        );
    }
}

#[tokio::test]
async fn a_body_that_stops_times_out() {
    let stop = Reply::Drip(
        raw("HTTP/1.1 200 X\r\ncontent-length: 9\r\n\r\nxxxxxxxxx"),
        Duration::from_secs(2),
        45,
    );
    let server = Server::start(move |_| stop.clone()).await;
    let limits = EgressLimits {
        first_byte: Duration::from_secs(20),
        ..impatient()
    };
    let failed = error(
        scope(&limited(&format!("http://{}", server.address), limits))
            .fetch(get("/servers"))
            .await,
    );
    assert!(
        matches!(&failed, FetchError::TimedOut(text) if text.contains("after 8 bytes")),
        "{failed}"
    );
}

#[tokio::test]
async fn ordinary_answers_of_every_kind_are_read() {
    for (reply, status, body) in [
        (ok("abc"), 200, "abc"),
        (answer(204, &[], ""), 204, ""),
        (answer(404, &[], "{}"), 404, "{}"),
        (
            answer(500, &[("content-encoding", "identity")], "x"),
            500,
            "x",
        ),
        (Reply::Bytes(chunked(1000)), 200, &*"x".repeat(1000)),
        (
            Reply::Close(raw("HTTP/1.1 200 X\r\n\r\nto the end")),
            200,
            "to the end",
        ),
        (
            Reply::Bytes(raw(
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nx: y\r\n\r\nHTTP/1.1 200 X\r\ncontent-length: 1\r\n\r\na",
            )),
            200,
            "a",
        ),
    ] {
        let server = Server::start(move |_| reply.clone()).await;
        let answer = scope(&limited(&format!("http://{}", server.address), small()))
            .fetch(get("/servers"))
            .await
            .unwrap();
        assert_eq!(
            (answer.status, answer.body.as_ref()),
            (status, body.as_bytes())
        );
    }
}

#[tokio::test]
async fn an_answer_without_a_length_counts_as_it_comes_against_what_a_call_may_hold() {
    for (held_bytes_per_call, reason) in [(2000, None), (900, Some("too-large"))] {
        let server = Server::start(|_| Reply::Bytes(chunked(1000))).await;
        let limits = EgressLimits {
            held_bytes_per_call,
            ..small()
        };
        let egress = limited(&format!("http://{}", server.address), limits);
        let answer = scope(&egress).fetch(get("/servers")).await;
        let failed = answer.as_ref().err().map(FetchError::reason);
        assert_eq!(failed, reason, "{held_bytes_per_call}: {answer:?}");
    }
}

#[tokio::test]
async fn the_length_of_an_answer_to_head_is_not_a_body() {
    let server =
        Server::start(|_| Reply::Bytes(raw("HTTP/1.1 200 X\r\ncontent-length: 123456789\r\n\r\n")))
            .await;
    let egress = limited(&format!("http://{}", server.address), small());
    let answer = scope(&egress)
        .fetch(plain(Method::HEAD, "/servers"))
        .await
        .unwrap();
    assert!(answer.body.is_empty());
}

#[tokio::test]
async fn a_second_answer_is_never_given_to_the_next_request() {
    let smuggled = "HTTP/1.1 200 X\r\ncontent-length: 5\r\n\r\nfirstHTTP/1.1 200 X\r\ncontent-length: 8\r\n\r\nsmuggled";
    let server = Server::start(move |request| {
        if request.line.ends_with("/1") {
            Reply::Bytes(raw(smuggled))
        } else {
            ok("second")
        }
    })
    .await;
    let egress = limited(&format!("http://{}", server.address), small());
    let scope = scope(&egress);
    assert_eq!(
        scope.fetch(get("/servers/1")).await.unwrap().body.as_ref(),
        b"first"
    );
    match scope.fetch(get("/servers/2")).await {
        Ok(answer) => assert_eq!(answer.body.as_ref(), b"second"),
        Err(failed) => assert!(matches!(failed, FetchError::Unavailable(_)), "{failed}"),
    }
}

#[tokio::test]
async fn dropping_a_fetch_drops_its_connection() {
    let server = Server::start(|_| Reply::Silence).await;
    let egress = limited(
        &format!("http://{}", server.address),
        EgressLimits::standard(),
    );
    let scope = scope(&egress);
    let fetch = tokio::spawn({
        let scope = scope.clone();
        async move { scope.fetch(get("/servers")).await }
    });
    eventually("the request arrives", || server.lines().len() == 1).await;
    assert_eq!(server.closed(), 0);
    fetch.abort();
    eventually("the connection is closed", || server.closed() == 1).await;
    assert!(!scope.complete());
}

#[tokio::test]
async fn a_whole_answer_is_never_too_slow() {
    let head = raw("HTTP/1.1 200 X\r\ncontent-length: 9\r\n\r\n");
    // The head, and after a pause the whole body.
    let pause = Duration::from_millis(600);
    let late = Reply::Drip([&head[..], b"xxxxxxxxx"].concat(), pause, head.len());
    let server = Server::start(move |_| late.clone()).await;
    let limits = EgressLimits {
        pace_after: Duration::from_millis(200),
        ..small()
    };
    let egress = limited(&format!("http://{}", server.address), limits);
    let answer = scope(&egress).fetch(get("/servers")).await.unwrap();
    assert_eq!(answer.body.as_ref(), b"xxxxxxxxx");
}
