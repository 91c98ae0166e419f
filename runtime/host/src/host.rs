//! Loads modules into providers: inspects, narrows, compiles, links and tries, in this order, and stops at the first
//! step that fails.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use ccm_core::cloud::Capabilities;
use ccm_metrics::requests::RequestMetrics;
use thiserror::Error;
use tokio::time::Instant;
use wasmtime::Engine;
use wasmtime::component::{Component, InstancePre, Linker};

use crate::bindings::lifecycle;
use crate::call::{Admission, Call, CallBackoff, Calls};
use crate::compile::cache::CacheError;
use crate::compile::{CompilePipeline, Compiler};
use crate::component::{Inspection, inspection, named_by_manifest};
use crate::egress::{Egress, EgressLimits, QuotaGroups};
use crate::epoch_ticker::Ticker;
use crate::grant::Grants;
use crate::guest_config::{self, GuestConfig};
use crate::load_error::{LoadError, LoadErrorKind};
use crate::load_options::Loading;
use crate::manifest::Contract;
use crate::memory_budget::GUESTS;
use crate::provider::{Provider, not_asked};
use crate::sandbox::{
    Answer, Ask, CpuScheduler, Exports, Function, InProcess, Isolation, Load, Sandbox,
    SandboxProcess,
};
use crate::sanitize::clean;
use crate::store_data::Guest;
use crate::{engine, host_functions, limits, wasi};

/// Options of a host.
#[derive(Debug, Clone)]
pub struct HostOptions {
    /// Program that compiles modules.
    pub compiler: Compiler,
    /// Folder for compiled code; `None` keeps it in memory only.
    pub cache_dir: Option<PathBuf>,
    /// Process in which guests run.
    pub isolation: Isolation,
}

