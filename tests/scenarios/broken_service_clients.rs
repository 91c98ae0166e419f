//! The effect of defects on requests about Services on their way to the API server.

use ccm_core::well_known::LOAD_BALANCER_FINALIZER;
use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tower::BoxError;

use crate::broken_clients::{Tamper, current, merge};
use crate::disturbed_client::{Answer, plain, whole};

/// Another client's finalizer, and its Service, in the tests of the runner.
pub(crate) const THEIR_FINALIZER: &str = "other.example/hold";
const THEIR_SERVICE: &str = "/api/v1/namespaces/default/services/theirs";

/// Sends `request` with the defect.
pub(crate) async fn deliver(
    tamper: Tamper,
    inner: Client,
    request: Request<Body>,
) -> Result<Answer, BoxError> {
    let path = request.uri().path().to_owned();
    let is_event = path.ends_with("/events") && request.method() == Method::POST;
    let is_patch = path.contains("/services/") && request.method() == Method::PATCH;
    if !is_event && !is_patch {
        return plain(inner, request).await;
    }
    let (head, body) = request.into_parts();
    let mut body: Value = serde_json::from_slice(&body.collect_bytes().await?)?;
    let has_status = body["status"].get("loadBalancer").is_some();
    match tamper {
        Tamper::ForgetsFinalizer if is_patch && body["metadata"].get("finalizers").is_some() => {
            let mut now = current(&inner, path.trim_end_matches("/status")).await?;
            let strategic: Vec<String> = match body["metadata"].as_object() {
                Some(fields) => fields
                    .keys()
                    .filter(|key| key.starts_with('$'))
                    .cloned()
                    .collect(),
                None => Vec::new(),
            };
            for key in strategic {
                drop(
                    body["metadata"]
                        .as_object_mut()
                        .map(|fields| fields.remove(&key)),
                );
            }
            merge(&mut now, &body);
            return Ok(Response::new(whole(now.to_string())));
        }
        Tamper::LeavesEarly if is_event && body["reason"] == "DeletingLoadBalancer" => {
            let name = body["regarding"]["name"].as_str();
            let name = name
                .or(body["involvedObject"]["name"].as_str())
                .unwrap_or_default();
            let path = format!("/api/v1/namespaces/default/services/{name}");
            without_finalizer(&inner, &path).await?;
        }
        Tamper::TouchesOthers if is_event => without_finalizer(&inner, THEIR_SERVICE).await?,
        Tamper::WritesSpec if is_patch => body["spec"] = json!({ "sessionAffinity": "ClientIP" }),
        Tamper::StealsAddresses if is_patch && has_status => {
            body["status"]["loadBalancer"] = json!({ "ingress": [{ "ip": "10.0.0.10" }] });
        }
        Tamper::ForgetsConditions if is_patch => body["status"]["conditions"] = Value::Null,
        Tamper::ForgetsFinalizers if is_patch => {
            let metadata = body["metadata"].as_object_mut().ok_or("no metadata")?;
            metadata.retain(|key, _| !key.contains("finalizers"));
            let list = "$deleteFromPrimitiveList/finalizers".to_owned();
            metadata.insert(list, json!([THEIR_FINALIZER]));
        }
        _ => {}
    }
    let body = Body::from(serde_json::to_vec(&body)?);
    plain(inner, Request::from_parts(head, body)).await
}

async fn without_finalizer(inner: &Client, path: &str) -> Result<(), BoxError> {
    let now = current(inner, path).await?;
    let patch = json!({ "metadata": {
        "uid": now["metadata"]["uid"],
        "$deleteFromPrimitiveList/finalizers": [LOAD_BALANCER_FINALIZER],
    } });
    let request = Request::patch(format!("{path}/status"))
        .header("content-type", "application/strategic-merge-patch+json")
        .body(Body::from(serde_json::to_vec(&patch)?))?;
    plain(inner.clone(), request).await?;
    Ok(())
}
