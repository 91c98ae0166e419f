//! W2: nodes arrive, one after the other at an even pace, while the manager runs. A machine is in the cloud's list
//! just before its node registers, as when a cluster grows.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use tokio::task::JoinSet;

use crate::measured::{Manager, Program};
use crate::options::Options;
use crate::start::Stage;
use crate::watch::Watch;
use crate::{fat, gate, progress};

pub(crate) struct Arrivals {
    /// From the answer to a node's creation until the driver has seen it initialised, shortest first.
    pub(crate) delays: Vec<Duration>,
    pub(crate) cloud_calls: usize,
}

/// Lets so many nodes arrive at a rate a second.
pub(crate) async fn measure(
    options: &Options,
    cache: &Path,
    nodes: usize,
    rate: u32,
) -> Result<Arrivals> {
    let mut stage = Stage::set(0).await?;
    let mut watch = Watch::start(stage.cluster.admin.clone());
    let run = format!("W2, {nodes} nodes, {rate} a second");
    let program = Program::Ccm { cache, flags: &[] };
    let mut manager = Manager::start(options, program, &stage.cluster, &stage.cloud, &run)?;
    progress!("{run}");
    // One that is not counted: from its end on the manager is running.
    let first = ["early".to_owned()];
    let mut ids: BTreeMap<String, u64> = BTreeMap::new();
    ids.insert(first[0].clone(), stage.cloud.add(&first).await?[0]);
    stage.cluster.register(&first[0]).await?;
    watch.until(1, || manager.check()).await?;
    stage.cloud.take_requests().await?;

    let cluster = std::sync::Arc::new(stage.cluster);
    let mut pace = tokio::time::interval(Duration::from_secs(1) / rate);
    let mut registrations = JoinSet::new();
    for name in fat::names(nodes) {
        pace.tick().await;
        let id = stage.cloud.add(std::slice::from_ref(&name)).await?[0];
        ids.insert(name.clone(), id);
        let cluster = cluster.clone();
        registrations.spawn(async move {
            cluster.register(&name).await?;
            anyhow::Ok((name, Instant::now()))
        });
    }
    let mut created = HashMap::new();
    while let Some(registered) = registrations.join_next().await {
        let (name, at) = registered??;
        created.insert(name, at);
    }
    watch.until(nodes + 1, || manager.check()).await?;
    let seen = watch.seen();
    drop(watch);
    let mut delays = created
        .iter()
        .map(|(name, created)| {
            let seen = seen
                .get(name)
                .with_context(|| format!("{name} was not seen"))?;
            Ok(seen.saturating_duration_since(*created))
        })
        .collect::<Result<Vec<_>>>()?;
    delays.sort_unstable();
    let cloud_calls = stage.cloud.take_requests().await?.len();
    manager.stop().await?;
    gate::end_state(&cluster.all_nodes().await?, &ids, Some("hcloud"))?;
    gate::writes(&cluster.asked()?, &ids)?;
    Ok(Arrivals {
        delays,
        cloud_calls,
    })
}
