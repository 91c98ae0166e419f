//! Certificates that are named by their fingerprint.

use super::*;

#[test]
fn fingerprints_are_read_and_refused_with_their_key() {
    let target = |line: &str| {
        format!(
            "apiVersion: wasm-ccm.dev/v1alpha1\nkind: ProviderConfiguration\nproviders:\n- name: a\n  grants:\n    targets:\n    - name: api\n      rules: [{{methods: [GET], path: /a, access: read}}]\n      {line}\n"
        )
    };
    let pairs = vec!["ab"; 32];
    let read = read(&target(&format!(
        "endpoint: https://pve.test:8006\n      certificateFingerprints: ['{}', '{}']",
        pairs.join(":"),
        pairs.concat()
    )));
    let read = read.unwrap();
    let grants = read[0].grants.as_ref().unwrap();
    assert_eq!(grants.targets[0].fingerprints.len(), 2);

    let table = [
        (
            "endpoint: https://pve.test\n      certificateFingerprints: ['ab:cd']",
            "fingerprint \"ab:cd\": expected a SHA-256 fingerprint",
        ),
        (
            &*format!(
                "endpoint: http://127.0.0.1\n      certificateFingerprints: ['{}']",
                pairs.concat()
            ),
            "only an endpoint at https:// has a certificate",
        ),
    ];
    for (line, expected) in table {
        let Err(Mistakes(mistakes)) = self::read(&target(line)) else {
            panic!("taken: {line}");
        };
        assert!(
            mistakes.iter().any(|one| one.contains(expected)),
            "{mistakes:?}"
        );
    }
}
