//! Which failures the self-check finds.
#![allow(clippy::unwrap_used, reason = "tests")]

use ccm_guest::testing::{TestHost, config, json};

use super::*;

const MANIFEST: &str = include_str!("../../manifest.json");

fn check(values: &[(&str, &str)]) -> (Result<(), Error>, Vec<String>) {
    let host = TestHost::new(MANIFEST, |seen| match seen.path_only() {
        "/v2/regions" => json(
            200,
            r#"{"regions": [{"slug": "fra1"}], "links": {}, "meta": {"total": 1}}"#,
        ),
        "/v2/vpcs/known" => json(200, r#"{"vpc": {"region": "fra1"}}"#),
        _ => json(404, include_str!("../../fixtures/error-not-found.json")),
    });
    let provider = DigitalOcean::init(&config(values)).unwrap();
    (provider.check(), host.requests())
}

#[test]
fn region_and_vpc_have_to_exist() {
    let (result, requests) = check(&[("REGION", "fra1"), ("DO_CLUSTER_VPC_ID", "known")]);
    assert_eq!(result, Ok(()));
    assert_eq!(
        requests,
        ["GET /v2/regions?per_page=200&page=1", "GET /v2/vpcs/known"]
    );
    assert_eq!(check(&[]).0, Ok(()));
    for (key, value) in [("REGION", "nowhere1"), ("DO_CLUSTER_VPC_ID", "unknown")] {
        let (result, _) = check(&[(key, value)]);
        let error = result.unwrap_err();
        assert!(
            matches!(&error, Error::Invalid(text) if text.contains(key)),
            "{error:?}"
        );
    }
}
