//! Sends requests to issuers of credentials: one bounded request at a time, with the checks that targets have. Follows
//! no redirect, and sends nothing twice. An issuer's answer is hostile input; only its status and an error code get
//! into a text.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use ccm_core::safety::tenure::Tenure;
use http::header::{HeaderMap, HeaderValue, USER_AGENT};
use http::request::Builder;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use tokio::time::timeout;
use url::Url;
use zeroize::Zeroizing;

use crate::egress::IssuerReach;
use crate::egress::dial::{self, Client, DialError};
use crate::egress::lease_gate::LeaseGate;
use crate::egress::limits::EgressLimits;
use crate::egress::resolve::NameLookup;
use crate::egress::send::broken;
use crate::grant::Issuer;

/// Time for one request and its whole answer. Issuers answer within a second; a missing metadata service does not
/// answer at all.
const LONGEST: Duration = Duration::from_secs(10);
/// Maximum bytes of an answer. A token with its description has some kilobytes.
const MAX_ANSWER: usize = 64 << 10;
/// Longest error code that is shown, in bytes.
const MAX_CODE: usize = 64;

/// Returns the time of day, by which issued credentials expire. Injected, so that tests can set it.
pub type WallClock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// Client of one issuer.
pub(in crate::egress) struct IssuerClient {
    client: Client,
    gate: Arc<LeaseGate>,
    user_agent: Option<HeaderValue>,
    clock: WallClock,
    /// URL of the issuer.
    pub(super) endpoint: Url,
}

/// An answer of an issuer.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Zeroizing<Vec<u8>>,
}

/// Settings that a target and the issuer of its credential share.
pub(in crate::egress) struct IssuerSettings<'a> {
    /// `user-agent` of requests.
    pub(in crate::egress) user_agent: &'a str,
    /// Limits of connections and requests.
    pub(in crate::egress) limits: &'a EgressLimits,
    /// Resolver of the issuer's name.
    pub(in crate::egress) lookup: Arc<dyn NameLookup>,
    /// Clock for the expiry of credentials.
    pub(in crate::egress) clock: WallClock,
}

impl IssuerClient {
    /// Sets up a client; resolves and dials nothing yet.
    ///
    /// # Errors
    /// The part of the issuer that is unusable.
    pub(in crate::egress) fn new(
        issuer: &Issuer,
        reach: IssuerReach,
        settings: &IssuerSettings<'_>,
    ) -> Result<IssuerClient, DialError> {
        let gate = Arc::<LeaseGate>::default();
        let (limits, lookup) = (settings.limits, settings.lookup.clone());
        let client = match reach {
            IssuerReach::AwsMetadata if dial::is_aws_metadata(&issuer.endpoint) => {
                dial::metadata_client(limits, lookup, gate.clone())?
            }
            _ => dial::client(&issuer.as_target(), limits, lookup, gate.clone())?,
        };
        Ok(IssuerClient {
            client,
            gate,
            user_agent: HeaderValue::from_str(settings.user_agent).ok(),
            clock: settings.clock.clone(),
            endpoint: issuer.endpoint.clone(),
        })
    }

    /// The current time of day.
    pub(super) fn now(&self) -> SystemTime {
        (self.clock)()
    }

    /// Ties the client's connections to a lease.
    pub(super) fn enter(&self, tenure: &Arc<Tenure>) {
        self.gate.enter(tenure);
    }

    /// Sends a request and reads the answer.
    ///
    /// # Errors
    /// Why there is no complete answer, without any part of the answer.
    pub(super) async fn ask(&self, request: Builder, body: Bytes) -> Result<Answer, String> {
        let request = request.body(body);
        let mut request = request.map_err(|_| "the URL cannot be asked".to_owned())?;
        if let Some(user_agent) = &self.user_agent {
            let headers = request.headers_mut();
            headers.insert(USER_AGENT, user_agent.clone());
        }
        match timeout(LONGEST, self.exchange(request)).await {
            Ok(answer) => answer,
            Err(_) => Err(format!("no whole answer in {LONGEST:?}")),
        }
    }

    async fn exchange(&self, request: Request<Bytes>) -> Result<Answer, String> {
        let sent = self.client.request(request.map(Full::new)).await;
        let response = sent.map_err(|error| broken(&error).to_string())?;
        let (head, mut pieces) = response.into_parts();
        if head.status.is_redirection() {
            return Err(format!(
                "answered {}: redirects are not followed",
                head.status.as_u16()
            ));
        }
        let mut body = Zeroizing::new(Vec::with_capacity(4 << 10));
        while let Some(piece) = pieces.frame().await {
            let piece = piece.map_err(|error| broken(&error).to_string())?;
            let piece = piece.into_data().unwrap_or_default();
            if body.len() + piece.len() > MAX_ANSWER {
                return Err(format!("answered more than {MAX_ANSWER} bytes"));
            }
            body.extend_from_slice(&piece);
        }
        Ok(Answer {
            status: head.status,
            headers: head.headers,
            body,
        })
    }
}

impl Answer {
    /// The text of a successful answer.
    ///
    /// # Errors
    /// The answer has another status, with the error code that `code` finds; or it is not UTF-8.
    pub(super) fn success(&self, code: impl Fn(&str) -> Option<String>) -> Result<&str, String> {
        let text = std::str::from_utf8(&self.body);
        if self.status.is_success() {
            return text.map_err(|_| "answered something else than text".to_owned());
        }
        let word = text.ok().and_then(code).filter(|word| is_code(word));
        let word = word.map_or_else(String::new, |word| format!(" {word}"));
        Err(format!("answered {}{word}", self.status.as_u16()))
    }

    /// Reads the JSON of a successful answer.
    ///
    /// # Errors
    /// As for [`Answer::success`], or the JSON has another form; never a part of the answer.
    pub(super) fn json<T: serde::de::DeserializeOwned>(
        &self,
        code: impl Fn(&str) -> Option<String>,
    ) -> Result<T, String> {
        let text = self.success(code)?;
        // The parser's error may quote the answer.
        serde_json::from_str(text).map_err(|_| "answered no JSON of the expected form".to_owned())
    }
}

/// Whether an error code may be shown: the codes of AWS, OAuth and Keystone have this form, while secrets mostly have
/// other characters and lengths. Known secrets are redacted as well.
fn is_code(word: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    !word.is_empty() && word.len() <= MAX_CODE && word.bytes().all(is_letter)
}
