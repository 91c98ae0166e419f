//! A module in one key of one ConfigMap, which is watched by name: no other object in its namespace and no other
//! namespace is ever read. Needs the verbs get, list and watch on that object.

pub mod content;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ccm_core::rollout::Release;
use ccm_watch::{WatchedObject, watch_one};
use futures::{Stream, StreamExt as _, future};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::watcher;
use kube::{Api, Client};
use tokio::time::{Instant, timeout_at};

use super::{
    Brought, ConfigMapKey, LastAnswer, Source, SourceError, SourceErrorKind, reading, unpack,
};
use crate::artifact::Artifact;
use content::NotFound;

/// Changes in quick succession are handled together, once none has arrived for this long.
const QUIET: Duration = Duration::from_millis(200);
/// Longest delay of the first of such changes.
const AT_MOST: Duration = Duration::from_secs(2);

type Objects = Pin<Box<dyn Stream<Item = watcher::Result<WatchedObject<ConfigMap>>> + Send>>;

/// A source that watches one ConfigMap.
pub struct ConfigMapSource {
    reader: Reader,
    objects: Objects,
    /// The latest object that is not answered yet; inner `None`: there is no such object.
    latest: Option<Arc<Option<ConfigMap>>>,
    /// Deadline for gathering further changes.
    gather: Option<Instant>,
    is_first: bool,
    last_answer: LastAnswer,
    /// Why the object cannot be watched, once that was logged. Lists find its changes meanwhile.
    unwatched: Option<SourceError>,
}

/// The location and the client that reads it.
#[derive(Clone)]
struct Reader {
    place: String,
    at: ConfigMapKey,
    api: Api<ConfigMap>,
}

impl ConfigMapSource {
    /// Creates the source `place`, parsed as `at`, which is read with `client`.
    pub fn new(place: String, client: Client, at: ConfigMapKey) -> Self {
        let api = Api::namespaced(client, &at.namespace);
        Self {
            objects: watch_one(api.clone(), &at.name).boxed(),
            reader: Reader { place, at, api },
            latest: None,
            gather: None,
            is_first: true,
            last_answer: LastAnswer::default(),
            unwatched: None,
        }
    }

    /// Processes watch events until there is an object to answer with.
    async fn gather(&mut self) -> Result<Arc<Option<ConfigMap>>, SourceError> {
        loop {
            let next = match (&self.latest, self.gather) {
                (Some(latest), _) if self.is_first => return Ok(latest.clone()),
                (Some(latest), Some(end)) => {
                    let quiet = (Instant::now() + QUIET).min(end);
                    match timeout_at(quiet, self.objects.next()).await {
                        Ok(next) => next,
                        Err(_) => return Ok(latest.clone()),
                    }
                }
                _ => self.objects.next().await,
            };
            match next {
                Some(Ok(WatchedObject { object, is_watched })) => {
                    if is_watched {
                        self.unwatched = None;
                    }
                    self.gather.get_or_insert_with(|| Instant::now() + AT_MOST);
                    self.latest = Some(Arc::new(object));
                }
                Some(Err(watcher::Error::InitialListFailed(error))) => {
                    return Err(self.reader.refusal(&error));
                }
                // The watch continues by itself, and with a list if it keeps failing: its error tells the cause. Without
                // the right to watch alone no list fails.
                Some(Err(watcher::Error::WatchStartFailed(error))) => self.warn(&error),
                Some(Err(_)) => {}
                // A watch never ends.
                None => future::pending().await,
            }
        }
    }

    /// Logs once that the right to watch is missing, until a watch works again.
    fn warn(&mut self, error: &kube::Error) {
        let refusal = self.reader.refusal(error);
        if refusal.kind == SourceErrorKind::Denied && self.unwatched.is_none() {
            tracing::warn!("changes are found late, by lists alone: {refusal}");
            self.unwatched = Some(refusal);
        }
    }
}

impl Reader {
    fn refusal(&self, error: &kube::Error) -> SourceError {
        let ConfigMapKey {
            namespace, name, ..
        } = &self.at;
        match error {
            kube::Error::Api(status) if matches!(status.code, 401 | 403) => SourceError::denied(
                &self.place,
                format!(
                    "the API server answers {}: get, list and watch on the ConfigMap {name} in the namespace \
                     {namespace} are needed",
                    status.code
                ),
            ),
            kube::Error::Api(status) => SourceError::unavailable(
                &self.place,
                format!("the API server answers {}", status.code),
            ),
            _ => SourceError::unavailable(
                &self.place,
                "the API server cannot be reached, or its answer cannot be read",
            ),
        }
    }

    /// Reads the module in an object, unpacking it on a blocking thread.
    async fn module(&self, object: Arc<Option<ConfigMap>>) -> Result<Artifact, SourceError> {
        let at = self.at.clone();
        reading(&self.place, move |place| {
            let Some(object) = &*object else {
                let why = format!(
                    "there is no ConfigMap {} in the namespace {}",
                    at.name, at.namespace
                );
                return Err(SourceError::absent(place, why));
            };
            match content::module_in(object, &at.key) {
                Ok(found) => unpack::artifact(place, found.bytes, found.evidence),
                Err(NotFound::Absent(why)) => Err(SourceError::absent(place, why)),
                Err(NotFound::Refused(why)) => Err(SourceError::refused(place, why)),
            }
        })
        .await
    }

    /// Finds exactly the module `release` under any key of the object: an earlier version can be kept beside the
    /// offered one for a roll-back when nothing else has stored it.
    async fn kept(
        &self,
        object: Option<ConfigMap>,
        release: Release,
    ) -> Result<Artifact, SourceError> {
        let at = self.at.clone();
        reading(&self.place, move |place| {
            let object = object.unwrap_or_default();
            let modules = content::keys(&object, &at.key).into_iter();
            let mut modules = modules.filter_map(|key| {
                let found = content::module_in(&object, key).ok()?;
                unpack::artifact(place, found.bytes, found.evidence).ok()
            });
            let is_it = |artifact: &Artifact| artifact.digest.to_string() == release.digest;
            modules.find(is_it).ok_or_else(|| {
                let ConfigMapKey { namespace, name, .. } = &at;
                let why = format!(
                    "no key of the ConfigMap {name} in the namespace {namespace} holds {}, and the cache does not \
                     either: put it back there, under any key",
                    release.shown()
                );
                SourceError::absent(place, why)
            })
        })
        .await
    }
}

impl Source for ConfigMapSource {
    fn next(&mut self) -> Brought<'_> {
        Box::pin(async {
            loop {
                let answer = match self.gather().await {
                    Ok(object) => {
                        let answer = self.reader.module(object).await;
                        (self.latest, self.gather, self.is_first) = (None, None, false);
                        answer
                    }
                    Err(error) => Err(error),
                };
                if let Some(answer) = self.last_answer.unless_repeated(answer) {
                    return answer;
                }
            }
        })
    }

    fn again<'a>(&'a self, release: &'a Release) -> Brought<'a> {
        let reader = self.reader.clone();
        Box::pin(async move {
            let found = reader.api.get_opt(&reader.at.name).await;
            let object = found.map_err(|error| reader.refusal(&error))?;
            reader.kept(object, release.clone()).await
        })
    }

    fn place(&self) -> &str {
        &self.reader.place
    }
}

#[cfg(test)]
mod tests;
