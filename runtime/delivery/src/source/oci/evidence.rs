//! Finds evidence for an artifact in its own repository: cosign's signatures under a tag, and Sigstore bundles that
//! refer to it. Verifies digests only. Unreadable evidence proves nothing and is left out.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ccm_host::Digest;

use super::connect::Connections;
use super::manifest::{self, ACCEPTED, Descriptor, INDEX, MANIFEST_BYTES, Manifest};
use super::registry::{Ask, Registry};
use super::registry_error::{Kind, RegistryError};
use crate::artifact::{EVIDENCE_BYTES, MOST_EVIDENCE, SignatureEvidence};

/// Media type of Sigstore bundles, as artifacts and as layers.
pub(super) const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
const SIMPLE_SIGNING: &str = "application/vnd.dev.cosign.simplesigning.v1+json";

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

/// Lists the evidence for the manifest `digest` (`sha256:<hex>`).
pub(super) async fn list(
    registry: &Registry,
    connections: &Connections,
    digest: &str,
) -> Result<Listing, RegistryError> {
    let tag = digest.replace(':', "-");
    let signatures = get(registry, connections, &format!("manifests/{tag}.sig")).await?;
    let referrers = format!(
        "referrers/{digest}?artifactType=application%2Fvnd.dev.sigstore.bundle.v0.3%2Bjson"
    );
    let is_bundle = |entry: &Descriptor| entry.artifact_type.as_deref() == Some(BUNDLE);
    let index = get(registry, connections, &referrers).await?;
    let index = index.filter(|index| index.media_type.as_deref() == Some(INDEX));
    let mut bundles = latest(index.and_then(|index| index.manifests), is_bundle);
    if bundles.is_empty() {
        // Fallback for registries without the referrers API: clients keep an index under a tag.
        let index = get(registry, connections, &format!("manifests/{tag}")).await?;
        bundles = latest(index.and_then(|index| index.manifests), is_bundle);
    }
    Ok(Listing {
        signatures: latest(signatures.and_then(|manifest| manifest.layers), |layer| {
            layer.media_type == SIMPLE_SIGNING
        }),
        bundles,
    })
}

/// The last descriptors: new ones are appended.
fn latest(
    all: Option<Vec<Descriptor>>,
    is_wanted: impl Fn(&Descriptor) -> bool,
) -> Vec<Descriptor> {
    let all = all.unwrap_or_default().into_iter();
    let wanted: Vec<_> = all.filter(is_wanted).collect();
    let surplus = wanted.len().saturating_sub(MOST_EVIDENCE);
    wanted.into_iter().skip(surplus).collect()
}

/// Fetches the evidence, at most [`MOST_EVIDENCE`] pieces.
pub(super) async fn fetch(
    registry: &Registry,
    connections: &Connections,
    listing: &Listing,
) -> Result<Vec<SignatureEvidence>, RegistryError> {
    let mut found = Vec::new();
    for entry in listing.bundles.iter().rev() {
        found.extend(bundle(registry, connections, entry).await?);
    }
    for layer in listing.signatures.iter().rev() {
        found.extend(signature(registry, connections, layer).await?);
    }
    found.truncate(MOST_EVIDENCE);
    Ok(found)
}

async fn bundle(
    registry: &Registry,
    connections: &Connections,
    entry: &Descriptor,
) -> Result<Option<SignatureEvidence>, RegistryError> {
    let Some(bytes) = verified(registry, connections, "manifests", entry).await? else {
        return Ok(None);
    };
    let layers = manifest::read(&bytes)
        .ok()
        .and_then(|manifest| manifest.layers);
    let layer = layers
        .unwrap_or_default()
        .into_iter()
        .find(|layer| layer.media_type == BUNDLE);
    let Some(layer) = layer else { return Ok(None) };
    let bytes = verified(registry, connections, "blobs", &layer).await?;
    Ok(bytes.map(SignatureEvidence::Bundle))
}

async fn signature(
    registry: &Registry,
    connections: &Connections,
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
    let Some(payload) = verified(registry, connections, "blobs", layer).await? else {
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
    connections: &Connections,
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
    match registry.ask_whole(connections, ask, EVIDENCE_BYTES).await {
        Ok((_, bytes)) => Ok(Some(bytes).filter(|bytes| Digest::of(bytes) == digest)),
        Err(trouble) => absent(trouble),
    }
}

const ACCEPTED_OR_ANY: &str = "application/vnd.oci.image.manifest.v1+json, */*";

async fn get(
    registry: &Registry,
    connections: &Connections,
    path: &str,
) -> Result<Option<Manifest>, RegistryError> {
    let ask = Ask::get(path).accepting(ACCEPTED);
    match registry.ask_whole(connections, ask, MANIFEST_BYTES).await {
        Ok((_, bytes)) => Ok(manifest::read(&bytes).ok()),
        Err(trouble) => absent(trouble),
    }
}

/// Evidence that a registry lacks, hides or cannot be asked for counts as absent. An unavailable registry is an error:
/// it may hold some.
fn absent<T>(trouble: RegistryError) -> Result<Option<T>, RegistryError> {
    match trouble.kind {
        Kind::Unavailable => Err(trouble),
        Kind::Absent | Kind::Denied | Kind::Refused => Ok(None),
    }
}
