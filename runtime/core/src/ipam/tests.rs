//! Upstream's test tables, reconciliations, and properties that always hold.
#![allow(clippy::unwrap_used, reason = "tests")]

mod blocks;
mod cidr_set;
mod flags;
mod holding;
mod other_allocator;
mod properties;
mod reconciliation;
mod tally;
mod two_allocators;
mod upstream_blocks;
mod world;
