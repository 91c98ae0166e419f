//! Store data of one running guest: memory allowance, log, state and egress. Lives as long as one call.

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

/// Data of a guest's store.
pub(crate) struct Guest {
    pub(crate) allowance: Allowance,
    pub(crate) log: GuestLog,
    pub(crate) state: Arc<StateStore>,
    /// Egress: closed until `init` has ended, and for calls without a permit.
    pub(crate) way_out: Hooks,
    /// Remaining bytes of [`limits::HTTP_PATHS_BYTES`].
    pub(crate) paths_left: usize,
    table: ResourceTable,
    wasi: WasiCtx,
    http: WasiHttpCtx,
}

impl Guest {
    /// Creates the data of a guest with this much memory and a closed egress.
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
            way_out: Hooks::default(),
            paths_left: limits::HTTP_PATHS_BYTES,
            table,
            http,
        }
    }

    /// Egress, unless it is closed.
    pub(crate) fn way_out(&mut self) -> Option<WayOut> {
        self.way_out.open()
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

/// Allowance for all memories of a store together, and for the elements of its tables. wasmtime's own limiter counts
/// each memory and table by itself, and a component decides how many it has.
pub(crate) struct Allowance {
    memory_bytes: usize,
    memory_left: usize,
    elements_left: usize,
}

impl Allowance {
    /// Bytes of all memories.
    pub(crate) fn used_bytes(&self) -> usize {
        self.memory_bytes - self.memory_left
    }
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
        // A trap that states the reason helps more than a guest that reports "unreachable" after a failed
        // allocation.
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
