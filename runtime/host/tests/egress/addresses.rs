//! Names and addresses: all addresses of a name are checked, once, and dialled as checked.

use std::error::Error as _;
use std::net::SocketAddr;
use std::time::Duration;

use ccm_fixtures::http_server::{Reply, Server, ok};
use ccm_host::egress::FetchError;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::world::{Names, error, get, named, scope};

#[tokio::test]
async fn a_name_is_dialled_only_if_all_of_its_addresses_may_be() {
    let server = Server::start(|_| ok("{}")).await;
    let url = format!("http://cloud.test:{}", server.address.port());
    let many: Vec<_> = (0..100).map(|number| format!("127.0.1.{number}")).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    let refused: &[(&[&str], &[&str])] = &[
        (&["169.254.169.254"], &["0.0.0.0/0"]),
        (&["127.0.0.1", "169.254.169.254"], &["127.0.0.0/8"]),
        (&["169.254.169.254", "127.0.0.1"], &["127.0.0.0/8"]),
        (&["127.0.0.1", "10.0.0.1"], &["127.0.0.0/8"]),
        (
            &["127.0.0.1", "::ffff:169.254.169.254"],
            &["0.0.0.0/0", "::/0"],
        ),
        (&["127.0.0.1", "64:ff9b::a9fe:a9fe"], &["0.0.0.0/0", "::/0"]),
        (&["127.0.0.1", "fd00:ec2::254"], &["0.0.0.0/0", "::/0"]),
        (&["127.0.0.1"], &[]),
        (&["127.0.0.1"], &["10.0.0.0/8", "::1/128"]),
        (&["127.0.0.2"], &["127.0.0.1/32"]),
        // Unencrypted requests go to loopback only, whatever is granted.
        (&["10.0.0.1"], &["10.0.0.0/8"]),
        (&["127.0.0.1", "10.0.0.1"], &["127.0.0.0/8", "10.0.0.0/8"]),
        (&["8.8.8.8"], &[]),
        (&many, &["127.0.0.0/8"]),
        (&[], &["127.0.0.0/8"]),
    ];
    for (addresses, ranges) in refused {
        let names = Names::new(&[addresses]);
        let denied = error(
            scope(&named(&url, ranges, &names).unwrap())
                .fetch(get("/servers"))
                .await,
        );
        assert!(
            matches!(&denied, FetchError::Denied(text) if text.contains("cloud.test")),
            "{addresses:?} {ranges:?}: {denied}"
        );
        assert_eq!(names.asked(), 1);
    }
    assert_eq!(server.connections(), 0);
    for (addresses, ranges) in [
        (["127.0.0.1"], ["127.0.0.1/32"]),
        (["::ffff:127.0.0.1"], ["127.0.0.0/8"]),
    ] {
        let names = Names::new(&[&addresses]);
        assert_eq!(
            scope(&named(&url, &ranges, &names).unwrap())
                .fetch(get("/servers"))
                .await
                .unwrap()
                .status,
            200
        );
    }
}

#[tokio::test]
async fn a_name_that_changes_its_address_is_asked_once_per_connection() {
    let server = Server::start(|request| {
        if request.line.ends_with("/last") {
            Reply::Close(
                b"HTTP/1.1 200 X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_vec(),
            )
        } else {
            ok("{}")
        }
    })
    .await;
    let url = format!("http://cloud.test:{}", server.address.port());
    let names = Names::new(&[&["127.0.0.1"], &["169.254.169.254"]]);
    let egress = named(&url, &["127.0.0.0/8"], &names).unwrap();
    for path in ["/servers/1", "/servers/2", "/servers/last"] {
        assert_eq!(
            scope(&egress).fetch(get(path)).await.unwrap().status,
            200,
            "{path}"
        );
    }
    assert_eq!((names.asked(), server.connections()), (1, 1));
    // The connection is closed, so the name is resolved again, and its new address may not be dialled.
    let denied = error(scope(&egress).fetch(get("/servers/3")).await);
    assert!(matches!(denied, FetchError::Denied(_)), "{denied}");
    assert_eq!((names.asked(), server.connections()), (2, 1));
}

