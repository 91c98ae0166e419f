//! Puts modules, and signatures of them, into registries: in the layout of the CNCF, which other tools for Wasm read.
//! The same input has the same digest everywhere. Signs nothing and looks at no rights.

mod layout;
mod upload;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ccm_host::egress::SystemLookup;
use ccm_host::{Digest, Inspection};
use http::header::{CONTENT_TYPE, HeaderValue};
use reqwest::{Body, Method};

use crate::sign::Attachment;
use crate::source::oci::{
    Access, Ask, Descriptor, EMPTY, INDEX, Kind, MANIFEST, MANIFEST_BYTES, Manifest, OciSettings,
    Patience, Progress, Registry, Repository, Trouble, describe,
};
use crate::source::{OciPlace, SourceError};

pub use crate::source::oci::pull;

/// An upload of 32 MiB through a slow line: the registry has nothing to say until it ends.
const UPLOAD: Duration = Duration::from_secs(900);

/// Is told how much of the module is uploaded.
pub type Report = Arc<dyn Fn(Progress) + Send + Sync>;

/// What is put into a registry.
#[derive(Clone)]
pub struct Parcel<'a> {
    /// The component.
    pub wasm: Bytes,
    /// What it is; of these very bytes.
    pub inspection: &'a Inspection,
    /// When it was made, in seconds since the Unix epoch: `SOURCE_DATE_EPOCH`, for example. Without it the same module
    /// has the same digest whenever it is pushed.
    pub created: Option<u64>,
    /// Who made it, for people.
    pub author: Option<String>,
}

/// What is there now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pushed {
    /// The place, with the digest of the manifest.
    pub place: OciPlace,
    /// `sha256:<hex>` of the manifest: what is pinned, and what signatures are about.
    pub manifest_digest: String,
}

/// Puts a module under the place's tag, or `latest`. Where the place has a digest, nothing else may come of it.
///
/// # Errors
/// See [`SourceError`].
pub async fn push(
    settings: &OciSettings,
    parcel: &Parcel<'_>,
    report: Report,
) -> Result<Pushed, SourceError> {
    let place = &settings.place;
    let pushing = async {
        let layout = layout::of(parcel);
        let digest = Digest::of(&layout.manifest).to_string();
        if place
            .digest
            .as_ref()
            .is_some_and(|wanted| *wanted != digest)
        {
            let why =
                format!("the module's manifest is {digest}, and the place names another digest");
            return Err(Trouble::refused(why));
        }
        let repository = open(settings)?;
        let registry = own(&repository)?;
        let connections = &repository.connections;
        upload::blob(registry, connections, Bytes::from(layout.config), None).await?;
        upload::blob(registry, connections, parcel.wasm.clone(), Some(report)).await?;
        let tag = place.tag.as_deref().unwrap_or("latest");
        put(&repository, tag, MANIFEST, layout.manifest.into()).await?;
        Ok(digest)
    };
    let digest = pushing
        .await
        .map_err(|trouble| trouble.at(&place.to_string()))?;
    Ok(Pushed {
        place: OciPlace {
            digest: Some(digest.clone()),
            ..place.clone()
        },
        manifest_digest: digest,
    })
}

