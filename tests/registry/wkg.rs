//! Runs `wkg`, the Wasm community's client of registries.

use std::process::{Command, Output};

use ccm_tests::built;
use ccm_tests::registry::{PASSWORD, Registry, USER};

/// Runs `wkg oci` with the registry's CA and login, in the registry's folder.
pub(crate) fn wkg(registry: &Registry, arguments: &[&str]) -> Output {
    Command::new(built::installed("wkg", "0.16.1").unwrap())
        .arg("oci")
        .args(arguments)
        .current_dir(registry.folder())
        .env("HOME", registry.folder())
        .env("SSL_CERT_FILE", registry.ca_file())
        .env("WKG_OCI_USERNAME", USER)
        .env("WKG_OCI_PASSWORD", PASSWORD)
        .output()
        .unwrap()
}
