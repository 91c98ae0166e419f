//! Files that no compiler would make, and the answers of the pre-scan.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod segments;

use wasm_encoder::{
    CodeSection, ComponentTypeSection, ConstExpr, CoreTypeSection, EntityType, FunctionSection,
    GlobalSection, GlobalType, ImportSection, InstanceSection, InstanceType, MemorySection,
    MemoryType, Module, ModuleType, NestedComponentSection, RefType, TableSection, TableType,
    TagKind, TagSection, TagType, TypeSection, ValType,
};

use super::*;
use crate::fixtures;

/// A component of one module with functions of these bodies.
fn functions(bodies: &[Vec<u8>]) -> Vec<u8> {
    let mut types = TypeSection::new();
    types.ty().function([], []);
    let mut functions = FunctionSection::new();
    let mut code = CodeSection::new();
    for body in bodies {
        functions.function(0);
        code.raw(body);
    }
    let mut module = Module::new();
    module.section(&types).section(&functions).section(&code);
    fixtures::of_modules([&module])
}

fn memory(change: impl FnOnce(&mut MemoryType)) -> Vec<u8> {
    let mut memory = MemoryType {
        minimum: 1,
        maximum: None,
        memory64: false,
        shared: false,
        page_size_log2: None,
    };
    change(&mut memory);
    let mut section = MemorySection::new();
    section.memory(memory);
    let mut module = Module::new();
    module.section(&section);
    fixtures::of_modules([&module])
}

fn table(change: impl FnOnce(&mut TableType)) -> Vec<u8> {
    let mut table = TableType {
        element_type: RefType::FUNCREF,
        table64: false,
        minimum: 1,
        maximum: None,
        shared: false,
    };
    change(&mut table);
    let mut section = TableSection::new();
    section.table(table);
    let mut module = Module::new();
    module.section(&section);
    fixtures::of_modules([&module])
}

fn module(fill: impl FnOnce(&mut Module)) -> Vec<u8> {
    let mut module = Module::new();
    fill(&mut module);
    fixtures::of_modules([&module])
}

/// Two modules that have this many globals together.
fn globals(count: u32) -> Vec<u8> {
    let module = |count| {
        let mut section = GlobalSection::new();
        for _ in 0..count {
            let kind = GlobalType {
                val_type: ValType::I32,
                mutable: false,
                shared: false,
            };
            section.global(kind, &ConstExpr::i32_const(0));
        }
        let mut module = Module::new();
        module.section(&section);
        module
    };
    fixtures::of_modules([&module(1), &module(count - 1)])
}

/// A module with one type and this many imports of it.
fn imports(count: u32) -> Vec<u8> {
    let mut types = TypeSection::new();
    types.ty().function([], []);
    let mut section = ImportSection::new();
    for _ in 0..count {
        section.import("a", "b", EntityType::Function(0));
    }
    module(|module| {
        module.section(&types).section(&section);
    })
}

/// A component that declares a core type, a type, and as many types in a module that there are this many.
fn types(count: u32) -> Vec<u8> {
    let mut section = TypeSection::new();
    for _ in 2..count {
        section.ty().function([], []);
    }
    let mut inner = Module::new();
    inner.section(&section);
    let mut core = CoreTypeSection::new();
    core.ty().module(&ModuleType::new());
    let mut own = ComponentTypeSection::new();
    own.instance(&InstanceType::new());
    let mut component = wasm_encoder::Component::new();
    component
        .section(&core)
        .section(&own)
        .section(&wasm_encoder::ModuleSection(&inner));
    component.finish()
}

fn check(name: &str, wasm: &[u8], expected: &str) {
    match scan(wasm) {
        Ok(_) => assert_eq!("accepted", expected, "{name}"),
        Err(refusal) => {
            let text = refusal.to_string();
            assert!(
                text.contains(expected),
                "{name}: {text:?} does not contain {expected:?}"
            );
        }
    }
}

#[test]
fn files_of_other_kinds_are_named() {
    let engine = crate::engine::new().unwrap();
    let compiled = engine
        .precompile_component(&fixtures::component(&[], &[], &[]))
        .unwrap();
    check("nothing", b"", "the file is empty");
    check("text", b"(component)", "not WebAssembly");
    check(
        "an executable",
        b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0",
        "not WebAssembly",
    );
    check(
        "a core module",
        &Module::new().finish(),
        "a core module, not a component",
    );
    check("compiled code", &compiled, "compiled code, not WebAssembly");
    check(
        "a version of the future",
        b"\0asm\xff\0\x01\0",
        "damaged at offset 4",
    );
    check(
        "the smallest component",
        &fixtures::component(&[], &[], &[]),
        "accepted",
    );
}

