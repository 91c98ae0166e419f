//! Files made to cost the compiler time and memory, or to crash it. The compile child bears the cost; the effect on the
//! host is measured in a process of its own.

use std::ffi::OsString;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use ccm_host::{CompileError, Compiler, LoadErrorKind};
use rustix::process::Pid;
use serde_json::{Value, json};
use wasm_encoder::{BlockType, Component, Function, Instruction, RawSection, ValType};

use crate::artifacts::made::{
    followed_by, function, functions, globals, instances, nested, with_module,
};
use crate::artifacts::serving::Serving;
use crate::host::compiler;
use ccm_tests::harness::Test;

/// The first argument that makes this program load one file, and print the result.
pub(crate) const MEASURE: &str = "__measure";
/// Maximum growth of the host while a module is compiled, in KiB.
const GROWTH_KIB: u64 = 16 << 10;
/// Longer than the child may take; only a failing test waits that long.
const TIMEOUT: Duration = Duration::from_secs(100);

pub(crate) const TESTS: &[Test] = &[
    ("a9_a_compile_bomb_costs_the_host_nothing", a9),
    ("a10_a_compiler_that_crashes_is_no_way_in", a10),
];

/// The result of loading a file.
#[derive(Clone, Copy)]
enum End {
    /// It is refused before it is compiled; the text says what exceeds a limit.
    TooMuch(&'static str),
    /// The child dies at one of its limits.
    Dies,
    /// The child may succeed or fail: the host does not grow in either case.
    Whatever,
}

type Bomb = (&'static str, fn() -> Vec<u8>, End);

const BOMBS: &[Bomb] = &[
    (
        "many functions",
        many_functions,
        End::TooMuch("functions at offset"),
    ),
    ("as many as are allowed", allowed_functions, End::Whatever),
    ("a huge br_table", huge_table, End::Whatever),
    (
        "a hundred thousand locals",
        many_locals,
        End::TooMuch("locals of a function"),
    ),
    ("blocks in blocks", deep_blocks, End::Whatever),
    (
        "ten thousand nested components",
        deep_components,
        End::TooMuch("nested components"),
    ),
    ("locals that are all alive", alive, End::Dies),
    (
        "globals in a hundred instances",
        many_globals,
        End::TooMuch("globals at offset"),
    ),
    (
        "as many globals as are allowed",
        allowed_globals,
        End::Whatever,
    ),
];

fn many_functions() -> Vec<u8> {
    with_module(&functions((0..50_001).map(|_| function(&[]))))
}

fn allowed_functions() -> Vec<u8> {
    with_module(&functions((0..21_000).map(|_| function(&[]))))
}

fn huge_table() -> Vec<u8> {
    let labels = vec![0; 500_000];
    let table = Instruction::BrTable(labels.into(), 0);
    with_module(&functions([function(&[Instruction::I32Const(0), table])]))
}

fn many_globals() -> Vec<u8> {
    followed_by(&instances(100, &globals(200_000)))
}

fn allowed_globals() -> Vec<u8> {
    followed_by(&instances(60, &globals(4_000)))
}

fn many_locals() -> Vec<u8> {
    let mut body = Function::new([(100_000, ValType::I64)]);
    body.instruction(&Instruction::End);
    with_module(&functions([body]))
}

fn deep_blocks() -> Vec<u8> {
    let mut body = vec![Instruction::Block(BlockType::Empty); 100_000];
    body.extend(vec![Instruction::End; 100_000]);
    with_module(&functions([function(&body)]))
}

fn deep_components() -> Vec<u8> {
    /// Section of a component that holds a component.
    const COMPONENT: u8 = 4;
    let mut tail = Component::new();
    let data = nested(10_000);
    tail.section(&RawSection {
        id: COMPONENT,
        data: &data,
    });
    followed_by(&tail)
}

/// Functions that keep to every limit of the pre-scan and keep the register allocator busy: all locals are alive across
/// hundreds of branches.
fn alive() -> Vec<u8> {
    const LOCALS: u32 = 1_700;
    let body = || {
        let mut body = Function::new([(LOCALS, ValType::I32)]);
        for local in 0..LOCALS {
            let other = (local * 7_919) % LOCALS;
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
                body.instruction(&instruction);
            }
        }
        body.instruction(&Instruction::End);
        body
    };
    with_module(&functions((0..40).map(|_| body())))
}

/// Loads one file in a process of its own, where nothing else takes memory.
fn measured(name: &str) -> Value {
    let output = Command::new(std::env::current_exe().unwrap())
        .arg(MEASURE)
        .arg(name)
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(output.status.success(), "{name}: {}", output.status);
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The process of [`measured`]: prints the result for the file, and the host's maximum growth.
pub(crate) fn measure() -> ExitCode {
    let mut arguments = std::env::args().skip(2);
    let name = arguments.next().unwrap();
    let (_, make, end) = BOMBS.iter().find(|(bomb, _, _)| *bomb == name).unwrap();
    // A bomb is recognised before the whole minute has passed.
    let limits: &[&str] = match end {
        End::Dies => &["--cpu-seconds=3", "--memory-mib=600"],
        End::TooMuch(_) | End::Whatever => &[],
    };
    let wasm = make();
    let serving = Serving::start_with(compiler(limits));
    // Resets the peak of the resident set.
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = memory("VmRSS:");
    let error = serving.offer(wasm).err();
    let grown = memory("VmHWM:").saturating_sub(before);
    let has_died = matches!(
        error.as_ref().map(|error| &error.kind),
        Some(LoadErrorKind::Compile(
            CompileError::Memory(_) | CompileError::Cpu(_) | CompileError::TimedOut(_)
        ))
    );
    let reported = error.map(|error| format!("{error}: {:?}", std::error::Error::source(&error)));
    let shown = json!({"grown": grown, "error": reported, "died": has_died});
    #[allow(
        clippy::print_stdout,
        reason = "it is read by the test that began this process"
    )]
    {
        println!("{shown}");
    }
    ExitCode::SUCCESS
}

