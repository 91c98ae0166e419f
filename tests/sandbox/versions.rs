//! Versions of the contract: a module of 0.1, made from `wit/v0.1` alone, beside one of the newest. On threads of this
//! process and in child processes.

use std::sync::Arc;

use bytes::Bytes;
use ccm_core::cloud::load_balancer::{
    Adoptable, CloudService, DeleteRequest, EnsureRequest, Ensured, Found, Progress, UpdateRequest,
};
use ccm_core::cloud::route::CreateRouteRequest;
use ccm_core::cloud::{CloudNode, Lookup, Owner, ProviderError, Readiness};
use ccm_core::cloud_provider::CloudProvider as _;
use ccm_core::safety::permit::Mode;
use ccm_fixtures::objects::cloud_node;
use ccm_host::manifest::{Contract, Target as Wanted};
use ccm_host::{
    GuestConfig, Host, HostOptions, Isolation, LoadError, LoadErrorKind, Module, Provider,
};
use ccm_tests::harness::{self, Test};
use libtest_mimic::Trial;

use crate::host::{cache, child_process, compiler};
use crate::misbehaving::load_balancers::service;
use crate::misbehaving::target::{Target, TargetMode};
use crate::misbehaving::world::{self, TIMEOUT, block_on};
use crate::permits;

const TESTS: &[Test] = &[
    ("a_module_of_0_1_works_as_before", works),
    ("a_module_of_0_1_works_in_its_own_process", works_apart),
    ("both_versions_serve_in_one_host", both),
    (
        "a_manifest_of_another_version_than_the_component_is_refused",
        manifests,
    ),
];

pub(crate) fn trials() -> Vec<Trial> {
    harness::table("versions", TESTS)
}

/// The smallest module of the tests.
pub(crate) fn witness() -> Module {
    Module {
        source: "witness.wasm".to_owned(),
        wasm: Bytes::from_static(test_guests::WITNESS),
    }
}

fn open(isolation: Isolation) -> Host {
    Host::new(HostOptions {
        compiler: compiler(&[]),
        cache_dir: Some(cache().to_owned()),
        isolation,
    })
    .unwrap()
}

/// The witness with these of its targets granted.
pub(crate) async fn load(
    host: &Host,
    endpoint: &str,
    targets: &[&str],
) -> Result<Provider, LoadError> {
    load_as_witness(host, witness(), endpoint, targets).await
}

/// A module with these of the witness's targets granted.
pub(crate) async fn load_as_witness(
    host: &Host,
    module: Module,
    endpoint: &str,
    targets: &[&str],
) -> Result<Provider, LoadError> {
    let manifest = ccm_host::inspect("witness.wasm", test_guests::WITNESS)
        .unwrap()
        .manifest;
    let mut grants = manifest.as_grants();
    let granted = manifest
        .targets
        .iter()
        .filter(|target| targets.contains(&target.name.as_str()));
    grants.targets = granted.map(Wanted::as_grant).collect();
    for target in &mut grants.targets {
        target.endpoint = endpoint.parse().unwrap();
    }
    let config = GuestConfig {
        cluster_name: "kubernetes".to_owned(),
        cluster_cidrs: Vec::new(),
        values: Default::default(),
        schemes: Vec::new(),
    };
    host.load(module, grants, config).await
}

fn ready(name: &str, readiness: Readiness) -> CloudNode {
    CloudNode {
        readiness,
        ..cloud_node(name)
    }
}

fn works() {
    block_on(everything(&open(crate::host::isolation())));
}

fn works_apart() {
    block_on(everything(&open(child_process())));
}

async fn everything(host: &Host) {
    let inspection = ccm_host::inspect("witness.wasm", test_guests::WITNESS).unwrap();
    assert_eq!(inspection.contract, Contract::V0_1);
    let cloud = Target::start(TargetMode::Well).await;
    let permit = || permits::permit(TIMEOUT, Mode::Enforce, 0);

    for (targets, reported) in [
        (&["api"][..], "targets=api"),
        (&["api", "more"], "targets=api,more"),
    ] {
        let provider = load(host, &cloud.endpoint(), targets).await.unwrap();
        let nodes = [
            ready("a", Readiness::Ready),
            ready("b", Readiness::NotReady),
            ready("c", Readiness::Unknown),
        ];
        let reply = provider.find(&nodes, permit()).await.unwrap();
        assert!(reply.complete);
        for (lookup, word) in
            reply
                .lookups
                .iter()
                .zip(["ready=true", "ready=false", "ready=unknown"])
        {
            let Lookup::Found(instance) = lookup else {
                panic!("{lookup:?}")
            };
            let label = |key: &str| {
                let mut labels = instance.labels.iter();
                labels
                    .find(|(name, _)| name == key)
                    .map(|(_, value)| value.clone())
            };
            assert_eq!(label("node").as_deref(), Some(word));
            assert_eq!(label("config").as_deref(), Some(reported));
        }
    }

    let provider = load(host, &cloud.endpoint(), &["api"]).await.unwrap();
    provider.self_check(permit()).await.unwrap();
    // The limit of its own contract, not of the newest one.
    let many = |count: usize| [ready(&format!("node-{count}"), Readiness::Ready)];
    let reply = provider.find(&many(32), permit()).await.unwrap();
    assert!(matches!(&reply.lookups[0], Lookup::Found(found) if found.addresses.len() == 32));
    let error = provider.find(&many(33), permit()).await.unwrap_err();
    let expected = "find, lookup 0: 33 addresses, at most 32 allowed";
    assert_eq!(error, ProviderError::Internal(expected.to_owned()));

    load_balancers(&provider).await;
    routes(&provider).await;
    assert_eq!(
        provider.capabilities().routes,
        inspection.capabilities.routes
    );
}

