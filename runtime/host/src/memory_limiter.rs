//! Limits the memories, tables and instances of the store of one guest call. The memory of all guests together is
//! limited by `memory_budget`.

use wasmtime::ResourceLimiter;

use crate::limits;

/// Limit for all memories of a store together, and for the elements of its tables. wasmtime's own limiter counts
/// each memory and table by itself, and a component decides how many it has.
pub(crate) struct MemoryLimiter {
    memory_bytes: usize,
    memory_left: usize,
    elements_left: usize,
}

impl MemoryLimiter {
    /// Limiter of a store that may have this much memory.
    pub(crate) fn new(memory_bytes: usize) -> MemoryLimiter {
        MemoryLimiter {
            memory_bytes,
            memory_left: memory_bytes,
            elements_left: limits::TABLE_ELEMENTS,
        }
    }

    /// Bytes of all memories.
    pub(crate) fn used_bytes(&self) -> usize {
        self.memory_bytes - self.memory_left
    }
}

impl ResourceLimiter for MemoryLimiter {
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
