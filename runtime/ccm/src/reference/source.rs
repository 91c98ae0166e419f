//! Reads documentation comments in this project's own sources: those of constants, and of types that a file is parsed
//! into. Knows rustfmt's form and no other.

use std::collections::BTreeMap;
use std::path::Path;

/// A constant whose value is a text.
pub(super) struct Constant {
    pub(super) value: String,
    pub(super) documentation: String,
}

/// `pub const NAME: &str = "…";` with the comment above it.
pub(super) fn constants(text: &str) -> Vec<Constant> {
    let mut found = Vec::new();
    let mut documentation = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(comment) = line.strip_prefix("///") {
            documentation.push_str(comment);
        } else if line.starts_with("pub const ") && line.contains(": &str =") {
            let whole = match line.ends_with(';') {
                true => line.to_owned(),
                false => format!("{line}{}", lines.next().unwrap_or_default()),
            };
            if let Some(value) = whole.split('"').nth(1) {
                found.push(Constant {
                    value: value.to_owned(),
                    documentation: std::mem::take(&mut documentation),
                });
            }
            documentation.clear();
        } else {
            documentation.clear();
        }
    }
    found
}

/// `    NAME = "…": …;` with the comment above it, as in a macro that declares constants.
pub(super) fn declarations(text: &str) -> Vec<Constant> {
    let mut found = Vec::new();
    let mut documentation = String::new();
    for line in text.lines() {
        if let Some(comment) = line.strip_prefix("    ///") {
            documentation.push_str(comment);
            continue;
        }
        let documentation = std::mem::take(&mut documentation);
        if line.starts_with("    ")
            && let Some((_, rest)) = line.split_once(" = \"")
            && let Some((value, _)) = rest.split_once("\": ")
        {
            found.push(Constant {
                value: value.to_owned(),
                documentation,
            });
        }
    }
    found
}

/// A type that a part of a file is parsed into.
pub(super) struct Type {
    is_enum: bool,
    fields: Vec<Field>,
}

struct Field {
    /// Name in the file.
    key: String,
    /// Type as written; empty: the variant has fields of its own.
    is_a: String,
    documentation: String,
    is_required: bool,
    /// Fields of a variant.
    fields: Vec<Field>,
}

/// The structs and enums of these sources whose keys are in camel case.
pub(super) fn types(sources: &[String]) -> BTreeMap<String, Type> {
    let mut found = BTreeMap::new();
    for text in sources {
        let mut lines = text.lines();
        let mut is_camel = false;
        while let Some(line) = lines.next() {
            if line.starts_with("#[serde(rename_all = \"camelCase\"") {
                is_camel = true;
                continue;
            }
            let mut words = line
                .split_whitespace()
                .filter(|word| !word.starts_with("pub"));
            let (kind, name) = (
                words.next().unwrap_or_default(),
                words.next().unwrap_or_default(),
            );
            if is_camel && matches!(kind, "struct" | "enum") && line.ends_with('{') {
                let body = lines.by_ref().take_while(|line| *line != "}");
                let body: Vec<&str> = body.collect();
                let fields = fields(&body, "    ");
                let is_enum = kind == "enum";
                found.insert(name.to_owned(), Type { is_enum, fields });
                is_camel = false;
            }
        }
    }
    found
}

fn fields(lines: &[&str], indent: &str) -> Vec<Field> {
    let mut found: Vec<Field> = Vec::new();
    let (mut documentation, mut rename, mut has_default) = (String::new(), None, false);
    let mut at = 0;
    while let Some(line) = lines.get(at).and_then(|line| line.strip_prefix(indent)) {
        at += 1;
        if let Some(comment) = line.strip_prefix("///") {
            documentation.push_str(comment);
            continue;
        }
        if line.starts_with("#[serde(") {
            has_default |= line.contains("default");
            rename = rename.or_else(|| {
                line.split("rename = \"")
                    .nth(1)?
                    .split('"')
                    .next()
                    .map(str::to_owned)
            });
            continue;
        }
        // Attributes for the definition of the kind, in one line or several.
        if line.starts_with("#[") {
            let depth = |line: &str| {
                let count = |marks: [char; 2]| line.matches(marks).count();
                count(['(', '[']) as isize - count([')', ']']) as isize
            };
            let mut open = depth(line);
            while let (true, Some(next)) = (open > 0, lines.get(at)) {
                open += depth(next);
                at += 1;
            }
            continue;
        }
        let line = line.trim_end_matches(',');
        let line = line
            .strip_prefix("pub(super) ")
            .or(line.strip_prefix("pub "))
            .unwrap_or(line);
        let (name, is_a, inner) = if let Some(name) = line.strip_suffix(" {") {
            let deeper = format!("{indent}    ");
            let length = lines[at..]
                .iter()
                .take_while(|line| line.starts_with(&deeper))
                .count();
            let inner = fields(&lines[at..at + length], &deeper);
            at += length + 1;
            (name, "", inner)
        } else if let Some((name, is_a)) = line.split_once(": ") {
            (name, is_a, Vec::new())
        } else if let Some((name, is_a)) = line.split_once('(') {
            let is_a = is_a.rsplit("] ").next().unwrap_or(is_a);
            (name, is_a.trim_end_matches(')'), Vec::new())
        } else {
            continue;
        };
        found.push(Field {
            key: rename.take().unwrap_or_else(|| camel(name)),
            is_a: is_a.to_owned(),
            documentation: std::mem::take(&mut documentation).trim().to_owned(),
            is_required: !has_default && !is_a.starts_with("Option<"),
            fields: inner,
        });
        has_default = false;
    }
    found
}

