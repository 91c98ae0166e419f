//! Fetches one artifact of one repository, from the registry or its mirrors. All content is fetched by digest; a tag is
//! only resolved to its digest.

use std::sync::Arc;

use ccm_core::rollout::Release;
use ccm_host::Digest;
use ccm_host::egress::NameLookup;
use http::header::CONTENT_TYPE;
use tracing::warn;

use super::blob::{self, DownloadProgress, Partial};
use super::connect::{Connections, Timeouts};
use super::evidence::{self, Listing};
use super::manifest::{self, Offer};
use super::registry::{Registry, Site};
use super::registry_error::RegistryError;
use super::{BroughtArtifact, Mirror, OciSettings};
use crate::artifact::Artifact;
use crate::source::unpack::{self, NoModule};
use crate::source::{Location, OciPlace, SourceErrorKind};

/// The repository at all of its registries: mirrors in the operator's order, then its own registry.
pub(super) struct Repository {
    place: OciPlace,
    registries: Vec<Registry>,
}

/// What the registries list of an artifact's evidence.
#[derive(Default)]
pub(super) struct Listed {
    pub(super) listing: Listing,
    /// The position of the registry that lists it.
    at: usize,
    /// Why there may be more: the registries that did not answer.
    unanswered: Vec<String>,
}

impl Listed {
    /// Whether it is other evidence than was listed before. That no registry answers says nothing about it.
    pub(super) fn is_other(&self, before: &Listing) -> bool {
        let is_known = self.unanswered.is_empty() || !self.listing.is_empty();
        is_known && self.listing != *before
    }
}

impl Repository {
    pub(super) fn new(
        settings: &OciSettings,
        lookup: Arc<dyn NameLookup>,
        timeouts: Timeouts,
    ) -> Result<Self, RegistryError> {
        let OciPlace {
            registry,
            repository,
            ..
        } = &settings.place;
        let access = &settings.access;
        let site = |host: &str, repository: &str| Site::new(host, repository, access.plain_http);
        let mut sites = Vec::new();
        for Mirror { host, prefix } in &access.mirrors {
            let separator = if prefix.is_empty() { "" } else { "/" };
            sites.push(site(host, &format!("{prefix}{separator}{repository}"))?);
        }
        sites.push(site(registry, repository)?);
        let named = sites.iter().map(Site::named).collect();
        let connections = Arc::new(Connections::new(access, named, &lookup, timeouts)?);
        let open = |site| Registry::new(site, connections.clone(), settings.credentials.clone());
        Ok(Self {
            place: settings.place.clone(),
            registries: sites.into_iter().map(open).collect(),
        })
    }

    pub(super) fn forget_credentials(&self) {
        self.registries
            .iter()
            .for_each(Registry::forget_credentials);
    }

    /// The digest of the manifest: pinned, or resolved from the tag now.
    pub(super) async fn resolve(&self) -> Result<String, RegistryError> {
        if let Some(digest) = &self.place.digest {
            return Ok(digest.clone());
        }
        let tag = self.place.tag.as_deref().unwrap_or("latest");
        let mut last = RegistryError::absent("no registry");
        for registry in &self.registries {
            match self.tag(registry, tag).await {
                Ok(digest) => return Ok(digest),
                Err(trouble) => last = self.next_registry(registry, last, trouble),
            }
        }
        Err(last)
    }

    async fn tag(&self, registry: &Registry, tag: &str) -> Result<String, RegistryError> {
        if let Some(digest) = registry.digest_under(tag).await? {
            return Ok(digest);
        }
        let (_, bytes) = registry.manifest(tag).await?;
        Ok(Digest::of(&bytes).to_string())
    }

    /// The evidence listing of the first registry that has evidence.
    pub(super) async fn listing(&self, digest: &str) -> Listed {
        let mut listed = Listed::default();
        for (at, registry) in self.registries.iter().enumerate() {
            let listing = &mut listed.listing;
            if let Err(trouble) = evidence::list(registry, digest, listing).await {
                listed.unanswered.push(trouble.why);
            }
            if !listed.listing.is_empty() {
                return Listed { at, ..listed };
            }
        }
        listed
    }

    /// The artifact with the listed evidence.
    pub(super) async fn signed(&self, artifact: Artifact, listed: &Listed) -> Artifact {
        let (mut evidence, mut unanswered) = (Vec::new(), listed.unanswered.clone());
        if let Some(registry) = self.registries.get(listed.at)
            && let Err(trouble) = evidence::fetch(registry, &listed.listing, &mut evidence).await
        {
            unanswered.push(trouble.why);
        }
        Artifact {
            evidence,
            unanswered,
            ..artifact
        }
    }

    /// Fetches the artifact of `digest`, without its evidence.
    pub(super) async fn pull(
        &self,
        digest: &str,
        kept: &mut Option<Partial>,
        progress: &(dyn Fn(DownloadProgress) + Sync),
    ) -> Result<Artifact, RegistryError> {
        let mut last = RegistryError::absent("no registry");
        for registry in &self.registries {
            match self.module(registry, digest, kept, progress).await {
                Ok(wasm) => return Ok(self.artifact(digest, wasm)),
                // The bytes are at fault, and other registries have the same.
                Err(trouble) if trouble.is_lasting => return Err(trouble),
                Err(trouble) => last = self.next_registry(registry, last, trouble),
            }
        }
        Err(last)
    }

