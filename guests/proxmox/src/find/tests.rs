//! Which requests answer which nodes, with a scripted Proxmox cluster.
#![allow(clippy::unwrap_used, reason = "tests")]

use ccm_guest::http::FetchError;
use ccm_guest::testing::{Answer, Seen, TestHost, config, json, node, ready};
use ccm_guest::{Address, Provider as _};
use serde_json::{Value, json as value};

use super::*;
use crate::Proxmox;

mod options;

const MANIFEST: &str = include_str!("../../manifest.json");

/// The scripted cluster: machines as (number, name, Proxmox node, status, UUID).
#[derive(Clone)]
struct Pve {
    machines: Vec<(u64, &'static str, &'static str, &'static str, &'static str)>,
    rights: Value,
}

impl Pve {
    fn new(machines: &[(u64, &'static str, &'static str, &'static str, &'static str)]) -> Pve {
        Pve {
            machines: machines.to_vec(),
            rights: value!({"/": {"VM.Audit": 1}}),
        }
    }

    fn answer(&self, request: &Seen) -> Answer {
        let data = |data: Value| json(200, &value!({"data": data}).to_string());
        let path = request.path_only();
        if path == "/cluster/resources" {
            let list = self.machines.iter().map(|(vmid, name, node, status, _)| {
                value!({
                    "vmid": vmid, "type": "qemu", "name": name, "node": node, "status": status, "template": 0,
                    "maxcpu": 2, "maxmem": 4_294_967_296_u64, "id": format!("qemu/{vmid}"),
                })
            });
            let container = value!({"vmid": 900, "type": "lxc", "name": "new", "node": "pve1", "status": "running"});
            let template = value!({"vmid": 901, "type": "qemu", "name": "new", "node": "pve1", "status": "stopped", "template": 1});
            return data(list.chain([container, template]).collect());
        }
        if path == "/access/permissions" {
            return data(match request.query("path") {
                Some(path) => value!({path: self.rights_on(path)}),
                None => self.rights.clone(),
            });
        }
        let mut known = self.machines.iter();
        let its =
            known.find(|(vmid, _, node, ..)| path == format!("/nodes/{node}/qemu/{vmid}/config"));
        match its {
            Some((.., "")) => data(value!({})),
            Some((.., uuid)) => data(value!({"smbios1": format!("uuid={uuid}")})),
            None => json(
                500,
                r#"{"data": null, "message": "Configuration file does not exist\n"}"#,
            ),
        }
    }

    /// The rights of the longest path that has some: they replace those that come from above.
    fn rights_on(&self, path: &str) -> Value {
        let all = self.rights.as_object().unwrap().iter();
        let on = all.filter(|(above, _)| path.starts_with(*above));
        let nearest = on.max_by_key(|(above, _)| above.len());
        nearest.map_or(value!({}), |(_, rights)| rights.clone())
    }

    fn host(&self) -> TestHost {
        let pve = self.clone();
        TestHost::new(MANIFEST, move |request| pve.answer(request))
    }
}

fn provider() -> Proxmox {
    Proxmox::init(&config(&[("PROXMOX_REGION", "home")])).unwrap()
}

/// A node that is not initialised and has no provider ID.
fn new(name: &str, uuid: &str) -> Node {
    Node {
        addresses: vec![Address::internal("10.0.7.3")],
        system_uuid: Some(uuid.to_owned()),
        ..node(name, None)
    }
}

/// A node that is not initialised, and whose kubelet was given its provider ID.
fn given(name: &str, id: &str, uuid: &str) -> Node {
    Node {
        provider_id: Some(id.to_owned()),
        ..new(name, uuid)
    }
}

/// An initialised node.
fn known(name: &str, id: &str, uuid: &str) -> Node {
    Node {
        initialized: true,
        provider_id: Some(id.to_owned()),
        ..new(name, uuid)
    }
}

