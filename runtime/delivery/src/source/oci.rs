//! Artifacts in OCI registries: `oci://registry/repository[:tag][@sha256:digest]`, in the CNCF layout for Wasm. A tag
//! is polled; a digest is polled only until it was fetched.
//!
//! A registry is as untrusted as its content: every size is limited, every redirect target is checked, and all content
//! must match its digest. Unpacks nothing and verifies no signatures.
//!
//! Uses its own client over reqwest: `oci-client` has no hooks for checking addresses and redirects, no limits on
//! answers, and cannot resume an interrupted download.

mod blob;
mod challenge;
mod connect;
mod evidence;
mod login;
mod manifest;
mod pacing;
mod pull;
mod registry;
mod registry_auth;
mod registry_error;

use std::sync::Arc;
use std::time::Duration;

use ccm_core::rollout::Release;
use ccm_host::egress::{NameLookup, SystemLookup};
use ccm_host::grant::ProxyGrant;
use ipnet::IpNet;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use blob::DownloadProgress;
pub use login::{CredentialsError, RegistryCredentials};

use super::{Brought, LastAnswer, Location, OciPlace, PANICKED, Source, SourceError};
use crate::artifact::Artifact;
use connect::Timeouts;
use evidence::Listing;
use pacing::Pacing;
use pull::Repository;
use registry_error::RegistryError;

/// Default polling interval of a tag.
pub const POLL: Duration = Duration::from_secs(300);

/// Settings for fetching one artifact.
#[derive(Clone)]
pub struct OciSettings {
    /// The registry, the repository, and the tag or digest.
    pub place: OciPlace,
    /// The current credentials; a rotated Secret is used by the next poll.
    pub credentials: watch::Receiver<Option<RegistryCredentials>>,
    /// How the registry is reached.
    pub access: RegistryAccess,
}

/// How a registry and its mirrors are reached.
#[derive(Clone, PartialEq, Eq)]
pub struct RegistryAccess {
    /// The only trusted CA certificates, in PEM; `None`: those of the platform.
    pub ca_pem: Option<String>,
    /// Mirrors, asked in this order before the registry.
    pub mirrors: Vec<Mirror>,
    /// Polling interval of a tag; see [`POLL`].
    pub poll: Duration,
    /// Private and loopback address ranges that may be dialled. An address written in the location or as a mirror needs
    /// no range.
    pub addresses: Vec<IpNet>,
    /// The proxy to the registry, its mirrors and their redirect targets.
    pub proxy: Option<ProxyGrant>,
    /// Whether registries on this machine (`127.0.0.1`, `[::1]`, `localhost`) are accessed without TLS. All other
    /// registries are accessed with TLS.
    pub plain_http: bool,
}

impl Default for RegistryAccess {
    fn default() -> RegistryAccess {
        RegistryAccess {
            ca_pem: None,
            mirrors: Vec::new(),
            poll: POLL,
            addresses: Vec::new(),
            proxy: None,
            plain_http: false,
        }
    }
}

/// Another registry with the same repositories, optionally under a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mirror {
    /// Host, with the port if needed.
    pub host: String,
    /// Prefix of the repository at the mirror; may be empty.
    pub prefix: String,
}

impl Mirror {
    /// Parses `host[:port][/prefix]`; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim_end_matches('/');
        // Same rules as for a location, which starts with this text.
        let Ok(Location::Oci(place)) = Location::parse(&format!("oci://{text}/x")) else {
            return None;
        };
        let is_bare = place.tag.is_none() && place.digest.is_none();
        let prefix = place.repository.strip_suffix('x')?.trim_end_matches('/');
        is_bare.then(|| Self {
            host: place.registry,
            prefix: prefix.to_owned(),
        })
    }
}

/// An artifact in a registry. A poll continues when it is not awaited, and ends when the source is dropped.
pub struct OciSource {
    place: String,
    repository: Arc<Repository>,
    credentials: watch::Receiver<Option<RegistryCredentials>>,
    pacing: Pacing,
    /// The poll in progress.
    look: Option<Look>,
    known: Known,
    last_answer: LastAnswer,
}

/// State kept between polls.
#[derive(Default)]
struct Known {
    /// The artifact that was returned last.
    brought: Option<Arc<BroughtArtifact>>,
    /// A manifest that can never be used as a module.
    unusable: Option<(String, RegistryError)>,
    partial: Option<blob::Partial>,
}

/// A returned artifact. It is returned again after an error, without another download; its bytes are shared with
/// whoever it was returned to.
struct BroughtArtifact {
    /// Digest of its manifest.
    digest: String,
    /// The evidence listing of the manifest.
    listing: Listing,
    artifact: Artifact,
}

impl Known {
    /// Remembers an artifact, and returns it.
    fn brings(&mut self, digest: String, listing: Listing, artifact: Artifact) -> Artifact {
        self.brought = Some(Arc::new(BroughtArtifact {
            digest,
            listing,
            artifact: artifact.clone(),
        }));
        artifact
    }
}

/// Result of a poll: a new artifact, nothing new, or an error.
type Seen = (Known, Result<Option<Artifact>, RegistryError>);