#[tokio::test]
async fn a_name_that_is_not_found_is_unavailable_and_one_without_answer_times_out() {
    let missing = named("https://cloud.test", &[], &Names::new(&[])).unwrap();
    assert!(matches!(
        error(scope(&missing).fetch(get("/servers")).await),
        FetchError::Unavailable(_)
    ));
    let silent = named("https://cloud.test", &[], &Names::silent()).unwrap();
    let late = error(scope(&silent).fetch(get("/servers")).await);
    let told = "no connection to https://cloud.test in 2s: its name was not resolved";
    assert!(
        matches!(&late, FetchError::TimedOut(text) if text.contains(told)),
        "{late}"
    );
}

#[tokio::test]
async fn an_endpoint_that_nobody_may_grant_is_refused_before_anything_runs() {
    for url in [
        "https://169.254.169.254",
        "https://169.254.169.254.",
        "https://2852039166",
        "https://0xa9fea9fe",
        "https://0251.0376.0251.0376",
        "https://169.254.43518",
        "https://[::ffff:169.254.169.254]",
        "https://[::a9fe:a9fe]",
        "https://[64:ff9b::a9fe:a9fe]",
        "https://[2002:a9fe:a9fe::1]",
        "https://[fe80::1]",
        "https://[fd00:ec2::254]",
        "https://0.0.0.0",
        "https://[::]",
        "https://224.0.0.1",
        "http://10.0.0.1",
        "http://8.8.8.8",
        "ftp://cloud.test",
        "https://user@cloud.test",
        "https://:secret@cloud.test",
        "https://cloud.test/?q",
        "https://cloud.test/#part",
        "https://cloud.test:0",
        "https://cloud.test/a//b",
        "https://cloud.test/%2e%2e%2f",
    ] {
        let names = Names::new(&[&["127.0.0.1"]]);
        match named(url, &["0.0.0.0/0", "::/0"], &names) {
            Err(refused) => assert!(
                refused.source().is_some() && refused.to_string().contains("api"),
                "{url}: {refused}"
            ),
            Ok(_) => panic!("{url} was accepted"),
        }
    }
    // An IP address as endpoint grants itself.
    for url in [
        "http://127.0.0.1:1",
        "http://[::1]:1",
        "https://10.0.0.1",
        "https://[fd12::1]",
        "https://8.8.8.8",
        "http://localhost:1",
    ] {
        assert!(named(url, &[], &Names::new(&[])).is_ok(), "{url}");
    }
}

/// An address that answers nothing, like that of a machine that is switched off: the listener's queue is full, and the
/// kernel drops what arrives. Lasts until the result is dropped.
async fn unanswering(address: SocketAddr) -> (TcpListener, Vec<TcpStream>) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(address).unwrap();
    let listener = socket.listen(1).unwrap();
    let mut queue = Vec::new();
    let soon = Duration::from_millis(300);
    while let Ok(stream) = timeout(soon, TcpStream::connect(address)).await {
        queue.push(stream.unwrap());
    }
    (listener, queue)
}

#[tokio::test]
async fn an_address_that_does_not_answer_leaves_time_for_the_next_one() {
    let server = Server::start(|_| ok("{}")).await;
    let port = server.address.port();
    let _silent = unanswering(SocketAddr::from(([127, 0, 0, 2], port))).await;
    let url = format!("http://cloud.test:{port}");
    // However many others there are.
    let many: Vec<_> = (10..70).map(|number| format!("127.0.0.{number}")).collect();
    let two = ["127.0.0.2", "127.0.0.1"];
    let all: Vec<&str> = two
        .into_iter()
        .chain(many.iter().map(String::as_str))
        .collect();
    for addresses in [&two[..], &all] {
        let names = Names::new(&[addresses]);
        let egress = named(&url, &["127.0.0.0/8"], &names).unwrap();
        let answer = scope(&egress).fetch(get("/servers")).await;
        assert_eq!(answer.map(|answer| answer.status), Ok(200), "{addresses:?}");
    }
}