    fn artifact(&self, digest: &str, wasm: Vec<u8>) -> Artifact {
        let origin = OciPlace {
            tag: None,
            digest: Some(digest.to_owned()),
            ..self.place.clone()
        };
        Artifact {
            manifest_digest: Some(digest.to_owned()),
            ..Artifact::new(origin.to_string(), wasm)
        }
    }

    /// Fetches exactly the bytes of a release by the digest of its manifest, with the current evidence of all registries:
    /// that of the first one may not suffice. A repository that was moved has it under the same digest. The bytes of
    /// `brought` are not downloaded again: a version may wait for its signature for days.
    pub(super) async fn again(
        &self,
        release: &Release,
        brought: Option<&BroughtArtifact>,
    ) -> Result<Artifact, RegistryError> {
        let digest = match Location::parse(&release.origin) {
            Ok(Location::Oci(origin)) => origin.digest,
            _ => None,
        };
        let digest = digest
            .ok_or_else(|| RegistryError::absent("the version was brought from elsewhere"))?;
        // As for each poll: the login may have been replaced since, and some registries do not ask for another one.
        self.forget_credentials();
        let artifact = match brought.filter(|brought| brought.digest == digest) {
            Some(brought) => brought.artifact.clone(),
            None => self.pull(&digest, &mut None, &|_| {}).await?,
        };
        if artifact.digest.to_string() != release.digest {
            return Err(RegistryError::unusable(
                "what its origin names is not that version",
            ));
        }
        let (mut found, mut unanswered) = (Vec::new(), Vec::new());
        for registry in &self.registries {
            let mut pieces = Vec::new();
            if let Err(trouble) = evidence::fetch_all(registry, &digest, &mut pieces).await {
                unanswered.push(trouble.why);
            }
            found.push(pieces);
        }
        Ok(Artifact {
            evidence: evidence::merged(&found),
            unanswered,
            ..artifact
        })
    }

    async fn module(
        &self,
        registry: &Registry,
        digest: &str,
        kept: &mut Option<Partial>,
        progress: &(dyn Fn(DownloadProgress) + Sync),
    ) -> Result<Vec<u8>, RegistryError> {
        let layer = match self.offer(registry, digest).await? {
            Offer::Layer(layer) => layer,
            Offer::Manifest(entry) => match self.offer(registry, &entry.digest).await? {
                Offer::Layer(layer) => layer,
                Offer::Manifest(_) => {
                    return Err(RegistryError::unusable("an index of indices is no module"));
                }
            },
        };
        let wasm = blob::download(registry, &layer, kept, progress).await?;
        check_form(&wasm)?;
        Ok(wasm)
    }

    async fn offer(&self, registry: &Registry, digest: &str) -> Result<Offer, RegistryError> {
        let (headers, bytes) = registry.manifest(digest).await?;
        if Digest::of(&bytes).to_string() != digest {
            let why = format!(
                "{} sent a manifest whose digest is not what was asked for",
                registry.site.host
            );
            return Err(RegistryError::refused(why));
        }
        let kind = headers
            .get(CONTENT_TYPE)
            .and_then(|kind| kind.to_str().ok());
        manifest::offer(&bytes, kind.unwrap_or_default())
    }

    /// Tries the next registry after an error, and returns the one to report: the last one's. But what one registry lacks
    /// is not gone while another one, which was asked before and may have it, does not answer or refuses.
    fn next_registry(
        &self,
        registry: &Registry,
        before: RegistryError,
        trouble: RegistryError,
    ) -> RegistryError {
        if registry.site.host != self.place.registry {
            warn!(place = %self.place, mirror = registry.site.host, "the mirror does not help: {}", trouble.why);
        }
        let kind = match (before.kind, trouble.kind) {
            (SourceErrorKind::Denied, SourceErrorKind::Absent) => SourceErrorKind::Denied,
            (
                SourceErrorKind::Unavailable | SourceErrorKind::Refused(_),
                SourceErrorKind::Absent,
            ) => SourceErrorKind::Unavailable,
            _ => return trouble,
        };
        RegistryError {
            kind,
            why: format!("{}, and {}", trouble.why, before.why),
            ..trouble
        }
    }
}

/// A layer of these types is the plain module. Its content is validated later.
fn check_form(wasm: &[u8]) -> Result<(), RegistryError> {
    let found = match unpack::check(wasm) {
        Ok(()) => return Ok(()),
        Err(NoModule::Empty) => "empty",
        Err(_) if wasm.starts_with(unpack::GZIP) => "packed with gzip",
        Err(NoModule::Zstd) => "packed with zstd",
        Err(_) => "no WebAssembly",
    };
    Err(RegistryError::unusable(format!(
        "its layer is {found}; a module is put there as it is"
    )))
}
