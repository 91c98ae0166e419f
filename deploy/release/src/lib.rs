//! Puts compiled binaries into the published files: the image, archives, bills of materials and provenance. Equal
//! inputs give equal bytes: no clock, no order of a file system, no name of the build machine. Never compiles, signs or
//! pushes.

#![forbid(unsafe_code)]

mod archive;
mod image;
mod layout;
mod manifests;
mod module;
mod package_tree;
mod provenance;
mod rootfs;
mod sbom;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

pub use module::Module;

/// A processor architecture that binaries are published for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Architecture {
    /// x86-64.
    Amd64,
    /// 64-bit Arm.
    Arm64,
}

impl Architecture {
    /// The name that OCI and Go have for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Architecture::Amd64 => "amd64",
            Architecture::Arm64 => "arm64",
        }
    }

    /// The Rust target of its binaries.
    #[must_use]
    pub fn target(self) -> &'static str {
        match self {
            Architecture::Amd64 => "x86_64-unknown-linux-musl",
            Architecture::Arm64 => "aarch64-unknown-linux-musl",
        }
    }
}

/// A compiled `ccm`, and the modules embedded in it.
#[derive(Debug, Clone)]
pub struct Binary {
    /// The architecture that it is compiled for.
    pub architecture: Architecture,
    /// Path of the executable file.
    pub path: PathBuf,
    /// The modules embedded in it, the same in every binary.
    pub modules: Vec<Module>,
}

/// The inputs of a release.
#[derive(Debug, Clone)]
pub struct Release {
    /// The checkout that the binaries were compiled from.
    pub checkout: PathBuf,
    /// Version without `v`, such as `0.1.0`.
    pub version: String,
    /// The commit's hash.
    pub revision: String,
    /// The commit's time, in seconds since 1970; used wherever a file has a time.
    pub created: u64,
    /// Compression level of layers and archives: 0 to 9.
    pub compression: u32,
    /// The binaries, one for each architecture.
    pub binaries: Vec<Binary>,
}

impl Release {
    /// The commit's time in RFC 3339.
    fn created_text(&self) -> Result<String> {
        let seconds = i64::try_from(self.created).context("no time of a commit")?;
        Ok(jiff::Timestamp::from_second(seconds)?.to_string())
    }

    /// The annotations of an image or artifact, as the OCI's image specification names them.
    fn annotations(&self, title: &str, description: &str) -> Result<Value> {
        Ok(json!({
            "org.opencontainers.image.created": self.created_text()?,
            "org.opencontainers.image.description": description,
            "org.opencontainers.image.licenses": LICENSE,
            "org.opencontainers.image.revision": self.revision,
            "org.opencontainers.image.source": SOURCE,
            "org.opencontainers.image.title": title,
            "org.opencontainers.image.url": SOURCE,
            "org.opencontainers.image.version": self.version,
        }))
    }

    /// The modules, which are the same in every binary.
    fn modules(&self) -> Result<&[Module]> {
        let first = self.binaries.first().context("there is no binary")?;
        for module in &first.modules {
            for binary in &self.binaries {
                module.bytes_in(&read(&binary.path)?)?;
            }
        }
        Ok(&first.modules)
    }
}

/// Address of the project.
const SOURCE: &str = "https://wasm-ccm.dev";
const LICENSE: &str = "Apache-2.0";

