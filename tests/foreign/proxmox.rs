//! The shipped Proxmox guest in the real sandbox before fakepve, a simulator of others, unmodified and in a process of
//! its own; proxmoxer, a client of others, makes and destroys the machines. The server is as in an operator's own
//! network: no public authority has signed its certificate, and the grant names the certificate's fingerprint, or the
//! private authority.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ccm_core::cloud::{CloudNode, FindReply, Instance, Lookup, ProviderError, Readiness};
use ccm_core::cloud_provider::CloudProvider as _;
use ccm_core::safety::permit::Permit;
use ccm_host::grant::{Credential, Fingerprint, Grants, Secret, TargetGrant};
use ccm_host::{GuestConfig, Module, Provider};
use ccm_tests::compiled_modules;
use ccm_tests::conformance::{Tested, conforms};
use serde_json::{Value, json};

use super::pve::{self, Pve, SECRET, USER, machine};
use super::python::Client;

/// How the server's certificate is verified.
enum KnownBy {
    Fingerprint(Fingerprint),
    Authority(String),
    /// Signed by an authority that the system trusts.
    Platform,
}

/// An operator's grants, with this secret of the token.
fn grants(pve: &Pve, secret: &str, known: KnownBy, is_agent_granted: bool) -> Grants {
    let (fingerprints, ca_pem) = match known {
        KnownBy::Fingerprint(fingerprint) => (vec![fingerprint], None),
        KnownBy::Authority(pem) => (Vec::new(), Some(pem)),
        KnownBy::Platform => (Vec::new(), None),
    };
    let inspection = ccm_host::inspect("proxmox", embedded_guests::PROXMOX).unwrap();
    let targets = inspection.manifest.targets.iter();
    let targets = targets.filter(|target| target.required || is_agent_granted);
    let grant = |target: &ccm_host::manifest::Target| TargetGrant {
        endpoint: format!("{}/api2/json", pve.url).parse().unwrap(),
        credential: Credential::Header {
            name: "Authorization".to_owned(),
            value: Secret::new(Pve::authorization(secret)),
        },
        fingerprints: fingerprints.clone(),
        ca_pem: ca_pem.clone(),
        ..target.as_grant()
    };
    Grants {
        targets: targets.map(grant).collect(),
        annotation_prefixes: Vec::new(),
    }
}

fn known(pve: &Pve) -> KnownBy {
    KnownBy::Fingerprint(pve.fingerprint)
}

async fn load(grants: Grants, values: &[(&str, &str)]) -> Provider {
    let module = Module {
        source: "embedded:proxmox".to_owned(),
        wasm: Bytes::from_static(embedded_guests::PROXMOX),
    };
    let values = [("PROXMOX_REGION", "home")].iter().chain(values);
    let config = GuestConfig {
        values: values
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect(),
        ..GuestConfig::default()
    };
    super::host().load(module, grants, config).await.unwrap()
}

fn permit() -> Arc<Permit> {
    let until = ccm_host::egress::now().after(Duration::from_secs(60));
    Arc::new(Permit::read_only(until))
}

fn new(name: &str, uuid: &str) -> CloudNode {
    CloudNode {
        system_uuid: Some(uuid.to_owned()),
        ..super::node(name, None)
    }
}

fn node(name: &str, vmid: u64, uuid: &str) -> CloudNode {
    let label = (
        "node.kubernetes.io/instance-type".to_owned(),
        "x".to_owned(),
    );
    CloudNode {
        provider_id: Some(format!("proxmox://home/{vmid}")),
        labels: [label].into(),
        readiness: Readiness::Unknown,
        initialized: true,
        ..new(name, uuid)
    }
}

fn brief(reply: &FindReply) -> Vec<String> {
    let show = |lookup: &Lookup| match lookup {
        Lookup::Found(instance) => instance.provider_id.clone(),
        Lookup::Gone => "gone".to_owned(),
        Lookup::NotMine => "not mine".to_owned(),
        Lookup::Unknown(why) => format!("unknown: {why}"),
    };
    reply.lookups.iter().map(show).collect()
}

fn instance(reply: &FindReply) -> &Instance {
    match reply.lookups.as_slice() {
        [Lookup::Found(instance)] => instance,
        other => panic!("{other:?}"),
    }
}

