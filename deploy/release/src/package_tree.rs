//! The packages of a program: Cargo's own answer, for exactly these features and this target. Packages that only build
//! scripts and macros use are not in the program, and not in the answer.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

/// Name and version of a package.
pub(crate) type Id = (String, String);

/// A package, and its direct dependencies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Package {
    /// An SPDX expression, as its manifest has it.
    pub license: String,
    /// URL of its source repository.
    pub repository: String,
    /// Its direct dependencies.
    pub needs: BTreeSet<Id>,
    /// SHA-256 of the downloaded package; packages of the workspace have none.
    pub checksum: Option<String>,
}

/// The root and every package below it.
#[derive(Debug)]
pub(crate) struct PackageTree {
    /// The program's own package.
    pub root: Id,
    /// All packages, including the root.
    pub packages: BTreeMap<Id, Package>,
}

/// Asks `cargo tree` with these arguments.
pub(crate) fn ask(checkout: &Path, arguments: &[&str]) -> Result<PackageTree> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(checkout)
        .args(["tree", "--locked", "--charset=ascii", "--prefix=depth"])
        .args(["--edges=normal,no-proc-macro", "--format=\t{p}\t{l}\t{r}\t"])
        .args(arguments)
        .output()
        .context("cannot run cargo tree")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cargo tree: {said}");
    let lock = String::from_utf8(crate::read(&checkout.join("Cargo.lock"))?)?;
    parse(&String::from_utf8(output.stdout)?, &checksums(&lock))
}

fn parse(text: &str, checksums: &BTreeMap<Id, String>) -> Result<PackageTree> {
    let mut packages: BTreeMap<Id, Package> = BTreeMap::new();
    let mut path: Vec<Id> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        let unread = || format!("cargo tree printed a line that nobody can read: {line}");
        let fields: Vec<&str> = line.split('\t').collect();
        let [depth, package, license, repository, ..] = fields.as_slice() else {
            return Err(anyhow::Error::msg(unread()));
        };
        let depth: usize = depth.parse().with_context(unread)?;
        let mut words = package.split(' ');
        let name = words.next().unwrap_or_default().to_owned();
        let version = words.next().and_then(|word| word.strip_prefix('v'));
        let id = (name, version.with_context(unread)?.to_owned());
        path.truncate(depth);
        if let Some(parent) = path.last() {
            let parent = packages.entry(parent.clone()).or_default();
            parent.needs.insert(id.clone());
        }
        let known = packages.entry(id.clone()).or_default();
        known.license = (*license).to_owned();
        known.repository = (*repository).to_owned();
        known.checksum = checksums.get(&id).cloned();
        path.push(id);
    }
    let root = path.first().context("cargo tree printed nothing")?.clone();
    Ok(PackageTree { root, packages })
}

/// The checksums of `Cargo.lock`, whose entries have one line for each field.
fn checksums(lock: &str) -> BTreeMap<Id, String> {
    let entries = lock.split("\n[[package]]\n").skip(1);
    let field = |entry: &str, name: &str| {
        let prefix = format!("{name} = \"");
        let mut lines = entry.lines();
        lines.find_map(|line| Some(line.strip_prefix(&prefix)?.strip_suffix('"')?.to_owned()))
    };
    entries
        .filter_map(|entry| {
            let id = (field(entry, "name")?, field(entry, "version")?);
            Some((id, field(entry, "checksum")?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn id(name: &str) -> Id {
        (name.to_owned(), "1.0.0".to_owned())
    }

    #[test]
    fn what_cargo_prints_becomes_a_graph() {
        let lock = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\n\n[[package]]\nname = \"c\"\nversion = \"1.0.0\"\nchecksum = \"00ff\"\n";
        let text = "0\ta v1.0.0 (/here)\tMIT\thttps://a\t\n1\tb v1.0.0\tMIT\t\t\n2\tc v1.0.0\tISC\t\t\n1\tc v1.0.0\tISC\t\t (*)\n";
        let tree = parse(text, &checksums(lock)).unwrap();
        assert_eq!(tree.root, id("a"));
        assert_eq!(tree.packages.len(), 3);
        let a = &tree.packages[&id("a")];
        assert_eq!(a.needs, BTreeSet::from([id("b"), id("c")]));
        assert_eq!(a.repository, "https://a");
        assert_eq!(tree.packages[&id("b")].needs, BTreeSet::from([id("c")]));
        let c = &tree.packages[&id("c")];
        assert_eq!(
            (c.license.as_str(), c.checksum.as_deref()),
            ("ISC", Some("00ff"))
        );
        assert_eq!(a.checksum, None);
    }

    #[test]
    fn what_nobody_can_read_is_an_error() {
        for text in ["", "0\n", "x\ta v1.0.0\tMIT\t\t\n", "0\ta\tMIT\t\t\n"] {
            assert!(parse(text, &BTreeMap::new()).is_err(), "{text:?}");
        }
    }
}
