//! Every annotation, with a valid value that has an effect, and with hostile ones.

use super::*;

/// All 39 annotations, each with a value that differs from the default.
const EVERY: [(&str, &str); 36] = [
    (IPV4_RDNS, "a.example"),
    (IPV6_RDNS, "a.example"),
    (IPV6_DISABLED, "true"),
    (NAME, "my-lb"),
    (DISABLE_PUBLIC_NETWORK, "true"),
    (DISABLE_PRIVATE_INGRESS, "true"),
    (USE_PRIVATE_IP, "true"),
    (PRIVATE_IPV4, "10.0.0.9"),
    (PRIVATE_SUBNET_IP_RANGE, "10.0.1.0/24"),
    (HOSTNAME, "a.example"),
    (PROTOCOL, "https"),
    (ALGORITHM_TYPE, "round_robin"),
    (TYPE, "lb21"),
    (LOCATION, "fsn1"),
    (NETWORK_ZONE, "eu-central"),
    (NODE_SELECTOR, "mine"),
    (USES_PROXYPROTOCOL, "true"),
    (HTTP_COOKIE_NAME, "biscuit"),
    (HTTP_COOKIE_LIFETIME, "5m"),
    (HTTP_TIMEOUT_IDLE, "60s"),
    (CERTIFICATE_TYPE, "managed"),
    (HTTP_CERTIFICATES, "5"),
    (HTTP_MANAGED_CERTIFICATE_NAME, "cert"),
    (HTTP_MANAGED_CERTIFICATE_ACME_STAGING, "true"),
    (HTTP_MANAGED_CERTIFICATE_DOMAINS, "b.example"),
    (HTTP_REDIRECT_HTTP, "true"),
    (HTTP_STICKY_SESSIONS, "true"),
    (HEALTH_CHECK_PROTOCOL, "https"),
    (HEALTH_CHECK_PORT, "8080"),
    (HEALTH_CHECK_INTERVAL, "5s"),
    (HEALTH_CHECK_TIMEOUT, "5s"),
    (HEALTH_CHECK_RETRIES, "1"),
    (HEALTH_CHECK_HTTP_DOMAIN, "a.example"),
    (HEALTH_CHECK_HTTP_PATH, "/healthz"),
    (HEALTH_CHECK_HTTP_VALIDATE_CERTIFICATE, "true"),
    (HTTP_STATUS_CODES, "200"),
];

/// The other annotations that an annotation needs to have an effect.
fn beside(key: &str) -> Vec<Pair> {
    match key {
        CERTIFICATE_TYPE => vec![(HTTP_MANAGED_CERTIFICATE_DOMAINS, "a.example")],
        HTTP_MANAGED_CERTIFICATE_NAME | HTTP_MANAGED_CERTIFICATE_ACME_STAGING => vec![
            (CERTIFICATE_TYPE, "managed"),
            (HTTP_MANAGED_CERTIFICATE_DOMAINS, "a.example"),
        ],
        HTTP_MANAGED_CERTIFICATE_DOMAINS => {
            vec![
                (CERTIFICATE_TYPE, "managed"),
                (HTTP_MANAGED_CERTIFICATE_NAME, "cert"),
            ]
        }
        HEALTH_CHECK_HTTP_DOMAIN
        | HEALTH_CHECK_HTTP_PATH
        | HEALTH_CHECK_HTTP_VALIDATE_CERTIFICATE
        | HTTP_STATUS_CODES => vec![(HEALTH_CHECK_PROTOCOL, "http")],
        _ => Vec::new(),
    }
}

/// The wanted state with a network, a node that `mine` does not select, and all of `annotated`.
fn full(annotated: &[(&str, &str)]) -> Result<Wanted, Error> {
    let nodes = [node("cloud-1", Some("hcloud://1"))];
    Wanted::read(&settings(&[NETWORK]), &service(annotated), &nodes)
}

#[test]
fn every_annotation_changes_what_is_wanted() {
    for (key, value) in EVERY {
        let mut annotated = beside(key);
        let mut without = full(&annotated);
        if key == HTTP_MANAGED_CERTIFICATE_DOMAINS {
            // A managed certificate is an error without this annotation.
            assert!(without.is_err());
            without = full(&[beside(key), vec![(key, "a.example")]].concat());
        }
        annotated.push((key, value));
        assert_ne!(full(&annotated).unwrap(), without.unwrap(), "{key}");
    }
    for key in UNUSED {
        assert_eq!(full(&[(key, "anything")]), full(&[]), "{key}");
    }
    let mut keys: Vec<&str> = EVERY.iter().map(|(key, _)| *key).chain(UNUSED).collect();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), 39);
    assert!(
        keys.iter()
            .all(|key| key.starts_with("load-balancer.hetzner.cloud/"))
    );
}

#[test]
fn hostile_annotations_are_invalid_or_wanted_and_the_message_names_them() {
    let long = "9".repeat(300_000);
    let hostile = [
        "",
        " ",
        "\0",
        ",,,,,,,,",
        "\u{202e}\u{1b}[2J\r\n",
        "-1",
        "99999999999999999999999999999999999999",
        "1e400h",
        "((((((((((",
        "a in (b,c),!d,e>1,",
        "/../../etc/passwd",
        "💣💣💣",
        &long,
    ];
    for (key, _) in EVERY {
        for value in hostile {
            let mut annotated = beside(key);
            annotated.retain(|(beside, _)| *beside != key);
            let annotated: Vec<(&str, &str)> =
                [(key, value)].into_iter().chain(annotated).collect();
            match full(&annotated) {
                Ok(wanted) => assert!(value.len() <= 4096, "{key} {}", wanted.name),
                Err(error) => {
                    assert!(matches!(error, Error::Invalid(_)), "{error:?}");
                    assert!(error.message().contains(key), "{key}: {error:?}");
                    assert!(error.message().len() < 1000, "{key}: {error:?}");
                    assert!(
                        !error.message().contains(char::is_control),
                        "{key}: {error:?}"
                    );
                }
            }
        }
    }
}
