//! Finds a version that is kept beside the offered one: a new pod, whose cache is empty, has to serve the recorded version
//! although its volume offers the next one.

use ccm_core::rollout::Release;

use super::poll::{modules_in, offered, open_module};
use super::{FilePlace, SourceError, SourceErrorKind};
use crate::artifact::Artifact;

/// Maximum number of files that are read beside the offered one, each of which may have the size limit of a module.
const MOST_READ: usize = 32;

/// Finds exactly the module `release` in the file that is offered for this entry, or in another module's file of its
/// folder.
///
/// # Errors
/// None of them holds it, or one that may hold it cannot be read now. Another file or a folder that this process has no
/// right to read counts as not there: it may stay so for ever, and have nothing to do with this provider.
pub(super) fn find(
    place: &str,
    at: &FilePlace,
    entry: &str,
    release: &Release,
) -> Result<Artifact, SourceError> {
    let offered = offered(place, at, entry);
    let is_folder = at.is_folder || at.path.is_dir();
    let parent = at.path.parent().filter(|_| !is_folder);
    let folder = parent.unwrap_or(&at.path);
    let listed = modules_in(place, folder);
    let others = listed.iter().flatten().map(|name| folder.join(name));
    let others = others.filter(|path| Some(path) != offered.as_ref().ok());
    let others = others.take(MOST_READ).map(|path| (false, Ok(path)));
    let files = std::iter::once((true, offered.clone())).chain(others);
    let mut unread = None;
    for (is_offered, file) in files {
        match file.and_then(|path| open_module(place, &path)?.read_now(place)) {
            Ok(artifact) if artifact.digest.to_string() == release.digest => return Ok(artifact),
            Ok(_) => {}
            Err(error) => match error.kind {
                // It may be the one: that it cannot be read says nothing about that.
                SourceErrorKind::Unavailable => unread = Some(error),
                SourceErrorKind::Denied if is_offered => unread = Some(error),
                _ => {}
            },
        }
    }
    if let Some(unread) = unread {
        return Err(unread);
    }
    Err(match listed {
        Err(error) if error.kind == SourceErrorKind::Denied => {
            SourceError::absent(place, error.why)
        }
        Err(error) => error,
        Ok(_) => {
            let why = format!(
                "neither the offered module nor one of the first {MOST_READ} others in its folder that can be read is \
                 {}, and the cache does not have it either: put it back there, under any name that ends in .wasm",
                release.shown()
            );
            SourceError::absent(place, why)
        }
    })
}
