//! A droplet as an instance of the contract.
#![allow(clippy::unwrap_used, reason = "tests")]

use ccm_guest::AddressType;
use serde_json::Value;

use super::*;

fn droplet(change: impl FnOnce(&mut Value)) -> Droplet {
    let mut fixture: Value =
        serde_json::from_str(include_str!("../../fixtures/droplet.json")).unwrap();
    let mut droplet = fixture["droplet"].take();
    change(&mut droplet);
    serde_json::from_value(droplet).unwrap()
}

#[test]
fn the_documented_droplet_is_as_with_the_go_manager() {
    let (instance, has_private) = instance(&droplet(|_| ()));
    assert!(has_private);
    assert_eq!(instance.provider_id, "digitalocean://3164444");
    assert_eq!(instance.instance_type.as_deref(), Some("s-1vcpu-1gb"));
    assert_eq!(
        (instance.zone, instance.region.as_deref()),
        (None, Some("nyc3"))
    );
    assert_eq!(instance.shutdown, Some(false));
    let addresses: Vec<_> = instance
        .addresses
        .iter()
        .map(|one| (one.address_type, one.address.as_str()))
        .collect();
    assert_eq!(
        addresses,
        [
            (AddressType::Hostname, "worker-1"),
            (AddressType::InternalIp, "10.128.192.124"),
            (AddressType::ExternalIp, "192.241.165.154"),
            (AddressType::ExternalIp, "2604:a880:0:1010::18a:a001"),
        ]
    );
}

#[test]
fn a_droplet_without_private_address_says_so_and_has_no_addresses() {
    let (instance, has_private) = instance(&droplet(|droplet| {
        droplet["networks"]["v4"].as_array_mut().unwrap().remove(0);
        droplet["status"] = "off".into();
    }));
    assert!(!has_private);
    assert!(instance.addresses.is_empty());
    assert_eq!(instance.shutdown, Some(true));
}

#[test]
fn a_droplet_is_named_by_its_name_and_its_addresses() {
    let expected = [
        "worker-1",
        "10.128.192.124",
        "192.241.165.154",
        "2604:a880:0:1010::18a:a001",
    ];
    let expected = expected.map(str::to_owned).into();
    assert_eq!(names(&droplet(|_| ())), expected);
}
