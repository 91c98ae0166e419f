//! Typed access to the operator's configuration. Collects all mistakes and reports them in one error, so that one
//! restart is enough to fix them.
//!
//! Secrets are never among the values: the host adds credentials to requests.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::Duration;

use crate::Error;
use crate::bindings::lifecycle::exports::ccm::provider::lifecycle::Config as RawConfig;

#[cfg(test)]
mod tests;

/// The operator's configuration.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Config {
    /// `--cluster-name`: marks the cloud objects that belong to this cluster.
    pub cluster_name: String,
    /// `--cluster-cidr`, split at commas; empty when not set.
    pub cluster_cidrs: Vec<String>,
    /// The configuration keys that the manifest declares, with the operator's values.
    pub values: BTreeMap<String, String>,
    /// The granted targets; `None` when the host does not provide the list. See [`Config::is_granted`].
    pub targets: Option<Vec<String>>,
}

impl From<RawConfig> for Config {
    fn from(raw: RawConfig) -> Config {
        let RawConfig {
            cluster_name,
            cluster_cidrs,
            values,
            extra,
        } = raw;
        let targets = extra.iter().find(|(key, _)| key == "targets");
        let names = |text: &str| {
            let names = text.split(',').filter(|name| !name.is_empty());
            names.map(str::to_owned).collect()
        };
        Config {
            cluster_name,
            cluster_cidrs,
            values: values.into_iter().collect(),
            targets: targets.map(|(_, text)| names(text)),
        }
    }
}

impl Config {
    /// Whether the operator grants this target of the manifest. Only a target with `"required": false` can be missing.
    /// `init` should reject a configuration that needs a missing target: see [`Values::mistake`].
    pub fn is_granted(&self, target: &str) -> bool {
        let granted = self.targets.as_ref();
        granted.is_none_or(|names| names.iter().any(|name| name == target))
    }

    /// Starts reading the values. End with [`Values::finish`].
    pub fn values(&self) -> Values<'_> {
        Values {
            values: &self.values,
            mistakes: Vec::new(),
        }
    }
}

/// A reader of the values that collects mistakes. Each getter returns `None` for a key that is not set or has a wrong
/// value; [`Values::finish`] reports the mistakes. An empty value counts as not set, as with environment variables.
#[derive(Debug)]
pub struct Values<'a> {
    values: &'a BTreeMap<String, String>,
    mistakes: Vec<String>,
}

impl<'a> Values<'a> {
    /// The value, with surrounding whitespace removed.
    pub fn text(&self, key: &str) -> Option<String> {
        self.set(key).map(str::to_owned)
    }

    /// A boolean in any form that Go's `strconv.ParseBool` accepts, because configurations of the Go
    /// cloud-controller-managers use them: `1 t T true TRUE True 0 f F false FALSE False`.
    pub fn boolean(&mut self, key: &str) -> Option<bool> {
        let value = self.set(key)?;
        match value {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
            _ => self.wrong(key, "must be true or false"),
        }
    }

    /// One of the given words, compared case-insensitively.
    pub fn choice<T: Clone>(&mut self, key: &str, choices: &[(&str, T)]) -> Option<T> {
        let value = self.set(key)?;
        let chosen = choices
            .iter()
            .find(|(word, _)| word.eq_ignore_ascii_case(value));
        match chosen {
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
        let value = self.set(key)?;
        match parse_duration(value) {
            Some(duration) => Some(duration),
            None => self.wrong(key, "must be a duration such as 10s or 1m30s"),
        }
    }

    /// Adds a mistake that only the provider can detect, such as two mutually exclusive keys.
    pub fn mistake(&mut self, key: &str, what: impl Display) {
        self.mistakes.push(format!("{key}: {what}"));
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

    fn set(&self, key: &str) -> Option<&'a str> {
        let value = self.values.get(key)?.trim();
        (!value.is_empty()).then_some(value)
    }

    fn wrong<T>(&mut self, key: &str, what: impl Display) -> Option<T> {
        self.mistake(key, what);
        None
    }
}

/// Parses a duration in Go syntax: see [`Values::duration`].
pub fn parse_duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    if text.is_empty() {
        return None;
    }
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let (number, after) = split_number(rest)?;
        let units = after.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, after) = after.split_at_checked(units)?;
        let nanos: u64 = match unit {
            "ns" => 1,
            "us" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        total = total.checked_add(times(number, nanos)?)?;
        rest = after;
    }
    Some(total)
}

/// Splits `text` into its leading number and the rest.
fn split_number(text: &str) -> Option<(&str, &str)> {
    let is_part = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
    text.split_at_checked(text.bytes().take_while(is_part).count())
}

/// `number` × `nanos` nanoseconds. Uses the first nine digits of a fraction: for units up to a second that is one
/// nanosecond.
fn times(number: &str, nanos: u64) -> Option<Duration> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let read = |digits: &str| match digits {
        "" => Some(0),
        digits => digits.parse::<u64>().ok(),
    };
    let fraction: String = format!("{fraction:0<9}").chars().take(9).collect();
    let part = u128::from(read(&fraction)?) * u128::from(nanos) / 1_000_000_000;
    let whole = Duration::from_nanos(read(whole)?.checked_mul(nanos)?);
    whole.checked_add(Duration::from_nanos(u64::try_from(part).ok()?))
}
