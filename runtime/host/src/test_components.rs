//! Components for tests, put together section by section: what no compiler would make.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::borrow::Cow;

use wasm_encoder::{
    Component, ComponentExportKind, ComponentExportSection, ComponentImportSection,
    ComponentInstanceSection, ComponentTypeRef, ComponentTypeSection, CustomSection, Encode,
    InstanceType, Module, ModuleSection, RawSection,
};

use crate::compile::prescan::MANIFEST_SECTION;

/// A manifest that asks for nothing.
pub(crate) const MANIFEST: &str =
    r#"{"contract":"0.1.0","name":"sample","version":"1","description":"","schemes":["sample"]}"#;

/// The exports of the smallest guest.
pub(crate) const EXPORTS: &[&str] = &[
    "ccm:provider/lifecycle@0.1.0",
    "ccm:provider/instances@0.1.0",
];

/// A component whose imports and exports are empty instances of these names.
pub(crate) fn component(imports: &[&str], exports: &[&str], manifests: &[&str]) -> Vec<u8> {
    let mut component = Component::new();
    let mut types = ComponentTypeSection::new();
    types.instance(&InstanceType::new());
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
        section.export(
            *name,
            ComponentExportKind::Instance,
            imports.len() as u32,
            None,
        );
    }
    component.section(&section);
    for manifest in manifests {
        component.section(&manifest_section(manifest));
    }
    component.finish()
}

/// A component that consists of core modules.
pub(crate) fn of_modules<'a>(modules: impl IntoIterator<Item = &'a Module>) -> Vec<u8> {
    let mut component = Component::new();
    for module in modules {
        component.section(&ModuleSection(module));
    }
    component.finish()
}

/// The custom section that a manifest stands in.
pub(crate) fn manifest_section(manifest: &str) -> CustomSection<'_> {
    CustomSection {
        name: Cow::Borrowed(MANIFEST_SECTION),
        data: Cow::Borrowed(manifest.as_bytes()),
    }
}

/// A component that holds the component that holds … `depth` of them, the outermost included.
pub(crate) fn nested(depth: usize) -> Vec<u8> {
    /// Section of a component that holds a component.
    const COMPONENT: u8 = 4;
    let mut inner = Component::new().finish();
    for _ in 1..depth {
        let mut outer = Component::new();
        outer.section(&RawSection {
            id: COMPONENT,
            data: &inner,
        });
        inner = outer.finish();
    }
    inner
}

/// A function's body with this many locals and about this many bytes, which does nothing.
pub(crate) fn body(locals: u32, bytes: usize) -> Vec<u8> {
    let mut body = Vec::new();
    1_u32.encode(&mut body);
    locals.encode(&mut body);
    // i32, then nop until the end.
    body.push(0x7f);
    body.resize(bytes.max(body.len() + 1), 0x01);
    if let Some(last) = body.last_mut() {
        *last = 0x0b;
    }
    body
}
