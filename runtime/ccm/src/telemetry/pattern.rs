//! Patterns of file names, as `--vmodule` has them: those of Go's `filepath.Match`, which klog uses.

use std::str::Chars;

use regex::Regex;

/// A parsed pattern; `None` for an invalid one.
pub(super) struct Pattern(Option<Regex>);

impl Pattern {
    /// Parses a pattern. An invalid one, such as `[a`, matches nothing, as in klog.
    pub(super) fn new(text: &str) -> Pattern {
        let expression = expression(text);
        Pattern(expression.and_then(|expression| Regex::new(&expression).ok()))
    }

    /// Whether the pattern matches the whole of this name.
    pub(super) fn matches(&self, name: &str) -> bool {
        let pattern = self.0.as_ref();
        pattern.is_some_and(|pattern| pattern.is_match(name))
    }
}

/// The regular expression that matches the same. `None`: the pattern is invalid.
fn expression(pattern: &str) -> Option<String> {
    let mut rest = pattern.chars();
    // A dot matches every character.
    let mut expression = "(?s)^".to_owned();
    while let Some(character) = rest.next() {
        match character {
            '*' => expression.push_str(".*"),
            '?' => expression.push('.'),
            '[' => expression.push_str(&class(&mut rest)?),
            '\\' => expression.push_str(&escaped(rest.next()?)),
            other => expression.push_str(&escaped(other)),
        }
    }
    expression.push('$');
    Some(expression)
}

/// A character that stands for itself.
fn escaped(character: char) -> String {
    regex::escape(character.encode_utf8(&mut [0; 4]))
}

/// Translates the rest of a class after `[`. `None`: it is invalid.
fn class(rest: &mut Chars<'_>) -> Option<String> {
    let is_negated = rest.as_str().starts_with('^');
    if is_negated {
        rest.next();
    }
    // Begun with an intersection that is empty: the ranges of a pattern may be, and those of a regular expression may not.
    let mut class = match is_negated {
        true => "[^[a&&b]".to_owned(),
        false => "[[a&&b]".to_owned(),
    };
    let mut has_range = false;
    loop {
        if rest.as_str().starts_with(']') && has_range {
            rest.next();
            class.push(']');
            return Some(class);
        }
        let from = class_character(rest)?;
        let to = if rest.as_str().starts_with('-') {
            rest.next();
            class_character(rest)?
        } else {
            from
        };
        // In Go, a range that ends before its beginning is empty.
        if from <= to {
            class.push_str(&format!("{}-{}", escaped(from), escaped(to)));
        }
        has_range = true;
    }
}

fn class_character(rest: &mut Chars<'_>) -> Option<char> {
    match rest.next()? {
        '\\' => rest.next(),
        '-' | ']' => None,
        other => Some(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_gos_do() {
        for (pattern, name, expected) in [
            ("node", "node", true),
            ("node", "node_lifecycle", false),
            ("node*", "node_lifecycle", true),
            ("node*", "node", true),
            ("*", "anything", true),
            ("", "", true),
            ("", "a", false),
            ("*cycle", "node_lifecycle", true),
            ("*e*e", "node_lifecycle", true),
            ("a*b*c", "axbxbxc", true),
            ("a*b*c", "axbxbx", false),
            ("**", "x", true),
            ("?ode", "node", true),
            ("?", "", false),
            ("[m-o]ode", "node", true),
            ("[^m-o]ode", "node", false),
            ("[^a]ode", "node", true),
            ("[ab-c]", "c", true),
            ("no\\*de", "no*de", true),
            ("no\\*de", "noxde", false),
            ("[\\]]", "]", true),
            ("[\\^&~[]&", "&&", true),
            ("a.c+", "abcc", false),
            ("a?c", "a\nc", true),
            ("[é-ü]", "ö", true),
            // A range that is the wrong way round is empty.
            ("[z-a]", "m", false),
            ("[z-a]", "z", false),
            ("[^z-a]", "m", true),
            ("[z-ax]", "x", true),
            // An invalid pattern matches nothing.
            ("[a", "a", false),
            ("[]a]", "a", false),
            ("[-x]", "x", false),
            ("[a-", "a", false),
            ("a\\", "a", false),
        ] {
            assert_eq!(
                Pattern::new(pattern).matches(name),
                expected,
                "{pattern} {name}"
            );
        }
    }

    #[test]
    fn a_pattern_of_stars_costs_little() {
        let pattern = Pattern::new(&"*a".repeat(50));
        assert!(!pattern.matches(&("a".repeat(2000) + "b")));
    }
}
