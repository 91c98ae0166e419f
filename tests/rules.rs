//! Rules for the files of the repository: lints that clippy does not have, and the lists of upstream's statements and
//! of hostile cases.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

#[path = "rules/architecture.rs"]
mod architecture;
#[path = "rules/chart.rs"]
mod chart;
#[path = "rules/circles.rs"]
mod circles;
#[path = "rules/conformance.rs"]
mod conformance;
#[path = "rules/documents.rs"]
mod documents;
#[path = "rules/first_page.rs"]
mod first_page;
#[path = "rules/fixtures.rs"]
mod fixtures;
#[path = "rules/go_modules.rs"]
mod go_modules;
#[path = "rules/hostile.rs"]
mod hostile;
#[path = "rules/lists.rs"]
mod lists;
#[path = "rules/manifests.rs"]
mod manifests;
#[path = "rules/monitoring.rs"]
mod monitoring;
#[path = "rules/sizes.rs"]
mod sizes;
#[path = "rules/statements.rs"]
mod statements;
#[path = "rules/tidy.rs"]
mod tidy;
#[path = "rules/tutorial.rs"]
mod tutorial;
#[path = "rules/type_names.rs"]
mod type_names;
