//! The whole controller against the in-memory API server.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use ccm_core::cloud::Lookup;
use ccm_core::safety::permit::Mode;
use ccm_fixtures::provider::ScriptedProvider;
use ccm_sim::cluster::{Cluster, Fault, FaultEffect, Verb};
use tokio::time::sleep;

use super::*;
use crate::fixtures::{NO_CONTROLLERS, run_one, settings};
use crate::{Controllers, Metrics, Settings, SharedPlan};

/// With this controller alone, nobody else reports a pass.
#[tokio::test(start_paused = true)]
async fn no_plan_is_whole_before_the_first_pass_over_all_nodes() {
    let cluster = Cluster::new();
    for verb in [Verb::List, Verb::Watch] {
        let slow = FaultEffect::Delayed(Duration::from_secs(5));
        cluster.inject(Fault::next(verb, "nodes", slow));
    }
    let plan = SharedPlan::default();
    let settings = Settings {
        controllers: Controllers {
            node_lifecycle: true,
            ..NO_CONTROLLERS
        },
        mode: Mode::Plan,
        plan: plan.clone(),
        ..settings()
    };
    let cloud = ScriptedProvider::new("sim").finding(|_| Lookup::NotMine);
    let shutdown = sleep(Duration::from_secs(30));
    let client = cluster.client_as("ccm");
    let run = run_one(
        client,
        Arc::new(cloud),
        settings,
        Metrics::default(),
        shutdown,
    );
    let look = async {
        sleep(Duration::from_secs(1)).await;
        let early = plan.snapshot().is_whole();
        sleep(Duration::from_secs(20)).await;
        (early, plan.snapshot().is_whole())
    };
    let (ended, looked) = tokio::join!(run, look);
    ended.unwrap();
    assert_eq!(looked, (false, true));
}
