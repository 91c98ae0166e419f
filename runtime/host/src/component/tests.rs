//! Manifests, imports and exports that components may have.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use super::*;
use crate::fixtures::{self, EXPORTS, MANIFEST};

fn check(name: &str, wasm: &[u8], expected: &str) {
    match inspect("sample.wasm", wasm) {
        Ok(_) => assert_eq!("accepted", expected, "{name}"),
        Err(error) => {
            let text = error.to_string();
            assert!(
                text.contains("sample.wasm"),
                "{name}: {text:?} does not name the module"
            );
            assert!(
                text.contains(expected),
                "{name}: {text:?} does not contain {expected:?}"
            );
        }
    }
}

fn with_imports(imports: &[&str]) -> Vec<u8> {
    fixtures::component(imports, EXPORTS, &[MANIFEST])
}

fn with_exports(exports: &[&str]) -> Vec<u8> {
    fixtures::component(&[], exports, &[MANIFEST])
}

#[test]
fn exactly_one_manifest_is_needed() {
    check("one", &with_imports(&[]), "accepted");
    check(
        "none",
        &fixtures::component(&[], EXPORTS, &[]),
        "no manifest",
    );
    check(
        "two",
        &fixtures::component(&[], EXPORTS, &[MANIFEST, MANIFEST]),
        "2 manifests",
    );
    check(
        "not JSON",
        &fixtures::component(&[], EXPORTS, &["{"]),
        "the manifest of sample.wasm is not valid",
    );
}

#[test]
fn imports_are_offered_or_refused_by_name() {
    let ours = ["clock", "common", "http", "log", "random", "state"]
        .map(|name| format!("ccm:provider/{name}@0.1.0"));
    check(
        "ours",
        &with_imports(&ours.each_ref().map(String::as_str)),
        "accepted",
    );
    let wasi: Vec<_> = wasi::INTERFACES
        .iter()
        .map(|name| format!("{name}@0.2.9"))
        .collect();
    let wasi: Vec<_> = wasi.iter().map(String::as_str).collect();
    check("all of WASI 0.2", &with_imports(&wasi), "accepted");
    for name in [
        "wasi:nn/graph@0.2.0",
        "wasi:cli/run@0.2.0",
        "acme:cloud/api@1.0.0",
        "wasi:http/client@0.3.0",
        "wasi:io/poll@0.3.0",
    ] {
        check(
            name,
            &with_imports(&["wasi:io/poll@0.2.0", name]),
            &format!("does not offer: {name}"),
        );
    }
    check(
        "several",
        &with_imports(&["a:b/c@1.0.0", "d:e/f@1.0.0"]),
        "a:b/c@1.0.0, d:e/f@1.0.0",
    );
    check(
        "ours, unknown",
        &with_imports(&["ccm:provider/shell@0.1.0"]),
        "does not offer: ccm:provider/shell",
    );
    let many: Vec<_> = (0..100)
        .map(|number| format!("a:b/c{number}@1.0.0"))
        .collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    check("a hundred", &with_imports(&many), "and 68 more");
}

#[test]
fn the_page_of_the_contract_names_the_interfaces_of_wasi_that_are_offered() {
    let page = include_str!("../../../../wit/README.md");
    let rows = page.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| `wasi:")?.split('|');
        Some((cells.next()?.trim().trim_end_matches('`'), cells.next()?))
    });
    let mut named: Vec<String> = rows
        .flat_map(|(package, interfaces)| {
            let names = interfaces.split('`').skip(1).step_by(2);
            names.map(move |name| format!("wasi:{package}/{name}"))
        })
        .collect();
    named.sort();
    assert_eq!(named, wasi::INTERFACES);
}

#[test]
fn another_version_of_the_contract_is_an_error_that_names_all() {
    check(
        "later patch",
        &with_imports(&["ccm:provider/http@0.1.7"]),
        "accepted",
    );
    for name in [
        "ccm:provider/http@0.3.0",
        "ccm:provider/log@1.0.0",
        "ccm:provider/log@0.1.0-rc1",
        "ccm:provider/log",
    ] {
        let expected = format!("needs {name}, and this host speaks ccm:provider@0.1.0 and 0.2.0");
        check(name, &with_imports(&[name]), &expected);
    }
    let exports = [
        "ccm:provider/lifecycle@0.1.0",
        "ccm:provider/instances@0.3.0",
    ];
    check(
        "export",
        &with_exports(&exports),
        "needs ccm:provider/instances@0.3.0, and this host speaks",
    );
    let inspected = |version: &str, more: &str| {
        let end = format!("{more}}}");
        let manifest = MANIFEST.replace("0.1.0", version).replace('}', &end);
        let wasm = fixtures::component(&[], EXPORTS, &[&manifest]);
        inspect("sample.wasm", &wasm).map(|_| ())
    };
    // A later contract may have keys, forms and kinds that this host does not know.
    let later = [
        r#","surprise":1"#,
        r#","limits":[]"#,
        r#","targets":[{"name":"api","endpoint":"https://api.example.com","auth":"mtls",
            "rules":[{"methods":["GET"],"path":"/machines","access":"read"}]}]"#,
    ];
    for more in [""].into_iter().chain(later) {
        let error = inspected("0.3.0", more).unwrap_err();
        assert!(matches!(error.kind, LoadErrorKind::Contract(_)), "{error}");
        let expected = "needs ccm:provider@0.3.0 (says its manifest), and this host speaks";
        assert!(error.to_string().contains(expected), "{error}");
    }
    for (version, more) in ["0.1.0", "0.2.9", "0.3", "later"]
        .into_iter()
        .flat_map(|version| later.map(|more| (version, more)))
    {
        let error = inspected(version, more).unwrap_err();
        assert!(matches!(error.kind, LoadErrorKind::Manifest(_)), "{error}");
    }
}

