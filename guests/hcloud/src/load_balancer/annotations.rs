//! Service annotations that configure a load balancer, and their parsers. Values are parsed like the Go manager does,
//! so that existing Services keep working. Tenants write annotations: expect any text of any length.
//!
//! All mistakes of a Service are collected and reported in one error.

use std::fmt::{self, Display};
use std::net::Ipv4Addr;
use std::str::FromStr;

use ccm_guest::Error;
use ccm_guest::config::parse_duration;
use ccm_guest::load_balancer::Service;

use crate::range::read_cidr;

#[cfg(test)]
mod tests;

/// Reverse DNS name of the public IPv4 address.
pub const IPV4_RDNS: &str = "load-balancer.hetzner.cloud/ipv4-rdns";
/// Reverse DNS name of the public IPv6 address.
pub const IPV6_RDNS: &str = "load-balancer.hetzner.cloud/ipv6-rdns";
/// Whether the status omits the public IPv6 address.
pub const IPV6_DISABLED: &str = "load-balancer.hetzner.cloud/ipv6-disabled";
/// The load balancer's name.
pub const NAME: &str = "load-balancer.hetzner.cloud/name";
/// Whether the public interface is disabled.
pub const DISABLE_PUBLIC_NETWORK: &str = "load-balancer.hetzner.cloud/disable-public-network";
/// Whether the status omits the private addresses.
pub const DISABLE_PRIVATE_INGRESS: &str = "load-balancer.hetzner.cloud/disable-private-ingress";
/// Whether targets are reached by their private addresses.
pub const USE_PRIVATE_IP: &str = "load-balancer.hetzner.cloud/use-private-ip";
/// The load balancer's private address.
pub const PRIVATE_IPV4: &str = "load-balancer.hetzner.cloud/private-ipv4";
/// The subnet of the load balancer's private address.
pub const PRIVATE_SUBNET_IP_RANGE: &str = "load-balancer.hetzner.cloud/private-subnet-ip-range";
/// Host name in the status, instead of addresses.
pub const HOSTNAME: &str = "load-balancer.hetzner.cloud/hostname";
/// `tcp`, `http` or `https`.
pub const PROTOCOL: &str = "load-balancer.hetzner.cloud/protocol";
/// `round_robin` or `least_connections`.
pub const ALGORITHM_TYPE: &str = "load-balancer.hetzner.cloud/algorithm-type";
/// Load balancer type, such as `lb11`.
pub const TYPE: &str = "load-balancer.hetzner.cloud/type";
/// Location, such as `fsn1`.
pub const LOCATION: &str = "load-balancer.hetzner.cloud/location";
/// Network zone, such as `eu-central`.
pub const NETWORK_ZONE: &str = "load-balancer.hetzner.cloud/network-zone";
/// Label selector of the nodes that become targets.
pub const NODE_SELECTOR: &str = "load-balancer.hetzner.cloud/node-selector";
/// Whether targets get the client's address by the proxy protocol.
pub const USES_PROXYPROTOCOL: &str = "load-balancer.hetzner.cloud/uses-proxyprotocol";
/// The name of the cookie for sticky sessions.
pub const HTTP_COOKIE_NAME: &str = "load-balancer.hetzner.cloud/http-cookie-name";
/// A duration, although the Go manager's documentation says number.
pub const HTTP_COOKIE_LIFETIME: &str = "load-balancer.hetzner.cloud/http-cookie-lifetime";
/// A duration.
pub const HTTP_TIMEOUT_IDLE: &str = "load-balancer.hetzner.cloud/http-timeout-idle";
/// `uploaded` or `managed`.
pub const CERTIFICATE_TYPE: &str = "load-balancer.hetzner.cloud/certificate-type";
/// Certificate ids and names, separated by commas.
pub const HTTP_CERTIFICATES: &str = "load-balancer.hetzner.cloud/http-certificates";
/// The managed certificate's name.
pub const HTTP_MANAGED_CERTIFICATE_NAME: &str =
    "load-balancer.hetzner.cloud/http-managed-certificate-name";
/// Whether the managed certificate comes from the staging CA, for tests. Used by Hetzner itself.
pub const HTTP_MANAGED_CERTIFICATE_ACME_STAGING: &str =
    "load-balancer.hetzner.cloud/http-managed-certificate-acme-staging";
/// The domains of the managed certificate.
pub const HTTP_MANAGED_CERTIFICATE_DOMAINS: &str =
    "load-balancer.hetzner.cloud/http-managed-certificate-domains";
/// Whether port 80 redirects to HTTPS.
pub const HTTP_REDIRECT_HTTP: &str = "load-balancer.hetzner.cloud/http-redirect-http";
/// Whether a client stays at the same target.
pub const HTTP_STICKY_SESSIONS: &str = "load-balancer.hetzner.cloud/http-sticky-sessions";
/// `tcp`, `http` or `https`.
pub const HEALTH_CHECK_PROTOCOL: &str = "load-balancer.hetzner.cloud/health-check-protocol";
/// Port of the target for the health check.
pub const HEALTH_CHECK_PORT: &str = "load-balancer.hetzner.cloud/health-check-port";
/// A duration.
pub const HEALTH_CHECK_INTERVAL: &str = "load-balancer.hetzner.cloud/health-check-interval";
/// A duration.
pub const HEALTH_CHECK_TIMEOUT: &str = "load-balancer.hetzner.cloud/health-check-timeout";
/// Number of failures before a target counts as unhealthy.
pub const HEALTH_CHECK_RETRIES: &str = "load-balancer.hetzner.cloud/health-check-retries";
/// The `Host` of a health check request.
pub const HEALTH_CHECK_HTTP_DOMAIN: &str = "load-balancer.hetzner.cloud/health-check-http-domain";
/// The path of a health check request.
pub const HEALTH_CHECK_HTTP_PATH: &str = "load-balancer.hetzner.cloud/health-check-http-path";
/// Whether a health check requires a valid certificate of the target.
pub const HEALTH_CHECK_HTTP_VALIDATE_CERTIFICATE: &str =
    "load-balancer.hetzner.cloud/health-check-http-validate-certificate";
