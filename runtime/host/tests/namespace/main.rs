//! Ten thousand URLs, answers of name servers and redirects, random combinations of known tricks, in a network
//! namespace in which every address could be reached. The kernel's counters show what was dialled.
//!
//! Each connection that the egress opens must be one that the granted server accepts, and no datagram may be sent.
//! Needs `unshare` (util-linux), `ip` (iproute2) and the right to make a namespace: root, or user namespaces.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "tests"
)]

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use ccm_core::safety::audit::NoAudit;
use ccm_core::safety::permit::{Mode, Permit};
use ccm_core::safety::tenure::Tenure;
use ccm_host::egress::{Egress, EgressLimits, FetchRequest, NameLookup, now};
use ccm_host::grant::{Credential, Secret};
use ccm_host::manifest::Manifest;
use futures::future::BoxFuture;
use http::{Method, Request};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::time::Instant;

/// Set in the process that runs in the namespace.
const INSIDE: &str = "CCM_INSIDE_NAMESPACE";
/// The one port that is granted.
const PORT: u16 = 8_443;
/// Ports on which no connection may arrive.
const TRAPS: [u16; 4] = [80, 443, 6_443, 10_250];
const CASES: u64 = 10_000;
/// Cases that share one egress, and so its connections.
const TOGETHER: u64 = 20;

#[test]
fn nothing_is_dialled_that_is_not_granted() {
    if std::env::var_os(INSIDE).is_some() {
        return inside();
    }
    // A route to every address, where nothing listens.
    let network = "ip link set lo up && ip addr add 198.18.0.1/32 dev lo && ip route add default dev lo \
        && ip -6 addr add 2001:db8:ffff::1/128 dev lo && ip -6 route add default dev lo \
        && exec \"$0\" --nocapture";
    let status = Command::new("unshare")
        .args(["--map-root-user", "--net", "sh", "-c", network])
        .arg(std::env::current_exe().unwrap())
        .env(INSIDE, "yes")
        .status()
        .expect("unshare, of util-linux, makes the namespace");
    assert!(status.success(), "{status}; the output above says why");
}

fn inside() {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(judged());
}

async fn judged() {
    let granted = Server::listen("127.0.0.1", PORT).await;
    let mut traps = Vec::new();
    for port in TRAPS {
        // Listens for both families.
        traps.push(Server::listen("::", port).await);
    }
    let before = Counters::read();
    let mut random = Random(0x6363_6d00);
    let mut answered = 0;
    for _ in 0..CASES / TOGETHER {
        let names = Arc::new(Names(Mutex::new(random.addresses())));
        let egress = egress(names.clone());
        for _ in 0..TOGETHER {
            *names.0.lock().unwrap() = random.addresses();
            answered += usize::from(ask(&egress, &mut random).await);
        }
    }
    let opened = Counters::read().since(&before);
    let accepted = granted.accepted();
    let caught: usize = traps.iter().map(Server::accepted).sum();
    println!(
        "egress in a namespace: {CASES} cases, {answered} answered, {} connections opened, {accepted} of them granted, {caught} elsewhere, {} datagrams",
        opened.connections, opened.datagrams
    );
    assert_eq!(caught, 0);
    assert_eq!(opened.connections, accepted as u64);
    assert_eq!(opened.datagrams, 0);
    assert!(
        answered > 500,
        "{answered} answers: the cases are too wild to show anything"
    );

    // The counters include connections that are not answered.
    let before = Counters::read();
    let elsewhere = SocketAddr::from(([203, 0, 113, 7], 443));
    TcpStream::connect_timeout(&elsewhere, Duration::from_millis(10)).unwrap_err();
    assert_eq!(Counters::read().since(&before).connections, 1);
}

/// Runs one case; returns whether the granted server answered it.
async fn ask(egress: &Arc<Egress>, random: &mut Random) -> bool {
    let until = now().after(Duration::from_secs(60));
    let tenure = Arc::new(Tenure::unlimited());
    let permit = Permit::new(until, Mode::Enforce, 1_000, tenure, Arc::new(NoAudit));
    let deadline = Instant::now() + Duration::from_secs(2);
    let scope = egress.scope(Arc::new(permit), deadline, true);
    let path = random.path();
    if random.below(4) == 0 {
        let request = FetchRequest {
            supplementary: false,
            target: random
                .of(&["api", "api", "api", "API", "evil", "", "api@evil"])
                .to_owned(),
            method: Method::GET,
            path: path.strip_prefix("/v1").unwrap_or(&path).to_owned(),
            query: Vec::new(),
            headers: Vec::new(),
            body: None,
        };
        return scope.fetch(request).await.is_ok();
    }
    let url = format!(
        "{}{}{}{}{path}",
        random.mostly(SCHEMES),
        random.mostly(USERS),
        random.host(),
        random.mostly(PORTS),
    );
    match Request::builder()
        .uri(url)
        .header("host", random.host())
        .body(Bytes::new())
    {
        Ok(request) => scope.fetch_url(request).await.is_ok(),
        // The request cannot be made by a guest, either.
        Err(_) => false,
    }
}

