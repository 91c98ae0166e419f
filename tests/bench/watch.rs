//! The times at which objects reach a state: one watch of the driver. Of nodes it sees the metadata of labelled ones
//! only, so that it costs next to nothing. The end state and the bodies of the writes prove that the label comes with
//! the taint's removal.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use futures::{Stream, TryStreamExt as _};
use k8s_openapi::api::core::v1::{Node, Service};
use kube::api::{WatchEvent, WatchParams};
use kube::{Api, Client, ResourceExt as _};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Set by our provider and by the vendor's Go manager, in the write that removes the taint.
const LABEL: &str = "instance.hetzner.cloud/provided-by";

/// Timeout without progress. The slowest program initialises seven nodes a second.
const STILL: Duration = Duration::from_secs(120);

/// The seconds after which the API server ends a watch.
const LENGTH: u32 = 290;

/// The watch, until it is dropped.
pub(crate) struct Watch {
    seen: Arc<Mutex<HashMap<String, Instant>>>,
    count: watch::Receiver<usize>,
    task: JoinHandle<()>,
}

/// The findings of the watching task.
struct Sightings {
    seen: Arc<Mutex<HashMap<String, Instant>>>,
    said: watch::Sender<usize>,
}

impl Watch {
    /// Begins to watch for initialised nodes.
    pub(crate) fn nodes(client: Client) -> Self {
        let params = WatchParams::default().labels(LABEL).timeout(LENGTH);
        let api = Api::<Node>::all(client);
        Self::start(move |sightings| {
            let (api, params) = (api.clone(), params.clone());
            async move {
                let events = api.watch_metadata(&params, "0").await?;
                look(events, &sightings, |event| match event {
                    WatchEvent::Added(node) | WatchEvent::Modified(node) => Some(node.name_any()),
                    _ => None,
                })
                .await
            }
        })
    }

    /// Begins to watch for Services with an address.
    pub(crate) fn services(client: Client) -> Self {
        Self::of_services(client, |event| match event {
            WatchEvent::Added(service) | WatchEvent::Modified(service) => {
                let status = service.status.as_ref()?.load_balancer.as_ref()?;
                let addresses = status.ingress.as_ref()?;
                (!addresses.is_empty()).then(|| service.name_any())
            }
            _ => None,
        })
    }

    /// Begins to watch for Services that are gone.
    pub(crate) fn ends_of_services(client: Client) -> Self {
        Self::of_services(client, |event| match event {
            WatchEvent::Deleted(service) => Some(service.name_any()),
            _ => None,
        })
    }

    fn of_services(client: Client, is_so: fn(&WatchEvent<Service>) -> Option<String>) -> Self {
        let params = WatchParams::default().timeout(LENGTH);
        let api = Api::<Service>::default_namespaced(client);
        Self::start(move |sightings| {
            let (api, params) = (api.clone(), params.clone());
            async move {
                let events = api.watch(&params, "0").await?;
                look(events, &sightings, is_so).await
            }
        })
    }

    fn start<Look>(look: impl Fn(Arc<Sightings>) -> Look + Send + 'static) -> Self
    where
        Look: Future<Output = Result<()>> + Send,
    {
        let (said, count) = watch::channel(0);
        let seen = Arc::default();
        let sightings = Arc::new(Sightings {
            seen: Arc::clone(&seen),
            said,
        });
        let task = tokio::spawn(async move {
            // An API server ends every watch after some minutes; objects that were seen are not counted again.
            loop {
                let Err(error) = look(Arc::clone(&sightings)).await else {
                    continue;
                };
                eprintln!("the driver's watch begins anew: {error:#}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
        Self { seen, count, task }
    }

    /// Waits until this many objects have been seen; `check` fails when waiting is useless.
    ///
    /// # Errors
    /// `check` failed, or nothing has happened for too long.
    pub(crate) async fn until(
        &mut self,
        wanted: usize,
        mut check: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        let mut last = (0, Instant::now());
        loop {
            let changed = self.count.wait_for(|count| *count >= wanted);
            if tokio::time::timeout(Duration::from_millis(100), changed)
                .await
                .is_ok()
            {
                return Ok(());
            }
            check()?;
            let count = *self.count.borrow();
            if count != last.0 {
                last = (count, Instant::now());
            }
            if last.1.elapsed() > STILL {
                bail!("{count} of {wanted}, and no further one for {STILL:?}");
            }
        }
    }

    /// Number of objects that have been seen.
    pub(crate) fn count(&self) -> usize {
        *self.count.borrow()
    }

    /// When each object was seen first.
    pub(crate) fn seen(&self) -> HashMap<String, Instant> {
        self.seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The first and the last time.
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

async fn look<K>(
    events: impl Stream<Item = kube::Result<WatchEvent<K>>>,
    sightings: &Sightings,
    is_so: impl Fn(&WatchEvent<K>) -> Option<String>,
) -> Result<()> {
    let mut events = pin!(events);
    while let Some(event) = events.try_next().await? {
        let now = Instant::now();
        if let WatchEvent::Error(error) = &event {
            bail!("{error}");
        }
        let Some(name) = is_so(&event) else { continue };
        let count = {
            let mut seen = sightings
                .seen
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            seen.entry(name).or_insert(now);
            seen.len()
        };
        sightings.said.send_replace(count);
    }
    Ok(())
}
