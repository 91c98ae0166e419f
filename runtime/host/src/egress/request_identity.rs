//! How a request is named to a permit, and in the audit record: by whom, where to, by which rule, and the fingerprint
//! of everything that is sent but the credential.

use ccm_core::audit::{Author, sanitised};
use ccm_core::permit::{Access, CloudRequest};
use sha2::{Digest as _, Sha256};
use url::Url;

use super::Egress;
use super::message::FetchResponse;
use super::request_matching::Prepared;
use super::target::Target;

/// Where clouds put their own name of a request, the most usual first.
const REQUEST_IDS: [&str; 9] = [
    "x-request-id",
    "request-id",
    "x-correlation-id",
    "x-amzn-requestid",
    "x-amz-request-id",
    "x-openstack-request-id",
    "x-compute-request-id",
    "x-ms-request-id",
    "x-goog-request-id",
];

/// The request, as a permit knows it. Only a change is fingerprinted: nobody records a read.
pub(super) fn cloud_request(egress: &Egress, target: &Target, prepared: &Prepared) -> CloudRequest {
    let line = &prepared.line;
    CloudRequest {
        author: author(egress),
        target: target.name.clone(),
        host: host(&target.endpoint),
        method: prepared.method.to_string(),
        path: prepared.path.as_str().to_owned(),
        template: line.path.as_str().to_owned(),
        rule: line.to_string(),
        sha256: match line.access {
            Access::Read => String::new(),
            Access::Write => fingerprint(prepared),
        },
        access: line.access,
    }
}

/// Which module asks.
pub(super) fn author(egress: &Egress) -> Author {
    Author {
        provider: egress.provider.clone(),
        digest: egress.digest.clone(),
    }
}

/// What the cloud calls the request, as it may be shown.
pub(super) fn request_id(answer: &FetchResponse) -> Option<String> {
    let named = |wanted: &&str| {
        let mut headers = answer.headers.iter();
        headers.find(|(name, _)| name == wanted)
    };
    let (_, value) = REQUEST_IDS.iter().find_map(named)?;
    sanitised(value)
}

fn host(endpoint: &Url) -> String {
    let host = endpoint.host_str().unwrap_or_default();
    match endpoint.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

/// SHA-256 over method, URL with query, and body, each with its length before it, so that no part can pass for
/// another's end. Headers are left out: the credential is one of them, and a hash of it would be one to be guessed.
fn fingerprint(prepared: &Prepared) -> String {
    let body = prepared.body.as_deref().unwrap_or_default();
    let parts = [
        prepared.method.as_str().as_bytes(),
        prepared.url.as_str().as_bytes(),
        body,
    ];
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hex::encode(hash.finalize())
}
