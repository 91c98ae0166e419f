//! `ccm provider pack`: the host loads its output, and sources unpack it.

use ccm_delivery::artifact::SignatureEvidence;
use ccm_delivery::source::configmap::ConfigMapSource;
use ccm_delivery::source::configmap::content::module_in;
use ccm_delivery::source::unpack::unpack;
use ccm_delivery::source::{Location, Source as _};
use ccm_host::Digest;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{ccm, ccm_reading, file, other_module, text};
use crate::COMPILED;

/// The manifest of the shipped module with a version, which the SDK's macro adds to the module.
fn manifest_of(version: &str) -> String {
    const SHIPPED: &str = include_str!("../../../guests/hcloud/manifest.json");
    SHIPPED.replacen('{', &format!("{{\n  \"version\": \"{version}\","), 1)
}

/// The shipped module without a manifest: its section has another name of the same length.
fn unmarked() -> Vec<u8> {
    let mut wasm = other_module();
    let name = b"ccm:manifest";
    let at = wasm
        .windows(name.len())
        .position(|part| part == name)
        .unwrap();
    wasm[at..at + name.len()].copy_from_slice(b"ccm:nothing.");
    wasm
}

/// Incompressible bytes in a custom section.
fn ballast(bytes: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    })
    .flatten()
    .take(bytes)
    .collect();
    let section = wasm_encoder::CustomSection {
        name: "ballast".into(),
        data: noise.into(),
    };
    let mut tail = wasm_encoder::Component::new();
    tail.section(&section);
    tail.finish().split_off(8)
}

#[test]
fn the_shipped_module_can_be_had_as_a_file() {
    let folder = TempDir::new().unwrap();
    let to = folder.path().join("provider.wasm");
    let output = ccm(&["provider", "pack", "embedded:hcloud", "--to", text(&to)]);
    assert_eq!(output.code, 0, "{}{}", output.out, output.err);
    assert_eq!(std::fs::read(&to).unwrap(), embedded_guests::HCLOUD);
}

fn digest_of(file: &std::path::Path) -> String {
    let output = ccm(&["provider", "inspect", "-o", "json", text(file)]);
    assert_eq!(output.code, 0, "{}{}", output.out, output.err);
    let json: Value = serde_json::from_str(&output.out).unwrap();
    json["digest"].as_str().unwrap().to_owned()
}

#[test]
fn a_component_that_is_given_its_manifest_loads() {
    let folder = TempDir::new().unwrap();
    let component = file(&folder, "guest.wasm", &unmarked());
    let manifest = file(&folder, "manifest.json", manifest_of("0.2.0").as_bytes());
    let packed = folder.path().join("provider.wasm");

    let output = ccm(&["provider", "pack", text(&component), "--to", text(&packed)]);
    assert_eq!(output.code, 2, "{}{}", output.out, output.err);
    assert!(
        output.out.contains("--manifest gives it one"),
        "{}",
        output.out
    );
    assert!(!packed.exists());

    let pack = |manifest: &std::path::Path, more: &[&str]| {
        let mut arguments = vec!["provider", "pack", text(&component)];
        arguments.extend(["--manifest", text(manifest), "--to", text(&packed)]);
        ccm(&[&arguments, more].concat())
    };
    let output = pack(&manifest, &[]);
    assert_eq!(output.code, 0, "{}{}", output.out, output.err);
    assert!(output.out.contains("hcloud 0.2.0"), "{}", output.out);
    let bytes = std::fs::read(&packed).unwrap();
    assert!(
        output.out.contains(&Digest::of(&bytes).to_string()),
        "{}",
        output.out
    );
    let output = ccm(&["provider", "check", &COMPILED, text(&packed)]);
    assert_eq!(output.code, 0, "{}{}", output.out, output.err);
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 3, "{left:?}");
}

