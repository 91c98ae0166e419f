//! A proxy's scheme, host, port and login. Dials nothing.

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::HeaderValue;
use http::uri::Uri;
use percent_encoding::percent_decode_str;
use thiserror::Error;
use zeroize::Zeroizing;

/// A proxy. Shown without its login; no `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    scheme: Scheme,
    /// Host as in URLs: an IPv6 address has brackets.
    host: String,
    port: u16,
    login: Option<Login>,
}

/// Protocol between the client and the proxy.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    /// CONNECT, in the clear.
    Http,
    /// CONNECT, inside TLS to the proxy.
    Https,
    /// SOCKS 5 (RFC 1928). The proxy resolves names.
    Socks5,
}

/// User and password. No `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Login {
    pub(crate) user: Zeroizing<String>,
    pub(crate) password: Zeroizing<String>,
}

/// Why a text names no proxy. Never contains any of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BadProxy {
    /// The text is no URL, or one with another scheme.
    #[error("expected a URL with http://, https:// or socks5:// and a host")]
    Url,
    /// The user or the password cannot be sent.
    #[error(
        "the user has a colon or a control character, or user or password are longer than 255 bytes"
    )]
    Login,
}

/// Scheme, host and port of an invalid proxy URL, for an error text. `None` if they cannot be told from a login, or if
/// there are none.
pub fn without_login(text: &str) -> Option<String> {
    let text = text.trim();
    let scheme = text.split_once("://").map(|(scheme, _)| scheme);
    let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
    // A password may contain any of these characters, so everything before the last @ counts as the login.
    let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next()?;
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (authority, None),
    };
    let of = |text: &str, more: &str| {
        let is_one = |one: char| one.is_ascii_alphanumeric() || more.contains(one);
        !text.is_empty() && text.chars().all(is_one)
    };
    let is_number = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    let is_shown =
        of(host, ".-[]:") && port.is_none_or(is_number) && scheme.is_none_or(|it| of(it, "+"));
    let scheme = scheme.map(|scheme| format!("{scheme}://"));
    is_shown.then(|| format!("{}{authority}", scheme.unwrap_or_default()))
}

impl Proxy {
    /// Reads a URL, which may contain a user and a password. Without a scheme it is one of `http`. The path is ignored.
    ///
    /// # Errors
    /// The URL names no proxy.
    pub fn parse(text: &str) -> Result<Proxy, BadProxy> {
        let text = text.trim();
        let url: Uri = match text.contains("://") {
            true => text.parse(),
            false => Zeroizing::new(format!("http://{text}")).parse(),
        }
        .map_err(|_| BadProxy::Url)?;
        let (scheme, port) = match url.scheme_str().unwrap_or_default() {
            "http" => (Scheme::Http, 80),
            "https" => (Scheme::Https, 443),
            // As in Go, the proxy resolves names with either scheme.
            "socks5" | "socks5h" => (Scheme::Socks5, 1080),
            _ => return Err(BadProxy::Url),
        };
        let authority = url.authority().ok_or(BadProxy::Url)?;
        let host = authority.host();
        // `port` is also `None` for a number that is too large.
        let has_port = !authority.as_str().ends_with(host);
        if host.is_empty() || has_port && authority.port_u16().is_none_or(|port| port == 0) {
            return Err(BadProxy::Url);
        }
        let proxy = Proxy {
            scheme,
            host: host.to_ascii_lowercase(),
            port: authority.port_u16().unwrap_or(port),
            login: None,
        };
        let Some((login, _)) = authority.as_str().rsplit_once('@') else {
            return Ok(proxy);
        };
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        let decoded = |text| {
            let text = percent_decode_str(text).decode_utf8();
            text.map_err(|_| BadProxy::Login)
        };
        proxy.with_login(&decoded(user)?, &decoded(password)?)
    }

    /// The same proxy with this login in place of the URL's.
    ///
    /// # Errors
    /// The login cannot be sent.
    pub fn with_login(self, user: &str, password: &str) -> Result<Proxy, BadProxy> {
        let is_short = |text: &str| text.len() <= 255 && !text.chars().any(char::is_control);
        if user.is_empty() || user.contains(':') || !is_short(user) || !is_short(password) {
            return Err(BadProxy::Login);
        }
        Ok(Proxy {
            login: Some(Login {
                user: Zeroizing::new(user.to_owned()),
                password: Zeroizing::new(password.to_owned()),
            }),
            ..self
        })
    }

    /// Host, without the brackets of an IPv6 address.
    pub fn host(&self) -> &str {
        self.host.trim_matches(['[', ']'])
    }

    /// Whether the connection to the proxy is encrypted with TLS.
    pub fn is_encrypted(&self) -> bool {
        self.scheme == Scheme::Https
    }

    /// Whether it has a login.
    pub fn has_login(&self) -> bool {
        self.login.is_some()
    }

