//! Both ends of the compile child. The host's end starts, feeds and kills it; the child's end limits itself and
//! compiles. The child gets no environment, no secret and no file, and can only use its pipes: see `confine`.

use std::ffi::OsStr;
use std::io::{Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitCode, ExitStatus, Stdio};

use rlimit::Resource;
use rustix::process::Signal;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};

use super::{CompileError, Compiler};
use crate::confine::{self, confine};
use crate::sanitize::clean;
use crate::{engine, limits};

/// Output of our own compile child. Constructed in this file only.
pub(crate) struct Compiled(Vec<u8>);

impl Compiled {
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Wraps code that a sandbox process got from its parent, over its inherited socket.
    pub(crate) fn of_parent(code: bytes::Bytes) -> Compiled {
        Compiled(code.into())
    }

    /// Wraps code that a test compiled in its own process.
    #[cfg(test)]
    pub(crate) fn for_tests(code: Vec<u8>) -> Compiled {
        Compiled(code)
    }
}

/// Limits that the child sets for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ChildLimits {
    memory_mib: u64,
    cpu_seconds: u64,
}

impl ChildLimits {
    /// Parses the limits from a command line. They can only be lowered.
    fn of<'a>(arguments: impl Iterator<Item = &'a OsStr>) -> ChildLimits {
        let mut limits = ChildLimits {
            memory_mib: limits::COMPILE_MEMORY_BYTES >> 20,
            cpu_seconds: limits::COMPILE_CPU_SECONDS,
        };
        for argument in arguments.filter_map(OsStr::to_str) {
            let Some((name, value)) = argument.split_once('=') else {
                continue;
            };
            let Ok(value) = value.parse::<u64>() else {
                continue;
            };
            match name {
                "--memory-mib" => limits.memory_mib = limits.memory_mib.min(value),
                "--cpu-seconds" => limits.cpu_seconds = limits.cpu_seconds.min(value),
                _ => {}
            }
        }
        limits
    }
}

/// Compiles a module in a child process.
///
/// # Errors
/// The module is invalid or exceeds a limit, or the child cannot be run.
pub(crate) async fn compile(compiler: &Compiler, wasm: &[u8]) -> Result<Compiled, CompileError> {
    let run = |reason| CompileError::Run {
        program: compiler.program.clone(),
        reason,
    };
    let mut child = Command::new(&compiler.program)
        .args(&compiler.arguments)
        .env_clear()
        // Each thread and each allocator arena reserves address space, which is limited.
        .env("RAYON_NUM_THREADS", limits::COMPILE_THREADS.to_string())
        .env("MALLOC_ARENA_MAX", "2")
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(run)?;
    let outcome = tokio::time::timeout(limits::COMPILE_WALL, converse(&mut child, wasm)).await;
    if !matches!(outcome, Ok(Ok(_))) {
        // The child may still run; whether killing works does not change the result.
        let _ = child.kill().await;
    }
    let (status, code, message) = match outcome {
        Ok(outcome) => outcome.map_err(run)?,
        Err(_) => return Err(CompileError::TimedOut(limits::COMPILE_WALL.as_secs())),
    };
    if code.len() > limits::COMPILED_BYTES {
        return Err(CompileError::TooLarge(limits::COMPILED_BYTES >> 20));
    }
    if status.success() && !code.is_empty() {
        return Ok(Compiled(code));
    }
    let limits = ChildLimits::of(
        compiler
            .arguments
            .iter()
            .map(|argument| argument.as_os_str()),
    );
    Err(explain(status, &message, limits))
}

/// Feeds the child, and reads its output and exit status. Output beyond a cap plus one byte is read and dropped, so
/// that the child does not block.
async fn converse(
    child: &mut Child,
    wasm: &[u8],
) -> std::io::Result<(ExitStatus, Vec<u8>, String)> {
    let stdin = child.stdin.take();
    let feed = async {
        if let Some(mut stdin) = stdin {
            // If the child dies before it has read everything, its exit status says more than EPIPE.
            let _ = stdin.write_all(wasm).await;
        }
    };
    let code = read(child.stdout.take(), limits::COMPILED_BYTES);
    let message = read(child.stderr.take(), limits::COMPILE_MESSAGE_BYTES);
    let ((), code, message) = tokio::join!(feed, code, message);
    let status = child.wait().await?;
    Ok((
        status,
        code?,
        String::from_utf8_lossy(&message?).into_owned(),
    ))
}

async fn read(pipe: Option<impl AsyncRead + Unpin>, cap: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        (&mut pipe)
            .take(cap as u64 + 1)
            .read_to_end(&mut bytes)
            .await?;
        tokio::io::copy(&mut pipe, &mut tokio::io::sink()).await?;
    }
    Ok(bytes)
}