fn brief(lookup: &Lookup) -> String {
    match lookup {
        Lookup::Found(one) => one.provider_id.clone(),
        Lookup::Gone => "gone".to_owned(),
        Lookup::NotMine => "not mine".to_owned(),
        Lookup::Unknown(why) => format!("unknown: {why}"),
    }
}

fn ask(host: &TestHost, nodes: &[Node]) -> Vec<String> {
    let reply = host.find(&provider(), nodes.to_vec()).unwrap();
    reply.lookups.iter().map(brief).collect()
}

fn pve() -> Pve {
    Pve::new(&[
        (101, "a", "pve1", "running", "u-a"),
        (102, "b.example.com", "pve2", "stopped", "u-b"),
        (103, "c", "pve3", "unknown", "u-c"),
        (104, "other", "pve1", "running", "u-d"),
        (105, "renamed", "pve1", "running", "u-e"),
        (106, "twin", "pve1", "running", "u-t"),
        (107, "twin", "pve2", "running", "u-t"),
        (108, "bare", "pve1", "running", ""),
        (109, "Upper", "pve1", "running", "u-up"),
    ])
}

#[test]
fn each_node_gets_what_is_proven_about_its_machine() {
    const C_HAS_NO_STATE: &str = "unknown: Proxmox has no state of machine 103 on pve3: the node does not answer, its pvestatd hangs, or the machine was made just now";
    let table = [
        (new("a", "U-A"), "proxmox://home/101"),
        (new("b", "u-b"), "proxmox://home/102"),
        (new("a", "u-x"), "not mine"),
        (new("nobody", "u-a"), "not mine"),
        (new("c", "u-c"), C_HAS_NO_STATE),
        (
            new("twin", "u-t"),
            "unknown: the machines 106 and 107 have the node's name and UUID",
        ),
        (
            new("bare", "u-x"),
            "unknown: machine 108 has the node's name, and there is no UUID to compare",
        ),
        (
            node("a", None),
            "unknown: machine 101 has the node's name, and there is no UUID to compare",
        ),
        (new("new", "u-n"), "not mine"),
        // Names of nodes have small letters only.
        (new("upper", "u-up"), "proxmox://home/109"),
        (
            known("upper", "proxmox://home/109", ""),
            "proxmox://home/109",
        ),
        // The container with the name and the number of this node exists.
        (
            known("new", "proxmox://home/900", "u-n"),
            "unknown: machine 900 is a container, and only virtual machines are looked up",
        ),
        (known("k", "proxmox://home/900", "u-k"), "gone"),
        (known("new", "proxmox://home/901", "u-n"), "gone"),
        (
            known("a", "proxmox://home/101", "u-a"),
            "proxmox://home/101",
        ),
        // The name suffices: a machine that was created again under its number and name is still the node's.
        (
            known("a", "proxmox://home/101", "u-x"),
            "proxmox://home/101",
        ),
        (known("c", "proxmox://home/103", "u-c"), C_HAS_NO_STATE),
        (known("d", "proxmox://home/104", "u-gone"), "gone"),
        (
            known("e", "proxmox://home/105", "u-e"),
            "proxmox://home/105",
        ),
        (
            known("f", "proxmox://home/108", "u-f"),
            "unknown: machine 108 has another name, and there is no UUID to compare",
        ),
        (known("g", "proxmox://home/199", "u-g"), "gone"),
        (known("h", "proxmox://elsewhere/101", "u-h"), "not mine"),
        (known("i", "hcloud://101", "u-i"), "not mine"),
        (
            known("j", "proxmox://home/x", "u-j"),
            "unknown: the provider ID \"proxmox://home/x\" is not of the form proxmox://<region>/<number>",
        ),
        // The machine of this number has the node's name and UUID.
        (
            known("a", "proxmox:///101", "u-a"),
            "unknown: the provider ID \"proxmox:///101\" is not of the form proxmox://<region>/<number>",
        ),
        // The kubelet was given the provider ID, and the node is not initialised yet.
        (
            given("a", "proxmox://home/101", "u-a"),
            "proxmox://home/101",
        ),
        (given("a", "proxmox://home/101", ""), "proxmox://home/101"),
        (
            given("a", "proxmox://home/101", "u-x"),
            "unknown: machine 101 has the node's name and another UUID",
        ),
        (
            given("bare", "proxmox://home/108", "u-x"),
            "proxmox://home/108",
        ),
        (
            given("e", "proxmox://home/105", "u-e"),
            "proxmox://home/105",
        ),
        (given("d", "proxmox://home/104", "u-gone"), "gone"),
        (
            given("f", "proxmox://home/108", "u-f"),
            "unknown: machine 108 has another name, and there is no UUID to compare",
        ),
    ];
    let host = pve().host();
    let (nodes, expected): (Vec<Node>, Vec<&str>) = table.into_iter().unzip();
    assert_eq!(ask(&host, &nodes), expected);
    for (node, expected) in nodes.iter().zip(&expected) {
        assert_eq!(
            ask(&host, std::slice::from_ref(node)),
            [*expected],
            "{}",
            node.name
        );
    }
}

