//! The load balancer that a request describes: parsed, validated, and with the vendor's defaults. A field that the
//! request omits gets the default, also for an existing load balancer.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::account::Account;
use super::api::Refusal;
use super::{places, tags};

/// Fields that cannot change after the creation.
pub(super) const FIXED: &[&str] = &["type", "network", "network_stack", "region", "vpc_uuid"];
/// Ports that the vendor reserves for itself.
const RESERVED: [u16; 3] = [50053, 50054, 50055];

/// The load balancer that a request describes.
pub(super) struct Requested {
    pub(super) tags: BTreeSet<String>,
    pub(super) droplets: BTreeSet<u64>,
    /// All other fields, as responses show them.
    pub(super) fields: Map<String, Value>,
}

/// The body as documented. Unknown fields are ignored, as by the vendor.
#[derive(Deserialize)]
struct Body {
    name: Option<String>,
    region: Option<String>,
    project_id: Option<String>,
    size_unit: Option<u64>,
    size: Option<String>,
    #[serde(default)]
    forwarding_rules: Vec<Rule>,
    #[serde(default)]
    health_check: HealthCheck,
    #[serde(default)]
    sticky_sessions: StickySessions,
    #[serde(default)]
    redirect_http_to_https: bool,
    #[serde(default)]
    enable_proxy_protocol: bool,
    #[serde(default)]
    enable_backend_keepalive: bool,
    http_idle_timeout_seconds: Option<u64>,
    vpc_uuid: Option<String>,
    subnet_uuid: Option<String>,
    #[serde(default)]
    disable_lets_encrypt_dns_records: bool,
    #[serde(default)]
    firewall: Firewall,
    network: Option<String>,
    network_stack: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    tls_cipher_policy: Option<String>,
    droplet_ids: Option<Vec<u64>>,
    tag: Option<String>,
    #[serde(default)]
    tags: Vec<String>,
    ip: Option<Ipv4Addr>,
}

#[derive(Deserialize)]
struct Rule {
    entry_protocol: String,
    entry_port: u16,
    target_protocol: String,
    target_port: u16,
    #[serde(default)]
    certificate_id: String,
    #[serde(default)]
    tls_passthrough: bool,
}

#[derive(Default, Deserialize)]
struct HealthCheck {
    protocol: Option<String>,
    port: Option<u16>,
    path: Option<String>,
    check_interval_seconds: Option<u64>,
    response_timeout_seconds: Option<u64>,
    unhealthy_threshold: Option<u64>,
    healthy_threshold: Option<u64>,
}

#[derive(Default, Deserialize)]
struct StickySessions {
    #[serde(rename = "type")]
    kind: Option<String>,
    cookie_name: Option<String>,
    cookie_ttl_seconds: Option<u64>,
}

#[derive(Default, Deserialize)]
struct Firewall {
    #[serde(default)]
    allow: Vec<String>,
    #[serde(default)]
    deny: Vec<String>,
}