#[test]
fn a_manifest_at_the_top_is_replaced_only_when_that_is_said() {
    let folder = TempDir::new().unwrap();
    let component = file(&folder, "guest.wasm", &unmarked());
    let manifest = file(&folder, "manifest.json", manifest_of("0.2.0").as_bytes());
    let newer = file(&folder, "newer.json", manifest_of("0.3.0").as_bytes());
    let packed = folder.path().join("provider.wasm");
    let pack = |from: &std::path::Path, manifest: &std::path::Path, more: &[&str]| {
        let mut arguments = vec!["provider", "pack", text(from)];
        arguments.extend(["--manifest", text(manifest), "--to", text(&packed)]);
        ccm(&[&arguments, more].concat())
    };
    assert_eq!(pack(&component, &manifest, &[]).code, 0);
    let first = std::fs::read(&packed).unwrap();

    let output = pack(&packed, &newer, &[]);
    assert_eq!(output.code, 2, "{}{}", output.out, output.err);
    assert!(output.out.contains("--replace"), "{}", output.out);
    assert_eq!(std::fs::read(&packed).unwrap(), first);

    let output = pack(&packed, &newer, &["--replace"]);
    assert_eq!(output.code, 0, "{}{}", output.out, output.err);
    assert!(output.out.contains("hcloud 0.3.0"), "{}", output.out);
    let output = pack(&packed, &manifest, &["--replace"]);
    assert_eq!(output.code, 0, "{}{}", output.out, output.err);
    assert_eq!(std::fs::read(&packed).unwrap(), first);

    // The SDK's section is in a core module, from which nothing can be removed.
    let shipped = file(&folder, "shipped.wasm", &other_module());
    let output = pack(&shipped, &newer, &["--replace"]);
    assert_eq!(output.code, 2, "{}{}", output.out, output.err);
    assert!(output.out.contains("needs no --manifest"), "{}", output.out);
    assert_eq!(std::fs::read(&packed).unwrap(), first);
}

#[test]
fn every_mistake_in_a_manifest_is_told_before_anything_is_written() {
    let folder = TempDir::new().unwrap();
    let component = file(&folder, "guest.wasm", &unmarked());
    let packed = folder.path().join("provider.wasm");
    let large = format!("{}{}", " ".repeat(64 << 10), manifest_of("0.2.0"));
    for (manifest, code, reasons) in [
        (
            r#"{"contract":"0.1","name":"No","version":"","colour":"red"}"#,
            2,
            &[
                "contract \"0.1\"",
                "name \"No\"",
                "version \"\"",
                "unknown key \"colour\"",
            ][..],
        ),
        ("{", 2, &["cannot be read", "EOF"]),
        ("", 2, &["cannot be read"]),
        (&large, 2, &["at most 65536"]),
        (
            r#"{"contract":"0.9.0","name":"x","version":"1","schemes":["x"]}"#,
            2,
            &["needs ccm:provider@0.9.0", "this host speaks"],
        ),
        (
            r#"{"contract":"0.2.0","name":"x","version":"1"}"#,
            2,
            &["names no provider ID scheme"],
        ),
    ] {
        let manifest = file(&folder, "manifest.json", manifest.as_bytes());
        let output = ccm(&[
            "provider",
            "pack",
            text(&component),
            "--manifest",
            text(&manifest),
            "--to",
            text(&packed),
        ]);
        assert_eq!(output.code, code, "{}{}", output.out, output.err);
        for reason in reasons {
            let all = format!("{}{}", output.out, output.err);
            assert!(all.contains(reason), "{reason}: {all}");
        }
        assert!(!packed.exists());
    }
}

#[test]
fn what_is_no_component_cannot_be_packed() {
    let folder = TempDir::new().unwrap();
    let manifest = file(&folder, "manifest.json", manifest_of("0.2.0").as_bytes());
    let whole = unmarked();
    for (bytes, reason) in [
        (&b"\0asm\x01\0\0\0"[..], "core module"),
        (b"hello", "not WebAssembly"),
        (&whole[..whole.len() / 2], "damaged"),
        (&whole[..whole.len() - 1], "damaged"),
    ] {
        let component = file(&folder, "guest.wasm", bytes);
        let output = ccm(&[
            "provider",
            "pack",
            text(&component),
            "--manifest",
            text(&manifest),
            "--to",
            "/dev/null/x",
        ]);
        assert_eq!(output.code, 2, "{reason}: {}{}", output.out, output.err);
        assert!(output.out.contains(reason), "{reason}: {}", output.out);
    }
}

