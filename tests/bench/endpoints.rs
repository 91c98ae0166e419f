//! The secure port beside many nodes: how soon it is ready, the cost of a scrape, and the effect of clients that never
//! finish their requests on a probe. Every request has a TLS connection of its own, as from a new client.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use ccm_tests::{authority, ports, tls_client};
use reqwest::Client;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustls::ClientConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

use crate::course::Course;
use crate::figure::{Figure, Key, Size, Subject, percentile};
use crate::measured::{Launch, Manager};
use crate::progress;
use crate::start::World;
use crate::watch::Watch;

/// Timeout for expected events.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Number of scrapes and probes that are measured.
const SCRAPES: usize = 50;
const PROBES: usize = 300;
/// How often a slow client sends one more byte.
const DRIP: Duration = Duration::from_millis(500);
/// Time after which a start's effects on memory are over: of the process, and of the slow clients.
const SETTLE_TIME: Duration = Duration::from_secs(2);

/// Starts ccm twice on one world, the second time with the modules that the first one has compiled, and sends requests
/// to its port. The other times are compared with that of a probe without load.
pub(crate) async fn measure(course: &mut Course<'_>, nodes: usize) -> Result<()> {
    let world = World::set(nodes).await?;
    let slow_clients = course.options.slow_clients();
    let port = Port::reserve(world.cluster.folder.path())?;
    let flags: Vec<&str> = port.flags.iter().map(String::as_str).collect();
    let launch = Launch {
        flags: &flags,
        ..course.launch(Subject::Ccm)
    };
    let start = |run: &str| {
        let run = format!("endpoints, {nodes} nodes, {run}");
        progress!("{run}");
        Manager::start(course.options, &launch, &world.cluster, &world.cloud, &run)
    };
    let mut watch = Watch::nodes(world.cluster.admin.clone());
    let mut first = start("initialising")?;
    watch.until(nodes, || first.check()).await?;
    first.stop().await?;

    let mut manager = start("warm")?;
    let client = port.client()?;
    until_ready(&port, &client, &mut manager).await?;
    let ready = manager.began.elapsed();

    // The controllers read the existing objects after the port is ready, and the first scrape allocates memory that
    // later ones use.
    tokio::time::sleep(SETTLE_TIME).await;
    let text = port.get(&client, "/metrics").await?;
    let before = manager.usage()?.resident;
    let scrapes = port.measure(&client, "/metrics", SCRAPES).await?;
    let by_scrapes = manager.usage()?.resident.saturating_sub(before);
    let probes = port.measure(&client, "/livez", PROBES).await?;

    progress!("endpoints, {nodes} nodes, {slow_clients} slow clients");
    let before = manager.usage()?.resident;
    allow_descriptors(slow_clients)?;
    let slow_connections = slow_connections(&port, slow_clients);
    tokio::time::sleep(SETTLE_TIME).await;
    let besieged = port.measure(&client, "/livez", PROBES).await?;
    let by_slow_clients = manager.usage()?.resident.saturating_sub(before);
    drop(slow_connections);
    manager.stop().await?;

    let key = |what: &str| Key::new("endpoints", Size::Nodes(nodes), Subject::Ccm, what);
    let quiet = key("a probe in quiet, p50");
    let time = |what: &str, took| {
        Figure::time(key(what), took).over(quiet.clone(), "a probe in quiet", None)
    };
    let slow = format!("with {slow_clients} slow clients");
    let series = text.lines().filter(|line| !line.starts_with('#')).count();
    for figure in [
        Figure::time(key("start to ready, warm cache"), ready).at_most(500.0),
        Figure::time(quiet.clone(), percentile(&probes, 50)).shown(),
        time("a scrape, p50", percentile(&scrapes, 50)).shown(),
        time("a scrape, longest", percentile(&scrapes, 100)).at_most(20.0),
        Figure::memory(key("memory by scrapes"), by_scrapes).at_most(1.0),
        Figure::count(key("bytes of a scrape"), text.len()),
        Figure::count(key("series of a scrape"), series),
        time(&format!("a probe {slow}, p50"), percentile(&besieged, 50)),
        time(&format!("a probe {slow}, p99"), percentile(&besieged, 99))
            .at_most(50.0)
            .shown(),
        Figure::memory(key(&format!("memory {slow}")), by_slow_clients).at_most(16.0),
    ] {
        course.add(figure);
    }
    Ok(())
}

/// The port's address, and the certificate that its clients trust.
struct Port {
    address: SocketAddr,
    trust: Arc<ClientConfig>,
    flags: [String; 5],
}

