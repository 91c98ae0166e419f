//! Differences in HTTP requests: targets and the lines of their rules.

use std::collections::HashSet;

use ccm_core::safety::permit::Access;
use ccm_host::egress::rules::{Absence, Line, Rule};
use ccm_host::manifest::{AuthKind, Manifest, Target};

use super::{Difference, Sign};

impl Difference {
    pub(super) fn targets(&mut self, old: &Manifest, new: &Manifest) {
        let (was, is) = (asked(old), asked(new));
        for target in &new.targets {
            let same = old.targets.iter().find(|old| old.name == target.name);
            if same.is_none_or(|old| place(old) != place(target)) {
                let sign = match same.is_some_and(|old| reaches(old, target)) {
                    true => Sign::Within,
                    false => Sign::Wider,
                };
                self.add(sign, place(target));
            } else if same.is_some_and(|old| old.required != target.required) {
                let (sign, word) = match target.required {
                    true => (Sign::Wider, "cannot do without"),
                    false => (Sign::Within, "can do without"),
                };
                self.add(sign, format!("{word} target {}", target.name));
            }
            self.lines_of(target, &was, &is);
        }
        for target in &old.targets {
            let same = new.targets.iter().find(|new| new.name == target.name);
            if same.is_none_or(|new| place(new) != place(target)) {
                self.add(Sign::Gone, place(target));
            }
            for one in was.iter().filter(|one| one.target.name == target.name) {
                if !is.iter().any(|new| new.covers(one)) {
                    self.add(Sign::Gone, one.text());
                }
            }
        }
    }

    /// Compares the new lines of a target; skips those that were there before.
    fn lines_of(&mut self, target: &Target, was: &[Asked<'_>], is: &[Asked<'_>]) {
        let known: HashSet<String> = was
            .iter()
            .filter(|one| one.target.name == target.name && reaches(one.target, target))
            .map(Asked::text)
            .collect();
        for one in is.iter().filter(|one| one.target.name == target.name) {
            if known.contains(&one.text()) {
                continue;
            }
            match was.iter().find(|old| old.covers(one)) {
                None => self.add(Sign::Wider, one.text()),
                // Only the name of a placeholder differs.
                Some(old) if one.covers(old) => {}
                Some(_) => self.add(Sign::Within, one.text()),
            }
        }
    }
}

/// One rule line and its target.
struct Asked<'a> {
    target: &'a Target,
    line: Line,
}

fn asked(manifest: &Manifest) -> Vec<Asked<'_>> {
    let of = |target| {
        let lines = |rule: &Rule| rule.lines();
        let target: &Target = target;
        let lines = target.rules.iter().flat_map(lines);
        lines.map(move |line| Asked { target, line })
    };
    manifest.targets.iter().flat_map(of).collect()
}

impl Asked<'_> {
    /// Whether this line admits everything that the other one admits, under the same target name, to which grants
    /// apply. A proof of absence is no right, but has to be covered, too: a node can be deleted because of it.
    fn covers(&self, other: &Asked<'_>) -> bool {
        self.target.name == other.target.name
            && reaches(self.target, other.target)
            && self.line.covers(&other.line)
            && (other.line.absence.iter()).all(|proof| self.line.absence.contains(proof))
    }

    fn text(&self) -> String {
        let endpoint = &self.target.endpoint;
        let host = endpoint.host_str().unwrap_or_default();
        let port = endpoint.port().map(|port| format!(":{port}"));
        let base = endpoint.path().trim_end_matches('/');
        let Line {
            method,
            path,
            query,
            form,
            access,
            absence,
        } = &self.line;
        let port = port.unwrap_or_default();
        let mut text = format!("{} {method} {host}{port}{base}{path}", endpoint.scheme());
        for (place, fields) in [("?", query), ("form ", form)] {
            for (name, value) in fields {
                // Values of fields are the only part of a line that may contain any character.
                let (name, value) = (name.escape_debug(), value.escape_debug());
                text.push_str(&format!(" {place}{name}={value}"));
            }
        }
        text.push_str(match access {
            Access::Read => "  read",
            Access::Write => "  write",
        });
        for Absence { status, contains } in absence {
            text.push_str(&format!(", {status} with {contains:?} proves absence"));
        }
        text
    }
}

/// Whether the new target has the same endpoint, with the same credential or none.
fn reaches(old: &Target, new: &Target) -> bool {
    old.endpoint == new.endpoint && (old.auth == new.auth || new.auth == AuthKind::None)
}

fn place(target: &Target) -> String {
    let Target {
        name,
        endpoint,
        auth,
        ..
    } = target;
    match target.names_endpoint() {
        true => format!("target {name} at {endpoint}, credential: {auth}"),
        false => format!("target {name} where its grant says, credential: {auth}"),
    }
}
