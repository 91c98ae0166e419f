//! Parses services in requests, with the vendor's bounds and defaults. Does not decide whether a load balancer may have
//! them.

use serde::{Deserialize, Deserializer};

use super::api::Refusal;
use super::load_balancer_objects::{HealthCheck, HttpCheck, HttpOptions, Protocol, Service};

/// The HTTP port, which may be omitted in requests.
pub(super) const HTTP_PORT: u16 = 80;

/// A service in a request. Absent fields get the vendor's default, or stay unchanged.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RequestedService {
    protocol: Option<String>,
    pub(super) listen_port: Option<i64>,
    destination_port: Option<i64>,
    proxyprotocol: Option<bool>,
    http: Option<RequestedHttp>,
    health_check: Option<RequestedHealthCheck>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestedHttp {
    cookie_name: Option<String>,
    cookie_lifetime: Option<i64>,
    timeout_idle: Option<i64>,
    certificates: Option<Vec<u64>>,
    redirect_http: Option<bool>,
    sticky_sessions: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestedHealthCheck {
    protocol: Option<String>,
    port: Option<i64>,
    interval: Option<i64>,
    timeout: Option<i64>,
    retries: Option<i64>,
    http: Option<RequestedHttpCheck>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestedHttpCheck {
    /// Absent: unchanged. Null: none.
    #[serde(default, deserialize_with = "present")]
    domain: Option<Option<String>>,
    path: Option<String>,
    response: Option<String>,
    status_codes: Option<Vec<String>>,
    tls: Option<bool>,
}

fn present<'de, D: Deserializer<'de>>(reader: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(reader).map(Some)
}

/// A number in a request within the vendor's bounds, or the default.
fn within<T: TryFrom<i64>>(
    field: &str,
    requested: Option<i64>,
    default: T,
    bounds: (i64, i64),
) -> Result<T, Refusal> {
    let Some(number) = requested else {
        return Ok(default);
    };
    let (low, high) = bounds;
    let number = Some(number).filter(|number| (low..=high).contains(number));
    let number = number.and_then(|number| T::try_from(number).ok());
    number.ok_or_else(|| Refusal::invalid(field, &format!("must be between {low} and {high}")))
}

fn port(field: &str, requested: Option<i64>, default: Option<u16>) -> Result<u16, Refusal> {
    let default = default.or(requested.map(|_| HTTP_PORT));
    let default = default.ok_or_else(|| Refusal::invalid(field, "is missing"))?;
    within(field, requested, default, (1, 65_535))
}

/// A non-empty string in a request of limited length, or the default.
fn text(
    field: &str,
    requested: Option<String>,
    default: String,
    max: usize,
) -> Result<String, Refusal> {
    let Some(text) = requested else {
        return Ok(default);
    };
    if text.is_empty() || text.chars().count() > max {
        let why = format!("must have 1 to {max} characters");
        return Err(Refusal::invalid(field, &why));
    }
    Ok(text)
}

/// Converts the request into a service, based on `known` for an update.
pub(super) fn read(
    requested: RequestedService,
    known: Option<&Service>,
) -> Result<Service, Refusal> {
    let protocol = match (requested.protocol, known) {
        (Some(word), _) => Protocol::named(&word)
            .ok_or_else(|| Refusal::invalid("protocol", "must be tcp, http or https"))?,
        (None, Some(known)) => known.protocol,
        (None, None) => return Err(Refusal::invalid("protocol", "is missing")),
    };
    // Protocols with well-known ports may omit them.
    let (listen, destination) = match protocol {
        Protocol::Tcp => (None, None),
        Protocol::Http => (Some(HTTP_PORT), Some(HTTP_PORT)),
        Protocol::Https => (Some(443), Some(HTTP_PORT)),
    };
    let listen = known.map_or(listen, |known| Some(known.listen_port));
    let destination = known.map_or(destination, |known| Some(known.destination_port));
    let listen_port = port("listen_port", requested.listen_port, listen)?;
    let destination_port = port("destination_port", requested.destination_port, destination)?;
    let http = known.map(|known| known.http.clone()).unwrap_or_default();
    let http = match requested.http {
        None => http,
        Some(requested) => read_http(requested, http)?,
    };
    let check = match known {
        Some(known) => known.health_check.clone(),
        None => HealthCheck::connects_to(destination_port),
    };
    let health_check = match requested.health_check {
        None => check,
        Some(requested) => read_check(requested, check)?,
    };
    let proxyprotocol = requested.proxyprotocol;
    Ok(Service {
        protocol,
        listen_port,
        destination_port,
        proxyprotocol: proxyprotocol.unwrap_or(known.is_some_and(|known| known.proxyprotocol)),
        http,
        health_check,
    })
}

fn read_http(requested: RequestedHttp, known: HttpOptions) -> Result<HttpOptions, Refusal> {
    let (life, idle) = (requested.cookie_lifetime, requested.timeout_idle);
    Ok(HttpOptions {
        cookie_name: text(
            "http.cookie_name",
            requested.cookie_name,
            known.cookie_name,
            100,
        )?,
        cookie_lifetime: within(
            "http.cookie_lifetime",
            life,
            known.cookie_lifetime,
            (30, 86_400),
        )?,
        timeout_idle: within("http.timeout_idle", idle, known.timeout_idle, (30, 300))?,
        certificates: requested.certificates.unwrap_or(known.certificates),
        redirect_http: requested.redirect_http.unwrap_or(known.redirect_http),
        sticky_sessions: requested.sticky_sessions.unwrap_or(known.sticky_sessions),
    })
}

fn read_check(requested: RequestedHealthCheck, known: HealthCheck) -> Result<HealthCheck, Refusal> {
    let asks = match requested.protocol.as_deref() {
        None => known.http.is_some(),
        Some("tcp") => false,
        Some("http") => true,
        Some(_) => {
            return Err(Refusal::invalid(
                "health_check.protocol",
                "must be tcp or http",
            ));
        }
    };
    let http = known.http.unwrap_or_default();
    let http = match requested.http {
        Some(requested) if asks => Some(read_http_check(requested, http)?),
        _ => asks.then_some(http),
    };
    let (interval, timeout, retries) = (requested.interval, requested.timeout, requested.retries);
    Ok(HealthCheck {
        http,
        port: port("health_check.port", requested.port, Some(known.port))?,
        interval: within("health_check.interval", interval, known.interval, (3, 60))?,
        timeout: within("health_check.timeout", timeout, known.timeout, (1, 60))?,
        retries: within("health_check.retries", retries, known.retries, (1, 5))?,
    })
}

fn read_http_check(requested: RequestedHttpCheck, known: HttpCheck) -> Result<HttpCheck, Refusal> {
    let field = |name: &str| format!("health_check.http.{name}");
    let domain = requested.domain.unwrap_or(known.domain);
    let broken = |domain: &String| domain.len() > 128 || domain.contains([' ', '%', '\\']);
    if domain.as_ref().is_some_and(broken) {
        let why = "must have at most 128 characters, and no blanks, percent signs and backslashes";
        return Err(Refusal::invalid(&field("domain"), why));
    }
    let path = text(&field("path"), requested.path, known.path, 256)?;
    if path.contains(' ') {
        return Err(Refusal::invalid(&field("path"), "must not contain blanks"));
    }
    let response = requested.response.unwrap_or(known.response);
    if response.chars().count() > 256 {
        let why = "must have at most 256 characters";
        return Err(Refusal::invalid(&field("response"), why));
    }
    let status_codes = requested.status_codes.unwrap_or(known.status_codes);
    if status_codes.len() > 20 {
        return Err(Refusal::invalid(
            &field("status_codes"),
            "must be at most 20",
        ));
    }
    Ok(HttpCheck {
        domain,
        path,
        response,
        status_codes,
        tls: requested.tls.unwrap_or(known.tls),
    })
}
