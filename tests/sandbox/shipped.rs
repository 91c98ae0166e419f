//! Every shipped guest as a module: its size, its requests, and that it loads. And the guest without a cloud, in the
//! real sandbox.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use ccm_core::cloud::{CloudNode, Lookup};
use ccm_core::cloud_provider::CloudProvider as _;
use ccm_host::grant::Grants;
use ccm_host::{GuestConfig, Module};
use ccm_tests::compiled_modules;
use ccm_tests::conformance::{Tested, configuration, conforms};
use ccm_tests::harness::trial;
use flate2::Compression;
use flate2::read::GzEncoder;
use libtest_mimic::Trial;
use serde_json::{Value, json};

use crate::hcloud::world::{brief, node};
use crate::host::HOST;
use crate::permits::reads;

/// Maximum size of a module, compressed as registries store it.
const MOST_BYTES: usize = 1 << 20;

pub(crate) fn trials() -> Vec<Trial> {
    let tests: [(&str, fn()); 4] = [
        (
            "every_guest_is_small_and_says_what_it_is",
            every_guest_is_small_and_says_what_it_is,
        ),
        ("static_can_reach_nothing", static_can_reach_nothing),
        (
            "static_answers_completely_without_a_request",
            static_answers_completely_without_a_request,
        ),
        ("static_keeps_every_law", static_keeps_every_law),
    ];
    let trials = tests.into_iter().map(|(name, test)| {
        trial(format!("shipped::{name}"), move || {
            test();
            Ok(())
        })
    });
    trials.collect()
}

#[allow(clippy::print_stdout, reason = "the sizes are figures")]
fn every_guest_is_small_and_says_what_it_is() {
    let embedded: Vec<&str> = embedded_guests::ALL
        .iter()
        .map(|guest| guest.name)
        .collect();
    assert_eq!(embedded, embedded_guests::SHIPPED);
    let readme = include_str!("../../guests/README.md");
    for guest in embedded_guests::ALL {
        let mut packed = Vec::new();
        let mut reader = GzEncoder::new(guest.wasm, Compression::best());
        std::io::Read::read_to_end(&mut reader, &mut packed).unwrap();
        println!(
            "{}: {} bytes, {} with gzip",
            guest.name,
            guest.wasm.len(),
            packed.len()
        );
        assert!(
            packed.len() <= MOST_BYTES,
            "{}: {} bytes",
            guest.name,
            packed.len()
        );
        let begin = format!("| `{}` | ", guest.name);
        let stated = readme.lines().find_map(|line| {
            let (_, kib) = line
                .strip_prefix(&begin)?
                .strip_suffix(" KiB |")?
                .rsplit_once(' ')?;
            kib.parse::<usize>().ok()
        });
        let stated =
            stated.unwrap_or_else(|| panic!("guests/README.md: no size of {}", guest.name));
        let kib = packed.len().div_ceil(1 << 10);
        assert!(
            stated.abs_diff(kib) * 10 <= kib,
            "guests/README.md: {} has {kib} KiB, not {stated}",
            guest.name
        );
        let inspection = ccm_host::inspect(guest.name, guest.wasm).unwrap();
        assert_eq!(inspection.manifest.name, guest.name);
        assert!(inspection.capabilities.instances, "{}", guest.name);
    }
}

fn static_can_reach_nothing() {
    let inspection = ccm_host::inspect("static", embedded_guests::STATIC).unwrap();
    assert!(inspection.manifest.targets.is_empty());
    assert!(inspection.manifest.annotation_prefixes.is_empty());
    for import in &inspection.imports {
        assert!(!import.contains("http"), "{:?}", inspection.imports);
    }
}

fn static_answers_completely_without_a_request() {
    let document = r#"{"rules": [{"names": ["metal-*"], "zone": "a"}], "retired": ["metal-9"]}"#;
    let module = Module {
        source: "embedded:static".to_owned(),
        wasm: Bytes::from_static(embedded_guests::STATIC),
    };
    let config = |document: &str| GuestConfig {
        values: [("STATIC_NODES".to_owned(), document.to_owned())].into(),
        ..GuestConfig::default()
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let load =
        |text: &str| runtime.block_on(HOST.load(module.clone(), Grants::default(), config(text)));
    let provider = load(document).unwrap();
    assert_eq!(provider.warnings(), [] as [&str; 0]);
    let stored = |name: &str| node(name, Some(format!("static://{name}")));
    let mut nodes = vec![
        node("metal-1", None),
        stored("metal-2"),
        stored("metal-9"),
        node("laptop", None),
    ];
    nodes.extend((10..4_000).map(|number| stored(&format!("metal-{number}"))));
    let ask = |nodes: &[CloudNode]| {
        runtime
            .block_on(provider.find_fresh(nodes, Arc::clone(&reads())))
            .unwrap()
    };
    let reply = ask(&nodes);
    let reported = brief(&reply);
    assert_eq!(
        reported[..4],
        ["static://metal-1", "static://metal-2", "gone", "not mine"]
    );
    assert!(reply.complete, "it was granted nothing to ask");
    assert!(
        reply.lookups[4..]
            .iter()
            .all(|one| matches!(one, Lookup::Found(_)))
    );

    // The reason why it is not loaded names all mistakes.
    let refused = load(r#"{"rules": [{"zone": "a b"}], "retire": []}"#).unwrap_err();
    let why = std::error::Error::source(&refused).unwrap().to_string();
    for part in ["rules[0].zone", "no such key: \"retire\""] {
        assert!(why.contains(part), "{why}");
    }
}

/// With the manifest's scheme, and with one that the operator names instead.
fn static_keeps_every_law() {
    let program = Path::new(env!("CARGO_BIN_EXE_ccm"));
    let module = "embedded:static";
    for scheme in ["static", "metal"] {
        let document = format!(
            "rules: [{{names: ['metal-*', 'ccm-conformance-*'], providerID: '{scheme}://{{name}}'}}]\nretired: [ccm-conformance-gone]"
        );
        let values = [("STATIC_NODES", document.as_str())];
        let config = configuration(program, module, &[], &values).unwrap();
        let mut config: Value = serde_json::from_str(&config).unwrap();
        if scheme != "static" {
            config["providers"][0]["nodes"] = json!({ "schemes": [scheme] });
        }
        let tested = Tested {
            program,
            module,
            config: &config.to_string(),
            arguments: &[
                &format!("--node=metal-1={scheme}://metal-1"),
                &format!("--node=metal-2={scheme}://metal-2"),
                &format!("--gone={scheme}://ccm-conformance-gone"),
                &compiled_modules::argument(env!("CARGO_TARGET_TMPDIR")),
            ],
        };
        let applicable = ["instances/found", "instances/by-name", "instances/gone"];
        conforms(&tested, &applicable).unwrap();
    }
}
