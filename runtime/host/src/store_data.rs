//! Store data of one running guest: memory limiter, log, state and egress. Lives as long as one call.

use std::sync::Arc;

use wasmtime::component::ResourceTable;
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};
use wasmtime_wasi_http::{WasiHttpCtx, WasiHttpCtxView, WasiHttpView};

use crate::guest_egress::GuestEgress;
use crate::guest_log::GuestLog;
use crate::guest_state::StateStore;
use crate::limits;
use crate::memory_limiter::MemoryLimiter;
use crate::wasi::{self, Hooks};

/// Data of a guest's store.
pub(crate) struct Guest {
    pub(crate) memory: MemoryLimiter,
    pub(crate) log: GuestLog,
    pub(crate) state: Arc<StateStore>,
    /// Egress: closed until `init` has ended, and for calls without a permit.
    pub(crate) http_hooks: Hooks,
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
            memory: MemoryLimiter::new(memory_bytes),
            wasi: wasi::context(&log),
            log,
            state,
            http_hooks: Hooks::default(),
            paths_left: limits::HTTP_PATHS_BYTES,
            table,
            http,
        }
    }

    /// Egress, unless it is closed.
    pub(crate) fn egress(&mut self) -> Option<GuestEgress> {
        self.http_hooks.open()
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
            hooks: &mut self.http_hooks,
            table: &mut self.table,
            ctx: &mut self.http,
        }
    }
}
