//! Parses an HTTP request: verb, kind, namespace, name, subresource and options. Never reads the store or the body.

use std::collections::BTreeMap;

use http::Method;
use http::request::Parts;
use percent_encoding::percent_decode_str;
use serde_json::json;

use super::field_error::FieldError;
use super::kinds::{self, Kind};
use super::refusal::Refusal;
use super::selector::Selector;
use super::shape::Shape;

/// The parsed head of a request for a resource.
pub(super) struct Ask {
    pub(super) verb: Verb,
    pub(super) kind: &'static Kind,
    pub(super) namespace: String,
    /// The object's name; empty for requests on a collection.
    pub(super) name: String,
    /// Whether the path ends in `/status`.
    pub(super) status: bool,
    pub(super) shape: Shape,
    pub(super) content_type: String,
    pub(super) dry_run: bool,
    pub(super) strict: bool,
    query: BTreeMap<String, String>,
}

/// The verb of a request, as in RBAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// GET of one object.
    Get,
    /// GET of a collection.
    List,
    /// GET of a collection with `watch=true`.
    Watch,
    /// POST to a collection.
    Create,
    /// PUT of one object.
    Update,
    /// PATCH of one object.
    Patch,
    /// DELETE of one object.
    Delete,
    /// DELETE of all selected objects.
    DeleteCollection,
}

impl Verb {
    /// The verb's name in RBAC and audit logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }
}

/// The resource that a path leads to.
pub(super) struct Place {
    pub(super) kind: &'static Kind,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) subresource: String,
}

impl Place {
    /// Parses `/api/v1/…` and `/apis/GROUP/VERSION/…`.
    pub(super) fn find(path: &str) -> Result<Self, Refusal> {
        let mut segments = path.split('/').filter(|segment| !segment.is_empty());
        let (group, version) = match segments.next() {
            Some("api") => ("", segments.next()),
            Some("apis") => (segments.next().unwrap_or_default(), segments.next()),
            _ => return Err(Refusal::no_such_path()),
        };
        let version = version.unwrap_or_default();
        if !kinds::serves(group, version) {
            return Err(Refusal::no_such_path());
        }
        let rest: Vec<String> = segments
            .map(|segment| percent_decode_str(segment).decode_utf8_lossy().into_owned())
            .collect();
        let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
        let (namespace, rest) = match rest.as_slice() {
            ["namespaces", namespace, plural, ..] if !["status", "finalize"].contains(plural) => {
                (*namespace, rest.get(2..).unwrap_or_default())
            }
            all => ("", all),
        };
        let (plural, name, subresource) = match *rest {
            [plural] => (plural, "", ""),
            [plural, name] => (plural, name, ""),
            [plural, name, subresource] => (plural, name, subresource),
            _ => return Err(Refusal::no_such_resource()),
        };
        let kind = kinds::find(group, version, plural).ok_or_else(Refusal::no_such_resource)?;
        let fits = kind.namespaced != namespace.is_empty() || (kind.namespaced && name.is_empty());
        let known = subresource.is_empty() || (subresource == "status" && kind.status);
        if !fits || !known {
            return Err(Refusal::no_such_resource());
        }
        Ok(Self {
            kind,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            subresource: subresource.to_owned(),
        })
    }
}

impl Ask {
    /// Parses the headers and query of a request for a resource.
    pub(super) fn read(place: Place, head: &Parts) -> Result<Self, Refusal> {
        let query = query(head.uri.query().unwrap_or_default());
        let header = |name: http::HeaderName| {
            head.headers
                .get(name)
                .and_then(|value| value.to_str().ok())
                .unwrap_or_default()
        };
        let verb = verb(&head.method, &place, &query)?;
        let content_type = header(http::header::CONTENT_TYPE);
        let content_type = content_type.split(';').next().unwrap_or_default().trim();
        let ask = Self {
            verb,
            kind: place.kind,
            namespace: place.namespace,
            name: place.name,
            status: place.subresource == "status",
            shape: Shape::accepted(header(http::header::ACCEPT))?,
            content_type: content_type.to_owned(),
            dry_run: query.contains_key("dryRun"),
            strict: query
                .get("fieldValidation")
                .is_some_and(|mode| mode == "Strict"),
            query,
        };
        match ask.text("dryRun") {
            "" | "All" => Ok(ask),
            other => Err(ask.bad_dry_run(other)),
        }
    }

