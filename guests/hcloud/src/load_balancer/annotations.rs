//! The annotations that say what a Service's load balancer is to be, and how their values are read: as the Go manager
//! reads them, so that a Service that worked with it works here. Tenants write them: any text may come, of any length.
//!
//! All mistakes of a Service are collected, and reported in one error.

use std::fmt::{self, Display};
use std::net::Ipv4Addr;
use std::str::FromStr;

use ccm_guest::Error;
use ccm_guest::config::parse_duration;
use ccm_guest::load_balancer::Service;

use crate::range::read_cidr;

#[cfg(test)]
mod tests;

/// The name that the public IPv4 address resolves to.
pub const IPV4_RDNS: &str = "load-balancer.hetzner.cloud/ipv4-rdns";
/// The name that the public IPv6 address resolves to.
pub const IPV6_RDNS: &str = "load-balancer.hetzner.cloud/ipv6-rdns";
/// Whether the public IPv6 address is kept out of the status.
pub const IPV6_DISABLED: &str = "load-balancer.hetzner.cloud/ipv6-disabled";
/// What the load balancer is called.
pub const NAME: &str = "load-balancer.hetzner.cloud/name";
/// Whether it cannot be reached from outside.
pub const DISABLE_PUBLIC_NETWORK: &str = "load-balancer.hetzner.cloud/disable-public-network";
/// Whether its addresses in networks are kept out of the status.
pub const DISABLE_PRIVATE_INGRESS: &str = "load-balancer.hetzner.cloud/disable-private-ingress";
/// Whether targets are reached by their addresses in the network.
pub const USE_PRIVATE_IP: &str = "load-balancer.hetzner.cloud/use-private-ip";
/// Its address in the network.
pub const PRIVATE_IPV4: &str = "load-balancer.hetzner.cloud/private-ipv4";
/// The subnet that its address is taken from.
pub const PRIVATE_SUBNET_IP_RANGE: &str = "load-balancer.hetzner.cloud/private-subnet-ip-range";
/// Shown in the status instead of any address.
pub const HOSTNAME: &str = "load-balancer.hetzner.cloud/hostname";
/// `tcp`, `http` or `https`.
pub const PROTOCOL: &str = "load-balancer.hetzner.cloud/protocol";
/// `round_robin` or `least_connections`.
pub const ALGORITHM_TYPE: &str = "load-balancer.hetzner.cloud/algorithm-type";
/// Such as `lb11`.
pub const TYPE: &str = "load-balancer.hetzner.cloud/type";
/// Such as `fsn1`.
pub const LOCATION: &str = "load-balancer.hetzner.cloud/location";
/// Such as `eu-central`.
pub const NETWORK_ZONE: &str = "load-balancer.hetzner.cloud/network-zone";
/// A label selector: the nodes that become targets.
pub const NODE_SELECTOR: &str = "load-balancer.hetzner.cloud/node-selector";
/// Whether targets are told the client's address by the proxy protocol.
pub const USES_PROXYPROTOCOL: &str = "load-balancer.hetzner.cloud/uses-proxyprotocol";
/// The name of the cookie for sticky sessions.
pub const HTTP_COOKIE_NAME: &str = "load-balancer.hetzner.cloud/http-cookie-name";
/// A duration, although the Go manager's documentation says number.
pub const HTTP_COOKIE_LIFETIME: &str = "load-balancer.hetzner.cloud/http-cookie-lifetime";
/// A duration.
pub const HTTP_TIMEOUT_IDLE: &str = "load-balancer.hetzner.cloud/http-timeout-idle";
/// `uploaded` or `managed`.
pub const CERTIFICATE_TYPE: &str = "load-balancer.hetzner.cloud/certificate-type";
/// Ids and names.
pub const HTTP_CERTIFICATES: &str = "load-balancer.hetzner.cloud/http-certificates";
/// What the managed certificate is called.
pub const HTTP_MANAGED_CERTIFICATE_NAME: &str =
    "load-balancer.hetzner.cloud/http-managed-certificate-name";
/// Whether the managed certificate is one for tests. Hetzner's own.
pub const HTTP_MANAGED_CERTIFICATE_ACME_STAGING: &str =
    "load-balancer.hetzner.cloud/http-managed-certificate-acme-staging";
/// The domains of the managed certificate.
pub const HTTP_MANAGED_CERTIFICATE_DOMAINS: &str =
    "load-balancer.hetzner.cloud/http-managed-certificate-domains";
/// Whether port 80 redirects.
pub const HTTP_REDIRECT_HTTP: &str = "load-balancer.hetzner.cloud/http-redirect-http";
/// Whether a client comes back to the same target.
pub const HTTP_STICKY_SESSIONS: &str = "load-balancer.hetzner.cloud/http-sticky-sessions";
/// `tcp`, `http` or `https`.
pub const HEALTH_CHECK_PROTOCOL: &str = "load-balancer.hetzner.cloud/health-check-protocol";
/// The target's port.
pub const HEALTH_CHECK_PORT: &str = "load-balancer.hetzner.cloud/health-check-port";
/// A duration.
pub const HEALTH_CHECK_INTERVAL: &str = "load-balancer.hetzner.cloud/health-check-interval";
/// A duration.
pub const HEALTH_CHECK_TIMEOUT: &str = "load-balancer.hetzner.cloud/health-check-timeout";
/// How often it may fail.
pub const HEALTH_CHECK_RETRIES: &str = "load-balancer.hetzner.cloud/health-check-retries";
/// The host that a health check asks for.
pub const HEALTH_CHECK_HTTP_DOMAIN: &str = "load-balancer.hetzner.cloud/health-check-http-domain";
/// The path that a health check asks for.
pub const HEALTH_CHECK_HTTP_PATH: &str = "load-balancer.hetzner.cloud/health-check-http-path";
/// Whether a health check wants the target's certificate to be valid.
pub const HEALTH_CHECK_HTTP_VALIDATE_CERTIFICATE: &str =
    "load-balancer.hetzner.cloud/health-check-http-validate-certificate";
