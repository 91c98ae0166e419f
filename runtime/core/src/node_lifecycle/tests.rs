//! Whole passes against a small cluster and a cloud with prepared answers.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod brakes;
mod late_answers;
mod one_of_many;
mod passes;
mod read_again;
mod taint;
mod world;
