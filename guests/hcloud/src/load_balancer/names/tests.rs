//! The names are exactly those of the Go manager.

use super::*;

#[test]
fn a_certificate_and_the_labels_carry_the_whole_uid() {
    assert_eq!(certificate("a-b"), "ccm-managed-certificate-a-b");
    let expected = BTreeMap::from([("hcloud-ccm/service-uid".to_owned(), "a-b".to_owned())]);
    assert_eq!(labels("a-b"), expected);
}
