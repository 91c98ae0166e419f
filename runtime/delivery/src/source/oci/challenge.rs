//! Parses a registry's authentication challenge: the scheme, and for tokens the token endpoint. The requested scope is
//! ignored: only access to this source's own repository is ever requested.

use http::HeaderMap;
use http::header::WWW_AUTHENTICATE;

/// Maximum number of challenges that are parsed: more than any registry sends.
const MOST_CHALLENGES: usize = 8;

/// An authentication scheme that a registry asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Challenge {
    /// User and password with each request.
    Basic,
    /// A token from `realm`.
    Bearer {
        /// URL of the token endpoint.
        realm: String,
        /// The registry's name at the token endpoint.
        service: Option<String>,
    },
}

/// Selects a supported challenge of an answer: Bearer before Basic, since it sends the password less often.
pub(super) fn of(headers: &HeaderMap) -> Option<Challenge> {
    let texts = headers
        .get_all(WWW_AUTHENTICATE)
        .iter()
        .take(MOST_CHALLENGES);
    let known: Vec<_> = texts
        .filter_map(|text| parse(text.to_str().ok()?))
        .collect();
    let token = known
        .iter()
        .find(|one| matches!(one, Challenge::Bearer { .. }));
    token.or(known.first()).cloned()
}

/// Parses one challenge per header field, as registries send them.
fn parse(text: &str) -> Option<Challenge> {
    let (scheme, rest) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
    if scheme.eq_ignore_ascii_case("basic") {
        return Some(Challenge::Basic);
    }
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    let (mut realm, mut service) = (None, None);
    let mut rest = rest.trim_start();
    while let Some((name, after)) = rest.split_once('=') {
        let (value, after) = value(after)?;
        match name.trim().to_ascii_lowercase().as_str() {
            "realm" => realm = Some(value),
            "service" => service = Some(value),
            _ => {}
        }
        rest = after.trim_start().trim_start_matches(',').trim_start();
    }
    realm.map(|realm| Challenge::Bearer { realm, service })
}

/// A token, or a quoted string with backslash escapes.
fn value(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([',', ' ']).unwrap_or(text.len());
        let (value, rest) = text.split_at_checked(end)?;
        return Some((value.to_owned(), rest));
    };
    let mut value = String::new();
    let mut letters = quoted.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, quoted.get(at + 1..)?)),
            '\\' => value.push(letters.next()?.1),
            _ => value.push(letter),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use http::header::{HeaderValue, WWW_AUTHENTICATE};

    use super::{Challenge, of, parse};

    #[test]
    fn a_token_comes_before_a_password_in_whatever_order_a_registry_names_them() {
        let (basic, bearer) = ("Basic realm=\"x\"", "Bearer realm=\"https://a/t\"");
        let token = Challenge::Bearer {
            realm: "https://a/t".to_owned(),
            service: None,
        };
        for (texts, expected) in [
            (&[basic, bearer][..], Some(token.clone())),
            (&[bearer, basic], Some(token)),
            (&["Negotiate", basic], Some(Challenge::Basic)),
            (&["Negotiate"], None),
        ] {
            let fields = texts.iter().copied().map(HeaderValue::from_static);
            let mut headers = HeaderMap::new();
            for text in fields {
                headers.append(WWW_AUTHENTICATE, text);
            }
            assert_eq!(of(&headers), expected, "{texts:?}");
        }
    }

    #[test]
    fn challenges_are_read_as_registries_write_them() {
        let bearer = |realm: &str, service: Option<&str>| {
            Some(Challenge::Bearer {
                realm: realm.to_owned(),
                service: service.map(str::to_owned),
            })
        };
        let cases = [
            ("Basic realm=\"test\"", Some(Challenge::Basic)),
            ("basic", Some(Challenge::Basic)),
            (
                "Bearer realm=\"https://auth.docker.io/token\",service=\"registry.docker.io\",scope=\"repository:a/b:pull,push\"",
                bearer("https://auth.docker.io/token", Some("registry.docker.io")),
            ),
            (
                "bearer  service=x , realm=\"https://a/\\\"b\"",
                bearer("https://a/\"b", Some("x")),
            ),
            ("Bearer realm=https://a/t", bearer("https://a/t", None)),
            ("Bearer service=\"x\"", None),
            ("Bearer realm=\"never closed", None),
            ("Bearer realm=\"ends with \\", None),
            ("Negotiate", None),
            ("", None),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text), expected, "{text}");
        }
    }
}
