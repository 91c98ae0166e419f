//! `hostile.md` lists every hostile case with its required result and its tests. This checks that no case is missing or
//! listed twice, that each test exists in its program, that a test with a case's ID in its name is listed with the
//! case, and that nearly all cases have a test; and that `SECURITY.md` has the totals. It cannot judge a test's
//! quality.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::lists::{Row, assert_none, functions, root, sources};

/// The groups, and how many cases each has.
const GROUPS: [(char, u32, &str); 8] = [
    ('A', 18, "a module, before anything of it runs"),
    ('B', 20, "a guest that runs"),
    ('C', 10, "values that cross the boundary"),
    ('D', 36, "where a guest's requests go"),
    ('E', 27, "a cloud that fails or lies"),
    ('F', 33, "answers that mean harm in Kubernetes"),
    ('G', 16, "modules that come and go, and configuration"),
    ('H', 11, "what the process shows of itself"),
];

/// Minimum number of cases with tests.
const SHOWN: usize = 171;

/// The programs, and the folders of their tests.
const PROGRAMS: [(&str, &[&str]); 16] = [
    ("core", &["runtime/core/src"]),
    ("host", &["runtime/host/src"]),
    ("delivery", &["runtime/delivery/src"]),
    ("controllers", &["runtime/controllers/src"]),
    ("ccm", &["runtime/ccm/src"]),
    ("hcloud", &["guests/hcloud/src"]),
    ("sdk", &["guest-sdk/src"]),
    ("metrics", &["runtime/metrics/src"]),
    ("serving", &["runtime/serving/src"]),
    ("egress", &["runtime/host/tests/egress"]),
    // Each word of the misbehaving guest is a test.
    (
        "sandbox",
        &["tests/sandbox", "tests/guests/misbehaving/src"],
    ),
    ("program", &["tests/program"]),
    ("scenarios", &["tests/scenarios"]),
    ("properties", &["tests/properties"]),
    ("cluster", &["tests/cluster"]),
    ("registry", &["tests/registry"]),
];

/// The lines around the totals in `SECURITY.md`.
const BEGIN: &str =
    "<!-- Totals of tests/hostile.md; `tests/rules` writes them with CCM_BLESS=1. -->\n";
const END: &str = "<!-- End of the totals. -->\n";

/// Whether it is an ID such as `A1`.
fn is_id(text: &str) -> bool {
    let mut letters = text.chars();
    let group = letters.next();
    let number = letters.as_str();
    GROUPS.iter().any(|(letter, ..)| group == Some(*letter))
        && !number.is_empty()
        && number.bytes().all(|byte| byte.is_ascii_digit())
}

fn rows() -> Vec<Row> {
    crate::lists::rows("hostile.md", is_id)
}

/// Program and test of each name in a row.
fn shown_by(row: &Row) -> Result<Vec<(&str, &str)>, String> {
    let mut program = None;
    let mut shown = Vec::new();
    for word in row.named() {
        if PROGRAMS.iter().any(|(known, _)| *known == word) {
            program = Some(word);
            continue;
        }
        let program = program.ok_or_else(|| format!("{}: {word} is of no program", row.id))?;
        shown.push((program, word));
    }
    Ok(shown)
}

/// The tests of a program: functions, the names in its tables, and files.
struct Tests {
    folders: &'static [&'static str],
    sources: Vec<String>,
    functions: BTreeMap<String, String>,
}

impl Tests {
    fn of(folders: &'static [&'static str]) -> Tests {
        let sources = sources(folders);
        let functions = functions(&sources);
        Tests {
            folders,
            sources,
            functions,
        }
    }

    fn has(&self, test: &str) -> bool {
        if test.ends_with(".txt") {
            let mut folders = self.folders.iter();
            return folders.any(|folder| root().join(folder).join(test).is_file());
        }
        let name = bare(test);
        let is_text = |text: String| self.sources.iter().any(|source| source.contains(&text));
        // A string literal with the name alone, or with its area before it.
        self.functions.contains_key(name)
            || is_text(format!("\"{name}\""))
            || is_text(format!("::{name}\""))
    }

    /// The tests whose names begin with IDs of cases, such as `g5_g6_…`, with these IDs.
    fn carriers(&self) -> Vec<(String, Vec<String>)> {
        let in_tables = self.sources.iter().flat_map(|source| {
            let texts = source.split('"').skip(1).step_by(2);
            texts.filter(|text| !text.contains(['{', ' ', '/']))
        });
        let files = crate::lists::files(self.folders, "txt");
        let functions = self.functions.keys().map(String::as_str);
        let names = functions
            .chain(in_tables)
            .chain(files.iter().map(String::as_str));
        let names: BTreeSet<&str> = names.map(bare).collect();
        let carriers = names.into_iter().filter_map(|name| {
            let ids = carried(name);
            (!ids.is_empty()).then(|| (name.to_owned(), ids))
        });
        carriers.collect()
    }
}

