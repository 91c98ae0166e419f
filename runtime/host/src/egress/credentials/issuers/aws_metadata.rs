//! AWS's metadata services: the credentials of a container (ECS, EKS Pod Identity) and of an instance (IMDS version 2
//! only, which a request forwarded from another machine cannot reach). Only the host calls them. Sources: AWS's user
//! guides of EC2, ECS and EKS.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use serde::Deserialize;
use url::Url;

use super::issuer_client::{Answer, IssuerClient};
use super::{Issued, Presented, SecretRedactor, issued_keys, presented, taken};
use crate::grant::Secret;

/// Validity of a session with the instance's metadata service, in seconds: longer than the few requests take.
const SESSION_SECONDS: &str = "60";
/// Longest validity of an instance's keys that is used, as in the SDK of Go. They are valid for six hours, and the service
/// has others as soon as the instance gets another role.
const LONGEST: Duration = Duration::from_secs(3600);
/// Longest name of a role or a region, and longest ID.
const MAX_NAME: usize = 128;

/// The keys of a container; `authorization` is the token for the header of this name, if the service requires one.
pub(super) async fn issue_to_container(
    client: &IssuerClient,
    authorization: Option<&Presented>,
    redactor: &SecretRedactor,
) -> Result<Issued, String> {
    let mut request = Request::get(client.endpoint.as_str());
    if let Some(authorization) = authorization {
        let token = presented(authorization, redactor).await?;
        let value = super::super::sensitive(token.expose()).map_err(|error| error.to_string())?;
        request = request.header("authorization", value);
    }
    keys(&client.ask(request, Bytes::new()).await?)
}

/// The keys of the machine that this process runs on.
pub(super) async fn issue_to_instance(
    client: &IssuerClient,
    redactor: &SecretRedactor,
) -> Result<Issued, String> {
    const ROLES: &str = "latest/meta-data/iam/security-credentials";
    let session = session(client).await?;
    redactor.learn_presented(vec![session.clone()]);
    let roles = get(client, &format!("{ROLES}/"), &session).await;
    let roles = roles.map_err(|why| match why.contains("answered 404") {
        true => "the instance has no role (instance profile)".to_owned(),
        false => why,
    })?;
    let role = name(&roles)?;
    let issued = keys(&get(client, &format!("{ROLES}/{role}"), &session).await?)?;
    let longest = client.now().checked_add(LONGEST);
    let expires = longest.map_or(issued.expires, |longest| issued.expires.min(longest));
    Ok(Issued { expires, ..issued })
}

/// An ID or a name in the metadata of the machine that this process runs on.
///
/// # Errors
/// Why it is not known.
pub(in crate::egress) async fn instance_metadata(
    client: &IssuerClient,
    path: &str,
) -> Result<String, String> {
    let session = session(client).await?;
    name(&get(client, path, &session).await?)
}

/// Requests a session token, which the next requests carry.
async fn session(client: &IssuerClient) -> Result<Secret, String> {
    let request = Request::builder()
        .method(Method::PUT)
        .uri(url(client, "latest/api/token")?.as_str())
        .header("x-aws-ec2-metadata-token-ttl-seconds", SESSION_SECONDS);
    let answer = client.ask(request, Bytes::new()).await.map_err(|why| {
        format!("{why}: is this an instance of EC2, and is its hop limit for metadata at least 2 if this is a pod?")
    })?;
    taken(answer.success(|_| None)?)
}

async fn get(client: &IssuerClient, path: &str, session: &Secret) -> Result<Answer, String> {
    let session = super::super::sensitive(session.expose()).map_err(|error| error.to_string())?;
    let request =
        Request::get(url(client, path)?.as_str()).header("x-aws-ec2-metadata-token", session);
    let answer = client.ask(request, Bytes::new()).await?;
    answer.success(|_| None)?;
    Ok(answer)
}

fn url(client: &IssuerClient, path: &str) -> Result<Url, String> {
    let base = client.endpoint.as_str().trim_end_matches('/');
    let url = Url::parse(&format!("{base}/{path}"));
    url.map_err(|_| "the URL cannot be asked".to_owned())
}

/// The first line of an answer: an ID, or the name of a role or a region, which can be a part of a path.
fn name(answer: &Answer) -> Result<String, String> {
    let text = answer.success(|_| None)?;
    let name = text.lines().next().unwrap_or_default().trim();
    // Characters that the names of IAM roles have.
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"+=,.@_-".contains(&byte);
    let is_name = !name.is_empty() && name.len() <= MAX_NAME && name.bytes().all(is_letter);
    match is_name && !name.starts_with('.') {
        true => Ok(name.to_owned()),
        false => Err("answered something else than a name".to_owned()),
    }
}

/// The JSON answer of both services.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Document {
    /// `Success`; sent by the instance's service only.
    code: Option<String>,
    access_key_id: String,
    secret_access_key: String,
    token: String,
    expiration: String,
}

fn keys(answer: &Answer) -> Result<Issued, String> {
    let document: Document = answer.json(|_| None)?;
    if document.code.is_some_and(|code| code != "Success") {
        return Err("answered without success".to_owned());
    }
    issued_keys(
        document.access_key_id,
        document.secret_access_key,
        document.token,
        &document.expiration,
    )
}