async fn load_balancers(provider: &Provider) {
    let permit = || permits::permit(TIMEOUT, Mode::Enforce, 0);
    let called = |name: &str, adopt: Option<Adoptable>| EnsureRequest {
        service: Arc::new(CloudService {
            name: name.to_owned(),
            ..service()
        }),
        targets: Arc::new([
            Arc::new(ready("a", Readiness::Ready)),
            Arc::new(ready("b", Readiness::Unknown)),
        ]),
        adopt,
        hint: None,
    };
    let reply = provider
        .ensure_load_balancer(&called("web", None), permit())
        .await
        .unwrap();
    assert!(matches!(reply.ensured, Ensured::Ready(_)));
    let reported = reply.annotations[0].value.as_deref();
    assert_eq!(reported, Some("a ready=true,b ready=unknown"));

    let somebody = || Owner::Uid("somebody".to_owned());
    let other = Owner::Name {
        namespace: "default".to_owned(),
        name: "web".to_owned(),
    };
    for (name, adopt, owner) in [
        ("taken", None, Some(Some(somebody()))),
        ("taken", Some(Adoptable::Unowned), Some(Some(somebody()))),
        (
            "taken",
            Some(Adoptable::Of(other.clone())),
            Some(Some(somebody())),
        ),
        ("taken", Some(Adoptable::Of(somebody())), None),
        ("unowned", None, Some(None)),
        ("unowned", Some(Adoptable::Of(other)), Some(None)),
        ("unowned", Some(Adoptable::Unowned), None),
    ] {
        let request = called(name, adopt);
        let end = provider.ensure_load_balancer(&request, permit()).await;
        match (end, owner) {
            (Ok(_), None) => {}
            (Err(ProviderError::Conflict { owner, .. }), Some(expected)) => {
                assert_eq!(owner, expected, "{name}");
            }
            (end, _) => panic!("{name}: {end:?}"),
        }
    }
    let request = called("web", None);
    let update = UpdateRequest {
        service: request.service.clone(),
        targets: request.targets.clone(),
        hint: None,
    };
    let error = provider
        .update_targets(&update, permit())
        .await
        .unwrap_err();
    assert_eq!(
        error,
        ProviderError::Unavailable("there is none".to_owned())
    );
    let delete = DeleteRequest {
        service: request.service.clone(),
        hint: None,
    };
    let reply = provider
        .delete_load_balancer(&delete, permit())
        .await
        .unwrap();
    assert_eq!(reply.progress, Progress::Done);
    let reply = provider
        .get_load_balancer(&request.service, permit())
        .await
        .unwrap();
    assert_eq!(reply.found, Found::Absent);
    assert!(!reply.complete, "nobody was asked");
}

async fn routes(provider: &Provider) {
    let permit = || permits::permit(TIMEOUT, Mode::Enforce, 0);
    let nodes = [ready("a", Readiness::NotReady)];
    let listed = provider.list_routes(&nodes, permit()).await.unwrap();
    assert_eq!(listed.routes[0].id, "ready=false");
    let request = CreateRouteRequest {
        node: Arc::new(ready("a", Readiness::Ready)),
        destination_cidr: "10.1.0.0/24".to_owned(),
        hint: None,
    };
    let error = provider.create_route(&request, permit()).await.unwrap_err();
    assert_eq!(error, ProviderError::Unsupported("ready=true".to_owned()));
}

fn both() {
    block_on(async {
        let host = open(crate::host::isolation());
        let gone = Target::start(TargetMode::Empty).await;
        let old = load(&host, &gone.endpoint(), &["api"]).await.unwrap();
        let behaviour = guest_misbehaving::behaviour::Behaviour::Honest;
        let new = world::load(behaviour, &gone.endpoint()).await.unwrap();
        assert_eq!(old.manifest().contract, Contract::V0_1.version());
        assert_eq!(new.manifest().contract, Contract::V0_2.version());
        for provider in [&old, &new] {
            let permit = permits::permit(TIMEOUT, Mode::Enforce, 0);
            let nodes = [cloud_node("one")];
            let reply = provider.find(&nodes, permit).await.unwrap();
            assert_eq!(reply.lookups.len(), 1);
            assert!(!reply.complete, "404 alone proves nothing");
        }
    });
}

fn manifests() {
    let changed = |wasm: &[u8], from: &str, to: &str| {
        let mut wasm = wasm.to_vec();
        let (from, to) = (from.as_bytes(), to.as_bytes());
        // The text may also be in the module's data.
        let places: Vec<usize> = (0..wasm.len())
            .filter(|at| wasm[*at..].starts_with(from))
            .collect();
        assert!(!places.is_empty());
        for at in places {
            wasm[at..at + from.len()].copy_from_slice(to);
        }
        ccm_host::inspect("changed.wasm", &wasm).unwrap_err()
    };
    let (first, newest) = ("\"contract\": \"0.1.0\"", "\"contract\": \"0.2.0\"");
    for (wasm, from, to, words) in [
        (
            test_guests::WITNESS,
            first,
            newest,
            "ccm:provider@0.2.0 (says its manifest)",
        ),
        (
            test_guests::MISBEHAVING,
            newest,
            first,
            "ccm:provider@0.1.0 (says its manifest)",
        ),
    ] {
        let error = changed(wasm, from, to);
        assert!(
            matches!(error.kind, LoadErrorKind::TwoContracts { .. }),
            "{error}"
        );
        assert!(error.to_string().contains(words), "{error}");
    }
}
