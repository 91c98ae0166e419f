//! Bad modules through the host's public API, made from the bytes of a real one: each is refused with a reason of its
//! own, and before anything of it is compiled. The unit tests of `inspect` and the pre-scan have further ones.

use ccm_host::grant::Grants;
use ccm_host::{Compiler, LoadError, LoadErrorKind, Module, ModuleRefusal};
use guest_misbehaving::behaviour::Behaviour;
use wasm_encoder::{
    CodeSection, Component, CustomSection, Function, FunctionSection, Instruction, ModuleSection,
    TypeSection, ValType,
};

use crate::host::open_host;
use crate::misbehaving::world::{self, block_on};
use ccm_tests::harness::Test;

pub(crate) const TESTS: &[Test] = &[
    (
        "files::a_bad_module_is_refused_for_its_own_reason_and_not_compiled",
        a_bad_module_is_refused_for_its_own_reason_and_not_compiled,
    ),
    (
        "files::a_compile_bomb_is_refused_before_it_is_compiled",
        a_compile_bomb_is_refused_before_it_is_compiled,
    ),
];

/// An address without a listener, because nothing is sent.
const NOWHERE: &str = "http://127.0.0.1:9/v1";

/// The real module in which one text replaces another of the same length, because lengths precede them.
pub(crate) fn with(from: &str, to: &str) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut wasm = test_guests::MISBEHAVING.to_vec();
    let places: Vec<_> = wasm
        .windows(from.len())
        .enumerate()
        .filter(|(_, text)| *text == from.as_bytes())
        .map(|(at, _)| at)
        .collect();
    assert!(!places.is_empty(), "{from} is not in the module");
    for at in places {
        wasm[at..at + to.len()].copy_from_slice(to.as_bytes());
    }
    wasm
}

/// The real module with more sections after its own.
fn followed_by(tail: &Component) -> Vec<u8> {
    let mut wasm = test_guests::MISBEHAVING.to_vec();
    // Sections after a component's header are valid in any other component.
    wasm.extend(&tail.clone().finish()[8..]);
    wasm
}

/// The error, from a host whose compiler cannot be started: a module that reaches the compiler has another error.
async fn refused(wasm: Vec<u8>, grants: Grants) -> LoadError {
    let host = open_host(
        Compiler {
            program: "/nonexistent/compiler".into(),
            arguments: Vec::new(),
        },
        None,
    );
    let module = Module {
        source: "bad.wasm".to_owned(),
        wasm: wasm.into(),
    };
    let loaded = host.load(module, grants, world::config(Behaviour::Honest));
    loaded.await.err().unwrap()
}

type IsExpected = fn(&LoadErrorKind) -> bool;

fn a_bad_module_is_refused_for_its_own_reason_and_not_compiled() {
    let mut second = Component::new();
    second.section(&CustomSection {
        name: "ccm:manifest".into(),
        data: b"{}".into(),
    });
    let cases: [(Vec<u8>, IsExpected, &str); 9] = [
        (
            test_guests::MISBEHAVING.to_vec(),
            |error| matches!(error, LoadErrorKind::Compile(_)),
            "cannot be compiled",
        ),
        (
            with("ccm:manifest", "ccm:manifezt"),
            |error| matches!(error, LoadErrorKind::NoManifest),
            "has no manifest",
        ),
        (
            followed_by(&second),
            |error| matches!(error, LoadErrorKind::ManyManifests(2)),
            "has 2 manifests",
        ),
        (
            with("\"schemes\"", "\"schemas\""),
            |error| matches!(error, LoadErrorKind::Manifest(_)),
            "schemas",
        ),
        (
            with("\"contract\": \"0.2.0\"", "\"contract\": \"0.3.0\""),
            |error| matches!(error, LoadErrorKind::Contract(_)),
            "needs ccm:provider@0.3.0 (says its manifest), and this host speaks ccm:provider@0.1.0 and 0.2.0",
        ),
        (
            with("ccm:provider/http@0.2.0", "ccm:provider/http@0.9.0"),
            |error| matches!(error, LoadErrorKind::Contract(_)),
            "needs ccm:provider/http@0.9.0",
        ),
        (
            with(
                "ccm:provider/lifecycle@0.2.0",
                "ccm:provider/lifecircus@0.2.",
            ),
            |error| matches!(error, LoadErrorKind::MissingExport(_)),
            "does not export ccm:provider/lifecycle",
        ),
        (
            with("wasi:cli/exit@", "acme:os/shell@"),
            |error| matches!(error, LoadErrorKind::Imports(refused) if refused.len() == 1),
            "imports what the host does not offer: acme:os/shell@",
        ),
        (
            with("\"/machines/{name}\"", "\"/anything/{name}\""),
            |error| matches!(error, LoadErrorKind::Missing(missing) if missing.lines.len() == 1),
            "not granted: target api: GET /anything/{name}",
        ),
    ];
    block_on(async {
        for (wasm, is_expected, text) in cases {
            let error = refused(wasm, world::grants(NOWHERE)).await;
            let reported = world::chain(&error);
            assert!(is_expected(&error.kind), "{text}: {reported}");
            assert!(
                reported.contains("bad.wasm") && reported.contains(text),
                "{text}: {reported}"
            );
        }
    });
}

/// 240 KB of code with 40,000 variables, which would take the compiler minutes and gigabytes.
fn a_compile_bomb_is_refused_before_it_is_compiled() {
    const LOCALS: u32 = 40_000;
    let mut body = Function::new([(LOCALS, ValType::I64)]);
    for local in (0..LOCALS).step_by(2) {
        body.instruction(&Instruction::LocalGet(local));
        body.instruction(&Instruction::LocalSet(local + 1));
    }
    body.instruction(&Instruction::End);
    let (mut types, mut functions, mut code) = (
        TypeSection::new(),
        FunctionSection::new(),
        CodeSection::new(),
    );
    types.ty().function([], []);
    functions.function(0);
    code.function(&body);
    let mut module = wasm_encoder::Module::new();
    module.section(&types).section(&functions).section(&code);
    let mut bomb = Component::new();
    bomb.section(&ModuleSection(&module));

    let wasm = followed_by(&bomb);
    assert!(wasm.len() > test_guests::MISBEHAVING.len() + 100_000);
    let error = block_on(refused(wasm, world::grants(NOWHERE)));
    let LoadErrorKind::Refused(reason) = &error.kind else {
        panic!("{}", world::chain(&error))
    };
    assert!(
        matches!(reason, ModuleRefusal::TooMuch { found: 40_000, .. }),
        "{reason}"
    );
}
