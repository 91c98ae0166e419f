//! Passes the target and the compiler's version to the program: only Cargo knows them, and only at build time.
#![allow(
    clippy::print_stdout,
    reason = "a build script speaks to Cargo on its standard output"
)]

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let target = env::var("TARGET").unwrap_or_default();
    println!("cargo::rustc-env=CCM_TARGET={target}");
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("--version").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    // `rustc 1.95.0 (59807616e 2026-04-14)`
    let version = text.unwrap_or_default();
    let version = version.split(' ').nth(1).unwrap_or_default();
    println!("cargo::rustc-env=CCM_RUST={version}");
}
