//! One repository of one registry over HTTP: authenticates as the registry requires, follows redirects one by one and
//! limits all answers. Credentials go to the registry and its token endpoint only, never to a redirect target.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use ccm_host::Digest;
use ccm_host::egress::address_policy::is_loopback_host;
use ccm_host::egress::retry_after;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, HeaderMap, HeaderName, HeaderValue,
    LINK, LOCATION,
};
use parking_lot::Mutex;
use reqwest::{Method, Response, StatusCode};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use url::Url;

use super::challenge;
use super::connect::{Connections, host};
use super::evidence::ReadTags;
use super::login::RegistryCredentials;
use super::manifest::{ACCEPTED, MANIFEST_BYTES};
use super::registry_error::RegistryError;

/// Maximum number of redirects of a request. Many registries redirect blobs to a store elsewhere; none needs more.
const MOST_REDIRECTS: usize = 5;
/// Longest rate-limit hold; a longer request to wait is cut to this.
const LONGEST_HOLD: Duration = Duration::from_secs(3600);
/// Rate-limit hold if the registry names none.
const HOLD: Duration = Duration::from_secs(10);

/// Where one registry has one repository.
pub(super) struct Site {
    /// `https://host:port/v2/repository/`.
    base: Url,
    /// The host as in references; for messages.
    pub(super) host: String,
    pub(super) repository: String,
}

/// One repository at one registry.
pub(super) struct Registry {
    pub(super) site: Site,
    /// Shared by all registries of the source.
    pub(super) connections: Arc<Connections>,
    pub(super) credentials: watch::Receiver<Option<RegistryCredentials>>,
    /// The tags of evidence that were read last.
    pub(super) read_tags: ReadTags,
    shown: Mutex<Option<HeaderValue>>,
    held_until: Mutex<Option<Instant>>,
}

/// One read-only request. `path` is relative to the repository.
pub(super) struct Ask<'a> {
    pub(super) method: Method,
    pub(super) path: &'a str,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
}

impl<'a> Ask<'a> {
    pub(super) fn get(path: &'a str) -> Self {
        Self::new(Method::GET, path)
    }

    pub(super) fn new(method: Method, path: &'a str) -> Self {
        Self {
            method,
            path,
            headers: Vec::new(),
        }
    }

    pub(super) fn accepting(mut self, media_types: &'static str) -> Self {
        self.headers
            .push((ACCEPT, HeaderValue::from_static(media_types)));
        self
    }
}

impl Site {
    /// `host` may include a port; `docker.io` is replaced by its API host.
    pub(super) fn new(
        host: &str,
        repository: &str,
        plain_http: bool,
    ) -> Result<Self, RegistryError> {
        let (served_by, repository) = match host {
            "docker.io" if repository.contains('/') => {
                ("registry-1.docker.io", repository.to_owned())
            }
            "docker.io" => ("registry-1.docker.io", format!("library/{repository}")),
            _ => (host, repository.to_owned()),
        };
        let scheme = if plain_http && is_loopback_host(host) {
            "http"
        } else {
            "https"
        };
        let base = Url::parse(&format!("{scheme}://{served_by}/v2/{repository}/"))
            .map_err(|error| RegistryError::barred(format!("{host} is no registry: {error}")))?;
        Ok(Self {
            base,
            host: host.to_owned(),
            repository,
        })
    }

    /// The dialled host and port.
    pub(super) fn named(&self) -> (String, u16) {
        let port = self.base.port_or_known_default().unwrap_or_default();
        (self.base.host_str().unwrap_or_default().to_owned(), port)
    }

    /// The URL of a path in the repository.
    pub(super) fn join(&self, path: &str) -> Result<Url, RegistryError> {
        let wrong = |_| RegistryError::barred(format!("{} has no such address", self.host));
        self.base.join(path).map_err(wrong)
    }
}

impl Registry {
    pub(super) fn new(
        site: Site,
        connections: Arc<Connections>,
        credentials: watch::Receiver<Option<RegistryCredentials>>,
    ) -> Self {
        Self {
            site,
            connections,
            credentials,
            read_tags: ReadTags::default(),
            shown: Mutex::new(None),
            held_until: Mutex::new(None),
        }
    }