#[test]
fn a_module_over_the_size_is_refused_before_it_is_read() {
    let wasm = vec![0; limits::MODULE_BYTES + 1];
    check(
        "zeros",
        &wasm,
        "bytes at offset 0: 33554433, at most 33554432 allowed",
    );
}

#[test]
fn a_truncated_module_is_damaged_at_its_end() {
    let whole = functions(&[fixtures::body(10, 100)]);
    // Only at boundaries of top-level sections is a truncated component valid; here there is only one.
    for length in 9..whole.len() {
        let refusal = scan(&whole[..length]).expect_err("a part is not whole");
        assert!(
            matches!(refusal, ModuleRefusal::Damaged { offset, .. } if offset <= length),
            "{length}: {refusal}"
        );
    }
    assert!(scan(&whole).is_ok());
}

#[test]
fn compile_bombs_are_refused_by_their_structure() {
    let tens_of_thousands = functions(&[fixtures::body(40_000, 100_000)]);
    assert!((70_000..300_000).contains(&tens_of_thousands.len()));
    check("40,000 locals", &tens_of_thousands, "locals of a function");
    check(
        "2,000 locals",
        &functions(&[fixtures::body(2_000, 10_000)]),
        "accepted",
    );
    check(
        "2,001 locals",
        &functions(&[fixtures::body(2_001, 10)]),
        "2001, at most 2000 allowed",
    );
    check(
        "a body of 1 MiB and one byte",
        &functions(&[fixtures::body(1, (1 << 20) + 1)]),
        "bytes of a function",
    );
    check(
        "locals times bytes",
        &functions(&[fixtures::body(2_000, 40_000)]),
        "locals times bytes of a function",
    );
    let many = vec![fixtures::body(0, 2); 50_001];
    check("50,001 functions", &functions(&many), "functions at offset");
    check("50,000 functions", &functions(&many[1..]), "accepted");
}

#[test]
fn many_groups_of_locals_count_together() {
    let mut body = vec![0xd1, 0x0f]; // 2001 groups
    for _ in 0..2_001 {
        body.extend([1, 0x7f]); // one i32 each
    }
    body.push(0x0b);
    check("2,001 groups", &functions(&[body]), "locals of a function");
}

#[test]
fn nesting_and_numbers_of_parts_are_bounded() {
    check("16 deep", &fixtures::nested(16), "accepted");
    check("17 deep", &fixtures::nested(17), "nested components");
    check("1,000 deep", &fixtures::nested(1_000), "nested components");
    let empty = Module::new();
    check(
        "128 modules",
        &fixtures::of_modules(vec![&empty; 128]),
        "accepted",
    );
    check(
        "129 modules",
        &fixtures::of_modules(vec![&empty; 129]),
        "core modules at offset",
    );

    let beside = |count: usize| {
        let mut outer = wasm_encoder::Component::new();
        for _ in 1..count {
            outer.section(&NestedComponentSection(&wasm_encoder::Component::new()));
        }
        outer.finish()
    };
    check("128 components", &beside(128), "accepted");
    check("129 components", &beside(129), "components at offset");

    let mut component = wasm_encoder::Component::new();
    component.section(&wasm_encoder::ModuleSection(&empty));
    let mut instances = InstanceSection::new();
    for _ in 0..1_025 {
        instances.instantiate(0, std::iter::empty::<(&str, wasm_encoder::ModuleArg)>());
    }
    component.section(&instances);
    check(
        "1,025 instances",
        &component.finish(),
        "instances at offset",
    );

    check("4,096 globals", &globals(4_096), "accepted");
    check("4,097 globals", &globals(4_097), "globals at offset");
    check("8,192 imports", &imports(8_192), "accepted");
    check(
        "8,193 imports",
        &imports(8_193),
        "imports of core modules at offset",
    );
    check("16,384 types", &types(16_384), "accepted");
    check("16,385 types", &types(16_385), "types at offset");

    let names: Vec<_> = (0..1_025)
        .map(|number| format!("a:b/c{number}@1.0.0"))
        .collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    check(
        "1,025 imports",
        &fixtures::component(&names, &[], &[]),
        "imports at offset",
    );
    check(
        "1,025 exports",
        &fixtures::component(&[], &names, &[]),
        "exports at offset",
    );
}

