//! Field validation errors, in upstream's wording. Never decides whether a rule is violated.

use serde_json::{Value, json};

/// One violated rule of one field.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FieldError {
    reason: &'static str,
    field: String,
    body: String,
}

impl FieldError {
    /// The value is not allowed; strings are quoted, other values shown as JSON.
    pub(super) fn invalid(field: impl Into<String>, value: &Value, detail: &str) -> Self {
        Self {
            reason: "FieldValueInvalid",
            field: field.into(),
            body: format!("Invalid value: {value}: {detail}"),
        }
    }

    /// The field is not allowed here or may not change.
    pub(super) fn forbidden(field: impl Into<String>, detail: &str) -> Self {
        Self {
            reason: "FieldValueForbidden",
            field: field.into(),
            body: format!("Forbidden: {detail}"),
        }
    }

    /// The value is missing.
    pub(super) fn required(field: impl Into<String>, detail: &str) -> Self {
        let body = if detail.is_empty() {
            "Required value".to_owned()
        } else {
            format!("Required value: {detail}")
        };
        Self {
            reason: "FieldValueRequired",
            field: field.into(),
            body,
        }
    }

    /// The value occurs twice.
    pub(super) fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Self {
            reason: "FieldValueDuplicate",
            field: field.into(),
            body: format!("Duplicate value: {value}"),
        }
    }

    /// The value is not one of the allowed ones.
    pub(super) fn unsupported(field: impl Into<String>, value: &Value, allowed: &[&str]) -> Self {
        let quoted: Vec<String> = allowed.iter().map(|one| format!("\"{one}\"")).collect();
        Self {
            reason: "FieldValueNotSupported",
            field: field.into(),
            body: format!(
                "Unsupported value: {value}: supported values: {}",
                quoted.join(", ")
            ),
        }
    }

    /// The value has the wrong type; `found` is its type.
    pub(super) fn wrong_type(field: impl Into<String>, found: &str, wanted: &str) -> Self {
        let field = field.into();
        Self {
            reason: "FieldValueTypeInvalid",
            body: format!(
                "Invalid value: \"{found}\": {field} in body must be of type {wanted}: \"{found}\""
            ),
            field,
        }
    }

    /// The list is longer than allowed.
    pub(super) fn too_many(field: impl Into<String>, count: usize, limit: usize) -> Self {
        Self {
            reason: "FieldValueTooMany",
            field: field.into(),
            body: format!("Too many: {count}: must have at most {limit} items"),
        }
    }

    /// The value is longer than allowed, in bytes.
    pub(super) fn too_long(field: impl Into<String>, limit: usize) -> Self {
        Self {
            reason: "FieldValueTooLong",
            field: field.into(),
            body: format!("Too long: may not be more than {limit} bytes"),
        }
    }

    /// Whether a value of the right type and size is not one of those allowed by a pattern or a rule.
    pub(super) fn is_invalid(&self) -> bool {
        self.reason == "FieldValueInvalid"
    }

    /// Appends the reason after the value.
    pub(super) fn because(mut self, detail: &str) -> Self {
        self.body = format!("{}: {detail}", self.body);
        self
    }

    /// The error as in a message.
    pub(super) fn text(&self) -> String {
        format!("{}: {}", self.field, self.body)
    }

    /// The error as in the causes of a `Status`.
    pub(super) fn cause(&self) -> Value {
        json!({"reason": self.reason, "message": self.body, "field": self.field})
    }
}