/// The labels of a new node are written once, so its answer has all of them; those of a known node stay as they are.
#[test]
fn a_new_node_is_described_whatever_its_machine_is_called() {
    let table = [
        (new("a", "u-a"), true),
        (given("a", "proxmox://home/101", "u-a"), true),
        (given("e", "proxmox://home/105", "u-e"), true),
        (known("a", "proxmox://home/101", "u-a"), false),
        (known("e", "proxmox://home/105", "u-e"), false),
    ];
    let host = pve().host();
    for (node, expected) in table {
        let described = format!("{} {:?}", node.name, node.provider_id);
        let mut reply = host.find(&provider(), vec![node]).unwrap();
        match reply.lookups.remove(0) {
            Lookup::Found(instance) => {
                let has = (
                    instance.instance_type.is_some(),
                    !instance.labels.is_empty(),
                );
                assert_eq!(has, (expected, expected), "{described}");
            }
            other => panic!("{described}: {other:?}"),
        }
    }
}

/// Proxmox knows no addresses, so nobody else tells them when the kubelet gets another `--node-ip`.
#[test]
fn a_known_node_follows_its_kubelets_node_ip() {
    let key = "alpha.kubernetes.io/provided-node-ip";
    let host = pve().host();
    for (id, name, uuid) in [(101, "a", "u-a"), (105, "e", "u-e")] {
        for (provided, expected) in [
            ("10.0.7.4", &[][..]),
            ("10.0.7.4,2001:db8::1", &["10.0.7.4", name, "2001:db8::1"]),
        ] {
            let mut node = known(name, &format!("proxmox://home/{id}"), uuid);
            node.addresses = vec![Address::internal("10.0.7.4"), Address::hostname(name)];
            node.annotations = vec![(key.to_owned(), provided.to_owned())];
            let mut reply = host.find(&provider(), vec![node]).unwrap();
            let Lookup::Found(instance) = reply.lookups.remove(0) else {
                panic!("{name} {provided}")
            };
            let addresses = instance.addresses.iter();
            let shown: Vec<&str> = addresses.map(|one| one.address.as_str()).collect();
            assert_eq!(shown, expected, "{name} {provided}");
        }
    }
}

/// A role on a machine's own path replaces those that come from above.
#[test]
fn what_may_be_hidden_is_not_gone() {
    const HIDDEN: &str = "unknown: the list lacks the machine, and the token could not see it: it needs VM.Audit on /vms/199";
    let table = [
        (
            value!({"/": {"VM.Audit": 1}, "/vms/199": {"VM.Console": 1}}),
            HIDDEN,
        ),
        (value!({"/": {"VM.Audit": 1}, "/vms/199": {}}), HIDDEN),
        (value!({"/pool/k8s": {"VM.Audit": 1}}), HIDDEN),
        (value!({"/": {"VM.Audit": 1}, "/vms/101": {}}), "gone"),
        (value!({"/vms": {"VM.Audit": 1}}), "gone"),
    ];
    for (rights, expected) in table {
        let described = rights.to_string();
        let host = Pve { rights, ..pve() }.host();
        let absent = known("g", "proxmox://home/199", "u-g");
        assert_eq!(ask(&host, &[absent]), [expected], "{described}");
    }
}