const SCHEMES: &[&str] = &[
    "http://", "http://", "http://", "http://", "HTTP://", "https://", "//", "ftp://", "http:/",
    "http:///", "ws://", "file://",
];
const USERS: &[&str] = &[
    "",
    "",
    "",
    "",
    "",
    "",
    "user:pass@",
    "cloud.test@",
    "cloud.test:8443@",
    "@",
    "%40",
    "cloud.test\\@",
];
const PORTS: &[&str] = &[
    ":8443",
    ":8443",
    ":8443",
    ":8443",
    "",
    ":80",
    ":443",
    ":6443",
    ":10250",
    ":0",
    ":65535",
    ":65536",
    ":08443",
    ":8443:80",
    ":",
    ":-1",
    ":8443@203.0.113.7",
];
const HOSTS: &[&str] = &[
    "cloud.test",
    "cloud.test",
    "cloud.test",
    "cloud.test",
    "cloud.test",
    "cloud.test",
    "CLOUD.test",
    "cloud.test.",
    "cloud.test.evil.example",
    "evilcloud.test",
    "cloud.test%2eevil.example",
    "cloud%2etest",
    "сloud.test",
    "cloud。test",
    "localhost",
    "metadata.google.internal",
    "kubernetes.default.svc",
    "127.0.0.1",
    "127.1",
    "0",
    "2130706433",
    "0x7f000001",
    "0177.0.0.1",
    "0.0.0.0",
    "169.254.169.254",
    "2852039166",
    "0xa9fea9fe",
    "0251.0376.0251.0376",
    "[::1]",
    "[::]",
    "[::ffff:127.0.0.1]",
    "[::ffff:169.254.169.254]",
    "[::a9fe:a9fe]",
    "[64:ff9b::a9fe:a9fe]",
    "[2002:a9fe:a9fe::]",
    "[fd00:ec2::254]",
    "[fe80::1%25lo]",
    "203.0.113.7",
    "8.8.8.8",
    "10.0.0.1",
    "[2001:db8::7]",
    "[::1",
    "a b",
    "",
];
const PATHS: &[&str] = &[
    "/v1/servers",
    "/v1/servers",
    "/v1/servers",
    "/v1/servers/7",
    "/v1/redirect",
    "/v1/redirect",
    "/v1/",
    "/",
    "/v1/../servers",
    "/v1/%2e%2e/servers",
    "/v1//servers",
    "/v1/servers?next=http://203.0.113.7/",
    "/v1/servers#@203.0.113.7",
    "\\@203.0.113.7/v1/servers",
    "/v1/servers%00",
    "/latest/meta-data/",
];
/// Addresses in a name server's answer. Only the first may be dialled.
const ADDRESSES: &[&str] = &[
    "127.0.0.1",
    "127.0.0.1",
    "127.0.0.1",
    "127.0.0.1",
    "127.0.0.2",
    "::1",
    "0.0.0.0",
    "::",
    "169.254.169.254",
    "fe80::1",
    "fd00:ec2::254",
    "10.0.0.1",
    "192.168.0.1",
    "172.16.0.1",
    "100.64.0.1",
    "198.18.0.1",
    "203.0.113.7",
    "8.8.8.8",
    "224.0.0.1",
    "255.255.255.255",
    "::ffff:169.254.169.254",
    "::ffff:203.0.113.7",
    "::a9fe:a9fe",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::a9fe:a9fe",
    "2002:a9fe:a9fe::",
    "2001:0:a9fe:a9fe::",
    "2001:db8::7",
    "ff02::1",
];

/// The same pseudo-random cases every time (xorshift64*).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let high = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        usize::try_from(high).unwrap() % limit
    }

    fn of<'t>(&mut self, table: &[&'t str]) -> &'t str {
        table[self.below(table.len())]
    }

    /// The first entry three times out of four, so that many cases get as far as a connection.
    fn mostly<'t>(&mut self, table: &[&'t str]) -> &'t str {
        match self.below(4) {
            0 => self.of(table),
            _ => table[0],
        }
    }

    fn addresses(&mut self) -> Vec<IpAddr> {
        // Mostly one address, so that there are connections to be misused.
        let count = [1, 1, 1, 1, 2, 3, 0][self.below(7)];
        (0..count)
            .map(|_| self.mostly(ADDRESSES).parse().unwrap())
            .collect()
    }

    fn host(&mut self) -> String {
        self.damaged(HOSTS)
    }

    fn path(&mut self) -> String {
        self.damaged(PATHS)
    }

    /// An entry of a table, sometimes with an inserted character.
    fn damaged(&mut self, table: &[&str]) -> String {
        let mut text = self.mostly(table).to_owned();
        if self.below(8) == 0 {
            let at = text.floor_char_boundary(self.below(text.len() + 1));
            text.insert_str(
                at,
                self.of(&["@", ":", "/", "\\", "%", "#", "?", ".", "%00", "\t", "ⅼ"]),
            );
        }
        text
    }
}

