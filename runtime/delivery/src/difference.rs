//! Differences between the requests of an old and a new version, line by line like a plan. Compares only what modules
//! request, not what is granted, and draws no conclusions.
//!
//! ```text
//! + https DELETE api.hetzner.cloud/v1/volumes/{id}  write
//! ~ https GET api.hetzner.cloud/v1/servers/{id}  read
//! - https GET api.hetzner.cloud/v1/{kind}/{id}  read
//! ```
//!
//! `+` is not covered by anything the old version requested, `-` is no longer requested, and `~` is worded differently
//! but covered by earlier requests. Only `+` makes a version [wider](Difference::is_wider).

mod http_rules;
mod requests;
#[cfg(test)]
mod tests;

use std::fmt;

use ccm_host::LimitsGranted;
use ccm_host::manifest::{Manifest, prefix_covers};

pub use requests::Requests;

/// Prefix of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    /// Not covered by any request of the old version.
    Wider,
    /// Requested by the new version only, and covered.
    Within,
    /// Requested by the old version only.
    Gone,
}

/// The lines by which the requests of two versions differ.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Difference {
    changes: Vec<(Sign, String)>,
}

impl Difference {
    /// Compares the requests of two modules.
    pub fn between(old: &Requests, new: &Requests) -> Difference {
        let mut difference = Difference::default();
        let (was, is) = (&old.manifest, &new.manifest);
        difference.named(&was.name, &is.name);
        difference.targets(was, is);
        difference.compare_items(
            "annotation prefix",
            &was.annotation_prefixes,
            &is.annotation_prefixes,
            prefix_covers,
        );
        difference.compare_items(
            "provider ID scheme",
            &was.schemes,
            &is.schemes,
            |old, new| old == new,
        );
        difference.compare_items("import", &old.imports, &new.imports, |old, new| old == new);
        difference.compare_items("export", &old.exports, &new.exports, |old, new| old == new);
        difference.limits(was, is);
        difference.compare_items(
            "required configuration key",
            &required(was),
            &required(is),
            |old, new| old == new,
        );
        difference
    }

    /// Whether the new version requests anything that the old one did not cover.
    pub fn is_wider(&self) -> bool {
        self.changes.iter().any(|(sign, _)| *sign == Sign::Wider)
    }

    /// Whether both request the same.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// All differences, one line each.
    pub fn lines(&self) -> Vec<String> {
        self.changes.iter().map(line).collect()
    }

    /// Only the lines that make the new version wider.
    pub fn wider_lines(&self) -> Vec<String> {
        let wider = self.changes.iter().filter(|(sign, _)| *sign == Sign::Wider);
        wider.map(line).collect()
    }

    fn add(&mut self, sign: Sign, text: String) {
        self.changes.push((sign, text));
    }

    /// Adds a changed name of the module: it grants no rights, but an operator should see the change.
    fn named(&mut self, old: &str, new: &str) {
        if old != new && !old.is_empty() {
            self.add(
                Sign::Within,
                format!("name in the manifest: {new} (before: {old})"),
            );
        }
    }

    /// Compares lists whose items are covered one by one.
    fn compare_items(
        &mut self,
        what: &str,
        old: &[String],
        new: &[String],
        covers: impl Fn(&str, &str) -> bool,
    ) {
        for word in new.iter().filter(|word| !old.contains(word)) {
            let sign = match old.iter().any(|old| covers(old, word)) {
                true => Sign::Within,
                false => Sign::Wider,
            };
            self.add(sign, format!("{what} {word}"));
        }
        for word in old.iter().filter(|word| !new.contains(word)) {
            self.add(Sign::Gone, format!("{what} {word}"));
        }
    }

    /// Compares the limits that a call would get if only the host limited it.
    fn limits(&mut self, old: &Manifest, new: &Manifest) {
        let [was, is] = [old, new].map(|manifest| LimitsGranted::default().call(manifest));
        let memory = [was, is].map(|limits| limits.memory_mib as u64);
        for (what, unit, [old, new]) in [
            ("memory of a call", "MiB", memory),
            ("time of a call", "s", [was.call_seconds, is.call_seconds]),
        ] {
            if old != new {
                let sign = if new > old { Sign::Wider } else { Sign::Within };
                self.add(sign, format!("{what}: {new} {unit} (before: {old} {unit})"));
            }
        }
    }
}

fn line((sign, text): &(Sign, String)) -> String {
    let sign = match sign {
        Sign::Wider => '+',
        Sign::Within => '~',
        Sign::Gone => '-',
    };
    format!("{sign} {text}")
}

fn required(manifest: &Manifest) -> Vec<String> {
    let keys = manifest.config.iter().filter(|key| key.required);
    keys.map(|key| key.key.escape_debug().to_string()).collect()
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.lines().join("\n"))
    }
}
