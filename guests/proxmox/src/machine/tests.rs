//! Provider IDs in the Go manager's form, and machines as instances.
#![allow(clippy::unwrap_used, reason = "tests")]

use ccm_guest::AddressType;
use ccm_guest::testing::node;
use serde_json::json;

use super::*;

fn settings(ranges: Option<(&str, &str)>) -> Settings {
    Settings {
        region: "home".to_owned(),
        zone: Zone::Node,
        agent: ranges.map(|(internal, external)| Ranges {
            internal: vec![internal.parse().unwrap()],
            external: vec![external.parse().unwrap()],
        }),
    }
}

fn machine() -> Machine {
    let value = json!({
        "vmid": 101, "type": "qemu", "name": "worker-1.example.com", "node": "pve1", "status": "running",
        "maxcpu": 4, "maxmem": 8_589_934_592_u64,
    });
    serde_json::from_value(value).unwrap()
}

fn config(smbios1: &str) -> MachineConfig {
    serde_json::from_value(json!({"smbios1": smbios1})).unwrap()
}

#[test]
fn a_provider_id_is_read_in_its_canonical_form_only() {
    let table = [
        (None, ProviderId::Missing),
        (Some(""), ProviderId::Missing),
        (Some("proxmox://home/101"), ProviderId::Machine(101)),
        (Some("proxmox://other/101"), ProviderId::Foreign),
        (Some("hcloud://101"), ProviderId::Foreign),
        (Some("proxmoxx://home/101"), ProviderId::Foreign),
        (Some("proxmox://home/0101"), ProviderId::Unreadable),
        (Some("proxmox://home/+101"), ProviderId::Unreadable),
        (Some("proxmox://home/"), ProviderId::Unreadable),
        (Some("proxmox:///101"), ProviderId::Unreadable),
        (Some("proxmox:///"), ProviderId::Unreadable),
        (Some("proxmox://home/101/1"), ProviderId::Unreadable),
        (
            Some("proxmox://0b1ad2a0-55b9-4f0e-a6a2-4b5c2b1a7f10"),
            ProviderId::Unreadable,
        ),
    ];
    for (text, expected) in table {
        assert_eq!(
            ProviderId::of(&settings(None), &node("a", text)),
            expected,
            "{text:?}"
        );
    }
}

#[test]
fn a_machine_has_the_nodes_name_or_one_in_a_domain() {
    let table = [
        ("worker-1", true),
        ("worker-1.example.com", true),
        ("worker", false),
        ("worker-10", false),
    ];
    for (name, expected) in table {
        assert_eq!(is_named(&machine(), name), expected, "{name}");
    }
    let nameless = Machine {
        name: None,
        ..machine()
    };
    assert!(!is_named(&nameless, "worker-1"));
}

#[test]
fn uuids_are_compared_whatever_their_case() {
    let mut node = node("worker-1", None);
    assert_eq!(is_same(&config("uuid=aB-1"), &node), None);
    node.system_uuid = Some("Ab-1".to_owned());
    assert_eq!(is_same(&config("uuid=aB-1"), &node), Some(true));
    assert_eq!(is_same(&config("uuid=aB-2"), &node), Some(false));
    assert_eq!(is_same(&config(""), &node), None);
}

#[test]
fn a_new_node_gets_type_place_and_labels() {
    let node = node("worker-1", None);
    let described =
        |smbios1: &str| described(&settings(None), &node, &machine(), &config(smbios1), &[]);
    let instance = described("uuid=1");
    assert_eq!(instance.provider_id, "proxmox://home/101");
    assert_eq!(instance.instance_type.as_deref(), Some("4VCPU-8GB"));
    assert_eq!(
        (instance.zone.as_deref(), instance.region.as_deref()),
        (Some("pve1"), Some("home"))
    );
    let labels =
        [(REGION, "home"), (ZONE, "pve1")].map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(instance.labels, labels);
    assert_eq!(instance.shutdown, Some(false));
    assert!(instance.addresses.is_empty(), "it keeps its kubelet's");
    assert_eq!(described("sku=big").instance_type.as_deref(), Some("big"));
    // A SKU that no label can hold.
    assert_eq!(
        described("sku=very big").instance_type.as_deref(),
        Some("4VCPU-8GB")
    );
}

#[test]
fn addresses_of_the_agent_count_within_the_operators_ranges() {
    let mut node = node("worker-1", None);
    node.addresses = vec![Address::internal("10.0.0.5")];
    let settings = settings(Some(("10.0.0.0/16", "203.0.113.0/24")));
    let shown = |reported: &[&str]| -> Vec<String> {
        let reported: Vec<String> = reported.iter().map(|one| (*one).to_owned()).collect();
        let instance = described(&settings, &node, &machine(), &config(""), &reported);
        let addresses = instance.addresses.into_iter();
        addresses
            .map(|one| format!("{:?} {}", one.address_type, one.address))
            .collect()
    };
    let reported = [
        "127.0.0.1",
        "10.0.0.5",
        "10.0.9.1",
        "10.244.0.1",
        "203.0.113.7",
        "fe80::1%eth0",
        "no address",
    ];
    let hostname = format!("{:?} worker-1", AddressType::Hostname);
    let internal = |ip: &str| format!("{:?} {ip}", AddressType::InternalIp);
    let external = format!("{:?} 203.0.113.7", AddressType::ExternalIp);
    assert_eq!(
        shown(&reported),
        [
            hostname,
            internal("10.0.0.5"),
            internal("10.0.9.1"),
            external
        ]
    );
    let hostname = format!("{:?} worker-1", AddressType::Hostname);
    assert_eq!(shown(&["10.244.0.1"]), [hostname, internal("10.0.0.5")]);
}