/// Writes everything into `output`, which must not exist yet: `image/` (an OCI layout), one archive and one bill of
/// materials for each architecture, the Helm chart and the folders of kustomize, each embedded module as a file and as
/// an OCI layout in `modules/`, `SHA256SUMS`, `provenance.json` (in-toto) and `predicate.json` (its predicate alone).
/// Returns the digest of the image's index.
///
/// # Errors
/// An input is missing, a module is not in its binary, or a file cannot be written.
pub fn package(release: &Release, output: &Path) -> Result<String> {
    release.modules()?;
    let completions = completions(release)?;
    for folder in ["sbom", "modules"] {
        fs::create_dir_all(output.join(folder))?;
    }
    let mut image = image::Image::create(&output.join("image"), release)?;
    for binary in &release.binaries {
        let architecture = binary.architecture.name();
        let program = read(&binary.path)?;
        let sbom = sbom(release, binary)?;
        fs::write(
            output.join(format!("sbom/ccm-linux-{architecture}.cdx.json")),
            &sbom,
        )?;
        image.add(binary.architecture, &program)?;

        let name = format!("ccm-{}-linux-{architecture}", release.version);
        let mut archive = archive::Archive::new(release.created);
        archive.file(&format!("{name}/ccm"), 0o755, &program)?;
        archive.file(&format!("{name}/ccm.cdx.json"), 0o644, &sbom)?;
        for (file, script) in &completions {
            archive.file(&format!("{name}/completions/{file}"), 0o644, script)?;
        }
        for file in ["LICENSE", "README.md", "CHANGELOG.md"] {
            let text = read(&release.checkout.join(file))?;
            archive.file(&format!("{name}/{file}"), 0o644, &text)?;
        }
        let compressed = archive::gzip(&archive.finish()?, release.compression)?;
        fs::write(output.join(format!("{name}.tar.gz")), compressed)?;
    }
    let digest = image.finish()?;
    for module in release.modules()? {
        module.publish(release, &output.join("modules"))?;
    }
    manifests::publish(release, output)?;
    let sums = sums(output)?;
    let lines: String = sums
        .iter()
        .map(|(name, sum)| format!("{sum}  {name}\n"))
        .collect();
    fs::write(output.join("SHA256SUMS"), lines)?;
    let predicate = provenance::predicate(release)?;
    let statement = provenance::statement(&predicate, &sums, &digest);
    fs::write(
        output.join("predicate.json"),
        serde_json::to_vec_pretty(&predicate)?,
    )?;
    fs::write(
        output.join("provenance.json"),
        serde_json::to_vec_pretty(&statement)?,
    )?;
    fs::write(output.join("image-digest"), format!("{digest}\n"))?;
    Ok(digest)
}

/// The bill of materials of one binary: CycloneDX in JSON.
///
/// # Errors
/// Cargo cannot list its packages, or a module is not inside of it.
pub fn sbom(release: &Release, binary: &Binary) -> Result<Vec<u8>> {
    let document = sbom::of(release, binary, &read(&binary.path)?)?;
    Ok(serde_json::to_vec_pretty(&document)?)
}

/// The completion scripts, under the names that the shells expect. All binaries print the same: the first one that runs
/// on this machine is asked.
fn completions(release: &Release) -> Result<Vec<(&'static str, Vec<u8>)>> {
    let here = match std::env::consts::ARCH {
        "aarch64" => Architecture::Arm64,
        _ => Architecture::Amd64,
    };
    let mut binaries = release.binaries.iter();
    let Some(binary) = binaries.find(|binary| binary.architecture == here) else {
        bail!("none of the binaries runs on this machine, to be asked for its completions");
    };
    let shells = [("bash", "ccm.bash"), ("zsh", "_ccm"), ("fish", "ccm.fish")];
    let scripts = shells.map(|(shell, file)| {
        let path = fs::canonicalize(&binary.path)?;
        let output = Command::new(&path)
            .args(["completion", shell])
            .output()
            .with_context(|| format!("cannot run {}", path.display()))?;
        ensure!(
            output.status.success() && !output.stdout.is_empty(),
            "`ccm completion {shell}` failed"
        );
        Ok((file, output.stdout))
    });
    scripts.into_iter().collect()
}

/// Name and SHA-256 of every archive, chart, bill of materials and module, in the order of names.
fn sums(output: &Path) -> Result<Vec<(String, String)>> {
    let mut sums = Vec::new();
    for folder in ["", "sbom", "modules"] {
        for entry in fs::read_dir(output.join(folder))? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                let name = entry.file_name().to_string_lossy().into_owned();
                let name = Path::new(folder).join(name).display().to_string();
                sums.push((name, sha256(&read(&entry.path())?)));
            }
        }
    }
    sums.sort();
    Ok(sums)
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}
