//! What the API means by an error, told by its own code: two codes of the same status may want opposite things.

use ccm_guest::Error;
use ccm_guest::http::Response;
use serde::Deserialize;
use serde_json::Value;

/// A write that was not done, or may have been.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    /// The API's code. Empty if it was not the API that said so, or nobody did.
    code: String,
    /// The fields that are wrong, as the API calls them.
    fields: Vec<String>,
    /// What the contract calls it.
    pub error: Error,
}

impl Refusal {
    /// Whether the API refused with this code.
    pub fn is(&self, code: &str) -> bool {
        self.code == code
    }

    /// Whether the object is being changed, so that the same request will do in a moment.
    pub fn is_busy(&self) -> bool {
        matches!(self.code.as_str(), "locked" | "conflict")
    }

    /// Whether the API refuses what was asked for as it stands, so that a look at the object says why.
    pub fn is_about_object(&self) -> bool {
        let codes = [
            "not_found",
            "uniqueness_error",
            "resource_limit_exceeded",
            "service_error",
        ];
        let is_invalid = matches!(self.error, Error::Invalid(_)) && !self.code.is_empty();
        is_invalid || codes.contains(&self.code.as_str())
    }

    /// Whether what was to be removed is not there.
    pub fn is_gone(&self) -> bool {
        self.is("not_found") || self.is("load_balancer_target_not_found")
    }

    /// Whether an order is refused because of its targets, or may be.
    pub fn is_about_targets(&self) -> bool {
        let codes = [
            "not_found",
            "resource_limit_exceeded",
            "resolve_cloud_private_targets_error",
            "resolve_cloud_public_targets_error",
            "server_not_attached_to_network",
            "load_balancer_not_attached_to_network",
            "load_balancer_public_interface_disabled",
            "ip_not_owned",
            "cloud_resource_ip_not_allowed",
            "missing_ipv4",
            "target_already_defined",
            "targets_without_use_private_ip",
        ];
        let mut fields = self.fields.iter();
        codes.contains(&self.code.as_str()) || fields.any(|name| name.starts_with("targets"))
    }

    /// Whether one target is refused, so that nothing is said about others.
    pub fn is_about_target(&self) -> bool {
        let codes = [
            "resolve_cloud_private_targets_error",
            "server_not_attached_to_network",
        ];
        codes.contains(&self.code.as_str()) || matches!(self.error, Error::Invalid(_))
    }
}

/// Nobody answered, or what was answered cannot be read.
impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        Refusal {
            code: String::new(),
            fields: Vec::new(),
            error,
        }
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Error {
        refusal.error
    }
}

/// The answer to a read, if it is one.
///
/// # Errors
/// What its code means.
pub fn ok(response: Response) -> Result<Response, Error> {
    accepted(response).map_err(Error::from)
}

/// The answer to a write, if it was done.
///
/// # Errors
/// Why it was not.
pub fn accepted(response: Response) -> Result<Response, Refusal> {
    if (200..300).contains(&response.status()) {
        return Ok(response);
    }
    let label = response.label().to_owned();
    let said: Option<Said> = response.json::<Answer>().ok().map(|answer| answer.error);
    let by_status = match response.ok() {
        Ok(response) => return Ok(response),
        Err(error) => error,
    };
    let Some(said) = said else {
        return Err(by_status.into());
    };
    let text = format!("{label}: {}", said.text());
    Err(Refusal {
        error: meaning(&said.code, text, by_status),
        fields: said.fields().map(|(name, _)| name).collect(),
        code: said.code,
    })
}

/// What a code means. Those that nobody has documented mean what their status does.
fn meaning(code: &str, text: String, by_status: Error) -> Error {
    match code {
        "invalid_input"
        | "json_error"
        | "unsupported_error"
        | "protected"
        | "uniqueness_error"
        | "invalid_load_balancer_type"
        | "source_port_already_used"
        | "ip_not_owned"
        | "cloud_resource_ip_not_allowed"
        | "missing_ipv4"
        | "resolve_cloud_public_targets_error"
        | "load_balancer_public_interface_disabled"
        | "network_has_no_vswitch_subnet"
        | "targets_without_use_private_ip"
        | "ip_not_available"
        | "no_subnet_available" => Error::invalid(text),
        "unauthorized" | "forbidden" | "token_readonly" => Error::denied(text),
        "rate_limit_exceeded" => match by_status {
            Error::Throttled(throttled) => Error::throttled(text, throttled.retry_after_ms),
            _ => Error::throttled(text, None),
        },
        // A quota may be raised, or something else be deleted; a server may be attached to the network in a moment.
        "conflict"
        | "locked"
        | "maintenance"
        | "not_found"
        | "load_balancer_target_not_found"
        | "resource_limit_exceeded"
        | "resource_unavailable"
        | "resource_in_use"
        | "robot_unavailable"
        | "resolve_cloud_private_targets_error"
        | "server_not_attached_to_network"
        | "load_balancer_not_attached_to_network"
        | "load_balancer_already_attached"
        | "target_already_defined"
        | "service_error"
        | "server_error"
        | "bad_gateway"
        | "timeout"
        | "unknown_error" => Error::unavailable(text),
        _ => match by_status {
            Error::Invalid(_) => Error::invalid(text),
            Error::Denied(_) => Error::denied(text),
            other => other,
        },
    }
}

#[derive(Deserialize)]
struct Answer {
    error: Said,
}

/// An error, as the API writes it.
#[derive(Deserialize)]
struct Said {
    code: String,
    #[serde(default)]
    message: String,
    /// Their form differs from code to code.
    #[serde(default)]
    details: Value,
}

impl Said {
    /// Message, code, and what is wrong with which field.
    fn text(&self) -> String {
        let Said { code, message, .. } = self;
        let wrong = self.fields().map(|(name, what)| format!("{name} ({what})"));
        let wrong: Vec<String> = wrong.collect();
        match wrong.is_empty() {
            true => format!("{message} ({code})"),
            false => format!("{message} ({code}): invalid fields: {}", wrong.join(", ")),
        }
    }

    /// The fields that are wrong, and what is.
    fn fields(&self) -> impl Iterator<Item = (String, String)> {
        let fields = self.details.get("fields").and_then(Value::as_array);
        fields.into_iter().flatten().filter_map(|field| {
            let name = field.get("name")?.as_str()?.to_owned();
            let messages = field.get("messages").and_then(Value::as_array);
            let messages = messages.into_iter().flatten().filter_map(Value::as_str);
            let messages: Vec<&str> = messages.collect();
            Some((name, messages.join(", ")))
        })
    }
}
