//! `ccm provider pack`: prepares a component for a source: adds its manifest, compresses it, puts it into a ConfigMap.
//! The output was inspected as by the host, and unpacked again as a check.

use std::borrow::Cow;
use std::io::Write as _;
use std::path::Path;

use anyhow::bail;
use ccm_delivery::artifact::{Artifact, SignatureEvidence};
use ccm_delivery::source::unpack;
use ccm_host::manifest::Manifest;
use ccm_host::{Inspection, LoadErrorKind};
use flate2::write::GzEncoder;
use serde_json::json;

use super::arguments::{Compression, Form, Pack};
use super::configmap::{self, Shape};
use super::manifest_section;
use super::output;
use super::terminal::Screen;
use super::{Refusal, Verdict};
use crate::cli;
use crate::provider_loading::read_text;

/// Step of the progress bar, in bytes.
const PIECE: usize = 64 << 10;

/// Packs a module, and writes or prints the result.
pub(super) async fn pack(options: &Pack, screen: Screen) -> anyhow::Result<Verdict> {
    let place = &options.module.place;
    let artifact = place.bring(&options.module.access, screen).await?;
    let wasm = match &options.manifest {
        None => Cow::Borrowed(&*artifact.wasm),
        Some(path) => {
            let manifest = manifest(path)?;
            let packed = manifest_section::with_manifest(
                &artifact.wasm,
                manifest.as_bytes(),
                options.replace,
            )
            .map_err(|error| Refusal::new(format!("{place} cannot be given a manifest"), error))?;
            Cow::Owned(packed)
        }
    };
    let found = inspect(&place.to_string(), &wasm, options.manifest.is_some())?;
    let packed = compress(&wasm, options.compress, screen)?;
    let unpacked = unpack::unpack(packed.to_vec())
        .map_err(|error| Refusal::new("no source would take the result".to_owned(), error))?;
    if unpacked != *wasm {
        bail!("what was packed unpacks to other bytes: this is a defect of this program");
    }
    let Some(target) = &options.configmap else {
        return write(options, &found, &packed);
    };
    if options.manifest.is_none()
        && bundle(&artifact).is_none()
        && let Some(why) = artifact.unanswered.first()
    {
        bail!("{place} may have a signature that cannot be read now: {why}");
    }
    let shape = Shape {
        target,
        extension: extension(options.compress),
        is_immutable: options.immutable,
        piece: options.split.map(|bytes| bytes as usize),
        bundle: match options.manifest {
            None => bundle(&artifact),
            // The output differs from the signed bytes.
            Some(_) => None,
        },
    };
    let object = configmap::object(&shape, &packed, options.printed.output)
        .map_err(|error| Refusal::new(format!("{place} does not fit into a ConfigMap"), error))?;
    match &options.to {
        None => Ok(Verdict::yes(object)),
        Some(_) => write(options, &found, object.as_bytes()),
    }
}

/// Reads a manifest and reports all its mistakes.
fn manifest(path: &Path) -> anyhow::Result<String> {
    let text = read_text(path)?;
    match Manifest::parse(text.as_bytes()) {
        Ok(_) => Ok(text),
        Err(reason) => {
            let what = format!("{} is not a valid manifest", path.display());
            Err(Refusal::new(what, reason).into())
        }
    }
}

/// Inspects the module as the host would, and adds advice to errors.
fn inspect(place: &str, wasm: &[u8], is_given: bool) -> anyhow::Result<Inspection> {
    ccm_host::inspect(place, wasm).map_err(|error| match error.kind {
        LoadErrorKind::NoManifest => Refusal::new("--manifest gives it one".to_owned(), error).into(),
        LoadErrorKind::ManyManifests(_) if is_given => {
            let what = "it has a manifest inside a core module, where its SDK put it: it needs no --manifest";
            Refusal::new(what.to_owned(), error).into()
        }
        _ => error.into(),
    })
}

/// The module's signature, if there is one that fits into a ConfigMap.
fn bundle(artifact: &Artifact) -> Option<&str> {
    artifact
        .evidence
        .iter()
        .find_map(|evidence| match evidence {
            SignatureEvidence::Bundle(bytes) => std::str::from_utf8(bytes).ok(),
            SignatureEvidence::SimpleSigning { .. } => None,
        })
}

fn extension(compression: Option<Compression>) -> &'static str {
    match compression {
        None => "",
        Some(Compression::Gzip) => ".gz",
    }
}

/// Compresses deterministically: the output contains neither a time nor a name.
fn compress<'a>(
    wasm: &'a [u8],
    compression: Option<Compression>,
    screen: Screen,
) -> anyhow::Result<Cow<'a, [u8]>> {
    match compression {
        None => Ok(Cow::Borrowed(wasm)),
        Some(Compression::Gzip) => {
            let bar = screen.bytes("compressing", wasm.len() as u64);
            let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::best());
            for piece in wasm.chunks(PIECE) {
                encoder.write_all(piece)?;
                bar.inc(piece.len() as u64);
            }
            Ok(Cow::Owned(encoder.finish()?))
        }
    }
}

fn write(options: &Pack, found: &Inspection, bytes: &[u8]) -> anyhow::Result<Verdict> {
    let Some(to) = &options.to else {
        bail!("--to is missing");
    };
    if to.as_os_str() == "-" {
        cli::write(bytes)?;
        return Ok(Verdict::yes(String::new()));
    }
    output::write(to, bytes)?;
    Ok(Verdict::yes(match options.printed.output {
        Form::Json => output::json(&json!({
            "file": to.display().to_string(),
            "name": found.manifest.name,
            "version": found.manifest.version,
            "digest": found.digest.to_string(),
            "size": found.size,
            "written": bytes.len(),
        })),
        Form::Text => format!(
            "{}: {} {}, {} bytes\ndigest {} ({} bytes unpacked)\n",
            to.display(),
            found.manifest.name,
            found.manifest.version,
            bytes.len(),
            found.digest,
            found.size,
        ),
    }))
}
