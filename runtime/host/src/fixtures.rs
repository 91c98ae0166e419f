//! Components for tests, assembled section by section, including ones that no compiler would produce.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::borrow::Cow;

use ccm_core::cloud::Capabilities;
use wasm_encoder::{
    Component, ComponentExportKind, ComponentExportSection, ComponentImportSection,
    ComponentInstanceSection, ComponentTypeRef, ComponentTypeSection, CustomSection, Encode,
    InstanceType, Module, ModuleSection, RawSection,
};

use crate::bindings::lifecycle::Config;
use crate::compile::prescan::MANIFEST_SECTION;
use crate::manifest::Contract;
use crate::sandbox::Load;

/// A manifest that requests nothing.
pub(crate) const MANIFEST: &str =
    r#"{"contract":"0.1.0","name":"sample","version":"1","description":"","schemes":["sample"]}"#;

/// Exports of the smallest guest.
pub(crate) const EXPORTS: &[&str] = &[
    "ccm:provider/lifecycle@0.1.0",
    "ccm:provider/instances@0.1.0",
];

/// Builds a component whose imports and exports are empty instances of these names.
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

/// Settings of a module for instances alone, without configuration.
pub(crate) fn load() -> Load {
    Load {
        contract: Contract::V0_2,
        config: Config {
            cluster_name: String::new(),
            cluster_cidrs: Vec::new(),
            values: Vec::new(),
            targets: Vec::new(),
            schemes: Vec::new(),
            extra: Vec::new(),
        },
        capabilities: Capabilities {
            instances: true,
            ..Capabilities::default()
        },
        self_check: false,
    }
}

/// Builds a component of core modules.
pub(crate) fn of_modules<'a>(modules: impl IntoIterator<Item = &'a Module>) -> Vec<u8> {
    let mut component = Component::new();
    for module in modules {
        component.section(&ModuleSection(module));
    }
    component.finish()
}

/// Custom section with a manifest.
pub(crate) fn manifest_section(manifest: &str) -> CustomSection<'_> {
    CustomSection {
        name: Cow::Borrowed(MANIFEST_SECTION),
        data: Cow::Borrowed(manifest.as_bytes()),
    }
}

/// Builds `depth` nested components, the outermost included.
pub(crate) fn nested(depth: usize) -> Vec<u8> {
    /// Section ID of a nested component.
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

/// Builds a function body with this many locals and about this many bytes, which does nothing.
pub(crate) fn body(locals: u32, bytes: usize) -> Vec<u8> {
    let mut body = Vec::new();
    1_u32.encode(&mut body);
    locals.encode(&mut body);
    // One group of i32 locals, then nop until the end.
    body.push(0x7f);
    body.resize(bytes.max(body.len() + 1), 0x01);
    if let Some(last) = body.last_mut() {
        *last = 0x0b;
    }
    body
}
