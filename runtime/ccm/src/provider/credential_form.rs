//! The credential of a target as a person would write it into a configuration, with placeholders. Knows no secret.

use ccm_host::manifest::{AuthKind, REGION, Target, UNNAMED};
use serde_json::{Value, json};

/// The value of `credential` for a target. `secret` makes the reference to a secret: to the one of this target, or to
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

/// The hosts of AWS begin with the service, nearly always as signatures name it.
fn aws_service(target: &Target) -> &str {
    let host = target.endpoint.host_str().unwrap_or_default();
    match host.split_once('.') {
        Some((service, rest)) if rest.ends_with("amazonaws.com") => service,
        _ => "",
    }
}

/// The same YAML with a comment behind each endpoint that lacks its region or is not named.
pub(super) fn with_hints(yaml: &str) -> String {
    let mut text = String::with_capacity(yaml.len());
    for line in yaml.lines() {
        text.push_str(line);
        if line.contains(REGION) && line.contains("endpoint:") {
            text.push_str(" # put the region in the place of {region}");
        }
        if line.contains(UNNAMED) && line.contains("endpoint:") {
            text.push_str(" # only you know it");
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use ccm_host::manifest::Manifest;

    use super::*;

    fn target(auth: AuthKind) -> Target {
        let manifest = json!({
            "contract": "0.1.0", "name": "aws", "version": "1",
            "targets": [{ "name": "ec2", "endpoint": "https://ec2.{region}.amazonaws.com", "auth": auth,
                "rules": [{ "methods": ["POST"], "path": "/", "access": "read" }] }],
        });
        let manifest = Manifest::parse(manifest.to_string().as_bytes()).unwrap();
        manifest.targets.into_iter().next().unwrap()
    }

    #[test]
    fn the_form_of_aws_has_its_service_and_shared_names_of_secrets() {
        let form =
            credential_form(&target(AuthKind::AwsSigV4), |name| json!({ "env": name })).unwrap();
        let aws = &form["awsSigV4"];
        assert_eq!(aws["service"], "ec2");
        let keys = &aws["source"]["keys"];
        assert_eq!(keys["accessKeyId"]["env"], "aws-access-key-id");
        assert_eq!(keys["secretAccessKey"]["env"], "aws-secret-access-key");
    }

    #[test]
    fn every_kind_but_none_has_a_form_that_is_named_as_in_the_configuration() {
        for kind in AuthKind::ALL {
            let form = credential_form(&target(kind), |_| json!({ "env": "X" }));
            assert_eq!(form.is_none(), kind == AuthKind::None, "{kind}");
            let word = form.map(|form| {
                form.as_object()
                    .unwrap()
                    .keys()
                    .next()
                    .unwrap()
                    .to_lowercase()
            });
            assert!(
                word.is_none_or(|word| word == kind.as_str().replace('-', "")),
                "{kind}"
            );
        }
    }

    #[test]
    fn an_endpoint_that_the_manifest_does_not_name_says_so() {
        let manifest = json!({
            "contract": "0.2.0", "name": "own", "version": "1",
            "targets": [{ "name": "api", "auth": "none",
                "rules": [{ "methods": ["GET"], "path": "/", "access": "read" }] }],
        });
        let manifest = Manifest::parse(manifest.to_string().as_bytes()).unwrap();
        let endpoint = &manifest.targets[0].endpoint;
        let hinted = with_hints(&format!("  endpoint: {endpoint}\n"));
        assert_eq!(
            hinted,
            "  endpoint: https://{endpoint}/ # only you know it\n"
        );
        let refused = ccm_host::egress::check_endpoint(endpoint).unwrap_err();
        assert!(refused.contains("grant one"), "{refused}");
    }

    #[test]
    fn an_endpoint_without_its_region_says_so() {
        let endpoint = target(AuthKind::None).endpoint;
        let text = format!("- name: ec2\n  endpoint: {endpoint}\n");
        let hinted = with_hints(&text);
        assert!(
            hinted.ends_with("amazonaws.com/ # put the region in the place of {region}\n"),
            "{hinted}"
        );
        let filled = text.replace(REGION, "eu-central-1");
        assert_eq!(with_hints(&filled), filled);
    }
}