/// A task that is aborted when its handle is dropped.
struct Look(JoinHandle<Seen>);

impl Drop for Look {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl OciSource {
    /// Creates the source without sending a request. `place` is the operator's text.
    ///
    /// # Errors
    /// The settings cannot be used: an invalid CA, for example.
    pub fn new(place: String, settings: OciSettings) -> Result<Self, SourceError> {
        Self::with(place, settings, Arc::new(SystemLookup), Timeouts::default())
    }

    fn with(
        place: String,
        settings: OciSettings,
        lookup: Arc<dyn NameLookup>,
        timeouts: Timeouts,
    ) -> Result<Self, SourceError> {
        let repository =
            Repository::new(&settings, lookup, timeouts).map_err(|trouble| trouble.at(&place))?;
        Ok(Self {
            place,
            repository: Arc::new(repository),
            pacing: Pacing::new(settings.access.poll, settings.place.digest.is_some()),
            credentials: settings.credentials,
            look: None,
            known: Known::default(),
            last_answer: LastAnswer::default(),
        })
    }

    /// Polls once, or resumes the poll in progress.
    async fn look(&mut self) -> Result<Option<Artifact>, RegistryError> {
        let look = self.look.get_or_insert_with(|| {
            let (repository, known) = (self.repository.clone(), std::mem::take(&mut self.known));
            // What was returned can be asked for again meanwhile.
            self.known.brought.clone_from(&known.brought);
            self.credentials.mark_unchanged();
            Look(tokio::spawn(look(repository, known)))
        });
        let seen = (&mut look.0).await;
        self.look = None;
        match seen {
            Ok((known, seen)) => {
                self.known = known;
                seen
            }
            Err(_) => Err(RegistryError::unavailable(PANICKED)),
        }
    }
}

async fn look(repository: Arc<Repository>, mut known: Known) -> Seen {
    let seen = see(&repository, &mut known).await;
    (known, seen)
}

async fn see(
    repository: &Repository,
    known: &mut Known,
) -> Result<Option<Artifact>, RegistryError> {
    repository.forget_credentials();
    let digest = repository.resolve().await?;
    if let Some((unusable, trouble)) = &known.unusable
        && *unusable == digest
    {
        return Err(trouble.clone());
    }
    let same = |brought: &Arc<BroughtArtifact>| brought.digest == digest;
    let brought = known.brought.clone().filter(same);
    let artifact = match &brought {
        Some(brought) => brought.artifact.clone(),
        None => {
            let pulled = repository.pull(&digest, &mut known.partial, &|_| {}).await;
            pulled.inspect_err(|trouble| {
                if trouble.is_lasting {
                    known.unusable = Some((digest.clone(), trouble.clone()));
                }
            })?
        }
    };
    // Signatures are published after the artifact that they sign. Not all policies need one: without an answer to this
    // question the artifact is offered, too.
    let listed = repository.listing(&digest).await;
    if brought.is_some_and(|brought| !listed.is_other(&brought.listing)) {
        return Ok(None);
    }
    let artifact = repository.signed(artifact, &listed).await;
    Ok(Some(known.brings(digest, listed.listing, artifact)))
}

impl Source for OciSource {
    fn next(&mut self) -> Brought<'_> {
        Box::pin(async move {
            loop {
                if self.look.is_none() {
                    self.pacing.wait(&mut self.credentials).await;
                }
                let answer = match self.look().await {
                    Ok(seen) => {
                        self.pacing.had();
                        // An earlier error is over. It may have withdrawn the offer, which counts again.
                        let brought = self.known.brought.as_ref();
                        let artifact = seen.or_else(|| Some(brought?.artifact.clone()));
                        artifact.map(Ok)
                    }
                    Err(trouble) => {
                        self.pacing.failed(&trouble);
                        Some(Err(trouble.at(&self.place)))
                    }
                };
                let answer = answer.and_then(|answer| self.last_answer.unless_repeated(answer));
                if let Some(answer) = answer {
                    return answer;
                }
            }
        })
    }

    fn again<'a>(&'a self, release: &'a Release) -> Brought<'a> {
        Box::pin(async move {
            let brought = self.known.brought.as_deref();
            let again = self.repository.again(release, brought).await;
            again.map_err(|trouble| trouble.of_known_content().at(&self.place))
        })
    }

    fn place(&self) -> &str {
        &self.place
    }
}

/// Fetches an artifact once, for interactive use.
///
/// # Errors
/// See [`SourceError`].
pub async fn pull(
    settings: &OciSettings,
    progress: &(dyn Fn(DownloadProgress) + Sync),
) -> Result<Artifact, SourceError> {
    let pulling = async {
        let (lookup, timeouts) = (Arc::new(SystemLookup), Timeouts::default());
        let repository = Repository::new(settings, lookup, timeouts)?;
        let digest = repository.resolve().await?;
        let artifact = repository.pull(&digest, &mut None, progress).await?;
        let listed = repository.listing(&digest).await;
        Ok(repository.signed(artifact, &listed).await)
    };
    pulling
        .await
        .map_err(|trouble: RegistryError| trouble.at(&settings.place.to_string()))
}

#[cfg(test)]
mod tests;
