//! A fake registry on loopback: stores content, records requests, and answers falsely where a test says so.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use ccm_host::Digest;
use ccm_host::egress::NameLookup;
use futures::future::BoxFuture;
use futures::{StreamExt as _, stream};
use http::{Method, StatusCode, header};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::artifact::Artifact;
use crate::source::oci::login::RegistryCredentials;
use crate::source::oci::manifest::{INDEX, MANIFEST, WASM_CONFIG, WASM_LAYER};
use crate::source::oci::{OciSettings, OciSource, RegistryAccess, Timeouts};
use crate::source::{Location, Source as _, SourceError};

pub(super) const REPOSITORY: &str = "clouds/example";

/// One received request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) method: Method,
    /// Path and query.
    pub(super) path: String,
    pub(super) authorization: Option<String>,
    pub(super) range: Option<String>,
}

impl Asked {
    pub(super) fn is(&self, method: Method, end: &str) -> bool {
        self.method == method && self.path.ends_with(end)
    }

    pub(super) fn is_blob(&self) -> bool {
        self.path.contains("/blobs/")
    }
}

/// Content of a registry: manifests by tag and digest, and blobs by digest.
#[derive(Default, Clone)]
pub(super) struct RegistryContent {
    pub(super) manifests: BTreeMap<String, (String, Bytes)>,
    pub(super) blobs: BTreeMap<String, Bytes>,
}

impl RegistryContent {
    /// Creates a shelf with one module under the tag `1`.
    pub(super) fn with(wasm: &[u8]) -> (Self, String) {
        let mut content = Self::default();
        let digest = content.module("1", wasm);
        (content, digest)
    }

    pub(super) fn module(&mut self, tag: &str, wasm: &[u8]) -> String {
        let layer = self.blob(WASM_LAYER, wasm);
        self.artifact(tag, json!([layer]))
    }

    pub(super) fn artifact(&mut self, tag: &str, layers: Value) -> String {
        let config = self.blob(WASM_CONFIG, b"{}");
        let manifest =
            json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers});
        self.manifest(tag, MANIFEST, &manifest)
    }

    pub(super) fn index(&mut self, tag: &str, entries: Value) -> String {
        let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": entries});
        self.manifest(tag, INDEX, &index)
    }

    /// Stores a blob; returns its descriptor.
    pub(super) fn blob(&mut self, media_type: &str, bytes: &[u8]) -> Value {
        let digest = Digest::of(bytes).to_string();
        self.blobs
            .insert(digest.clone(), Bytes::copy_from_slice(bytes));
        json!({"mediaType": media_type, "digest": digest, "size": bytes.len()})
    }

    pub(super) fn manifest(&mut self, tag: &str, kind: &str, manifest: &Value) -> String {
        let bytes = Bytes::from(serde_json::to_vec(manifest).unwrap());
        let digest = Digest::of(&bytes).to_string();
        for name in [tag, &digest] {
            self.manifests
                .insert(name.to_owned(), (kind.to_owned(), bytes.clone()));
        }
        digest
    }

    fn answer(&self, asked: &Asked) -> Response {
        let path = asked.path.split('?').next().unwrap();
        let Some(rest) = path
            .split_once(&format!("/{REPOSITORY}/"))
            .map(|(_, rest)| rest)
        else {
            return status(404);
        };
        match rest.split_once('/') {
            Some(("manifests", name)) => match self.manifests.get(name) {
                Some((kind, bytes)) => Response::builder()
                    .header(header::CONTENT_TYPE, kind)
                    .header("docker-content-digest", Digest::of(bytes).to_string())
                    .body(Body::from(bytes.clone()))
                    .unwrap(),
                None => status(404),
            },
            Some(("blobs", digest)) => match self.blobs.get(digest) {
                Some(bytes) => part(bytes, asked.range.as_deref()),
                None => status(404),
            },
            _ => status(404),
        }
    }
}

/// All bytes, or the requested range.
pub(super) fn part(bytes: &Bytes, range: Option<&str>) -> Response {
    let from: Option<usize> = range.and_then(|range| {
        range
            .strip_prefix("bytes=")?
            .strip_suffix('-')?
            .parse()
            .ok()
    });
    let Some(from) = from else {
        return Response::new(Body::from(bytes.clone()));
    };
    let last = bytes.len() - 1;
    Response::builder()
        .status(206)
        .header(
            header::CONTENT_RANGE,
            format!("bytes {from}-{last}/{}", bytes.len()),
        )
        .body(Body::from(bytes.slice(from..)))
        .unwrap()
}

pub(super) fn status(code: u16) -> Response {
    Response::builder()
        .status(code)
        .body(Body::empty())
        .unwrap()
}

pub(super) fn redirect(to: &str) -> Response {
    let found = Response::builder().status(StatusCode::TEMPORARY_REDIRECT);
    found
        .header(header::LOCATION, to)
        .body(Body::empty())
        .unwrap()
}

