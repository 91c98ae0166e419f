//! Identifies a request to the permit and in the audit record: module, target, rule, and a fingerprint of everything
//! sent except headers.

use ccm_core::safety::audit::Author;
use ccm_core::safety::permit::{Access, CloudRequest};
use url::Url;

use super::Egress;
use super::canonical_request::Prepared;
use super::target::Target;
use crate::digest::sha256_of_parts;

/// The request as the permit sees it. Only changes are fingerprinted, because reads are not recorded.
pub(super) fn cloud_request(egress: &Egress, target: &Target, prepared: &Prepared) -> CloudRequest {
    let line = &prepared.line;
    CloudRequest {
        author: author(egress),
        target: target.name.clone(),
        host: host(&target.endpoint),
        method: prepared.method.to_string(),
        path: prepared.path.as_str().to_owned(),
        template: line.label(),
        rule: line.to_string(),
        sha256: match line.access {
            Access::Read => String::new(),
            Access::Write => fingerprint(prepared),
        },
        access: line.access,
    }
}

/// Provider and module digest of the requester.
pub(super) fn author(egress: &Egress) -> Author {
    Author {
        provider: egress.provider.clone(),
        digest: egress.digest.clone(),
    }
}

fn host(endpoint: &Url) -> String {
    let host = endpoint.host_str().unwrap_or_default();
    match endpoint.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

/// SHA-256 over method, URL with query, and body. Headers are excluded: one of them is the credential, whose hash would
/// allow guessing it.
fn fingerprint(prepared: &Prepared) -> String {
    let body = prepared.body.as_deref().unwrap_or_default();
    hex::encode(sha256_of_parts([
        prepared.method.as_str().as_bytes(),
        prepared.url.as_str().as_bytes(),
        body,
    ]))
}
