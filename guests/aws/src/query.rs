//! AWS' Query protocol: a request is a form with an `Action`, an answer is XML, all under one path. The only file that
//! sends requests.
//!
//! Answers are untrusted. Only what the types of [`ec2`](crate::ec2) and [`elb`](crate::load_balancer::elb) name is read,
//! by paths ([`ccm_guest::xml`]).

use ccm_guest::Error;
use ccm_guest::http::{self, Next, Request, Response, send_all};
use ccm_guest::xml::Document;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

#[cfg(test)]
mod tests;

/// Version of the EC2 API, which fixes the shape of its answers.
const EC2: &str = "2016-11-15";
/// Version of the API for network load balancers.
const ELB: &str = "2015-12-01";

/// A request that has not been sent.
#[derive(Debug, Clone)]
pub struct Query {
    action: String,
    /// The form field for the token of the next page, and the token's element in an answer.
    token: [&'static str; 2],
    request: Request,
}

/// A failed request: refused by AWS, not answered, or answered in another form.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// AWS' error code; empty when there is none.
    pub code: String,
    /// The corresponding error of the contract.
    pub error: Error,
}

impl Refusal {
    /// Whether AWS answered with this error code.
    pub fn is(&self, code: &str) -> bool {
        self.code == code
    }

    /// Whether AWS' error code says that the object of the request does not exist.
    pub fn is_absence(&self) -> bool {
        self.code.ends_with("NotFound") || self.code.ends_with("NotFoundException")
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        Refusal {
            code: String::new(),
            error,
        }
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Error {
        refusal.error
    }
}

/// Result of one request.
pub type Answer<T> = Result<T, Refusal>;

impl Query {
    /// A request to EC2.
    pub fn ec2(action: &str) -> Query {
        Query::new("ec2", action, EC2, ["NextToken", "nextToken"])
    }

    /// A request about network load balancers.
    pub fn elb(action: &str) -> Query {
        Query::elb_of(ELB, action)
    }

    /// A request to another version of the API for load balancers, behind the same endpoint.
    pub fn elb_of(version: &str, action: &str) -> Query {
        Query::new("elb", action, version, ["Marker", "NextMarker"])
    }

    fn new(target: &str, action: &str, version: &str, token: [&'static str; 2]) -> Query {
        let request = Request::post(target, "/").form("Action", action);
        Query {
            action: action.to_owned(),
            token,
            request: request.form("Version", version),
        }
    }

    /// Adds a field to the form: of an object its fields as `KEY.NAME`, of a list its elements as `KEY.1`, `KEY.2` and so
    /// on, and nothing of `null`.
    #[must_use]
    pub fn set(self, key: &str, value: impl Serialize) -> Query {
        let value = serde_json::to_value(value).unwrap_or_default();
        let request = with(self.request, key, &value);
        Query { request, ..self }
    }

    /// Marks the request as supplementary: its answer proves no machine's absence.
    #[must_use]
    pub fn supplementary(self) -> Query {
        let request = self.request.supplementary();
        Query { request, ..self }
    }

    /// Sends the request and reads what is at a path of the answer.
    ///
    /// # Errors
    /// A refusal by AWS, no answer, or an answer of another shape.
    pub fn read<T: DeserializeOwned>(self, path: &str) -> Answer<T> {
        Reply::of(&self.action, &self.request.send()?)?.read(path)
    }

    /// Sends the request and ignores the answer's content.
    ///
    /// # Errors
    /// A refusal by AWS, or no answer.
    pub fn act(self) -> Answer<()> {
        Reply::of(&self.action, &self.request.send()?).map(drop)
    }

    /// Sends a deletion; a missing object counts as deleted.
    ///
    /// # Errors
    /// A refusal by AWS, or no answer.
    pub fn delete(self) -> Answer<()> {
        match self.act() {
            Err(refusal) if refusal.is_absence() => Ok(()),
            answer => answer,
        }
    }

    /// Sends the request and reads the first element of a list in the answer.
    ///
    /// # Errors
    /// As [`Query::read`]; also when the list is empty.
    pub fn one<T: DeserializeOwned>(self, list: &str) -> Answer<T> {
        let action = self.action.clone();
        let first = self.read::<Vec<T>>(list)?.into_iter().next();
        first.ok_or_else(|| Error::unavailable(format!("{action}: the answer names none")).into())
    }

    /// Reads a list to its end.
    ///
    /// # Errors
    /// As [`Query::read`]; also when the pages do not end.
    pub fn pages<T: DeserializeOwned>(self, list: &str) -> Result<Vec<T>, Error> {
        let Query { action, token, .. } = self;
        let [field, element] = token;
        http::follow_with(self.request, Ok, |response| {
            let reply = Reply::of(&action, &response)?;
            let next: Option<String> = reply.find(element)?;
            Ok((reply.read(list)?, Next::form(field, next)))
        })
    }
}

/// See [`Query::set`].
fn with(request: Request, key: &str, value: &Value) -> Request {
    match value {
        Value::Null => request,
        Value::Object(fields) => fields.iter().fold(request, |request, (name, value)| {
            with(request, &format!("{key}.{name}"), value)
        }),
        Value::Array(values) => (1..).zip(values).fold(request, |request, (number, value)| {
            with(request, &format!("{key}.{number}"), value)
        }),
        Value::String(text) => request.form(key, text),
        other => request.form(key, other),
    }
}

/// A filter of an EC2 request. In the values, `*` and `?` are wildcards: none may come from outside unchecked.
pub fn filter(name: &str, values: impl Serialize) -> Value {
    json!({ "Name": name, "Value": values })
}

/// Tags or attributes of a request.
pub fn pairs<K: Serialize, V: Serialize>(pairs: &[(K, V)]) -> Vec<Value> {
    let pair = |(key, value): &(K, V)| json!({ "Key": key, "Value": value });
    pairs.iter().map(pair).collect()
}

/// Sends requests side by side, and reads what is at a path of the answers, in their order.
///
/// # Errors
/// As [`Query::read`], of the first request that failed.
pub fn together<T: DeserializeOwned>(queries: Vec<Query>, path: &str) -> Answer<Vec<T>> {
    let queries = queries.into_iter().map(|one| (one.action, one.request));
    let (actions, requests): (Vec<_>, Vec<_>) = queries.unzip();
    let answers = actions.iter().zip(send_all(requests));
    answers
        .map(|(action, answer)| Reply::of(action, &answer?)?.read(path))
        .collect()
}

/// An answer of AWS to an action.
struct Reply<'a> {
    action: &'a str,
    document: Document<'a>,
}

impl<'a> Reply<'a> {
    /// Checks that an answer is of this action. Any other content with status 200, such as a page of a proxy or an error,
    /// would read as an empty list.
    fn of(action: &'a str, response: &'a Response) -> Answer<Reply<'a>> {
        if let Some(error) = response.error() {
            return Err(refusal(action, response, error));
        }
        let why = match Document::parse(response.text()?) {
            Ok(document) if document.name().strip_prefix(action) == Some("Response") => {
                return Ok(Reply { action, document });
            }
            Ok(document) => format!("it is a {}", document.name()),
            Err(why) => why,
        };
        Err(unreadable(action, &why).into())
    }