/// Some bytes, and then the connection breaks.
pub(super) fn cut(mut whole: Response, bytes: &[u8]) -> Response {
    let first = stream::iter([Ok(Bytes::copy_from_slice(bytes))]);
    // The pause lets the server send the bytes before the error.
    let end = stream::once(async {
        tokio::task::yield_now().await;
        Err(io::Error::other("cut"))
    });
    *whole.body_mut() = Body::from_stream(first.chain(end));
    whole
}

/// A body without a content length.
pub(super) fn unmeasured(bytes: &[u8]) -> Response {
    let pieces: Vec<_> = bytes.chunks(1000).map(Bytes::copy_from_slice).collect();
    Response::new(Body::from_stream(stream::iter(
        pieces.into_iter().map(Ok::<_, io::Error>),
    )))
}

type Lie = Arc<dyn Fn(&Asked) -> Option<Response> + Send + Sync>;

/// A fake registry that is running.
pub(super) struct FakeRegistry {
    pub(super) host: String,
    pub(super) content: Arc<Mutex<RegistryContent>>,
    asked: Arc<Mutex<Vec<Asked>>>,
    task: JoinHandle<()>,
}

impl Drop for FakeRegistry {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl FakeRegistry {
    pub(super) async fn honest(content: RegistryContent) -> Self {
        Self::start(content, |_| None).await
    }

    /// Starts the registry. `lie` is called for each request first; `None`: the honest answer is sent.
    pub(super) async fn start(
        content: RegistryContent,
        lie: impl Fn(&Asked) -> Option<Response> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let (content, asked) = (Arc::new(Mutex::new(content)), Arc::default());
        let lie: Lie = Arc::new(lie);
        let (kept, written) = (Arc::clone(&content), Arc::clone(&asked));
        let answer = move |request: Request| {
            let (kept, written, lie) = (
                Arc::clone(&kept),
                Arc::<Mutex<Vec<Asked>>>::clone(&written),
                lie.clone(),
            );
            async move {
                let text = |name| {
                    request
                        .headers()
                        .get(name)
                        .map(|value: &http::HeaderValue| value.to_str().unwrap().to_owned())
                };
                let asked = Asked {
                    method: request.method().clone(),
                    path: request.uri().to_string(),
                    authorization: text(header::AUTHORIZATION),
                    range: text(header::RANGE),
                };
                written.lock().unwrap().push(asked.clone());
                let content = kept.lock().unwrap().clone();
                lie(&asked).unwrap_or_else(|| content.answer(&asked))
            }
        };
        let router = Router::new().fallback(answer);
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self {
            host,
            content,
            asked,
            task,
        }
    }

    pub(super) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    pub(super) fn count(&self, is_wanted: impl Fn(&Asked) -> bool) -> usize {
        self.asked().iter().filter(|asked| is_wanted(asked)).count()
    }

    /// Settings for the artifact `name` (`:tag` or `@digest`), without credentials.
    pub(super) fn settings(&self, name: &str) -> OciSettings {
        let place = format!("oci://{}/{REPOSITORY}{name}", self.host);
        let Location::Oci(place) = Location::parse(&place).unwrap() else {
            unreachable!()
        };
        OciSettings {
            place,
            credentials: watch::channel(None).1,
            access: RegistryAccess {
                poll: Duration::from_millis(20),
                plain_http: true,
                ..RegistryAccess::default()
            },
        }
    }

    pub(super) fn source(&self, name: &str) -> OciSource {
        source(self.settings(name))
    }

    pub(super) async fn bring(&self) -> Result<Artifact, SourceError> {
        self.source(":1").next().await
    }
}

pub(super) fn source(settings: OciSettings) -> OciSource {
    source_with(settings, Arc::new(NoNames), timeouts())
}

pub(super) fn source_with(
    settings: OciSettings,
    lookup: Arc<dyn NameLookup>,
    timeouts: Timeouts,
) -> OciSource {
    OciSource::with(settings.place.to_string(), settings, lookup, timeouts).unwrap()
}

/// Long time limits, for tests that are not about time.
pub(super) fn timeouts() -> Timeouts {
    Timeouts {
        pause: Duration::ZERO,
        ..Timeouts::default()
    }
}

pub(super) fn login(host: &str, password: &str) -> RegistryCredentials {
    let text = json!({"auths": {host: {"username": "robot", "password": password}}}).to_string();
    RegistryCredentials::parse_docker_config(&text).unwrap()
}

/// Bytes that begin like a module.
pub(super) fn module(size: usize) -> Vec<u8> {
    let mut bytes = b"\0asm\x0d\0\x01\0".to_vec();
    bytes.extend((bytes.len()..size).map(|at| (at % 251) as u8));
    bytes
}

/// A resolver that finds no name.
struct NoNames;

impl NameLookup for NoNames {
    fn lookup(&self, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        Box::pin(async move { Err(io::Error::other(format!("{name} is looked up"))) })
    }
}

/// A resolver that panics over every name.
pub(super) struct Panics;

impl NameLookup for Panics {
    fn lookup(&self, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        panic!("on purpose, over {name}")
    }
}

/// A resolver with this address for every name.
pub(super) struct AllAt(pub(super) IpAddr);

impl NameLookup for AllAt {
    fn lookup(&self, _: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let address = self.0;
        Box::pin(async move { Ok(vec![address]) })
    }
}
