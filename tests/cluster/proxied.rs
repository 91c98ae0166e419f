//! The API server behind an HTTP proxy: the kubeconfig names the proxy, and there is no other way to it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use ccm_sim::hetzner::ServerSpec;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

use crate::services::{PLACE, Services, load_balancer};
use crate::world::{Setup, World};

/// The server address in the kubeconfig. The server's certificate has the name, and nothing listens there.
const SERVER: &str = "localhost:1";
/// `me:s3cret9` in base64.
const LOGIN: &str = "Proxy-Authorization: Basic bWU6czNjcmV0OQ==";

/// A proxy on loopback that connects every client to one address.
struct Proxy {
    port: u16,
    /// The requests to it, without headers that only differ between clients.
    asked: Arc<Mutex<BTreeSet<String>>>,
}

impl Proxy {
    async fn to(target: String) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked: Arc<Mutex<BTreeSet<String>>> = Arc::default();
        let record = asked.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                // Either end may close the connection.
                tokio::spawn(tunnel(stream, target.clone(), record.clone()));
            }
        });
        Proxy { port, asked }
    }
}

async fn tunnel(
    mut client: TcpStream,
    target: String,
    asked: Arc<Mutex<BTreeSet<String>>>,
) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let first = head.lines().next().unwrap_or_default();
    let login = head.lines().find(|line| line.starts_with("Proxy-Auth"));
    let shown = format!("{first}, {}", login.unwrap_or("no login"));
    asked.lock().unwrap().insert(shown);
    let mut server = TcpStream::connect(target).await?;
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
    copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}

#[tokio::test]
async fn through_the_proxy_of_its_kubeconfig_a_manager_leads_and_does_its_work() {
    let world = World::start(Setup::default()).await;
    let real = world.api.url().replace("https://", "");
    let proxy = Proxy::to(real).await;
    let file = world.kubeconfig();
    let mut kubeconfig: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let cluster = &mut kubeconfig["clusters"][0]["cluster"];
    cluster["server"] = json!(format!("https://{SERVER}"));
    cluster["proxy-url"] = json!(format!("http://me:s3cret9@127.0.0.1:{}", proxy.port));
    std::fs::write(file, kubeconfig.to_string()).unwrap();

    world.cloud.add_server(ServerSpec::named("worker-1"));
    world.add_node("worker-1", json!({})).await;
    let mut ccm = world.ccm(&world.configuration(json!({PLACE.0: PLACE.1})), &[]);
    world.initialised(&mut ccm, "worker-1").await;
    let services = Services::of(&world).await;
    services.create("web", load_balancer(&[80])).await;
    services.has_address(&mut ccm, "web").await;
    world.stop(ccm).await;

    let asked = world.asked();
    for (verb, resource) in [
        ("update", "leases"),
        ("watch", "nodes"),
        ("watch", "services"),
    ] {
        let mut its = asked.iter().filter(|entry| entry.verb == verb);
        assert!(
            its.any(|entry| entry.resource == resource),
            "{verb} {resource}"
        );
    }
    // The proxy gets the server's name and the login.
    let expected = format!("CONNECT {SERVER} HTTP/1.1, {LOGIN}");
    assert_eq!(*proxy.asked.lock().unwrap(), BTreeSet::from([expected]));
    assert!(!world.log().contains("s3cret9"), "{}", world.log());
}
