//! Who sees a node become initialised, and when: one watch of the driver's, over the metadata of labelled nodes only, so
//! that the observer costs next to nothing. That the label comes with the taint's removal is held by the end state and
//! the bodies of the writes.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::Node;
use kube::api::{WatchEvent, WatchParams};
use kube::{Api, Client, ResourceExt as _};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Set by our provider and by the vendor's Go manager, in the write that removes the taint.
const LABEL: &str = "instance.hetzner.cloud/provided-by";

/// Longer than any run that goes well.
const PATIENCE: Duration = Duration::from_secs(900);

/// The watch, until it is dropped.
pub(crate) struct Watch {
    seen: Arc<Mutex<HashMap<String, Instant>>>,
    count: watch::Receiver<usize>,
    task: JoinHandle<()>,
}

impl Watch {
    /// Begins to watch.
    pub(crate) fn start(client: Client) -> Self {
        let seen = Arc::<Mutex<HashMap<String, Instant>>>::default();
        let (said, count) = watch::channel(0);
        let api = Api::<Node>::all(client);
        let all = seen.clone();
        let task = tokio::spawn(async move {
            // An API server ends every watch after some minutes; what was seen already is not seen again.
            loop {
                let Err(error) = look(&api, &all, &said).await else {
                    continue;
                };
                eprintln!("the driver's watch begins anew: {error:#}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
        Self { seen, count, task }
    }

    /// Waits until so many nodes have been seen; `check` fails when there is no point in waiting.
    pub(crate) async fn until(
        &mut self,
        wanted: usize,
        mut check: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let changed = self.count.wait_for(|count| *count >= wanted);
            if tokio::time::timeout(Duration::from_millis(100), changed)
                .await
                .is_ok()
            {
                return Ok(());
            }
            check()?;
            if Instant::now() > deadline {
                bail!(
                    "only {} of {wanted} nodes were initialised in time",
                    *self.count.borrow()
                );
            }
        }
    }

    /// When each node was seen first.
    pub(crate) fn seen(&self) -> HashMap<String, Instant> {
        self.seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The first and the last one.
    pub(crate) fn ends(&self) -> Option<(Instant, Instant)> {
        let seen = self.seen();
        Some((*seen.values().min()?, *seen.values().max()?))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn look(
    api: &Api<Node>,
    seen: &Mutex<HashMap<String, Instant>>,
    said: &watch::Sender<usize>,
) -> Result<()> {
    let params = WatchParams::default().labels(LABEL).timeout(290);
    let mut events = pin!(api.watch_metadata(&params, "0").await?);
    while let Some(event) = events.try_next().await? {
        let now = Instant::now();
        let node = match event {
            WatchEvent::Added(node) | WatchEvent::Modified(node) => node,
            WatchEvent::Error(error) => bail!("{error}"),
            WatchEvent::Deleted(_) | WatchEvent::Bookmark(_) => continue,
        };
        let count = {
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.entry(node.name_any()).or_insert(now);
            seen.len()
        };
        said.send_replace(count);
    }
    Ok(())
}
