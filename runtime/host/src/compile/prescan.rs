//! Pre-scan: reads a module's structure in one pass and refuses modules that would be expensive or dangerous to
//! compile. Decodes sections, never function bodies, and does not judge validity: the compile child does.

use std::collections::BTreeSet;

use wasmparser::{
    ComponentExternalKind, CompositeInnerType, ConstExpr, Element, ElementItems, ElementKind,
    Encoding, ExternalKind, MemoryType, Operator, Parser, Payload, SubType, TableType, TypeRef,
    WasmFeatures,
};
use wasmtime::Engine;

use super::refusal::ModuleRefusal;
use crate::limits;
use crate::manifest::MAX_MANIFEST;

/// Name of the custom section that holds the manifest.
pub(crate) const MANIFEST_SECTION: &str = "ccm:manifest";

/// Size of a page of linear memory.
const PAGE_BYTES: u64 = 65_536;

/// Findings of the pre-scan.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Structure<'a> {
    /// Contents of all manifest sections, in the component or in its core modules.
    pub(crate) manifests: Vec<&'a [u8]>,
    /// Names of the component's imports.
    pub(crate) imports: Vec<&'a str>,
    /// Names of the component's exported interfaces. Other exports are not part of the contract.
    pub(crate) exports: Vec<&'a str>,
}

/// Scans a file.
///
/// # Errors
/// The first reason why the file must not be compiled.
pub(crate) fn scan(wasm: &[u8]) -> Result<Structure<'_>, ModuleRefusal> {
    check_kind(wasm)?;
    let mut parser = Parser::new(0);
    parser.set_features(features());
    let mut scan = Scan {
        length: wasm.len(),
        ..Scan::default()
    };
    for payload in parser.parse_all(wasm) {
        scan.payload(payload?)?;
    }
    scan.check_kept()?;
    Ok(scan.structure)
}

fn check_kind(wasm: &[u8]) -> Result<(), ModuleRefusal> {
    if wasm.is_empty() {
        return Err(ModuleRefusal::Empty);
    }
    at_most("bytes", 0, wasm.len() as u64, limits::MODULE_BYTES as u64)?;
    if Engine::detect_precompiled(wasm).is_some() {
        return Err(ModuleRefusal::Precompiled);
    }
    if !wasm.starts_with(b"\0asm") {
        return Err(ModuleRefusal::NotWasm);
    }
    Ok(())
}

/// Features that the decoder accepts. Features that the engine disables or lacks are off here, too, except multiple
/// memories: these are counted, to be refused by name.
fn features() -> WasmFeatures {
    WasmFeatures::WASM2
        | WasmFeatures::COMPONENT_MODEL
        | WasmFeatures::EXTENDED_CONST
        | WasmFeatures::MULTI_MEMORY
}

fn at_most(what: &'static str, offset: usize, found: u64, limit: u64) -> Result<(), ModuleRefusal> {
    if found <= limit {
        Ok(())
    } else {
        Err(ModuleRefusal::TooMuch {
            what,
            offset,
            found,
            limit,
        })
    }
}

#[derive(Default)]
struct Scan<'a> {
    structure: Structure<'a>,
    /// Length of the whole file.
    length: usize,
    /// Open modules and components, outermost first; true for a core module.
    open: Vec<bool>,
    modules: u64,
    components: u64,
    functions: u64,
    globals: u64,
    core_imports: u64,
    types: u64,
    instances: u64,
    /// Core instances of the outermost component, and of all others.
    outer_instances: u64,
    inner_instances: u64,
    /// Memories of the current core module; core modules do not nest.
    memories: u64,
    /// Functions that the current core module imports.
    imported_functions: u32,
    /// Functions of the current core module that have a reference.
    referenced: BTreeSet<u32>,
    references: u64,
    elements: u64,
    passive_elements: u64,
    data_segments: u64,
}

