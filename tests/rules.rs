//! What the files of the repository have to be like: the house rules, and the lists of upstream's statements and of hostile
//! cases.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

#[path = "rules/conformance.rs"]
mod conformance;
#[path = "rules/hostile.rs"]
mod hostile;
#[path = "rules/lists.rs"]
mod lists;
#[path = "rules/tidy.rs"]
mod tidy;
