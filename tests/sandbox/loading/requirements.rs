//! The requirements of a module before it is compiled, and the errors when one is not met.

use ccm_host::{LoadErrorKind, Module};
use wasm_encoder::{
    Component, ComponentExportKind, ComponentExportSection, ComponentInstanceSection, CustomSection,
};

use crate::artifacts::importing_function;
use crate::host::open_host;
use crate::loading::world::{self, block_on};
use crate::permits;
use ccm_tests::harness::Test;

pub(crate) const TESTS: &[Test] = &[
    (
        "a_shipped_module_says_what_it_is_without_running",
        a_shipped_module_says_what_it_is_without_running,
    ),
    (
        "missing_grants_are_listed_and_nothing_is_compiled",
        missing_grants_are_listed_and_nothing_is_compiled,
    ),
    (
        "all_mistakes_of_a_configuration_are_told_at_once",
        all_mistakes_of_a_configuration_are_told_at_once,
    ),
    ("what_init_refuses_is_told", what_init_refuses_is_told),
    (
        "an_export_without_its_functions_is_named",
        an_export_without_its_functions_is_named,
    ),
    (
        "what_a_later_patch_of_the_contract_needs_is_no_fault_of_the_module",
        what_a_later_patch_of_the_contract_needs_is_no_fault_of_the_module,
    ),
    (
        "more_grants_than_requested_are_a_warning",
        more_grants_than_requested_are_a_warning,
    ),
    (
        "a_self_check_that_is_not_there_says_nothing",
        a_self_check_that_is_not_there_says_nothing,
    ),
];

/// An address without a listener, because nothing may be sent.
const NOWHERE: &str = "http://127.0.0.1:9/v1";

/// A compiler that cannot be started: compiling fails.
fn no_compiler() -> ccm_host::Compiler {
    ccm_host::Compiler {
        program: "/nonexistent/compiler".into(),
        arguments: Vec::new(),
    }
}

fn a_shipped_module_says_what_it_is_without_running() {
    let module = world::hcloud();
    let inspection = ccm_host::inspect(&module.source, &module.wasm).unwrap();
    assert_eq!(inspection.size, module.wasm.len());
    assert_eq!(inspection.manifest.name, "hcloud");
    assert!(inspection.capabilities.instances);
    assert!(
        inspection
            .imports
            .iter()
            .any(|name| name == "ccm:provider/http@0.2.0"),
        "{:?}",
        inspection.imports
    );
    assert!(
        inspection
            .exports
            .iter()
            .any(|name| name == "ccm:provider/lifecycle@0.2.0"),
        "{:?}",
        inspection.exports
    );
}

fn missing_grants_are_listed_and_nothing_is_compiled() {
    block_on(async {
        let host = open_host(no_compiler(), None);
        let mut grants = world::grants(NOWHERE);
        grants.targets[0].rules.truncate(1);
        let error = host
            .load(world::hcloud(), grants, world::config(&[]))
            .await
            .err()
            .unwrap();
        let LoadErrorKind::Missing(missing) = &error.kind else {
            panic!("{error}")
        };
        assert!(!missing.lines.is_empty());
        let text = world::chain(&error);
        assert!(
            text.starts_with("embedded:hcloud requests more than it is granted"),
            "{text}"
        );
        for line in &missing.lines {
            assert!(text.contains(line), "{text} lacks {line}");
        }
        let nothing = host
            .load(world::hcloud(), Default::default(), world::config(&[]))
            .await
            .err()
            .unwrap();
        assert!(matches!(nothing.kind, LoadErrorKind::Missing(_)));
    });
}

fn all_mistakes_of_a_configuration_are_told_at_once() {
    block_on(async {
        let host = open_host(no_compiler(), None);
        let values = [
            ("HCLOUD_TOKEN", "a secret that does not belong here"),
            ("TYPO", "x"),
        ];
        let error = world::load(&host, NOWHERE, &values).await.err().unwrap();
        let text = world::chain(&error);
        assert!(
            text.contains("hcloud has no key HCLOUD_TOKEN; hcloud has no key TYPO"),
            "{text}"
        );
        assert!(
            !text.contains("a secret"),
            "values are not repeated: {text}"
        );

        let long = "x".repeat(300 * 1024);
        let error = world::load(&host, NOWHERE, &[("HCLOUD_NETWORK", &long)])
            .await
            .err()
            .unwrap();
        assert!(
            world::chain(&error).contains("at most 256 and 256 KiB"),
            "{error}"
        );
    });
}

