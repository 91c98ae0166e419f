//! Parses Kubernetes label selectors such as `tier in (web,edge),!spot`, which select a Service's target nodes. Pure,
//! and total: tenants write them.
//!
//! ```text
//! selector    = [ requirement { "," requirement } ]
//! requirement = key | "!" key | key ( "=" | "==" | "!=" | ">" | "<" ) value
//!             | key ( "in" | "notin" ) "(" value { "," value } ")"
//! ```
//!
//! A value may be empty. Blanks only separate words. `in` and `notin` are ordinary words where no operator can stand.

use std::iter::Peekable;
use std::vec;

#[cfg(test)]
mod tests;

/// A parsed selector. The default matches every node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeSelector {
    requirements: Vec<Requirement>,
}

impl NodeSelector {
    /// Parses a selector.
    ///
    /// # Errors
    /// A human-readable description of the mistake.
    pub fn parse(text: &str) -> Result<NodeSelector, String> {
        let mut parser = Parser {
            tokens: tokens(text).into_iter().peekable(),
        };
        let mut requirements = Vec::new();
        if parser.tokens.peek().is_none() {
            return Ok(NodeSelector { requirements });
        }
        loop {
            requirements.push(parser.requirement()?);
            match parser.tokens.next() {
                None => return Ok(NodeSelector { requirements }),
                Some(Token::Comma) => {}
                Some(other) => return Err(unexpected(Some(other), "a comma or the end")),
            }
        }
    }

    /// Whether the selector matches a node with these labels.
    pub fn matches(&self, labels: &[(String, String)]) -> bool {
        self.requirements.iter().all(|requirement| {
            let label = labels.iter().find(|(key, _)| *key == requirement.key);
            requirement
                .test
                .passes(label.map(|(_, value)| value.as_str()))
        })
    }
}

/// A condition on one label.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    Exists,
    Absent,
    In(Vec<String>),
    NotIn(Vec<String>),
    Above(i64),
    Below(i64),
}

impl Test {
    /// A missing label is in no set, and neither above nor below any number.
    fn passes(&self, value: Option<&str>) -> bool {
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        let is_among = |values: &[String]| value.is_some_and(|v| values.iter().any(|one| one == v));
        match self {
            Test::Exists => value.is_some(),
            Test::Absent => value.is_none(),
            Test::In(values) => is_among(values),
            Test::NotIn(values) => !is_among(values),
            Test::Above(bound) => number().is_some_and(|number| number > *bound),
            Test::Below(bound) => number().is_some_and(|number| number < *bound),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a str),
    Equals,
    NotEquals,
    Above,
    Below,
    Not,
    Open,
    Close,
    Comma,
}

/// Every text has tokens: a character that is not part of a sign is part of a word.
fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start_matches(BLANKS);
    while !rest.is_empty() {
        let sign = SIGNS.iter().find_map(|(sign, token)| {
            let after = rest.strip_prefix(sign)?;
            Some((*token, after))
        });
        let (token, after) = sign.unwrap_or_else(|| {
            let end = rest
                .find(|letter| BLANKS.contains(&letter) || "=!(),><".contains(letter))
                .unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            (Token::Word(word), after)
        });
        tokens.push(token);
        rest = after.trim_start_matches(BLANKS);
    }
    tokens
}

const BLANKS: [char; 4] = [' ', '\t', '\r', '\n'];

/// The operators; longer ones come before their prefixes.
const SIGNS: [(&str, Token<'static>); 9] = [
    ("==", Token::Equals),
    ("!=", Token::NotEquals),
    ("=", Token::Equals),
    ("!", Token::Not),
    (">", Token::Above),
    ("<", Token::Below),
    ("(", Token::Open),
    (")", Token::Close),
    (",", Token::Comma),
];

struct Parser<'a> {
    tokens: Peekable<vec::IntoIter<Token<'a>>>,
}

