//! Downloads one layer: never more than the manifest's size, resumed after an interruption, aborted when too slow, and
//! returned only if its digest matches.

use std::pin::pin;
use std::time::Duration;

use ccm_host::Digest;
use http::header::{CONTENT_RANGE, HeaderValue, RANGE};
use reqwest::{Response, StatusCode};
use tokio::time::{Instant, sleep, timeout};

use super::manifest::Descriptor;
use super::registry::{Ask, Registry};
use super::registry_error::RegistryError;
use crate::source::SourceErrorKind;

/// Maximum number of attempts at a download.
const MOST_ATTEMPTS: u32 = 64;
/// Maximum number of attempts in a row that received nothing.
const MAX_WITHOUT_PROGRESS: u32 = 4;

/// Progress of a download, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DownloadProgress {
    /// Bytes received so far.
    pub done: u64,
    /// Size of the layer in its manifest.
    pub total: u64,
}

/// The part of a layer received so far.
pub(super) struct Partial {
    digest: String,
    /// Size of the whole layer in its manifest: the next manifest may name the same layer with another one.
    size: u64,
    /// The host that sent it: bytes of several registries are never combined.
    host: String,
    bytes: Vec<u8>,
}

impl Partial {
    fn none(layer: &Descriptor, host: &str) -> Partial {
        Partial {
            digest: layer.digest.clone(),
            size: layer.size,
            host: host.to_owned(),
            bytes: Vec::new(),
        }
    }

    fn is_as(&self, other: &Partial) -> bool {
        self.digest == other.digest && self.size == other.size && self.host == other.host
    }
}

/// Downloads the layer. Received bytes stay in `kept` until the layer is complete or wrong.
pub(super) async fn download(
    registry: &Registry,
    layer: &Descriptor,
    kept: &mut Option<Partial>,
    progress: &(dyn Fn(DownloadProgress) + Sync),
) -> Result<Vec<u8>, RegistryError> {
    let none = Partial::none(layer, &registry.site.host);
    let partial = kept.take().filter(|partial| partial.is_as(&none));
    let partial = kept.insert(partial.unwrap_or(none));
    let whole = attempts(registry, layer, &mut partial.bytes, progress);
    timeout(registry.connections.timeouts.layer, whole)
        .await
        .map_err(|_| registry.slow())??;
    let bytes = kept.take().map(|partial| partial.bytes).unwrap_or_default();
    match Digest::of(&bytes).to_string() == layer.digest {
        true => Ok(bytes),
        false => Err(RegistryError::refused(format!(
            "{} sent a layer whose digest is not what the manifest names",
            registry.site.host
        ))),
    }
}

async fn attempts(
    registry: &Registry,
    layer: &Descriptor,
    bytes: &mut Vec<u8>,
    progress: &(dyn Fn(DownloadProgress) + Sync),
) -> Result<(), RegistryError> {
    let mut without_progress = 0;
    for _ in 0..MOST_ATTEMPTS {
        let before = bytes.len();
        let trouble = match attempt(registry, layer, bytes, progress).await {
            Ok(()) => return Ok(()),
            Err(trouble) => trouble,
        };
        // An interruption is resumed; a refusal or a request to wait is not.
        if trouble.kind != SourceErrorKind::Unavailable || trouble.wait.is_some() {
            return Err(trouble);
        }
        without_progress = if bytes.len() > before {
            0
        } else {
            without_progress + 1
        };
        if without_progress >= MAX_WITHOUT_PROGRESS {
            return Err(trouble);
        }
        sleep(registry.connections.timeouts.pause).await;
    }
    Err(RegistryError::unavailable(format!(
        "{} cuts every download short",
        registry.site.host
    )))
}

