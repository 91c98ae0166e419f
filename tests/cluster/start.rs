//! The start of a process: the port opens before the provider is loaded, and all controllers share one watch.

use ccm_tests::ports;
use ccm_tests::process::Process;

use crate::delivered::Delivered;
use crate::pod_network::{DOCUMENTED, Network, names, setup};
use crate::providers::version;
use crate::services::{Services, load_balancer};
use crate::world::{Setup, World, until};

#[tokio::test]
async fn proc_033_all_controllers_share_one_watch_of_nodes_and_one_of_services() {
    let world = World::start(Setup {
        // An API server that does not stream lists: a list is then a request of its own.
        server_flags: vec!["--feature-gates=WatchList=false".to_owned()],
        ..setup()
    })
    .await;
    let network = Network::documented(&world);
    network.populate(&world, &names("worker", 2)).await;
    let mut ccm = world.ccm(&network.configuration(&world), DOCUMENTED);
    network.all_routed(&world, &mut ccm, 2).await;
    let services = Services::of(&world).await;
    services.create("web", load_balancer(&[80])).await;
    services.has_address(&mut ccm, "web").await;
    world.stop(ccm).await;

    let asked = world.asked();
    for resource in ["nodes", "services"] {
        let lists = asked.iter().filter(|entry| entry.verb == "list");
        let lists: Vec<_> = lists.filter(|entry| entry.resource == resource).collect();
        assert_eq!(lists.len(), 1, "{lists:#?}");
        let mut watches = asked.iter().filter(|entry| entry.verb == "watch");
        assert!(watches.any(|entry| entry.resource == resource));
    }
}

/// Waits until a path of the port answers with this code, and its text contains these words.
async fn answers(ccm: &mut Process, port: u16, path: &str, code: u16, words: &str) {
    let client = reqwest::Client::builder()
        .tls_danger_accept_invalid_certs(true)
        .build()
        .unwrap();
    let url = format!("https://127.0.0.1:{port}{path}");
    until(ccm, &format!("{code} at {path}"), async || {
        let answer = client.get(&url).send().await.ok()?;
        let is_code = answer.status() == code;
        let text = answer.text().await.ok()?;
        (is_code && text.contains(words)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn proc_050_the_port_answers_before_a_provider_serves() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let world = crate::providers::world().await;
    let delivered = Delivered::of(&world).await;
    let aside = world.file("aside.wasm", version("1.0.0").await);
    let file = aside.with_file_name("provider.wasm");
    let source = format!("file://{}", file.display());
    delivered.configure(&[delivered.entry("hcloud", &source)]);
    let port = ports::keep().unwrap();
    let flags = [format!("--secure-port={port}")];
    let mut ccm = delivered.ccm_with(&flags, &[]);
    let path = "/readyz?verbose";
    answers(&mut ccm, port, path, 500, "[-]provider failed").await;
    answers(&mut ccm, port, "/livez", 200, "ok").await;

    std::fs::rename(aside, file).unwrap();
    answers(&mut ccm, port, path, 200, "[+]provider ok").await;
    world.stop(ccm).await;
}
