//! The log lines of the program's start.

use ccm_core::go_text::Quoted;
use ccm_core::safety::permit::Mode;
use http::Uri;

/// Logs the program's version and its context, in one line. `endpoints` are the addresses at which it serves,
/// `providers` the configured names.
pub(crate) fn announce(mode: Mode, api_server: &Uri, endpoints: &[String], providers: &[String]) {
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        contract = ccm_host::CONTRACT_VERSION,
        mode = mode.as_str(),
        api_server = shown(api_server),
        endpoints = endpoints.join(","),
        providers = providers.join(","),
        "starting"
    );
}

/// The URL without user name and password, which it may have.
pub(crate) fn shown(api_server: &Uri) -> String {
    let host = api_server.host().unwrap_or_default();
    let port = api_server.port_u16().map(|port| format!(":{port}"));
    let scheme = api_server.scheme_str().unwrap_or_default();
    format!("{scheme}://{host}{}", port.unwrap_or_default())
}

/// Logs all flags and their values, as upstream does from verbosity 1 (PROC-002).
pub(crate) fn log_flags(values: &[(&'static str, String)]) {
    for (name, value) in values {
        tracing::info!("FLAG: --{name}={}", Quoted(value));
    }
}
