//! The set-up of these tests: a host whose compile child is this program, grants, a runtime.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ccm_core::moment::Moment;
use ccm_core::safety::permit::Permit;
use ccm_host::grant::{Credential, Grants, Secret};
use ccm_host::{GuestConfig, Host, LoadError, Module, Provider};
pub(crate) use ccm_tests::errors::chain;

use crate::host::{cache, compiler, open_host};

/// Runs a future to its end on a runtime of its own.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

/// A host whose cache has the compiled shipped guest.
pub(crate) fn warm_host() -> Host {
    open_host(compiler(&[]), Some(cache()))
}

/// The module of the shipped guest.
pub(crate) fn hcloud() -> Module {
    Module {
        source: "embedded:hcloud".to_owned(),
        wasm: Bytes::from_static(embedded_guests::HCLOUD),
    }
}

/// Grants of everything that the shipped guest requests, at another endpoint.
pub(crate) fn grants(endpoint: &str) -> Grants {
    let module = hcloud();
    let inspection = ccm_host::inspect(&module.source, &module.wasm).unwrap();
    let mut grants = inspection.manifest.as_grants();
    for target in &mut grants.targets {
        target.endpoint = endpoint.parse().unwrap();
        target.credential = Credential::Bearer(Secret::new("a-token".to_owned()));
    }
    grants
}

/// A configuration with these values.
pub(crate) fn config(values: &[(&str, &str)]) -> GuestConfig {
    let values = values
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    GuestConfig {
        schemes: Vec::new(),
        cluster_name: "kubernetes".to_owned(),
        cluster_cidrs: Vec::new(),
        values,
    }
}

/// Loads the shipped guest for a cloud at `endpoint`.
pub(crate) async fn load(
    host: &Host,
    endpoint: &str,
    values: &[(&str, &str)],
) -> Result<Provider, LoadError> {
    host.load(hcloud(), grants(endpoint), config(values)).await
}

/// A permit whose time was over before this machine was started.
pub(crate) fn expired_permit() -> Arc<Permit> {
    Arc::new(Permit::read_only(Moment(Duration::ZERO)))
}
