//! How mistakes in the form of the file read.

use super::{Mistakes, read};

/// One provider with these further lines.
fn mistake(lines: &str) -> String {
    let head = "apiVersion: wasm-ccm.dev/v1alpha1\nkind: ProviderConfiguration\nproviders:\n- name: hcloud\n";
    let Mistakes(mistakes) = read(&format!("{head}{lines}")).err().unwrap();
    mistakes.join("\n")
}

fn with_credential(credential: &str) -> String {
    format!(
        "  grants:\n    targets:\n    - name: api\n      endpoint: https://api.example.com\n      credential: {credential}\n      rules: [{{ methods: [GET], path: /x, access: read }}]\n"
    )
}

#[test]
fn a_secret_in_place_of_its_source_is_refused_and_not_shown() {
    const SECRET: &str = "t0ken-in-place";
    const SOURCES: &str = "expected one of env, file, secret";
    for (lines, expected) in [
        (with_credential("{ bearer: t0ken-in-place }"), SOURCES),
        (with_credential("{ bearer: \"t0ken-in-place\" }"), SOURCES),
        (with_credential("{ bearer: [t0ken-in-place] }"), "expected"),
        (
            with_credential("{ bearer: { token: t0ken-in-place } }"),
            SOURCES,
        ),
        (
            with_credential("t0ken-in-place"),
            "expected one of bearer, basic",
        ),
        (
            with_credential("{ basic: { user: me, password: t0ken-in-place } }"),
            SOURCES,
        ),
        (
            with_credential("{ basic: { user: me, pass: t0ken-in-place } }"),
            "unknown field `pass`, expected one of user, password",
        ),
        (
            "  registry: { credentials: t0ken-in-place }\n".to_owned(),
            SOURCES,
        ),
        // A mistake elsewhere does not show the lines around it.
        (
            "  config: { TOKEN: t0ken-in-place }\n  sorce: x\n".to_owned(),
            "unknown field `sorce`",
        ),
    ] {
        let told = mistake(&lines);
        assert!(!told.contains(SECRET), "{lines}{told}");
        assert!(told.contains(expected), "{lines}{told}");
        assert!(told.contains(" at line "), "{told}");
    }
}

#[test]
fn what_is_expected_is_told_in_words_of_yaml() {
    for (lines, expected) in [
        (
            "  limits: { memoryMiB: 64Mi }\n",
            "expected a whole number, without a unit at line 5, column 24",
        ),
        (
            "  limits: { callSeconds: 60s }\n",
            "expected a whole number, without a unit at line 5, column 26",
        ),
        (
            "  loadBalancerClasses: example.com/fsn\n",
            "expected a list at line 5, column 24",
        ),
        ("  limits: 64\n", "expected a mapping at line 5, column 11"),
        (
            "  config: { HCLOUD_NETWORK: }\n",
            "expected a text, and there is none at line 5, column 27",
        ),
        (
            "  trust: { keys: [/etc/ccm/cosign.pub] }\n",
            "expected one of pem, file at line 5, column 19",
        ),
        (
            "  trust: { keys: [{ file: /x, pem: y }] }\n",
            "expected a single key, and there are several",
        ),
        (
            "  source: a\n  source: b\n",
            "duplicate mapping key: source not allowed here at line 6, column 3",
        ),
        ("\tsource: a\n", "found a tab"),
        ("---\na: b\n", "only single YAML document expected"),
    ] {
        let told = mistake(lines);
        assert!(told.contains(expected), "{lines}{told}");
        assert_eq!(told.lines().count(), 1, "{told}");
    }
}

#[test]
fn an_endpoint_without_a_scheme_is_told_with_one() {
    let target = with_credential("{ bearer: { env: TOKEN } }");
    let lines = target.replace("https://api.example.com", "api.example.com/v1");
    let expected = "target \"api\": endpoint: expected a URL such as https://api.example.com";
    let told = mistake(&lines);
    assert!(told.contains(expected), "{told}");
}

#[test]
fn certificates_that_are_none_are_a_mistake_before_anything_is_loaded() {
    const REASON: &str = "the CA certificates cannot be read: no certificate in the text";
    let target = with_credential("{ bearer: { env: TOKEN } }");
    for (lines, place) in [
        (target.clone() + "      caPem: none\n", "target \"api\": caPem"),
        ("  proxy: { url: 'https://proxy.example.com', caPem: none }\n".to_owned(), "caPem"),
        (
            "  source: oci://registry.example.com/a/b:1\n  trust: { unsigned: true }\n  registry: { caPem: none }\n".to_owned() + &target,
            "registry: caPem",
        ),
    ] {
        let told = mistake(&lines);
        assert!(told.contains(&format!("{place}: {REASON}")), "{told}");
    }
}
