//! Files with a wrong kind, size, name, or request to the engine.

use ccm_host::{LoadErrorKind, ModuleRefusal};
use sha2::{Digest as _, Sha256};
use wasm_encoder::{
    Component, CustomSection, Instruction, MemArg, Module, TagKind, TagSection, TagType,
    TypeSection,
};

use crate::artifacts::made::{
    boundaries, deep, exporting, followed_by, function, functions, globals, hollow, importing,
    instances, manifest, memories, memory, table, with_module, with_text,
};
use crate::artifacts::serving::{Serving, good};
use ccm_tests::harness::Test;

pub(crate) const TESTS: &[Test] = &[
    ("a1_nothing_noise_and_parts_are_refused", a1),
    ("a2_a_core_module_is_no_component", a2),
    ("a3_what_is_not_exported_is_named", a3),
    ("a4_what_the_host_does_not_offer_is_listed", a4),
    (
        "a5_another_version_of_the_contract_is_refused_by_both_numbers",
        a5,
    ),
    ("a6_a_file_over_the_cap_is_refused_before_it_is_read", a6),
    ("a11_compiled_code_is_refused_by_its_first_bytes", a11),
    ("a15_what_is_switched_off_is_refused_by_name", a15),
    ("a16_what_begins_too_large_is_refused_by_its_limit", a16),
    ("a17_names_are_shown_harmlessly_and_cut", a17),
    ("c10_types_that_go_on_and_on_are_refused", c10),
];

type IsExpected = fn(&LoadErrorKind) -> bool;

/// Loads each file, and compares the error.
fn refused(rows: Vec<(&str, Vec<u8>, IsExpected, &str)>) {
    let serving = Serving::start();
    for (name, wasm, is_expected, words) in rows {
        let (error, reported) = serving.refusal(name, wasm);
        assert!(is_expected(&error.kind), "{name}: {reported}");
        assert!(reported.contains(words), "{name}: {reported}");
    }
}

fn is_refused(error: &LoadErrorKind) -> bool {
    matches!(error, LoadErrorKind::Refused(_))
}

fn is_invalid(error: &LoadErrorKind) -> bool {
    matches!(error, LoadErrorKind::Compile(_))
}

/// The given number of arbitrary bytes, the same in every run.
fn noise(length: usize) -> Vec<u8> {
    let blocks = (0_u32..).flat_map(|number| Sha256::digest(number.to_le_bytes()));
    blocks.take(length).collect()
}

fn a1() {
    refused(vec![
        ("nothing", Vec::new(), is_refused, "the file is empty"),
        ("noise", noise(1024), is_refused, "is not WebAssembly"),
        (
            "noise behind a header",
            [&good()[..8], &noise(1024)].concat(),
            is_refused,
            "at offset 8",
        ),
    ]);
    let serving = Serving::start();
    let whole = good();
    let ends = boundaries(&whole);
    let mut smaller = 0;
    for end in &ends[..ends.len() - 1] {
        let cut = whole[..*end].to_vec();
        // A whole number of sections is a component. The rest may be a smaller provider with other bytes, and so
        // another digest than the trusted one; all other cuts lack something: at least a function that the component
        // exports.
        if ccm_host::inspect("cut.wasm", &cut).is_ok_and(|left| left.capabilities.instances) {
            smaller += 1;
            continue;
        }
        let (error, reported) = serving.refusal("a cut between sections", cut);
        assert!(
            matches!(
                error.kind,
                LoadErrorKind::NoManifest
                    | LoadErrorKind::MissingExport(_)
                    | LoadErrorKind::Contradiction(_)
                    | LoadErrorKind::NotExported(_)
            ),
            "{end}: {reported}"
        );
        for cut in [end - 1, end + 1] {
            let (error, reported) = serving.refusal("a cut", whole[..cut].to_vec());
            let LoadErrorKind::Refused(ModuleRefusal::Damaged { offset, .. }) = error.kind else {
                // The kind of a section without its length: all sections before it are whole.
                panic!("{cut}: {reported}");
            };
            assert!(offset <= cut, "{cut}: {reported}");
        }
    }
    assert!(smaller * 4 < ends.len(), "{smaller} of {}", ends.len());
}

