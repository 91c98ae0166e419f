//! Typed access to what the operator configured. All mistakes are collected, and reported in one error: nobody should
//! have to restart a manager once per typing error.
//!
//! Secrets are never among the values: the host adds credentials to requests.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::Duration;

use crate::Error;
use crate::bindings::lifecycle::exports::ccm::provider::lifecycle::Config as RawConfig;

#[cfg(test)]
mod tests;

/// What the operator configured.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Config {
    /// `--cluster-name`: the name under which cloud objects are owned.
    pub cluster_name: String,
    /// `--cluster-cidr`, split at commas; empty when not set.
    pub cluster_cidrs: Vec<String>,
    /// The keys that the manifest declares, with the operator's values.
    pub values: BTreeMap<String, String>,
}

impl From<RawConfig> for Config {
    fn from(raw: RawConfig) -> Config {
        // `extra` is room for later versions of the contract; this one defines no key of it.
        let RawConfig {
            cluster_name,
            cluster_cidrs,
            values,
            extra: _,
        } = raw;
        Config {
            cluster_name,
            cluster_cidrs,
            values: values.into_iter().collect(),
        }
    }
}

impl Config {
    /// Begins to read the values. End with [`Values::finish`].
    pub fn values(&self) -> Values<'_> {
        Values {
            values: &self.values,
            mistakes: Vec::new(),
        }
    }
}

/// A reading of the values. Each getter answers `None` for a key that is not set, and for one whose value is wrong;
/// the mistake is kept for [`Values::finish`]. An empty value counts as not set, as with environment variables.
#[derive(Debug)]
pub struct Values<'a> {
    values: &'a BTreeMap<String, String>,
    mistakes: Vec<String>,
}

impl<'a> Values<'a> {
    /// The value as it is, without blanks around it.
    pub fn text(&self, key: &str) -> Option<String> {
        self.set(key).map(str::to_owned)
    }

    /// A truth value in any of the forms that Go's `strconv.ParseBool` takes, because that is what operators of the Go
    /// cloud-controller-managers have written down: `1 t T true TRUE True 0 f F false FALSE False`.
    pub fn boolean(&mut self, key: &str) -> Option<bool> {
        let value = self.set(key)?;
        match value {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
            _ => self.wrong(key, "must be true or false"),
        }
    }

    /// One of a few words, in any case of letters.
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

    /// A length of time as Go writes it: numbers with the units `ms`, `s`, `m` and `h`, such as `10s` or `1m30s`; `0`
    /// needs no unit.
    pub fn duration(&mut self, key: &str) -> Option<Duration> {
        let value = self.set(key)?;
        match parse_duration(value) {
            Some(duration) => Some(duration),
            None => self.wrong(key, "must be a duration such as 10s or 1m30s"),
        }
    }

    /// Adds a mistake that only the provider can see, such as two keys that exclude each other.
    pub fn mistake(&mut self, key: &str, what: impl Display) {
        self.mistakes.push(format!("{key}: {what}"));
    }

    /// Ends the reading.
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

fn parse_duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    if text.is_empty() {
        return None;
    }
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, after) = rest.split_at_checked(digits)?;
        let units = after.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, after) = after.split_at_checked(units)?;
        let millis: u64 = match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            _ => return None,
        };
        let amount = number.parse::<u64>().ok()?.checked_mul(millis)?;
        total = total.checked_add(Duration::from_millis(amount))?;
        rest = after;
    }
    Some(total)
}