#[test]
fn a_machine_that_is_switched_off_is_told() {
    let host = pve().host();
    let nodes = vec![
        known("a", "proxmox://home/101", "u-a"),
        known("b", "proxmox://home/102", "u-b"),
    ];
    let reply = host.find(&provider(), nodes).unwrap();
    let is_off = reply.lookups.iter().map(|one| match one {
        Lookup::Found(instance) => instance.shutdown,
        other => panic!("{other:?}"),
    });
    assert_eq!(is_off.collect::<Vec<_>>(), [Some(false), Some(true)]);
}

/// The table of `guests/proxmox/README.md` has the same numbers.
#[test]
fn each_event_costs_this_many_requests() {
    let machines = |count: u64| -> Pve {
        let names: Vec<&'static str> = (0..count)
            .map(|number| &*Box::leak(format!("n-{number}").into_boxed_str()))
            .collect();
        let list = (0..count)
            .zip(names)
            .map(|(number, name)| (number + 1, name, "pve1", "running", "u"));
        Pve::new(&list.collect::<Vec<_>>())
    };
    let all = |count: u64| {
        (0..count).map(|number| {
            known(
                &format!("n-{number}"),
                &format!("proxmox://home/{}", number + 1),
                "u",
            )
        })
    };
    let gone = |number: u64| {
        known(
            &format!("g-{number}"),
            &format!("proxmox://home/{}", 9_000 + number),
            "u",
        )
    };
    const KNOWN: &str = "| any number of known nodes, ready or not | 1 |";
    const GONE: &str = "| *n* of them are gone | 1 + *n* |";
    const NEW: &str = "| a new node | 2; with a guest agent 3 |";
    const MANY: &str = "| *n* new nodes at once | 1 + *n* |";
    const RENAMED: &str = "| a machine that was renamed | 1 more |";
    let table: Vec<(&str, u64, Vec<Node>, usize)> = vec![
        ("", 3, vec![known("x", "hcloud://1", "u")], 0),
        (KNOWN, 3, all(1).map(ready).collect(), 1),
        (KNOWN, 1_000, all(1_000).map(ready).collect(), 1),
        (KNOWN, 5_000, all(5_000).collect(), 1),
        (GONE, 3, vec![gone(1)], 2),
        (
            GONE,
            1_000,
            all(960).chain((0..40).map(gone)).collect(),
            1 + 40,
        ),
        (NEW, 3, vec![new("n-1", "u")], 2),
        (
            MANY,
            20,
            (0..20)
                .map(|number| new(&format!("n-{number}"), "u"))
                .collect(),
            1 + 20,
        ),
        (RENAMED, 3, vec![known("old", "proxmox://home/1", "u")], 2),
    ];
    let readme = include_str!("../../README.md");
    for (row, count, nodes, expected) in table {
        let host = machines(count).host();
        host.find(&provider(), nodes).unwrap();
        assert_eq!(host.requests().len(), expected, "{row}");
        assert!(
            readme.contains(row),
            "guests/proxmox/README.md lacks\n{row}"
        );
    }
}

#[test]
fn the_list_is_shared_while_everybody_is_ready_and_never_kept_for_a_proof() {
    let kept = |nodes: Vec<Node>| {
        let host = pve().host();
        host.find(&provider(), nodes).unwrap();
        host.seen().remove(0).headers
    };
    let node = known("a", "proxmox://home/101", "u-a");
    let header = ("cache-control".to_owned(), "max-age=5".to_owned());
    assert_eq!(kept(vec![ready(node.clone())]), [header]);
    assert_eq!(kept(vec![ready(node.clone()), node]), []);
}

