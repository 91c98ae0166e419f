//! The grants of the variables of DigitalOcean's Go manager.

use super::*;

const DO_TOKEN: &str = "dop_v1_0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn read(variables: &[(&str, &str)]) -> BuiltinGrants {
    let context = ConfigContext {
        absent: None,
        variable: &|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        },
        file: &|_| Ok(DO_TOKEN.to_owned()),
        secret: &|_| Err("no cluster".to_owned()),
    };
    let wasm = module("digitalocean").unwrap();
    let manifest = ccm_host::inspect("digitalocean", wasm).unwrap().manifest;
    let values = values(&manifest, &context);
    let granted = grants("digitalocean", &manifest, &values, None, &context);
    assert!(granted.mistakes.len() == 1 || manifest.narrow(granted.grants.clone()).is_ok());
    granted
}

#[test]
fn a_token_grants_the_api_with_its_annotation() {
    let api = |endpoint| ("api", endpoint, "bearer");
    for token in [
        ("DO_ACCESS_TOKEN", DO_TOKEN),
        ("DO_ACCESS_TOKEN_FILE", "/secret"),
    ] {
        let read = read(&[token]);
        assert_eq!(targets(&read), [api("https://api.digitalocean.com/")]);
        assert_eq!(
            read.grants.annotation_prefixes,
            ["kubernetes.digitalocean.com/"]
        );
        assert!(
            read.mistakes.is_empty() && read.warnings.is_empty(),
            "{:?}",
            read.warnings
        );
    }
    let read = read(&[
        ("DO_ACCESS_TOKEN", DO_TOKEN),
        ("DO_OVERRIDE_URL", "https://do.example/"),
    ]);
    assert_eq!(targets(&read), [api("https://do.example/")]);
}

#[test]
fn what_the_go_manager_reads_and_nothing_here_does_is_told() {
    assert_eq!(read(&[]).mistakes.len(), 1, "no token");
    let read = read(&[
        ("DO_ACCESS_TOKEN", DO_TOKEN),
        ("DO_API_RATE_LIMIT_QPS", "3.5"),
        ("METRICS_ADDR", ":9090"),
        ("DEBUG_ADDR", ":12301"),
        ("PUBLIC_ACCESS_FIREWALL_NAME", "firewall"),
        ("PUBLIC_ACCESS_FIREWALL_TAGS", "worker"),
    ]);
    let reported = read.warnings.join("\n");
    for name in [
        "DO_API_RATE_LIMIT_QPS",
        "METRICS_ADDR",
        "DEBUG_ADDR",
        "PUBLIC_ACCESS_FIREWALL_NAME",
        "PUBLIC_ACCESS_FIREWALL_TAGS",
    ] {
        assert!(reported.contains(name), "{name}: {reported}");
    }
    assert!(
        reported.contains("no traffic to new node ports and new load balancers"),
        "{reported}"
    );
    assert!(read.mistakes.is_empty(), "{:?}", read.mistakes);
    assert_eq!(adoption("digitalocean"), Adoption::Unowned);
}