#[test]
fn compressed_modules_are_the_same_modules_and_the_same_bytes_each_time() {
    let folder = TempDir::new().unwrap();
    let module = file(&folder, "module.wasm", &other_module());
    let plain = other_module();
    let packed = folder.path().join("packed");
    let pack = || {
        let output = ccm(&[
            "provider",
            "pack",
            text(&module),
            "--compress",
            "gzip",
            "--to",
            text(&packed),
        ]);
        assert_eq!(output.code, 0, "{}{}", output.out, output.err);
        std::fs::read(&packed).unwrap()
    };
    let once = pack();
    assert!(once.len() < plain.len() / 2, "{}", once.len());
    assert_eq!(pack(), once);
    assert_eq!(unpack(once).unwrap(), plain);
    assert_eq!(digest_of(&packed), digest_of(&module));
}

#[test]
fn a_configmap_holds_what_the_source_unpacks() {
    let folder = TempDir::new().unwrap();
    let module = file(&folder, "module.wasm", &other_module());
    for (target, more, key) in [
        ("kube-system/hcloud", &[][..], "provider.wasm"),
        (
            "kube-system/hcloud",
            &["--compress", "gzip", "--immutable"],
            "provider.wasm.gz",
        ),
        ("123/true/null", &["--compress", "gzip"], "null"),
    ] {
        for form in ["text", "json"] {
            let base = [
                "provider",
                "pack",
                text(&module),
                "--configmap",
                target,
                "-o",
                form,
            ];
            let output = ccm(&[&base, more].concat());
            assert_eq!(output.code, 0, "{}{}", output.out, output.err);
            let map: ConfigMap = match form {
                "json" => serde_json::from_str(&output.out).unwrap(),
                _ => serde_saphyr::from_str(&output.out).unwrap(),
            };
            let mut names = target.split('/');
            assert_eq!(map.metadata.namespace.as_deref(), names.next());
            assert_eq!(map.metadata.name.as_deref(), names.next());
            assert_eq!(map.immutable.is_some(), more.contains(&"--immutable"));
            let data = map.binary_data.unwrap();
            assert_eq!(data.keys().collect::<Vec<_>>(), [key]);
            assert_eq!(unpack(data[key].0.clone()).unwrap(), other_module());
        }
    }
}

#[test]
fn a_module_that_is_split_over_keys_is_put_together_again() {
    let folder = TempDir::new().unwrap();
    let module = file(&folder, "module.wasm", &other_module());
    for split in [100_000, 1_048_576] {
        let output = ccm(&[
            "provider",
            "pack",
            text(&module),
            "--compress",
            "gzip",
            "--configmap",
            "ns/name/x",
            "--split",
            &split.to_string(),
        ]);
        assert_eq!(output.code, 0, "{}{}", output.out, output.err);
        let map: ConfigMap = serde_saphyr::from_str(&output.out).unwrap();
        let keys = map.binary_data.as_ref().unwrap();
        let bytes: usize = keys.values().map(|piece| piece.0.len()).sum();
        assert!((100_001..1_048_576).contains(&bytes), "{bytes}");
        assert_eq!(keys.len(), bytes.div_ceil(split));
        let found = module_in(&map, "x").unwrap();
        assert_eq!(unpack(found.bytes).unwrap(), other_module());
    }
    let output = ccm(&[
        "provider",
        "pack",
        text(&module),
        "--configmap",
        "ns/name",
        "--split",
        "5000",
    ]);
    assert_eq!(output.code, 2, "{}{}", output.out, output.err);
    assert!(output.err.contains("at most 100"), "{}", output.err);
}

#[test]
fn a_signature_beside_the_module_goes_into_the_configmap() {
    let folder = TempDir::new().unwrap();
    let module = file(&folder, "module.wasm", &other_module());
    let bundle = r#"{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json","text":"\"ü: {"}"#;
    file(&folder, "module.wasm.sigstore.json", bundle.as_bytes());
    for form in ["text", "json"] {
        let output = ccm(&[
            "provider",
            "pack",
            text(&module),
            "--compress",
            "gzip",
            "--configmap",
            "ns/name/x",
            "-o",
            form,
        ]);
        assert_eq!(output.code, 0, "{}{}", output.out, output.err);
        let map: ConfigMap = serde_saphyr::from_str(&output.out).unwrap();
        let found = module_in(&map, "x").unwrap();
        assert_eq!(
            found.evidence,
            [SignatureEvidence::Bundle(bundle.as_bytes().to_vec())]
        );
    }
}

