//! Tests of the harness of the cluster suites: if these fail, the harness is broken and not the product. And the
//! agreement table on a real API server.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

#[path = "api/agreement.rs"]
mod agreement;
#[path = "api/table.rs"]
mod table;

use std::fs::OpenOptions;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ccm_fixtures::kubernetes::node;
use ccm_tests::apiserver::{ApiServer, AuditEntry, StartOptions};
use ccm_tests::controllers::create;
use ccm_tests::link::{Cut, Link};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

#[tokio::test]
async fn a_node_and_a_readable_audit_log_survive_a_crash_of_the_api_server() {
    let mut server = ApiServer::start_with(StartOptions {
        audit: true,
        ..StartOptions::default()
    })
    .await
    .unwrap();
    let nodes: Api<Node> = Api::all(server.client_for("admin").await.unwrap());
    assert!(
        nodes
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .is_empty()
    );
    let written = create(&nodes, node("one")).await;
    recorded(&server, "create").await;

    server.kill();
    let log = server.kubeconfig("admin").unwrap();
    let log = log.with_file_name("audit.log");
    let mut log = OpenOptions::new().append(true).open(log).unwrap();
    log.write_all(br#"{"kind":"Event","user":{"usern"#).unwrap();
    server.restart().await.unwrap();

    let nodes: Api<Node> = Api::all(server.client_for("admin").await.unwrap());
    assert_eq!(
        nodes.get("one").await.unwrap().metadata.uid,
        written.metadata.uid
    );
    recorded(&server, "get").await;
    recorded(&server, "create").await;
}

/// Waits until the audit log has a request with this verb for the node "one".
async fn recorded(server: &ApiServer, verb: &str) {
    let is_it = |entry: AuditEntry| entry.name == "one" && entry.verb == verb;
    for _ in 0..1000 {
        if server.audit_log().unwrap().into_iter().any(is_it) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("no {verb} is recorded");
}

#[tokio::test]
async fn a_user_may_do_only_what_is_granted_and_the_audit_log_tells() {
    let server = ApiServer::start_with(StartOptions {
        users: vec![("guest".to_owned(), vec!["visitors".to_owned()])],
        audit: true,
        ..StartOptions::default()
    })
    .await
    .unwrap();
    let nodes: Api<Node> = Api::all(server.client_for("guest").await.unwrap());
    let refused = nodes
        .create(&PostParams::default(), &node("two").build())
        .await
        .unwrap_err();
    assert!(
        matches!(&refused, kube::Error::Api(status) if status.code == 403),
        "{refused}"
    );

    let expected = AuditEntry {
        user: "guest".to_owned(),
        verb: "create".to_owned(),
        resource: "nodes".to_owned(),
        uri: "/api/v1/nodes?".to_owned(),
        code: 403,
        ..AuditEntry::default()
    };
    let found = loop {
        let log = server.audit_log().unwrap();
        if let Some(entry) = log.into_iter().find(|entry| entry.user == "guest") {
            break entry;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!(found, expected);
    assert!(server.client_for("stranger").await.is_err());
}

#[tokio::test]
async fn a_request_that_passes_a_link_is_written_down_with_its_source_and_its_time() {
    let server = ApiServer::start_with(StartOptions {
        audit: true,
        ..StartOptions::default()
    })
    .await
    .unwrap();
    let mut read = 0;
    while server.read_audit_log(&mut read).unwrap().is_empty() {}
    let source = Ipv4Addr::new(127, 3, 2, 1);
    let target: SocketAddr = server.url()["https://".len()..].parse().unwrap();
    let link = Link::between(source, target).unwrap();
    let kubeconfig = Kubeconfig::read_from(server.kubeconfig("admin").unwrap()).unwrap();
    let options = KubeConfigOptions::default();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .unwrap();
    config.cluster_url = format!("https://{}", link.address()).parse().unwrap();
    let nodes: Api<Node> = Api::all(Client::try_from(config).unwrap());

    let before = Timestamp::now();
    nodes.get_opt("three").await.unwrap();

    let found = loop {
        let mut arrivals = server.read_audit_log(&mut read).unwrap().into_iter();
        if let Some(arrival) = arrivals.find(|arrival| arrival.entry.name == "three") {
            break arrival;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!(found.source, Some(IpAddr::from(source)));
    // The server's stamps have six decimals.
    let before = before - Duration::from_micros(1);
    assert!(
        before <= found.received && found.received <= found.answered,
        "{found:?}"
    );
    assert!(found.answered <= Timestamp::now());
}

/// Sends everything back, on each connection.
async fn echo(listener: TcpListener) {
    while let Ok((mut connection, _)) = listener.accept().await {
        tokio::spawn(async move {
            let (mut reader, mut writer) = connection.split();
            tokio::io::copy(&mut reader, &mut writer).await
        });
    }
}

async fn round_trip(connection: &mut TcpStream, sent: &[u8]) {
    let mut received = vec![0; sent.len()];
    connection.write_all(sent).await.unwrap();
    connection.read_exact(&mut received).await.unwrap();
    assert_eq!(received, sent);
}

#[tokio::test]
async fn a_link_passes_every_byte_on_and_holds_answers_back_until_it_is_told_otherwise() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = listener.local_addr().unwrap();
    tokio::spawn(echo(listener));
    let (link, free) = (Link::to(target).unwrap(), Link::to(target).unwrap());
    let mut connection = TcpStream::connect(link.address()).await.unwrap();
    let bytes: Vec<u8> = (0_u8..=255).cycle().take(300_000).collect();
    round_trip(&mut connection, &bytes).await;

    link.hold();
    let mut other = TcpStream::connect(free.address()).await.unwrap();
    {
        let mut held = std::pin::pin!(round_trip(&mut connection, &bytes[..5]));
        let others = async {
            for _ in 0..200 {
                round_trip(&mut other, &bytes[..5]).await;
            }
        };
        tokio::select! {
            () = &mut held => panic!("an answer came although it was held back"),
            () = others => {}
        }
        link.release();
        held.await;
    }

    link.delay(Duration::from_millis(1));
    round_trip(&mut connection, &bytes).await;
    link.hold_for(Duration::from_millis(1));
    round_trip(&mut connection, &bytes).await;
}

#[tokio::test]
async fn a_link_that_is_cut_passes_nothing_and_one_that_is_mended_only_what_is_new() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = listener.local_addr().unwrap();
    tokio::spawn(echo(listener));
    let link = Link::to(target).unwrap();
    let connect = async || TcpStream::connect(link.address()).await.unwrap();
    let mut buffer = [0; 1];

    let mut old = connect().await;
    round_trip(&mut old, b"before").await;
    link.cut(Cut::Silent);
    let mut meanwhile = connect().await;
    for connection in [&mut old, &mut meanwhile] {
        connection.write_all(b"lost").await.unwrap();
        let read = connection.read(&mut buffer);
        let came = tokio::time::timeout(Duration::from_millis(50), read).await;
        assert!(came.is_err(), "{came:?}");
    }
    link.mend();
    for connection in [&mut old, &mut meanwhile] {
        let error = connection.read(&mut buffer).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    }
    let mut new = connect().await;
    round_trip(&mut new, b"after").await;

    link.cut(Cut::Reset);
    let error = new.read(&mut buffer).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    // The refusal may break the connection, or only the request on it.
    let refused = async {
        let mut connection = TcpStream::connect(link.address()).await?;
        connection.read(&mut buffer).await
    };
    assert!(refused.await.is_err());
}

/// The processes whose command line names a folder. Linux only, as the servers' own clean-up is not.
#[cfg(target_os = "linux")]
fn processes_that_name(folder: &str) -> Vec<PathBuf> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes
        .map(|entry| entry.path())
        .filter(|path| {
            let command = std::fs::read(path.join("cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&command).contains(folder)
        })
        .collect()
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn dropping_the_server_ends_both_processes_and_removes_their_files() {
    let server = ApiServer::start().await.unwrap();
    let kubeconfig = server.kubeconfig("admin").unwrap();
    let folder = kubeconfig.parent().unwrap();
    assert_eq!(processes_that_name(folder.to_str().unwrap()).len(), 2);

    drop(server);

    assert_eq!(
        processes_that_name(folder.to_str().unwrap()),
        Vec::<PathBuf>::new()
    );
    assert!(!folder.exists());
}
