//! Clients with a deliberate defect. Only the tests of the runner use them, to show that its laws and its comparison of
//! end states can fail.

use std::sync::{Arc, Mutex};

use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tower::BoxError;

use crate::broken_service_clients;
use crate::disturbed_client::{Answer, plain, whole};

/// A defect of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tamper {
    /// Patches do not name the UID of the object.
    DropsUid,
    /// Patches of taints do not name the resource version that they were made from.
    DropsVersion,
    /// The addresses are sent after the taint's removal.
    TaintFirst,
    /// The addresses are never sent.
    NoAddresses,
    /// A write that failed is reported as done.
    SwallowsFailures,
    /// The taints of other clients are left out of the list.
    ForgetsTaints,
    /// An additional annotation is written that the controllers do not own.
    Overreaches,
    /// Whole objects are written, from an old copy.
    PutsWhole,
    /// An additional node is deleted.
    Deletes,
    /// Deletions do not name the UID of the object.
    DeletesWithoutUid,
    /// Deletions do not name the resource version that they were decided on.
    DeletesWithoutVersion,
    /// A node is deleted after the Event that its deletion is held.
    DeletesWhatIsHeld,
    /// The use of the brakes' budgets is not recorded.
    ForgetsSpending,
    /// Every look-up may use cached answers.
    KeepsAnswers,
    /// After the first watch that went wrong, no watch delivers events.
    Deaf,
    /// The finalizer of a Service is never written, and is reported as written.
    ForgetsFinalizer,
    /// A Service's finalizer is removed as soon as its deletion has begun.
    LeavesEarly,
    /// The spec is written along with the status of a Service.
    WritesSpec,
    /// Every Service gets an address of the cluster itself.
    StealsAddresses,
    /// The finalizer is also removed from another controller's Service.
    TouchesOthers,
    /// The conditions of other clients are removed from a Service.
    ForgetsConditions,
    /// The finalizers of other clients are removed from a Service.
    ForgetsFinalizers,
    /// A load balancer is created without a look-up.
    MakesTwice,
    /// A load balancer with another owner is taken over.
    TakesOver,
    /// A load balancer is deleted by its name, whoever owns it.
    DeletesByName,
    /// The cloud is changed without asking the permit.
    ChangesUnasked,
    /// Any answer counts as proof of absence.
    BelievesIncomplete,
    /// Every route to a machine that is no node counts as leading nowhere.
    CallsOthersBlackholes,
    /// Every route that leads nowhere counts as within the pods' network.
    MisreadsDestinations,
    /// The `Retry-After` of throttled calls is ignored.
    Impatient,
}

/// A write that is held back.
pub(crate) type Held = Arc<Mutex<Option<Request<Vec<u8>>>>>;

impl Tamper {
    /// Sends `request` with the defect.
    pub(crate) async fn deliver(
        self,
        held: Held,
        inner: Client,
        request: Request<Body>,
    ) -> Result<Answer, BoxError> {
        let is_about_a_node = request.uri().path().contains("/nodes/");
        if self.is_about_services() {
            return broken_service_clients::deliver(self, inner, request).await;
        }
        match self {
            Tamper::DeletesWithoutUid if request.method() == Method::DELETE => {
                return without_precondition(inner, request, "uid").await;
            }
            Tamper::DeletesWithoutVersion if request.method() == Method::DELETE => {
                return without_precondition(inner, request, "resourceVersion").await;
            }
            Tamper::DeletesWhatIsHeld if request.uri().path().ends_with("/events") => {
                return delete_what_is_held(inner, request).await;
            }
            Tamper::ForgetsSpending
                if request.method() != Method::GET && request.uri().path().contains("/leases") =>
            {
                let body = request.into_body().collect_bytes().await?;
                return Ok(Response::new(whole(body)));
            }
            _ => {}
        }
        let is_about_a_service = request.uri().path().contains("/services/");
        if request.method() != Method::PATCH || !is_about_a_node && !is_about_a_service {
            return plain(inner, request).await;
        }
        let (mut head, body) = request.into_parts();
        let body = body.collect_bytes().await?;
        let mut patch: Value = serde_json::from_slice(&body)?;
        let is_status = head.uri.path().ends_with("/status");
        let node_path = head.uri.path().trim_end_matches("/status").to_owned();
        let has_taints = patch["spec"].get("taints").is_some();
        let now = current(&inner, &node_path).await?;
        let metadata = patch["metadata"].as_object_mut().ok_or("no metadata")?;
        match self {
            Tamper::DropsUid => drop(metadata.remove("uid")),
            Tamper::DropsVersion => drop(metadata.remove("resourceVersion")),
            Tamper::ForgetsTaints if has_taints => {
                metadata.remove("resourceVersion");
                patch["spec"]["taints"] = json!([]);
            }
            Tamper::Overreaches => {
                metadata.insert("annotations".to_owned(), json!({ "not.ours/at-all": "x" }));
            }
            Tamper::TaintFirst | Tamper::NoAddresses if is_status => {
                let request = Request::from_parts(head, body.to_vec());
                *held.lock().unwrap() = (self == Tamper::TaintFirst).then_some(request);
                return Ok(Response::new(whole(now.to_string())));
            }
            Tamper::PutsWhole if has_taints => {
                let mut object = now.clone();
                merge(&mut object, &patch);
                object["metadata"]["resourceVersion"] = now["metadata"]["resourceVersion"].clone();
                head.method = Method::PUT;
                let json = "application/json".parse()?;
                head.headers.insert(http::header::CONTENT_TYPE, json);
                patch = object;
            }
            Tamper::Deletes if has_taints => {
                let request = Request::delete(node_path.as_str()).body(Body::empty())?;
                return plain(inner, request).await;
            }
            _ => {}
        }
        let request = Request::from_parts(head, Body::from(serde_json::to_vec(&patch)?));
        let answer = plain(inner.clone(), request).await;
        let late = held.lock().unwrap().take();
        if let Some(late) = late {
            drop(plain(inner.clone(), late.map(Body::from)).await);
        }
        answer
    }

