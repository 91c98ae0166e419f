//! The program's own build: as a line, as lines that upstream's `--version=raw` also has, and as a document.

use ccm_host::manifest::Contract;
use serde::Serialize;

use crate::flags::VersionForm;
use crate::metrics::BUILD;

/// The build of this program, for scripts.
#[derive(Debug, Serialize)]
struct Version {
    program: &'static str,
    version: &'static str,
    /// Absent if the build did not get it.
    #[serde(skip_serializing_if = "Option::is_none")]
    commit: Option<&'static str>,
    rust: &'static str,
    target: &'static str,
    build: &'static str,
    demo: bool,
    /// The versions of the contract that it supports.
    contracts: Vec<String>,
    /// The embedded providers.
    modules: Vec<EmbeddedModule>,
}

/// An embedded provider.
#[derive(Debug, Serialize)]
struct EmbeddedModule {
    name: String,
    version: String,
    contract: String,
    digest: String,
}

/// The text in this form, with its last newline.
///
/// # Errors
/// The bytes of an embedded module are no module.
pub(super) fn text(form: VersionForm) -> anyhow::Result<String> {
    let build = if cfg!(debug_assertions) {
        "debug"
    } else {
        "release"
    };
    let (version, newest) = (BUILD.version, contract(ccm_host::CONTRACT_VERSION));
    let demo = cfg!(feature = "demo");
    Ok(match form {
        VersionForm::Short => format!("ccm {version} (contract {newest})\n"),
        VersionForm::Raw => {
            let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
            let demo = if demo { "yes" } else { "no" };
            format!(
                "program: ccm\nversion: {version}\ncontract: {newest}\nplatform: {os}/{arch}\nbuild: {build}\ndemo: {demo}\n"
            )
        }
        VersionForm::Json | VersionForm::Yaml => {
            let document = Version {
                program: "ccm",
                version,
                commit: Some(BUILD.commit).filter(|commit| !commit.is_empty()),
                rust: env!("CCM_RUST"),
                target: env!("CCM_TARGET"),
                build,
                demo,
                contracts: Contract::ALL.map(|one| contract(one.version())).into(),
                modules: modules()?,
            };
            match form {
                VersionForm::Yaml => serde_saphyr::to_string(&document)?,
                _ => format!("{}\n", serde_json::to_string_pretty(&document)?),
            }
        }
    })
}

fn contract(version: &str) -> String {
    format!("{}@{version}", ccm_host::CONTRACT_PACKAGE)
}

fn modules() -> anyhow::Result<Vec<EmbeddedModule>> {
    let guests = embedded_guests::ALL.iter();
    guests
        .map(|guest| {
            let found = ccm_host::inspect(guest.name, guest.wasm)?;
            Ok(EmbeddedModule {
                name: found.manifest.name,
                version: found.manifest.version,
                contract: contract(&found.manifest.contract),
                digest: found.digest.to_string(),
            })
        })
        .collect()
}