fn a2() {
    refused(vec![(
        "a core module",
        Module::new().finish(),
        is_refused,
        "a core module, not a component",
    )]);
}

fn a3() {
    refused(vec![
        (
            "no lifecycle",
            exporting(&["ccm:provider/instances@0.1.0"]),
            |error| matches!(error, LoadErrorKind::MissingExport(_)),
            "does not export ccm:provider/lifecycle",
        ),
        (
            "no function in it",
            importing(&[]),
            |error| matches!(error, LoadErrorKind::Signature(_)),
            "ccm:provider/lifecycle@0.1.0",
        ),
    ]);
}

fn a4() {
    refused(vec![
        (
            "an interface of nobody",
            with_text("wasi:cli/exit@", "acme:os/shell@"),
            |error| matches!(error, LoadErrorKind::Imports(refused) if refused.len() == 1),
            "acme:os/shell@",
        ),
        (
            "several, and one that is offered",
            importing(&[
                "ccm:provider/log@0.1.0",
                "wasi:keyvalue/store@0.2.0",
                "ccm:provider/files@0.1.0",
                "shell:run/now",
            ]),
            |error| matches!(error, LoadErrorKind::Imports(refused) if refused.len() == 3),
            "wasi:keyvalue/store@0.2.0, ccm:provider/files@0.1.0, shell:run/now",
        ),
    ]);
}

fn a5() {
    for version in ["0.3.0", "2.0.0", "9.9.9"] {
        let reported = format!("ccm:provider@{version}");
        refused(vec![
            (
                "the manifest's",
                with_text(
                    "\"contract\": \"0.2.0\"",
                    &format!("\"contract\": \"{version}\""),
                ),
                |error| matches!(error, LoadErrorKind::Contract(_)),
                &reported,
            ),
            (
                "an import's",
                with_text(
                    "ccm:provider/http@0.2.0",
                    &format!("ccm:provider/http@{version}"),
                ),
                |error| matches!(error, LoadErrorKind::Contract(_)),
                "this host speaks ccm:provider@0.1.0 and 0.2.0",
            ),
        ]);
    }
}

fn a6() {
    let mut tail = Component::new();
    tail.section(&CustomSection {
        name: "filler".into(),
        data: vec![0; 32 << 20].into(),
    });
    refused(vec![(
        "32 MiB and more",
        followed_by(&tail),
        |error| {
            let LoadErrorKind::Refused(reason) = error else {
                return false;
            };
            matches!(reason, ModuleRefusal::TooMuch { offset: 0, .. })
        },
        "at most 33554432 allowed",
    )]);
}

fn a11() {
    let compiled = Serving::start().compiled();
    refused(vec![(
        "compiled code",
        compiled,
        |error| {
            let reason = match error {
                LoadErrorKind::Refused(reason) => reason,
                _ => return false,
            };
            *reason == ModuleRefusal::Precompiled
        },
        "compiled code, not WebAssembly",
    )]);
}

