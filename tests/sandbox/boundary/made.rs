//! The good guest, made of single instructions, and its changes: it gives the same answer for every node.

use wasm_encoder::{
    CodeSection, Component, ConstExpr, CustomSection, DataSection, EntityType, ExportKind,
    ExportSection, Function, FunctionSection, ImportSection, Instruction, MemArg, MemorySection,
    MemoryType, Module, RefType, StartSection, TableSection, TableType, TypeSection, ValType,
};
use wit_component::{ComponentEncoder, StringEncoding};
use wit_parser::Resolve;

/// The name of the node that every test asks about.
pub(super) const NODE: &str = "knoten-ü-日本-🦀";

/// The functions that a guest may import here, each with its core type.
const IMPORTS: &[(&str, &str, &[ValType], &[ValType])] = &[
    ("ccm:provider/log@0.1.0", "log", &[ValType::I32; 5], &[]),
    ("ccm:provider/clock@0.1.0", "now", &[], &[ValType::I64]),
    (
        "wasi:clocks/monotonic-clock@0.2.0",
        "subscribe-duration",
        &[ValType::I64],
        &[ValType::I32],
    ),
    (
        "wasi:io/poll@0.2.0",
        "[method]pollable.block",
        &[ValType::I32],
        &[],
    ),
    (
        "wasi:io/poll@0.2.0",
        "[resource-drop]pollable",
        &[ValType::I32],
        &[],
    ),
    (
        "wasi:http/types@0.2.0",
        "[constructor]fields",
        &[],
        &[ValType::I32],
    ),
    (
        "wasi:http/types@0.2.0",
        "[resource-drop]fields",
        &[ValType::I32],
        &[],
    ),
];

/// Calls of the imported functions.
pub(super) const LOG: Instruction<'static> = Instruction::Call(0);
pub(super) const NOW: Instruction<'static> = Instruction::Call(1);
pub(super) const TIMER: Instruction<'static> = Instruction::Call(2);
pub(super) const BLOCK: Instruction<'static> = Instruction::Call(3);
pub(super) const DROP_POLLABLE: Instruction<'static> = Instruction::Call(4);
pub(super) const FIELDS: Instruction<'static> = Instruction::Call(5);
pub(super) const DROP_FIELDS: Instruction<'static> = Instruction::Call(6);

/// The part of WASI with these functions, and the guest's world.
const WORLD: &str = r#"
    package made:guest;
    world guest {
        include ccm:provider/instances-provider@0.1.0;
        import wasi:clocks/monotonic-clock@0.2.0;
        import wasi:io/poll@0.2.0;
        import wasi:http/types@0.2.0;
    }
    package wasi:io@0.2.0 {
        interface poll {
            resource pollable { block: func(); }
        }
    }
    package wasi:clocks@0.2.0 {
        interface monotonic-clock {
            use wasi:io/poll@0.2.0.{pollable};
            subscribe-duration: func(when: u64) -> pollable;
        }
    }
    package wasi:http@0.2.0 {
        interface types {
            resource fields { constructor(); }
        }
    }
"#;

const MANIFEST: &str =
    r#"{"contract":"0.1.0","name":"made","version":"1","description":"","schemes":["made"]}"#;

/// Addresses in memory. The answer of `find`: its first byte says whether it is an error, the value follows at the
/// eighth.
pub(super) const ANSWER: u32 = 1024;
/// The answer of `init`, and its list of capabilities.
pub(super) const INIT: u32 = 2048;
const CAPABILITIES: u32 = 2100;
/// The only look-up, of 76 bytes: its case at the first byte, an instance from the fourth.
pub(super) const LOOKUP: u32 = 3072;
/// The only address of the instance, of 12 bytes: its type at the first byte.
pub(super) const ADDRESS: u32 = 3200;
/// A text of the test, and the text of provider ID and address.
pub(super) const TEXT: u32 = 4096;
const WORD: u32 = 4000;
/// Address of a word with the address of the next free byte; the host's values are stored from there on.
const FREE: u32 = 8;
const FIRST_FREE: u32 = 8192;
/// Size of a memory page in bytes.
pub(super) const PAGE: u32 = 65_536;

/// A guest that can be changed.
#[derive(Clone)]
pub(super) struct Made {
    /// The string encoding of the component.
    encoding: StringEncoding,
    /// The initial bytes of its memory; later entries overwrite earlier ones.
    memory: Vec<(u32, Vec<u8>)>,
    pages: u64,
    start: Vec<Instruction<'static>>,
    find: Vec<Instruction<'static>>,
    post_return: Vec<Instruction<'static>>,
    realloc: Vec<Instruction<'static>>,
}

