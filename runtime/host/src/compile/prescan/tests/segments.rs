//! Segments, and functions with references: the engine keeps something of each for every instance.

use std::borrow::Cow;
use std::ops::Range;

use wasm_encoder::{
    Component, DataSection, ElementSection, Elements, ExportKind, ExportSection, ModuleArg,
    ModuleSection, Section,
};

use super::*;

/// A component with this many instances of a module that has this section alone.
fn instances(section: &impl Section, count: usize) -> Component {
    instances_of(Module::new().section(section), count)
}

fn instances_of(module: &Module, count: usize) -> Component {
    let mut instances = InstanceSection::new();
    for _ in 0..count {
        instances.instantiate(0, std::iter::empty::<(&str, ModuleArg)>());
    }
    let mut component = Component::new();
    component.section(&ModuleSection(module));
    component.section(&instances);
    component
}

/// As many instances as a call may have.
fn most(section: &impl Section) -> Vec<u8> {
    instances(section, limits::INSTANCES).finish()
}

fn declared(segments: &[Elements<'_>]) -> Vec<u8> {
    let mut section = ElementSection::new();
    for segment in segments {
        section.declared(segment.clone());
    }
    most(&section)
}

fn passive(segments: &[Elements<'_>]) -> Vec<u8> {
    let mut section = ElementSection::new();
    for segment in segments {
        section.passive(segment.clone());
    }
    most(&section)
}

fn indices(functions: Range<u32>) -> Elements<'static> {
    Elements::Functions(Cow::Owned(functions.collect::<Vec<u32>>()))
}

/// This many times the same function.
fn repeated(count: usize) -> Elements<'static> {
    Elements::Functions(Cow::Owned(vec![0; count]))
}

/// The functions as expressions.
fn expressions(functions: Range<u32>) -> Elements<'static> {
    let expressions: Vec<ConstExpr> = functions.map(ConstExpr::ref_func).collect();
    Elements::Expressions(RefType::FUNCREF, Cow::Owned(expressions))
}

fn exported(functions: Range<u32>) -> ExportSection {
    let mut section = ExportSection::new();
    for number in functions {
        section.export(&number.to_string(), ExportKind::Func, number);
    }
    section
}

fn exports(count: u32) -> Vec<u8> {
    most(&exported(0..count))
}

/// A module that imports 8,192 functions, and exports these.
fn imports_and_exports(functions: Range<u32>) -> Vec<u8> {
    let mut imports = ImportSection::new();
    for _ in 0..8_192 {
        imports.import("a", "b", EntityType::Function(0));
    }
    let mut module = Module::new();
    module.section(&imports).section(&exported(functions));
    instances_of(&module, limits::INSTANCES).finish()
}

fn data(count: u32) -> DataSection {
    let mut section = DataSection::new();
    for _ in 0..count {
        section.passive(std::iter::empty());
    }
    section
}

/// The module in a component of its own, which could be instantiated any number of times.
fn inside(section: &impl Section) -> Vec<u8> {
    let mut outer = Component::new();
    outer.section(&NestedComponentSection(&instances(section, 1)));
    outer.finish()
}

/// A small module could otherwise take gigabytes of the host, of which no limit of a call knows.
#[test]
fn what_the_engine_keeps_for_instances_is_bounded() {
    let refused = "bytes that the engine keeps for instances at offset";
    let both = [indices(0..32_768), expressions(0..32_768)];
    let none = vec![indices(0..0); 32_769];
    for (name, wasm, expected) in [
        ("32,768 functions, each twice", declared(&both), "accepted"),
        ("32,769", declared(&[indices(0..32_769)]), refused),
        (
            "in expressions",
            declared(&[expressions(0..32_769)]),
            refused,
        ),
        ("32,768 exports", exports(32_768), "accepted"),
        ("32,769 exports", exports(32_769), refused),
        (
            "58,193 exports",
            exports(58_193),
            "functions with references at offset",
        ),
        // Each import takes as much as one export and three quarters.
        (
            "imports, and 18,432 exports",
            imports_and_exports(8_192..26_624),
            "accepted",
        ),
        (
            "imports, and 18,433 exports",
            imports_and_exports(8_192..26_625),
            refused,
        ),
        (
            "imports, and exports of the same",
            imports_and_exports(0..26_624),
            "accepted",
        ),
        // One of 32,768 is the segment, and one the function.
        ("32,766 passive", passive(&[repeated(32_766)]), "accepted"),
        ("32,767 passive", passive(&[repeated(32_767)]), refused),
        ("passive without elements", passive(&none), refused),
        ("87,381 of data", most(&data(87_381)), "accepted"),
        ("87,382 of data", most(&data(87_382)), refused),
        ("once", instances(&data(87_382), 1).finish(), "accepted"),
        ("in a component", inside(&data(87_382)), refused),
        (
            "100,001 elements",
            declared(&[repeated(100_001)]),
            "elements of segments at offset",
        ),
    ] {
        check(name, &wasm, expected);
    }
}