impl<'a> Scan<'a> {
    fn payload(&mut self, payload: Payload<'a>) -> Result<(), ModuleRefusal> {
        match payload {
            Payload::Version {
                encoding, range, ..
            } => self.begin(encoding, range.start),
            Payload::End(_) => {
                self.open.pop();
                Ok(())
            }
            // The decoder treats the end of the file as the end of everything still open.
            Payload::ModuleSection {
                unchecked_range: range,
                ..
            }
            | Payload::ComponentSection {
                unchecked_range: range,
                ..
            } if range.end > self.length => {
                let message = format!("the file ends within what begins at offset {}", range.start);
                Err(ModuleRefusal::Damaged {
                    offset: self.length,
                    message,
                })
            }
            Payload::CustomSection(section) if section.name() == MANIFEST_SECTION => {
                at_most(
                    "manifest bytes",
                    section.data_offset(),
                    section.data().len() as u64,
                    MAX_MANIFEST as u64,
                )?;
                self.structure.manifests.push(section.data());
                Ok(())
            }
            Payload::TypeSection(section) => {
                self.declare(section.count(), section.range().start)?;
                for group in section.into_iter_with_offsets() {
                    let (offset, group) = group?;
                    let is_function = |kind: &SubType| {
                        matches!(kind.composite_type.inner, CompositeInnerType::Func(_))
                    };
                    if group.is_explicit_rec_group() || !group.types().all(is_function) {
                        return Err(ModuleRefusal::Feature {
                            what: "garbage collection",
                            offset,
                        });
                    }
                }
                Ok(())
            }
            Payload::CoreTypeSection(section) => {
                self.declare(section.count(), section.range().start)
            }
            Payload::ComponentTypeSection(section) => {
                self.declare(section.count(), section.range().start)
            }
            Payload::GlobalSection(section) => {
                self.globals += u64::from(section.count());
                let offset = section.range().start;
                at_most("globals", offset, self.globals, limits::GLOBALS)?;
                for global in section {
                    self.refer_from(&global?.init_expr)?;
                }
                Ok(())
            }
            Payload::ExportSection(section) => {
                for export in section {
                    let export = export?;
                    if matches!(export.kind, ExternalKind::Func | ExternalKind::FuncExact) {
                        self.refer(export.index)?;
                    }
                }
                Ok(())
            }
            Payload::ElementSection(section) => {
                for element in section.into_iter_with_offsets() {
                    let (offset, element) = element?;
                    self.element(offset, element)?;
                }
                Ok(())
            }
            Payload::DataSection(section) => {
                self.data_segments += u64::from(section.count());
                Ok(())
            }
            Payload::ImportSection(section) => {
                for import in section.into_imports_with_offsets() {
                    let (offset, import) = import?;
                    self.core_imports += 1;
                    at_most(
                        "imports of core modules",
                        offset,
                        self.core_imports,
                        limits::CORE_IMPORTS,
                    )?;
                    match import.ty {
                        TypeRef::Memory(memory) => self.memory(offset, &memory)?,
                        TypeRef::Table(table) => check_table(offset, &table)?,
                        TypeRef::Tag(_) => {
                            return Err(ModuleRefusal::Feature {
                                what: "exceptions",
                                offset,
                            });
                        }
                        // The engine makes a reference to each. They have the first indices.
                        TypeRef::Func(_) | TypeRef::FuncExact(_) => {
                            self.refer(self.imported_functions)?;
                            self.imported_functions += 1;
                        }
                        TypeRef::Global(_) => {}
                    }
                }
                Ok(())
            }
            Payload::MemorySection(section) => {
                for memory in section.into_iter_with_offsets() {
                    let (offset, memory) = memory?;
                    self.memory(offset, &memory)?;
                }
                Ok(())
            }
            Payload::TableSection(section) => {
                for table in section.into_iter_with_offsets() {
                    let (offset, table) = table?;
                    check_table(offset, &table.ty)?;
                }
                Ok(())
            }
            Payload::TagSection(section) => Err(ModuleRefusal::Feature {
                what: "exceptions",
                offset: section.range().start,
            }),
            Payload::FunctionSection(section) => {
                self.functions += u64::from(section.count());
                at_most(
                    "functions",
                    section.range().start,
                    self.functions,
                    limits::FUNCTIONS,
                )
            }
            Payload::CodeSectionEntry(body) => check_body(&body),
            Payload::InstanceSection(section) => {
                let counter = match self.open.len() {
                    1 => &mut self.outer_instances,
                    _ => &mut self.inner_instances,
                };
                *counter += u64::from(section.count());
                self.instantiate(section.count(), section.range().start)
            }
            Payload::ComponentInstanceSection(section) => {
                self.instantiate(section.count(), section.range().start)
            }
            Payload::ComponentImportSection(section) if self.open.len() == 1 => {
                for import in section {
                    self.structure.imports.push(import?.name.name);
                }
                at_most(
                    "imports",
                    0,
                    self.structure.imports.len() as u64,
                    limits::EXTERNS as u64,
                )
            }
            Payload::ComponentExportSection(section) if self.open.len() == 1 => {
                for export in section {
                    let export = export?;
                    if export.kind == ComponentExternalKind::Instance {
                        self.structure.exports.push(export.name.name);
                    }
                }
                at_most(
                    "exports",
                    0,
                    self.structure.exports.len() as u64,
                    limits::EXTERNS as u64,
                )
            }
            Payload::UnknownSection { id, range, .. } => Err(ModuleRefusal::Damaged {
                offset: range.start,
                message: format!("a section of unknown kind {id}"),
            }),
            _ => Ok(()),
        }
    }

    fn begin(&mut self, encoding: Encoding, offset: usize) -> Result<(), ModuleRefusal> {
        let is_module = encoding == Encoding::Module;
        if is_module && self.open.is_empty() {
            return Err(ModuleRefusal::NotAComponent);
        }
        self.open.push(is_module);
        at_most(
            "nested components",
            offset,
            self.open.len() as u64,
            limits::NESTING as u64,
        )?;
        self.memories = 0;
        self.imported_functions = 0;
        self.referenced.clear();
        let (counter, what) = match is_module {
            true => (&mut self.modules, "core modules"),
            false => (&mut self.components, "components"),
        };
        *counter += 1;
        at_most(what, offset, *counter, limits::MODULES as u64)
    }