/// The good guest: it finds a machine with one address.
pub(super) fn good() -> Made {
    let made = Made {
        encoding: StringEncoding::UTF8,
        memory: Vec::new(),
        pages: 2,
        start: Vec::new(),
        find: vec![Instruction::I32Const(ANSWER as i32)],
        post_return: Vec::new(),
        realloc: next_free(),
    };
    made.word(FREE, FIRST_FREE)
        .word(INIT + 8, CAPABILITIES)
        .word(INIT + 12, 1)
        .bytes(WORD, b"made://1")
        .words(ANSWER + 8, &[LOOKUP, 1])
        .words(LOOKUP + 4, &[WORD, 8])
        .words(LOOKUP + 48, &[ADDRESS, 1])
        .words(ADDRESS + 4, &[WORD, 8])
}

impl Made {
    /// Sets the string encoding.
    pub(super) fn encoded(self, encoding: StringEncoding) -> Made {
        Made { encoding, ..self }
    }

    /// Sets the initial number of pages.
    pub(super) fn pages(self, pages: u64) -> Made {
        Made { pages, ..self }
    }

    /// Sets these bytes in memory.
    pub(super) fn bytes(mut self, at: u32, bytes: &[u8]) -> Made {
        self.memory.push((at, bytes.to_vec()));
        self
    }

    /// Sets a word in memory.
    pub(super) fn word(self, at: u32, word: u32) -> Made {
        self.bytes(at, &word.to_le_bytes())
    }

    /// Sets successive words in memory.
    pub(super) fn words(self, at: u32, words: &[u32]) -> Made {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.bytes(at, &bytes)
    }

    /// `find` answers an error whose text is at this address, with this length in the unit of its encoding.
    pub(super) fn refusing(self, at: u32, length: u32) -> Made {
        self.bytes(ANSWER, &[1])
            .words(ANSWER + 8, &[0, 0, at, length])
    }

    /// `find` answers an error with these bytes as its text; `letter` is the number of bytes of its unit.
    pub(super) fn saying(self, bytes: &[u8], letter: usize) -> Made {
        let length = (bytes.len() / letter) as u32;
        self.bytes(TEXT, bytes).refusing(TEXT, length)
    }

    /// `find` answers an error whose text is the name of the first node.
    pub(super) fn echoing(self) -> Made {
        let made = self.refusing(0, 0);
        // Address and length of a node's name are its first two words.
        let copy = |offset: u64| {
            vec![
                Instruction::I32Const((ANSWER + 16) as i32),
                Instruction::LocalGet(0),
                Instruction::I32Load(word_at(offset)),
                Instruction::I32Store(word_at(offset)),
            ]
        };
        made.finding([copy(0), copy(4)].concat())
    }

    /// `find` runs this before it answers; it may use its two parameters and the local variable 2.
    pub(super) fn finding(self, instructions: impl Into<Vec<Instruction<'static>>>) -> Made {
        let mut find = instructions.into();
        find.push(Instruction::I32Const(ANSWER as i32));
        Made { find, ..self }
    }

    /// `find` returns this address of its answer.
    pub(super) fn answering_at(self, at: u32) -> Made {
        Made {
            find: vec![Instruction::I32Const(at as i32)],
            ..self
        }
    }

    /// The start function, which runs before any call.
    pub(super) fn starting(self, instructions: impl Into<Vec<Instruction<'static>>>) -> Made {
        Made {
            start: instructions.into(),
            ..self
        }
    }

    /// The function that runs when the host has read the answer of `find`.
    pub(super) fn after(self, instructions: impl Into<Vec<Instruction<'static>>>) -> Made {
        Made {
            post_return: instructions.into(),
            ..self
        }
    }

    /// The body of `cabi_realloc`: from the old address, the old length, the alignment and the new length to an
    /// address, with one local variable.
    pub(super) fn giving(self, instructions: impl Into<Vec<Instruction<'static>>>) -> Made {
        Made {
            realloc: instructions.into(),
            ..self
        }
    }

    /// The encoded component, with its manifest.
    pub(super) fn component(&self) -> Vec<u8> {
        let mut resolve = Resolve::default();
        let contract = concat!(env!("CARGO_MANIFEST_DIR"), "/../../wit/v0.1");
        resolve.push_path(contract).unwrap();
        let package = resolve.push_str("made.wit", WORLD).unwrap();
        let world = resolve.select_world(&[package], Some("guest")).unwrap();
        let mut module = self.module();
        wit_component::embed_component_metadata(&mut module, &resolve, world, self.encoding)
            .unwrap();
        let encoder = ComponentEncoder::default().module(&module).unwrap();
        let mut component = encoder.validate(true).encode().unwrap();
        let mut manifest = Component::new();
        manifest.section(&CustomSection {
            name: "ccm:manifest".into(),
            data: MANIFEST.as_bytes().into(),
        });
        component.extend(&manifest.finish()[8..]);
        component
    }

