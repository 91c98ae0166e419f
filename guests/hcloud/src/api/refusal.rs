//! Maps the API's error codes to errors of the contract. Codes take precedence over the status: two codes with the
//! same status may need opposite reactions.

use ccm_guest::Error;
use ccm_guest::http::Response;
use serde::Deserialize;
use serde_json::Value;

/// A write that failed or may have failed.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    /// The API's error code. Empty if the error did not come from the API or there was no response.
    code: String,
    /// The API's names of the invalid fields.
    fields: Vec<String>,
    /// The corresponding error of the contract.
    pub error: Error,
}

impl Refusal {
    /// Whether the API refused with this code.
    pub fn is(&self, code: &str) -> bool {
        self.code == code
    }

    /// Whether the object is being changed, so that the same request can succeed shortly.
    pub fn is_busy(&self) -> bool {
        matches!(self.code.as_str(), "locked" | "conflict")
    }

    /// Whether the object's current state may explain the refusal, so that reading the object helps.
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

    /// Whether the object to remove does not exist.
    pub fn is_gone(&self) -> bool {
        self.is("not_found") || self.is("load_balancer_target_not_found")
    }

    /// Whether a create request was, or may have been, refused because of its targets.
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

    /// Whether the refusal concerns only one target, and not others.
    pub fn is_about_target(&self) -> bool {
        let codes = [
            "resolve_cloud_private_targets_error",
            "server_not_attached_to_network",
        ];
        codes.contains(&self.code.as_str()) || matches!(self.error, Error::Invalid(_))
    }
}

/// There was no response, or it could not be parsed.
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

/// Returns a successful response to a read.
///
/// # Errors
/// The error for the API's code.
pub fn ok(response: Response) -> Result<Response, Error> {
    accepted(response).map_err(Error::from)
}

/// Returns a successful response to a write.
///
/// # Errors
/// The reason why the write was not done.
pub fn accepted(response: Response) -> Result<Response, Refusal> {
    let Some(by_status) = response.error() else {
        return Ok(response);
    };
    let Some(error) = api_error(&response) else {
        return Err(by_status.into());
    };
    let text = format!("{}: {}", response.label(), error.text());
    Err(Refusal {
        error: meaning(&error.code, text, by_status),
        fields: error.fields().map(|(name, _)| name).collect(),
        code: error.code,
    })
}

/// Returns a successful response to a read of one object; `None` only if the API itself reports that the object does
/// not exist: a 404 of an intermediary proves nothing.
///
/// # Errors
/// As [`ok`].
pub fn found(response: Response) -> Result<Option<Response>, Error> {
    if response.status() == 404 && error_code(&response).as_deref() == Some("not_found") {
        return Ok(None);
    }
    ok(response).map(Some)
}

/// The code of an error response. The cloud and Robot use the same field.
pub fn error_code(response: &Response) -> Option<String> {
    response.error()?;
    Some(api_error(response)?.code)
}

fn api_error(response: &Response) -> Option<ApiError> {
    let answer: Answer = response.json().ok()?;
    Some(answer.error)
}

/// The error for a code. Undocumented codes fall back to the error for the status.
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
            Error::Throttled(_) => by_status.with_message(text),
            _ => Error::throttled(text, None),
        },
        // Temporary: a quota may be raised or other objects deleted; a server may soon be attached to the network.
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
    error: ApiError,
}

/// An error in the API's format.
#[derive(Deserialize)]
struct ApiError {
    code: String,
    message: Option<String>,
    /// The format depends on the code.
    #[serde(default)]
    details: Value,
}

impl ApiError {
    /// The message, the code, and the invalid fields with their messages.
    fn text(&self) -> String {
        let ApiError { code, message, .. } = self;
        let message = message.as_deref().unwrap_or_default();
        let wrong = self.fields().map(|(name, what)| format!("{name} ({what})"));
        let wrong: Vec<String> = wrong.collect();
        match wrong.is_empty() {
            true => format!("{message} ({code})"),
            false => format!("{message} ({code}): invalid fields: {}", wrong.join(", ")),
        }
    }

    /// The invalid fields and their messages.
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
