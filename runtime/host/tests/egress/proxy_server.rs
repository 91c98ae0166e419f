//! A hand-written proxy, which can answer falsely: it records its requests and the bytes of clients.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, split};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// The proxy's answer to each connection.
#[derive(Clone)]
pub(crate) enum Answer {
    /// A tunnel to the same port of this machine, whatever the name.
    Tunnel,
    /// The same for SOCKS 5 with user and password.
    Socks,
    /// A tunnel to this address, whatever was requested.
    Elsewhere(SocketAddr),
    /// These bytes, and the connection stays open.
    Bytes(Vec<u8>),
    /// These bytes, and then the connection ends.
    BytesThenClose(Vec<u8>),
    /// The connection ends at once.
    Close,
    /// Nothing is ever sent.
    Silence,
    /// One byte after the other, with pauses, and never all of them.
    Drip(Vec<u8>),
    /// First these bytes, and then the second ones again and again.
    Endless(&'static [u8], &'static [u8]),
}

#[derive(Default)]
struct Log {
    connections: usize,
    asked: Vec<String>,
    seen: Vec<u8>,
}

/// A running proxy, which ends when it is dropped.
pub(crate) struct FakeProxy {
    pub address: SocketAddr,
    log: Arc<Mutex<Log>>,
    task: JoinHandle<()>,
}

impl Drop for FakeProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl FakeProxy {
    pub(crate) async fn start(answer: Answer) -> FakeProxy {
        FakeProxy::listen(None, answer).await
    }

    pub(crate) async fn with_tls(tls: TlsAcceptor, answer: Answer) -> FakeProxy {
        FakeProxy::listen(Some(tls), answer).await
    }

    async fn listen(tls: Option<TlsAcceptor>, answer: Answer) -> FakeProxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let log = Arc::<Mutex<Log>>::default();
        let written = log.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                written.lock().unwrap().connections += 1;
                let (tls, answer, log) = (tls.clone(), answer.clone(), written.clone());
                tokio::spawn(async move {
                    // A failure here is a failure for the client, too.
                    let _ = match tls {
                        None => serve(stream, answer, &log).await,
                        Some(tls) => match tls.accept(stream).await {
                            Ok(stream) => serve(stream, answer, &log).await,
                            Err(error) => Err(error),
                        },
                    };
                });
            }
        });
        FakeProxy { address, log, task }
    }

    pub(crate) fn connections(&self) -> usize {
        self.log.lock().unwrap().connections
    }

    /// The heads of all requests for a tunnel.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.log.lock().unwrap().asked.clone()
    }

    /// Bytes that clients sent through tunnels.
    pub(crate) fn seen(&self) -> Vec<u8> {
        self.log.lock().unwrap().seen.clone()
    }
}

async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin + Send,
    answer: Answer,
    log: &Mutex<Log>,
) -> std::io::Result<()> {
    if let Answer::Socks = answer {
        let asked = socks(&mut stream).await?;
        let port = asked.0;
        log.lock().unwrap().asked.push(asked.1);
        return carry(stream, ([127, 0, 0, 1], port).into(), log).await;
    }
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8(head).unwrap().trim_end().to_owned();
    let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
    log.lock().unwrap().asked.push(head);
    let to = match answer {
        Answer::Tunnel => {
            let port = target.rsplit(':').next().and_then(|port| port.parse().ok());
            SocketAddr::from(([127, 0, 0, 1], port.unwrap()))
        }
        Answer::Elsewhere(to) => to,
        Answer::Bytes(bytes) => {
            stream.write_all(&bytes).await?;
            return rest(stream).await;
        }
        Answer::BytesThenClose(bytes) => {
            stream.write_all(&bytes).await?;
            return stream.shutdown().await;
        }
        Answer::Silence => return rest(stream).await,
        Answer::Drip(bytes) => {
            for byte in bytes {
                stream.write_all(&[byte]).await?;
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            return rest(stream).await;
        }
        Answer::Endless(first, again) => {
            stream.write_all(first).await?;
            loop {
                stream.write_all(again).await?;
            }
        }
        Answer::Close | Answer::Socks => return stream.shutdown().await,
    };
    let established = b"HTTP/1.1 200 Connection established\r\nVia: 1.1 test\r\n\r\n";
    stream.write_all(established).await?;
    carry(stream, to, log).await
}

/// Reads until the client goes away.
async fn rest(mut stream: impl AsyncRead + Unpin) -> std::io::Result<()> {
    let mut rest = [0; 64];
    while stream.read(&mut rest).await? > 0 {}
    Ok(())
}

/// Negotiates SOCKS 5 with a login; returns the port, and the request.
async fn socks(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
) -> std::io::Result<(u16, String)> {
    let mut greeting = [0; 3];
    stream.read_exact(&mut greeting).await?;
    assert_eq!(
        greeting,
        [5, 1, 2],
        "version 5, one method: user and password"
    );
    stream.write_all(&[5, 2]).await?;
    assert_eq!(stream.read_u8().await?, 1);
    let user = text(stream).await?;
    let password = text(stream).await?;
    stream.write_all(&[1, 0]).await?;
    let mut request = [0; 4];
    stream.read_exact(&mut request).await?;
    assert_eq!(request, [5, 1, 0, 3], "connect to a name");
    let name = text(stream).await?;
    let port = stream.read_u16().await?;
    stream.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await?;
    Ok((port, format!("{name}:{port} {user} {password}")))
}

async fn text(stream: &mut (impl AsyncRead + Unpin)) -> std::io::Result<String> {
    let mut bytes = vec![0; usize::from(stream.read_u8().await?)];
    stream.read_exact(&mut bytes).await?;
    Ok(String::from_utf8(bytes).unwrap())
}

async fn carry(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send,
    to: SocketAddr,
    log: &Mutex<Log>,
) -> std::io::Result<()> {
    let server = TcpStream::connect(to).await?;
    let (mut from_client, mut to_client) = split(stream);
    let (mut from_server, mut to_server) = server.into_split();
    let up = async {
        let mut bytes = vec![0; 4096];
        loop {
            let count = from_client.read(&mut bytes).await?;
            if count == 0 {
                return to_server.shutdown().await;
            }
            log.lock().unwrap().seen.extend_from_slice(&bytes[..count]);
            to_server.write_all(&bytes[..count]).await?;
        }
    };
    let down = tokio::io::copy(&mut from_server, &mut to_client);
    tokio::select! {
        end = up => end,
        end = down => end.map(drop),
    }
}
