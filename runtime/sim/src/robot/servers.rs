//! The server endpoints, and how a dedicated server looks.

use std::net::{Ipv4Addr, Ipv6Addr};

use serde_json::{Value, json};

use super::api::{Account, Form, Refusal};
use super::resets::{OperatingStatus, ResetType};

/// Whether a server has been handed over, named as the vendor names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServerStatus {
    /// In the customer's hands.
    #[default]
    Ready,
    /// Still being set up.
    InProcess,
}

impl ServerStatus {
    /// The word in the API.
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
    /// The name that the customer gave it. It need not be unique, and it may be empty.
    pub name: String,
    /// What was bought, for example `AX41-NVMe` or `Server Auction`.
    pub product: String,
    /// The data centre, for example `FSN1-DC14`.
    pub dc: String,
    /// Free traffic a month, or `unlimited`.
    pub traffic: String,
    /// Whether it has been handed over.
    pub status: ServerStatus,
    /// Whether the contract is ended.
    pub cancelled: bool,
    /// Until when it is paid.
    pub paid_until: String,
    /// Whether it runs.
    pub operating_status: OperatingStatus,
    /// How it can be reset; without any the vendor answers as if it had no reset options.
    pub reset_types: Vec<ResetType>,
    /// Whether it gets a public IPv4 address.
    pub public_ipv4: bool,
    /// Whether it gets a public IPv6 network.
    pub public_ipv6: bool,
    /// A storage box that goes with it.
    pub linked_storagebox: Option<u32>,
}

impl ServerSpec {
    /// A running server in Falkenstein with both public addresses and every kind of reset.
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

/// A server as the account holds it.
pub(super) struct Server {
    pub(super) number: u32,
    pub(super) spec: ServerSpec,
    pub(super) ipv4: Option<Ipv4Addr>,
    /// The first address of its /64.
    pub(super) ipv6_net: Option<Ipv6Addr>,
    /// The resets that were carried out, oldest first.
    pub(super) resets: Vec<ResetType>,
    /// Whether a technician is on the way.
    pub(super) is_manual_reset_active: bool,
}

impl Server {
    /// `made` counts the servers of the account from 0; the addresses are made from it. They are the last
    /// quarter of the benchmarking range of RFC 2544, and networks of the documentation range of RFC 3849.
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
    // The vendor answers an account without servers so, and not with an empty list.
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

/// What the list shows.
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

/// What a read of one server shows: more than the list.
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
