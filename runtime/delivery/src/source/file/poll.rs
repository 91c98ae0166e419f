//! One poll of a file or folder. Everything about a file is read through one handle, so that the checked file is the
//! used one. Reads regular files only, up to the size limit of a module.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use ccm_host::{clean, list_first};
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::{FilePlace, SourceError, SourceErrorKind};
use crate::artifact::{Artifact, EVIDENCE_BYTES, MODULE_BYTES, SignatureEvidence};
use crate::source::unpack;

/// Suffixes of module files. zstd is not supported, but such a file is selected so that its refusal says so.
const ENDINGS: [&str; 3] = [".wasm", ".wasm.gz", ".wasm.zst"];
/// Suffix of a signature file, after the module's file name.
const EVIDENCE: &str = ".sigstore.json";
/// Maximum number of folder entries examined.
const MOST_NAMES: usize = 10_000;
/// Maximum number of names shown.
const MOST_SHOWN: usize = 8;
/// Maximum length of a shown name.
const NAME_SHOWN: usize = 100;

/// State of a module's file and of the evidence beside it. A different state means that one was changed or replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity(Vec<FileState>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct FileState {
    path: PathBuf,
    device: u64,
    inode: u64,
    length: u64,
    modified: SystemTime,
    /// Time of a change of the metadata: seconds since the Unix epoch, and nanoseconds.
    changed: (i64, i64),
}

/// An opened module file, and the evidence beside it.
pub(super) struct Seen {
    module: OpenedFile,
    evidence: Vec<OpenedFile>,
}

/// A file, and its state when it was opened.
struct OpenedFile {
    file: File,
    state: FileState,
}

impl Identity {
    /// Whether the files were last modified at least `age` ago, according to their time stamps.
    pub(super) fn is_older_than(&self, age: Duration, now: SystemTime) -> bool {
        self.0.iter().all(|file| {
            // Ignores the time of a rename: whole files are put in place that way.
            let passed = now.duration_since(file.modified);
            passed.is_ok_and(|passed| passed >= age)
        })
    }
}

