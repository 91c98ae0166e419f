//! The reset endpoints: reset options of a server, its operating status, and the effect of a reset.

use http::StatusCode;
use serde_json::{Value, json};

use super::api::{Account, Form, Refusal};
use super::servers::Server;

/// Whether a server is powered on, with the vendor's names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OperatingStatus {
    /// Powered on.
    #[default]
    Running,
    /// Powered off.
    ShutOff,
    /// Not reported by the server's hardware.
    NotSupported,
}

impl OperatingStatus {
    /// The name in the API.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::ShutOff => "shut off",
            Self::NotSupported => "not supported",
        }
    }
}

/// A reset type, with the vendor's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResetType {
    /// Sends Ctrl+Alt+Del to the server.
    Software,
    /// Presses the reset button.
    Hardware,
    /// A technician pulls the plug.
    Manual,
    /// Presses the power button.
    Power,
    /// Holds the power button down.
    PowerLong,
}

impl ResetType {
    /// All reset types.
    pub const ALL: [Self; 5] = [
        Self::Software,
        Self::Hardware,
        Self::Manual,
        Self::Power,
        Self::PowerLong,
    ];

    /// The name in the API.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Software => "sw",
            Self::Hardware => "hw",
            Self::Manual => "man",
            Self::Power => "power",
            Self::PowerLong => "power_long",
        }
    }

    /// The operating status after the reset.
    fn effect(self, before: OperatingStatus) -> OperatingStatus {
        match (self, before) {
            (_, OperatingStatus::NotSupported) => OperatingStatus::NotSupported,
            (Self::Software | Self::Manual, before) => before,
            (Self::Hardware, _) => OperatingStatus::Running,
            (Self::Power, OperatingStatus::ShutOff) => OperatingStatus::Running,
            (Self::Power | Self::PowerLong, _) => OperatingStatus::ShutOff,
        }
    }
}

pub(super) fn list(account: &Account) -> Result<Value, Refusal> {
    let with_options = account
        .servers
        .values()
        .filter(|server| !server.spec.reset_types.is_empty());
    let shown: Vec<Value> = with_options
        .map(|server| json!({"reset": options(server)}))
        .collect();
    if shown.is_empty() {
        let message = "No servers with reset option found";
        return Err(Refusal::not_found("NOT_FOUND", message));
    }
    Ok(shown.into())
}

pub(super) fn get(account: &Account, id: &str) -> Result<Value, Refusal> {
    let server = resettable(account, id)?;
    let mut shown = options(server);
    shown["operating_status"] = json!(server.spec.operating_status.name());
    Ok(json!({"reset": shown}))
}

pub(super) fn execute(account: &mut Account, id: &str, form: &Form) -> Result<Value, Refusal> {
    let server = resettable(account, id)?;
    let wanted = form.required("type")?;
    let kind = server
        .spec
        .reset_types
        .iter()
        .copied()
        .find(|kind| kind.name() == wanted)
        .ok_or_else(|| Refusal::invalid("type"))?;
    if kind == ResetType::Manual && server.is_manual_reset_active {
        let message = "There is already a running manual reset";
        return Err(Refusal::new(
            StatusCode::CONFLICT,
            "RESET_MANUAL_ACTIVE",
            message,
        ));
    }
    let number = server.number;
    let mut shown = options(server);
    shown["type"] = json!(kind.name());
    if let Some(server) = account.servers.get_mut(&number) {
        server.spec.operating_status = kind.effect(server.spec.operating_status);
        server.is_manual_reset_active |= kind == ResetType::Manual;
        server.resets.push(kind);
    }
    Ok(json!({"reset": shown}))
}

fn resettable<'a>(account: &'a Account, id: &str) -> Result<&'a Server, Refusal> {
    let server = account.find(id)?;
    if server.spec.reset_types.is_empty() {
        let message = "The server has no reset option";
        return Err(Refusal::not_found("RESET_NOT_AVAILABLE", message));
    }
    Ok(server)
}

/// The reset options in the form of the list.
fn options(server: &Server) -> Value {
    let types = server.spec.reset_types.iter().map(|kind| kind.name());
    json!({
        "server_ip": server.ipv4.map(|ip| ip.to_string()),
        "server_ipv6_net": server.ipv6_net.map(|ip| ip.to_string()),
        "server_number": server.number, "type": types.collect::<Vec<_>>(),
    })
}
