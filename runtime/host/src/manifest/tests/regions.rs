//! Endpoints that name no region, and requests that are signed.

use super::*;

fn target(endpoint: &str) -> Result<Target, ManifestError> {
    let mut whole = whole();
    whole["targets"][0]["endpoint"] = json!(endpoint);
    whole["targets"][0]["auth"] = json!("aws-sigv4");
    parse(&whole).map(|mut manifest| manifest.targets.remove(0))
}

#[test]
fn a_manifest_may_leave_the_region_of_an_endpoint_to_the_grant() {
    let of_region = target("https://ec2.{region}.amazonaws.com").unwrap();
    assert_eq!(of_region.auth, AuthKind::AwsSigV4);
    assert_eq!(
        of_region.endpoint.as_str(),
        "https://ec2.{region}.amazonaws.com/",
        "people are shown the place"
    );
    let text = |url: Option<Url>| url.map(String::from);
    assert_eq!(
        text(of_region.endpoint_in("eu-central-1")).as_deref(),
        Some("https://ec2.eu-central-1.amazonaws.com/")
    );
    for no_region in ["", "a.evil.test/", "x@evil.test", "{region}", "EU"] {
        assert_eq!(of_region.endpoint_in(no_region), None, "{no_region:?}");
    }
    let fixed = target("https://iam.amazonaws.com").unwrap();
    assert_eq!(fixed.endpoint_in("eu-central-1"), Some(fixed.endpoint));
}

#[test]
fn nothing_can_be_sent_to_an_endpoint_without_its_region() {
    let of_region = target("https://ec2.{region}.amazonaws.com").unwrap();
    let refused = crate::egress::check_endpoint(&of_region.as_grant().endpoint).unwrap_err();
    assert!(refused.contains("placeholder"), "{refused}");
}

#[test]
fn no_other_place_is_left_open() {
    for endpoint in [
        "https://ec2.{zone}.amazonaws.com",
        "https://{region}.{region}.amazonaws.com",
        "https://ec2.amazonaws.com:{region}",
        "https://{region}@ec2.amazonaws.com",
        "http://{region}",
    ] {
        assert!(target(endpoint).is_err(), "{endpoint}");
    }
}