impl FileState {
    fn of(path: &Path, file: &File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        Ok(Self {
            path: path.to_owned(),
            device: metadata.dev(),
            inode: metadata.ino(),
            length: metadata.len(),
            modified: metadata.modified()?,
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }
}

/// Opens the module's file and the evidence beside it.
///
/// # Errors
/// There is no readable module file.
pub(super) fn open(place: &str, at: &FilePlace, entry: &str) -> Result<Seen, SourceError> {
    open_module(place, &offered(place, at, entry)?)
}

/// The path of the module's file that is offered for this entry.
///
/// # Errors
/// There is none, or it is not known which one.
pub(super) fn offered(place: &str, at: &FilePlace, entry: &str) -> Result<PathBuf, SourceError> {
    let found = fs::metadata(&at.path).map_err(|error| failed(place, &at.path, &error))?;
    if found.is_dir() {
        choose(place, &at.path, entry)
    } else if at.is_folder {
        Err(SourceError::refused(
            place,
            "it is not a folder, and a slash at the end says that it is one",
        ))
    } else {
        Ok(at.path.clone())
    }
}

/// Opens this module's file and the evidence beside it.
///
/// # Errors
/// There is no readable module file.
pub(super) fn open_module(place: &str, path: &Path) -> Result<Seen, SourceError> {
    let module = open_file(place, path, MODULE_BYTES)?;
    let mut evidence = Vec::new();
    for beside in evidence_paths(path) {
        match open_file(place, &beside, EVIDENCE_BYTES) {
            Ok(file) => evidence.push(file),
            Err(error) if error.kind == SourceErrorKind::Absent => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Seen { module, evidence })
}

impl Seen {
    pub(super) fn identity(&self) -> Identity {
        let files = std::iter::once(&self.module).chain(&self.evidence);
        Identity(files.map(|file| file.state.clone()).collect())
    }

    /// Reads the file. `None`: it changed during the read.
    pub(super) fn read(self, place: &str) -> Result<Option<Artifact>, SourceError> {
        let Some(module) = self.module.read(place)? else {
            return Ok(None);
        };
        let mut evidence = Vec::new();
        for file in self.evidence {
            let Some(bytes) = file.read(place)? else {
                return Ok(None);
            };
            evidence.push(SignatureEvidence::Bundle(bytes));
        }
        unpack::artifact(place, module, evidence).map(Some)
    }

    /// The same for whoever does not wait until the file stays as it is.
    pub(super) fn read_now(self, place: &str) -> Result<Artifact, SourceError> {
        let read = self.read(place)?;
        read.ok_or_else(|| SourceError::unavailable(place, "it is being written"))
    }
}

/// Opens a regular file of at most `limit` bytes. Never blocks, as opening a FIFO would.
fn open_file(place: &str, path: &Path, limit: usize) -> Result<OpenedFile, SourceError> {
    let failed = |error: io::Error| failed(place, path, &error);
    // Checked first: opening a device can have side effects.
    check_regular(place, path, &fs::metadata(path).map_err(failed)?)?;
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let file = opened.map_err(failed)?;
    check_regular(place, path, &file.metadata().map_err(failed)?)?;
    let state = FileState::of(path, &file).map_err(failed)?;
    if state.length > limit as u64 {
        let name = shown(path);
        let why = format!(
            "{name} has {} bytes, and at most {limit} are read",
            state.length
        );
        return Err(SourceError::refused(place, why));
    }
    Ok(OpenedFile { file, state })
}

fn check_regular(place: &str, path: &Path, found: &Metadata) -> Result<(), SourceError> {
    let what = match found.file_type() {
        kind if kind.is_file() => return Ok(()),
        kind if kind.is_dir() => "a folder",
        kind if kind.is_fifo() => "a pipe",
        kind if kind.is_socket() => "a socket",
        _ => "a device",
    };
    let name = shown(path);
    let why = format!("{name} is {what}, and only regular files are read");
    Err(SourceError::refused(place, why))
}

impl OpenedFile {
    /// Reads the whole content. `None`: its state differs from when it was opened.
    fn read(self, place: &str) -> Result<Option<Vec<u8>>, SourceError> {
        let Self { file, state } = self;
        let failed = |error: io::Error| failed(place, &state.path, &error);
        let mut bytes = Vec::with_capacity(usize::try_from(state.length).unwrap_or_default());
        let mut content = (&file).take(state.length + 1);
        content.read_to_end(&mut bytes).map_err(failed)?;
        let after = FileState::of(&state.path, &file).map_err(failed)?;
        let is_stable = after == state && bytes.len() as u64 == state.length;
        Ok(is_stable.then_some(bytes))
    }
}

/// The names of the module files in a folder, sorted.
///
/// # Errors
/// The folder cannot be listed, or has too many names.
pub(super) fn modules_in(place: &str, folder: &Path) -> Result<Vec<String>, SourceError> {
    let listed = fs::read_dir(folder).map_err(|error| failed(place, folder, &error))?;
    let mut modules: Vec<String> = Vec::new();
    for (count, item) in listed.enumerate() {
        if count >= MOST_NAMES {
            let why = format!(
                "the folder has more than {MOST_NAMES} names, too many to look for a module"
            );
            return Err(SourceError::refused(place, why));
        }
        let item = item.map_err(|error| failed(place, folder, &error))?;
        let Ok(name) = item.file_name().into_string() else {
            continue;
        };
        // Names with a leading dot are temporary files or internal to the volume.
        if !name.starts_with('.') && ENDINGS.iter().any(|ending| name.ends_with(ending)) {
            modules.push(name);
        }
    }
    modules.sort();
    Ok(modules)
}

/// Selects the provider's file in a folder: the one named like the entry, otherwise the only module. A command about a
/// module has no entry, whose name is then empty.
fn choose(place: &str, folder: &Path, entry: &str) -> Result<PathBuf, SourceError> {
    let modules = modules_in(place, folder)?;
    let is_ours = |name: &&String| {
        name.strip_prefix(entry)
            .is_some_and(|ending| ENDINGS.contains(&ending))
    };
    let ours: Vec<&String> = modules.iter().filter(is_ours).collect();
    match (ours.as_slice(), modules.as_slice()) {
        ([one], _) => Ok(folder.join(one)),
        ([], [only]) => Ok(folder.join(only)),
        ([], []) => {
            let why = match entry {
                "" => "the folder has no module".to_owned(),
                _ => format!(
                    "the folder has no file {entry}.wasm or {entry}.wasm.gz, and no other module"
                ),
            };
            Err(SourceError::absent(place, why))
        }
        ([], several) => {
            let several = cleaned(several);
            let why = match entry {
                "" => format!("the folder has several modules: {several}"),
                _ => format!("no module is called {entry}.wasm, and there are several: {several}"),
            };
            Err(SourceError::refused(place, why))
        }
        (several, _) => {
            let names: Vec<String> = several.iter().map(|name| (*name).clone()).collect();
            Err(SourceError::refused(
                place,
                format!("which one is meant? {}", cleaned(&names)),
            ))
        }
    }
}

fn evidence_paths(module: &Path) -> Vec<PathBuf> {
    let Some(name) = module.file_name().and_then(|name| name.to_str()) else {
        return Vec::new();
    };
    let names = std::iter::once(name).chain(name.strip_suffix(".gz"));
    names
        .map(|name| module.with_file_name(format!("{name}{EVIDENCE}")))
        .collect()
}

pub(super) fn failed(place: &str, path: &Path, error: &io::Error) -> SourceError {
    let name = shown(path);
    // Which stays so, and has no stable `ErrorKind`.
    if Errno::from_io_error(error) == Some(Errno::LOOP) {
        return SourceError::absent(place, format!("the links from {name} lead in a circle"));
    }
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => {
            SourceError::absent(place, format!("{name} does not exist"))
        }
        ErrorKind::PermissionDenied => {
            let user = rustix::process::geteuid().as_raw();
            SourceError::denied(place, format!("user {user} may not read {name}"))
        }
        _ => SourceError::unavailable(place, format!("{name}: {error}")),
    }
}

fn cleaned(names: &[String]) -> String {
    let cleaned: Vec<String> = names.iter().map(|name| clean(name, NAME_SHOWN)).collect();
    list_first(&cleaned, MOST_SHOWN)
}

/// The last component of a path, formatted for one line.
fn shown(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    clean(&name.to_string_lossy(), NAME_SHOWN)
}
