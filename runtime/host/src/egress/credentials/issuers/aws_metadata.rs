//! AWS's metadata services: the credentials of a container (ECS, EKS Pod Identity) and of an instance (IMDS version 2
//! only, which a request forwarded from another machine cannot reach). Only the host calls them. Sources: AWS's user
//! guides of EC2, ECS and EKS.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use serde::Deserialize;
use url::Url;

use super::issuer_client::{Answer, IssuerClient};
use super::{
    DialError, Issued, IssuerReach, IssuerSettings, Presented, SecretRedactor, issued_keys,
    presented, taken,
};
use crate::grant::{Issuer, Secret};

/// Validity of a session with the instance's metadata service, in seconds: longer than the few requests take.
const SESSION_SECONDS: &str = "60";
/// Longest validity of an instance's keys that is used, as in the SDK of Go. They are valid for six hours, and the service
/// has others as soon as the instance gets another role.
const LONGEST: Duration = Duration::from_secs(3600);
/// Longest name of a role or a region, and longest ID.
const MAX_NAME: usize = 128;

/// Client of the container's metadata service, with the token for its `authorization` header, if it needs one.
pub(in crate::egress) struct ContainerCredentials {
    pub(super) client: IssuerClient,
    authorization: Option<Presented>,
}

impl ContainerCredentials {
    pub(super) fn new(
        issuer: &Issuer,
        authorization: Option<&Presented>,
        settings: &IssuerSettings<'_>,
    ) -> Result<ContainerCredentials, DialError> {
        Ok(ContainerCredentials {
            client: IssuerClient::new(issuer, IssuerReach::AwsMetadata, settings)?,
            authorization: authorization.cloned(),
        })
    }

    pub(super) async fn issue(&self, redactor: &SecretRedactor) -> Result<Issued, String> {
        let mut request = Request::get(self.client.endpoint.as_str());
        if let Some(authorization) = &self.authorization {
            let token = presented(authorization, redactor).await?;
            let value =
                super::super::sensitive(token.expose()).map_err(|error| error.to_string())?;
            request = request.header("authorization", value);
        }
        keys(&self.client.ask(request, Bytes::new()).await?)
    }
}

impl fmt::Display for ContainerCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "container credentials at {}", self.client.endpoint)?;
        match &self.authorization {
            Some(Presented::File(path)) => write!(f, " with the token in {}", path.display()),
            _ => Ok(()),
        }
    }
}

/// Client of the metadata service of the machine that this process runs on.
pub(in crate::egress) struct InstanceMetadata {
    pub(super) client: IssuerClient,
}

impl InstanceMetadata {
    pub(in crate::egress) fn new(
        issuer: &Issuer,
        settings: &IssuerSettings<'_>,
    ) -> Result<InstanceMetadata, DialError> {
        let client = IssuerClient::new(issuer, IssuerReach::AwsMetadata, settings)?;
        Ok(InstanceMetadata { client })
    }

    pub(super) async fn issue(&self, redactor: &SecretRedactor) -> Result<Issued, String> {
        const ROLES: &str = "latest/meta-data/iam/security-credentials";
        let session = self.session().await?;
        redactor.learn_presented(vec![session.clone()]);
        let roles = self.get(&format!("{ROLES}/"), &session).await;
        let roles = roles.map_err(|why| match why.contains("answered 404") {
            true => "the instance has no role (instance profile)".to_owned(),
            false => why,
        })?;
        let role = name(&roles)?;
        let issued = keys(&self.get(&format!("{ROLES}/{role}"), &session).await?)?;
        let longest = self.client.now().checked_add(LONGEST);
        let expires = longest.map_or(issued.expires, |longest| issued.expires.min(longest));
        Ok(Issued { expires, ..issued })
    }

    /// The region of the instance.
    ///
    /// # Errors
    /// Why the region is not known.
    pub(in crate::egress) async fn region(&self) -> Result<String, String> {
        self.named("latest/meta-data/placement/region").await
    }

    /// The ID of the instance, `i-…`.
    ///
    /// # Errors
    /// Why the ID is not known.
    pub(in crate::egress) async fn id(&self) -> Result<String, String> {
        self.named("latest/meta-data/instance-id").await
    }

    async fn named(&self, path: &str) -> Result<String, String> {
        let session = self.session().await?;
        name(&self.get(path, &session).await?)
    }

    /// Requests a session token, which the next requests carry.
    async fn session(&self) -> Result<Secret, String> {
        let request = Request::builder()
            .method(Method::PUT)
            .uri(self.url("latest/api/token")?.as_str())
            .header("x-aws-ec2-metadata-token-ttl-seconds", SESSION_SECONDS);
        let answer = self.client.ask(request, Bytes::new()).await.map_err(|why| {
            format!("{why}: is this an instance of EC2, and is its hop limit for metadata at least 2 if this is a pod?")
        })?;
        taken(answer.success(|_| None)?)
    }

    async fn get(&self, path: &str, session: &Secret) -> Result<Answer, String> {
        let session =
            super::super::sensitive(session.expose()).map_err(|error| error.to_string())?;
        let request =
            Request::get(self.url(path)?.as_str()).header("x-aws-ec2-metadata-token", session);
        let answer = self.client.ask(request, Bytes::new()).await?;
        answer.success(|_| None)?;
        Ok(answer)
    }

    fn url(&self, path: &str) -> Result<Url, String> {
        let base = self.client.endpoint.as_str().trim_end_matches('/');
        let url = Url::parse(&format!("{base}/{path}"));
        url.map_err(|_| "the URL cannot be asked".to_owned())
    }
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
