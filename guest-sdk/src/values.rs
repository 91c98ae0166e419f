//! Typed reading of texts that people wrote: the operator's configuration and the annotations of a Service. Collects
//! all mistakes and reports them in one error, so that one correction is enough.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use crate::Error;
use duration::parse_duration;

mod duration;
#[cfg(test)]
mod tests;

/// Maximum length of an annotation's value, in bytes. Tenants write annotations, up to 256 KiB, and a provider repeats
/// values in requests.
pub const MAX_ANNOTATION: usize = 4096;
/// Maximum length of a wrong value in a message, in characters.
const SHOWN: usize = 64;

/// A reader of the configuration ([`Config::read`](crate::Config::read)) or of a Service's annotations
/// ([`Service::read`](crate::load_balancer::Service::read)), or of those with one prefix
/// ([`Service::values_of`](crate::load_balancer::Service::values_of)), that collects mistakes. Each getter returns `None`
/// for a key that is not set or has a wrong value; a wrong value is a mistake.
///
/// | | Configuration | Annotations | Annotations of a prefix |
/// |---|---|---|---|
/// | key | the key | the whole key | what follows the prefix |
/// | whitespace around a value | removed | kept | removed |
/// | an empty value | counts as not set, as with environment variables | counts as set | counts as not set |
/// | longest value | 256 KiB for all | [`MAX_ANNOTATION`], but for [`Values::long_list`] | the same |
/// | a mistake names | the key | key and value | key and value |
#[derive(Debug)]
pub struct Values<'a> {
    source: Source<'a>,
    mistakes: Vec<String>,
}

