//! Authenticates at a registry as its challenge requires: with a password, or a token from its token endpoint, for this
//! source's repository only. A login is sent nowhere else, and without TLS only to the registry itself.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use http::header::AUTHORIZATION;
use reqwest::Method;
use serde::Deserialize;
use tokio::time::timeout;
use url::Url;
use zeroize::Zeroizing;

use super::challenge::Challenge;
use super::connect::host;
use super::login::{Hidden, Login, hidden};
use super::registry::{Registry, wanted_hold};
use super::registry_error::RegistryError;

/// Maximum size of a token answer, in bytes. Tokens have some KiB.
const TOKEN_BYTES: usize = 64 << 10;

#[derive(Deserialize)]
struct Token {
    #[serde(default, deserialize_with = "hidden")]
    token: Option<Hidden>,
    #[serde(default, deserialize_with = "hidden")]
    access_token: Option<Hidden>,
}

impl Registry {
    /// Obtains the authorization that the challenge requires.
    pub(super) async fn meet(&self, challenge: Option<Challenge>) -> Result<(), RegistryError> {
        let login = {
            let credentials = self.credentials.borrow();
            let all = credentials.as_ref();
            all.and_then(|all| all.login(&self.site.host, &self.site.repository))
                .cloned()
        };
        let shown = match (challenge, login) {
            (_, Some(Login::RegistryToken(token))) => secret("Bearer ", &token),
            (Some(Challenge::Basic), Some(Login::Password { user, password })) => {
                Some(basic(&user, &password))
            }
            (Some(Challenge::Bearer { realm, service }), login) => {
                let token = self.token(&realm, service.as_deref(), login).await?;
                secret("Bearer ", &token)
            }
            (None, _) => {
                return Err(RegistryError::denied(format!(
                    "{} does not say how to log in",
                    self.site.host
                )));
            }
            (Some(Challenge::Basic), Some(Login::IdentityToken(_))) => {
                return Err(RegistryError::denied(format!(
                    "{} wants a password, and only a token is configured",
                    self.site.host
                )));
            }
            (Some(Challenge::Basic), None) => {
                let hint = self.helper_hint();
                return Err(RegistryError::denied(format!(
                    "{} wants a login, and none is configured for it{hint}",
                    self.site.host
                )));
            }
        };
        let shown = shown.ok_or_else(|| {
            RegistryError::denied(format!("{}: the login cannot be sent", self.site.host))
        })?;
        self.show(shown);
        Ok(())
    }

    /// Requests a token for this source's repository only, whatever the challenge asks for.
    async fn token(
        &self,
        realm: &str,
        service: Option<&str>,
        login: Option<Login>,
    ) -> Result<Hidden, RegistryError> {
        let mut url = Url::parse(realm).map_err(|_| {
            RegistryError::barred(format!(
                "{} sends us for a token to an address that is none",
                self.site.host
            ))
        })?;
        // The operator named the registry's own address for access without TLS, and no other port of this machine.
        if url.scheme() != "https" && !self.is_own(&url) {
            return Err(RegistryError::barred(format!(
                "{} sends us for a token to {}, without TLS",
                self.site.host,
                host(&url)
            )));
        }
        let scope = format!("repository:{}:pull", self.site.repository);
        let request = match login {
            Some(Login::IdentityToken(refresh)) => {
                let form = url::form_urlencoded::Serializer::new(String::new())
                    .append_pair("grant_type", "refresh_token")
                    .append_pair("service", service.unwrap_or(&self.site.host))
                    .append_pair("client_id", "ccm")
                    .append_pair("scope", &scope)
                    .append_pair("refresh_token", &refresh)
                    .finish();
                let request = self.connections.request(Method::POST, &url)?;
                request
                    .header("content-type", "application/x-www-form-urlencoded")
                    .body(form)
            }
            login => {
                if let Some(service) = service {
                    url.query_pairs_mut().append_pair("service", service);
                }
                url.query_pairs_mut().append_pair("scope", &scope);
                let request = self.connections.request(Method::GET, &url)?;
                match login {
                    Some(Login::Password { user, password }) => {
                        request.header(AUTHORIZATION, basic(&user, &password))
                    }
                    _ => request,
                }
            }
        };
        let who = self.connections.shown(&url);
        let asking = async {
            let answer = request
                .send()
                .await
                .map_err(|error| RegistryError::of_request(&who, error))?;
            // A redirect would send the login elsewhere.
            match answer.status().as_u16() {
                200 => self.read(answer, TOKEN_BYTES).await,
                status @ (400 | 401 | 403) => Err(RegistryError::denied(format!(
                    "{who} gives no token: it answered {status}"
                ))),
                status => {
                    let mut trouble = RegistryError::unavailable(format!(
                        "{who} gives no token: it answered {status}"
                    ));
                    if matches!(status, 429 | 503) {
                        // Each further request to the registry would ask for a token again.
                        let hold = wanted_hold(answer.headers());
                        self.hold(hold);
                        trouble.wait = Some(hold);
                    }
                    Err(trouble)
                }
            }
        };
        let answer = timeout(self.connections.timeouts.small, asking)
            .await
            .map_err(|_| self.slow())??;
        let answer = Zeroizing::new(answer);
        let no_token =
            || RegistryError::unavailable(format!("{who} gives no token: its answer holds none"));
        let token: Token = serde_json::from_slice(&answer).map_err(|_| no_token())?;
        let token = token.token.or(token.access_token);
        token.filter(|token| !token.is_empty()).ok_or_else(no_token)
    }
}

fn basic(user: &str, password: &str) -> HeaderValue {
    let pair = Zeroizing::new(format!("{user}:{password}"));
    let encoded = Zeroizing::new(STANDARD.encode(pair.as_bytes()));
    // Base64 characters are always valid in a header.
    secret("Basic ", &encoded).unwrap_or(HeaderValue::from_static(""))
}

/// A header value that is hidden from logs.
fn secret(scheme: &str, text: &str) -> Option<HeaderValue> {
    let text = Zeroizing::new(format!("{scheme}{text}"));
    let mut value = HeaderValue::from_str(&text).ok()?;
    value.set_sensitive(true);
    Some(value)
}