    fn memory(&mut self, offset: usize, memory: &MemoryType) -> Result<(), ModuleRefusal> {
        self.memories += 1;
        let refused = [
            (self.memories > 1, "multiple memories"),
            (memory.memory64, "64-bit memory"),
            (memory.shared, "shared memory"),
            (memory.page_size_log2.is_some(), "custom page sizes"),
        ];
        if let Some((_, what)) = refused.into_iter().find(|(found, _)| *found) {
            return Err(ModuleRefusal::Feature { what, offset });
        }
        let bytes = memory.initial.saturating_mul(PAGE_BYTES);
        at_most(
            "initial bytes of a memory",
            offset,
            bytes,
            limits::MEMORY_CEILING_BYTES as u64,
        )
    }

    fn element(&mut self, offset: usize, element: Element<'_>) -> Result<(), ModuleRefusal> {
        let count = match &element.items {
            ElementItems::Functions(items) => items.count(),
            ElementItems::Expressions(_, items) => items.count(),
        };
        self.elements += u64::from(count);
        at_most(
            "elements of segments",
            offset,
            self.elements,
            limits::TABLE_ELEMENTS as u64,
        )?;
        if matches!(element.kind, ElementKind::Passive) {
            self.passive_elements += 1 + u64::from(count);
        }
        match element.items {
            ElementItems::Functions(items) => {
                for index in items {
                    self.refer(index?)?;
                }
            }
            ElementItems::Expressions(_, items) => {
                for item in items {
                    self.refer_from(&item?)?;
                }
            }
        }
        Ok(())
    }

    /// Counts the functions that a constant expression refers to.
    fn refer_from(&mut self, expression: &ConstExpr<'_>) -> Result<(), ModuleRefusal> {
        for operator in expression.get_operators_reader() {
            if let Operator::RefFunc { function_index } = operator? {
                self.refer(function_index)?;
            }
        }
        Ok(())
    }

    /// Counts a function that has a reference, once for its module.
    fn refer(&mut self, function: u32) -> Result<(), ModuleRefusal> {
        self.references += u64::from(self.referenced.insert(function));
        // There are no more, whatever a damaged file says.
        at_most(
            "functions with references",
            self.length,
            self.references,
            limits::FUNCTIONS + limits::CORE_IMPORTS,
        )
    }

    /// Checks what the engine keeps of the file's modules for each instance, as if all of them were in each one.
    fn check_kept(&self) -> Result<(), ModuleRefusal> {
        let most = limits::INSTANCES as u64;
        let instances = match self.inner_instances {
            0 => self.outer_instances.min(most),
            // Components can be instantiated any number of times.
            _ => most,
        };
        let each = 16 * self.globals
            + 24 * self.core_imports
            + 32 * (self.references + self.passive_elements)
            + 12 * self.data_segments;
        at_most(
            "bytes that the engine keeps for instances",
            self.length,
            each * instances,
            limits::INSTANCES_BYTES,
        )
    }

    fn declare(&mut self, count: u32, offset: usize) -> Result<(), ModuleRefusal> {
        self.types += u64::from(count);
        at_most("types", offset, self.types, limits::TYPES)
    }

    fn instantiate(&mut self, count: u32, offset: usize) -> Result<(), ModuleRefusal> {
        self.instances += u64::from(count);
        at_most(
            "instances",
            offset,
            self.instances,
            limits::INSTANCE_ENTRIES,
        )
    }
}

fn check_table(offset: usize, table: &TableType) -> Result<(), ModuleRefusal> {
    for (found, what) in [
        (table.table64, "64-bit tables"),
        (table.shared, "shared tables"),
    ] {
        if found {
            return Err(ModuleRefusal::Feature { what, offset });
        }
    }
    at_most(
        "initial elements of a table",
        offset,
        table.initial,
        limits::TABLE_ELEMENTS as u64,
    )
}

fn check_body(body: &wasmparser::FunctionBody<'_>) -> Result<(), ModuleRefusal> {
    let range = body.range();
    let bytes = range.len() as u64;
    at_most(
        "bytes of a function",
        range.start,
        bytes,
        limits::BODY_BYTES,
    )?;
    let mut locals = 0_u64;
    for group in body.get_locals_reader()? {
        let (count, _) = group?;
        locals += u64::from(count);
        // Inside the loop, because a body can hold half a million groups.
        at_most("locals of a function", range.start, locals, limits::LOCALS)?;
    }
    at_most(
        "locals times bytes of a function",
        range.start,
        locals * bytes,
        limits::LOCALS_TIMES_BYTES,
    )
}

#[cfg(test)]
mod tests;