    /// What is at a path of the action's result. With the load-balancer APIs the result lies one level deeper than with
    /// EC2, in an element of the action's name.
    fn find<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>, Error> {
        let nested = self.document.read(&format!("{}Result.{path}", self.action));
        let found = match nested {
            Ok(None) => self.document.read(path),
            nested => nested,
        };
        found.map_err(|why| unreadable(self.action, &why))
    }

    fn read<T: DeserializeOwned>(&self, path: &str) -> Answer<T> {
        let lacking = || unreadable(self.action, &format!("it has no {path}"));
        Ok(self.find(path)?.ok_or_else(lacking)?)
    }
}

fn unreadable(action: &str, why: &str) -> Error {
    Error::unavailable(format!("{action}: the answer cannot be read: {why}"))
}

/// A refusal in EC2's shape (`Errors`) or in that of the load-balancer APIs (`Error`).
fn refusal(action: &str, response: &Response, error: Error) -> Refusal {
    let text = response.text().ok();
    let document = text.and_then(|text| Document::parse(text).ok());
    let field = |name: &str| {
        let read = |path: String| document.as_ref()?.read::<String>(&path).ok()?;
        read(format!("Error.{name}")).or_else(|| read(format!("Errors.Error.{name}")))
    };
    let Some(code) = field("Code") else {
        return error.into();
    };
    let message = field("Message").unwrap_or_default();
    let message = format!("{action}: {code}: {message}");
    let message: String = message.chars().take(500).collect();
    let error = meaning(&code, response.status(), message);
    Refusal { code, error }
}

/// The contract's error for an error code. AWS uses the status 400 for nearly everything, so the code decides.
fn meaning(code: &str, status: u16, message: String) -> Error {
    let begins = |prefix: &str| code.starts_with(prefix);
    match code {
        "RequestLimitExceeded" | "PriorRequestNotComplete" => Error::throttled(message, None),
        _ if code.contains("Throttl") || begins("TooManyRequests") => {
            Error::throttled(message, None)
        }
        "AuthFailure"
        | "Blocked"
        | "ExpiredToken"
        | "IncompleteSignature"
        | "InvalidClientTokenId"
        | "MissingAuthenticationToken"
        | "OptInRequired"
        | "RequestExpired"
        | "SignatureDoesNotMatch"
        | "UnauthorizedOperation"
        | "UnrecognizedClientException" => Error::denied(message),
        _ if begins("AccessDenied") => Error::denied(message),
        _ if status >= 500 || begins("RequestTimeout") => Error::unavailable(message),
        // Objects that only annotations name, and the fixed limit of tags, which an annotation exceeds.
        "CertificateNotFound" | "AllocationIdNotFound" | "TooManyTags" | "TagLimitExceeded" => {
            Error::invalid(message)
        }
        "DependencyViolation" | "ResourceInUse" | "IncorrectState" | "IncorrectInstanceState" => {
            Error::unavailable(message)
        }
        // The object existed a moment ago, or exists by now: the next call reads again.
        _ if code.ends_with("NotFound") => Error::unavailable(message),
        _ if begins("Duplicate") || code.ends_with(".Duplicate") => Error::unavailable(message),
        // A quota may be raised, or other objects deleted.
        _ if begins("TooMany") || code.ends_with("LimitExceeded") => Error::unavailable(message),
        _ => Error::invalid(message),
    }
}