impl<'a> Parser<'a> {
    fn requirement(&mut self) -> Result<Requirement, String> {
        if self.tokens.next_if_eq(&Token::Not).is_some() {
            let key = self.key()?;
            let test = Test::Absent;
            return Ok(Requirement { key, test });
        }
        let key = self.key()?;
        let test = self.test()?;
        Ok(Requirement { key, test })
    }

    fn key(&mut self) -> Result<String, String> {
        match self.tokens.next() {
            Some(Token::Word(key)) if is_key(key) => Ok(key.to_owned()),
            Some(Token::Word(key)) => Err(format!("{key:?} cannot be the key of a label")),
            other => Err(unexpected(other, "the key of a label")),
        }
    }

    fn test(&mut self) -> Result<Test, String> {
        if matches!(self.tokens.peek(), None | Some(Token::Comma)) {
            return Ok(Test::Exists);
        }
        match self.tokens.next() {
            Some(Token::Equals) => Ok(Test::In(vec![self.value()?])),
            Some(Token::NotEquals) => Ok(Test::NotIn(vec![self.value()?])),
            Some(Token::Above) => Ok(Test::Above(self.number()?)),
            Some(Token::Below) => Ok(Test::Below(self.number()?)),
            Some(Token::Word("in")) => Ok(Test::In(self.values()?)),
            Some(Token::Word("notin")) => Ok(Test::NotIn(self.values()?)),
            other => Err(unexpected(other, "=, ==, !=, >, <, in or notin")),
        }
    }

    /// The next word; empty if another token follows.
    fn value(&mut self) -> Result<String, String> {
        let word = self.tokens.next_if(|token| matches!(token, Token::Word(_)));
        match word {
            Some(Token::Word(value)) if is_value(value) => Ok(value.to_owned()),
            Some(Token::Word(value)) => Err(format!("{value:?} cannot be the value of a label")),
            Some(_) | None => Ok(String::new()),
        }
    }

    fn number(&mut self) -> Result<i64, String> {
        let value = self.value()?;
        value
            .parse()
            .map_err(|_| format!("{value:?} is not a number to compare with"))
    }

    fn values(&mut self) -> Result<Vec<String>, String> {
        self.expect(Token::Open, "(")?;
        let mut values = vec![self.value()?];
        while self.tokens.next_if_eq(&Token::Comma).is_some() {
            values.push(self.value()?);
        }
        self.expect(Token::Close, "a comma or )")?;
        Ok(values)
    }

    fn expect(&mut self, token: Token<'a>, what: &str) -> Result<(), String> {
        match self.tokens.next() {
            Some(next) if next == token => Ok(()),
            other => Err(unexpected(other, what)),
        }
    }
}

fn unexpected(token: Option<Token<'_>>, expected: &str) -> String {
    let found = match token {
        None => "the end".to_owned(),
        Some(Token::Word(word)) => format!("{word:?}"),
        Some(token) => {
            let sign = SIGNS.iter().rev().find(|(_, one)| *one == token);
            sign.map_or_else(String::new, |(sign, _)| (*sign).to_owned())
        }
    };
    format!("expected {expected}, found {found}")
}

/// Whether this is a valid label key: a name of up to 63 characters, optionally prefixed by a domain and a slash.
fn is_key(key: &str) -> bool {
    let (domain, name) = match key.split_once('/') {
        Some((domain, name)) => (Some(domain), name),
        None => (None, key),
    };
    let is_domain = |domain: &str| {
        let part = |part: &str| {
            part.bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
                && has_plain_ends(part)
        };
        domain.len() <= 253 && domain.split('.').all(part)
    };
    !name.is_empty() && is_value(name) && domain.is_none_or(is_domain)
}

/// Whether this is a valid label value: empty, or up to 63 characters with a letter or digit at both ends.
fn is_value(value: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    value.is_empty() || value.len() <= 63 && value.bytes().all(is_allowed) && has_plain_ends(value)
}

fn has_plain_ends(text: &str) -> bool {
    let bytes = text.as_bytes();
    [bytes.first(), bytes.last()]
        .iter()
        .all(|end| end.is_some_and(u8::is_ascii_alphanumeric))
}
