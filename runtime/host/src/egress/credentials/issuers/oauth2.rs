//! OAuth 2.0 token endpoints: client credentials (RFC 6749, 4.4), signed assertions (RFC 7523), token exchange (RFC
//! 8693).

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::request::Builder;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use url::form_urlencoded;
use zeroize::Zeroizing;

use super::issuer_client::IssuerClient;
use super::{Issued, Material, SecretRedactor, presented, taken};
use crate::egress::body_fields::FORM;
use crate::grant::{OAuth2, OAuth2Client, OAuth2Grant, Secret};

/// Validity of a token whose answer has no `expires_in`.
const UNSTATED: Duration = Duration::from_secs(300);
/// Longest validity that is believed, so that a revoked token is not used for ever.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

#[derive(Deserialize)]
struct Token {
    access_token: String,
    token_type: String,
    #[serde(default, deserialize_with = "seconds")]
    expires_in: Option<u64>,
}

#[derive(Deserialize)]
struct Refused {
    error: String,
}

/// A token for a grant.
pub(super) async fn issue(
    client: &IssuerClient,
    oauth2: &OAuth2,
    redactor: &SecretRedactor,
) -> Result<Issued, String> {
    let asked = client.now();
    let token = match oauth2.grant.presented() {
        Some(token) => Some(presented(token, redactor).await?),
        None => None,
    };
    let (request, form) = request(client, oauth2, token.as_ref())?;
    let answer = client.ask(request, form).await?;
    let token: Token = answer.json(|text| {
        let refused: Option<Refused> = serde_json::from_str(text).ok();
        refused.map(|refused| refused.error)
    })?;
    let secret = taken(&Zeroizing::new(token.access_token))?;
    if !token.token_type.eq_ignore_ascii_case("bearer") {
        return Err("answered a token that is no bearer token".to_owned());
    }
    let stated = token.expires_in.map(Duration::from_secs);
    let valid = stated.unwrap_or(UNSTATED).min(LONGEST);
    Ok(Issued {
        material: Material::Token(secret),
        expires: asked.checked_add(valid).unwrap_or(asked),
    })
}

/// `token` is the assertion or the subject token of the grant.
fn request(
    client: &IssuerClient,
    oauth2: &OAuth2,
    token: Option<&Secret>,
) -> Result<(Builder, Bytes), String> {
    let token = token.map_or("", Secret::expose);
    let mut form = form_urlencoded::Serializer::new(String::new());
    match &oauth2.grant {
        OAuth2Grant::ClientCredentials => {
            form.append_pair("grant_type", "client_credentials");
        }
        OAuth2Grant::JwtBearer { .. } => {
            form.append_pair("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer")
                .append_pair("assertion", token);
        }
        OAuth2Grant::TokenExchange {
            subject_token_type, ..
        } => {
            form.append_pair(
                "grant_type",
                "urn:ietf:params:oauth:grant-type:token-exchange",
            )
            .append_pair("subject_token", token)
            .append_pair("subject_token_type", subject_token_type);
        }
    }
    form.extend_pairs(&oauth2.parameters);
    let mut request = Request::post(client.endpoint.as_str())
        .header(CONTENT_TYPE, FORM)
        .header(ACCEPT, "application/json");
    match &oauth2.client {
        None => {}
        Some(OAuth2Client {
            id,
            secret: Some(secret),
            in_form: false,
        }) => {
            let (user, password) = super::super::login_of_client(id, secret);
            let login = Zeroizing::new(super::super::basic(&user, &password));
            let value = Zeroizing::new(format!("Basic {}", login.as_str()));
            let value = super::super::sensitive(&value).map_err(|error| error.to_string())?;
            request = request.header(AUTHORIZATION, value);
        }
        Some(OAuth2Client { id, secret, .. }) => {
            form.append_pair("client_id", id);
            if let Some(secret) = secret {
                form.append_pair("client_secret", secret.expose());
            }
        }
    }
    Ok((request, Bytes::from(form.finish())))
}

/// A number of seconds. Some endpoints write it as a text, such as version 1 of Microsoft's.
fn seconds<'de, D: Deserializer<'de>>(value: D) -> Result<Option<u64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Seconds {
        Number(u64),
        Text(String),
    }
    Ok(match Option::deserialize(value)? {
        None => None,
        Some(Seconds::Number(number)) => Some(number),
        Some(Seconds::Text(text)) => Some(text.parse().map_err(D::Error::custom)?),
    })
}