impl Port {
    fn reserve(folder: &Path) -> Result<Port> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, ports::keep()?));
        let tls = authority::issue("ccm")?;
        let (certificate, key) = (folder.join("ccm.crt"), folder.join("ccm.key"));
        std::fs::write(&certificate, &tls.certificate_pem)?;
        std::fs::write(&key, &tls.key_pem)?;
        let root = CertificateDer::from_pem_slice(tls.ca_pem.as_bytes())?;
        let mut trust = tls_client::config(root, None)?;
        // A header that never ends exists in HTTP/1.1 alone.
        trust.alpn_protocols.clear();
        Ok(Port {
            address,
            trust: Arc::new(trust),
            flags: [
                format!("--secure-port={}", address.port()),
                "--bind-address=127.0.0.1".to_owned(),
                format!("--tls-cert-file={}", certificate.display()),
                format!("--tls-private-key-file={}", key.display()),
                // The scrape is measured, without a review of its client's token.
                "--authorization-always-allow-paths=/livez,/readyz,/metrics".to_owned(),
            ],
        })
    }

    fn client(&self) -> Result<Client> {
        let client = Client::builder()
            .tls_backend_preconfigured((*self.trust).clone())
            .pool_max_idle_per_host(0)
            .timeout(TIMEOUT);
        Ok(client.build()?)
    }

    async fn get(&self, client: &Client, path: &str) -> Result<String> {
        let url = format!("https://{}{path}", self.address);
        let answer = client.get(url).send().await?;
        let (status, text) = (answer.status(), answer.text().await?);
        ensure!(status.is_success(), "{path}: {status}: {text}");
        Ok(text)
    }

    async fn measure(&self, client: &Client, path: &str, times: usize) -> Result<Vec<Duration>> {
        let mut took = Vec::with_capacity(times);
        for _ in 0..times {
            let began = Instant::now();
            self.get(client, path).await?;
            took.push(began.elapsed());
        }
        took.sort_unstable();
        Ok(took)
    }
}

async fn until_ready(port: &Port, client: &Client, manager: &mut Manager) -> Result<()> {
    let deadline = Instant::now() + TIMEOUT;
    while let Err(error) = port.get(client, "/readyz").await {
        manager.check()?;
        if Instant::now() > deadline {
            bail!("not ready: {error:#}\n{}", manager.log());
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Ok(())
}

/// File descriptors of this process beside those of the slow clients, generously.
const OTHER_DESCRIPTORS: u64 = 256;

/// Lets this process open a connection for each slow client. A shell usually allows 1024 descriptors, and more on
/// request.
fn allow_descriptors(clients: usize) -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    let wanted = clients as u64 + OTHER_DESCRIPTORS;
    if limit.current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    let maximum = limit.maximum;
    ensure!(
        maximum.is_none_or(|maximum| maximum >= wanted),
        "{clients} slow clients need {wanted} file descriptors: `ulimit -Hn` allows {maximum:?}"
    );
    let current = Some(wanted);
    Ok(setrlimit(Resource::Nofile, Rlimit { current, maximum })?)
}

/// Clients that send a byte of a handshake, or of a header, now and then, and come again when they are sent away.
fn slow_connections(port: &Port, clients: usize) -> JoinSet<()> {
    let mut all = JoinSet::new();
    for number in 0..clients {
        let (address, trust) = (port.address, port.trust.clone());
        all.spawn(async move {
            loop {
                // However the connection ends, the client connects again.
                let _ended = match number % 2 {
                    0 => in_handshake(address).await,
                    _ => in_header(address, trust.clone()).await,
                };
                tokio::time::sleep(DRIP).await;
            }
        });
    }
    all
}

/// A TLS record that announces 512 bytes, and never has them.
async fn in_handshake(address: SocketAddr) -> Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(&[0x16, 3, 1, 2, 0, 1]).await?;
    drip(stream).await
}

/// A request whose header has no end.
async fn in_header(address: SocketAddr, trust: Arc<ClientConfig>) -> Result<()> {
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from("localhost").context("a name")?;
    let mut stream = TlsConnector::from(trust).connect(name, stream).await?;
    stream
        .write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
        .await?;
    drip(stream).await
}

async fn drip(stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin) -> Result<()> {
    let (mut read, mut write) = tokio::io::split(stream);
    let dripping = async {
        loop {
            tokio::time::sleep(DRIP).await;
            write.write_all(b"a").await?;
            write.flush().await?;
        }
    };
    let mut answer = Vec::new();
    tokio::select! {
        ended = dripping => ended,
        read = read.read_to_end(&mut answer) => Ok(read.map(|_| ())?),
    }
}
