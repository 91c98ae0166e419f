//! Finds evidence for an artifact in its own repository: cosign's signatures under a tag, and Sigstore bundles that
//! refer to it. Verifies digests only. Unreadable evidence proves nothing and is left out.

use std::collections::{BTreeMap, VecDeque};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ccm_host::Digest;
use parking_lot::Mutex;

use super::manifest::{self, ACCEPTED, Descriptor, INDEX, MANIFEST_BYTES, Manifest};
use super::registry::{Ask, Registry};
use super::registry_error::RegistryError;
use crate::artifact::{EVIDENCE_BYTES, MOST_EVIDENCE, SIGNATURE_STATEMENT, SignatureEvidence};
use crate::source::SourceErrorKind;

/// Media type of Sigstore bundles, as artifacts and as layers.
pub(super) const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
const SIMPLE_SIGNING: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
/// The annotation that names the type of a bundle's statement. Attestations have the artifact type of signatures.
const PREDICATE: &str = "dev.sigstore.bundle.predicateType";

/// Maximum number of manifests that are examined for bundles: where the list lacks the annotation, only the manifest
/// tells an attestation from a signature.
const MOST_EXAMINED: usize = 64;
/// Maximum number of pages of a list of referrers.
const MOST_PAGES: usize = 8;
/// Maximum number of tags that are kept: two for the manifest that is offered, and two for one that is asked for again.
const MOST_TAGS: usize = 4;

/// Descriptors of one artifact's evidence, before it is fetched. Equal listings have equal evidence.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Listing {
    signatures: Vec<Descriptor>,
    bundles: Vec<Descriptor>,
}

impl Listing {
    pub(super) fn is_empty(&self) -> bool {
        self.signatures.is_empty() && self.bundles.is_empty()
    }
}

/// Lists the evidence for the manifest `digest` (`sha256:<hex>`). What is listed before an error counts.
pub(super) async fn list(
    registry: &Registry,
    digest: &str,
    found: &mut Listing,
) -> Result<(), RegistryError> {
    let tag = digest.replace(':', "-");
    found.signatures = under(registry, &format!("{tag}.sig"), |manifest| {
        let layers = manifest.layers.unwrap_or_default();
        let is_signature = |layer: &Descriptor| layer.media_type == SIMPLE_SIGNING;
        latest(layers, is_signature, MOST_EVIDENCE)
    })
    .await?;
    found.bundles = referrers(registry, digest).await?;
    if found.bundles.is_empty() {
        // Fallback for registries without the referrers API: clients keep an index under a tag.
        found.bundles = under(registry, &tag, |index| {
            let entries = index.manifests.unwrap_or_default();
            latest(entries, may_be_signature, MOST_EXAMINED)
        })
        .await?;
    }
    Ok(())
}

/// The tags of one registry that were read last. What has not moved is not read again.
#[derive(Default)]
pub(super) struct ReadTags(Mutex<VecDeque<ReadTag>>);

struct ReadTag {
    tag: String,
    /// Digest of the manifest under it.
    digest: String,
    /// The descriptors in the manifest that matter.
    found: Vec<Descriptor>,
}

impl ReadTags {
    fn get(&self, tag: &str, digest: &str) -> Option<Vec<Descriptor>> {
        let all = self.0.lock();
        let read = all.iter().find(|read| read.tag == tag)?;
        (read.digest == digest).then(|| read.found.clone())
    }

    fn put(&self, read: ReadTag) {
        let mut all = self.0.lock();
        all.retain(|kept| kept.tag != read.tag);
        all.push_front(read);
        all.truncate(MOST_TAGS);
    }
}

/// The descriptors that `wanted` selects from the manifest under a tag, if there is one.
async fn under(
    registry: &Registry,
    tag: &str,
    wanted: impl Fn(Manifest) -> Vec<Descriptor>,
) -> Result<Vec<Descriptor>, RegistryError> {
    let found = read(registry, tag, wanted).await.map(Some);
    Ok(found.or_else(absent)?.unwrap_or_default())
}

async fn read(
    registry: &Registry,
    tag: &str,
    wanted: impl Fn(Manifest) -> Vec<Descriptor>,
) -> Result<Vec<Descriptor>, RegistryError> {
    if let Some(digest) = registry.digest_under(tag).await?
        && let Some(found) = registry.read_tags.get(tag, &digest)
    {
        return Ok(found);
    }
    let (_, bytes) = registry.manifest(tag).await?;
    let found = manifest::read(&bytes).map(wanted).unwrap_or_default();
    registry.read_tags.put(ReadTag {
        tag: tag.to_owned(),
        digest: Digest::of(&bytes).to_string(),
        found: found.clone(),
    });
    Ok(found)
}

/// The bundles that the registry lists as referring to a manifest.
async fn referrers(registry: &Registry, digest: &str) -> Result<Vec<Descriptor>, RegistryError> {
    let mut path = format!(
        "referrers/{digest}?artifactType=application%2Fvnd.dev.sigstore.bundle.v0.3%2Bjson"
    );
    let mut found = Vec::new();
    for _ in 0..MOST_PAGES {
        let ask = Ask::get(&path).accepting(ACCEPTED);
        let answer = registry.ask_whole(ask, MANIFEST_BYTES).await;
        let Some((headers, bytes)) = answer.map(Some).or_else(absent)? else {
            break;
        };
        let index = manifest::read(&bytes).ok();
        let index = index.filter(|index| index.media_type.as_deref() == Some(INDEX));
        let entries = index.and_then(|index| index.manifests).unwrap_or_default();
        found.extend(entries);
        found = latest(found, may_be_signature, MOST_EXAMINED);
        match registry.next_page(&headers) {
            Some(next) => path = next,
            None => break,
        }
    }
    Ok(found)
}

