//! Users whom a front proxy names in headers, such as the API server's aggregation layer. The headers count only with a
//! certificate of the proxy's own authority.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderValue};
use percent_encoding::percent_decode_str;

use super::{CertificateAuthority, PeerCertificates, Unauthorized, User};
use crate::settings::HeaderNames;

/// The user of the headers. `None`: they name no user, or the client is no proxy.
///
/// # Errors
/// The proxy's certificate has a name that is not allowed.
pub(super) fn user(
    authority: &CertificateAuthority,
    names: &HeaderNames,
    peer: &PeerCertificates,
    headers: &HeaderMap,
) -> Result<Option<User>, Unauthorized> {
    // A certificate of another authority may still be a client's own.
    let Ok(Some(proxy)) = authority.common_name(peer) else {
        return Ok(None);
    };
    if !names.allowed_names.is_empty() && !names.allowed_names.contains(&proxy) {
        return Err(Unauthorized::Invalid);
    }
    let Some(name) = first(headers, &names.user) else {
        return Ok(None);
    };
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (header, value) in headers {
        let key = names
            .extra
            .iter()
            .find_map(|prefix| header.as_str().strip_prefix(&prefix.to_ascii_lowercase()));
        if let (Some(key), Some(value)) = (key, text(value)) {
            extra.entry(unescaped(key)).or_default().push(value);
        }
    }
    Ok(Some(User {
        name,
        uid: first(headers, &names.uid).unwrap_or_default(),
        groups: names
            .group
            .iter()
            .flat_map(|name| all(headers, name))
            .filter(|group| !group.is_empty())
            .collect(),
        extra,
    }))
}

fn first(headers: &HeaderMap, names: &[String]) -> Option<String> {
    let mut values = names.iter().flat_map(|name| all(headers, name));
    values.find(|value| !value.is_empty())
}

fn all(headers: &HeaderMap, name: &str) -> impl Iterator<Item = String> {
    let values = headers.get_all(name).into_iter();
    values.filter_map(text)
}

/// The value as text: names may be in any script.
fn text(value: &HeaderValue) -> Option<String> {
    std::str::from_utf8(value.as_bytes())
        .ok()
        .map(str::to_owned)
}

/// The key of an extra value, in which a front proxy escapes what a header's name cannot hold, such as the slash of
/// `authentication.kubernetes.io/pod-name`. As in Go, a key that is not escaped correctly is taken as it is.
fn unescaped(key: &str) -> String {
    let is_escape = |rest: &str| {
        let digits = rest.bytes().take(2);
        digits.filter(u8::is_ascii_hexdigit).count() == 2
    };
    let decoded = percent_decode_str(key).decode_utf8();
    match decoded {
        Ok(decoded) if key.split('%').skip(1).all(is_escape) => decoded.into_owned(),
        _ => key.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn names() -> HeaderNames {
        let list = |name: &str| vec![name.to_owned()];
        HeaderNames {
            allowed_names: Vec::new(),
            user: list("X-Remote-User"),
            uid: Vec::new(),
            group: list("X-Remote-Group"),
            extra: list("X-Remote-Extra-"),
        }
    }

    #[test]
    fn headers_without_a_proxy_s_certificate_name_nobody() {
        let key = rcgen::KeyPair::generate().unwrap();
        let ca = rcgen::CertificateParams::new(Vec::new())
            .unwrap()
            .self_signed(&key)
            .unwrap();
        let authority = CertificateAuthority::from_pem(ca.pem().as_bytes()).unwrap();
        let headers: HeaderMap = [
            ("x-remote-user", "root"),
            ("x-remote-group", "system:masters"),
        ]
        .into_iter()
        .map(|(name, value)| {
            (
                name.parse::<http::HeaderName>().unwrap(),
                value.parse().unwrap(),
            )
        })
        .collect();
        assert_eq!(
            user(&authority, &names(), &PeerCertificates::default(), &headers),
            Ok(None)
        );
    }
}
