//! One guest, built twice: by `cargo build --target wasm32-wasip2`, as it ships, and by `cargo component build`, which
//! builds for wasm32-wasip1 and makes the component itself. Both are loaded, and have the same answers and requests
//! before the same cloud.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use ccm_core::cloud::load_balancer::{CloudService, DeleteRequest, EnsureRequest, UpdateRequest};
use ccm_core::cloud::{CloudNode, Readiness};
use ccm_core::cloud_provider::CloudProvider as _;
use ccm_core::safety::permit::{Mode, Permit};
use ccm_fixtures::TOKEN;
use ccm_fixtures::objects::cloud_service;
use ccm_fixtures::permits;
use ccm_host::grant::{Credential, Grants, Secret};
use ccm_host::{GuestConfig, Host, Module, Provider};
use ccm_sim::hetzner::{Hetzner, Options, ServerSpec, ServerStatus};
use tempfile::TempDir;

use super::{checkout, host, node, tool};

/// Builds the shipped guest with the other tool, out of the checkout and into another folder: without bindings of its
/// own to write, the tool writes nothing beside the sources.
fn component_build(folder: &Path) -> Vec<u8> {
    let output = Command::new(tool())
        .args(["component", "build", "--locked", "--profile", "guest"])
        .args(["--package", "guest-hcloud", "--target-dir"])
        .arg(folder)
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .current_dir(checkout())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "`cargo component build` failed; it needs `rustup target add wasm32-wasip1`:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    std::fs::read(folder.join("wasm32-wasip1/guest/guest_hcloud.wasm")).unwrap()
}

/// One build with a cloud of its own. Clouds answer the same requests alike: their clock stands still.
struct Build {
    provider: Provider,
    cloud: Hetzner,
}

impl Build {
    async fn load(host: &Host, wasm: Vec<u8>) -> Build {
        let cloud = Hetzner::start(Options {
            clock: Arc::new(|| std::time::UNIX_EPOCH + Duration::from_secs(1_700_000_000)),
            rate_limit: None,
            ..Options::new(TOKEN)
        });
        let cloud = cloud.await.unwrap();
        let inspection = ccm_host::inspect("hcloud.wasm", &wasm).unwrap();
        let targets = inspection.manifest.targets.iter();
        let targets = targets.filter(|target| target.name == "api").map(|target| {
            let mut grant = target.as_grant();
            grant.endpoint = cloud.endpoint().parse().unwrap();
            grant.credential = Credential::Bearer(Secret::new(TOKEN.to_owned()));
            grant
        });
        let grants = Grants {
            targets: targets.collect(),
            annotation_prefixes: Vec::new(),
        };
        let location = ("HCLOUD_LOAD_BALANCERS_LOCATION", "fsn1");
        let config = GuestConfig {
            schemes: Vec::new(),
            cluster_name: "kubernetes".to_owned(),
            cluster_cidrs: Vec::new(),
            values: [(location.0.to_owned(), location.1.to_owned())].into(),
        };
        let module = Module {
            source: "hcloud.wasm".to_owned(),
            wasm: wasm.into(),
        };
        let provider = host.load(module, grants, config).await.unwrap();
        Build { provider, cloud }
    }

    /// Plays the same calls for each build, and returns one line for each answer, and at the end the requests and the
    /// final state of its cloud.
    async fn play(&self) -> Vec<String> {
        let Build { provider, cloud } = self;
        let mut reported = Vec::new();
        let known = cloud.add_server(ServerSpec::named("known"));
        let off = cloud.add_server(ServerSpec::named("off"));
        cloud.set_status(off, ServerStatus::Off);
        reported.push(format!("{:?}", provider.manifest()));
        reported.push(format!("{:?}", provider.self_check(permit()).await));

        let on = |name: &str, id: u64| CloudNode {
            provider_id: Some(format!("hcloud://{id}")),
            readiness: Readiness::NotReady,
            initialized: true,
            ..node(name, None)
        };
        let nodes = [
            node("known", None),
            on("known", known),
            on("off", off),
            on("gone", 4_711),
            node("stranger", None),
            node("elsewhere", Some("aws:///eu-central-1a/i-0")),
        ];
        reported.push(format!("{:?}", provider.find(&nodes, permit()).await));
        reported.push(format!("{:?}", provider.find_fresh(&nodes, permit()).await));

        for ports in [&[80, 443][..], &[443]] {
            let request = EnsureRequest {
                service: Arc::new(service(ports)),
                targets: Arc::new([Arc::new(on("known", known))]),
                adopt: None,
                hint: None,
            };
            let reply = provider.ensure_load_balancer(&request, permit()).await;
            reported.push(format!("{reply:?}"));
        }
        let request = UpdateRequest {
            service: Arc::new(service(&[443])),
            targets: Arc::new([Arc::new(on("known", known)), Arc::new(on("off", off))]),
            hint: None,
        };
        let reply = provider.update_targets(&request, permit()).await;
        reported.push(format!("{reply:?}"));
        let reply = provider.get_load_balancer(&request.service, permit()).await;
        reported.push(format!("{reply:?}"));
        let balancers = cloud.load_balancers();
        assert_eq!(balancers.len(), 1, "{reported:#?}");
        reported.push(format!("{balancers:?}"));
        let request = DeleteRequest {
            service: request.service,
            hint: None,
        };
        let reply = provider.delete_load_balancer(&request, permit()).await;
        reported.push(format!("{reply:?}"));
        assert!(cloud.load_balancers().is_empty(), "{reported:#?}");

        // Parallel requests of a guest arrive in any order.
        let asked = cloud.requests();
        assert!(asked.len() > 10, "{asked:?}");
        let mut asked: Vec<_> = asked
            .iter()
            .map(|one| format!("{} {} {:?}", one.method, one.path, one.status))
            .collect();
        asked.sort();
        reported.extend(asked);
        // The only difference between the two clouds.
        let endpoint = cloud.address().to_string();
        reported
            .into_iter()
            .map(|line| line.replace(&endpoint, "CLOUD"))
            .collect()
    }
}

fn permit() -> Arc<Permit> {
    let until = ccm_host::egress::now().after(Duration::from_secs(60));
    permits::permit(until, Mode::Enforce, 50)
}

fn service(ports: &[u16]) -> CloudService {
    let uid = "11111111-2222-3333-4444-555555555555";
    let ports = ports.iter().map(|port| (*port, 30_000 + port));
    cloud_service("web", uid, &ports.collect::<Vec<_>>())
}

#[test]
fn the_shipped_guest_says_and_does_the_same_when_cargo_component_builds_it() {
    let folder = TempDir::new().unwrap();
    let ours = embedded_guests::HCLOUD.to_vec();
    let theirs = component_build(folder.path());
    assert_ne!(ours, theirs, "they are two builds");
    // Two builds loaded under one name would share the host's rate-limit holds; so each has a host of its own.
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let ours = Build::load(&host(), ours).await.play().await;
        let theirs = Build::load(&host(), theirs).await.play().await;
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert_eq!(ours, theirs);
        }
        assert_eq!(ours.len(), theirs.len());
    });
}
