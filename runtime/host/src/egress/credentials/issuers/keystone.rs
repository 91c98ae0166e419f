//! OpenStack's Keystone, version 3: a token for a password or an application credential. Source: the Identity API
//! reference.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http::header::{ACCEPT, CONTENT_TYPE};
use serde::Deserialize;
use serde_json::json;

use super::issuer_client::IssuerClient;
use super::{Issued, Material, taken, time};
use crate::grant::KeystoneMethod;

/// Longest validity that is believed, so that a revoked token is not used for ever.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

#[derive(Deserialize)]
struct Document {
    token: Token,
}

#[derive(Deserialize)]
struct Token {
    expires_at: String,
}

/// A token for a login at Keystone.
pub(super) async fn issue(
    client: &IssuerClient,
    method: &KeystoneMethod,
) -> Result<Issued, String> {
    let auth = match method {
        KeystoneMethod::Password {
            user,
            user_domain,
            password,
            project,
            project_domain,
        } => json!({
            "identity": { "methods": ["password"], "password": { "user": {
                "name": user, "domain": { "name": user_domain }, "password": password.expose(),
            } } },
            "scope": { "project": { "name": project, "domain": { "name": project_domain } } },
        }),
        KeystoneMethod::ApplicationCredential { id, secret } => json!({
            "identity": { "methods": ["application_credential"], "application_credential": {
                "id": id, "secret": secret.expose(),
            } },
        }),
    };
    let base = client.endpoint.as_str().trim_end_matches('/');
    // The catalog of services is left out: it can be large, and is not used.
    let request = Request::post(format!("{base}/auth/tokens?nocatalog"))
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "application/json");
    let body = Bytes::from(json!({ "auth": auth }).to_string());
    let answer = client.ask(request, body).await?;
    let document: Document = answer.json(|_| None)?;
    let subject = answer.headers.get("x-subject-token");
    let token = subject.and_then(|token| token.to_str().ok());
    let token = taken(token.ok_or("answered without X-Subject-Token")?)?;
    let expires = time(&document.token.expires_at)?;
    let longest = client.now().checked_add(LONGEST).unwrap_or(expires);
    Ok(Issued {
        material: Material::Token(token),
        expires: expires.min(longest),
    })
}
