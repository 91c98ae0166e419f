//! What the suites of this package share: machinery to run the real parts, never a test and never a stand-in for
//! a part of the product.
#![forbid(unsafe_code)]

pub mod apiserver;
pub mod authority;
pub mod built;
pub mod counts;
pub mod fuzz;
pub mod harness;
pub mod link;
pub mod log;
pub mod observed;
pub mod process;
pub mod random;
pub mod registry;
pub mod versions;
