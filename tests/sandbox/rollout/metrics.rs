//! What the metrics say of the version that serves.

use std::time::Duration;

use ccm_core::rollout::Orders;
use ccm_delivery::artifact::Artifact;
use ccm_metrics::text::{Format, encode};
use ccm_tests::harness::Test;

use crate::rollout::world::{Start, World, block_on, in_time, module, wider};

pub(crate) const TESTS: &[Test] = &[(
    "the_metric_names_the_version_that_serves_and_the_state_of_its_provider",
    the_metric_names_the_version_that_serves_and_the_state_of_its_provider,
)];

/// Waits until the provider has this series, and no other.
async fn measured(world: &World, artifact: &Artifact, version: &str, state: &str) {
    let digest = artifact.digest;
    let expected = format!(
        "ccm_provider_info{{provider=\"cloud\",digest=\"{digest}\",version=\"{version}\",state=\"{state}\"}} 1"
    );
    let measured = async {
        loop {
            let text = encode(&world.metrics, Format::Classic).unwrap();
            let lines = text.lines();
            if lines
                .filter(|line| line.starts_with("ccm_provider_info{"))
                .eq([expected.as_str()])
            {
                return;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    in_time(&expected, measured).await;
}

fn the_metric_names_the_version_that_serves_and_the_state_of_its_provider() {
    block_on(async {
        let world = World::start(Start::default());
        let (one, two) = (module("1.0.0", "honest"), wider("2.0.0"));
        world.offer(&one);
        measured(&world, &one, "1.0.0", "Active").await;
        world.offer(&two);
        measured(&world, &one, "1.0.0", "WaitsForApproval").await;
        world.order(Orders {
            approve: Some(two.digest.to_string()),
            ..Orders::default()
        });
        measured(&world, &two, "2.0.0", "Active").await;
    });
}