/// One request, starting at the end of the received bytes.
async fn attempt(
    registry: &Registry,
    layer: &Descriptor,
    bytes: &mut Vec<u8>,
    progress: &(dyn Fn(DownloadProgress) + Sync),
) -> Result<(), RegistryError> {
    let size = usize::try_from(layer.size).unwrap_or(usize::MAX);
    if bytes.len() == size {
        return Ok(());
    }
    let path = format!("blobs/{}", layer.digest);
    let mut ask = Ask::get(&path);
    if !bytes.is_empty()
        && let Ok(range) = HeaderValue::from_str(&format!("bytes={}-", bytes.len()))
    {
        ask.headers.push((RANGE, range));
    }
    let opening = timeout(registry.connections.timeouts.small, registry.ask(ask));
    let mut answer = opening.await.map_err(|_| registry.slow())??;
    if !continues(&answer, bytes.len(), layer.size) {
        bytes.clear();
        if answer.status() == StatusCode::PARTIAL_CONTENT {
            return Err(RegistryError::unavailable(format!(
                "{} sends another part than was asked for",
                registry.site.host
            )));
        }
    }
    let wrong_size = || {
        RegistryError::refused(format!(
            "{} sends a layer of another size than the {size} bytes that the manifest names",
            registry.site.host
        ))
    };
    let left = (size - bytes.len()) as u64;
    if answer.content_length().is_some_and(|length| length != left) {
        bytes.clear();
        return Err(wrong_size());
    }
    let timeouts = &registry.connections.timeouts;
    let mut at_start = bytes.len();
    let mut span = pin!(sleep(timeouts.span));
    loop {
        let chunk = tokio::select! {
            chunk = registry.chunk(&mut answer) => chunk?,
            () = &mut span => {
                if bytes.len() - at_start < timeouts.span_bytes {
                    // With a wait it is not resumed at once: another request would not help.
                    return Err(registry.slow().waiting(Duration::ZERO));
                }
                at_start = bytes.len();
                span.as_mut().reset(Instant::now() + timeouts.span);
                continue;
            }
        };
        let Some(chunk) = chunk else { break };
        if chunk.len() > size - bytes.len() {
            bytes.clear();
            return Err(wrong_size());
        }
        bytes.extend_from_slice(&chunk);
        progress(DownloadProgress {
            done: bytes.len() as u64,
            total: layer.size,
        });
    }
    match bytes.len() == size {
        true => Ok(()),
        // Without a content length, the end of the answer is the end of the layer.
        false if answer.content_length().is_none() && answer.status() == StatusCode::OK => {
            bytes.clear();
            Err(wrong_size())
        }
        false => Err(RegistryError::unavailable(format!(
            "{} ends a layer early",
            registry.site.host
        ))),
    }
}

/// Whether an answer starts at offset `from`.
pub(super) fn continues(answer: &Response, from: usize, size: u64) -> bool {
    if answer.status() != StatusCode::PARTIAL_CONTENT {
        return from == 0;
    }
    let range = answer
        .headers()
        .get(CONTENT_RANGE)
        .and_then(|range| range.to_str().ok());
    let parts = range
        .and_then(|range| range.strip_prefix("bytes "))
        .and_then(|range| range.split_once('/'));
    parts.is_some_and(|(range, total)| {
        let start = range.split('-').next().and_then(|start| start.parse().ok());
        start == Some(from) && (total == "*" || total.parse() == Ok(size))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    /// The size limits what is received.
    #[test]
    fn a_part_is_not_continued_as_that_of_a_layer_of_another_size_or_of_another_registry() {
        let layer = |size: u64| {
            let layer = serde_json::json!({ "digest": "sha256:00", "size": size });
            serde_json::from_value(layer).unwrap()
        };
        let part = Partial::none(&layer(32 << 20), "one.test");
        assert!(part.is_as(&Partial::none(&layer(32 << 20), "one.test")));
        assert!(!part.is_as(&Partial::none(&layer(1), "one.test")));
        assert!(!part.is_as(&Partial::none(&layer(32 << 20), "two.test")));
    }
}
