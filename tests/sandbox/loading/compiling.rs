//! The compile child and the cache: bombs crash the child alone, compiled code is reused, and only the host's own.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use ccm_host::{CompileError, Compiler, Host, LoadError, LoadErrorKind, Module, Provider};
use tempfile::TempDir;
use wasm_encoder::{
    BlockType, CodeSection, Component, CustomSection, Function, FunctionSection, Instruction,
    ModuleSection, RawSection, TypeSection, ValType,
};

use crate::host::{compiler, open_host};
use crate::loading::world::{self, block_on};
use crate::versions::{self, load_as_witness, witness};
use ccm_tests::harness::Test;

pub(crate) const TESTS: &[Test] = &[
    (
        "a_bomb_that_passes_the_scan_dies_of_its_memory",
        a_bomb_that_passes_the_scan_dies_of_its_memory,
    ),
    (
        "a_bomb_that_passes_the_scan_dies_of_its_time",
        a_bomb_that_passes_the_scan_dies_of_its_time,
    ),
    (
        "an_invalid_module_is_refused_by_the_compiler",
        an_invalid_module_is_refused_by_the_compiler,
    ),
    (
        "a_compiler_that_is_no_compiler_is_reported",
        a_compiler_that_is_no_compiler_is_reported,
    ),
    (
        "the_child_sees_no_environment",
        the_child_sees_no_environment,
    ),
    ("compiled_code_is_used_again", compiled_code_is_used_again),
    (
        "a_tampered_cache_is_compiled_again",
        a_tampered_cache_is_compiled_again,
    ),
    ("compiled_code_is_no_module", compiled_code_is_no_module),
];

const NOWHERE: &str = "http://127.0.0.1:9/v1";

/// The targets that are granted to the witness.
const GRANTED: &[&str] = &["api"];

async fn load(host: &Host) -> Result<Provider, LoadError> {
    versions::load(host, NOWHERE, GRANTED).await
}

/// The witness with one more core module, which is never instantiated and compiled all the same.
fn with_module(module: &wasm_encoder::Module) -> Module {
    let Module { source, wasm } = witness();
    let mut wasm = wasm.to_vec();
    let mut tail = Component::new();
    tail.section(&ModuleSection(module));
    // Sections follow each other, so those after a component's header can be appended to another.
    wasm.extend(&tail.finish()[8..]);
    Module {
        source,
        wasm: wasm.into(),
    }
}

/// Functions that keep to every limit of the pre-scan and keep the register allocator busy: thousands of locals are all
/// alive across hundreds of branches.
pub(crate) fn bomb(functions: u32) -> wasm_encoder::Module {
    const LOCALS: u32 = 1_700;
    let mut types = TypeSection::new();
    types.ty().function([ValType::I32], [ValType::I32]);
    let mut declared = FunctionSection::new();
    let mut code = CodeSection::new();
    for _ in 0..functions {
        declared.function(0);
        let mut function = Function::new([(LOCALS, ValType::I32)]);
        for local in 1..=LOCALS {
            let other = (local * 7_919) % LOCALS + 1;
            for instruction in [
                Instruction::LocalGet(local),
                Instruction::LocalGet(other),
                Instruction::I32Add,
                Instruction::LocalSet(other),
                Instruction::LocalGet(other),
                Instruction::If(BlockType::Empty),
                Instruction::LocalGet(other),
                Instruction::LocalSet(local),
                Instruction::End,
            ] {
                function.instruction(&instruction);
            }
        }
        function
            .instruction(&Instruction::LocalGet(1))
            .instruction(&Instruction::End);
        code.function(&function);
    }
    let mut module = wasm_encoder::Module::new();
    module.section(&types).section(&declared).section(&code);
    module
}

async fn load_error(compiler: Compiler, module: Module) -> CompileError {
    let host = open_host(compiler, None);
    match load_as_witness(&host, module, NOWHERE, GRANTED).await {
        Err(LoadError {
            kind: LoadErrorKind::Compile(reason),
            ..
        }) => reason,
        Err(other) => panic!("{}", world::chain(&other)),
        Ok(_) => panic!("it was loaded"),
    }
}

fn a_bomb_that_passes_the_scan_dies_of_its_memory() {
    block_on(async {
        let error = load_error(compiler(&["--memory-mib=400"]), with_module(&bomb(200))).await;
        assert!(matches!(error, CompileError::Memory(400)), "{error}");
    });
}

fn a_bomb_that_passes_the_scan_dies_of_its_time() {
    block_on(async {
        let error = load_error(compiler(&["--cpu-seconds=1"]), with_module(&bomb(200))).await;
        assert!(matches!(error, CompileError::Cpu(1)), "{error}");
    });
}

