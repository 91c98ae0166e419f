//! Inspects a module before any of it is compiled or run: manifest, imports and exports, compared with the
//! interfaces and the contract version of this host.

use ccm_core::cloud::Capabilities;

use crate::compile::prescan::{self, Structure};
use crate::digest::Digest;
use crate::load_error::{LoadError, LoadErrorKind};
use crate::manifest::{Contract, Manifest};
use crate::sanitize::clean;
use crate::wasi;

/// Newest contract version of this host; it speaks all of [`Contract`]. Before 1.0 the minor version decides
/// compatibility.
pub const CONTRACT_VERSION: &str = Contract::V0_2.version();

/// Package name of the contract, the prefix of its interface names.
pub const CONTRACT_PACKAGE: &str = PACKAGE;

const PACKAGE: &str = "ccm:provider";
/// Contract interfaces that guests may import. `common` has only types, but is still an import.
const OFFERED: &[&str] = &["clock", "common", "http", "log", "random", "state"];
/// Contract interfaces that guests may export.
const KNOWN: &[&str] = &[
    "instances",
    "lifecycle",
    "load-balancer",
    "routes",
    "self-check",
];
/// In messages, names are cut to this many bytes and lists to this many names.
const NAME_BYTES: usize = 120;
const NAMES: usize = 32;

/// A module's manifest, exports and imports, as [`inspect`] found them.
#[derive(Debug, Clone)]
pub struct Inspection {
    /// SHA-256 of the module's bytes.
    pub digest: Digest,
    /// Size of the module in bytes.
    pub size: usize,
    /// The manifest, parsed and checked.
    pub manifest: Manifest,
    /// Version of the contract that it exports.
    pub contract: Contract,
    /// Controller interfaces that it exports. `init` may enable fewer.
    pub capabilities: Capabilities,
    /// Whether it exports the check of its credential.
    pub self_check: bool,
    /// Names of its imports, in the file's order.
    pub imports: Vec<String>,
    /// Names of its exported interfaces, in the file's order.
    pub exports: Vec<String>,
}

/// Inspects a module without compiling or running it. `source` names its origin in messages.
///
/// # Errors
/// No grant or configuration could make the module loadable.
pub fn inspect(source: &str, wasm: &[u8]) -> Result<Inspection, LoadError> {
    inspection(wasm).map_err(|kind| kind.of(source))
}

/// As [`inspect`], of a module whose origin the caller adds to errors.
pub(crate) fn inspection(wasm: &[u8]) -> Result<Inspection, LoadErrorKind> {
    let structure = prescan::scan(wasm).map_err(LoadErrorKind::Refused)?;
    let manifest = manifest(&structure)?;
    let mut contract = Named::default();
    contract.name_in_manifest(&manifest.contract)?;
    check_imports(&structure.imports, &mut contract)?;
    let exported = exports(&structure.exports, &mut contract)?;
    let has = |interface: &str| exported.contains(&interface);
    let (Some((contract, _)), true) = (contract.0, has("lifecycle")) else {
        return Err(LoadErrorKind::MissingExport("ccm:provider/lifecycle"));
    };
    let capabilities = Capabilities {
        instances: has("instances"),
        load_balancer: has("load-balancer"),
        routes: has("routes"),
    };
    if capabilities.instances && manifest.schemes.is_empty() {
        let what = "it exports instances, and names no provider ID scheme".to_owned();
        return Err(LoadErrorKind::Contradiction(what));
    }
    let owned = |names: &[&str]| names.iter().map(|name| clean(name, NAME_BYTES)).collect();
    Ok(Inspection {
        digest: Digest::of(wasm),
        size: wasm.len(),
        manifest,
        contract,
        capabilities,
        self_check: has("self-check"),
        imports: owned(&structure.imports),
        exports: owned(&structure.exports),
    })
}

