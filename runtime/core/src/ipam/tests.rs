//! Tables of what upstream tests, conversations, and what holds whatever happens.
#![allow(clippy::unwrap_used, reason = "tests")]

mod blocks;
mod cidr_set;
mod conversation;
mod flags;
mod holding;
mod properties;
mod tally;
mod upstream_blocks;
mod world;
