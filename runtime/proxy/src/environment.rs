//! What the environment says about proxies, in Go's variables. The upper case is asked first; `ALL_PROXY` means nothing, as
//! in Go.

use zeroize::Zeroizing;

use crate::NoProxy;

const HTTPS: [&str; 2] = ["HTTPS_PROXY", "https_proxy"];
const HTTP: [&str; 2] = ["HTTP_PROXY", "http_proxy"];
const NONE: [&str; 2] = ["NO_PROXY", "no_proxy"];

/// A proxy that a variable names. No `Debug`: the URL may contain a password.
pub struct FromEnvironment {
    /// The variable.
    pub variable: &'static str,
    /// Its text.
    pub url: Zeroizing<String>,
    /// The servers that it is not for.
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