/// A test's name without its area, or without folder and extension.
fn bare(test: &str) -> &str {
    let name = test.rsplit(['/', ':']).next().unwrap_or(test);
    name.strip_suffix(".txt").unwrap_or(name)
}

/// The IDs at the beginning of a name.
fn carried(name: &str) -> Vec<String> {
    let id = |word: &str| {
        let (group, number) = word.split_at_checked(1)?;
        let number: u32 = number.parse().ok()?;
        Some(format!("{}{number}", group.to_ascii_uppercase()))
    };
    let words = name.split('_').map_while(id);
    let ids: Vec<_> = words.take_while(|id| is_id(id)).collect();
    match name.split('_').count() > ids.len() {
        true => ids,
        // Words that look like IDs: `h2` is a protocol.
        false => Vec::new(),
    }
}

#[test]
fn every_hostile_case_has_one_row() {
    let mut wanted = Vec::new();
    for (letter, cases, _) in GROUPS {
        wanted.extend((1..=cases).map(|number| format!("{letter}{number}")));
    }
    let rows = rows();
    let found: Vec<_> = rows.iter().map(|row| row.id.clone()).collect();
    assert_eq!(found, wanted, "in this order");
    for Row { id, cells, .. } in &rows {
        assert!(cells.iter().all(|cell| !cell.is_empty()), "{id}");
    }
}

#[test]
fn every_test_that_hostile_md_names_exists_in_its_program() {
    let mut tests = BTreeMap::new();
    let mut problems = Vec::new();
    for row in rows() {
        match (row.is_covered(), shown_by(&row)) {
            (false, _) if row.tests.starts_with("Not automated: ") => {}
            (false, _) => problems.push(format!("{}: {}", row.id, row.tests)),
            (true, Err(problem)) => problems.push(problem),
            (true, Ok(shown)) => {
                if shown.is_empty() {
                    problems.push(format!("{} names no test", row.id));
                }
                for (program, test) in shown {
                    let folders = PROGRAMS.iter().find(|(known, _)| *known == program);
                    let (_, folders) = folders.unwrap();
                    let known = tests.entry(program.to_owned());
                    if !known.or_insert_with(|| Tests::of(folders)).has(test) {
                        problems.push(format!("{}: {program} has no test {test}", row.id));
                    }
                }
            }
        }
    }
    assert_none(&problems);
}

#[test]
fn every_test_that_carries_the_id_of_a_case_is_in_its_row() {
    let rows = rows();
    let is_listed = |test: &str, id: &str| {
        let mut rows = rows.iter().filter(|row| row.id == id);
        rows.any(|row| row.named().any(|named| bare(named) == test))
    };
    let mut problems = Vec::new();
    for (program, folders) in PROGRAMS {
        for (test, ids) in Tests::of(folders).carriers() {
            let missing = ids.iter().filter(|id| !is_listed(&test, id));
            problems
                .extend(missing.map(|id| format!("{program}: {test} is not in the row of {id}")));
        }
    }
    assert_none(&problems);
}

#[test]
fn nearly_all_hostile_cases_are_shown_by_tests() {
    let shown = rows().iter().filter(|row| row.is_covered()).count();
    assert!(shown >= SHOWN, "{shown}, at least {SHOWN}");
}

/// The table of totals.
fn totals() -> String {
    let rows = rows();
    let mut table =
        "| Group | Cases | Shown by tests | Not automated |\n|---|---|---|---|\n".to_owned();
    for (letter, cases, what) in GROUPS {
        let group = rows.iter().filter(|row| row.id.starts_with(letter));
        let (shown, open): (Vec<_>, Vec<_>) = group.partition(|row| row.is_covered());
        let open: Vec<_> = open.iter().map(|row| row.id.as_str()).collect();
        let (shown, open) = (shown.len(), open.join(", "));
        let line = format!("| {letter}: {what} | {cases} | {shown} | {open} |");
        writeln!(table, "{}", line.replace("|  |", "| |")).unwrap();
    }
    let shown = rows.iter().filter(|row| row.is_covered()).count();
    let open = rows.len() - shown;
    writeln!(table, "| all | {} | {shown} | {open} |", rows.len()).unwrap();
    table
}

#[test]
fn security_md_has_the_totals() {
    let file = root().join("SECURITY.md");
    let text = std::fs::read_to_string(&file).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("where the totals begin");
    let (found, after) = rest.split_once(END).expect("where they end");
    let wanted = totals();
    if std::env::var_os("CCM_BLESS").is_some() {
        std::fs::write(file, format!("{before}{BEGIN}{wanted}{END}{after}")).unwrap();
    } else {
        assert_eq!(found, wanted, "CCM_BLESS=1 writes them anew");
    }
}