    fn module(&self) -> Vec<u8> {
        let mut types = TypeSection::new();
        let mut imports = ImportSection::new();
        for (index, (module, name, parameters, results)) in (0..).zip(IMPORTS) {
            types
                .ty()
                .function(parameters.iter().copied(), results.iter().copied());
            imports.import(module, name, EntityType::Function(index));
        }
        let mut functions = FunctionSection::new();
        let mut exports = ExportSection::new();
        let mut code = CodeSection::new();
        let begin = [Instruction::I32Const(INIT as i32)];
        let offered: [(&str, usize, usize, &[Instruction<'_>]); 5] = [
            ("ccm:provider/lifecycle@0.1.0#init", 8, 1, &begin),
            ("ccm:provider/instances@0.1.0#find", 2, 1, &self.find),
            (
                "cabi_post_ccm:provider/instances@0.1.0#find",
                1,
                0,
                &self.post_return,
            ),
            ("cabi_realloc", 4, 1, &self.realloc),
            ("", 0, 0, &self.start),
        ];
        let first = IMPORTS.len() as u32;
        for (index, (name, parameters, results, body)) in (first..).zip(offered) {
            let numbers = |count| std::iter::repeat_n(ValType::I32, count);
            types.ty().function(numbers(parameters), numbers(results));
            functions.function(index);
            let mut function = Function::new([(1, ValType::I32)]);
            for instruction in body {
                function.instruction(instruction);
            }
            function.instruction(&Instruction::End);
            code.function(&function);
            if !name.is_empty() {
                exports.export(name, ExportKind::Func, index);
            }
        }
        exports.export("memory", ExportKind::Memory, 0);
        let mut tables = TableSection::new();
        tables.table(TableType {
            element_type: RefType::FUNCREF,
            table64: false,
            minimum: 1,
            maximum: None,
            shared: false,
        });
        let mut memories = MemorySection::new();
        memories.memory(MemoryType {
            minimum: self.pages,
            maximum: None,
            memory64: false,
            shared: false,
            page_size_log2: None,
        });
        let mut data = DataSection::new();
        for (at, bytes) in &self.memory {
            let at = ConstExpr::i32_const(*at as i32);
            data.active(0, &at, bytes.iter().copied());
        }
        let start = StartSection {
            function_index: first + 4,
        };
        let mut module = Module::new();
        module
            .section(&types)
            .section(&imports)
            .section(&functions)
            .section(&tables)
            .section(&memories)
            .section(&exports)
            .section(&start)
            .section(&code)
            .section(&data);
        module.finish()
    }
}

/// Allocates the next free bytes with the requested alignment, and copies what was at the old address.
pub(super) fn next_free() -> Vec<Instruction<'static>> {
    const OLD: u32 = 0;
    const OLD_LENGTH: u32 = 1;
    const ALIGNMENT: u32 = 2;
    const LENGTH: u32 = 3;
    const LOCAL: u32 = 4;
    vec![
        Instruction::I32Const(FREE as i32),
        Instruction::I32Const(FREE as i32),
        Instruction::I32Load(word_at(0)),
        Instruction::LocalGet(ALIGNMENT),
        Instruction::I32Add,
        Instruction::I32Const(1),
        Instruction::I32Sub,
        Instruction::I32Const(0),
        Instruction::LocalGet(ALIGNMENT),
        Instruction::I32Sub,
        Instruction::I32And,
        Instruction::LocalTee(LOCAL),
        Instruction::LocalGet(LENGTH),
        Instruction::I32Add,
        Instruction::I32Store(word_at(0)),
        Instruction::LocalGet(LOCAL),
        Instruction::LocalGet(OLD),
        Instruction::LocalGet(OLD_LENGTH),
        Instruction::LocalGet(LENGTH),
        Instruction::LocalGet(OLD_LENGTH),
        Instruction::LocalGet(LENGTH),
        Instruction::I32LtU,
        Instruction::Select,
        Instruction::MemoryCopy {
            src_mem: 0,
            dst_mem: 0,
        },
        Instruction::LocalGet(LOCAL),
    ]
}

fn word_at(offset: u64) -> MemArg {
    MemArg {
        offset,
        align: 2,
        memory_index: 0,
    }
}