/// A field of this process's `/proc/self/status`, in KiB.
pub(crate) fn memory(name: &str) -> u64 {
    memory_of(rustix::process::getpid(), name)
}

/// The same field of another process, in KiB.
pub(crate) fn memory_of(process: Pid, name: &str) -> u64 {
    let status = format!("/proc/{}/status", process.as_raw_nonzero());
    let status = std::fs::read_to_string(status).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn a9() {
    for (name, _, end) in BOMBS {
        let began = Instant::now();
        let shown = measured(name);
        assert!(began.elapsed() < TIMEOUT, "{name}: {shown}");
        assert!(
            shown["grown"].as_u64().unwrap() <= GROWTH_KIB,
            "{name}: {shown}"
        );
        match end {
            End::TooMuch(what) => {
                let reported = shown["error"].as_str().unwrap();
                let what = what.trim_end_matches(" at offset");
                assert!(
                    reported.contains("TooMuch") && reported.contains(what),
                    "{name}: {reported}"
                );
            }
            End::Dies => assert_eq!(shown["died"], true, "{name}: {shown}"),
            End::Whatever => {}
        }
    }
}

fn a10() {
    // Files that crash the compiler itself are fixed there; so the child crashes by itself here.
    for (script, words) in [
        ("kill -ABRT $$", "signal 6"),
        ("kill -SEGV $$", "signal 11"),
        ("exit 101", "exit code 101"),
        ("exit 0", "exit code 0"),
    ] {
        let serving = Serving::start_with(Compiler {
            program: "/bin/sh".into(),
            arguments: ["-c", script].map(OsString::from).into(),
        });
        // A file other than the good one, whose compiled code is cached.
        let (error, reported) = serving.refusal(script, with_module(&functions([])));
        let LoadErrorKind::Compile(CompileError::Crashed(_)) = error.kind else {
            panic!("{script}: {reported}");
        };
        assert!(
            reported.contains("the compiler crashed") && reported.contains(words),
            "{reported}"
        );
    }
}