#[test]
fn proposals_that_are_switched_off_are_named() {
    check("one memory", &memory(|_| {}), "accepted");
    check(
        "64-bit memory",
        &memory(|memory| memory.memory64 = true),
        "64-bit memory",
    );
    check(
        "shared memory",
        &memory(|memory| (memory.shared, memory.maximum) = (true, Some(2))),
        "shared memory",
    );
    check(
        "page sizes",
        &memory(|memory| memory.page_size_log2 = Some(0)),
        "custom page sizes",
    );
    check(
        "64-bit table",
        &table(|table| table.table64 = true),
        "64-bit tables",
    );
    check(
        "shared table",
        &table(|table| table.shared = true),
        "shared tables",
    );
    check("two memories", &two_memories(), "multiple memories");
    check(
        "imported and own memory",
        &imported_and_own_memory(),
        "multiple memories",
    );

    let mut tags = TagSection::new();
    tags.tag(TagType {
        kind: TagKind::Exception,
        func_type_idx: 0,
    });
    check(
        "exceptions",
        &module(|module| _ = module.section(&tags)),
        "exceptions",
    );
    let mut types = TypeSection::new();
    types.ty().struct_([]);
    check(
        "structs",
        &module(|module| _ = module.section(&types)),
        "garbage collection",
    );
    let mut types = TypeSection::new();
    types.ty().rec([]);
    check(
        "recursion groups",
        &module(|module| _ = module.section(&types)),
        "garbage collection",
    );
}

fn two_memories() -> Vec<u8> {
    let mut section = MemorySection::new();
    let memory = MemoryType {
        minimum: 1,
        maximum: None,
        memory64: false,
        shared: false,
        page_size_log2: None,
    };
    section.memory(memory).memory(memory);
    module(|module| _ = module.section(&section))
}

fn imported_and_own_memory() -> Vec<u8> {
    let memory = MemoryType {
        minimum: 1,
        maximum: None,
        memory64: false,
        shared: false,
        page_size_log2: None,
    };
    let mut imports = ImportSection::new();
    imports.import("env", "memory", memory);
    let mut own = MemorySection::new();
    own.memory(memory);
    module(|module| _ = module.section(&imports).section(&own))
}

#[test]
fn memory_and_tables_that_begin_too_large_are_refused() {
    check(
        "256 MiB",
        &memory(|memory| memory.minimum = 4_096),
        "accepted",
    );
    check(
        "256 MiB and a page",
        &memory(|memory| memory.minimum = 4_097),
        "initial bytes of a memory",
    );
    check(
        "4 GiB",
        &memory(|memory| memory.minimum = 65_536),
        "initial bytes of a memory",
    );
    check(
        "100,000 elements",
        &table(|table| table.minimum = 100_000),
        "accepted",
    );
    check(
        "ten million elements",
        &table(|table| table.minimum = 10_000_000),
        "initial elements of a table",
    );
}

#[test]
fn what_is_imported_is_limited_as_well() {
    let table = |table64, minimum| TableType {
        element_type: RefType::FUNCREF,
        table64,
        minimum,
        maximum: None,
        shared: false,
    };
    let memory = MemoryType {
        minimum: 4_097,
        maximum: None,
        memory64: false,
        shared: false,
        page_size_log2: None,
    };
    let tag = TagType {
        kind: TagKind::Exception,
        func_type_idx: 0,
    };
    let rows: [(EntityType, &str); 5] = [
        (table(false, 100_000).into(), "accepted"),
        (table(false, 100_001).into(), "initial elements of a table"),
        (table(true, 1).into(), "64-bit tables"),
        (memory.into(), "initial bytes of a memory"),
        (tag.into(), "exceptions"),
    ];
    for (imported, expected) in rows {
        let mut imports = ImportSection::new();
        imports.import("env", "it", imported);
        let wasm = module(|module| _ = module.section(&imports));
        check(expected, &wasm, expected);
    }
}

#[test]
fn what_is_seen_is_the_component_s_own() {
    let wasm = fixtures::component(&["a:b/c@1.0.0"], fixtures::EXPORTS, &["{}"]);
    let structure = scan(&wasm).unwrap();
    assert_eq!(structure.imports, ["a:b/c@1.0.0"]);
    assert_eq!(structure.exports, fixtures::EXPORTS);
    assert_eq!(structure.manifests, [b"{}"]);
}

#[test]
fn a_manifest_is_found_in_a_core_module_too_and_may_not_be_huge() {
    let with = |text: &str| module(|module| _ = module.section(&fixtures::manifest_section(text)));
    assert_eq!(scan(&with("{}")).unwrap().manifests, [b"{}"]);
    check(
        "huge",
        &with(&" ".repeat(MAX_MANIFEST + 1)),
        "manifest bytes",
    );
}

#[test]
fn no_single_changed_byte_makes_the_scan_panic() {
    let whole = functions(&[fixtures::body(10, 100)]);
    for at in 0..whole.len() {
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let mut changed = whole.clone();
            changed[at] = value;
            // Either answer is right: the compile child decides about validity.
            let _ = scan(&changed);
        }
    }
}
