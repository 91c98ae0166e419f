//! Modules inside of a binary.

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context as _, Result, ensure};

/// A module that is embedded in the binary.
#[derive(Debug, Clone)]
pub struct Module {
    /// The provider's name.
    pub name: String,
    /// The package that it is compiled from.
    pub package: String,
    /// The component that the build embedded.
    pub path: PathBuf,
}

impl FromStr for Module {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Module> {
        let mut parts = text.splitn(3, '=');
        let mut part = || {
            let part = parts.next().filter(|part| !part.is_empty());
            part.context("expected NAME=PACKAGE=FILE")
        };
        let (name, package, path) = (part()?, part()?, part()?);
        Ok(Module {
            name: name.to_owned(),
            package: package.to_owned(),
            path: path.into(),
        })
    }
}

impl Module {
    /// The module's bytes, which must be in this program.
    pub(crate) fn bytes_in(&self, program: &[u8]) -> Result<Vec<u8>> {
        let bytes = crate::read(&self.path)?;
        ensure!(
            memchr::memmem::find(program, &bytes).is_some(),
            "{} is not the module {} that the binary embeds",
            self.path.display(),
            self.name
        );
        Ok(bytes)
    }
}