const UUIDS: [&str; 3] = [
    "0b1ad2a0-55b9-4f0e-a6a2-4b5c2b1a7f10",
    "1c2be3b1-66ca-4a1f-b7b3-5c6d3c2b8a21",
    "2d3cf4c2-77db-4b2a-88c4-6d7e4d3c9b32",
];

#[test]
fn proxmox_is_served_by_a_simulator_of_others_and_driven_by_a_client_of_others() {
    let client = Client::install("proxmox");
    let mut pve = Pve::serve(&client);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    pve.order(&json!(["add_node", "pve2"]));
    let [a, b, c] = UUIDS;
    pve.calls(
        &client,
        json!([
            machine("pve1", 101, "worker-1", a, json!({"agent": "1"})),
            machine(
                "pve1",
                102,
                "worker-2.example.com",
                b,
                json!({"smbios1": format!("uuid={b},base64=1,sku=YmlnLTE=")})
            ),
            machine("pve2", 103, "worker-3", c, json!({})),
        ]),
    );
    conforms_to_the_contract(&pve);
    runtime.block_on(a_private_authority(&mut pve));
    the_configuration_names_a_private_authority(&mut pve);
    runtime.block_on(lifecycles(&client, &mut pve));
    runtime.block_on(trouble(&mut pve));
}

/// The report of `ccm provider test`, run as a third party runs it.
fn conforms_to_the_contract(pve: &Pve) {
    let folder = tempfile::TempDir::new().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, Pve::authorization(SECRET)).unwrap();
    let known = json!({"certificateFingerprints": [pve.fingerprint.to_string()]});
    let config = configuration([entry(pve, "proxmox", &token, known)]);
    let tested = Tested {
        program: Path::new(super::CCM),
        module: "embedded:proxmox",
        config: &config.to_string(),
        arguments: &[
            "--node=worker-1=proxmox://home/101",
            "--node=worker-3=proxmox://home/103",
            "--gone=proxmox://home/4711",
            &compiled_modules::argument(env!("CARGO_TARGET_TMPDIR")),
            "--timeout=60s",
        ],
    };
    let applicable = [
        "contract/self-check",
        "instances/found",
        "instances/gone",
        "instances/not-gone-by-failing",
        "instances/throttled",
    ];
    conforms(&tested, &applicable).unwrap();
}

fn configuration<const N: usize>(entries: [Value; N]) -> Value {
    json!({
        "apiVersion": "wasm-ccm.dev/v1alpha1",
        "kind": "ProviderConfiguration",
        "providers": entries.to_vec(),
    })
}

/// An entry of the configuration, whose target has these fields as well.
fn entry(pve: &Pve, name: &str, token: &Path, known: Value) -> Value {
    let inspection = ccm_host::inspect("proxmox", embedded_guests::PROXMOX).unwrap();
    let mut target = json!({
        "name": "api",
        "endpoint": format!("{}/api2/json", pve.url),
        "credential": {"header": {"name": "Authorization", "value": {"file": token}}},
        "requestBudget": {"requests": 1_000_000, "per": "1m"},
        "rules": pve::rules(),
    });
    let fields = target.as_object_mut().unwrap();
    fields.extend(known.as_object().unwrap().clone());
    json!({
        "name": name,
        "source": "file:///tested.wasm",
        "trust": {"digest": inspection.digest.to_string()},
        "config": {"PROXMOX_REGION": "home"},
        "grants": {"targets": [target]},
    })
}

const UNTRUSTED: &str = "no trusted authority has signed the certificate";

/// Of several providers in one process only the one whose grant names the authority trusts it.
async fn a_private_authority(pve: &mut Pve) {
    let authority = || KnownBy::Authority(pve.ca_pem.clone());
    let trusting = load(grants(pve, SECRET, authority(), false), &[]).await;
    let stranger = ccm_tests::authority::issue("stranger").unwrap().ca_pem;
    let mut others = Vec::new();
    for known in [KnownBy::Platform, KnownBy::Authority(stranger)] {
        others.push(load(grants(pve, SECRET, known, false), &[]).await);
    }
    pve.requests();
    for _ in 0..2 {
        trusting.self_check(permit()).await.unwrap();
        assert_eq!(pve.requests().len(), 1);
        for other in &others {
            let refused = other.self_check(permit()).await.unwrap_err();
            assert!(
                matches!(&refused, ProviderError::Unavailable(why) if why.contains(UNTRUSTED)),
                "{refused:?}"
            );
        }
        assert_eq!(pve.requests(), [] as [&str; 0]);
    }
}

