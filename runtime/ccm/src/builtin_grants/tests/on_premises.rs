//! The grants of variables for providers of machines that an operator runs.

use super::*;

const ENDPOINT: (&str, &str) = ("PROXMOX_ENDPOINT", "https://10.0.0.2:8006/api2/json/");
const PROXMOX_TOKEN: (&str, &str) = ("PROXMOX_TOKEN", "kubernetes@pve!ccm=5b0a7c62");

#[test]
fn an_endpoint_and_a_token_grant_the_proxmox_api() {
    let read = read_for("proxmox", &[ENDPOINT, PROXMOX_TOKEN]);
    assert_eq!(read.mistakes, [] as [&str; 0]);
    let url = "https://10.0.0.2:8006/api2/json";
    assert_eq!(targets(&read), [("api", url, "header")]);
    let expected = "PVEAPIToken=kubernetes@pve!ccm=5b0a7c62".to_owned();
    // Whether or not the prefix stands before the token.
    let token = ("PROXMOX_TOKEN", expected.as_str());
    let whole = read_for("proxmox", &[ENDPOINT, token]);
    for read in [&read, &whole] {
        let credential = Credential::Header {
            name: "Authorization".to_owned(),
            value: Secret::new(expected.clone()),
        };
        assert!(read.grants.targets[0].credential == credential);
    }
    assert!(manifest_of("proxmox").narrow(read.grants).is_ok());
}

#[test]
fn a_server_of_ones_own_is_known_by_what_its_operator_says() {
    let pairs = vec!["ab"; 32];
    let fingerprints = format!("{},{}", pairs.join(":"), pairs.concat());
    let read = read_for(
        "proxmox",
        &[
            ENDPOINT,
            PROXMOX_TOKEN,
            ("PROXMOX_FINGERPRINTS", &fingerprints),
            ("PROXMOX_ADDRESSES", "10.0.0.0/24, 10.0.1.1"),
            ("PROXMOX_CA_FILE", "/secret"),
            ("PROXMOX_EXTERNAL_CIDRS", "203.0.113.0/24"),
        ],
    );
    assert_eq!(read.mistakes, [] as [&str; 0]);
    let names: Vec<&str> = targets(&read).iter().map(|(name, ..)| *name).collect();
    assert_eq!(names, ["api", "agent"], "addresses are asked for");
    for target in &read.grants.targets {
        assert_eq!((target.fingerprints.len(), target.addresses.len()), (2, 2));
        assert!(target.ca_pem.is_some());
    }
}

#[test]
fn an_authority_in_a_file_is_read_again_when_it_changes() {
    let config = ProviderConfig::unwritten("proxmox");
    let read = |pem: &'static str| {
        let context = ConfigContext {
            absent: None,
            variable: &|name| (name == "PROXMOX_CA_FILE").then(|| "/ca.pem".to_owned()),
            file: &|_| Ok(pem.to_owned()),
            secret: &|_| Err("no cluster".to_owned()),
        };
        ambient(&config, &context)
    };
    assert!(read("old") == read("old"));
    assert!(read("old") != read("new"));
}

#[test]
fn what_is_missing_or_wrong_is_told_once() {
    let read = read_for(
        "proxmox",
        &[
            ("PROXMOX_INTERNAL_CIDRS", "10.0.0.0/8"),
            ("PROXMOX_FINGERPRINTS", "ab:cd"),
            ("PROXMOX_ADDRESSES", "home"),
            ("PROXMOX_CA_FILE", "/nowhere"),
        ],
    );
    let expected = [
        "PROXMOX_ENDPOINT is not set",
        "PROXMOX_ADDRESSES: address \"home\"",
        "PROXMOX_FINGERPRINTS: fingerprint \"ab:cd\"",
        "PROXMOX_CA_FILE /nowhere: no such file",
        "neither PROXMOX_TOKEN nor PROXMOX_TOKEN_FILE is set",
    ];
    for (mistake, expected) in read.mistakes.iter().zip(expected) {
        assert!(mistake.starts_with(expected), "{mistake}");
    }
    assert_eq!(read.mistakes.len(), expected.len(), "{:?}", read.mistakes);
}

#[test]
fn static_needs_no_grant() {
    let variables = [("STATIC_NODES", "rules: [{names: [a]}]")];
    let read = read_for("static", &variables);
    assert_eq!(targets(&read), []);
    assert!(read.mistakes.is_empty() && read.warnings.is_empty());
    assert!(manifest_of("static").narrow(read.grants).is_ok());
    let names = [("STATIC_NODES", ""), ("STATIC_NODE", "")].map(|(name, _)| name.to_owned());
    let unknown = unknown("static", &manifest_of("static"), &names.into()).unwrap();
    assert!(
        unknown.contains("STATIC_NODE") && !unknown.contains("STATIC_NODES"),
        "{unknown}"
    );
}