fn a15() {
    let code = |instructions: &[Instruction<'_>]| with_module(&functions([function(instructions)]));
    let mut tags = TagSection::new();
    tags.tag(TagType {
        kind: TagKind::Exception,
        func_type_idx: 0,
    });
    let mut exceptions = Module::new();
    exceptions.section(&tags);
    let mut types = TypeSection::new();
    types.ty().struct_([]);
    let mut structs = Module::new();
    structs.section(&types);
    let aligned = MemArg {
        offset: 0,
        align: 2,
        memory_index: 0,
    };
    let vector = Instruction::V128Const(0);
    refused(vec![
        (
            "threads",
            with_module(&memory(|memory| {
                (memory.shared, memory.maximum) = (true, Some(2));
            })),
            is_refused,
            "shared memory",
        ),
        (
            "an atomic instruction",
            code(&[Instruction::AtomicFence, Instruction::Nop]),
            is_invalid,
            "threads",
        ),
        (
            "64-bit memory",
            with_module(&memory(|memory| memory.memory64 = true)),
            is_refused,
            "64-bit memory",
        ),
        (
            "two memories",
            with_module(&memories(2)),
            is_refused,
            "multiple memories",
        ),
        (
            "garbage collection",
            with_module(&structs),
            is_refused,
            "garbage collection",
        ),
        (
            "exceptions",
            with_module(&exceptions),
            is_refused,
            "exceptions",
        ),
        (
            "stack switching",
            code(&[Instruction::Suspend(0)]),
            is_invalid,
            "stack switching",
        ),
        (
            "relaxed SIMD",
            code(&[
                vector.clone(),
                vector,
                Instruction::I8x16RelaxedSwizzle,
                Instruction::Drop,
            ]),
            is_invalid,
            "relaxed SIMD",
        ),
        (
            "an atomic access",
            code(&[
                Instruction::I32Const(0),
                Instruction::I32AtomicLoad(aligned),
                Instruction::Drop,
            ]),
            is_invalid,
            "threads",
        ),
    ]);
}

fn a16() {
    refused(vec![
        (
            "4 GiB of memory",
            with_module(&memory(|memory| memory.minimum = 65_536)),
            is_refused,
            "initial bytes of a memory",
        ),
        (
            "a table of ten million",
            with_module(&table(10_000_000)),
            is_refused,
            "initial elements of a table",
        ),
        (
            "ten thousand memories",
            with_module(&memories(10_000)),
            is_refused,
            "multiple memories",
        ),
        (
            "ten thousand globals",
            with_module(&globals(10_000)),
            is_refused,
            "globals at offset",
        ),
        (
            "ten thousand instances",
            followed_by(&instances(10_000, &Module::new())),
            is_refused,
            "instances at offset",
        ),
    ]);
}

fn a17() {
    let hostile = "a:b/\u{1b}[2J\u{202e}evil\n";
    let name = |name: &str| {
        let mut tail = Component::new();
        tail.section(&CustomSection {
            name: name.to_owned().into(),
            data: [].as_slice().into(),
        });
        followed_by(&tail)
    };
    let with_name = |name: &str| {
        format!(
            r#"{{"contract":"0.1.0","name":"{name}","version":"1","description":"","schemes":["a"]}}"#
        )
    };
    refused(vec![
        (
            "an import's name",
            importing(&[hostile]),
            |error| matches!(error, LoadErrorKind::Imports(_)),
            "\\u{1b}",
        ),
        (
            "the manifest's name",
            manifest(&with_name("\\u001b[2J\\u202e")),
            |error| matches!(error, LoadErrorKind::Manifest(_)),
            "name",
        ),
        (
            "a contract's version",
            hollow(
                &[],
                &[],
                &with_name("a").replace("0.1.0", "0.\\u001b[2J\\u202e"),
            ),
            |error| matches!(error, LoadErrorKind::Manifest(_)),
            "contract \"0.\\u{1b}[2J",
        ),
        (
            "an import's name of 100 KB",
            importing(&[&format!("a:b/{}", "c".repeat(99_000))]),
            |error| matches!(error, LoadErrorKind::Imports(_)),
            "imports what the host does not offer",
        ),
        (
            "a name of 10 MiB",
            name(&"n".repeat(10 << 20)),
            is_refused,
            "damaged at offset",
        ),
    ]);
    // An unknown custom section may have any name, and no message repeats it.
    Serving::start().offer(name(hostile)).unwrap();
}

fn c10() {
    let log = |depth| deep("ccm:provider/log@0.1.0", "log", depth);
    refused(vec![
        (
            "lists of lists",
            log(20),
            |error| matches!(error, LoadErrorKind::Signature(_)),
            "log",
        ),
        ("a hundred and more", log(101), is_invalid, "nesting"),
        ("a hundred thousand", log(100_000), is_invalid, "nesting"),
    ]);
}