/// The same from the file of `--config`, by the program.
fn the_configuration_names_a_private_authority(pve: &mut Pve) {
    let folder = tempfile::TempDir::new().unwrap();
    let written = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let token = written("token", &Pve::authorization(SECRET));
    let bundle = written("ca.pem", &pve.ca_pem);
    let config = configuration([
        entry(pve, "trusting", &token, json!({"caFile": bundle})),
        entry(pve, "other", &token, json!({})),
    ]);
    let config = written("ccm.yaml", &config.to_string());
    for (provider, code, expected, requests) in
        [("trusting", 0, "self-check", 1), ("other", 2, UNTRUSTED, 0)]
    {
        let output = Command::new(super::CCM)
            .args(["provider", "check", "--online", "embedded:proxmox"])
            .arg("--config")
            .arg(&config)
            .args(["--provider", provider])
            .output()
            .unwrap();
        let reported = [output.stdout, output.stderr].concat();
        let reported = String::from_utf8_lossy(&reported);
        assert_eq!(output.status.code(), Some(code), "{provider}: {reported}");
        assert!(reported.contains(expected), "{provider}: {reported}");
        assert_eq!(pve.requests().len(), requests, "{provider}");
    }
}

/// Machines that start, stop and are destroyed, and whose numbers are used again.
async fn lifecycles(client: &Client, pve: &mut Pve) {
    let [a, b, c] = UUIDS;
    let provider = load(grants(pve, SECRET, known(pve), false), &[]).await;
    assert_eq!(provider.warnings(), [] as [&str; 0]);
    pve.requests();
    provider.self_check(permit()).await.unwrap();
    assert_eq!(pve.requests(), ["GET /api2/json/access/permissions"]);

    let find = async |nodes: &[CloudNode]| provider.find(nodes, permit()).await.unwrap();
    let reply = find(&[new("worker-1", &a.to_uppercase())]).await;
    let first = instance(&reply);
    assert_eq!(first.provider_id, "proxmox://home/101");
    assert_eq!(first.instance_type.as_deref(), Some("2VCPU-2GB"));
    assert_eq!(
        (first.zone.as_deref(), first.region.as_deref()),
        (Some("pve1"), Some("home"))
    );
    assert_eq!(first.shutdown, Some(false));
    let asked = [
        "GET /api2/json/cluster/resources",
        "GET /api2/json/nodes/pve1/qemu/101/config",
    ];
    assert_eq!(pve.requests(), asked);
    let reply = find(&[new("worker-2", b)]).await;
    assert_eq!(instance(&reply).instance_type.as_deref(), Some("big-1"));
    // The name is another machine's, or no machine's.
    let reply = find(&[new("worker-3", a), new("laptop", c)]).await;
    assert_eq!(brief(&reply), ["not mine", "not mine"]);
    pve.requests();

    let nodes = [
        node("worker-1", 101, a),
        node("worker-2", 102, b),
        node("worker-3", 103, c),
    ];
    let all = [
        "proxmox://home/101",
        "proxmox://home/102",
        "proxmox://home/103",
    ];
    assert_eq!(brief(&find(&nodes).await), all);
    assert_eq!(
        pve.requests(),
        ["GET /api2/json/cluster/resources"],
        "one list for all"
    );

    pve.calls(
        client,
        json!([["post", "nodes/pve1/qemu/102/status/stop", {}]]),
    );
    assert_eq!(instance(&find(&nodes[1..2]).await).shutdown, Some(true));
    pve.calls(client, json!([["delete", "nodes/pve1/qemu/102", {}]]));
    let reply = provider.find_fresh(&nodes, permit()).await.unwrap();
    assert_eq!(brief(&reply), [all[0], "gone", all[2]]);
    assert!(reply.complete, "two answers, both whole");

    // Another machine has its number now.
    pve.calls(
        client,
        json!([machine(
            "pve2",
            102,
            "database",
            &UUIDS[1].replace('1', "9"),
            json!({})
        )]),
    );
    let reply = provider.find_fresh(&nodes, permit()).await.unwrap();
    assert_eq!(brief(&reply), [all[0], "gone", all[2]]);
    assert!(reply.complete);

    // The machine's pool is the zone.
    pve.calls(
        client,
        json!([
            ["post", "pools", {"poolid": "rack-a"}],
            ["put", "pools/rack-a", {"vms": "101"}],
        ]),
    );
    let pools = load(
        grants(pve, SECRET, known(pve), false),
        &[("PROXMOX_ZONE", "pool")],
    )
    .await;
    let reply = pools.find(&[new("worker-1", a)], permit()).await.unwrap();
    assert_eq!(instance(&reply).zone.as_deref(), Some("rack-a"));

    // The guest agent's addresses, once it runs.
    let ranges = [("PROXMOX_EXTERNAL_CIDRS", "203.0.113.0/24")];
    let agents = load(grants(pve, SECRET, known(pve), true), &ranges).await;
    let reply = agents.find(&[new("worker-1", a)], permit()).await.unwrap();
    assert!(
        brief(&reply)[0].contains("guest agent is not running"),
        "{reply:?}"
    );
    let interfaces = json!([
        {"name": "lo", "ip-addresses": [{"ip-address": "127.0.0.1", "ip-address-type": "ipv4", "prefix": 8}]},
        {"name": "eth0", "ip-addresses": [{"ip-address": "203.0.113.7", "ip-address-type": "ipv4", "prefix": 24}]},
        {"name": "cni0", "ip-addresses": [{"ip-address": "10.244.0.1", "ip-address-type": "ipv4", "prefix": 24}]},
    ]);
    pve.order(&json!(["agent", 101, interfaces]));
    let reply = agents.find(&[new("worker-1", a)], permit()).await.unwrap();
    let addresses = instance(&reply).addresses.iter();
    let addresses: Vec<_> = addresses.map(|one| one.address.as_str()).collect();
    assert_eq!(addresses, ["worker-1", "203.0.113.7"]);
}

