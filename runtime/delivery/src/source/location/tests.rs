#![allow(clippy::unwrap_used, reason = "tests")]

use proptest::prelude::*;

use super::Location;

const HEX: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

#[test]
fn every_form_is_read_and_shown_as_it_was_written() {
    let pinned = format!("oci://ghcr.io/clouds/hcloud:v1.2.3@sha256:{HEX}");
    let only_pinned = format!("oci://ghcr.io/clouds/hcloud@sha256:{HEX}");
    for text in [
        "embedded:hcloud",
        "file:///etc/ccm/hcloud.wasm",
        "file:///etc/ccm/",
        "file:///",
        "file:///a%20b/c%23d%25e.wasm",
        "configmap://kube-system/hcloud-provider/provider.wasm.gz",
        "configmap://a/b.c-d/_K.e-y",
        "oci://ghcr.io/clouds/hcloud",
        "oci://localhost:5000/a",
        "oci://127.0.0.1:5000/a/b/c:latest",
        "oci://[::1]:5000/a:v1",
        "oci://[fd00::1]/a",
        "oci://Registry.Example/a__b/c.d/e---f:V_1",
        &pinned,
        &only_pinned,
    ] {
        let location = Location::parse(text).unwrap();
        assert_eq!(location.to_string(), text);
    }
}

#[test]
fn a_path_is_read_without_what_says_nothing() {
    for (text, shown) in [
        ("file:///a//./b/", "file:///a/b/"),
        ("file:///a/b/.", "file:///a/b/"),
        ("file:///a/b.", "file:///a/b."),
        ("file:////", "file:///"),
        ("file:///.", "file:///"),
    ] {
        let location = Location::parse(text).unwrap();
        assert_eq!(location.to_string(), shown);
        assert_eq!(Location::parse(shown), Ok(location), "{text}");
    }
}

#[test]
fn anything_else_is_refused_with_the_forms_that_are_accepted() {
    let upper = format!("oci://r/a@sha256:{}", HEX.to_uppercase());
    let short = format!("oci://r/a@sha256:{}", &HEX[1..]);
    let twice = format!("oci://r/a@sha256:{HEX}@sha256:{HEX}");
    let long = format!("configmap://a/{}/k", "b".repeat(254));
    let long_tag = format!("oci://r/a:{}", "t".repeat(129));
    for text in [
        "",
        "hcloud",
        "embedded:",
        "embedded:../x",
        "embedded:UP",
        "embedded://hcloud",
        "file:",
        "file://",
        "file://relative/path",
        "file://localhost/etc/x",
        "file:///a/../b",
        "file:///a/%2e%2e/b",
        "file:///..",
        "file:///a%00b",
        "file:///a?b",
        "file:///a#b",
        "configmap://",
        "configmap://a/b",
        "configmap://a/b/",
        "configmap:///b/c",
        "configmap://a/b/c/d",
        "configmap://A/b/c",
        "configmap://a/b_c/d",
        "configmap://a/b/c d",
        "configmap://a/b/c%20d",
        &long,
        "oci://",
        "oci://ghcr.io",
        "oci://ghcr.io/",
        "oci:///a",
        "oci://r/A",
        "oci://r/a//b",
        "oci://r/../b",
        "oci://r/a:",
        "oci://r/a:-x",
        "oci://r/a:b:c",
        "oci://r/a@",
        "oci://r/a@md5:00",
        "oci://r:0/a",
        "oci://r:99999/a",
        "oci://r:/a",
        "oci://r:+80/a",
        "oci://[::1/a",
        "oci://[::g]/a",
        "oci://r/a._b",
        "oci://r/a___b",
        "oci://r/a?x=y",
        "oci://r/a b",
        &upper,
        &short,
        &twice,
        &long_tag,
        "http://example.com/a.wasm",
        "OCI://r/a",
        " embedded:hcloud",
    ] {
        let refused = Location::parse(text).unwrap_err().to_string();
        assert!(refused.contains("oci://<registry>"), "{text}: {refused}");
        assert!(refused.contains("embedded:<name>"), "{text}: {refused}");
    }
}

#[test]
fn a_password_in_an_address_is_refused_and_not_shown() {
    for text in [
        "oci://user:hunter2@registry.example/a",
        "oci://hunter2 @registry.example/a",
        "https://user:hunter2@registry.example/a",
        "user:hunter2@registry.example/a",
    ] {
        let refused = Location::parse(text).unwrap_err().to_string();
        assert!(!refused.contains("hunter2"), "{refused}");
    }
}

#[test]
fn what_others_can_write_needs_trust() {
    for (text, needs) in [
        ("embedded:hcloud", false),
        ("file:///a", false),
        ("configmap://a/b/c", true),
        ("oci://r/a", true),
    ] {
        assert_eq!(
            Location::parse(text).unwrap().needs_trust(),
            needs,
            "{text}"
        );
    }
}

proptest! {
    #[test]
    fn no_text_makes_it_panic_and_what_is_read_is_shown_so_that_it_reads_the_same(
        text in "(embedded:|file:///?|configmap://|oci://|)[ -~é\u{0}\u{7f}]{0,40}"
    ) {
        if let Ok(location) = Location::parse(&text) {
            prop_assert_eq!(Location::parse(&location.to_string()), Ok(location));
        }
    }
}
