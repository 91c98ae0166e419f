//! The names that the Go manager gave, letter by letter.

use super::*;

#[test]
fn a_load_balancer_is_called_as_the_go_manager_calls_it() {
    let table = [
        (
            "0b1f6d5e-7a3c-4c55-9e0a-2f1d3b4c5a69",
            "a0b1f6d5e7a3c4c559e0a2f1d3b4c5a6",
        ),
        ("some-lb-uid", "asomelbuid"),
        ("", "a"),
        ("---", "a"),
    ];
    for (uid, expected) in table {
        assert_eq!(load_balancer(uid), expected);
    }
}

#[test]
fn a_certificate_and_the_labels_carry_the_whole_uid() {
    assert_eq!(certificate("a-b"), "ccm-managed-certificate-a-b");
    let expected = BTreeMap::from([("hcloud-ccm/service-uid".to_owned(), "a-b".to_owned())]);
    assert_eq!(labels("a-b"), expected);
}