    /// The value of `Proxy-Authorization`, marked as sensitive. For clients that ask for tunnels themselves.
    pub fn authorization(&self) -> Option<HeaderValue> {
        self.login.as_ref().and_then(Login::basic)
    }

    /// Whether the proxy is asked with CONNECT, and not with SOCKS.
    pub fn speaks_http(&self) -> bool {
        self.scheme != Scheme::Socks5
    }

    pub(crate) fn scheme(&self) -> Scheme {
        self.scheme
    }

    pub(crate) fn login(&self) -> Option<&Login> {
        self.login.as_ref()
    }

    /// The URL to dial.
    pub(crate) fn url(&self) -> Result<Uri, http::Error> {
        let scheme = match self.scheme {
            Scheme::Https => "https",
            // Means only that there is no TLS.
            Scheme::Http | Scheme::Socks5 => "http",
        };
        let authority = format!("{}:{}", self.host, self.port);
        Uri::builder()
            .scheme(scheme)
            .authority(authority)
            .path_and_query("/")
            .build()
    }
}

impl Login {
    /// The value of `Proxy-Authorization` (RFC 7617).
    fn basic(&self) -> Option<HeaderValue> {
        let pair = Zeroizing::new(format!("{}:{}", *self.user, *self.password));
        let text = Zeroizing::new(format!("Basic {}", BASE64_STANDARD.encode(pair.as_bytes())));
        let mut value = HeaderValue::from_str(&text).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.scheme {
            Scheme::Http => "http",
            Scheme::Https => "https",
            Scheme::Socks5 => "socks5",
        };
        write!(f, "{scheme}://{}:{}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_a_scheme_a_host_a_port_and_perhaps_a_login() {
        for (text, expected) in [
            ("http://proxy.test:3128", Ok("http://proxy.test:3128")),
            (" HTTP://Proxy.TEST/ ", Ok("http://proxy.test:80")),
            ("proxy.test:3128", Ok("http://proxy.test:3128")),
            ("10.0.0.1", Ok("http://10.0.0.1:80")),
            ("https://proxy.test", Ok("https://proxy.test:443")),
            ("socks5://proxy.test", Ok("socks5://proxy.test:1080")),
            ("socks5h://proxy.test:9", Ok("socks5://proxy.test:9")),
            ("http://[fd00::1]:3128", Ok("http://[fd00::1]:3128")),
            ("http://me:secret@proxy.test", Ok("http://proxy.test:80")),
            ("http://proxy.test:0", Err(BadProxy::Url)),
            ("http://proxy.test:65536", Err(BadProxy::Url)),
            ("ftp://proxy.test", Err(BadProxy::Url)),
            ("socks4://proxy.test", Err(BadProxy::Url)),
            ("http://", Err(BadProxy::Url)),
            ("", Err(BadProxy::Url)),
            ("http://me:secret@ x", Err(BadProxy::Url)),
            ("http://me%0a:secret@x", Err(BadProxy::Login)),
            ("http://a%3Ab:secret@x", Err(BadProxy::Login)),
            ("http://:secret@x", Err(BadProxy::Login)),
            ("http://me:%ff@x", Err(BadProxy::Login)),
        ] {
            let found = Proxy::parse(text).map(|proxy| proxy.to_string());
            assert_eq!(found, expected.map(str::to_owned), "{text:?}");
        }
    }

    #[test]
    fn what_names_no_proxy_is_shown_without_anything_that_could_be_a_login() {
        for (text, expected) in [
            (
                "ftp://me:secret@proxy.test:21/x",
                Some("ftp://proxy.test:21"),
            ),
            (" proxy.test:99999 ", Some("proxy.test:99999")),
            (
                "http://me:se/cr@et@[fd00::1]:3128",
                Some("http://[fd00::1]:3128"),
            ),
            ("http://[fd00::1]", Some("http://[fd00::1]")),
            ("http://me:secret@ x", None),
            ("me:secret", None),
            ("http://me:secret#proxy.test", None),
            ("http://me:secret proxy.test:3128", None),
            ("sec ret://proxy.test", None),
            ("http://", None),
            ("", None),
        ] {
            assert_eq!(without_login(text).as_deref(), expected, "{text:?}");
        }
    }

    #[test]
    fn a_login_is_decoded_once_and_never_shown() {
        let proxy = Proxy::parse("http://me:se%40re%2525t@proxy.test").ok();
        let login = proxy.as_ref().and_then(Proxy::login);
        let basic = login.and_then(Login::basic);
        // `me:se@re%25t`
        let expected = HeaderValue::from_static("Basic bWU6c2VAcmUlMjV0");
        assert_eq!(basic.as_ref(), Some(&expected));
        assert_eq!(format!("{basic:?}"), "Some(Sensitive)");
    }
}