impl Requested {
    /// Parses and validates a body.
    pub(super) fn read(account: &Account, body: Value) -> Result<Self, Refusal> {
        let body: Body = serde_json::from_value(body)
            .map_err(|error| Refusal::unprocessable(error.to_string()))?;
        let name = body.name.clone().unwrap_or_default();
        need(is_name(&name), "Name is invalid")?;
        let region = body.region.clone().unwrap_or_default();
        places::region(&region)?;
        let kind = one_of(
            "type",
            body.kind.as_deref(),
            &["REGIONAL", "REGIONAL_NETWORK"],
        )?;
        let network = one_of(
            "network",
            body.network.as_deref(),
            &["EXTERNAL", "INTERNAL"],
        )?;
        let stack = one_of(
            "network_stack",
            body.network_stack.as_deref(),
            &["IPV4", "DUALSTACK"],
        )?;
        let policy = one_of(
            "tls_cipher_policy",
            body.tls_cipher_policy.as_deref(),
            &["DEFAULT", "STRONG"],
        )?;
        need(
            network == "EXTERNAL" || stack == "IPV4",
            "an internal load balancer has IPv4 alone",
        )?;
        let tag = body.tag.clone().unwrap_or_default();
        let ids = body.droplet_ids.clone().unwrap_or_default();
        need(
            tag.is_empty() || ids.is_empty(),
            "droplet_ids and tag are mutually exclusive",
        )?;
        droplets(account, &ids, &region)?;
        body.tags.iter().try_for_each(|tag| tags::check(tag))?;
        let vpc = places::default_vpc(&region);
        let wanted = body.vpc_uuid.clone().filter(|vpc| !vpc.is_empty());
        need(
            wanted.is_none() || wanted == vpc,
            "the VPC is not in this region",
        )?;
        let project = body.project_id.as_deref().unwrap_or_default();
        let is_known = project.is_empty() || project == places::PROJECT;
        need(is_known, "project could not be found")?;
        let timeout = body.http_idle_timeout_seconds.unwrap_or(60);
        need(
            (30..=600).contains(&timeout),
            "http_idle_timeout_seconds must be between 30 and 600",
        )?;
        let fields = json!({
            "name": name,
            "region": region,
            "project_id": places::PROJECT,
            "algorithm": "round_robin",
            "forwarding_rules": rules(account, &body.forwarding_rules, kind)?,
            "health_check": health_check(&body.health_check)?,
            "sticky_sessions": sticky_sessions(&body.sticky_sessions)?,
            "redirect_http_to_https": body.redirect_http_to_https,
            "enable_proxy_protocol": body.enable_proxy_protocol,
            "enable_backend_keepalive": body.enable_backend_keepalive,
            "http_idle_timeout_seconds": timeout,
            "vpc_uuid": vpc,
            "disable_lets_encrypt_dns_records": body.disable_lets_encrypt_dns_records,
            "firewall": firewall(&body.firewall)?,
            "network": network,
            "network_stack": stack,
            "type": kind,
            "tls_cipher_policy": policy,
            "tag": tag,
        });
        let Value::Object(mut fields) = fields else {
            return Err(Refusal::unprocessable("no object"));
        };
        let (key, size) = size(&body)?;
        fields.insert(key.to_owned(), size);
        if let Some(subnet) = body.subnet_uuid.filter(|subnet| !subnet.is_empty()) {
            fields.insert("subnet_uuid".to_owned(), json!(subnet));
        }
        if let Some(ip) = body.ip {
            fields.insert("chosen_ip".to_owned(), json!(ip));
        }
        Ok(Self {
            tags: body.tags.into_iter().collect(),
            droplets: ids.into_iter().collect(),
            fields,
        })
    }
}

fn need(is_so: bool, message: &str) -> Result<(), Refusal> {
    match is_so {
        true => Ok(()),
        false => Err(Refusal::unprocessable(message)),
    }
}

/// The value if it is one of the allowed ones, or else a refusal; without a value, the first one.
fn one_of(
    field: &str,
    word: Option<&str>,
    words: &[&'static str],
) -> Result<&'static str, Refusal> {
    let word = word.filter(|word| !word.is_empty());
    let default = words.first().copied();
    let found = match word {
        None => default,
        Some(word) => words.iter().copied().find(|one| *one == word),
    };
    found.ok_or_else(|| Refusal::unprocessable(format!("{field} is invalid")))
}

/// Whether the text follows the vendor's rule for names of load balancers.
fn is_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-".contains(&byte);
    let begins = name
        .bytes()
        .next()
        .is_some_and(|byte| byte.is_ascii_alphanumeric());
    begins && name.len() <= 255 && !name.ends_with('-') && name.bytes().all(is_allowed)
}

/// Checks that the droplets exist and are in the region.
pub(super) fn droplets(account: &Account, ids: &[u64], region: &str) -> Result<(), Refusal> {
    for id in ids {
        let droplet = account.droplets.get(id);
        let is_here = droplet.is_some_and(|droplet| droplet.spec.region == region);
        need(
            is_here,
            &format!("droplet {id} does not exist in the region"),
        )?;
    }
    Ok(())
}