/// The codes of a working target.
pub const HTTP_STATUS_CODES: &str = "load-balancer.hetzner.cloud/http-status-codes";
/// Written by nobody and read by nobody: the Go manager reserved them for what the cloud gave the load balancer.
pub const UNUSED: [&str; 3] = [
    "load-balancer.hetzner.cloud/ipv4",
    "load-balancer.hetzner.cloud/ipv6",
    "load-balancer.hetzner.cloud/id",
];

/// The longest value that is read. Every port repeats most of them in one request, and a tenant may write 256 KiB: neither
/// the memory of this call nor the request may be filled so.
pub const MAX_VALUE: usize = 4096;
/// How much of a wrong value is shown.
const SHOWN: usize = 64;

/// A reading of one Service's annotations. Each getter answers `None` for an annotation that is not set, and for one whose
/// value is wrong; the mistake is kept for [`Annotations::finish`]. Values are not trimmed, and an empty one is a value.
#[derive(Debug)]
pub struct Annotations<'a> {
    service: &'a Service,
    mistakes: Vec<String>,
}

impl<'a> Annotations<'a> {
    /// Begins to read. End with [`Annotations::finish`].
    pub fn of(service: &'a Service) -> Annotations<'a> {
        Annotations {
            service,
            mistakes: Vec::new(),
        }
    }

    /// The value as it is.
    pub fn text(&mut self, key: &str) -> Option<&'a str> {
        let (_, value) = self.service.annotations.iter().find(|(k, _)| k == key)?;
        if value.len() > MAX_VALUE {
            let what = format_args!("has {} bytes, and {MAX_VALUE} are allowed", value.len());
            return self.wrong(key, value, what);
        }
        Some(value)
    }

    /// The value as it is, if there is anything in it.
    pub fn filled(&mut self, key: &str) -> Option<&'a str> {
        self.text(key).filter(|value| !value.is_empty())
    }

    /// In any of the forms that Go's `strconv.ParseBool` takes.
    pub fn boolean(&mut self, key: &str) -> Option<bool> {
        let value = self.text(key)?;
        match parse_boolean(value) {
            Some(truth) => Some(truth),
            None => self.wrong(key, value, "must be true or false"),
        }
    }

    /// A whole number that fits; `what` says which do.
    pub fn number<T: FromStr>(&mut self, key: &str, what: &str) -> Option<T> {
        let value = self.text(key)?;
        match value.parse() {
            Ok(number) => Some(number),
            Err(_) => self.wrong(key, value, what),
        }
    }

    /// A length of time as Go writes it, in whole seconds: what is left of one is not sent.
    pub fn seconds(&mut self, key: &str) -> Option<u64> {
        let value = self.text(key)?;
        // Go has a plus sign and the letter of its own unit `µs`, in two encodings.
        let text = value.strip_prefix('+').unwrap_or(value);
        let text = text.replace(['\u{b5}', '\u{3bc}'], "u");
        match parse_duration(&text) {
            Some(time) => Some(time.as_secs()),
            None => self.wrong(key, value, "must be a duration such as 15s or 1m30s"),
        }
    }

    /// One of a few words, in any case of letters.
    pub fn word<T: Copy>(&mut self, key: &str, words: &[(&str, T)]) -> Option<T> {
        let value = self.text(key)?;
        let chosen = words
            .iter()
            .find(|(word, _)| word.eq_ignore_ascii_case(value));
        match chosen {
            Some((_, meaning)) => Some(*meaning),
            None => {
                let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
                let what = format_args!("must be one of {}", words.join(", "));
                self.wrong(key, value, what)
            }
        }
    }

    /// The parts between commas, as they are: neither trimmed nor filtered.
    pub fn list(&mut self, key: &str) -> Option<Vec<String>> {
        let value = self.text(key)?;
        Some(value.split(',').map(str::to_owned).collect())
    }

    /// An IPv4 address.
    pub fn ipv4(&mut self, key: &str) -> Option<Ipv4Addr> {
        let value = self.text(key)?;
        match value.parse() {
            Ok(ip) => Some(ip),
            Err(_) => self.wrong(key, value, "must be an IPv4 address"),
        }
    }

    /// A range of IPv4 addresses, written as the range itself: `10.0.1.7/24` is `10.0.1.0/24`.
    pub fn ip_range(&mut self, key: &str) -> Option<String> {
        let value = self.filled(key)?;
        match read_cidr(value) {
            Some(range) => Some(range.to_string()),
            None => self.wrong(key, value, "must be an IPv4 range such as 10.0.1.0/24"),
        }
    }

    /// Whether the annotation is there at all.
    pub fn is_set(&self, key: &str) -> bool {
        self.service.annotations.iter().any(|(k, _)| k == key)
    }

    /// Notes that the annotation's value is wrong, and why.
    pub fn wrong<T>(&mut self, key: &str, value: &str, what: impl Display) -> Option<T> {
        self.mistake(format_args!("{key}: {} {what}", Cut(value)));
        None
    }

    /// Notes a mistake that is not in the value of one annotation. What is read twice is reported once.
    pub fn mistake(&mut self, what: impl Display) {
        let what = what.to_string();
        if !self.mistakes.contains(&what) {
            self.mistakes.push(what);
        }
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
}

/// The forms of Go's `strconv.ParseBool`.
pub fn parse_boolean(value: &str) -> Option<bool> {
    match value {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// A value in quotes, without what a terminal would obey, and not all of a long one.
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
