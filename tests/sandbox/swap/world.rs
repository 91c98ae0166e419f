//! The set-up of these tests: the host, versions of guests, nodes, Services and permits.

use std::num::NonZeroU32;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use ccm_core::cloud::load_balancer::CloudService;
use ccm_core::safety::permit::{Mode, Permit};
use ccm_delivery::active::Generation;
pub(crate) use ccm_fixtures::TOKEN;
use ccm_fixtures::objects::cloud_service;
use ccm_host::grant::{Credential, Grants, RequestBudget, Secret};
use ccm_host::{GuestConfig, Host, LoadError, Loading, Module, Provider};
use test_guests::Version;

use crate::host::{cache, compiler, open_host};
use crate::permits;

/// Timeout of a test's waits, longer than a busy machine needs.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The host of these tests, which no other test disturbs.
pub(crate) static HOST: LazyLock<Host> = LazyLock::new(|| open_host(compiler(&[]), Some(cache())));

/// Runs a future to its end, on as many threads as the machine has processors.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(future)
}

/// A version of the misbehaving guest, which behaves as it is configured: a module with a behaviour of its own would have to be
/// compiled.
pub(crate) fn version(number: &str) -> Module {
    Module {
        source: format!("misbehaving:{number}"),
        wasm: test_guests::misbehaving(Version {
            version: Some(number),
            ..Version::default()
        })
        .into(),
    }
}

/// The shipped guest with this many additional bytes: another module with the same code.
pub(crate) fn hcloud(more: usize) -> Module {
    let mut wasm = embedded_guests::HCLOUD.to_vec();
    if more > 0 {
        let mut tail = wasm_encoder::Component::new();
        tail.section(&wasm_encoder::CustomSection {
            name: "of-no-meaning".into(),
            data: vec![0; more].into(),
        });
        // Sections follow each other, so those after a component's header can be appended to another.
        wasm.extend(&tail.finish()[8..]);
    }
    Module {
        source: format!("hcloud:{more}"),
        wasm: wasm.into(),
    }
}

/// Grants of all required requests of a module, at this endpoint.
pub(crate) fn grants(module: &Module, endpoint: &str) -> Grants {
    let inspection = ccm_host::inspect(&module.source, &module.wasm).unwrap();
    let mut grants = inspection.manifest.as_grants();
    for target in &mut grants.targets {
        target.endpoint = endpoint.parse().unwrap();
        target.credential = Credential::Bearer(Secret::new(TOKEN.to_owned()));
        target.requests = PLENTY;
    }
    grants
}

/// A quota so large that no request waits: as many are sent in a second here as otherwise in an hour.
const PLENTY: RequestBudget = RequestBudget {
    requests: NonZeroU32::MAX,
    per: Duration::from_secs(1),
};

pub(crate) fn config(values: &[(&str, &str)]) -> GuestConfig {
    let values = values.iter();
    let values = values.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    GuestConfig {
        schemes: Vec::new(),
        cluster_name: "kubernetes".to_owned(),
        cluster_cidrs: Vec::new(),
        values: values.collect(),
    }
}

/// The configuration of the misbehaving guest as an honest one, which asks its cloud and makes load balancers.
pub(crate) const BALANCING: &[(&str, &str)] = &behaving("honest-requests");

/// The configuration of the misbehaving guest with this behaviour and honest load balancers.
pub(crate) const fn behaving(behaviour: &str) -> [(&str, &str); 2] {
    [("behaviour", behaviour), ("balancing", "honest")]
}

/// The configuration of the shipped guest.
pub(crate) const LOCATION: &[(&str, &str)] = &[("HCLOUD_LOAD_BALANCERS_LOCATION", "fsn1")];

/// Loads a module as the provider `name`, for a cloud at `endpoint`.
pub(crate) async fn load(
    name: &str,
    module: Module,
    endpoint: &str,
    values: &[(&str, &str)],
) -> Result<Provider, LoadError> {
    let grants = grants(&module, endpoint);
    load_granted(name, module, grants, values, false).await
}

/// As `load`, with these grants, on trial or not.
async fn load_granted(
    name: &str,
    module: Module,
    grants: Grants,
    values: &[(&str, &str)],
    is_on_trial: bool,
) -> Result<Provider, LoadError> {
    let loading = Loading {
        name: Some(name.to_owned()),
        grants,
        config: config(values),
        is_on_trial,
        ..Loading::default()
    };
    HOST.load_as(module, loading).await
}

/// Loads a module as a generation.
pub(crate) async fn generation(
    name: &str,
    module: Module,
    endpoint: &str,
    values: &[(&str, &str)],
) -> Arc<Generation> {
    let grants = grants(&module, endpoint);
    generation_granted(name, module, grants, values).await
}

/// As `generation`, with these grants.
pub(crate) async fn generation_granted(
    name: &str,
    module: Module,
    grants: Grants,
    values: &[(&str, &str)],
) -> Arc<Generation> {
    let provider = load_granted(name, module, grants, values, false).await;
    Arc::new(Generation::new(Arc::new(provider.unwrap())))
}

/// Loads a module as a version on trial.
pub(crate) async fn candidate(name: &str, module: Module, endpoint: &str) -> Arc<Generation> {
    let grants = grants(&module, endpoint);
    let provider = load_granted(name, module, grants, BALANCING, true).await;
    Arc::new(Generation::new(Arc::new(provider.unwrap())))
}

/// A permit for a whole call, with as many changes as it needs.
pub(crate) fn permit() -> Arc<Permit> {
    permit_for(TIMEOUT)
}

pub(crate) fn permit_for(time: Duration) -> Arc<Permit> {
    permits::permit(time, Mode::Enforce, 32)
}

/// A Service without ports.
pub(crate) fn service(uid: &str) -> CloudService {
    cloud_service(&format!("service-{uid}"), uid, &[])
}

/// The value below which `percent` per cent of these lie, in milliseconds.
pub(crate) fn percentile(waits: &mut [Duration], percent: usize) -> f64 {
    waits.sort_unstable();
    let index = (waits.len() * percent / 100).min(waits.len() - 1);
    waits[index].as_secs_f64() * 1000.0
}