#[derive(Debug, Clone, Copy)]
enum Source<'a> {
    Configuration(&'a BTreeMap<String, String>),
    Annotations(&'a [(String, String)]),
    Prefixed(&'a [(String, String)], &'a str),
}

impl<'a> Values<'a> {
    pub(crate) fn of_configuration(values: &'a BTreeMap<String, String>) -> Values<'a> {
        Values {
            source: Source::Configuration(values),
            mistakes: Vec::new(),
        }
    }

    pub(crate) fn of_annotations(annotations: &'a [(String, String)]) -> Values<'a> {
        Values {
            source: Source::Annotations(annotations),
            mistakes: Vec::new(),
        }
    }

    pub(crate) fn of_prefix(annotations: &'a [(String, String)], prefix: &'a str) -> Values<'a> {
        Values {
            source: Source::Prefixed(annotations, prefix),
            mistakes: Vec::new(),
        }
    }

    /// The value as text.
    pub fn text(&mut self, key: &str) -> Option<&'a str> {
        self.text_up_to(key, MAX_ANNOTATION)
    }

    fn text_up_to(&mut self, key: &str, most: usize) -> Option<&'a str> {
        let value = self.find(key)?;
        let is_configuration = matches!(self.source, Source::Configuration(_));
        if !is_configuration && value.len() > most {
            let what = format_args!("has {} bytes, and {most} are allowed", value.len());
            return self.wrong(key, what);
        }
        match self.source {
            Source::Annotations(_) => Some(value),
            Source::Configuration(_) | Source::Prefixed(..) => {
                Some(value.trim()).filter(|value| !value.is_empty())
            }
        }
    }

    /// The value as text, unless it is empty.
    pub fn filled(&mut self, key: &str) -> Option<&'a str> {
        self.text(key).filter(|value| !value.is_empty())
    }

    /// The value without the whitespace around it, unless nothing is left.
    pub fn trimmed(&mut self, key: &str) -> Option<&'a str> {
        let value = self.text(key)?.trim();
        (!value.is_empty()).then_some(value)
    }

    /// The value as text, which has to be there and not empty.
    pub fn required(&mut self, key: &str) -> Option<&'a str> {
        let before = self.mistakes.len();
        let value = self.filled(key);
        if value.is_none() && self.mistakes.len() == before {
            self.mistake(format_args!("{key}: must be set"));
        }
        value
    }

    /// A boolean in any form that Go's `strconv.ParseBool` accepts, because configurations and annotations of the Go
    /// cloud-controller-managers use them: `1 t T true TRUE True 0 f F false FALSE False`.
    pub fn boolean(&mut self, key: &str) -> Option<bool> {
        let value = self.text(key)?;
        match parse_boolean(value) {
            Some(truth) => Some(truth),
            None => self.wrong(key, "must be true or false"),
        }
    }

    /// A number within `range`.
    pub fn number<T: FromStr + PartialOrd + Display>(
        &mut self,
        key: &str,
        range: RangeInclusive<T>,
    ) -> Option<T> {
        let value = self.text(key)?;
        match value.parse() {
            Ok(number) if range.contains(&number) => Some(number),
            _ => {
                let (least, most) = range.into_inner();
                self.wrong(key, format_args!("must be a number from {least} to {most}"))
            }
        }
    }

    /// Any type that is read from text, such as an IP address; `what` says in the mistake what the value must be.
    pub fn parse<T: FromStr>(&mut self, key: &str, what: &str) -> Option<T> {
        let value = self.text(key)?;
        match value.parse() {
            Ok(value) => Some(value),
            Err(_) => self.wrong(key, what),
        }
    }

    /// A host name that a Service's status can have, in lower case: Kubernetes accepts no other letters there, and no IP
    /// address. An empty value counts as not set.
    pub fn hostname(&mut self, key: &str) -> Option<String> {
        let name = self.trimmed(key)?.to_ascii_lowercase();
        let is_name = is_dns_name(&name) && name.parse::<IpAddr>().is_err();
        match is_name {
            true => Some(name),
            false => self.wrong(
                key,
                "must be a DNS name such as lb.example.com, with at most 253 characters",
            ),
        }
    }

    /// One of the given words, compared case-insensitively.
    pub fn choice<T: Clone>(&mut self, key: &str, choices: &[(&str, T)]) -> Option<T> {
        let value = self.text(key)?;
        let mut all = choices.iter();
        match all.find(|(word, _)| word.eq_ignore_ascii_case(value)) {
            Some((_, meaning)) => Some(meaning.clone()),
            None => {
                let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
                self.wrong(key, format_args!("must be one of {}", words.join(", ")))
            }
        }
    }

    /// A duration in Go syntax: numbers, with or without a fraction, with the units `ns`, `us`, `ms`, `s`, `m` and
    /// `h`, such as `10s`, `1.5h` or `1m30s`; `0` needs no unit.
    pub fn duration(&mut self, key: &str) -> Option<Duration> {
        let value = self.text(key)?;
        match parse_duration(value) {
            Some(duration) => Some(duration),
            None => self.wrong(key, "must be a duration such as 10s or 1m30s"),
        }
    }

    /// The parts between commas, without whitespace around them and without empty ones.
    pub fn list(&mut self, key: &str) -> Option<Vec<&'a str>> {
        self.long_list(key, MAX_ANNOTATION)
    }

    /// As [`Values::list`], from an annotation of at most `most` bytes, for lists that are long in practice.
    pub fn long_list(&mut self, key: &str, most: usize) -> Option<Vec<&'a str>> {
        let parts = self.text_up_to(key, most)?.split(',').map(str::trim);
        Some(parts.filter(|part| !part.is_empty()).collect())
    }

    /// What `read` makes of each part of [`Values::list`]. A part of which it makes nothing is a mistake; `what` says what
    /// the part must be.
    pub fn each<T>(
        &mut self,
        key: &str,
        what: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Option<Vec<T>> {
        let parts = self.list(key)?.into_iter();
        let read = parts.filter_map(|part| read(part).or_else(|| self.wrong_part(key, part, what)));
        Some(read.collect())
    }

    /// Whether there is such a key, whatever its value.
    pub fn is_set(&self, key: &str) -> bool {
        self.find(key).is_some()
    }

    /// Records that the value of `key` is wrong; `what` says what it must be. Always `None`.
    pub fn wrong<T>(&mut self, key: &str, what: impl Display) -> Option<T> {
        match self.source {
            Source::Configuration(_) => self.mistake(format_args!("{key}: {what}")),
            Source::Annotations(_) | Source::Prefixed(..) => {
                let value = self.find(key).unwrap_or_default();
                return self.wrong_part(key, value, what);
            }
        }
        None
    }

    /// As [`Values::wrong`], about a part of the value, which the message shows. Always `None`.
    pub fn wrong_part<T>(&mut self, key: &str, part: &str, what: impl Display) -> Option<T> {
        self.mistake(format_args!("{key}: {} {what}", Cut(part)));
        None
    }

    /// Records a mistake that no single value explains, such as two keys that exclude each other. Reported once.
    pub fn mistake(&mut self, what: impl Display) {
        let what = what.to_string();
        if !self.mistakes.contains(&what) {
            self.mistakes.push(what);
        }
    }

    /// Ends reading.
    ///
    /// # Errors
    /// [`Error::Invalid`] with every mistake, if there is one.
    pub fn finish(self) -> Result<(), Error> {
        if self.mistakes.is_empty() {
            Ok(())
        } else {
            Err(Error::invalid(self.mistakes.join("; ")))
        }
    }

    fn find(&self, key: &str) -> Option<&'a str> {
        match self.source {
            Source::Configuration(values) => values.get(key).map(String::as_str),
            Source::Annotations(annotations) => {
                let mut annotations = annotations.iter();
                let found = annotations.find(|(known, _)| known == key);
                found.map(|(_, value)| value.as_str())
            }
            Source::Prefixed(annotations, prefix) => {
                let mut annotations = annotations.iter();
                let found = annotations.find(|(known, _)| known.strip_prefix(prefix) == Some(key));
                found.map(|(_, value)| value.as_str())
            }
        }
    }
}

/// Whether the text can be the value of a label, and is not empty: zones, regions and instance types become such values.
pub fn is_label_value(text: &str) -> bool {
    is_label(text, "-_.")
}

/// A DNS name without a final dot (RFC 1123): at most 253 bytes, and 63 for each part.
fn is_dns_name(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(|part| is_label(part, "-"))
}

/// At most 63 letters and digits, and between them also the `inner` characters.
fn is_label(text: &str, inner: &str) -> bool {
    let is_end = |letter: char| letter.is_ascii_alphanumeric();
    text.len() <= 63
        && text.starts_with(is_end)
        && text.ends_with(is_end)
        && text
            .chars()
            .all(|letter| is_end(letter) || inner.contains(letter))
}

/// Parses the forms of Go's `strconv.ParseBool`.
pub fn parse_boolean(value: &str) -> Option<bool> {
    match value {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// Displays a value in quotes, truncated and without control characters.
struct Cut<'a>(&'a str);

impl Display for Cut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: String = self.0.chars().take(SHOWN).collect();
        let more = if shown.len() < self.0.len() {
            "…"
        } else {
            ""
        };
        write!(f, "{shown:?}{more}")
    }
}
