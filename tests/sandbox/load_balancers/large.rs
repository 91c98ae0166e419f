//! A cluster of the maximum size of a call: large labels and annotations of nodes must not keep a load balancer from
//! following them.

use std::sync::Arc;
use std::time::Duration;

use ccm_core::cloud::load_balancer::{EnsureRequest, TargetNodes};
use ccm_core::cloud::{CloudNode, Readiness};
use ccm_core::cloud_provider::CloudProvider as _;
use ccm_core::safety::permit::Mode;
use ccm_core::string_map::StringMap;
use ccm_fixtures::objects::cloud_node;
use ccm_tests::harness::{figure, trial};
use libtest_mimic::{Failed, Trial};

use crate::load_balancers::world::{Setup, World, in_world};
use crate::misbehaving::load_balancers::service;
use crate::permits;

/// Maximum number of nodes of one call.
const NODES: usize = 5_000;
/// Number of simultaneous calls. Each call has memory of its own.
const CALLS: usize = 2;
/// Longer than all calls together.
const TIMEOUT: Duration = Duration::from_secs(300);

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial(
            "large::five_thousand_nodes_with_all_that_others_have_written_on_them_fit_into_a_call",
            || in_world(Setup::default(), async |world| fit(world, 180).await),
        ),
        // Thirteen kilobytes each are more than the guest's usual memory.
        trial(
            "large::five_thousand_nodes_that_fill_the_usual_memory_of_a_call_get_more_of_it",
            || in_world(Setup::default(), async |world| fit(world, 530).await),
        ),
    ]
}

/// A node with the marks of a cloud, a network and a storage: two kilobytes of labels, and twenty annotations with values
/// of this length.
fn fat(number: usize, annotation: usize) -> CloudNode {
    let filled = |count: usize, key: &str, value: usize| -> StringMap {
        (0..count)
            .map(|index| (format!("{key}.example.com/{index}"), "x".repeat(value)))
            .collect()
    };
    CloudNode {
        provider_id: Some(format!("hcloud://{}", 1_000_000 + number)),
        labels: filled(40, "label", 32),
        annotations: filled(20, "annotation", annotation),
        readiness: Readiness::Ready,
        initialized: true,
        ..cloud_node(&format!("node-{number}"))
    }
}

async fn fit(world: &World, annotation: usize) -> Result<(), Failed> {
    let provider = Arc::new(world.provider().await?);
    let fat = |number| Arc::new(fat(number, annotation));
    let targets: TargetNodes = (0..NODES).map(fat).collect();
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..CALLS {
        let mut service = service();
        service.uid = format!("{number:08}-0000-4000-8000-000000000000");
        service.name = format!("web-{number}");
        let request = EnsureRequest {
            service: Arc::new(service),
            targets: targets.clone(),
            adopt: None,
            hint: None,
        };
        let provider = provider.clone();
        calls.spawn(async move {
            let permit = permits::permit(TIMEOUT, Mode::Enforce, 10);
            provider.ensure_load_balancer(&request, permit).await
        });
    }
    while let Some(ended) = calls.join_next().await {
        ended??;
    }
    let made = world.cloud.load_balancers().len();
    figure(format!("{made} load balancers before {NODES} nodes"));
    match made == CALLS {
        true => Ok(()),
        false => Err(format!("{made} load balancers").into()),
    }
}