/// A Proxmox node that does not answer, a token that sees less, a wrong token, a wrong certificate.
async fn trouble(pve: &mut Pve) {
    let [a, b, c] = UUIDS;
    let provider = load(grants(pve, SECRET, known(pve), false), &[]).await;
    let absent = node("gone", 199, b);
    pve.order(&json!(["set_node_offline", "pve2"]));
    let nodes = [
        node("worker-1", 101, a),
        node("worker-3", 103, c),
        absent.clone(),
    ];
    let reply = provider.find_fresh(&nodes, permit()).await.unwrap();
    let stateless = "unknown: Proxmox has no state of machine 103 on pve2: the node does not answer, its pvestatd hangs, or the machine was made just now";
    assert_eq!(brief(&reply), ["proxmox://home/101", stateless, "gone"]);
    pve.order(&json!(["set_node_offline", "pve2", false]));

    // From here on the token has only these rights: a machine that it cannot see is not gone.
    pve.order(&json!(["grant", USER, "/pool/rack-a", "VM.Audit"]));
    let nodes = [node("worker-1", 101, a), node("worker-3", 103, c), absent];
    let reply = provider.find_fresh(&nodes, permit()).await.unwrap();
    let reported = brief(&reply);
    assert_eq!(reported[0], "proxmox://home/101");
    for one in &reported[1..] {
        assert!(
            one.starts_with("unknown: the list lacks the machine"),
            "{one}"
        );
    }

    let stranger = load(grants(pve, "another-secret", known(pve), false), &[]).await;
    let refused = stranger.find(&nodes, permit()).await.unwrap_err();
    assert!(matches!(refused, ProviderError::Denied(_)), "{refused:?}");
    assert!(!refused.to_string().contains("another-secret"), "{refused}");

    pve.requests();
    let other: Fingerprint = vec!["ab"; 32].join(":").parse().unwrap();
    let impostor = load(grants(pve, SECRET, KnownBy::Fingerprint(other), false), &[]).await;
    let refused = impostor.find(&nodes, permit()).await.unwrap_err();
    let line = format!(
        "its SHA-256 fingerprint is {}, and the grant names {other}",
        pve.fingerprint
    );
    assert!(refused.to_string().contains(&line), "{refused}");
    assert_eq!(pve.requests(), [] as [&str; 0]);
}
