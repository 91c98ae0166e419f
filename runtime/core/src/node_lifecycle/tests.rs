//! Whole passes against a small cluster and a cloud that says what it is told to.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod brakes;
mod one_of_many;
mod passes;
mod taint;
mod world;