fn what_init_refuses_is_told() {
    block_on(async {
        let host = world::warm_host();
        let values = [("HCLOUD_INSTANCES_ADDRESS_FAMILY", "ipv5")];
        let error = world::load(&host, NOWHERE, &values).await.err().unwrap();
        assert!(matches!(error.kind, LoadErrorKind::Init(_)), "{error}");
        let text = world::chain(&error);
        assert!(
            text.starts_with("embedded:hcloud does not start: invalid: ")
                && text.contains("HCLOUD_INSTANCES_ADDRESS_FAMILY"),
            "{text}"
        );
    });
}

/// A valid component that exports interfaces without any functions.
fn hollow(contract: &str) -> Module {
    let manifest = format!(
        r#"{{"contract":"{contract}","name":"hollow","version":"1","description":"","schemes":["hollow"]}}"#
    );
    let mut component = Component::new();
    let mut instances = ComponentInstanceSection::new();
    instances.export_items(std::iter::empty::<(&str, ComponentExportKind, u32)>());
    component.section(&instances);
    let mut exports = ComponentExportSection::new();
    for name in [
        "ccm:provider/lifecycle@0.1.0",
        "ccm:provider/instances@0.1.0",
    ] {
        exports.export(name, ComponentExportKind::Instance, 0, None);
    }
    component.section(&exports);
    component.section(&CustomSection {
        name: "ccm:manifest".into(),
        data: manifest.as_bytes().into(),
    });
    Module {
        source: "hollow.wasm".to_owned(),
        wasm: component.finish().into(),
    }
}

fn an_export_without_its_functions_is_named() {
    block_on(async {
        let host = world::warm_host();
        let error = host
            .load(hollow("0.1.0"), Default::default(), world::config(&[]))
            .await
            .err()
            .unwrap();
        assert!(
            matches!(error.kind, LoadErrorKind::Signature(_)),
            "{}",
            world::chain(&error)
        );
        let text = world::chain(&error);
        assert!(
            text.contains("hollow.wasm")
                && text.contains("lifecycle@0.1.0 lacks the function init"),
            "{text}"
        );
    });
}

/// A later patch of a contract may have functions that this host lacks: the module waits for a host that has them. It
/// has the same exports.
fn what_a_later_patch_of_the_contract_needs_is_no_fault_of_the_module() {
    block_on(async {
        let host = world::warm_host();
        let log = "ccm:provider/log@0.1.0";
        let importing = |contract| Module {
            source: "importing.wasm".to_owned(),
            wasm: importing_function(log, "whisper", contract).into(),
        };
        for (module, is_fault, parts) in [
            (
                importing("0.1.7"),
                false,
                ["needs ccm:provider@0.1.7", log, "whisper"],
            ),
            (
                importing("0.1.0"),
                true,
                ["does not keep to the contract", log, "whisper"],
            ),
            (
                hollow("0.1.7"),
                true,
                ["does not keep to the contract", "lifecycle@0.1.0", "init"],
            ),
        ] {
            let loaded = host.load(module, Default::default(), world::config(&[]));
            let error = loaded.await.err().unwrap();
            let text = world::chain(&error);
            match is_fault {
                true => assert!(matches!(error.kind, LoadErrorKind::Signature(_)), "{text}"),
                false => assert!(matches!(error.kind, LoadErrorKind::Contract(_)), "{text}"),
            }
            for part in parts {
                assert!(text.contains(part), "{part}: {text}");
            }
        }
    });
}

fn more_grants_than_requested_are_a_warning() {
    block_on(async {
        let host = world::warm_host();
        let mut grants = world::grants(NOWHERE);
        grants.annotation_prefixes.push("example.com/".to_owned());
        let provider = host
            .load(world::hcloud(), grants, world::config(&[]))
            .await
            .unwrap();
        assert!(
            provider
                .warnings()
                .iter()
                .any(|warning| warning.contains("example.com/")),
            "{:?}",
            provider.warnings()
        );
    });
}

fn a_self_check_that_is_not_there_says_nothing() {
    block_on(async {
        let host = world::warm_host();
        let provider = world::load(&host, NOWHERE, &[]).await.unwrap();
        let inspection = ccm_host::inspect("hcloud", embedded_guests::HCLOUD).unwrap();
        let answer = provider.self_check(permits::reads()).await;
        // There is no listener: a guest with a self-check fails it.
        assert_eq!(answer.is_err(), inspection.self_check, "{answer:?}");
    });
}