fn camel(name: &str) -> String {
    let mut parts = name.split('_');
    let mut key: String = parts.next().unwrap_or_default().to_owned();
    // A variant.
    if let Some(first) = key.get(..1) {
        key = first.to_lowercase() + &key[1..];
    }
    for part in parts {
        key.push_str(&part[..1].to_uppercase());
        key.push_str(&part[1..]);
    }
    key
}

/// The type of a reference to a secret, which occurs in many places: its keys are listed once.
pub(super) const SECRET: &str = "SecretSource";

/// One key of the file.
pub(super) struct Row {
    pub(super) path: String,
    pub(super) value: String,
    pub(super) is_required: bool,
    pub(super) documentation: String,
}

/// Every key below a type.
pub(super) fn rows(types: &BTreeMap<String, Type>, name: &str, path: &str) -> Vec<Row> {
    let of = types
        .get(name)
        .unwrap_or_else(|| panic!("there is no type {name}"));
    let mut rows = Vec::new();
    for field in &of.fields {
        rows.extend(of_field(types, field, path, of.is_enum));
    }
    rows
}

fn of_field(
    types: &BTreeMap<String, Type>,
    field: &Field,
    path: &str,
    is_variant: bool,
) -> Vec<Row> {
    let mut here = match path {
        "" => field.key.clone(),
        path => format!("{path}.{}", field.key),
    };
    let mut is_a = field.is_a.as_str();
    let mut many = "";
    loop {
        let inside = |outer: &str| is_a.strip_prefix(outer)?.strip_suffix('>');
        if let Some(inner) = inside("Option<").or_else(|| inside("Box<")) {
            is_a = inner;
        } else if let Some(inner) = inside("Vec<").or_else(|| inside("BTreeSet<")) {
            (is_a, many) = (inner, "list of ");
            here.push_str("[]");
        } else if let Some(inner) = inside("BTreeMap<String, ") {
            is_a = inner;
            here.push_str(".KEY");
        } else {
            break;
        }
    }
    let value = match is_a {
        "String" => "text",
        "PathBuf" => "file",
        "bool" => "true or false",
        "u32" => "number",
        SECRET => "secret reference",
        // A variant with fields of its own.
        "" => "",
        other => match types.get(other) {
            Some(inner) if inner.is_enum => "one of the following",
            Some(_) => "",
            None => panic!("{here}: no source that is read here has the type {other}"),
        },
    };
    let value = match (many, value) {
        ("", "") => "object".to_owned(),
        ("", value) => value.to_owned(),
        (_, "") => "list".to_owned(),
        (_, "one of the following") => "list, each one of the following".to_owned(),
        (_, "true or false") => "list".to_owned(),
        (many, value) => format!("{many}{value}s"),
    };
    let mut rows = vec![Row {
        path: here.clone(),
        value,
        is_required: field.is_required && !is_variant,
        documentation: field.documentation.clone(),
    }];
    if is_a != SECRET && types.contains_key(is_a) {
        rows.extend(self::rows(types, is_a, &here));
    }
    for inner in &field.fields {
        rows.extend(of_field(types, inner, &here, false));
    }
    rows
}

/// A comment without the statement IDs that it cites.
pub(super) fn without_statements(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(" (") {
        out.push_str(before);
        match after.split_once(')') {
            Some((inside, behind)) if inside.split(", ").all(is_statement) => rest = behind,
            _ => {
                out.push_str(" (");
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out.trim().to_owned()
}

fn is_statement(word: &str) -> bool {
    word.split_once('-').is_some_and(|(area, number)| {
        area.chars().all(|one| one.is_ascii_uppercase())
            && number.chars().all(|one| one.is_ascii_digit())
    })
}

/// Calls `look` for every Rust file below a folder.
pub(super) fn files(folder: &Path, look: &mut impl FnMut(&Path, &str)) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, look);
        } else if path.extension().is_some_and(|end| end == "rs") {
            look(&path, &std::fs::read_to_string(&path).unwrap());
        }
    }
}