/// The last `most` wanted descriptors: new ones are appended.
fn latest(
    all: Vec<Descriptor>,
    is_wanted: impl Fn(&Descriptor) -> bool,
    most: usize,
) -> Vec<Descriptor> {
    let mut wanted: Vec<_> = all.into_iter().filter(is_wanted).collect();
    let surplus = wanted.len().saturating_sub(most);
    wanted.split_off(surplus)
}

fn may_be_signature(entry: &Descriptor) -> bool {
    entry.artifact_type.as_deref() == Some(BUNDLE) && names_no_other(&entry.annotations)
}

/// Whether annotations name the statement of a signature, or none. cosign's own index under a tag lacks them.
fn names_no_other(annotations: &BTreeMap<String, String>) -> bool {
    let kind = annotations.get(PREDICATE);
    kind.is_none_or(|kind| kind == SIGNATURE_STATEMENT)
}

/// Fetches the latest evidence, at most [`MOST_EVIDENCE`] pieces. What is fetched before an error counts.
pub(super) async fn fetch(
    registry: &Registry,
    listing: &Listing,
    found: &mut Vec<SignatureEvidence>,
) -> Result<(), RegistryError> {
    for entry in listing.bundles.iter().rev() {
        if found.len() == MOST_EVIDENCE {
            break;
        }
        found.extend(bundle(registry, entry).await?);
    }
    for layer in listing.signatures.iter().rev() {
        if found.len() == MOST_EVIDENCE {
            break;
        }
        found.extend(signature(registry, layer).await?);
    }
    Ok(())
}

/// Fetches the latest evidence for the manifest `digest` that a registry has. What is fetched before an error counts.
pub(super) async fn fetch_all(
    registry: &Registry,
    digest: &str,
    found: &mut Vec<SignatureEvidence>,
) -> Result<(), RegistryError> {
    let mut listing = Listing::default();
    let listed = list(registry, digest, &mut listing).await;
    fetch(registry, &listing, found).await.and(listed)
}

/// At most [`MOST_EVIDENCE`] different pieces, of each registry in turn: one with many hides none of another.
pub(super) fn merged(found: &[Vec<SignatureEvidence>]) -> Vec<SignatureEvidence> {
    let mut all = Vec::new();
    for turn in 0..MOST_EVIDENCE {
        for piece in found.iter().filter_map(|pieces| pieces.get(turn)) {
            if all.len() < MOST_EVIDENCE && !all.contains(piece) {
                all.push(piece.clone());
            }
        }
    }
    all
}

async fn bundle(
    registry: &Registry,
    entry: &Descriptor,
) -> Result<Option<SignatureEvidence>, RegistryError> {
    let Some(bytes) = verified(registry, "manifests", entry).await? else {
        return Ok(None);
    };
    let Ok(manifest) = manifest::read(&bytes) else {
        return Ok(None);
    };
    if !names_no_other(&manifest.annotations.unwrap_or_default()) {
        return Ok(None);
    }
    let layers = manifest.layers.unwrap_or_default();
    let layer = layers.into_iter().find(|layer| layer.media_type == BUNDLE);
    let Some(layer) = layer else { return Ok(None) };
    let bytes = verified(registry, "blobs", &layer).await?;
    Ok(bytes.map(SignatureEvidence::Bundle))
}

async fn signature(
    registry: &Registry,
    layer: &Descriptor,
) -> Result<Option<SignatureEvidence>, RegistryError> {
    let named = |name: &str| {
        layer
            .annotations
            .get(name)
            .filter(|text| text.len() <= EVIDENCE_BYTES)
    };
    let signature =
        named("dev.cosignproject.cosign/signature").and_then(|text| STANDARD.decode(text).ok());
    let Some(signature) = signature else {
        return Ok(None);
    };
    let Some(payload) = verified(registry, "blobs", layer).await? else {
        return Ok(None);
    };
    let bytes = |name: &str| named(name).map(|text| text.clone().into_bytes());
    Ok(Some(SignatureEvidence::SimpleSigning {
        payload,
        signature,
        certificate: named("dev.sigstore.cosign/certificate").cloned(),
        chain: named("dev.sigstore.cosign/chain").cloned(),
        log_entry: bytes("dev.sigstore.cosign/bundle"),
        time_stamp: bytes("dev.sigstore.cosign/rfc3161timestamp"),
    }))
}

/// Fetches the small blob of a descriptor and verifies its digest.
async fn verified(
    registry: &Registry,
    kind: &str,
    descriptor: &Descriptor,
) -> Result<Option<Vec<u8>>, RegistryError> {
    let Some(digest) = Digest::parse(&descriptor.digest) else {
        return Ok(None);
    };
    if descriptor.size > EVIDENCE_BYTES as u64 {
        return Ok(None);
    }
    let path = format!("{kind}/{digest}");
    let ask = Ask::get(&path).accepting(ACCEPTED_OR_ANY);
    match registry.ask_whole(ask, EVIDENCE_BYTES).await {
        Ok((_, bytes)) => Ok(Some(bytes).filter(|bytes| Digest::of(bytes) == digest)),
        Err(trouble) => absent(trouble),
    }
}

const ACCEPTED_OR_ANY: &str = "application/vnd.oci.image.manifest.v1+json, */*";

/// Evidence that a registry lacks, hides or cannot be asked for counts as absent. An unavailable registry is an error:
/// it may hold some.
fn absent<T>(trouble: RegistryError) -> Result<Option<T>, RegistryError> {
    match trouble.kind {
        SourceErrorKind::Unavailable => Err(trouble),
        SourceErrorKind::Absent | SourceErrorKind::Denied | SourceErrorKind::Refused(_) => Ok(None),
    }
}