    /// Sends this authorization header with each request from now on.
    pub(super) fn show(&self, value: HeaderValue) {
        *self.shown.lock() = Some(value);
    }

    /// Hint for a missing login that only a helper could know.
    pub(super) fn helper_hint(&self) -> &'static str {
        let credentials = self.credentials.borrow();
        match credentials
            .as_ref()
            .is_some_and(|all| all.is_helped(&self.site.host))
        {
            true => "; its credential helper is not run",
            false => "",
        }
    }

    /// Discards the authorization, so that the current credentials are used.
    pub(super) fn forget_credentials(&self) {
        *self.shown.lock() = None;
    }

    /// The address of the next page of a list, from the headers of the page before; only at this registry.
    pub(super) fn next_page(&self, headers: &HeaderMap) -> Option<String> {
        let link = headers.get(LINK)?.to_str().ok()?;
        let (target, relation) = link.strip_prefix('<')?.split_once('>')?;
        let is_next = ["rel=\"next\"", "rel=next"]
            .iter()
            .any(|next| relation.contains(next));
        let url = self.site.join(target).ok()?;
        (is_next && self.is_own(&url)).then(|| url.to_string())
    }

    /// Sends one request and returns a successful answer, whose body is not read yet.
    pub(super) async fn ask(&self, ask: Ask<'_>) -> Result<Response, RegistryError> {
        self.check_hold()?;
        let url = self.site.join(ask.path)?;
        let answer = self.follow(&ask, url.clone()).await?;
        if answer.status() != StatusCode::UNAUTHORIZED || !self.is_own(answer.url()) {
            return self.judge(answer);
        }
        let challenge = challenge::of(answer.headers());
        drop(answer);
        self.meet(challenge).await?;
        let answer = self.follow(&ask, url).await?;
        self.judge(answer)
    }

    /// The digest of the manifest under a tag, if the registry names it. Some registries limit how many manifests are
    /// read, and not how often a digest is asked for.
    pub(super) async fn digest_under(&self, tag: &str) -> Result<Option<String>, RegistryError> {
        let path = format!("manifests/{tag}");
        let ask = Ask::new(Method::HEAD, &path).accepting(ACCEPTED);
        let (headers, _) = self.ask_whole(ask, 0).await?;
        let named = headers
            .get("docker-content-digest")
            .and_then(|digest| digest.to_str().ok());
        let named = named.filter(|digest| Digest::parse(digest).is_some());
        Ok(named.map(str::to_owned))
    }

    /// Reads the manifest under a tag or with a digest, which is not verified.
    pub(super) async fn manifest(
        &self,
        reference: &str,
    ) -> Result<(HeaderMap, Vec<u8>), RegistryError> {
        let path = format!("manifests/{reference}");
        let ask = Ask::get(&path).accepting(ACCEPTED);
        self.ask_whole(ask, MANIFEST_BYTES).await
    }

    /// Reads a whole small answer.
    pub(super) async fn ask_whole(
        &self,
        ask: Ask<'_>,
        most: usize,
    ) -> Result<(HeaderMap, Vec<u8>), RegistryError> {
        let reading = async {
            let answer = self.ask(ask).await?;
            let headers = answer.headers().clone();
            Ok((headers, self.read(answer, most).await?))
        };
        timeout(self.connections.timeouts.small, reading)
            .await
            .map_err(|_| self.slow())?
    }

    pub(super) fn slow(&self) -> RegistryError {
        RegistryError::unavailable(format!("{} answers too slowly", self.site.host))
    }

    /// Reads a body of up to `most` bytes; discards a longer one.
    pub(super) async fn read(
        &self,
        mut answer: Response,
        most: usize,
    ) -> Result<Vec<u8>, RegistryError> {
        let too_long = || {
            RegistryError::refused(format!(
                "{} answers with more than {most} bytes",
                self.site.host
            ))
        };
        if answer
            .content_length()
            .is_some_and(|length| length > most as u64)
        {
            return Err(too_long());
        }
        let mut bytes = Vec::new();
        while let Some(chunk) = self.chunk(&mut answer).await? {
            if bytes.len() + chunk.len() > most {
                return Err(too_long());
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    }

    pub(super) async fn chunk(
        &self,
        answer: &mut Response,
    ) -> Result<Option<Bytes>, RegistryError> {
        let chunk = answer.chunk().await;
        chunk.map_err(|error| RegistryError::of_request(&self.site.host, error))
    }

    async fn follow(&self, ask: &Ask<'_>, mut url: Url) -> Result<Response, RegistryError> {
        for _ in 0..=MOST_REDIRECTS {
            let mut request = self
                .connections
                .request(ask.method.clone(), &url)?
                // Bodies are never decompressed here.
                .header(ACCEPT_ENCODING, "identity");
            for (name, value) in &ask.headers {
                request = request.header(name, value);
            }
            if self.is_own(&url) {
                let shown = self.shown.lock();
                if let Some(shown) = shown.as_ref() {
                    request = request.header(AUTHORIZATION, shown);
                }
            }
            let answer = request.send().await;
            let answer = answer
                .map_err(|error| RegistryError::of_request(&self.connections.shown(&url), error))?;
            if !is_redirect(answer.status()) {
                return Ok(answer);
            }
            url = redirected(&url, answer.headers())?;
        }
        Err(RegistryError::barred(format!(
            "{} redirects without end",
            self.site.host
        )))
    }

    /// Whether a URL is the registry's own, so that credentials may be sent there.
    pub(super) fn is_own(&self, url: &Url) -> bool {
        url.origin() == self.site.base.origin()
    }

    fn judge(&self, answer: Response) -> Result<Response, RegistryError> {
        let (status, who) = (answer.status(), host(answer.url()));
        if status.is_success() {
            let encoded = answer.headers().get(CONTENT_ENCODING);
            if encoded.is_some_and(|encoding| encoding != "identity") {
                return Err(RegistryError::barred(format!(
                    "{who} packs what was to be sent as it is"
                )));
            }
            return Ok(answer);
        }
        Err(match status.as_u16() {
            401 | 403 => {
                let hint = self.helper_hint();
                RegistryError::denied(format!("{who} answered {}{hint}", status.as_u16()))
            }
            404 | 410 => RegistryError::absent(format!("{who} answered {}", status.as_u16())),
            429 | 503 => {
                let hold = wanted_hold(answer.headers());
                // Only the registry itself and its token endpoint can set its hold.
                if self.is_own(answer.url()) {
                    self.hold(hold);
                }
                RegistryError::unavailable(format!("{who} answered {}", status.as_u16()))
                    .waiting(hold)
            }
            408 | 500..=599 if status.as_u16() != 501 => {
                RegistryError::unavailable(format!("{who} answered {}", status.as_u16()))
            }
            _ => RegistryError::barred(format!("{who} answered {}", status.as_u16())),
        })
    }

    /// Sends no request for this long.
    pub(super) fn hold(&self, hold: Duration) {
        *self.held_until.lock() = Some(Instant::now() + hold);
    }

    fn check_hold(&self) -> Result<(), RegistryError> {
        let held = *self.held_until.lock();
        let left = held.and_then(|until| until.checked_duration_since(Instant::now()));
        match left.filter(|left| !left.is_zero()) {
            None => Ok(()),
            Some(left) => {
                let why = format!("{} wants to be left alone for a while", self.site.host);
                Err(RegistryError::unavailable(why).waiting(left))
            }
        }
    }
}

/// The redirect target of an answer of `from`; never from TLS to plain HTTP.
pub(super) fn redirected(from: &Url, headers: &HeaderMap) -> Result<Url, RegistryError> {
    let to = headers.get(LOCATION).and_then(|to| to.to_str().ok());
    let to = to.and_then(|to| from.join(to).ok());
    let to =
        to.ok_or_else(|| RegistryError::barred(format!("{} redirects to nowhere", host(from))))?;
    match (from.scheme(), to.scheme()) {
        ("https", "https") | ("http", _) => Ok(to),
        _ => {
            let why = format!("{} redirects to {}, without TLS", host(from), host(&to));
            Err(RegistryError::barred(why))
        }
    }
}

fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

/// How long an answer with 429 or 503 asks to be left alone.
pub(super) fn wanted_hold(headers: &HeaderMap) -> Duration {
    let wanted = retry_after(headers, SystemTime::now());
    wanted.unwrap_or(HOLD).min(LONGEST_HOLD)
}
