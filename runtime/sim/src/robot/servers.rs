//! The server endpoints, and the JSON view of a dedicated server.

use std::net::{Ipv4Addr, Ipv6Addr};

use serde_json::{Value, json};

use super::api::{Account, Form, Refusal};
use super::resets::{OperatingStatus, ResetType};

/// Whether a server was handed over, with the vendor's names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServerStatus {
    /// Handed over to the customer.
    #[default]
    Ready,
    /// Still being set up.
    InProcess,
}

impl ServerStatus {
    /// The name in the API.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::InProcess => "in process",
        }
    }
}

/// A server to add. Start from [`ServerSpec::named`] and change what matters.
#[derive(Clone, Debug)]
pub struct ServerSpec {
    /// The name given by the customer. May be empty and need not be unique.
    pub name: String,
    /// The product, for example `AX41-NVMe` or `Server Auction`.
    pub product: String,
    /// The data centre, for example `FSN1-DC14`.
    pub dc: String,
    /// Included traffic per month as text, or `unlimited`.
    pub traffic: String,
    /// Whether it was handed over.
    pub status: ServerStatus,
    /// Whether the contract is cancelled.
    pub cancelled: bool,
    /// The date until which it is paid.
    pub paid_until: String,
    /// Whether it is powered on.
    pub operating_status: OperatingStatus,
    /// The supported reset types; without any the vendor answers as if there were no reset options.
    pub reset_types: Vec<ResetType>,
    /// Whether it has a public IPv4 address.
    pub public_ipv4: bool,
    /// Whether it has a public IPv6 network.
    pub public_ipv6: bool,
    /// The number of its storage box.
    pub linked_storagebox: Option<u32>,
}

impl ServerSpec {
    /// A running server in Falkenstein with both public addresses and every reset type.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            product: "AX41-NVMe".to_owned(),
            dc: "FSN1-DC14".to_owned(),
            traffic: "unlimited".to_owned(),
            status: ServerStatus::default(),
            cancelled: false,
            paid_until: "2026-12-31".to_owned(),
            operating_status: OperatingStatus::default(),
            reset_types: ResetType::ALL.to_vec(),
            public_ipv4: true,
            public_ipv6: true,
            linked_storagebox: None,
        }
    }
}

/// A server of the account.
pub(super) struct Server {
    pub(super) number: u32,
    pub(super) spec: ServerSpec,
    pub(super) ipv4: Option<Ipv4Addr>,
    /// The first address of its /64.
    pub(super) ipv6_net: Option<Ipv6Addr>,
    /// The executed resets, oldest first.
    pub(super) resets: Vec<ResetType>,
    /// Whether a manual reset is pending.
    pub(super) is_manual_reset_active: bool,
}

impl Server {
    /// `made` is the number of the account's server from 0 and determines its addresses: the last quarter of RFC 2544's
    /// benchmarking range, and networks of RFC 3849's documentation range.
    pub(super) fn new(number: u32, made: u16, spec: ServerSpec) -> Self {
        let ipv4 = u32::from(Ipv4Addr::new(198, 19, 128, 1)).wrapping_add(made.into());
        let ipv6 = Ipv6Addr::new(0x2001, 0xdb8, 0xffff, made, 0, 0, 0, 0);
        Self {
            number,
            ipv4: spec.public_ipv4.then_some(Ipv4Addr::from(ipv4)),
            ipv6_net: spec.public_ipv6.then_some(ipv6),
            spec,
            resets: Vec::new(),
            is_manual_reset_active: false,
        }
    }
}

pub(super) fn list(account: &Account) -> Result<Value, Refusal> {
    // For an account without servers the vendor returns this error, not an empty list.
    if account.servers.is_empty() {
        return Err(Refusal::not_found("SERVER_NOT_FOUND", "No server found"));
    }
    let shown = |server| json!({"server": summary(server)});
    Ok(account.servers.values().map(shown).collect())
}

pub(super) fn get(account: &Account, id: &str) -> Result<Value, Refusal> {
    Ok(json!({"server": detail(account.find(id)?)}))
}

pub(super) fn rename(account: &mut Account, id: &str, form: &Form) -> Result<Value, Refusal> {
    let number = account.find(id)?.number;
    let name = form.required("server_name")?.to_owned();
    if let Some(server) = account.servers.get_mut(&number) {
        server.spec.name = name;
    }
    get(account, &number.to_string())
}

/// A server in the form of the list.
fn summary(server: &Server) -> Value {
    let Server {
        number,
        spec,
        ipv4,
        ipv6_net,
        ..
    } = server;
    let subnets = ipv6_net.map(|ip| json!([{"ip": ip.to_string(), "mask": "64"}]));
    json!({
        "server_ip": ipv4.map(|ip| ip.to_string()),
        "server_ipv6_net": ipv6_net.map(|ip| ip.to_string()),
        "server_number": number, "server_name": spec.name,
        "product": spec.product, "dc": spec.dc, "traffic": spec.traffic,
        "status": spec.status.name(), "cancelled": spec.cancelled, "paid_until": spec.paid_until,
        "ip": ipv4.map(|ip| json!([ip.to_string()])), "subnet": subnets,
        "linked_storagebox": spec.linked_storagebox,
    })
}

/// A server in the form of a single read, a superset of the list's.
pub(super) fn detail(server: &Server) -> Value {
    let mut shown = summary(server);
    shown["reset"] = json!(!server.spec.reset_types.is_empty());
    for flag in ["rescue", "vnc", "wol"] {
        shown[flag] = json!(true);
    }
    for flag in ["windows", "plesk", "cpanel", "hot_swap"] {
        shown[flag] = json!(false);
    }
    shown
}
