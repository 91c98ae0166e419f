//! What the operator may choose: pools as zones, and addresses from guest agents.

use super::*;

#[test]
fn pools_are_zones_if_the_operator_says_so() {
    let values = config(&[("PROXMOX_REGION", "home"), ("PROXMOX_ZONE", "pool")]);
    let provider = Proxmox::init(&values).unwrap();
    for (pool, expected) in [
        (value!("rack-a"), "rack-a"),
        (Value::Null, "in no pool"),
        // Pools can be nested, and no label can hold such a name.
        (value!("site/rack-a"), "in no pool"),
    ] {
        let host = TestHost::new(MANIFEST, move |request| {
            let data = match request.path_only() {
                "/cluster/resources" => value!([{
                    "vmid": 101, "type": "qemu", "name": "a", "node": "pve1", "status": "running", "pool": pool,
                }]),
                _ => value!({"smbios1": "uuid=u-a"}),
            };
            json(200, &value!({"data": data}).to_string())
        });
        match host
            .find(&provider, vec![new("a", "u-a")])
            .unwrap()
            .lookups
            .remove(0)
        {
            Lookup::Found(instance) => assert_eq!(instance.zone.as_deref(), Some(expected)),
            Lookup::Unknown(why) => assert!(why.contains(expected), "{why}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn an_agent_is_asked_for_new_nodes_whose_machine_has_one() {
    let mut values = config(&[
        ("PROXMOX_REGION", "home"),
        ("PROXMOX_EXTERNAL_CIDRS", "203.0.113.0/24"),
    ]);
    values = ccm_guest::testing::granting(values, &["api", "agent"]);
    let provider = Proxmox::init(&values).unwrap();
    for (agent, is_running, expected) in
        [("0", true, "2"), ("1", true, "3"), ("1", false, "unknown")]
    {
        let host = TestHost::new(MANIFEST, move |request| {
            let data = match request.path_only() {
                "/cluster/resources" => value!([{
                    "vmid": 101, "type": "qemu", "name": "a", "node": "pve1", "status": "running",
                }]),
                "/nodes/pve1/qemu/101/config" => value!({"smbios1": "uuid=u-a", "agent": agent}),
                _ if !is_running => {
                    return json(
                        500,
                        r#"{"data":null,"message":"QEMU guest agent is not running\n"}"#,
                    );
                }
                _ => value!({"result": [
                    {"name": "lo", "ip-addresses": [{"ip-address": "127.0.0.1", "ip-address-type": "ipv4", "prefix": 8}]},
                    {"name": "eth0", "ip-addresses": [{"ip-address": "203.0.113.9", "ip-address-type": "ipv4", "prefix": 24}]},
                    {"name": "down"},
                ]}),
            };
            json(200, &value!({"data": data}).to_string())
        });
        match host
            .find(&provider, vec![new("a", "u-a")])
            .unwrap()
            .lookups
            .remove(0)
        {
            Lookup::Found(instance) => assert_eq!(instance.addresses.len().to_string(), expected),
            Lookup::Unknown(why) => assert!(
                expected == "unknown" && why.contains("not running"),
                "{why}"
            ),
            other => panic!("{other:?}"),
        }
        let requests = host.requests().len();
        assert_eq!(requests, if agent == "1" { 3 } else { 2 });
        // An initialised node keeps its stored addresses, and no agent is asked.
        host.find(&provider, vec![known("a", "proxmox://home/101", "u-a")])
            .unwrap();
        assert_eq!(host.requests().len(), requests + 1);
    }
}

/// Proxmox waits seconds for a silent agent: one after the other, some twenty would end the call for every node.
#[test]
fn agents_are_asked_side_by_side_and_only_those_of_the_nodes_own_machines() {
    let values = config(&[
        ("PROXMOX_REGION", "home"),
        ("PROXMOX_EXTERNAL_CIDRS", "203.0.113.0/24"),
    ]);
    let values = ccm_guest::testing::granting(values, &["api", "agent"]);
    let provider = Proxmox::init(&values).unwrap();
    let host = TestHost::new(MANIFEST, |request| {
        let data = match request.path_only() {
            "/cluster/resources" => {
                let names = [(101, "a"), (102, "b"), (103, "c"), (104, "a")];
                value!(names.map(|(vmid, name)| value!({
                    "vmid": vmid, "type": "qemu", "name": name, "node": "pve1", "status": "running",
                })))
            }
            path if path.ends_with("/config") => {
                let vmid = path.split('/').nth(4).unwrap();
                value!({"smbios1": format!("uuid=u-{vmid}"), "agent": "1"})
            }
            "/nodes/pve1/qemu/102/agent/network-get-interfaces" => {
                return json(
                    500,
                    r#"{"data":null,"message":"QEMU guest agent is not running\n"}"#,
                );
            }
            _ => value!({"result": [{"ip-addresses": [{"ip-address": "203.0.113.9"}]}]}),
        };
        json(200, &value!({"data": data}).to_string())
    });
    let nodes = vec![
        new("a", "u-101"),
        new("b", "u-102"),
        given("c", "proxmox://home/103", "u-103"),
    ];
    let reply = host.find(&provider, nodes).unwrap();
    let lookups = reply.lookups.iter();
    let is_found = lookups.map(|one| matches!(one, Lookup::Found(_)));
    assert_eq!(is_found.collect::<Vec<_>>(), [true, false, true]);
    let seen = host.seen();
    let asked = seen.iter().filter(|one| one.target == "agent");
    let batches: Vec<usize> = asked.map(|one| one.side_by_side).collect();
    assert_eq!(batches, [3, 3, 3]);
}

/// Kubelets without `--node-ip` report no address, and an initialised node without one would stay without one.
#[test]
fn a_new_node_waits_for_an_ip_address() {
    const WAITS: &str = "unknown: the node has no IP address: start its kubelet with --node-ip, or let its guest agent report one that is in PROXMOX_INTERNAL_CIDRS";
    let key = "alpha.kubernetes.io/provided-node-ip";
    let host = pve().host();
    for (name, id, uuid) in [
        ("a", None, "u-a"),
        ("a", Some(101), "u-a"),
        ("e", Some(105), "u-e"),
    ] {
        let without = Node {
            provider_id: id.map(|vmid| format!("proxmox://home/{vmid}")),
            addresses: vec![Address::hostname(name)],
            ..new(name, uuid)
        };
        let with_node_ip = Node {
            annotations: vec![(key.to_owned(), "10.0.7.3".to_owned())],
            ..without.clone()
        };
        let reported = Node {
            addresses: new(name, uuid).addresses,
            ..without.clone()
        };
        let initialised = Node {
            initialized: true,
            ..without.clone()
        };
        let found = format!("proxmox://home/{}", id.unwrap_or(101));
        let nodes = [without, with_node_ip, reported, initialised];
        assert_eq!(
            ask(&host, &nodes),
            [WAITS, &found, &found, &found],
            "{name} {id:?}"
        );
    }
}

/// The addresses of an agent suffice for a node whose kubelet reports none.
#[test]
fn an_agent_gives_a_new_node_its_ip_address() {
    let values = config(&[
        ("PROXMOX_REGION", "home"),
        ("PROXMOX_INTERNAL_CIDRS", "10.0.7.0/24"),
    ]);
    let values = ccm_guest::testing::granting(values, &["api", "agent"]);
    let provider = Proxmox::init(&values).unwrap();
    for (ip, expected) in [("10.0.7.3", "proxmox://home/101"), ("10.0.8.3", "unknown")] {
        let host = TestHost::new(MANIFEST, move |request| {
            let data = match request.path_only() {
                "/cluster/resources" => value!([{
                    "vmid": 101, "type": "qemu", "name": "a", "node": "pve1", "status": "running",
                }]),
                "/nodes/pve1/qemu/101/config" => value!({"smbios1": "uuid=u-a", "agent": "1"}),
                _ => value!({"result": [{"ip-addresses": [{"ip-address": ip}]}]}),
            };
            json(200, &value!({"data": data}).to_string())
        });
        let node = Node {
            addresses: Vec::new(),
            ..new("a", "u-a")
        };
        let reply = host.find(&provider, vec![node]).unwrap();
        let reported = brief(&reply.lookups[0]);
        assert!(reported.starts_with(expected), "{ip}: {reported}");
    }
}
