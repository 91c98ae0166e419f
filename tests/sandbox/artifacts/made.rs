//! Files that no compiler makes: hand-made sections, and real files with an addition or a change.

use wasm_encoder::{
    CodeSection, Component, ComponentExportKind, ComponentExportSection, ComponentImportSection,
    ComponentInstanceSection, ComponentTypeRef, ComponentTypeSection, ComponentValType, ConstExpr,
    CustomSection, Function, FunctionSection, GlobalSection, GlobalType, InstanceSection,
    InstanceType, Instruction, MemorySection, MemoryType, Module, ModuleArg, ModuleSection,
    PrimitiveValType, RawSection, RefType, TableSection, TableType, TypeSection, ValType,
};

use crate::artifacts::serving::good;

/// The exports of the smallest provider.
const EXPORTS: [&str; 2] = [
    "ccm:provider/lifecycle@0.1.0",
    "ccm:provider/instances@0.1.0",
];
/// A manifest without requests, which accepts the configuration of the good version.
const MANIFEST: &str = r#"{"contract":"0.1.0","name":"sample","version":"1","description":"",
    "schemes":["sample"],"config":[{"key":"behaviour","why":"because"}]}"#;

/// The good module with more sections after its own: sections after a component's header are valid in any component.
pub(crate) fn followed_by(tail: &Component) -> Vec<u8> {
    let mut wasm = good();
    wasm.extend(&tail.clone().finish()[8..]);
    wasm
}

/// The good module with one more core module, which is never instantiated and compiled all the same.
pub(crate) fn with_module(module: &Module) -> Vec<u8> {
    let mut tail = Component::new();
    tail.section(&ModuleSection(module));
    followed_by(&tail)
}

/// The good module in which one text replaces another everywhere.
pub(crate) fn with_text(from: &str, to: &str) -> Vec<u8> {
    assert_eq!(from.len(), to.len(), "lengths stand before texts");
    let mut wasm = good();
    let is_there = |(_, text): &(usize, &[u8])| *text == from.as_bytes();
    let places = wasm.windows(from.len()).enumerate().filter(is_there);
    let places: Vec<usize> = places.map(|(at, _)| at).collect();
    assert!(!places.is_empty(), "{from} is not in the module");
    for at in places {
        wasm[at..at + to.len()].copy_from_slice(to.as_bytes());
    }
    wasm
}

/// A component with a manifest whose imports and exports are empty instances: right names, and no functions.
pub(crate) fn hollow(imports: &[&str], exports: &[&str], manifest: &str) -> Vec<u8> {
    hollow_of(&InstanceType::new(), imports, exports, manifest)
}

/// As [`hollow`], with imports of this type.
fn hollow_of(import: &InstanceType, imports: &[&str], exports: &[&str], manifest: &str) -> Vec<u8> {
    let mut component = Component::new();
    let mut types = ComponentTypeSection::new();
    types.instance(import);
    component.section(&types);
    let mut section = ComponentImportSection::new();
    for name in imports {
        section.import(*name, ComponentTypeRef::Instance(0));
    }
    component.section(&section);
    let mut instances = ComponentInstanceSection::new();
    instances.export_items(std::iter::empty::<(&str, ComponentExportKind, u32)>());
    component.section(&instances);
    let mut section = ComponentExportSection::new();
    for name in exports {
        let index = imports.len() as u32;
        section.export(*name, ComponentExportKind::Instance, index, None);
    }
    component.section(&section);
    component.section(&CustomSection {
        name: "ccm:manifest".into(),
        data: manifest.as_bytes().into(),
    });
    component.finish()
}

/// A component with a manifest that imports a function of an interface, whose parameter is a list of lists … of this
/// depth.
pub(crate) fn deep(interface: &str, function: &str, depth: u32) -> Vec<u8> {
    let mut instance = InstanceType::new();
    let byte = ComponentValType::Primitive(PrimitiveValType::U8);
    instance.ty().defined_type().list(byte);
    for inner in 0..depth - 1 {
        let inner = ComponentValType::Type(inner);
        instance.ty().defined_type().list(inner);
    }
    let outermost = ComponentValType::Type(depth - 1);
    let mut kind = instance.ty().function();
    kind.params([("deep", outermost)]).result(Some(outermost));
    instance.export(function, ComponentTypeRef::Func(depth));
    hollow_of(&instance, &[interface], &EXPORTS, MANIFEST)
}