/// HTTP status codes of a healthy target.
pub const HTTP_STATUS_CODES: &str = "load-balancer.hetzner.cloud/http-status-codes";
/// Never read or written: the Go manager reserved them for data from the cloud.
pub const UNUSED: [&str; 3] = [
    "load-balancer.hetzner.cloud/ipv4",
    "load-balancer.hetzner.cloud/ipv6",
    "load-balancer.hetzner.cloud/id",
];

/// Maximum length of a value, in bytes. Every port repeats most values in one request, and a tenant may write 256 KiB;
/// the limit protects the guest's memory and the request size.
pub const MAX_VALUE: usize = 4096;
/// Maximum length of a wrong value in a message, in characters.
const SHOWN: usize = 64;

/// A reader of one Service's annotations that collects mistakes. Each getter returns `None` for an annotation that is
/// not set or has a wrong value; [`Annotations::finish`] reports the mistakes. Values are not trimmed, and an empty
/// value counts as set.
#[derive(Debug)]
pub struct Annotations<'a> {
    service: &'a Service,
    mistakes: Vec<String>,
}

impl<'a> Annotations<'a> {
    /// Starts reading. End with [`Annotations::finish`].
    pub fn of(service: &'a Service) -> Annotations<'a> {
        Annotations {
            service,
            mistakes: Vec::new(),
        }
    }

    /// The unmodified value.
    pub fn text(&mut self, key: &str) -> Option<&'a str> {
        let (_, value) = self.service.annotations.iter().find(|(k, _)| k == key)?;
        if value.len() > MAX_VALUE {
            let what = format_args!("has {} bytes, and {MAX_VALUE} are allowed", value.len());
            return self.wrong(key, value, what);
        }
        Some(value)
    }

    /// The unmodified value, unless it is empty.
    pub fn filled(&mut self, key: &str) -> Option<&'a str> {
        self.text(key).filter(|value| !value.is_empty())
    }

    /// A boolean in any form that Go's `strconv.ParseBool` accepts.
    pub fn boolean(&mut self, key: &str) -> Option<bool> {
        let value = self.text(key)?;
        match parse_boolean(value) {
            Some(truth) => Some(truth),
            None => self.wrong(key, value, "must be true or false"),
        }
    }

    /// An integer within the range of `T`; `what` describes the range for the message.
    pub fn number<T: FromStr>(&mut self, key: &str, what: &str) -> Option<T> {
        let value = self.text(key)?;
        match value.parse() {
            Ok(number) => Some(number),
            Err(_) => self.wrong(key, value, what),
        }
    }

    /// A duration in Go syntax, rounded down to whole seconds.
    pub fn seconds(&mut self, key: &str) -> Option<u64> {
        let value = self.text(key)?;
        // Go also accepts a plus sign and the unit `µs`, in two encodings.
        let text = value.strip_prefix('+').unwrap_or(value);
        let text = text.replace(['\u{b5}', '\u{3bc}'], "u");
        match parse_duration(&text) {
            Some(time) => Some(time.as_secs()),
            None => self.wrong(key, value, "must be a duration such as 15s or 1m30s"),
        }
    }

    /// One of the given words, compared case-insensitively.
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

    /// The parts between commas, neither trimmed nor filtered.
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

    /// An IPv4 range, with host bits cleared: `10.0.1.7/24` becomes `10.0.1.0/24`.
    pub fn ip_range(&mut self, key: &str) -> Option<String> {
        let value = self.filled(key)?;
        match read_cidr(value) {
            Some(range) => Some(range.to_string()),
            None => self.wrong(key, value, "must be an IPv4 range such as 10.0.1.0/24"),
        }
    }

    /// Whether the annotation is set.
    pub fn is_set(&self, key: &str) -> bool {
        self.service.annotations.iter().any(|(k, _)| k == key)
    }

    /// Records that the annotation's value is wrong, and why.
    pub fn wrong<T>(&mut self, key: &str, value: &str, what: impl Display) -> Option<T> {
        self.mistake(format_args!("{key}: {} {what}", Cut(value)));
        None
    }

    /// Records a mistake that does not concern one annotation's value. Duplicates are reported once.
    pub fn mistake(&mut self, what: impl Display) {
        let what = what.to_string();
        if !self.mistakes.contains(&what) {
            self.mistakes.push(what);
        }
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
}

/// Parses the forms of Go's `strconv.ParseBool`.
pub fn parse_boolean(value: &str) -> Option<bool> {
    match value {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// Displays a value in quotes, truncated and without control characters.
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
