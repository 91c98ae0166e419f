//! A small HTTP/1.1 server made by hand, so that it can answer wrongly, slowly and not at all.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// A request as it arrived.
#[derive(Debug, Clone)]
pub(crate) struct Arrived {
    /// Method and path with query.
    pub line: String,
    /// Names in lower case, in the order of arrival.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Arrived {
    /// The only value of a header; empty when it is not there.
    pub(crate) fn header(&self, name: &str) -> &str {
        let mut values = self.headers.iter().filter(|(known, _)| known == name);
        let value = values.next().map_or("", |(_, value)| value.as_str());
        assert!(values.next().is_none(), "{name} is there twice");
        value
    }
}

/// What the server does with a request.
#[derive(Clone)]
pub(crate) enum Reply {
    /// These bytes, and the connection stays open.
    Bytes(Vec<u8>),
    /// These bytes, and then the end.
    Close(Vec<u8>),
    /// Pieces with pauses before each, and then the end.
    Drip(Vec<u8>, Duration, usize),
    /// These bytes again and again, as long as somebody reads.
    Endless(Vec<u8>),
    /// Never anything.
    Silence,
    /// First a pause.
    After(Duration, Box<Reply>),
    /// First a place that somebody has to give.
    Held(Arc<Semaphore>, Box<Reply>),
}

/// A whole answer.
pub(crate) fn answer(status: u16, headers: &[(&str, &str)], body: &str) -> Reply {
    let headers: String = headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    Reply::Bytes(
        format!(
            "HTTP/1.1 {status} X\r\n{headers}content-length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes(),
    )
}

/// 200 and a body.
pub(crate) fn ok(body: &str) -> Reply {
    answer(200, &[], body)
}

type Script = dyn Fn(&Arrived) -> Reply + Send + Sync;

/// Runs until it is dropped.
pub(crate) struct Server {
    pub address: SocketAddr,
    connections: Arc<AtomicUsize>,
    closed: Arc<AtomicUsize>,
    arrived: Arc<Mutex<Vec<Arrived>>>,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// Answers every request by the script.
    pub(crate) async fn start(
        script: impl Fn(&Arrived) -> Reply + Send + Sync + 'static,
    ) -> Server {
        Server::listen(None, Arc::new(script)).await
    }

    /// The same behind TLS.
    pub(crate) async fn with_tls(
        tls: TlsAcceptor,
        script: impl Fn(&Arrived) -> Reply + Send + Sync + 'static,
    ) -> Server {
        Server::listen(Some(tls), Arc::new(script)).await
    }

    async fn listen(tls: Option<TlsAcceptor>, script: Arc<Script>) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (connections, closed): (Arc<AtomicUsize>, Arc<AtomicUsize>) = Default::default();
        let arrived: Arc<Mutex<Vec<Arrived>>> = Arc::default();
        let task = tokio::spawn({
            let (connections, closed, arrived) =
                (connections.clone(), closed.clone(), arrived.clone());
            async move {
                loop {
                    let Ok((stream, _)) = listener.accept().await else {
                        continue;
                    };
                    connections.fetch_add(1, Ordering::SeqCst);
                    let (script, arrived, closed, tls) =
                        (script.clone(), arrived.clone(), closed.clone(), tls.clone());
                    tokio::spawn(async move {
                        match tls {
                            None => serve(stream, &script, &arrived).await,
                            Some(tls) => {
                                if let Ok(stream) = tls.accept(stream).await {
                                    serve(stream, &script, &arrived).await;
                                }
                            }
                        }
                        closed.fetch_add(1, Ordering::SeqCst);
                    });
                }
            }
        });
        Server {
            address,
            connections,
            closed,
            arrived,
            task,
        }
    }

    /// Connections that were accepted.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Connections that have ended.
    pub(crate) fn closed(&self) -> usize {
        self.closed.load(Ordering::SeqCst)
    }

    /// Requests that were read to their end.
    pub(crate) fn arrived(&self) -> Vec<Arrived> {
        self.arrived.lock().unwrap().clone()
    }

    /// Their first lines.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.arrived()
            .into_iter()
            .map(|request| request.line)
            .collect()
    }
}

async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    script: &Arc<Script>,
    arrived: &Mutex<Vec<Arrived>>,
) {
    let mut bytes = Vec::new();
    loop {
        let Some(request) = read(&mut stream, &mut bytes).await else {
            return;
        };
        arrived.lock().unwrap().push(request.clone());
        let mut reply = script(&request);
        loop {
            reply = match reply {
                Reply::After(pause, next) => {
                    tokio::time::sleep(pause).await;
                    *next
                }
                Reply::Held(places, next) => {
                    places.acquire().await.unwrap().forget();
                    *next
                }
                _ => break,
            };
        }
        match reply {
            Reply::Bytes(bytes) => {
                if stream.write_all(&bytes).await.is_err() {
                    return;
                }
            }
            Reply::Close(bytes) => {
                let _ = stream.write_all(&bytes).await;
                let _ = stream.shutdown().await;
                return;
            }
            Reply::Drip(bytes, pause, size) => {
                for piece in bytes.chunks(size) {
                    tokio::time::sleep(pause).await;
                    if stream.write_all(piece).await.is_err() {
                        return;
                    }
                }
                return;
            }
            Reply::Endless(bytes) => {
                while stream.write_all(&bytes).await.is_ok() {}
                return;
            }
            Reply::Silence => {
                // Reading ends when the client goes away.
                let mut rest = [0; 64];
                while stream.read(&mut rest).await.is_ok_and(|count| count > 0) {}
                return;
            }
            Reply::After(..) | Reply::Held(..) => unreachable!("taken apart above"),
        }
    }
}

/// One request; `None` at the end of the connection.
async fn read(stream: &mut (impl AsyncRead + Unpin), bytes: &mut Vec<u8>) -> Option<Arrived> {
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at;
        }
        if stream.read_buf(bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let mut lines = head.split("\r\n");
    let line = lines
        .next()
        .unwrap()
        .trim_end_matches(" HTTP/1.1")
        .to_owned();
    let headers: Vec<_> = lines
        .map(|line| line.split_once(": ").unwrap())
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length = headers
        .iter()
        .find(|(name, _)| name == "content-length")
        .map_or(0, |(_, value)| value.parse().unwrap());
    bytes.drain(..end + 4);
    while bytes.len() < length {
        if stream.read_buf(bytes).await.ok()? == 0 {
            return None;
        }
    }
    let body = bytes.drain(..length).collect();
    Some(Arrived {
        line,
        headers,
        body,
    })
}
