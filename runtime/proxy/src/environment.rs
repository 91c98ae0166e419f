//! Proxies in the environment, in Go's variables. The upper-case name takes precedence; `ALL_PROXY` is ignored, as in
//! Go.

use zeroize::Zeroizing;

use crate::NoProxy;

const HTTPS: [&str; 2] = ["HTTPS_PROXY", "https_proxy"];
const HTTP: [&str; 2] = ["HTTP_PROXY", "http_proxy"];
const NONE: [&str; 2] = ["NO_PROXY", "no_proxy"];

/// A proxy that a variable names. No `Debug`: the URL may contain a password.
pub struct FromEnvironment {
    /// Name of the variable, such as `HTTPS_PROXY`.
    pub variable: &'static str,
    /// Value of the variable: the proxy's URL, not yet parsed.
    pub url: Zeroizing<String>,
    /// The servers that are reached without the proxy, from `NO_PROXY`.
    pub except: NoProxy,
}

/// The proxy for servers at `https://`, or at `http://` if `is_plain`; `variable` reads the environment.
pub fn from_environment(
    is_plain: bool,
    variable: impl Fn(&str) -> Option<String>,
) -> Option<FromEnvironment> {
    let first = |names: [&'static str; 2]| {
        let mut found = names.into_iter().map(|name| (name, variable(name)));
        found.find_map(|(name, value)| Some((name, value.filter(|value| !value.is_empty())?)))
    };
    let (variable, url) = first(if is_plain { HTTP } else { HTTPS })?;
    let except = first(NONE).map(|(_, value)| value).unwrap_or_default();
    Some(FromEnvironment {
        variable,
        url: Zeroizing::new(url),
        except: NoProxy::parse(&except),
    })
}