    /// A query parameter; empty if absent.
    pub(super) fn text(&self, name: &str) -> &str {
        self.query.get(name).map(String::as_str).unwrap_or_default()
    }

    /// A boolean query parameter; `None` if absent.
    pub(super) fn flag(&self, name: &str) -> Option<bool> {
        self.query.get(name).map(|value| {
            !matches!(
                value.as_str(),
                "false" | "0" | "f" | "F" | "FALSE" | "False"
            )
        })
    }

    /// Maximum number of objects in a list; zero or less: all.
    pub(super) fn limit(&self) -> Result<usize, Refusal> {
        let text = self.text("limit");
        if text.is_empty() {
            return Ok(0);
        }
        let limit: i64 = text.parse().map_err(|_| {
            Refusal::bad_request(format!(
                "strconv.ParseInt: parsing \"{text}\": invalid syntax"
            ))
        })?;
        Ok(usize::try_from(limit).unwrap_or(0))
    }

    /// The requested resourceVersion; zero if absent.
    pub(super) fn revision(&self) -> Result<u64, Refusal> {
        let text = self.text("resourceVersion");
        if text.is_empty() {
            return Ok(0);
        }
        text.parse().map_err(|_| {
            let message = format!(
                "resourceVersion: Invalid value: \"{text}\": strconv.ParseUint: parsing \"{text}\": invalid syntax"
            );
            match self.verb {
                Verb::List => Refusal::bad_request(format!("invalid resource version: {message}")),
                _ => Refusal::failed(message),
            }
        })
    }

    /// The selector of the request.
    pub(super) fn selector(&self) -> Result<Selector, Refusal> {
        Selector::parse(
            self.kind,
            self.text("labelSelector"),
            self.text("fieldSelector"),
        )
    }

    /// The collection's key prefix.
    pub(super) fn prefix(&self) -> String {
        if self.namespace.is_empty() {
            String::new()
        } else {
            format!("{}/", self.namespace)
        }
    }

    /// The key of the object in its collection.
    pub(super) fn key(&self) -> String {
        self.kind.key(&self.namespace, &self.name)
    }

    fn bad_dry_run(&self, stage: &str) -> Refusal {
        let options = match self.verb {
            Verb::Create => "CreateOptions",
            Verb::Update => "UpdateOptions",
            Verb::Patch => "PatchOptions",
            _ => "DeleteOptions",
        };
        let error = FieldError::unsupported("dryRun", &json!([stage]), &["All"]);
        Refusal::invalid("meta.k8s.io", options, "", &[error])
    }
}

fn verb(method: &Method, place: &Place, query: &BTreeMap<String, String>) -> Result<Verb, Refusal> {
    let watch = query
        .get("watch")
        .is_some_and(|value| !matches!(value.as_str(), "false" | "0"));
    let everywhere = place.kind.namespaced && place.namespace.is_empty();
    match (method.as_str(), place.name.is_empty()) {
        ("GET", true) if watch => Ok(Verb::Watch),
        ("GET", true) => Ok(Verb::List),
        ("GET", false) => Ok(Verb::Get),
        ("POST", true) if !everywhere => Ok(Verb::Create),
        ("PUT", false) => Ok(Verb::Update),
        ("PATCH", false) => Ok(Verb::Patch),
        ("DELETE", false) if place.subresource.is_empty() => Ok(Verb::Delete),
        ("DELETE", true) if !everywhere => Ok(Verb::DeleteCollection),
        _ => Err(Refusal::method_not_allowed()),
    }
}

fn query(text: &str) -> BTreeMap<String, String> {
    url::form_urlencoded::parse(text.as_bytes())
        .into_owned()
        .collect()
}
