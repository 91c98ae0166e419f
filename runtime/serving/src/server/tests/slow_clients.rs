//! Clients that are slow, or keep their connections open, beside a client that sends one request.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use super::world::{World, get};
use crate::connection_limit::{MOST, MOST_REQUESTS};
use crate::server::Server;

#[tokio::test]
async fn h6_clients_that_are_slow_on_purpose_give_way_to_one_that_asks() {
    let world = World::new();
    let server = world.start().await;
    // More connections than the limit: each has sent nothing, or sends a head without an end.
    let slow: Vec<TcpStream> = (0..MOST + 100)
        .map(|number| {
            let mut stream = TcpStream::connect(server.address()).unwrap();
            if number % 2 == 0 {
                stream.write_all(b"\x16\x03\x01").unwrap();
            }
            stream
        })
        .collect();
    let client = world.client(None);
    for _ in 0..20 {
        assert_eq!(get(&client, &server, "/livez").await.0, 200);
    }
    drop(slow);
}

#[tokio::test]
async fn clients_that_have_asked_once_give_way_to_a_newcomer() {
    let world = World::new();
    let server = world.start().await;
    let mut waiting = Vec::new();
    // As many as the limit, each with a connection of its own that stays open.
    for _ in 0..MOST {
        let client = world.client(None);
        assert_eq!(get(&client, &server, "/livez").await.0, 200);
        waiting.push(client);
    }
    for _ in 0..20 {
        let newcomer = world.client(None);
        assert_eq!(get(&newcomer, &server, "/livez").await.0, 200);
    }
    drop(waiting);
}

#[tokio::test]
async fn clients_that_do_not_read_their_answers_give_way_to_a_newcomer() {
    let world = World::new();
    let server = Server::plain(([127, 0, 0, 1], 0).into(), world.endpoints())
        .await
        .unwrap();
    let ask = || {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        let request = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
        stream.write_all(request).unwrap();
        stream
    };
    let mut unread: Vec<TcpStream> = Vec::new();
    for _ in 0..MOST {
        let stream = ask();
        // The request was answered, and the answer stays unread.
        stream.peek(&mut [0]).unwrap();
        unread.push(stream);
    }
    for _ in 0..20 {
        let mut beginning = [0; 12];
        ask().read_exact(&mut beginning).unwrap();
        assert_eq!(&beginning, b"HTTP/1.1 200");
    }
    drop(unread);
}

#[tokio::test]
async fn h6_a_client_that_leaves_many_answers_in_the_server_loses_its_connection() {
    let world = World::new();
    let server = world.start().await;
    let url = format!("https://{}/nothing", server.address());
    let mut unread = Vec::new();
    // Each on a connection of its own, with fewer streams than one may have.
    for _ in 0..4 {
        // The flow control leaves all but the beginning of each answer in the server.
        let client = world.client_builder(None);
        let client = client.http2_initial_stream_window_size(16).build().unwrap();
        let mut answers = Vec::new();
        for _ in 0..MOST_REQUESTS / 4 + 20 {
            answers.push(client.get(&url).send().await.unwrap());
        }
        unread.push((client, answers));
    }
    let mut lost = 0;
    for (_, answers) in &mut unread {
        let last = answers.pop().unwrap().text().await;
        lost += usize::from(last.is_err());
    }
    assert_eq!(lost, 1);
    assert_eq!(get(&world.client(None), &server, "/livez").await.0, 200);
}

#[tokio::test]
async fn h6_endless_heads_are_refused() {
    let world = World::new();
    let server = Server::plain(([127, 0, 0, 1], 0).into(), world.endpoints())
        .await
        .unwrap();
    let long = "x".repeat(64 * 1024);
    for head in [
        format!("GET /{long} HTTP/1.1\r\nHost: x\r\n\r\n"),
        format!("GET /metrics HTTP/1.1\r\nHost: x\r\nX: {long}\r\n\r\n"),
    ] {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        // The server may have closed the connection before all was sent.
        let _ = stream.write_all(head.as_bytes());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer);
        assert!(!answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}