#[test]
fn nothing_is_gone_when_something_could_not_be_read() {
    let troubles: [fn(&Seen) -> Option<Answer>; 6] = [
        |_| Some(json(500, "")),
        |_| Some(json(596, "")),
        |_| Some(json(200, r#"{"data": [{"vmid": 101"#)),
        |_| Some(json(200, r#"{"data": null}"#)),
        |_| Some(Err(FetchError::TimedOut("late".to_owned()))),
        // Only the requests after the list fail.
        |request| (request.path_only() != "/cluster/resources").then(|| json(595, "")),
    ];
    for (number, trouble) in troubles.into_iter().enumerate() {
        let pve = pve();
        let host = TestHost::new(MANIFEST, move |request| {
            trouble(request).unwrap_or_else(|| pve.answer(request))
        });
        let nodes = vec![
            known("g", "proxmox://home/199", "u-g"),
            known("d", "proxmox://home/104", "u-gone"),
            new("a", "u-a"),
        ];
        match host.find(&provider(), nodes) {
            Err(_) => {}
            Ok(reply) => assert!(
                reply
                    .lookups
                    .iter()
                    .all(|one| matches!(one, Lookup::Unknown(_))),
                "{number}: {:?}",
                reply.lookups
            ),
        }
        assert!(!host.requests().is_empty());
    }
}

/// Proxmox may know neither the state nor the name of a machine.
#[test]
fn a_machine_without_a_name_may_be_any_node() {
    const SILENT: &str = "unknown: Proxmox has no state of machine 101 on pve1: the node does not answer, its pvestatd hangs, or the machine was made just now";
    let known = known("a", "proxmox://home/101", "u-a");
    let table = [
        ("qemu", "unknown", new("a", "u-a"), SILENT),
        ("qemu", "running", new("a", "u-a"), "not mine"),
        ("lxc", "unknown", new("a", "u-a"), "not mine"),
        ("qemu", "unknown", known.clone(), SILENT),
        ("lxc", "unknown", known, SILENT),
    ];
    for (kind, status, node, expected) in table {
        let host = TestHost::new(MANIFEST, move |request| {
            let data = match request.path_only() {
                "/cluster/resources" => {
                    value!([{"vmid": 101, "type": kind, "node": "pve1", "status": status}])
                }
                _ => value!({"/": {"VM.Audit": 1}}),
            };
            json(200, &value!({"data": data}).to_string())
        });
        assert_eq!(ask(&host, &[node]), [expected], "{kind} {status}");
    }
}

/// Proxmox omits what a token may not see, without an error.
#[test]
fn a_token_that_may_not_see_what_it_has_to_fails_the_self_check() {
    let table = [
        (value!({"/": {"VM.Audit": 1}}), "node", ""),
        (value!({}), "node", "VM.Audit"),
        (value!({"/": {"VM.Audit": 1, "Pool.Audit": 1}}), "pool", ""),
        (
            value!({"/vms": {"VM.Audit": 1}, "/pool/rack-a": {"Pool.Audit": 1}}),
            "pool",
            "",
        ),
        (value!({"/": {"VM.Audit": 1}}), "pool", "Pool.Audit"),
        // The privilege counts on the paths of pools only.
        (
            value!({"/vms": {"VM.Audit": 1, "Pool.Audit": 1}}),
            "pool",
            "Pool.Audit",
        ),
    ];
    for (rights, zone, lacking) in table {
        let described = rights.to_string();
        let host = Pve { rights, ..pve() }.host();
        let values = config(&[("PROXMOX_REGION", "home"), ("PROXMOX_ZONE", zone)]);
        let reported = host.self_check(&Proxmox::init(&values).unwrap());
        let why = reported.map_or_else(|error| error.message().to_owned(), |()| String::new());
        assert_eq!(why.is_empty(), lacking.is_empty(), "{described}: {why}");
        assert!(why.contains(lacking), "{described}: {why}");
        assert_eq!(host.requests(), ["GET /access/permissions"]);
    }
}
