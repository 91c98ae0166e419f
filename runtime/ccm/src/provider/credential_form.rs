//! The credential of a target as a person would write it into a configuration, with places to fill in. Knows no secret.

use ccm_host::manifest::{AuthKind, Target};
use serde_json::{Value, json};

/// What stands under `credential` for a target. `secret` makes the reference to a secret: to the one of this target, or to
/// one with a name of its own, such as `aws-access-key-id`, that several targets share. `None`: no credential.
pub(super) fn credential_form(
    target: &Target,
    secret: impl Fn(Option<&str>) -> Value,
) -> Option<Value> {
    Some(match target.auth {
        AuthKind::None => return None,
        AuthKind::Bearer => json!({ "bearer": secret(None) }),
        AuthKind::Basic => json!({ "basic": { "user": "user", "password": secret(None) } }),
        AuthKind::Header => json!({ "header": { "name": "X-Token", "value": secret(None) } }),
        AuthKind::AwsSigV4 => json!({ "awsSigV4": {
            "region": "",
            "service": aws_service(target),
            "source": { "keys": {
                "accessKeyId": secret(Some("aws-access-key-id")),
                "secretAccessKey": secret(Some("aws-secret-access-key")),
            } },
        } }),
        AuthKind::OAuth2 => json!({ "oauth2": {
            "issuer": { "endpoint": "" },
            "client": { "id": "", "secret": secret(None) },
        } }),
        AuthKind::Keystone => json!({ "keystone": {
            "issuer": { "endpoint": "" },
            "method": { "applicationCredential": { "id": "", "secret": secret(None) } },
        } }),
    })
}

/// AWS's hosts begin with the service, nearly always as signatures name it.
fn aws_service(target: &Target) -> &str {
    let host = target.endpoint.host_str().unwrap_or_default();
    match host.split_once('.') {
        Some((service, rest)) if rest.ends_with("amazonaws.com") => service,
        _ => "",
    }
}