/// A component that imports a function without parameters of an interface, with a manifest of this contract.
pub(crate) fn importing_function(interface: &str, function: &str, contract: &str) -> Vec<u8> {
    let mut instance = InstanceType::new();
    let parameters = std::iter::empty::<(&str, ComponentValType)>();
    instance.ty().function().params(parameters).result(None);
    instance.export(function, ComponentTypeRef::Func(0));
    let manifest = MANIFEST.replace("0.1.0", contract);
    hollow_of(&instance, &[interface], &EXPORTS, &manifest)
}

/// A component with all exports and these imports.
pub(crate) fn importing(imports: &[&str]) -> Vec<u8> {
    hollow(imports, &EXPORTS, MANIFEST)
}

/// A component with these exports and no imports.
pub(crate) fn exporting(exports: &[&str]) -> Vec<u8> {
    hollow(&[], exports, MANIFEST)
}

/// A component with all exports and this manifest.
pub(crate) fn manifest(text: &str) -> Vec<u8> {
    hollow(&[], &EXPORTS, text)
}

/// A component that holds a component that holds … to this depth.
pub(crate) fn nested(depth: usize) -> Vec<u8> {
    /// Section of a component that holds a component.
    const COMPONENT: u8 = 4;
    let mut inner = Component::new().finish();
    for _ in 1..depth {
        let mut outer = Component::new();
        let data = inner.as_slice();
        outer.section(&RawSection {
            id: COMPONENT,
            data,
        });
        inner = outer.finish();
    }
    inner
}

/// A core module with these functions, all without parameters and results.
pub(crate) fn functions(bodies: impl IntoIterator<Item = Function>) -> Module {
    let (mut types, mut functions) = (TypeSection::new(), FunctionSection::new());
    let mut code = CodeSection::new();
    types.ty().function([], []);
    for body in bodies {
        functions.function(0);
        code.function(&body);
    }
    let mut module = Module::new();
    module.section(&types).section(&functions).section(&code);
    module
}

/// A function of these instructions.
pub(crate) fn function(instructions: &[Instruction<'_>]) -> Function {
    let mut function = Function::new([]);
    for instruction in instructions {
        function.instruction(instruction);
    }
    function.instruction(&Instruction::End);
    function
}

/// A core module with one memory.
pub(crate) fn memory(change: impl FnOnce(&mut MemoryType)) -> Module {
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
    module
}

/// A core module with this many memories of no page.
pub(crate) fn memories(count: usize) -> Module {
    let mut section = MemorySection::new();
    for _ in 0..count {
        section.memory(MemoryType {
            minimum: 0,
            maximum: None,
            memory64: false,
            shared: false,
            page_size_log2: None,
        });
    }
    let mut module = Module::new();
    module.section(&section);
    module
}

/// A core module with one table of this many elements.
pub(crate) fn table(minimum: u64) -> Module {
    let mut section = TableSection::new();
    section.table(TableType {
        element_type: RefType::FUNCREF,
        table64: false,
        minimum,
        maximum: None,
        shared: false,
    });
    let mut module = Module::new();
    module.section(&section);
    module
}

/// A module with this many globals.
pub(crate) fn globals(count: u32) -> Module {
    let kind = GlobalType {
        val_type: ValType::I32,
        mutable: false,
        shared: false,
    };
    let mut section = GlobalSection::new();
    for _ in 0..count {
        section.global(kind, &ConstExpr::i32_const(0));
    }
    let mut module = Module::new();
    module.section(&section);
    module
}

/// Sections of a component with this many instances of one module.
pub(crate) fn instances(count: usize, module: &Module) -> Component {
    let mut component = Component::new();
    component.section(&ModuleSection(module));
    let mut section = InstanceSection::new();
    for _ in 0..count {
        section.instantiate(0, std::iter::empty::<(&str, ModuleArg)>());
    }
    component.section(&section);
    component
}

/// The ends of a component's top-level sections.
pub(crate) fn boundaries(wasm: &[u8]) -> Vec<usize> {
    let mut at = 8;
    let mut ends = vec![at];
    while at < wasm.len() {
        // The section's kind, and its length as a number of seven bits a byte.
        at += 1;
        let (mut length, mut shift) = (0, 0);
        loop {
            let byte = wasm[at];
            at += 1;
            length |= usize::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
        }
        at += length;
        ends.push(at);
    }
    assert_eq!(at, wasm.len());
    ends
}