fn rules(account: &Account, rules: &[Rule], kind: &str) -> Result<Vec<Value>, Refusal> {
    need(!rules.is_empty(), "Forwarding rules can't be blank")?;
    let mut entries = BTreeSet::new();
    let mut shown = Vec::new();
    for rule in rules {
        let entry = one_of(
            "entry protocol",
            Some(&rule.entry_protocol),
            &["http", "https", "http2", "http3", "tcp", "udp"],
        )?;
        let target = one_of(
            "target protocol",
            Some(&rule.target_protocol),
            &["http", "https", "http2", "tcp", "udp"],
        )?;
        let is_port = rule.entry_port > 0 && !RESERVED.contains(&rule.entry_port);
        need(is_port, "entry port is invalid")?;
        need(rule.target_port > 0, "target port is invalid")?;
        need((entry == "udp") == (target == "udp"), "udp needs udp")?;
        let transport = if ["udp", "http3"].contains(&entry) {
            "udp"
        } else {
            "tcp"
        };
        need(
            entries.insert((transport, rule.entry_port)),
            "entry port is used twice",
        )?;
        let id = &rule.certificate_id;
        let is_known = id.is_empty() || account.certificates.iter().any(|one| one.id == *id);
        need(is_known, "certificate could not be found")?;
        let is_secure = ["https", "http2", "http3"].contains(&entry);
        need(
            !is_secure || id.is_empty() == rule.tls_passthrough,
            "a certificate or TLS passthrough is needed, and not both",
        )?;
        if kind == "REGIONAL_NETWORK" {
            let is_plain = ["tcp", "udp"].contains(&entry) && rule.entry_port == rule.target_port;
            need(
                is_plain,
                "a network load balancer passes packets on to the same port",
            )?;
        }
        shown.push(json!({
            "entry_protocol": entry, "entry_port": rule.entry_port,
            "target_protocol": target, "target_port": rule.target_port,
            "certificate_id": id, "tls_passthrough": rule.tls_passthrough,
        }));
    }
    Ok(shown)
}

fn health_check(check: &HealthCheck) -> Result<Value, Refusal> {
    let within = |value: Option<u64>, default: u64, most: u64, least: u64, name: &str| {
        let value = value.unwrap_or(default);
        need(
            (least..=most).contains(&value),
            &format!("{name} must be between {least} and {most}"),
        )
        .map(|()| value)
    };
    let protocol = one_of(
        "health check protocol",
        check.protocol.as_deref(),
        &["http", "https", "tcp"],
    )?;
    let port = check.port.unwrap_or(80);
    need(port > 0, "health check port is invalid")?;
    let path = match (protocol, check.path.as_deref().unwrap_or_default()) {
        ("tcp", _) => "",
        (_, "") => "/",
        (_, path) => path,
    };
    Ok(json!({
        "protocol": protocol, "port": port, "path": path,
        "check_interval_seconds": within(check.check_interval_seconds, 10, 300, 3, "check interval")?,
        "response_timeout_seconds": within(check.response_timeout_seconds, 5, 300, 3, "response timeout")?,
        "unhealthy_threshold": within(check.unhealthy_threshold, 3, 10, 2, "unhealthy threshold")?,
        "healthy_threshold": within(check.healthy_threshold, 5, 10, 2, "healthy threshold")?,
    }))
}

fn sticky_sessions(sessions: &StickySessions) -> Result<Value, Refusal> {
    let kind = one_of(
        "sticky sessions type",
        sessions.kind.as_deref(),
        &["none", "cookies"],
    )?;
    if kind == "none" {
        return Ok(json!({"type": kind}));
    }
    let name = sessions.cookie_name.clone().unwrap_or_default();
    need((2..=40).contains(&name.len()), "cookie name is invalid")?;
    let seconds = sessions.cookie_ttl_seconds.unwrap_or_default();
    need((1..=34_650).contains(&seconds), "cookie ttl is invalid")?;
    Ok(json!({"type": kind, "cookie_name": name, "cookie_ttl_seconds": seconds}))
}

fn firewall(firewall: &Firewall) -> Result<Value, Refusal> {
    let is_rule = |rule: &String| match rule.split_once(':') {
        Some(("ip", ip)) => ip.parse::<std::net::IpAddr>().is_ok(),
        Some(("cidr", range)) => range.parse::<ipnet::IpNet>().is_ok(),
        _ => false,
    };
    let mut all = firewall.allow.iter().chain(&firewall.deny);
    need(all.all(is_rule), "firewall rule is invalid")?;
    Ok(json!({"allow": firewall.allow, "deny": firewall.deny}))
}

/// The number of nodes, as the field and value that the request used.
fn size(body: &Body) -> Result<(&'static str, Value), Refusal> {
    match (&body.size, body.size_unit) {
        (Some(_), Some(_)) => Err(Refusal::unprocessable("size excludes size_unit")),
        (Some(size), None) => {
            let size = one_of("size", Some(size), &["lb-small", "lb-medium", "lb-large"])?;
            Ok(("size", json!(size)))
        }
        (None, unit) => {
            let unit = unit.unwrap_or(1);
            need((1..=100).contains(&unit), "size unit is invalid")?;
            Ok(("size_unit", json!(unit)))
        }
    }
}
