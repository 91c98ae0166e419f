//! A cloud on loopback for the misbehaving guest: machines that are always there, load balancers that are made and
//! deleted, and a count of everything. On bare sockets, so that it sees connections end.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// A running cloud; it ends with the runtime.
#[derive(Clone)]
pub(crate) struct Cloud(Arc<Shared>);

struct Shared {
    endpoint: String,
    requests: AtomicU64,
    opened: AtomicU64,
    closed: AtomicU64,
    throttles: AtomicBool,
    /// How often a load balancer was made and deleted, by its Service.
    balancers: Mutex<BTreeMap<String, Life>>,
}

/// What happened to one load balancer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Life {
    pub(crate) made: u32,
    pub(crate) deleted: u32,
}

impl Cloud {
    /// Starts a cloud on a free port.
    pub(crate) async fn start() -> Cloud {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let shared = Shared {
            endpoint: format!("http://{}/v1", listener.local_addr().unwrap()),
            requests: AtomicU64::new(0),
            opened: AtomicU64::new(0),
            closed: AtomicU64::new(0),
            throttles: AtomicBool::new(false),
            balancers: Mutex::default(),
        };
        let cloud = Cloud(Arc::new(shared));
        let serving = cloud.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let cloud = serving.clone();
                tokio::spawn(async move {
                    cloud.0.opened.fetch_add(1, Ordering::SeqCst);
                    // A client may go away at any moment.
                    let _ = cloud.serve(stream).await;
                    cloud.0.closed.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
        cloud
    }

    pub(crate) fn endpoint(&self) -> &str {
        &self.0.endpoint
    }

    /// How many requests have arrived.
    pub(crate) fn requests(&self) -> u64 {
        self.0.requests.load(Ordering::SeqCst)
    }

    /// How many connections are open.
    pub(crate) fn connections(&self) -> u64 {
        let closed = self.0.closed.load(Ordering::SeqCst);
        self.0.opened.load(Ordering::SeqCst) - closed
    }

    /// From now on it answers 429, and wants to be left alone for half a minute.
    pub(crate) fn throttle(&self) {
        self.0.throttles.store(true, Ordering::SeqCst);
    }

    /// What happened to load balancers, by their Services.
    pub(crate) fn balancers(&self) -> BTreeMap<String, Life> {
        self.0.balancers.lock().unwrap().clone()
    }

    async fn serve(&self, mut stream: TcpStream) -> std::io::Result<()> {
        stream.set_nodelay(true)?;
        let mut buffer = Vec::new();
        loop {
            let Some((head, length)) = head(&buffer) else {
                if stream.read_buf(&mut buffer).await? == 0 {
                    return Ok(());
                }
                continue;
            };
            while buffer.len() < head + length {
                if stream.read_buf(&mut buffer).await? == 0 {
                    return Ok(());
                }
            }
            let request: Vec<u8> = buffer.drain(..head + length).collect();
            let answer = self.answer(&request[..head], &request[head..]);
            stream.write_all(answer.as_bytes()).await?;
        }
    }

    fn answer(&self, head: &[u8], body: &[u8]) -> String {
        self.0.requests.fetch_add(1, Ordering::SeqCst);
        if self.0.throttles.load(Ordering::SeqCst) {
            return "HTTP/1.1 429 Too Many Requests\r\nretry-after: 30\r\ncontent-length: 0\r\n\r\n"
                .to_owned();
        }
        let head = std::str::from_utf8(head).unwrap();
        let mut words = head.split_whitespace();
        let (method, path) = (words.next().unwrap(), words.next().unwrap());
        let of = path.strip_prefix("/v1/balancers/");
        let mut balancers = self.0.balancers.lock().unwrap();
        let is_there = match (method, of) {
            ("POST", None) => {
                // Its targets are all that the guest says of it: the tests name one after the Service.
                let names: Vec<String> = serde_json::from_slice(body).unwrap();
                balancers.entry(names[0].clone()).or_default().made += 1;
                true
            }
            ("DELETE", Some(uid)) => {
                balancers.entry(uid.to_owned()).or_default().deleted += 1;
                true
            }
            (_, Some(uid)) => balancers
                .get(uid)
                .is_some_and(|life| life.made > life.deleted),
            _ => true,
        };
        let status = if is_there { "200 OK" } else { "404 Not Found" };
        format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{{}}"
        )
    }
}

/// Where the head of a request ends, and how long its body is.
fn head(buffer: &[u8]) -> Option<(usize, usize)> {
    let end = buffer.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(&buffer[..end]).unwrap().to_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length:"))
        .map_or(0, |length| length.trim().parse().unwrap());
    Some((end, length))
}
