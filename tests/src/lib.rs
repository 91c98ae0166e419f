//! Shared machinery of this package's test suites. It runs the real parts, and contains no tests and no stand-ins for
//! parts of the product.
#![forbid(unsafe_code)]

pub mod apiserver;
pub mod authority;
pub mod built;
pub mod compiled_modules;
pub mod conformance;
#[path = "../../runtime/controllers/src/fixtures.rs"]
pub mod controllers;
pub mod counts;
pub mod documents;
pub mod errors;
pub mod fuzz;
pub mod grants;
pub mod harness;
pub mod helm;
pub mod kubernetes;
pub mod link;
pub mod log;
pub mod observed;
pub mod ports;
pub mod process;
pub mod prometheus;
pub mod prometheus_operator;
pub mod python;
pub mod random;
pub mod registry;
pub mod tls_client;
pub mod versions;
