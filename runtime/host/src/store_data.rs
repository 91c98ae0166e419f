//! What belongs to one running guest: its memory allowance, its log, its state, its way out. The data of a
//! store, which lives as long as one call.

use std::sync::Arc;

use wasmtime::ResourceLimiter;
use wasmtime::component::ResourceTable;
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};
use wasmtime_wasi_http::{WasiHttpCtx, WasiHttpCtxView, WasiHttpView};

use crate::guest_log::GuestLog;
use crate::limits;
use crate::outbound::WayOut;
use crate::state::StateStore;
use crate::wasi::{self, Hooks};

/// See the module's documentation.
pub(crate) struct Guest {
    pub(crate) allowance: Allowance,
    pub(crate) log: GuestLog,
    pub(crate) state: Arc<StateStore>,
    /// Closed until `init` has ended, and for calls without a permit.
    pub(crate) way_out: Hooks,
    /// How much of [`limits::HTTP_PATHS_BYTES`] is left.
    pub(crate) paths_left: usize,
    table: ResourceTable,
    wasi: WasiCtx,
    http: WasiHttpCtx,
}

impl Guest {
    /// A guest that may use this much memory and cannot send requests yet.
    pub(crate) fn new(memory_bytes: usize, log: GuestLog, state: Arc<StateStore>) -> Guest {
        let mut table = ResourceTable::new();
        table.set_max_capacity(limits::HANDLES);
        let mut http = WasiHttpCtx::new();
        http.set_field_size_limit(limits::HTTP_FIELDS_BYTES);
        Guest {
            allowance: Allowance {
                memory_bytes,
                memory_left: memory_bytes,
                elements_left: limits::TABLE_ELEMENTS,
            },
            wasi: wasi::context(&log),
            log,
            state,
            way_out: Hooks(None),
            paths_left: limits::HTTP_PATHS_BYTES,
            table,
            http,
        }
    }

    /// The way out, unless it is closed.
    pub(crate) fn way_out(&self) -> Option<WayOut> {
        self.way_out.0.clone()
    }
}

impl WasiView for Guest {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView {
            ctx: &mut self.wasi,
            table: &mut self.table,
        }
    }
}

impl WasiHttpView for Guest {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        WasiHttpCtxView {
            hooks: &mut self.way_out,
            table: &mut self.table,
            ctx: &mut self.http,
        }
    }
}

/// How much memory the memories of a store may have together, and how many elements its tables. wasmtime's own
/// limiter counts each of them by itself, and a component decides how many it has.
pub(crate) struct Allowance {
    memory_bytes: usize,
    memory_left: usize,
    elements_left: usize,
}

impl ResourceLimiter for Allowance {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        // A trap that says why is worth more than a guest that reports "unreachable" after a failed allocation.
        match self
            .memory_left
            .checked_sub(desired.saturating_sub(current))
        {
            Some(left) => self.memory_left = left,
            None => wasmtime::bail!(
                "the guest needs more than its {} MiB of memory",
                self.memory_bytes >> 20
            ),
        }
        Ok(true)
    }

    fn memory_grow_failed(&mut self, error: wasmtime::Error) -> wasmtime::Result<()> {
        Err(error.context("the host has no memory left for the guest"))
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        match self
            .elements_left
            .checked_sub(desired.saturating_sub(current))
        {
            Some(left) => self.elements_left = left,
            None => wasmtime::bail!(
                "the guest needs more than {} table elements",
                limits::TABLE_ELEMENTS
            ),
        }
        Ok(true)
    }

    fn table_grow_failed(&mut self, error: wasmtime::Error) -> wasmtime::Result<()> {
        Err(error.context("the host has no memory left for the guest's tables"))
    }

    fn instances(&self) -> usize {
        limits::INSTANCES
    }

    fn tables(&self) -> usize {
        limits::INSTANCES
    }

    fn memories(&self) -> usize {
        limits::INSTANCES
    }
}