#[test]
fn what_does_not_fit_into_a_configmap_is_sent_to_a_registry() {
    let folder = TempDir::new().unwrap();
    let wasm = [other_module(), ballast(1 << 20)].concat();
    let module = file(&folder, "module.wasm", &wasm);
    let target = folder.path().join("map.yaml");
    let output = ccm(&[
        "provider",
        "pack",
        text(&module),
        "--compress",
        "gzip",
        "--configmap",
        "ns/name",
        "--to",
        text(&target),
    ]);
    assert_eq!(output.code, 2, "{}{}", output.out, output.err);
    for word in ["at most 1048576", "wkg oci push"] {
        assert!(output.out.contains(word), "{word}: {}", output.out);
    }
    assert!(!target.exists());
}

#[test]
fn standard_input_and_output_take_the_place_of_files() {
    let packed = ccm_reading(
        &["provider", "pack", "-", "--compress", "gzip", "--to", "-"],
        &other_module(),
    );
    assert_eq!(packed.status.code(), Some(0));
    let inspected = ccm_reading(&["provider", "inspect", "-", "-o", "json"], &packed.stdout);
    assert_eq!(inspected.status.code(), Some(0));
    let json: Value = serde_json::from_slice(&inspected.stdout).unwrap();
    assert_eq!(json["digest"], Digest::of(&other_module()).to_string());
    let limits = json!({"memoryMiB": 64, "callSeconds": 60, "heldMiB": 32});
    assert_eq!(json["limits"], limits);
}

#[test]
fn options_that_do_not_fit_together_are_wrong_options() {
    let folder = TempDir::new().unwrap();
    let module = file(&folder, "module.wasm", &other_module());
    for (more, expected) in [
        (&[][..], "--to <FILE>"),
        (&["--to", "x", "--replace"], "--manifest <FILE>"),
        (&["--to", "x", "--immutable"], "--configmap"),
        (&["--configmap", "name"], "expected NAMESPACE/NAME"),
        (&["--configmap", "NS/name"], "namespace"),
        (&["--configmap", "ns/name/a/b"], "expected NAMESPACE/NAME"),
        (&["--configmap", "ns/name/a\nb: c"], "key"),
        (&["--to", "/nonexistent/folder/x.wasm"], "cannot write"),
        (
            &["--to", "x", "--compress", "zstd"],
            "possible values: gzip",
        ),
    ] {
        let output = ccm(&[&["provider", "pack", text(&module)], more].concat());
        assert_eq!(output.code, 1, "{more:?}: {}{}", output.out, output.err);
        assert!(output.err.contains(expected), "{more:?}: {}", output.err);
        assert_eq!(output.out, "", "{more:?}");
    }
}

#[test]
fn what_is_applied_to_a_cluster_is_what_the_source_brings() {
    let folder = TempDir::new().unwrap();
    let module = file(&folder, "module.wasm", &other_module());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for (name, more) in [
        ("gzip", &["--compress", "gzip", "--immutable"][..]),
        ("split", &["--compress", "gzip", "--split", "65536"]),
    ] {
        let target = format!("kube-system/{name}/module");
        let base = ["provider", "pack", text(&module), "--configmap", &target];
        let output = ccm(&[&base, more].concat());
        assert_eq!(output.code, 0, "{}{}", output.out, output.err);
        let map: ConfigMap = serde_saphyr::from_str(&output.out).unwrap();
        let brought = runtime.block_on(async {
            let client = ccm_sim::cluster::Cluster::new().client();
            let api: Api<ConfigMap> = Api::namespaced(client.clone(), "kube-system");
            api.create(&PostParams::default(), &map).await.unwrap();
            let place = format!("configmap://{target}");
            let Ok(Location::ConfigMap(key)) = Location::parse(&place) else {
                panic!("{place}");
            };
            ConfigMapSource::new(place, client, key)
                .next()
                .await
                .unwrap()
        });
        assert_eq!(brought.digest, Digest::of(&other_module()), "{name}");
    }
}
