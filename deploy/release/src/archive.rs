//! Tar archives and their compression. Every entry belongs to root and has the same given time.

use std::io::Write as _;

use anyhow::Result;
use flate2::{Compression, GzBuilder};
use tar::{Builder, EntryType, Header};

/// A tar archive that grows in memory.
pub(crate) struct Archive {
    builder: Builder<Vec<u8>>,
    created: u64,
}

impl Archive {
    /// An empty archive whose entries have this time.
    pub(crate) fn new(created: u64) -> Archive {
        Archive {
            builder: Builder::new(Vec::new()),
            created,
        }
    }

    /// Adds a regular file with these permissions.
    pub(crate) fn file(&mut self, path: &str, mode: u32, bytes: &[u8]) -> Result<()> {
        let mut header = self.header(EntryType::Regular, mode);
        header.set_size(bytes.len() as u64);
        Ok(self.builder.append_data(&mut header, path, bytes)?)
    }

    /// Adds a folder with these permissions.
    pub(crate) fn folder(&mut self, path: &str, mode: u32) -> Result<()> {
        let mut header = self.header(EntryType::Directory, mode);
        Ok(self
            .builder
            .append_data(&mut header, format!("{path}/"), &[][..])?)
    }

    /// Adds a symbolic link.
    pub(crate) fn link(&mut self, path: &str, target: &str) -> Result<()> {
        let mut header = self.header(EntryType::Symlink, 0o777);
        Ok(self.builder.append_link(&mut header, path, target)?)
    }

    /// Ends the archive, and returns its bytes.
    pub(crate) fn finish(self) -> Result<Vec<u8>> {
        Ok(self.builder.into_inner()?)
    }

    fn header(&self, kind: EntryType, mode: u32) -> Header {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_mtime(self.created);
        header.set_uid(0);
        header.set_gid(0);
        header.set_size(0);
        header
    }
}

/// Compresses with an encoder that `Cargo.lock` pins: the system's would make digests depend on the machine. The header
/// has neither time nor name.
pub(crate) fn gzip(bytes: &[u8], level: u32) -> Result<Vec<u8>> {
    let mut encoder = GzBuilder::new()
        .mtime(0)
        .write(Vec::new(), Compression::new(level));
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}