    /// Applies the defect to a failed request.
    pub(crate) async fn receive(
        self,
        inner: Client,
        path: String,
        answer: Result<Answer, BoxError>,
    ) -> Result<Answer, BoxError> {
        let has_failed = answer
            .as_ref()
            .map_or(true, |one| !one.status().is_success());
        if self != Tamper::SwallowsFailures || !has_failed || !path.contains("/nodes/") {
            return answer;
        }
        let now = current(&inner, path.trim_end_matches("/status")).await?;
        Ok(Response::new(whole(now.to_string())))
    }
}

impl Tamper {
    /// Whether the defect is in requests about Services.
    fn is_about_services(self) -> bool {
        [
            Tamper::ForgetsFinalizer,
            Tamper::LeavesEarly,
            Tamper::WritesSpec,
            Tamper::StealsAddresses,
            Tamper::TouchesOthers,
            Tamper::ForgetsConditions,
            Tamper::ForgetsFinalizers,
        ]
        .contains(&self)
    }
}

async fn without_precondition(
    inner: Client,
    request: Request<Body>,
    field: &str,
) -> Result<Answer, BoxError> {
    let (head, body) = request.into_parts();
    let mut options: Value = serde_json::from_slice(&body.collect_bytes().await?)?;
    if let Some(preconditions) = options["preconditions"].as_object_mut() {
        preconditions.remove(field);
    }
    let body = Body::from(serde_json::to_vec(&options)?);
    plain(inner, Request::from_parts(head, body)).await
}

/// Sends an Event about a held deletion, and the deletion.
async fn delete_what_is_held(inner: Client, request: Request<Body>) -> Result<Answer, BoxError> {
    let (head, body) = request.into_parts();
    let body = body.collect_bytes().await?;
    let event: Value = serde_json::from_slice(&body)?;
    if event["reason"] == "NodeDeletionHeld" {
        let name = event["regarding"]["name"].as_str();
        let name = name.or(event["involvedObject"]["name"].as_str());
        let path = format!("/api/v1/nodes/{}", name.ok_or("an Event about nobody")?);
        let now = current(&inner, &path).await?;
        let metadata = &now["metadata"];
        let options = json!({ "preconditions": {
            "uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"],
        } });
        let deletion = Request::delete(path).header("content-type", "application/json");
        let deletion = deletion.body(Body::from(serde_json::to_vec(&options)?))?;
        drop(plain(inner.clone(), deletion).await?);
    }
    plain(inner, Request::from_parts(head, Body::from(body.to_vec()))).await
}

pub(crate) async fn current(inner: &Client, path: &str) -> Result<Value, BoxError> {
    let request = Request::get(path).body(Body::empty())?;
    let body = inner
        .send(request)
        .await?
        .into_body()
        .collect_bytes()
        .await?;
    Ok(serde_json::from_slice(&body)?)
}

/// JSON merge, as far as it is needed here.
pub(crate) fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}
