//! Proxies on the way to clouds and registries: `proxy` of a provider, of a target and of `registry`.

use std::fmt;
use std::path::PathBuf;

use ccm_host::egress::check_proxy_address;
use ccm_host::grant::ProxyGrant;
use ccm_proxy::{NoProxy, Proxy, from_environment};
use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::ConfigContext;
use super::grants::{PRIVATE, authorities, ranges};
use super::raw::RANGE;
use super::secret::SecretSource;

/// The operator's choice of a proxy.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) enum ProxyChoice {
    /// No choice: the default applies.
    #[default]
    Unset,
    /// No proxy.
    Direct,
    /// Requests go through this proxy.
    Through(ProxyGrant),
}

impl ProxyChoice {
    /// This choice, or `default` if it is unset.
    pub(crate) fn or(self, default: &ProxyChoice) -> ProxyChoice {
        match self {
            ProxyChoice::Unset => default.clone(),
            other => other,
        }
    }

    /// The proxy, if there is one.
    pub(crate) fn grant(self) -> Option<ProxyGrant> {
        match self {
            ProxyChoice::Unset | ProxyChoice::Direct => None,
            ProxyChoice::Through(grant) => Some(grant),
        }
    }

    /// The proxy of `HTTPS_PROXY` with the exceptions of `NO_PROXY`, or none.
    ///
    /// # Errors
    /// The variable names no proxy.
    pub(crate) fn environment(context: &ConfigContext<'_>) -> Result<ProxyChoice, String> {
        // Clouds and registries at http:// are on this machine, and need no proxy.
        let Some(found) = from_environment(false, context.variable) else {
            return Ok(ProxyChoice::Direct);
        };
        let proxy = Proxy::parse(&found.url);
        let proxy = proxy.map_err(|error| format!("{}: {error}", found.variable))?;
        Ok(ProxyChoice::Through(ProxyGrant {
            proxy,
            except: found.except,
            // No variable can restrict them.
            addresses: PRIVATE.to_vec(),
            ca_pem: None,
        }))
    }
}

/// `proxy` as written.
#[derive(Clone)]
pub(super) enum RawProxy {
    /// `environment`.
    Environment,
    /// `direct`.
    Direct,
    /// A mapping.
    Through(Box<RawProxyServer>),
    /// Any other text. The mistake is reported later: the parser's error would quote the line, which may have a
    /// password.
    Unknown,
}

/// A proxy. An object has this form alone: the words `environment` and `direct` are for the file.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "!has(self.caFile)", "message": "caFile is for the file of --config: an object holds the certificates as caPem"}
]))]
pub(super) struct RawProxyServer {
    /// `http://`, `https://` or `socks5://`, a host and a port; no password.
    #[schemars(length(min = 1, max = 2048), extend("x-kubernetes-validations" = [
        {"rule": "!self.contains('@')", "message": "url: a password does not belong here: `login` has a user and names the Secret"}
    ]))]
    url: String,
    /// Login at the proxy. Default: none.
    pub(super) login: Option<RawLogin>,
    /// Hosts and ranges that are reached without it, as Go reads `NO_PROXY`.
    #[serde(default)]
    #[schemars(length(max = 4096))]
    no_proxy: String,
    /// Private or loopback ranges that the proxy's name may resolve to. Default: none.
    #[serde(default)]
    #[schemars(length(max = 32), inner(length(max = 64), regex(pattern = RANGE)))]
    addresses: Vec<String>,
    /// PEM file with the only certificates to trust for the proxy itself. Default: the platform's.
    #[schemars(length(max = 4096))]
    pub(super) ca_file: Option<PathBuf>,
    /// The same certificates, in PEM form.
    #[schemars(length(max = 65536))]
    ca_pem: Option<String>,
}

#[derive(Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RawLogin {
    /// The user.
    #[schemars(length(max = 1024))]
    user: String,
    /// The password.
    pub(super) password: SecretSource,
}

