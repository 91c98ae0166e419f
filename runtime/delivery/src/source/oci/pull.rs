//! Fetches one artifact of one repository, from the registry or its mirrors. All content is fetched by digest; a tag is
//! only resolved to its digest.

use std::sync::Arc;

use ccm_core::rollout::Release;
use ccm_host::Digest;
use ccm_host::egress::NameLookup;
use http::header::CONTENT_TYPE;
use tracing::warn;

use super::blob::{self, DownloadProgress, Partial};
use super::connect::{Connections, Reach, Timeouts};
use super::evidence::{self, Listing};
use super::manifest::{self, Offer};
use super::registry::{Registry, Site};
use super::registry_error::{Kind, RegistryError};
use super::{BroughtArtifact, Mirror, OciSettings};
use crate::artifact::{Artifact, SignatureEvidence};
use crate::source::{Location, OciPlace};

/// The repository at all of its registries: mirrors in the operator's order, then its own registry.
pub(super) struct Repository {
    place: OciPlace,
    registries: Vec<Registry>,
}

/// A fetched artifact and its evidence listing.
pub(super) struct Pulled {
    pub(super) artifact: Artifact,
    pub(super) listing: Listing,
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
        let site = |host: &str, repository: &str| Site::new(host, repository, settings.plain_http);
        let mut sites = Vec::new();
        for Mirror { host, prefix } in &settings.mirrors {
            let separator = if prefix.is_empty() { "" } else { "/" };
            sites.push(site(host, &format!("{prefix}{separator}{repository}"))?);
        }
        sites.push(site(registry, repository)?);
        let reach = Reach {
            named: sites.iter().map(Site::named).collect(),
            addresses: &settings.addresses,
            ca_pem: settings.ca_pem.as_deref(),
            plain_http: settings.plain_http,
            proxy: settings.proxy.as_ref(),
            lookup,
        };
        let connections = Arc::new(Connections::new(reach, timeouts)?);
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

    /// The evidence listing, from the first registry that has evidence.
    pub(super) async fn listing(&self, digest: &str) -> Result<(Listing, usize), RegistryError> {
        let mut answered = None;
        let mut last = RegistryError::absent("no registry");
        for (at, registry) in self.registries.iter().enumerate() {
            match evidence::list(registry, digest).await {
                Ok(listing) if !listing.is_empty() => return Ok((listing, at)),
                Ok(listing) => answered = Some((listing, at)),
                Err(trouble) => last = self.next_registry(registry, last, trouble),
            }
        }
        if answered.is_some() && matches!(last.kind, Kind::Unavailable | Kind::Denied) {
            warn!(place = %self.place, "no signature was found, and a registry that may have one does not give it: {}", last.why);
        }
        answered.ok_or(last)
    }

    /// Fetches the complete artifact of `digest`.
    pub(super) async fn pull(
        &self,
        digest: &str,
        kept: &mut Option<Partial>,
        progress: &(dyn Fn(DownloadProgress) + Sync),
    ) -> Result<Pulled, RegistryError> {
        let mut last = RegistryError::absent("no registry");
        for registry in &self.registries {
            let wasm = match self.module(registry, digest, kept, progress).await {
                Ok(wasm) => wasm,
                // The bytes are at fault, and other registries have the same.
                Err(trouble) if trouble.is_lasting => return Err(trouble),
                Err(trouble) => {
                    last = self.next_registry(registry, last, trouble);
                    continue;
                }
            };
            let (listing, evidence) = self.evidence(digest).await?;
            let origin = OciPlace {
                tag: None,
                digest: Some(digest.to_owned()),
                ..self.place.clone()
            };
            let artifact = Artifact {
                digest: Digest::of(&wasm),
                wasm: wasm.into(),
                origin: origin.to_string(),
                manifest_digest: Some(digest.to_owned()),
                is_pinned: self.place.digest.is_some(),
                evidence,
            };
            return Ok(Pulled { artifact, listing });
        }
        Err(last)
    }

    /// Fetches exactly the bytes of a release that came from this repository, with its current evidence. The bytes of
    /// `brought` are not downloaded again: a version may wait for its signature for days.
    pub(super) async fn again(
        &self,
        release: &Release,
        brought: Option<&BroughtArtifact>,
    ) -> Result<Artifact, RegistryError> {
        let Ok(Location::Oci(origin)) = Location::parse(&release.origin) else {
            return Err(RegistryError::absent(
                "the version was brought from elsewhere",
            ));
        };
        let is_here = (&origin.registry, &origin.repository)
            == (&self.place.registry, &self.place.repository);
        let Some(digest) = origin.digest.filter(|_| is_here) else {
            return Err(RegistryError::absent(
                "the version was brought from elsewhere",
            ));
        };
        // As for each poll: the login may have been replaced since, and some registries do not ask for another one.
        self.forget_credentials();
        let mut artifact = match brought.filter(|brought| brought.digest == digest) {
            Some(brought) => Artifact {
                evidence: self.evidence(&digest).await?.1,
                ..brought.artifact.clone()
            },
            None => self.pull(&digest, &mut None, &|_| {}).await?.artifact,
        };
        artifact.is_pinned = self.place.digest.as_ref() == Some(&digest);
        match artifact.digest.to_string() == release.digest {
            true => Ok(artifact),
            false => Err(RegistryError::unusable(
                "what its origin names is not that version",
            )),
        }
    }

    async fn evidence(
        &self,
        digest: &str,
    ) -> Result<(Listing, Vec<SignatureEvidence>), RegistryError> {
        let (listing, at) = self.listing(digest).await?;
        let found = self.fetch_evidence(&listing, at).await?;
        Ok((listing, found))
    }

    /// Fetches the listed evidence from the registry that has it, as [`Self::listing`] returns both.
    pub(super) async fn fetch_evidence(
        &self,
        listing: &Listing,
        at: usize,
    ) -> Result<Vec<SignatureEvidence>, RegistryError> {
        match self.registries.get(at) {
            Some(registry) => evidence::fetch(registry, listing).await,
            None => Ok(Vec::new()),
        }
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
            (Kind::Denied, Kind::Absent) => Kind::Denied,
            (Kind::Unavailable | Kind::Refused, Kind::Absent) => Kind::Unavailable,
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
    let found = match wasm {
        [b'\0', b'a', b's', b'm', ..] => return Ok(()),
        [] => "empty",
        [0x1f, 0x8b, ..] => "packed with gzip",
        [0x28, 0xb5, 0x2f, 0xfd, ..] => "packed with zstd",
        _ => "no WebAssembly",
    };
    Err(RegistryError::unusable(format!(
        "its layer is {found}; a module is put there as it is"
    )))
}
