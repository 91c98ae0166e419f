//! Provider IDs: `<scheme>://<id>`. Parses and validates; never guesses a scheme.

use thiserror::Error;

/// Longest accepted provider ID, in bytes (the contract's `instance.provider-id`).
pub const MAX_BYTES: usize = 512;

/// The two parts of a provider ID, borrowed from its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProviderId<'a> {
    /// Before `://`: identifies the owner.
    pub scheme: &'a str,
    /// After `://`: the cloud's own ID of the instance. May begin with `/`, as on AWS.
    pub id: &'a str,
}

/// Why a text is not a provider ID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ProviderIdError {
    /// Empty (NODE-022).
    #[error("it is empty")]
    Empty,
    /// Longer than [`MAX_BYTES`].
    #[error("it is longer than {MAX_BYTES} bytes")]
    TooLong,
    /// No `://`, or characters that a URI scheme does not allow (RFC 3986, section 3.1; lower case only).
    #[error("it does not begin with a scheme, as in `hcloud://42`")]
    Scheme,
    /// Nothing after `://`.
    #[error("there is nothing after `://`")]
    NoId,
    /// Blanks, control characters or non-ASCII characters.
    #[error("it has characters other than visible ASCII")]
    Characters,
}

impl<'a> ProviderId<'a> {
    /// Parses `text`.
    ///
    /// # Errors
    /// The first problem found.
    pub fn parse(text: &'a str) -> Result<ProviderId<'a>, ProviderIdError> {
        if text.is_empty() {
            return Err(ProviderIdError::Empty);
        }
        if text.len() > MAX_BYTES {
            return Err(ProviderIdError::TooLong);
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(ProviderIdError::Characters);
        }
        let (scheme, id) = text.split_once("://").ok_or(ProviderIdError::Scheme)?;
        if !is_scheme(scheme) {
            return Err(ProviderIdError::Scheme);
        }
        if id.is_empty() {
            return Err(ProviderIdError::NoId);
        }
        Ok(ProviderId { scheme, id })
    }
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_lowercase())
        && text.bytes().all(|byte| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"+-.".contains(&byte)
        })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]
    use super::*;

    #[test]
    fn every_form_that_clouds_write_is_read() {
        for (text, scheme, id) in [
            ("hcloud://42", "hcloud", "42"),
            ("hrobot://7", "hrobot", "7"),
            (
                "aws:///eu-central-1a/i-0abc",
                "aws",
                "/eu-central-1a/i-0abc",
            ),
            ("openstack://region/uuid", "openstack", "region/uuid"),
            ("k3s+x://a", "k3s+x", "a"),
        ] {
            assert_eq!(
                ProviderId::parse(text),
                Ok(ProviderId { scheme, id }),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_no_provider_id_is_refused_with_its_reason() {
        let long = format!("sim://{}", "x".repeat(MAX_BYTES));
        for (text, error) in [
            ("", ProviderIdError::Empty),
            ("42", ProviderIdError::Scheme),
            ("://42", ProviderIdError::Scheme),
            ("Sim://42", ProviderIdError::Scheme),
            ("4sim://42", ProviderIdError::Scheme),
            ("sim://", ProviderIdError::NoId),
            ("sim://4 2", ProviderIdError::Characters),
            ("sim://4\n2", ProviderIdError::Characters),
            ("sim://ü", ProviderIdError::Characters),
            (long.as_str(), ProviderIdError::TooLong),
        ] {
            assert_eq!(ProviderId::parse(text), Err(error), "{text:?}");
        }
    }
}