impl RawProxy {
    /// The field that names the certificates of the proxy itself, if there is one.
    fn authorities_field(&self) -> Option<&'static str> {
        match self {
            RawProxy::Through(server) if server.ca_file.is_some() => Some("caFile"),
            RawProxy::Through(server) => server.ca_pem.as_ref().map(|_| "caPem"),
            RawProxy::Environment | RawProxy::Direct | RawProxy::Unknown => None,
        }
    }
}

impl<'de> Deserialize<'de> for RawProxy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RawProxy, D::Error> {
        deserializer.deserialize_any(Form)
    }
}

struct Form;

impl<'de> Visitor<'de> for Form {
    type Value = RawProxy;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("`environment`, `direct` or a proxy with its `url`")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<RawProxy, E> {
        Ok(match text {
            "environment" => RawProxy::Environment,
            "direct" => RawProxy::Direct,
            _ => RawProxy::Unknown,
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RawProxy, A::Error> {
        let server = RawProxyServer::deserialize(MapAccessDeserializer::new(map))?;
        Ok(RawProxy::Through(Box::new(server)))
    }
}

/// The meaning of `proxy` of `registry`; adds errors to `mistakes`. Its client is another than the clouds', because
/// registries redirect to other hosts; it asks for tunnels in HTTP, and trusts the same certificates everywhere.
pub(super) fn registry_proxy(
    place: &str,
    raw: Option<RawProxy>,
    context: &ConfigContext<'_>,
    mistakes: &mut Vec<String>,
) -> Option<ProxyGrant> {
    let authorities = raw.as_ref().and_then(RawProxy::authorities_field);
    let grant = proxy(place, raw, context, mistakes).grant()?;
    if !grant.proxy.speaks_http() {
        mistakes.push(format!(
            "{place}: proxy: registries are reached through http:// and https:// proxies only"
        ));
    }
    if let Some(field) = authorities {
        mistakes.push(format!(
            "{place}: proxy: {field}: the certificate of this proxy must chain to what the registry's must"
        ));
    }
    Some(grant)
}

/// The meaning of `proxy`; adds errors to `mistakes`.
pub(super) fn proxy(
    place: &str,
    raw: Option<RawProxy>,
    context: &ConfigContext<'_>,
    mistakes: &mut Vec<String>,
) -> ProxyChoice {
    let place = format!("{place}: proxy");
    let choice = match raw {
        None => return ProxyChoice::Unset,
        Some(RawProxy::Direct) => return ProxyChoice::Direct,
        Some(RawProxy::Environment) => ProxyChoice::environment(context),
        Some(RawProxy::Unknown) => {
            Err("expected `environment`, `direct` or a mapping with `url`".to_owned())
        }
        Some(RawProxy::Through(server)) => {
            let server = *server;
            let addresses = ranges(&place, &server.addresses, mistakes);
            let (file, pem) = (server.ca_file, server.ca_pem);
            let ca_pem = authorities(&place, file, pem, context, mistakes);
            let login = server.login;
            let no_proxy = NoProxy::parse(&server.no_proxy);
            named(&server.url, login, context)
                .and_then(|proxy| {
                    let grant = ProxyGrant {
                        proxy,
                        except: no_proxy,
                        addresses,
                        ca_pem,
                    };
                    check_proxy_address(&grant)?;
                    Ok(grant)
                })
                .map(ProxyChoice::Through)
        }
    };
    choice.unwrap_or_else(|mistake| {
        mistakes.push(format!("{place}: {mistake}"));
        ProxyChoice::Unset
    })
}

/// The proxy at the URL, with its login.
fn named(url: &str, login: Option<RawLogin>, context: &ConfigContext<'_>) -> Result<Proxy, String> {
    // The URL is not quoted: it may contain a password.
    let proxy = Proxy::parse(url).map_err(|error| format!("url: {error}"))?;
    if proxy.has_login() {
        return Err(
            "url: a password does not belong into this file: `login` has a user and says where the password is"
                .to_owned(),
        );
    }
    let Some(RawLogin { user, password }) = login else {
        return Ok(proxy);
    };
    let password = password.text(context);
    let password = password.map_err(|error| format!("login: {error}"))?;
    let with_login = proxy.with_login(&user, &password);
    with_login.map_err(|error| format!("login: {error}"))
}