fn manifest(structure: &Structure<'_>) -> Result<Manifest, LoadErrorKind> {
    match structure.manifests.as_slice() {
        [] => Err(LoadErrorKind::NoManifest),
        [section] => Manifest::parse(section).map_err(|reason| {
            // The mistake may be a key or value of a later contract: the module then waits for a host that knows it.
            let named = Manifest::contract_of(section)
                .map(|version| Named::default().name_in_manifest(&version));
            match named {
                Some(Err(unknown)) => unknown,
                Some(Ok(())) | None => LoadErrorKind::Manifest(reason),
            }
        }),
        several => Err(LoadErrorKind::ManyManifests(several.len())),
    }
}

/// How an error shows the contract version of a manifest.
pub(crate) fn named_by_manifest(version: &str) -> String {
    format!("{PACKAGE}@{version} (says its manifest)")
}

/// The one version of the contract that a module names, and the interface or manifest that names it first. Both sides of
/// a module speak it, and an interface at another version must not count as absent.
#[derive(Default)]
struct Named(Option<(Contract, String)>);

impl Named {
    /// Records that the manifest names this version.
    fn name_in_manifest(&mut self, version: &str) -> Result<(), LoadErrorKind> {
        self.name(named_by_manifest(version), version)
    }

    /// Records that `by` names this version.
    fn name(&mut self, by: String, version: &str) -> Result<(), LoadErrorKind> {
        let by = clean(&by, NAME_BYTES);
        let is_it = |known: &Contract| track(known.version()) == track(version);
        let Some(found) = Contract::ALL.into_iter().find(is_it) else {
            return Err(LoadErrorKind::Contract(by));
        };
        match &self.0 {
            Some((known, one)) if *known != found => Err(LoadErrorKind::TwoContracts {
                one: one.clone(),
                other: by,
            }),
            Some(_) => Ok(()),
            None => {
                self.0 = Some((found, by));
                Ok(())
            }
        }
    }
}

/// Parsed interface name, such as `ccm:provider/instances@0.1.0`.
struct Interface<'a> {
    /// `ccm:provider/instances`.
    path: &'a str,
    /// `ccm:provider`.
    package: &'a str,
    /// `instances`.
    name: &'a str,
    /// `0.1.0`; empty without a version.
    version: &'a str,
}

fn interface(full: &str) -> Option<Interface<'_>> {
    let (path, version) = full.split_once('@').unwrap_or((full, ""));
    let (package, name) = path.split_once('/')?;
    Some(Interface {
        path,
        package,
        name,
        version,
    })
}

/// Compatibility track of a version: `0.1` of `0.1.3`, `1` of `1.2.3`. A pre-release is compatible only with itself.
fn track(version: &str) -> &str {
    if version.contains(['-', '+']) {
        return version;
    }
    let dots = if version.starts_with("0.") { 2 } else { 1 };
    let end = version.match_indices('.').map(|(at, _)| at).nth(dots - 1);
    end.and_then(|end| version.get(..end)).unwrap_or(version)
}

fn check_imports(imports: &[&str], contract: &mut Named) -> Result<(), LoadErrorKind> {
    let mut refused = Vec::new();
    for full in imports {
        let is_wasi = |import: &Interface<'_>| {
            wasi::INTERFACES.contains(&import.path) && track(import.version) == "0.2"
        };
        match interface(full) {
            Some(ours) if ours.package == PACKAGE && OFFERED.contains(&ours.name) => {
                contract.name((*full).to_owned(), ours.version)?;
            }
            Some(import) if is_wasi(&import) => {}
            _ => refused.push(clean(full, NAME_BYTES)),
        }
    }
    if refused.is_empty() {
        return Ok(());
    }
    let more = refused.len().saturating_sub(NAMES);
    refused.truncate(NAMES);
    if more > 0 {
        refused.push(format!("and {more} more"));
    }
    Err(LoadErrorKind::Imports(refused))
}

/// Contract interfaces among the exports. Others are ignored: toolchains add some of their own.
fn exports<'a>(exports: &[&'a str], contract: &mut Named) -> Result<Vec<&'a str>, LoadErrorKind> {
    let mut found = Vec::new();
    for full in exports {
        let Some(export) = interface(full) else {
            continue;
        };
        if export.package == PACKAGE && KNOWN.contains(&export.name) {
            contract.name((*full).to_owned(), export.version)?;
            found.push(export.name);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
