//! The table has exactly the Go manager's annotations, and so has the documentation.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;

use super::*;

/// The declarations of the Go manager 0.1.68, in `lb_annotations.go` and, for the firewall, `firewall_controller.go`.
const GO: &str = "
    kubernetes.digitalocean.com/load-balancer-id kubernetes.digitalocean.com/firewall-managed
    service.kubernetes.io/do-loadbalancer-disown name protocol healthcheck-path healthcheck-port healthcheck-protocol
    override-health-check healthcheck-check-interval-seconds healthcheck-response-timeout-seconds
    healthcheck-unhealthy-threshold healthcheck-healthy-threshold http-ports tls-ports http2-ports http3-port
    tls-passthrough certificate-id certificate-name hostname algorithm size-slug size-unit sticky-sessions-type
    sticky-sessions-cookie-name sticky-sessions-cookie-ttl redirect-http-to-https disable-lets-encrypt-dns-records
    enable-proxy-protocol enable-backend-keepalive http-idle-timeout-seconds deny-rules allow-rules type network
    network-stack ip subnet-uuid";
const README: &str = include_str!("../../../README.md");
const BASE: &str = "service.beta.kubernetes.io/do-loadbalancer-";

#[test]
fn every_annotation_of_the_go_manager_is_in_the_table() {
    let go: BTreeSet<String> = GO
        .split_whitespace()
        .map(|key| match key.contains('/') {
            true => key.to_owned(),
            false => format!("{BASE}{key}"),
        })
        .collect();
    let table: BTreeSet<String> = TABLE.iter().map(|(key, _)| (*key).to_owned()).collect();
    assert_eq!(table.len(), TABLE.len(), "an annotation is there twice");
    assert_eq!(table, go);
}

#[test]
fn the_readme_says_the_same_of_each() {
    let (_, section) = README.split_once("## Annotations of DigitalOcean").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let row = |begin: &str| {
        let mut rows = section.lines().filter(|line| line.starts_with(begin));
        rows.next()
            .unwrap_or_else(|| panic!("no row {begin}"))
            .to_owned()
    };
    let [supported, creation, ignored] =
        ["| supported |", "| at creation |", "| ignored |"].map(row);
    let mut reported = 0;
    for (key, treatment) in TABLE {
        let short = format!("`{}`", key.strip_prefix(BASE).unwrap_or(key));
        let row = match treatment {
            Supported => &supported,
            AtCreation(_) => &creation,
            Ignored(why) => {
                assert!(
                    ignored.contains(why),
                    "{key}: the README does not say why: {why}"
                );
                &ignored
            }
            Treatment::Refused(why) => {
                panic!("{key}: the README has no row of refused ones: {why}")
            }
        };
        assert!(row.contains(&short), "{short} is not in the row\n{row}");
        reported += 1;
    }
    let rows = [&supported, &creation, &ignored].map(|row| row.matches('`').count() / 2);
    assert_eq!(
        rows.iter().sum::<usize>(),
        reported,
        "the README names one that is not in the table"
    );
}
