//! The imports between files of `core`: files that import each other in a circle can only be understood together, so no
//! circle has more than three of them; and each part stands on those before it. Reads `use` declarations and paths in the
//! code; tests do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::lists::{files, root, text};

const CRATE: &str = "runtime/core/src";
const MOST: usize = 3;

#[test]
fn no_circle_of_imports_in_core_has_more_than_three_files() {
    let modules = modules();
    let large: Vec<_> = circles(&imports(&modules))
        .into_iter()
        .filter(|circle| circle.len() > MOST)
        .collect();
    assert!(large.is_empty(), "{large:#?}");
}

#[test]
fn each_part_of_core_stands_on_those_before_it() {
    let library = text(&format!("{CRATE}/lib.rs"));
    let (_, list) = library.split_once("From the ground up").unwrap();
    let (list, _) = list.split_once("#![").unwrap();
    let names = list.split("[`").skip(1);
    let order: Vec<&str> = names.filter_map(|name| name.split('`').next()).collect();
    let place = |part: &String| {
        let place = order.iter().position(|name| name == part);
        place.unwrap_or_else(|| panic!("lib.rs does not say where {part} stands"))
    };
    let modules = modules();
    let mut broken = Vec::new();
    for (from, named) in imports(&modules) {
        if from.is_empty() || from.iter().any(|part| part.ends_with("fixtures")) {
            continue;
        }
        let above = named.iter().filter(|to| place(&to[0]) > place(&from[0]));
        broken.extend(above.map(|to| format!("{} imports {}", from.join("::"), to.join("::"))));
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn a_circle_is_found_and_a_chain_is_none() {
    let source = |text: &str| text.to_owned();
    let modules: BTreeMap<Vec<String>, String> = [
        ("a", source("use crate::b::{self, c::{One, Two as Three}};")),
        ("b", source("pub(crate) fn f() { super::d::g() }")),
        (
            "b::c",
            source("use super::super::a::*; // use crate::e::E;"),
        ),
        (
            "d",
            source("pub fn g() {}\n#[cfg(test)]\nmod tests { use crate::a; }"),
        ),
        ("e", source("use crate::a::A;")),
    ]
    .into_iter()
    .map(|(name, text)| (name.split("::").map(str::to_owned).collect(), text))
    .collect();
    let found = circles(&imports(&modules));
    let names: Vec<Vec<String>> = found
        .into_iter()
        .map(|circle| circle.iter().map(|path| path.join("::")).collect())
        .collect();
    assert_eq!(names, [["a", "b::c"]]);
}

/// The crate's files but tests: each module's path, and its text.
fn modules() -> BTreeMap<Vec<String>, String> {
    let base = root().join(CRATE);
    let name = |path: &str| -> Vec<String> {
        let path = Path::new(path).strip_prefix(&base).unwrap();
        let path = path.with_extension("");
        path.iter()
            .map(|part| part.to_str().unwrap().to_owned())
            .filter(|part| part != "lib")
            .collect()
    };
    files(&[CRATE], "rs")
        .into_iter()
        .map(|path| (name(&path), text(&path)))
        .filter(|(name, _)| !name.iter().any(|part| part == "tests"))
        .collect()
}

type Graph<'a> = BTreeMap<&'a Vec<String>, BTreeSet<&'a Vec<String>>>;

/// The files that each file names. A path leads to its last file; the root of the crate does not count.
fn imports(modules: &BTreeMap<Vec<String>, String>) -> Graph<'_> {
    let leads_to = |path: &[String]| {
        let ends = (1..=path.len()).rev();
        ends.filter_map(|end| modules.get_key_value(&path[..end]))
            .map(|(name, _)| name)
            .next()
    };
    let named = |name: &Vec<String>, text: &str| {
        let paths = paths(text);
        paths
            .into_iter()
            .filter_map(|path| absolute(name, &path))
            .filter_map(|path| leads_to(&path))
            .collect::<BTreeSet<_>>()
    };
    let of = |(name, text): (_, &String)| {
        let mut named: BTreeSet<_> = named(name, text);
        named.remove(name);
        (name, named)
    };
    modules.iter().map(of).collect()
}

/// The absolute path, from the crate's root.
fn absolute(module: &[String], path: &[String]) -> Option<Vec<String>> {
    let (first, rest) = path.split_first()?;
    let mut base = match first.as_str() {
        "crate" => Vec::new(),
        "super" => module.split_last()?.1.to_vec(),
        _ => return None,
    };
    for part in rest {
        match part.as_str() {
            "super" => drop(base.pop()),
            "self" => {}
            part => base.push(part.to_owned()),
        }
    }
    Some(base)
}

/// Every path in the code that begins with `crate` or `super`, groups in braces taken apart.
fn paths(text: &str) -> Vec<Vec<String>> {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let code: String = code
        .lines()
        .map(|line| line.split("//").next().unwrap())
        .collect::<Vec<_>>()
        .join(" ");
    let mut found = Vec::new();
    for start in ["crate::", "super::"] {
        for (at, _) in code.match_indices(start) {
            let is_inside =
                code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':');
            if !is_inside {
                expand(&[], &code[at..], &mut found);
            }
        }
    }
    found
}

/// The path at the beginning of `text`, or those of its group.
fn expand(before: &[String], text: &str, found: &mut Vec<Vec<String>>) {
    let mut path = before.to_vec();
    let mut rest = text.trim_start();
    loop {
        if let Some(group) = rest.strip_prefix('{') {
            return members(group)
                .into_iter()
                .for_each(|member| expand(&path, member, found));
        }
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
        let (word, after) = rest.split_at(end.unwrap_or(rest.len()));
        path.push(word.to_owned());
        match after.strip_prefix("::") {
            Some(after) => rest = after,
            None => return found.push(path),
        }
    }
}

/// The parts between commas, up to the brace that ends the group.
fn members(group: &str) -> Vec<&str> {
    let (mut depth, mut from, mut found) = (0, 0, Vec::new());
    for (at, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' if depth == 0 => {
                found.push(&group[from..at]);
                from = at + 1;
            }
            '}' => {
                found.push(&group[from..at]);
                break;
            }
            _ => {}
        }
    }
    found.retain(|member| !member.trim().is_empty());
    found
}

/// The largest sets of files that all lead to each other.
fn circles<'a>(graph: &Graph<'a>) -> BTreeSet<BTreeSet<&'a Vec<String>>> {
    let reached: Graph<'a> = graph
        .keys()
        .map(|from| (*from, reach(graph, from)))
        .collect();
    let circle = |from: &&'a Vec<String>| {
        let together = reached[from]
            .iter()
            .filter(|to| reached[*to].contains(from));
        together.copied().collect::<BTreeSet<_>>()
    };
    let circles = graph.keys().map(circle);
    circles.filter(|circle| circle.len() > 1).collect()
}

/// All files that one file leads to; itself only by a circle.
fn reach<'a>(graph: &Graph<'a>, from: &Vec<String>) -> BTreeSet<&'a Vec<String>> {
    let mut found = BTreeSet::new();
    let mut open: Vec<_> = graph[from].iter().copied().collect();
    while let Some(next) = open.pop() {
        if found.insert(next) {
            open.extend(graph[next].iter().copied());
        }
    }
    found
}
