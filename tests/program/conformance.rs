//! `ccm provider test`: the shipped guests keep every law of the contract, and a guest that breaks some is told which.

use std::path::Path;
use std::time::Duration;

use ccm_sim::hetzner::{Hetzner, Location, Options, ServerSpec};
use ccm_tests::conformance::{At, Tested, configuration, conforms};
use serde_json::json;
use tempfile::TempDir;

const TOKEN: &str = "a-token-that-no-guest-sees";

fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_ccm"))
}

/// A simulated Hetzner Cloud with two servers in a network, whose actions take a while.
async fn cloud() -> (Hetzner, [u64; 2]) {
    let cloud = Hetzner::start(Options {
        rate_limit: None,
        action_duration: Duration::from_millis(50),
        ..Options::new(TOKEN)
    });
    let cloud = cloud.await.unwrap();
    let (all, part) = (
        "10.0.0.0/8".parse().unwrap(),
        "10.0.0.0/24".parse().unwrap(),
    );
    let network = cloud.add_network_with_subnet("cluster", all, part, Location::Fsn1);
    let servers = ["worker-1", "worker-2"].map(|name| {
        let server = cloud.add_server(ServerSpec::named(name));
        cloud.attach(server, network, None).unwrap();
        server
    });
    (cloud, servers)
}

#[test]
fn hcloud_keeps_every_law() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (cloud, [one, two]) = runtime.block_on(cloud());
    let folder = TempDir::new().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, TOKEN).unwrap();
    let api = At {
        target: "api",
        endpoint: &cloud.endpoint(),
        credential: json!({ "bearer": { "file": token } }),
    };
    let values = [
        ("HCLOUD_LOAD_BALANCERS_LOCATION", "fsn1"),
        ("HCLOUD_NETWORK", "cluster"),
        ("HCLOUD_NETWORK_ROUTES_ENABLED", "true"),
    ];
    let module = "embedded:hcloud";
    let config = configuration(program(), module, &[api], &values).unwrap();
    let nodes = [
        format!("--node=worker-1=hcloud://{one}"),
        format!("--node=worker-2=hcloud://{two}"),
    ];
    let arguments = [
        nodes[0].as_str(),
        &nodes[1],
        "--gone=hcloud://4711",
        "--cluster-cidr=10.244.0.0/16",
        "--allow-changes",
        "--timeout=60s",
    ];
    let tested = Tested {
        program: program(),
        module,
        config: &config,
        arguments: &arguments,
    };
    let applicable = [
        "contract/self-check",
        "instances/gone",
        "instances/not-gone-by-failing",
        "load-balancer/answers-lost",
        "load-balancer/hints-dropped",
        "routes/answers-lost",
        "contract/cleaned-up",
    ];
    let report = conforms(&tested, &applicable).unwrap();
    assert!(cloud.load_balancers().is_empty(), "{report:#}");
}