/// Explains why a child ended without a result.
fn explain(status: ExitStatus, message: &str, limits: ChildLimits) -> CompileError {
    let message = message.trim();
    if status.code() == Some(UNABLE) {
        return unable(message);
    }
    // A rejection holds names that the module chose: only the operating system's number at its end is not among them.
    let lacks_resources = ["(os error 11)", "(os error 12)"];
    if status.code() == Some(REJECTED) && !lacks_resources.iter().any(|end| message.ends_with(end))
    {
        return CompileError::Invalid(clean(message, limits::ERROR_BYTES));
    }
    // A thread that cannot be started: the child starts its few before it needs much memory, so the machine or its
    // container has too many.
    if message.contains("Resource temporarily unavailable") {
        return unable(message);
    }
    // Messages of the allocator, the standard library and the operating system for exhausted address space.
    let out_of_memory = [
        "memory allocation of",
        "Cannot allocate memory",
        "out of memory",
        "os error 12",
    ];
    if out_of_memory.iter().any(|words| message.contains(words)) {
        return CompileError::Memory(limits.memory_mib);
    }
    let signal = status.signal();
    // SIGXCPU, at the soft limit: it ends the child, which never gets to the hard one.
    if signal == Some(24) {
        return CompileError::Cpu(limits.cpu_seconds);
    }
    if let Some(signal) = signal_from_outside(status) {
        return CompileError::Ended(signal);
    }
    let message = clean(message, limits::ERROR_BYTES);
    match (status.code(), signal) {
        (Some(code), _) => CompileError::Crashed(format!("exit code {code}: {message}")),
        (None, signal) => {
            CompileError::Crashed(format!("signal {}: {message}", signal.unwrap_or_default()))
        }
    }
}

/// The signal that ended a child, if it is one that the kernel where memory is short, a terminal or a service manager
/// sends: a confined child can send itself none of these.
pub(crate) fn signal_from_outside(status: ExitStatus) -> Option<String> {
    let signal = status.signal()?;
    match signal {
        9 => Some(format!(
            "signal {signal}; the machine, or its container, may be short of memory"
        )),
        1 | 2 | 3 | 15 => Some(format!("signal {signal}")),
        _ => None,
    }
}

fn unable(message: &str) -> CompileError {
    CompileError::Unable(clean(message.trim(), limits::ERROR_BYTES))
}

/// Exit code for a rejected module. 1 would also come from an unrelated program, 101 from a panic.
const REJECTED: i32 = 65;
/// Exit code for a child that could not confine itself or not start the compiler, whatever the module is.
const UNABLE: i32 = 71;

/// Main function of the compile child: reads a module from standard input and writes compiled code to standard
/// output, or an error to standard error with another exit code.
///
/// Reads no environment and no file. First limits itself: address space, CPU time, low priority, and `confine`.
/// `--memory-mib=N` and `--cpu-seconds=N` on the command line lower the limits. Ends with the parent.
pub fn compile_child() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    let limits = ChildLimits::of(arguments.iter().map(|argument| argument.as_os_str()));
    match restrict(limits).and_then(|()| work()) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(rejected)) => complain(&rejected, REJECTED as u8),
        Err(failed) => complain(&failed.to_string(), UNABLE as u8),
    }
}

fn restrict(limits: ChildLimits) -> std::io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // Leader election and health checks of the parent have priority.
    rustix::process::nice(5)?;
    let memory = limits.memory_mib << 20;
    Resource::FSIZE.set(0, 0)?;
    // Standard input, output and error, and a few for the standard library.
    Resource::NOFILE.set(16, 16)?;
    Resource::CPU.set(limits.cpu_seconds, limits.cpu_seconds + 1)?;
    Resource::AS.set(memory, memory)?;
    confine(confine::Child::Compiler)
}

/// The outer error is the child's, the inner one the module's.
fn work() -> std::io::Result<Result<(), String>> {
    let mut wasm = Vec::new();
    std::io::stdin()
        .take(limits::MODULE_BYTES as u64 + 1)
        .read_to_end(&mut wasm)?;
    if wasm.len() > limits::MODULE_BYTES {
        return Ok(Err(format!("more than {} bytes", limits::MODULE_BYTES)));
    }
    let engine = engine::new().map_err(std::io::Error::other)?;
    let code = match engine.precompile_component(&wasm) {
        Ok(code) => code,
        Err(error) => return Ok(Err(format!("{error:#}"))),
    };
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(&code)?;
    stdout.flush()?;
    Ok(Ok(()))
}

fn complain(message: &str, code: u8) -> ExitCode {
    // Standard error may be closed; the exit code tells the rest.
    let _ = writeln!(std::io::stderr(), "{message}");
    ExitCode::from(code)
}

#[cfg(test)]
mod tests;
