//! Artifacts in OCI registries: `oci://registry/repository[:tag][@sha256:digest]`, in the layout of the CNCF for Wasm.
//! A tag is looked at again and again, a digest only until it was had.
//!
//! A registry is as untrusted as what it keeps: everything is bounded, every address that it sends us to is checked,
//! and nothing counts whose digest is not right. Nothing is unpacked, and nobody is trusted here.
//!
//! The client is our own over reqwest: `oci-client` has no place for checks of addresses and redirects, no limits on
//! answers, and does not go on with a download that was cut.

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
use ccm_host::egress::{Lookup, SystemLookup};
use ipnet::IpNet;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use blob::Progress;
pub use login::{CredentialsError, RegistryCredentials};

use super::{Brought, Location, OciPlace, Source, SourceError};
use crate::artifact::Artifact;
use connect::Timeouts;
use evidence::Listing;
use pacing::Pacing;
use pull::Repository;
use registry_error::RegistryError;

/// How often a tag is looked at, unless the operator says otherwise.
pub const POLL: Duration = Duration::from_secs(300);

/// How one artifact is had.
#[derive(Clone)]
pub struct OciSettings {
    /// Which.
    pub place: OciPlace,
    /// The logins that count now; a rotated Secret is used with the next look.
    pub credentials: watch::Receiver<Option<RegistryCredentials>>,
    /// The only certificates that are trusted, in PEM; `None`: those of the platform.
    pub ca_pem: Option<String>,
    /// Asked before the registry, in this order.
    pub mirrors: Vec<Mirror>,
    /// How often a tag is looked at; see [`POLL`].
    pub poll: Duration,
    /// Ranges of private and loopback addresses that may be dialled. An address that stands in the place or a mirror
    /// itself needs no range.
    pub addresses: Vec<IpNet>,
    /// Whether registries on this machine (`127.0.0.1`, `[::1]`, `localhost`) are spoken to without TLS. Others never are.
    pub plain_http: bool,
}

impl PartialEq for OciSettings {
    /// Credentials are the same when they come from the same place, whatever they are now.
    fn eq(&self, other: &Self) -> bool {
        self.credentials.same_channel(&other.credentials)
            && (&self.place, &self.ca_pem, &self.mirrors)
                == (&other.place, &other.ca_pem, &other.mirrors)
            && (self.poll, &self.addresses, self.plain_http)
                == (other.poll, &other.addresses, other.plain_http)
    }
}

/// Another registry that has the same repositories, perhaps under a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mirror {
    /// Host, with a port where needed.
    pub host: String,
    /// What stands before the repository there; may be empty.
    pub prefix: String,
}

impl Mirror {
    /// Reads `host[:port][/prefix]`; `None` when it is something else.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim_end_matches('/');
        // The same rules as for a place, of which a mirror is the beginning.
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

/// An artifact in a registry. What is under way goes on while nobody waits for it, and ends when this is dropped.
pub struct OciSource {
    place: String,
    repository: Arc<Repository>,
    credentials: watch::Receiver<Option<RegistryCredentials>>,
    pacing: Pacing,
    /// The look that is under way.
    look: Option<Look>,
    known: Known,
    said: Option<SourceError>,
}

/// What is remembered from one look to the next.
#[derive(Default)]
struct Known {
    /// The manifest that was brought last, and what vouched for it.
    brought: Option<(String, Listing)>,
    /// A manifest that never will be a module.
    unusable: Option<(String, RegistryError)>,
    partial: Option<blob::Partial>,
}

/// What a look ends with: something new, nothing new, or trouble.
type Seen = (Known, Result<Option<Artifact>, RegistryError>);

/// A task that ends with its handle.
struct Look(JoinHandle<Seen>);

impl Drop for Look {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl OciSource {
    /// Opens the place; asks nobody yet. `place` is what the operator wrote.
    ///
    /// # Errors
    /// The settings cannot be used: the CA, for example.
    pub fn new(place: String, settings: OciSettings) -> Result<Self, SourceError> {
        Self::with(place, settings, Arc::new(SystemLookup), Timeouts::default())
    }

    fn with(
        place: String,
        settings: OciSettings,
        lookup: Arc<dyn Lookup>,
        patience: Timeouts,
    ) -> Result<Self, SourceError> {
        let repository =
            Repository::new(&settings, lookup, patience).map_err(|trouble| trouble.at(&place))?;
        Ok(Self {
            place,
            repository: Arc::new(repository),
            pacing: Pacing::new(settings.poll, settings.place.digest.is_some()),
            credentials: settings.credentials,
            look: None,
            known: Known::default(),
            said: None,
        })
    }

    /// Looks once; goes on with the look that is under way.
    async fn look(&mut self) -> Result<Option<Artifact>, RegistryError> {
        let look = self.look.get_or_insert_with(|| {
            let (repository, known) = (self.repository.clone(), std::mem::take(&mut self.known));
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
            Err(error) => Err(RegistryError::unavailable(format!(
                "the download broke off: {error}"
            ))),
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
    if let Some((brought, listing)) = &known.brought
        && *brought == digest
        // Signatures come after what they sign.
        && repository.listing(&digest).await?.0 == *listing
    {
        return Ok(None);
    }
    match repository.pull(&digest, &mut known.partial, &|_| {}).await {
        Ok(pulled) => {
            known.brought = Some((digest, pulled.listing));
            Ok(Some(pulled.artifact))
        }
        Err(trouble) => {
            if trouble.is_lasting {
                known.unusable = Some((digest, trouble.clone()));
            }
            Err(trouble)
        }
    }
}

impl Source for OciSource {
    fn next(&mut self) -> Brought<'_> {
        Box::pin(async move {
            loop {
                if self.look.is_none() {
                    self.pacing.wait(&mut self.credentials).await;
                }
                match self.look().await {
                    Ok(Some(artifact)) => {
                        self.pacing.had();
                        self.said = None;
                        return Ok(artifact);
                    }
                    // An error in between is over, and will be news when it comes again.
                    Ok(None) => {
                        self.pacing.had();
                        self.said = None;
                    }
                    Err(trouble) => {
                        self.pacing.failed(&trouble);
                        let error = trouble.at(&self.place);
                        if self.said.as_ref() != Some(&error) {
                            self.said = Some(error.clone());
                            return Err(error);
                        }
                    }
                }
            }
        })
    }

    fn again<'a>(&'a self, release: &'a Release) -> Brought<'a> {
        Box::pin(async move {
            let again = self.repository.again(release).await;
            again.map_err(|trouble| trouble.at(&self.place))
        })
    }

    fn place(&self) -> &str {
        &self.place
    }
}

/// Brings an artifact once, for a person who waits.
///
/// # Errors
/// See [`SourceError`].
pub async fn pull(
    settings: &OciSettings,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<Artifact, SourceError> {
    let pulling = async {
        let (lookup, patience) = (Arc::new(SystemLookup), Timeouts::default());
        let repository = Repository::new(settings, lookup, patience)?;
        let digest = repository.resolve().await?;
        Ok(repository
            .pull(&digest, &mut None, progress)
            .await?
            .artifact)
    };
    pulling
        .await
        .map_err(|trouble: RegistryError| trouble.at(&settings.place.to_string()))
}

#[cfg(test)]
mod tests;