fn an_invalid_module_is_refused_by_the_compiler() {
    block_on(async {
        let mut types = TypeSection::new();
        types.ty().function([], [ValType::I32]);
        let mut functions = FunctionSection::new();
        functions.function(0);
        let mut code = CodeSection::new();
        // The function returns nothing although its type has a number as result.
        code.function(Function::new([]).instruction(&Instruction::End));
        let mut module = wasm_encoder::Module::new();
        module.section(&types).section(&functions).section(&code);
        let error = load_error(compiler(&[]), with_module(&module)).await;
        assert!(
            matches!(&error, CompileError::Invalid(text) if text.contains("offset")),
            "{error}"
        );

        let Module { source, wasm } = witness();
        let mut wasm = wasm.to_vec();
        let mut tail = Component::new();
        tail.section(&CustomSection {
            name: "x".into(),
            data: [].as_slice().into(),
        });
        tail.section(&RawSection {
            id: 9,
            data: &[0xff],
        });
        wasm.extend(&tail.finish()[8..]);
        let host = open_host(compiler(&[]), None);
        let module = Module {
            source,
            wasm: wasm.into(),
        };
        let loaded = load_as_witness(&host, module, NOWHERE, GRANTED).await;
        let error = loaded.err().unwrap();
        assert!(matches!(error.kind, LoadErrorKind::Refused(_)));
    });
}

fn a_compiler_that_is_no_compiler_is_reported() {
    block_on(async {
        let program = |path: &str, arguments: &[&str]| Compiler {
            program: PathBuf::from(path),
            arguments: arguments.iter().map(OsString::from).collect(),
        };
        let error = load_error(program("/nonexistent", &[]), witness()).await;
        assert!(matches!(error, CompileError::Run { .. }), "{error}");
        let error = load_error(program("/bin/sh", &["-c", "exit 3"]), witness()).await;
        assert!(
            matches!(&error, CompileError::Crashed(text) if text.contains("exit code 3")),
            "{error}"
        );
        let error = load_error(program("/bin/sh", &["-c", "kill -SEGV $$"]), witness()).await;
        assert!(
            matches!(&error, CompileError::Crashed(text) if text.contains("signal 11")),
            "{error}"
        );
        let error = load_error(program("/bin/sh", &["-c", "exit 0"]), witness()).await;
        assert!(matches!(error, CompileError::Crashed(_)), "{error}");
        let error = load_error(program("/bin/sh", &["-c", "echo nonsense"]), witness()).await;
        assert!(matches!(error, CompileError::Load(_)), "{error}");
    });
}

fn the_child_sees_no_environment() {
    block_on(async {
        let script = "env | grep -v -e ^PWD= -e ^SHLVL= -e ^_= | sort >&2; pwd >&2; exit 1";
        let compiler = Compiler {
            program: "/bin/sh".into(),
            arguments: vec!["-c".into(), script.into()],
        };
        let error = load_error(compiler, witness()).await.to_string();
        assert_eq!(
            error,
            "the compiler crashed: exit code 1: MALLOC_ARENA_MAX=2 RAYON_NUM_THREADS=4 /"
        );
    });
}

/// A compiler that cannot be started: compiling fails.
fn no_compiler() -> Compiler {
    Compiler {
        program: "/nonexistent".into(),
        arguments: Vec::new(),
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder.join("compiled"))
        .unwrap()
        .map(|file| file.unwrap().path());
    files
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "cwasm")
        })
        .collect()
}

fn compiled_code_is_used_again() {
    block_on(async {
        let folder = TempDir::new().unwrap();
        let host = open_host(compiler(&[]), Some(folder.path()));
        load(&host).await.unwrap();
        assert_eq!(entries(folder.path()).len(), 1);
        let next = open_host(no_compiler(), Some(folder.path()));
        load(&next).await.unwrap();

        let without_folder = open_host(compiler(&[]), None);
        load(&without_folder).await.unwrap();
        load(&without_folder).await.unwrap();
    });
}

fn a_tampered_cache_is_compiled_again() {
    block_on(async {
        let folder = TempDir::new().unwrap();
        let host = open_host(compiler(&[]), Some(folder.path()));
        load(&host).await.unwrap();
        let path = entries(folder.path()).remove(0);
        let mut entry = fs::read(&path).unwrap();
        let middle = entry.len() / 2;
        entry[middle] ^= 1;
        fs::write(&path, &entry).unwrap();

        let next = open_host(no_compiler(), Some(folder.path()));
        let error = load(&next).await.err().unwrap();
        assert!(
            matches!(error.kind, LoadErrorKind::Compile(_)),
            "{}",
            world::chain(&error)
        );
        let next = open_host(compiler(&[]), Some(folder.path()));
        load(&next).await.unwrap();
        assert_ne!(fs::read(&path).unwrap(), entry);
    });
}

fn compiled_code_is_no_module() {
    block_on(async {
        let folder = TempDir::new().unwrap();
        let host = open_host(compiler(&[]), Some(folder.path()));
        load(&host).await.unwrap();
        // Magic number and MAC precede the code itself.
        let code = fs::read(entries(folder.path()).remove(0))
            .unwrap()
            .split_off(40);
        let module = Module {
            source: "smuggled.cwasm".to_owned(),
            wasm: code.into(),
        };
        let error = load_as_witness(&host, module, NOWHERE, GRANTED)
            .await
            .err()
            .unwrap();
        assert!(
            world::chain(&error).contains("compiled code, not WebAssembly"),
            "{}",
            world::chain(&error)
        );
    });
}