/// Puts a signature beside the artifact whose manifest has this digest. Registries that list what refers to an
/// artifact find it there; for others an index is kept under the tag `sha256-<hex>`, as other tools do. That index has
/// no lock: two that sign the same artifact at the same moment can lose one of the two entries.
///
/// # Errors
/// See [`SourceError`].
pub async fn attach(
    settings: &OciSettings,
    manifest_digest: &str,
    attachment: &Attachment,
) -> Result<(), SourceError> {
    let attaching = async {
        let repository = open(settings)?;
        let registry = own(&repository)?;
        let connections = &repository.connections;
        let ask = |path| Ask::get(path).accepting(MANIFEST_OR_INDEX);
        let path = format!("manifests/{manifest_digest}");
        let (headers, signed) = registry
            .ask_whole(connections, ask(&path), MANIFEST_BYTES)
            .await?;
        if Digest::of(&signed).to_string() != manifest_digest {
            return Err(Trouble::refused(
                "the registry sent another manifest than the one to be signed",
            ));
        }
        let kind = headers
            .get(CONTENT_TYPE)
            .and_then(|kind| kind.to_str().ok());
        let kind = kind.map_or(MANIFEST, |kind| kind.split(';').next().unwrap_or_default());

        let layer = Bytes::from(attachment.layer.clone());
        let manifest = Manifest {
            schema_version: 2,
            media_type: Some(MANIFEST.to_owned()),
            artifact_type: Some(attachment.artifact_type.to_owned()),
            config: Some(describe(EMPTY, b"{}")),
            layers: Some(vec![describe(attachment.layer_media_type, &layer)]),
            manifests: None,
            subject: Some(describe(kind, &signed)),
            annotations: attachment.annotations.clone(),
        };
        let manifest = layout::json(&manifest);
        upload::blob(registry, connections, Bytes::from_static(b"{}"), None).await?;
        upload::blob(registry, connections, layer, None).await?;
        let digest = Digest::of(&manifest).to_string();
        let entry = Descriptor {
            artifact_type: Some(attachment.artifact_type.to_owned()),
            annotations: attachment.annotations.clone(),
            ..describe(MANIFEST, &manifest)
        };
        if put(&repository, &digest, MANIFEST, manifest.into()).await? {
            return Ok(());
        }
        let tag = manifest_digest.replace(':', "-");
        let path = format!("manifests/{tag}");
        let before = match registry
            .ask_whole(connections, ask(&path), MANIFEST_BYTES)
            .await
        {
            Ok((_, bytes)) => layout::index(&bytes)?,
            Err(trouble) if trouble.kind == Kind::Absent => Vec::new(),
            Err(trouble) => return Err(trouble),
        };
        let index = Manifest {
            schema_version: 2,
            media_type: Some(INDEX.to_owned()),
            artifact_type: None,
            config: None,
            layers: None,
            manifests: Some(layout::with(before, entry)),
            subject: None,
            annotations: BTreeMap::new(),
        };
        put(&repository, &tag, INDEX, layout::json(&index).into()).await?;
        Ok(())
    };
    attaching
        .await
        .map_err(|trouble| trouble.at(&settings.place.to_string()))
}

const MANIFEST_OR_INDEX: &str =
    "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json";

fn open(settings: &OciSettings) -> Result<Repository, Trouble> {
    let patience = Patience {
        silence: UPLOAD,
        ..Patience::default()
    };
    Repository::new(settings, Access::Push, Arc::new(SystemLookup), patience)
}

fn own(repository: &Repository) -> Result<&Registry, Trouble> {
    repository
        .own()
        .ok_or_else(|| Trouble::absent("no registry"))
}

/// Puts a manifest under a tag or its digest. The answer: whether the registry lists what refers to an artifact.
async fn put(
    repository: &Repository,
    name: &str,
    kind: &'static str,
    bytes: Bytes,
) -> Result<bool, Trouble> {
    let path = format!("manifests/{name}");
    let body = || Body::from(bytes.clone());
    let mut ask = Ask::new(Method::PUT, &path);
    ask.headers
        .push((CONTENT_TYPE, HeaderValue::from_static(kind)));
    ask.body = Some(&body);
    let registry = own(repository)?;
    let (headers, _) = registry
        .ask_whole(&repository.connections, ask, MANIFEST_BYTES)
        .await?;
    let kept = headers
        .get("docker-content-digest")
        .and_then(|digest| digest.to_str().ok());
    if kept.is_some_and(|kept| kept != Digest::of(&bytes).to_string()) {
        return Err(Trouble::refused(
            "the registry has kept something else than the manifest",
        ));
    }
    Ok(headers.contains_key("oci-subject"))
}