/// The three places of a module that name a version: manifest, imports, exports.
#[test]
fn a_module_speaks_one_version_of_the_contract() {
    let newest = MANIFEST.replace("0.1.0", "0.2.0");
    let at = |version: &str, name: &str| format!("ccm:provider/{name}@{version}");
    let inspected = |manifest: &str, import: &str, lifecycle: &str, instances: &str| {
        let import = at(import, "log");
        let exports = [at(lifecycle, "lifecycle"), at(instances, "instances")];
        let exports = exports.each_ref().map(String::as_str);
        let wasm = fixtures::component(&[import.as_str()], &exports, &[manifest]);
        inspect("sample.wasm", &wasm)
    };
    let contract = |version: &str, manifest: &str| {
        let inspection = inspected(manifest, version, version, version).unwrap();
        inspection.contract
    };
    assert_eq!(contract("0.1.0", MANIFEST), Contract::V0_1);
    assert_eq!(contract("0.2.0", &newest), Contract::V0_2);
    for (manifest, import, lifecycle, instances, other) in [
        (newest.as_str(), "0.1.0", "0.1.0", "0.1.0", "log@0.1.0"),
        (MANIFEST, "0.2.0", "0.2.0", "0.2.0", "log@0.2.0"),
        (&newest, "0.2.0", "0.1.0", "0.1.0", "lifecycle@0.1.0"),
        (&newest, "0.2.0", "0.2.0", "0.1.0", "instances@0.1.0"),
        (MANIFEST, "0.1.0", "0.2.0", "0.2.0", "lifecycle@0.2.0"),
        (MANIFEST, "0.1.0", "0.1.0", "0.2.0", "instances@0.2.0"),
    ] {
        let error = inspected(manifest, import, lifecycle, instances).unwrap_err();
        assert!(
            matches!(error.kind, LoadErrorKind::TwoContracts { .. }),
            "{error}"
        );
        let text = error.to_string();
        assert!(text.contains("(says its manifest)"), "{text}");
        assert!(text.ends_with(&format!("ccm:provider/{other}")), "{text}");
    }
}

#[test]
fn capabilities_are_the_exported_interfaces() {
    let inspection = inspect("sample.wasm", &with_imports(&["ccm:provider/log@0.1.0"])).unwrap();
    assert_eq!(
        inspection.capabilities,
        Capabilities {
            instances: true,
            load_balancer: false,
            routes: false
        }
    );
    assert!(!inspection.self_check);
    assert_eq!(inspection.imports, ["ccm:provider/log@0.1.0"]);
    assert_eq!(inspection.exports, EXPORTS);
    assert_eq!(inspection.manifest.name, "sample");

    let all = ["lifecycle", "load-balancer", "routes", "self-check"]
        .map(|name| format!("ccm:provider/{name}@0.1.0"));
    let inspection = inspect(
        "sample.wasm",
        &with_exports(&all.each_ref().map(String::as_str)),
    )
    .unwrap();
    assert_eq!(
        inspection.capabilities,
        Capabilities {
            instances: false,
            load_balancer: true,
            routes: true
        }
    );
    assert!(inspection.self_check);
}

#[test]
fn foreign_exports_are_ignored_and_a_missing_lifecycle_is_not() {
    check(
        "foreign",
        &with_exports(&["ccm:provider/lifecycle@0.1.0", "wasi:cli/run@0.2.0"]),
        "accepted",
    );
    check(
        "no lifecycle",
        &with_exports(&["ccm:provider/instances@0.1.0"]),
        "does not export ccm:provider/lifecycle",
    );
    check(
        "nothing",
        &with_exports(&[]),
        "does not export ccm:provider/lifecycle",
    );
}

#[test]
fn instances_without_a_scheme_are_a_contradiction() {
    let manifest = MANIFEST.replace(r#"["sample"]"#, "[]");
    let wasm = fixtures::component(&[], EXPORTS, &[&manifest]);
    check("no scheme", &wasm, "no provider ID scheme");
}

#[test]
fn every_truncation_is_refused() {
    let whole = with_imports(&["ccm:provider/log@0.1.0"]);
    for length in 0..whole.len() {
        assert!(
            inspect("sample.wasm", &whole[..length]).is_err(),
            "{length} of {} bytes",
            whole.len()
        );
    }
}

#[test]
fn a_shipped_module_that_was_changed_or_cut_anywhere_makes_nobody_panic() {
    let whole = embedded_guests::HCLOUD;
    for step in 0..200 {
        // Positions spread over the file, with more of them at its beginning.
        let at = whole.len() * step * step / 40_000;
        let mut changed = whole.to_vec();
        changed[at] ^= 0xff;
        // Most changes are in function bodies, which only the compile child reads.
        let _ = inspect("changed.wasm", &changed);
        assert!(inspect("cut.wasm", &whole[..at]).is_err(), "cut at {at}");
    }
}

#[test]
fn hostile_names_are_shown_harmlessly() {
    let name = "a:b/\u{1b}[2J\u{202e}evil";
    let error = inspect("sample.wasm", &with_imports(&[name]))
        .expect_err("not offered")
        .to_string();
    assert!(
        error.contains("\\u{1b}") && !error.contains('\u{1b}') && !error.contains('\u{202e}'),
        "{error}"
    );
}

#[test]
fn tracks_are_what_semantic_versions_make_compatible() {
    for (version, expected) in [
        ("0.1.0", "0.1"),
        ("0.1.17", "0.1"),
        ("1.2.3", "1"),
        ("10.2.3", "10"),
        ("0.1.0-rc1", "0.1.0-rc1"),
        ("0.1", "0.1"),
        ("", ""),
    ] {
        assert_eq!(track(version), expected, "{version}");
    }
}
