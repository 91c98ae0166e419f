//! The set-up of these tests: their host, and the misbehaving guest loaded with a behaviour.

use std::sync::LazyLock;
use std::time::Duration;

use bytes::Bytes;
pub(crate) use ccm_fixtures::TOKEN;
use ccm_host::grant::{Credential, Grants, Secret};
use ccm_host::manifest::Target;
use ccm_host::{GuestConfig, Host, LoadError, Module, Provider};
pub(crate) use ccm_tests::errors::chain;
use guest_misbehaving::behaviour::{Balancing, Behaviour, Routing};

use crate::host::{cache, compiler, open_host};

/// Timeout of calls that end by themselves.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// The host of all tests with this guest: each test also shows that the others did no harm to it. Other tests do not
/// use it, because their calls would wait for a guest that does not end.
pub(crate) static HOST: LazyLock<Host> = LazyLock::new(|| open_host(compiler(&[]), Some(cache())));

/// Runs a future on a thread of its own, so that only its log lines are recorded.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

/// The module of the misbehaving guest.
pub(crate) fn module() -> Module {
    Module {
        source: "misbehaving.wasm".to_owned(),
        wasm: Bytes::from_static(test_guests::MISBEHAVING),
    }
}

/// Grants of everything that the guest requests, optional targets included, at `endpoint`.
pub(crate) fn grants(endpoint: &str) -> Grants {
    let module = module();
    let inspection = ccm_host::inspect(&module.source, &module.wasm).unwrap();
    let mut grants = inspection.manifest.as_grants();
    grants.targets = inspection
        .manifest
        .targets
        .iter()
        .map(Target::as_grant)
        .collect();
    for target in &mut grants.targets {
        target.endpoint = endpoint.parse().unwrap();
        target.credential = Credential::Bearer(Secret::new(TOKEN.to_owned()));
    }
    grants
}

/// A configuration that chooses a behaviour.
pub(crate) fn config(behaviour: Behaviour) -> GuestConfig {
    let value = ("behaviour".to_owned(), behaviour.word().to_owned());
    GuestConfig {
        schemes: Vec::new(),
        cluster_name: "kubernetes".to_owned(),
        cluster_cidrs: Vec::new(),
        values: [value].into(),
    }
}

/// Loads the guest with a behaviour, for a cloud at `endpoint`.
pub(crate) async fn load(behaviour: Behaviour, endpoint: &str) -> Result<Provider, LoadError> {
    let mut config = config(behaviour);
    let authority = endpoint.split('/').nth(2).unwrap_or_default();
    config
        .values
        .insert("authority".to_owned(), authority.to_owned());
    HOST.load(module(), grants(endpoint), config).await
}

/// Loads the guest as a provider of load balancers, for a cloud at `endpoint`.
pub(crate) async fn load_balancing(
    balancing: Balancing,
    endpoint: &str,
) -> Result<Provider, LoadError> {
    load_making(&[("balancing", balancing.word())], endpoint).await
}

/// Loads the guest as a provider of routes, for a cloud at `endpoint`.
pub(crate) async fn load_routing(routing: Routing, endpoint: &str) -> Result<Provider, LoadError> {
    load_making(&[("routing", routing.word())], endpoint).await
}

/// Loads the guest with these additional values in its configuration.
pub(crate) async fn load_making(
    words: &[(&str, &str)],
    endpoint: &str,
) -> Result<Provider, LoadError> {
    let mut config = config(Behaviour::Honest);
    let words = words.iter();
    let words = words.map(|(key, word)| ((*key).to_owned(), (*word).to_owned()));
    config.values.extend(words);
    HOST.load(module(), grants(endpoint), config).await
}
