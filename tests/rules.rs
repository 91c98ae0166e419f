//! What the files of the repository have to be like: the house rules, and the list of upstream's statements.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

#[path = "rules/conformance.rs"]
mod conformance;
#[path = "rules/tidy.rs"]
mod tidy;