/// Why a host cannot be created.
#[derive(Debug, Error)]
pub enum HostError {
    /// This machine cannot run the engine.
    #[error("the WebAssembly engine cannot be started: {0}")]
    Engine(String),
    /// The thread that interrupts guests could not be started.
    #[error("cannot start a thread")]
    Thread(#[source] std::io::Error),
    /// The cache folder is unusable.
    #[error("the cache for compiled code cannot be used")]
    Cache(#[source] CacheError),
}

/// A module as delivered.
#[derive(Debug, Clone)]
pub struct Module {
    /// Origin for messages: a path, an image reference, a ConfigMap's name.
    pub source: String,
    /// Bytes of the component; clones share them.
    pub wasm: Bytes,
}

/// Loads modules. One per process; providers may outlive it.
pub struct Host {
    pipeline: CompilePipeline,
    linker: Linker<Guest>,
    ticker: Ticker,
    quota_groups: QuotaGroups,
    scheduler: CpuScheduler,
    isolation: Isolation,
    requests: RequestMetrics,
}

impl Host {
    /// Starts the engine and its ticker, and opens the cache.
    ///
    /// # Errors
    /// The step that failed.
    pub fn new(options: HostOptions) -> Result<Host, HostError> {
        let failed = |error: wasmtime::Error| HostError::Engine(format!("{error:#}"));
        let engine = engine::new().map_err(failed)?;
        let ticked = engine.clone();
        let ticker = Ticker::start(move || ticked.increment_epoch()).map_err(HostError::Thread)?;
        let linker = linker(&engine).map_err(failed)?;
        let pipeline =
            CompilePipeline::open(engine, options.compiler, options.cache_dir.as_deref())
                .map_err(HostError::Cache)?;
        Ok(Host {
            pipeline,
            linker,
            ticker,
            quota_groups: QuotaGroups::default(),
            scheduler: CpuScheduler::first(),
            isolation: options.isolation,
            requests: RequestMetrics::default(),
        })
    }

    /// Counts the requests of all providers in these metrics.
    pub fn counting(mut self, requests: RequestMetrics) -> Host {
        self.requests = requests;
        self
    }

    /// Loads a module under its manifest's name and with the limits that its manifest requests: see [`Host::load_as`].
    ///
    /// # Errors
    /// See [`Host::load_as`].
    pub async fn load(
        &self,
        module: Module,
        grants: Grants,
        config: GuestConfig,
    ) -> Result<Provider, LoadError> {
        let loading = Loading {
            grants,
            config,
            ..Loading::default()
        };
        self.load_as(module, loading).await
    }

    /// Loads a module with these options and runs its `init` once as a test. It shares the request budgets and
    /// rate-limit holds of the serving version with the same name.
    ///
    /// # Errors
    /// The first step that failed; see [`LoadError`]. A module that requests more than it is granted is not
    /// compiled.
    pub async fn load_as(&self, module: Module, loading: Loading) -> Result<Provider, LoadError> {
        let Module { source, wasm } = module;
        let loaded = self.loaded(&source, wasm, loading).await;
        loaded.map_err(|kind| kind.of(&source))
    }

    /// Loads the module; [`Host::load_as`] adds its origin to errors.
    async fn loaded(
        &self,
        source: &str,
        wasm: Bytes,
        loading: Loading,
    ) -> Result<Provider, LoadErrorKind> {
        let Loading {
            name,
            grants,
            config,
            limits: granted_limits,
            is_on_trial,
            interceptor,
        } = loading;
        let (inspection, wasm) = look(wasm).await?;
        let Inspection {
            digest,
            manifest,
            contract,
            capabilities,
            ..
        } = inspection;

        let name: Arc<str> = Arc::from(name.unwrap_or_else(|| manifest.name.clone()));
        let granted = manifest.narrow(grants).map_err(LoadErrorKind::Missing)?;
        let mut warnings = granted.warnings.clone();
        warnings.extend(granted_limits.warnings(&name, &manifest));
        let mistakes = config.mistakes(&manifest);
        if !mistakes.is_empty() {
            return Err(LoadErrorKind::Config(mistakes));
        }
        let config = guest_config::init_config(config, &manifest, &granted);
        let egress = Egress::new(&name, &granted, EgressLimits::standard())
            .map_err(LoadErrorKind::Egress)?
            .of_module(digest.to_string(), &manifest.version, contract)
            .sharing(&self.quota_groups)
            .counting(self.requests.clone())
            .intercepted_by(interceptor.clone());
        egress.serves(!is_on_trial);

        let component = self
            .pipeline
            .component(digest, &wasm)
            .await
            .map_err(LoadErrorKind::Compile)?;
        drop(wasm);
        let memory_bytes = granted_limits.memory_bytes(&manifest);
        let load = Load {
            contract,
            config,
            capabilities,
            self_check: inspection.self_check,
        };
        let linked = self
            .linker
            .instantiate_pre(&component)
            .map_err(|error| unlinked(&error, contract, &manifest.contract))?;
        let sandbox = self.sandbox(component, linked, load).await?;
        let calls = Calls {
            provider: name.clone(),
            digest,
            sandbox,
            admission: Admission::new(&GUESTS, memory_bytes),
            backoff: CallBackoff::default(),
            interceptor,
        };
        let enabled = try_out(&calls).await?;
        let enabled = narrow(capabilities, &enabled)?;
        if enabled == Capabilities::default() {
            warnings.push(format!("{source} enables nothing in this configuration"));
        }
        Ok(Provider {
            name,
            limits: granted_limits,
            capabilities: enabled,
            warnings,
            calls,
            annotation_prefixes: granted.annotation_prefixes,
            checks_itself: inspection.self_check,
            egress: Arc::new(egress),
            manifest,
        })
    }

    /// Opens the sandbox of a linked module's guests.
    async fn sandbox(
        &self,
        component: Component,
        linked: InstancePre<Guest>,
        load: Load,
    ) -> Result<Sandbox, LoadErrorKind> {
        let exports = Exports::find(&linked, &load)
            .map_err(|error| LoadErrorKind::Signature(difference(&error)))?;
        Ok(match &self.isolation {
            Isolation::InProcess => Sandbox::InProcess(Box::new(InProcess {
                component: linked,
                exports,
                config: load.config,
                ticker: self.ticker.clone(),
                scheduler: self.scheduler.beside(),
                state: Arc::default(),
            })),
            Isolation::ChildProcess(program) => {
                let process = SandboxProcess::new(program.clone(), component, load);
                process.ready().await.map_err(LoadErrorKind::Host)?;
                Sandbox::Process(process)
            }
        })
    }
}

/// Linker with all interfaces that guests may import.
pub(crate) fn linker(engine: &Engine) -> wasmtime::Result<Linker<Guest>> {
    let mut linker = Linker::new(engine);
    host_functions::link(&mut linker)?;
    wasi::link(&mut linker)?;
    Ok(linker)
}

/// Inspects on a blocking thread, because hashing and scanning 32 MiB takes tens of milliseconds.
async fn look(wasm: Bytes) -> Result<(Inspection, Bytes), LoadErrorKind> {
    let look = tokio::task::spawn_blocking(move || inspection(&wasm).map(|found| (found, wasm)));
    look.await
        .map_err(|error| LoadErrorKind::Host(error.to_string()))?
}

/// An import does not fit. It may be a function that a later patch of this contract has; the interfaces that guests
/// export have the same functions in every patch.
fn unlinked(error: &wasmtime::Error, contract: Contract, needed: &str) -> LoadErrorKind {
    let what = difference(error);
    if !contract.is_before(needed) {
        return LoadErrorKind::Signature(what);
    }
    let needed = named_by_manifest(needed);
    LoadErrorKind::Contract(format!("{needed} for an import ({what})"))
}

/// The function, and how it differs from the contract's.
fn difference(error: &wasmtime::Error) -> String {
    clean(&format!("{error:#}"), limits::ERROR_BYTES)
}

/// Runs `init` once, in a store of its own.
async fn try_out(calls: &Calls) -> Result<Vec<lifecycle::Capability>, LoadErrorKind> {
    let call = Call {
        function: Function::Init,
        argument_bytes: 0,
        limit: limits::INIT,
        ends: Instant::now() + limits::WAIT + limits::INIT,
        fresh: true,
        begin: |_: Instant| (Ask::Init, None),
    };
    let read = |answer| match answer {
        Answer::Enabled(enabled) => Ok(enabled),
        _ => Err(not_asked()),
    };
    let tried = calls.run(call, read).await;
    tried
        .map(|(enabled, _)| enabled)
        .map_err(LoadErrorKind::Init)
}

/// Capabilities that `init` enabled; they must be among the exported ones.
fn narrow(
    exported: Capabilities,
    enabled: &[lifecycle::Capability],
) -> Result<Capabilities, LoadErrorKind> {
    let mut narrowed = Capabilities::default();
    for capability in enabled {
        let (is_exported, is_enabled, name) = match capability {
            lifecycle::Capability::Instances => {
                (exported.instances, &mut narrowed.instances, "instances")
            }
            lifecycle::Capability::LoadBalancer => (
                exported.load_balancer,
                &mut narrowed.load_balancer,
                "load-balancer",
            ),
            lifecycle::Capability::Routes => (exported.routes, &mut narrowed.routes, "routes"),
        };
        if !is_exported {
            return Err(LoadErrorKind::NotExported(name));
        }
        *is_enabled = true;
    }
    Ok(narrowed)
}
