//! Components made section by section: enough to be inspected, with texts that no compiler writes.

use wasm_encoder::{
    ComponentExportKind, ComponentExportSection, ComponentImportSection, ComponentInstanceSection,
    ComponentTypeRef, ComponentTypeSection, CustomSection, InstanceType,
};

/// The texts and names in a component.
pub(crate) struct Component<'a> {
    pub(crate) imports: &'a [&'a str],
    pub(crate) exports: &'a [&'a str],
    pub(crate) manifests: &'a [&'a str],
}

impl Default for Component<'_> {
    fn default() -> Self {
        Component {
            imports: &[],
            exports: &[
                "ccm:provider/lifecycle@0.1.0",
                "ccm:provider/instances@0.1.0",
            ],
            manifests: &[],
        }
    }
}

/// A component whose imports and exports are empty instances.
pub(crate) fn component(parts: &Component<'_>) -> Vec<u8> {
    let mut component = wasm_encoder::Component::new();
    let mut types = ComponentTypeSection::new();
    types.instance(&InstanceType::new());
    component.section(&types);
    let mut imports = ComponentImportSection::new();
    for name in parts.imports {
        imports.import(*name, ComponentTypeRef::Instance(0));
    }
    component.section(&imports);
    let mut instances = ComponentInstanceSection::new();
    instances.export_items(std::iter::empty::<(&str, ComponentExportKind, u32)>());
    component.section(&instances);
    let mut exports = ComponentExportSection::new();
    let instance = u32::try_from(parts.imports.len()).unwrap();
    for name in parts.exports {
        exports.export(*name, ComponentExportKind::Instance, instance, None);
    }
    component.section(&exports);
    for manifest in parts.manifests {
        component.section(&CustomSection {
            name: "ccm:manifest".into(),
            data: manifest.as_bytes().into(),
        });
    }
    component.finish()
}
