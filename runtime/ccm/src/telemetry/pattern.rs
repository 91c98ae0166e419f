//! Patterns of file names, as `--vmodule` has them: those of Go's `filepath.Match`, which klog uses.

/// A parsed pattern; `None` for an invalid one.
pub(super) struct Pattern(Option<Vec<Token>>);

#[derive(Clone, PartialEq, Eq)]
enum Token {
    /// `*`: any characters, or none.
    Any,
    /// `?`: one character.
    One,
    /// A character that stands for itself.
    Literal(char),
    /// `[a-z_]`, or `[^a-z_]`: one character inside or outside these ranges.
    Class {
        is_negated: bool,
        ranges: Vec<(char, char)>,
    },
}

impl Pattern {
    /// Parses a pattern. An invalid one, such as `[a`, matches nothing, as in klog.
    pub(super) fn new(text: &str) -> Pattern {
        let mut tokens = Vec::new();
        let mut rest = text.chars();
        while let Some(character) = rest.next() {
            let token = match character {
                '*' => Token::Any,
                '?' => Token::One,
                '[' => match class(&mut rest) {
                    Some(class) => class,
                    None => return Pattern(None),
                },
                '\\' => match rest.next() {
                    Some(escaped) => Token::Literal(escaped),
                    None => return Pattern(None),
                },
                other => Token::Literal(other),
            };
            // Two in a row match the same as one.
            if token != Token::Any || tokens.last() != Some(&Token::Any) {
                tokens.push(token);
            }
        }
        Pattern(Some(tokens))
    }

    /// Whether the pattern matches the whole of this name.
    pub(super) fn matches(&self, name: &str) -> bool {
        let Some(tokens) = &self.0 else {
            return false;
        };
        let name: Vec<char> = name.chars().collect();
        let (mut token, mut character) = (0, 0);
        // Where the last `*` stands, and how much of the name it has taken.
        let mut star: Option<(usize, usize)> = None;
        while character < name.len() {
            if tokens.get(token) == Some(&Token::Any) {
                star = Some((token, character));
                token += 1;
            } else if tokens
                .get(token)
                .is_some_and(|one| one.takes(name[character]))
            {
                token += 1;
                character += 1;
            } else if let Some((place, taken)) = star {
                star = Some((place, taken + 1));
                (token, character) = (place + 1, taken + 1);
            } else {
                return false;
            }
        }
        tokens[token..].iter().all(|token| *token == Token::Any)
    }
}

impl Token {
    fn takes(&self, character: char) -> bool {
        match self {
            Token::Any => false,
            Token::One => true,
            Token::Literal(literal) => *literal == character,
            Token::Class { is_negated, ranges } => {
                let is_inside = ranges
                    .iter()
                    .any(|(from, to)| (*from..=*to).contains(&character));
                is_inside != *is_negated
            }
        }
    }
}

/// Parses the rest of a class after `[`. `None`: it is invalid.
fn class(rest: &mut std::str::Chars<'_>) -> Option<Token> {
    let is_negated = rest.as_str().starts_with('^');
    if is_negated {
        rest.next();
    }
    let mut ranges = Vec::new();
    loop {
        if rest.as_str().starts_with(']') && !ranges.is_empty() {
            rest.next();
            return Some(Token::Class { is_negated, ranges });
        }
        let from = class_character(rest)?;
        let to = if rest.as_str().starts_with('-') {
            rest.next();
            class_character(rest)?
        } else {
            from
        };
        ranges.push((from, to));
    }
}

fn class_character(rest: &mut std::str::Chars<'_>) -> Option<char> {
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
