//! The bill of materials of one binary: CycloneDX 1.6 in JSON. Its components are the packages that are linked, and
//! each embedded module with its packages.

use anyhow::Result;
use serde_json::{Value, json};

use crate::package_tree::{self, Id, Package, PackageTree};
use crate::{Architecture, Binary, LICENSE, Module, Release, SOURCE, provenance, sha256};

/// The Rust target of guests.
const MODULE_TARGET: &str = "wasm32-wasip2";

/// The bill of materials of `binary`, whose bytes are `program`.
pub(crate) fn of(release: &Release, binary: &Binary, program: &[u8]) -> Result<Value> {
    let target = binary.architecture.target();
    let arguments = ["--package=ccm", "--no-default-features", "--target", target];
    let tree = package_tree::ask(&release.checkout, &arguments)?;
    let mut components = libraries("", &tree);
    components.push(standard_library(release, binary.architecture)?);
    let mut dependencies = graph("", &tree);
    for module in &binary.modules {
        let (component, own) = embedded(release, module, program)?;
        components.push(component);
        dependencies.extend(own);
    }
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": release.created_text()?,
            "component": {
                "type": "application",
                "bom-ref": reference("", &tree.root),
                "name": "ccm",
                "version": release.version,
                "licenses": [{"expression": LICENSE}],
                "hashes": [{"alg": "SHA-256", "content": sha256(program)}],
                "externalReferences": [{"type": "website", "url": SOURCE}],
                "properties": [
                    {"name": "ccm:target", "value": target},
                    {"name": "ccm:revision", "value": release.revision},
                ],
            },
        },
        "components": components,
        "dependencies": dependencies,
    }))
}

/// An embedded module and its dependency graph.
fn embedded(release: &Release, module: &Module, program: &[u8]) -> Result<(Value, Vec<Value>)> {
    let bytes = module.bytes_in(program)?;
    let package = format!("--package={}", module.package);
    let arguments = [package.as_str(), "--target", MODULE_TARGET];
    let tree = package_tree::ask(&release.checkout, &arguments)?;
    let scope = format!("module:{}/", module.name);
    let component = json!({
        "type": "application",
        "bom-ref": reference(&scope, &tree.root),
        "name": module.name,
        "version": tree.root.1,
        "description": "embedded WebAssembly component",
        "licenses": [{"expression": LICENSE}],
        "hashes": [{"alg": "SHA-256", "content": sha256(&bytes)}],
        "properties": [{"name": "ccm:target", "value": MODULE_TARGET}],
        "components": libraries(&scope, &tree),
    });
    Ok((component, graph(&scope, &tree)))
}

/// All packages but the root.
fn libraries(scope: &str, tree: &PackageTree) -> Vec<Value> {
    let packages = tree.packages.iter().filter(|(id, _)| **id != tree.root);
    packages
        .map(|(id, package)| library(scope, id, package))
        .collect()
}

fn library(scope: &str, id: &Id, package: &Package) -> Value {
    let (name, version) = id;
    let mut component = json!({
        "type": "library",
        "bom-ref": reference(scope, id),
        "name": name,
        "version": version,
    });
    if !package.license.is_empty() {
        // The separator of old manifests, which SPDX does not have.
        let expression = package.license.replace('/', " OR ");
        component["licenses"] = json!([{"expression": expression}]);
    }
    // Downloaded packages have a package URL; the project's own packages are not published.
    if let Some(checksum) = &package.checksum {
        component["purl"] = json!(purl(id));
        component["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
    }
    if package.repository.starts_with("https://") {
        component["externalReferences"] = json!([{"type": "vcs", "url": package.repository}]);
    }
    component
}

/// Rust's standard library, and the C library that comes with it.
fn standard_library(release: &Release, architecture: Architecture) -> Result<Value> {
    let version = provenance::rust_version(&release.checkout)?;
    Ok(json!({
        "type": "library",
        "bom-ref": "rust-std",
        "name": "rust-std",
        "version": version,
        "description": format!("Rust's standard library for {}, with its musl and libunwind", architecture.target()),
        "licenses": [{"expression": "MIT OR Apache-2.0"}],
    }))
}

fn graph(scope: &str, tree: &PackageTree) -> Vec<Value> {
    let edges = tree.packages.iter();
    edges
        .map(|(id, package)| {
            let needs: Vec<_> = package
                .needs
                .iter()
                .map(|id| reference(scope, id))
                .collect();
            json!({"ref": reference(scope, id), "dependsOn": needs})
        })
        .collect()
}

fn reference(scope: &str, id: &Id) -> String {
    format!("{scope}{}", purl(id))
}

fn purl((name, version): &Id) -> String {
    // A plus sign belongs to versions with build metadata, and means a space elsewhere.
    format!("pkg:cargo/{name}@{}", version.replace('+', "%2B"))
}