fn egress(names: Arc<Names>) -> Arc<Egress> {
    let manifest = serde_json::json!({
        "contract": "0.2.0", "name": "test", "version": "1",
        "targets": [{
            "name": "api", "endpoint": "https://cloud.test/v1", "auth": "bearer",
            "rules": [
                { "methods": ["GET"], "path": "/servers", "access": "read" },
                { "methods": ["GET"], "path": "/servers/{id}", "access": "read" },
                { "methods": ["GET"], "path": "/redirect", "access": "read" },
            ],
        }],
    });
    let manifest = Manifest::parse(manifest.to_string().as_bytes()).unwrap();
    let mut grants = manifest.as_grants();
    let target = &mut grants.targets[0];
    target.endpoint = format!("http://cloud.test:{PORT}/v1").parse().unwrap();
    target.credential = Credential::Bearer(Secret::new("a-token".to_owned()));
    target.addresses = vec!["127.0.0.1/32".parse().unwrap()];
    let granted = manifest.narrow(grants).unwrap();
    let egress = Egress::with_lookup("test", &granted, EgressLimits::standard(), names);
    Arc::new(egress.unwrap())
}

/// The name server of one case.
struct Names(Mutex<Vec<IpAddr>>);

impl NameLookup for Names {
    fn lookup(&self, _: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let addresses = self.0.lock().unwrap().clone();
        Box::pin(async move { Ok(addresses) })
    }
}

/// Accepts connections and answers every request, some with a redirect.
struct Server(Arc<AtomicUsize>);

impl Server {
    async fn listen(address: &str, port: u16) -> Server {
        let listener = TcpListener::bind((address, port)).await.unwrap();
        let accepted = Arc::<AtomicUsize>::default();
        tokio::spawn(serve(listener, accepted.clone()));
        Server(accepted)
    }

    fn accepted(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

async fn serve(listener: TcpListener, accepted: Arc<AtomicUsize>) {
    let mut random = Random(0x7265_6469);
    loop {
        let (mut socket, _) = listener.accept().await.unwrap();
        accepted.fetch_add(1, Ordering::Relaxed);
        let elsewhere = random.of(HOSTS);
        tokio::spawn(async move {
            let mut bytes = vec![0; 8_192];
            while let Ok(length) = socket.read(&mut bytes).await
                && length > 0
            {
                let answer = match bytes.starts_with(b"GET /v1/redirect") {
                    true => format!(
                        "HTTP/1.1 302 X\r\nlocation: http://{elsewhere}/\r\ncontent-length: 0\r\n\r\n"
                    ),
                    false => "HTTP/1.1 200 X\r\ncontent-length: 2\r\n\r\n{}".to_owned(),
                };
                if socket.write_all(answer.as_bytes()).await.is_err() {
                    break;
                }
            }
        });
    }
}

/// The kernel's counters of this namespace.
struct Counters {
    /// Connections that were begun, answered or not.
    connections: u64,
    /// UDP datagrams of both families.
    datagrams: u64,
}

impl Counters {
    fn read() -> Counters {
        let text = std::fs::read_to_string("/proc/net/snmp").unwrap();
        let mut lines = text.lines();
        let mut known = BTreeMap::new();
        while let (Some(names), Some(values)) = (lines.next(), lines.next()) {
            let names = names.split_whitespace();
            let mut values = values.split_whitespace();
            let mut protocol = String::new();
            for name in names {
                let value = values.next().unwrap();
                match name.strip_suffix(':') {
                    Some(name) => protocol = name.to_owned(),
                    None => {
                        known.insert(format!("{protocol}{name}"), value.parse().unwrap_or(0_i64));
                    }
                }
            }
        }
        let newer = std::fs::read_to_string("/proc/net/snmp6").unwrap();
        let datagrams6 = newer
            .lines()
            .find_map(|line| line.strip_prefix("Udp6OutDatagrams"))
            .and_then(|value| value.trim().parse().ok());
        let of = |name: &str| u64::try_from(known[name]).unwrap();
        Counters {
            connections: of("TcpActiveOpens"),
            datagrams: of("UdpOutDatagrams") + datagrams6.unwrap_or(0_u64),
        }
    }

    fn since(&self, before: &Counters) -> Counters {
        Counters {
            connections: self.connections - before.connections,
            datagrams: self.datagrams - before.datagrams,
        }
    }
}
