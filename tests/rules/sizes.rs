//! The number of lines of each shipped provider: a cloud after the first costs a part of it, since shared code is in
//! the SDK. `guests/README.md` has the figures. A test of the sandbox checks the modules' sizes in bytes.

use std::collections::{BTreeMap, BTreeSet};

use crate::lists::{files, root, shipped};

/// Files that only Robot's dedicated servers need.
const ROBOT: [&str; 2] = ["robot", "find/dedicated.rs"];
/// hcloud's files that nodes need. Their lines for the other interfaces count as well.
const NODES: [&str; 9] = [
    "api.rs",
    "api/networks.rs",
    "api/refusal.rs",
    "config.rs",
    "find.rs",
    "instances.rs",
    "lib.rs",
    "provider.rs",
    "provider_id.rs",
];
/// The second kind of load balancers of AWS, which has no counterpart.
const CLASSIC: [&str; 2] = ["load_balancer/classic", "load_balancer/wanted/classic.rs"];

/// A guest, its lines and hcloud's for the same interfaces, and the maximum percentage.
struct Share {
    guest: &'static str,
    lines: usize,
    of: usize,
    most: usize,
}

impl Share {
    fn percent(&self) -> usize {
        (self.lines * 100).div_ceil(self.of)
    }
}

fn shares() -> [Share; 3] {
    let hcloud = lines("hcloud");
    let of = |is_counted: &dyn Fn(&str) -> bool| sum(&hcloud, |file| is_counted(file));
    let is_robot = |file: &str| ROBOT.iter().any(|begin| file.starts_with(begin));
    let is_classic = |file: &str| CLASSIC.iter().any(|begin| file.starts_with(begin));
    [
        Share {
            guest: "digitalocean",
            lines: sum(&lines("digitalocean"), |_| true),
            of: of(&|file| !is_robot(file) && !file.starts_with("routes")),
            most: 60,
        },
        Share {
            guest: "proxmox",
            lines: sum(&lines("proxmox"), |_| true),
            of: of(&|file| NODES.contains(&file)),
            most: 60,
        },
        // Above the 60 of the others: AWS has no request that makes a load balancer with all its parts, so each part is
        // compared and changed by itself. And where the configuration lacks the cluster's ID, it is in the tags of the
        // manager's own instance.
        Share {
            guest: "aws",
            lines: sum(&lines("aws"), |file| !is_classic(file)),
            of: of(&|file| !is_robot(file)),
            most: 66,
        },
    ]
}

fn sum(lines: &BTreeMap<String, usize>, is_counted: impl Fn(&str) -> bool) -> usize {
    let counted = lines.iter().filter(|(file, _)| is_counted(file));
    counted.map(|(_, lines)| lines).sum()
}

/// The lines of code of each file of a guest, without tests.
fn lines(guest: &str) -> BTreeMap<String, usize> {
    let folder = format!("guests/{guest}/src");
    let begin = format!("{}/", root().join(&folder).display());
    let mut tests = BTreeSet::new();
    let mut counted = BTreeMap::new();
    for path in files(&[&folder], "rs") {
        let file = path.strip_prefix(&begin).unwrap().to_owned();
        let (lines, modules) = code(&std::fs::read_to_string(&path).unwrap());
        let inside = match file.strip_suffix(".rs").unwrap() {
            "lib" => String::new(),
            module => format!("{module}/"),
        };
        tests.extend(modules.into_iter().map(|name| format!("{inside}{name}")));
        counted.insert(file, lines);
    }
    counted.retain(|file, _| {
        let is_of = |test: &String| {
            let rest = file.strip_prefix(test.as_str());
            rest.is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
        };
        !tests.iter().any(is_of)
    });
    counted
}

/// The number of lines that are neither blank nor comments nor tests, and the names of the modules that are tests.
fn code(text: &str) -> (usize, Vec<String>) {
    let mut count = 0;
    let mut modules = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let line = line.trim();
        if line == "#[cfg(test)]" {
            let item = lines.next().unwrap_or_default();
            if item.ends_with('{') {
                lines
                    .by_ref()
                    .take_while(|line| *line != "}")
                    .for_each(drop);
            }
            let module = item.trim_start_matches("pub ").strip_prefix("mod ");
            modules.extend(
                module
                    .and_then(|name| name.strip_suffix(';'))
                    .map(str::to_owned),
            );
        } else if !line.is_empty() && !line.starts_with("//") {
            count += 1;
        }
    }
    (count, modules)
}

#[test]
fn lines_of_code_are_neither_blank_nor_comments_nor_tests() {
    let text = "//! About.\n\nuse a;\n\n#[cfg(test)]\npub mod account;\n\n/// A.\nfn a() {\n    // Why.\n    b()\n}\n\n#[cfg(test)]\nmod tests {\n    fn c() {\n    }\n}\n";
    assert_eq!(code(text), (4, vec!["account".to_owned()]));
    let hcloud = lines("hcloud");
    assert!(hcloud.contains_key("load_balancer/ensure.rs"));
    assert!(
        !hcloud.contains_key("load_balancer/fixtures.rs"),
        "fixtures"
    );
    assert!(NODES.iter().all(|file| hcloud.contains_key(*file)));
}

#[test]
#[allow(clippy::print_stdout, reason = "the lines are figures")]
fn each_cloud_after_the_first_costs_a_part_of_it() {
    for share in shares() {
        let Share {
            guest,
            lines,
            of,
            most,
        } = share;
        let percent = share.percent();
        println!("{guest}: {lines} lines, {percent} % of hcloud's {of} for the same interfaces");
        assert!(
            percent <= most,
            "{guest}: {lines} of {of} lines, {percent} %"
        );
    }
}

/// Authors copy this example.
#[test]
fn the_load_balancers_of_the_sdks_example_take_ninety_lines() {
    let path = root().join("guest-sdk/examples/balancer/main.rs");
    let (lines, _) = code(&std::fs::read_to_string(path).unwrap());
    assert!(lines <= 90, "{lines}");
}

#[test]
fn the_readme_says_how_large_the_guests_are() {
    let readme = std::fs::read_to_string(root().join("guests/README.md")).unwrap();
    let shares = shares();
    for guest in &shipped() {
        let row = readme.lines().find_map(|line| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            match cells.as_slice() {
                ["", name, lines, share, kib, ""] if kib.ends_with(" KiB") => (*name
                    == format!("`{guest}`"))
                .then(|| ((*lines).to_owned(), (*share).to_owned())),
                _ => None,
            }
        });
        let (stated, share) = row.unwrap_or_else(|| panic!("no row about {guest}"));
        let stated: usize = stated.parse().unwrap();
        let counted = sum(&lines(guest), |_| true);
        assert!(
            stated.abs_diff(counted) * 20 <= counted,
            "{guest}: {counted} lines, not {stated}"
        );
        let expected = shares.iter().find(|one| one.guest == *guest);
        match (expected, share.strip_suffix(" %")) {
            (None, None) => {}
            (Some(expected), Some(stated)) => {
                let stated: usize = stated.parse().unwrap();
                let percent = expected.percent();
                assert!(
                    stated.abs_diff(percent) <= 3,
                    "{guest}: {percent} %, not {stated}"
                );
            }
            _ => panic!("{guest}: {share:?}"),
        }
    }
}
