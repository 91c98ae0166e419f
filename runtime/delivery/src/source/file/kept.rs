//! Finds a version that is kept beside the offered one: a new pod, whose cache is empty, has to serve the recorded version
//! although its volume offers the next one.

use std::path::Path;

use ccm_core::rollout::Release;

use super::poll::{modules_in, open_module};
use super::{FilePlace, SourceError};
use crate::artifact::Artifact;

/// Maximum number of files that are read, each of which may have the size limit of a module.
const MOST_READ: usize = 32;

/// Finds exactly the module `release` in the file, or in another module's file of its folder.
///
/// # Errors
/// None of them holds it, or one that may hold it cannot be read.
pub(super) fn find(
    place: &str,
    at: &FilePlace,
    release: &Release,
) -> Result<Artifact, SourceError> {
    let is_folder = at.is_folder || at.path.is_dir();
    let named = (!is_folder).then_some(at.path.as_path());
    let folder = named.and_then(Path::parent).unwrap_or(&at.path);
    let listed = modules_in(place, folder);
    let others = listed.iter().flatten().map(|name| folder.join(name));
    let others = others.filter(|path| Some(path.as_path()) != named);
    let files = named.map(Path::to_path_buf).into_iter().chain(others);
    let mut unread = None;
    for path in files.take(MOST_READ) {
        match open_module(place, &path).and_then(|seen| seen.read_now(place)) {
            Ok(artifact) if artifact.digest.to_string() == release.digest => return Ok(artifact),
            Ok(_) | Err(SourceError::Absent { .. } | SourceError::Refused { .. }) => {}
            // It may be the one: that it cannot be read says nothing about that.
            Err(error) => unread = Some(error),
        }
    }
    listed?;
    Err(unread.unwrap_or_else(|| {
        let why = format!(
            "none of the first {MOST_READ} modules in its folder is {}, and the cache does not have it either: put it \
             back there, under any name that ends in .wasm",
            release.shown()
        );
        SourceError::absent(place, why)
    }))
}
