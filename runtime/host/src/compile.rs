//! Compile pipeline: turns untrusted bytes into trusted code. The pre-scan checks a module, a child process compiles
//! it, the cache stores the result. Nothing of a module runs here, and nothing is compiled in this process.

pub(crate) mod cache;
pub(crate) mod child;
pub(crate) mod prescan;
pub(crate) mod refusal;

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use thiserror::Error;
use wasmtime::Engine;
use wasmtime::component::Component;

use crate::digest::Digest;
use crate::limits;
use crate::private_folder::FolderError;
use cache::{Cache, CacheError};

/// The compiler program, started once per module: it calls [`crate::compile_child`] and nothing else.
///
/// The product starts itself with a hidden subcommand.
#[derive(Debug, Clone)]
pub struct Compiler {
    /// Path of the program.
    pub program: PathBuf,
    /// Arguments of the program. `--memory-mib=N` and `--cpu-seconds=N` among them lower the limits.
    pub arguments: Vec<OsString>,
}

/// Why a module could not be compiled.
#[derive(Debug, Error)]
pub enum CompileError {
    /// The program could not be started, or its pipes failed.
    #[error("cannot run the compiler {}", program.display())]
    Run {
        /// Path of the program.
        program: PathBuf,
        /// Error of the operating system.
        #[source]
        reason: std::io::Error,
    },
    /// The compiler rejects the module; its message.
    #[error("the module is not valid: {0}")]
    Invalid(String),
    /// Address space limit, in MiB.
    #[error("compiling needs more than {0} MiB of memory")]
    Memory(u64),
    /// CPU time limit, in seconds.
    #[error("compiling needs more than {0} s of CPU time")]
    Cpu(u64),
    /// Wall-clock limit, in seconds.
    #[error("compiling did not end within {0} s")]
    TimedOut(u64),
    /// Limit of the compiled code, in MiB.
    #[error("the compiled code has more than {0} MiB")]
    TooLarge(usize),
    /// Something else than the compilation ended the child: the kernel where memory is short, a terminal, a service
    /// manager.
    #[error("the compiler was ended from outside: {0}")]
    Ended(String),
    /// The child could not confine itself, or not start the compiler.
    #[error("the compiler cannot work on this machine: {0}")]
    Unable(String),
    /// The compiler ended otherwise; module or compiler may be the cause.
    #[error("the compiler crashed: {0}")]
    Crashed(String),
    /// The compiled code cannot be loaded into this process.
    #[error("the compiled code cannot be loaded: {0}")]
    Load(String),
}

/// Compiles modules, each once.
pub(crate) struct CompilePipeline {
    engine: Engine,
    compiler: Compiler,
    cache: Option<Arc<Cache>>,
    recent: Mutex<VecDeque<(Digest, Component)>>,
    /// Held while compiling: two compilations at a time would need twice the memory.
    bench: tokio::sync::Mutex<()>,
}

impl CompilePipeline {
    /// Opens a pipeline that stores compiled code below `cache_dir`; only in memory without a folder, or if that cannot
    /// be written, as on a full disk.
    ///
    /// # Errors
    /// The folder is another user's or none, or its key is damaged.
    pub(crate) fn open(
        engine: Engine,
        compiler: Compiler,
        cache_dir: Option<&Path>,
    ) -> Result<CompilePipeline, CacheError> {
        let cache = match cache_dir.map(|folder| Cache::open(folder, &engine)) {
            None => None,
            Some(Ok(cache)) => Some(Arc::new(cache)),
            Some(Err(CacheError::Folder(error @ FolderError::Io { .. }))) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "compiled code is not cached: modules are compiled anew at every start"
                );
                None
            }
            Some(Err(error)) => return Err(error),
        };
        Ok(CompilePipeline {
            engine,
            compiler,
            cache,
            recent: Mutex::default(),
            bench: tokio::sync::Mutex::default(),
        })
    }

    /// Component of a module that passed the pre-scan, compiled if necessary.
    pub(crate) async fn component(
        &self,
        digest: Digest,
        wasm: &[u8],
    ) -> Result<Component, CompileError> {
        if let Some(component) = self.recall(digest) {
            return Ok(component);
        }
        let _bench = self.bench.lock().await;
        if let Some(component) = self.recall(digest) {
            return Ok(component);
        }
        let component = match self.look_up(digest).await {
            Some(component) => component,
            None => self.compile(digest, wasm).await?,
        };
        self.remember(digest, component.clone());
        Ok(component)
    }

    async fn look_up(&self, digest: Digest) -> Option<Component> {
        let cache = self.cache.clone()?;
        let engine = self.engine.clone();
        tokio::task::spawn_blocking(move || cache.load(&engine, digest))
            .await
            .ok()
            .flatten()
    }

    async fn compile(&self, digest: Digest, wasm: &[u8]) -> Result<Component, CompileError> {
        let began = Instant::now();
        let code = child::compile(&self.compiler, wasm).await?;
        tracing::debug!(%digest, bytes = code.as_bytes().len(), milliseconds = began.elapsed().as_millis(), "module compiled");
        let cache = self.cache.clone();
        let engine = self.engine.clone();
        let load = move || {
            let component = cache::load(&engine, &code)
                .map_err(|error| CompileError::Load(format!("{error:#}")))?;
            if let Some(cache) = cache
                && let Err(error) = cache.store(digest, &code)
            {
                tracing::warn!(%digest, error = &error as &dyn std::error::Error, "compiled code is not cached");
            }
            Ok(component)
        };
        tokio::task::spawn_blocking(load)
            .await
            .map_err(|error| CompileError::Load(error.to_string()))?
    }

    fn recall(&self, digest: Digest) -> Option<Component> {
        let recent = self.recent.lock();
        recent
            .iter()
            .find(|(known, _)| *known == digest)
            .map(|(_, component)| component.clone())
    }

    fn remember(&self, digest: Digest, component: Component) {
        let mut recent = self.recent.lock();
        recent.truncate(limits::RECENT_COMPONENTS.saturating_sub(1));
        recent.push_front((digest, component));
    }
}
