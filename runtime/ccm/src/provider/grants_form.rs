//! The grants of a module as a person would write them into a configuration, with placeholders. Knows no secret.

use ccm_host::egress::rules::Rule;
use ccm_host::manifest::{AuthKind, Manifest, REGION, Target, UNNAMED};
use serde::Serialize;
use serde_json::{Value, json};

use crate::builtin_grants;

/// `grants`, in the form that `config.rs` reads, ordered for human readers.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct GrantsEntry<'a> {
    targets: Vec<TargetEntry<'a>>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    annotation_prefixes: &'a [String],
}

/// One of `grants.targets`.
#[derive(Serialize)]
pub(super) struct TargetEntry<'a> {
    name: &'a str,
    endpoint: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    credential: Option<Value>,
    rules: &'a [Rule],
}

/// All that the module requires; `secret` as for [`credential_form`].
pub(super) fn grants<'a>(
    manifest: &'a Manifest,
    secret: &impl Fn(&Target, Option<&str>) -> Value,
) -> GrantsEntry<'a> {
    GrantsEntry {
        targets: targets(manifest, true, secret),
        annotation_prefixes: &manifest.annotation_prefixes,
    }
}

/// The targets that the module requires, or its optional ones.
pub(super) fn targets<'a>(
    manifest: &'a Manifest,
    required: bool,
    secret: &impl Fn(&Target, Option<&str>) -> Value,
) -> Vec<TargetEntry<'a>> {
    let targets = manifest.targets.iter();
    targets
        .filter(|target| target.required == required)
        .map(|target| TargetEntry {
            name: &target.name,
            endpoint: target.endpoint.as_str(),
            credential: credential_form(target, &manifest.name, |shared| secret(target, shared)),
            rules: &target.rules,
        })
        .collect()
}

/// The value of `credential` for a target. `secret` makes the reference to a secret: to the one of this target, or to
/// one with a name of its own, such as `aws-access-key-id`, that several targets share. `module`: the name in the
/// manifest. `None`: no credential.
fn credential_form(
    target: &Target,
    module: &str,
    secret: impl Fn(Option<&str>) -> Value,
) -> Option<Value> {
    Some(match target.auth {
        AuthKind::None => return None,
        AuthKind::Bearer => json!({ "bearer": secret(None) }),
        AuthKind::Basic => json!({ "basic": { "user": "user", "password": secret(None) } }),
        AuthKind::Header => {
            let name = builtin_grants::header(module, &target.name).unwrap_or("X-Token");
            json!({ "header": { "name": name, "value": secret(None) } })
        }
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
        let target = target(AuthKind::AwsSigV4);
        let form = credential_form(&target, "aws", |name| json!({ "env": name })).unwrap();
        let aws = &form["awsSigV4"];
        assert_eq!(aws["service"], "ec2");
        let keys = &aws["source"]["keys"];
        assert_eq!(keys["accessKeyId"]["env"], "aws-access-key-id");
        assert_eq!(keys["secretAccessKey"]["env"], "aws-secret-access-key");
    }

    #[test]
    fn the_header_of_a_shipped_provider_is_its_clouds() {
        let mut target = target(AuthKind::Header);
        target.name = "api".to_owned();
        for (module, expected) in [("proxmox", "Authorization"), ("own", "X-Token")] {
            let form = credential_form(&target, module, |_| json!({ "env": "X" })).unwrap();
            assert_eq!(form["header"]["name"], expected, "{module}");
        }
    }

    #[test]
    fn every_kind_but_none_has_a_form_that_is_named_as_in_the_configuration() {
        for kind in AuthKind::ALL {
            let form = credential_form(&target(kind), "own", |_| json!({ "env": "X" }));
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
