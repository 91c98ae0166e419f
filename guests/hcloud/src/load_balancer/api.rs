//! Load balancers and certificates in the API of Hetzner Cloud: the requests, and the answers as far as they are
//! needed. It decides nothing about Services.
//!
//! Every answer that is a list is checked to be complete and to hold only what was asked for: an owner's label is what
//! keeps the load balancers of others from being touched.

use ccm_guest::Error;
use ccm_guest::http::{Request, Response};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::names::SERVICE_UID;
use crate::api::{NoError, refusal};

pub use crate::api::actions::Action;
pub use crate::api::refusal::Refusal;
pub use answers::{
    Certificate, HealthCheck, HealthCheckHttp, Http, LoadBalancer, PrivateNet, Service, Target,
};

mod answers;

#[cfg(test)]
mod tests;

/// The manifest's target.
const API: &str = "api";

/// The most that the vendor puts on one page. Nothing that is asked for here is ever that long.
const PER_PAGE: usize = 50;

/// Every load balancer whose label says that it belongs to the Service with this UID.
///
/// # Errors
/// [`Error::Invalid`] for what cannot be a UID; why they are not known.
pub fn by_owner(uid: &str) -> Result<Vec<LoadBalancer>, Error> {
    let list = list_by_owner("/load_balancers", uid)?;
    let answer: LoadBalancersAnswer = refusal::ok(list.send()?)?.json()?;
    let ours = |one: &LoadBalancer| one.owner() == Some(uid);
    complete(&answer.meta, answer.load_balancers.iter().all(ours))?;
    Ok(answer.load_balancers)
}

/// The load balancer with this name.
///
/// # Errors
/// Why it is not known.
pub fn by_name(name: &str) -> Result<Option<LoadBalancer>, Error> {
    let list = Request::get(API, "/load_balancers").query("name", name);
    let answer: LoadBalancersAnswer = refusal::ok(list.send()?)?.json()?;
    let named = |one: &LoadBalancer| one.name == name;
    complete(&answer.meta, answer.load_balancers.iter().all(named))?;
    Ok(answer.load_balancers.into_iter().next())
}

/// Orders a load balancer. `Ok` holds it as it is at that moment, and the action that sets it up.
///
/// # Errors
/// Why there is none; without an answer, it is not known whether there is one.
pub fn create(body: &Value) -> Result<(LoadBalancer, Action), Refusal> {
    let answer: CreateAnswer = write(Request::post(API, "/load_balancers"), body)?;
    Ok((answer.load_balancer, answer.action))
}

/// Changes name or labels. There is no action: it is done.
///
/// # Errors
/// Why it is not.
pub fn update(id: u64, body: &Value) -> Result<(), Refusal> {
    let path = format!("/load_balancers/{id}");
    let _: LoadBalancerAnswer = write(Request::put(API, path), body)?;
    Ok(())
}

/// Begins one of the other changes. `action` is its name in the API's path.
///
/// # Errors
/// Why it is not begun.
pub fn begin(id: u64, action: &str, body: &Value) -> Result<Action, Refusal> {
    let path = format!("/load_balancers/{id}/actions/{action}");
    let answer: ActionAnswer = write(Request::post(API, path), body)?;
    Ok(answer.action)
}

/// Deletes the load balancer. One that is not there: done. Since October 2026 the answer names an action; whether it has ended
/// is of no interest, because somebody looks afterwards.
///
/// # Errors
/// Why it is there still.
pub fn delete(id: u64) -> Result<(), Refusal> {
    gone(Request::delete(API, format!("/load_balancers/{id}")))
}

/// The certificate with this name.
///
/// # Errors
/// Why it is not known.
pub fn certificate(name: &str) -> Result<Option<Certificate>, Error> {
    let list = Request::get(API, "/certificates").query("name", name);
    let answer: CertificatesAnswer = refusal::ok(list.send()?)?.json()?;
    let named = |one: &Certificate| one.name == name;
    complete(&answer.meta, answer.certificates.iter().all(named))?;
    Ok(answer.certificates.into_iter().next())
}

/// The certificates whose label says that they belong to the Service with this UID.
///
/// # Errors
/// Why they are not known.
pub fn certificates_of(uid: &str) -> Result<Vec<Certificate>, Error> {
    let list = list_by_owner("/certificates", uid)?;
    let answer: CertificatesAnswer = refusal::ok(list.send()?)?.json()?;
    let ours = |one: &Certificate| one.labels.get(SERVICE_UID).map(String::as_str) == Some(uid);
    complete(&answer.meta, answer.certificates.iter().all(ours))?;
    Ok(answer.certificates)
}

/// Orders a certificate.
///
/// # Errors
/// Why there is none; without an answer, it is not known whether there is one.
pub fn create_certificate(body: &Value) -> Result<(Certificate, Option<Action>), Refusal> {
    let answer: CreateCertificateAnswer = write(Request::post(API, "/certificates"), body)?;
    Ok((answer.certificate, answer.action))
}

/// Deletes the certificate. One that is not there: done.
///
/// # Errors
/// Why it is there still.
pub fn delete_certificate(id: u64) -> Result<(), Refusal> {
    gone(Request::delete(API, format!("/certificates/{id}")))
}

/// A list of what belongs to a Service. The UID stands in a selector, where a comma or an exclamation mark would mean
/// something.
fn list_by_owner(path: &str, uid: &str) -> Result<Request, Error> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if uid.is_empty() || uid.len() > 63 || !uid.bytes().all(plain) {
        return Err(Error::invalid(format!(
            "the UID {uid:?} cannot be written into a label"
        )));
    }
    Ok(Request::get(API, path)
        .query("label_selector", format!("{SERVICE_UID}={uid}"))
        .query("per_page", PER_PAGE))
}

/// Whether a list is whole, and `matches` what was asked for.
fn complete(meta: &Option<Meta>, matches: bool) -> Result<(), Error> {
    let whole = meta
        .as_ref()
        .and_then(|meta| meta.pagination.as_ref())
        .is_some_and(|pagination| pagination.next_page.is_none());
    match (whole, matches) {
        (true, true) => Ok(()),
        (false, _) => Err(Error::unavailable("a list came that is not complete")),
        (true, false) => Err(Error::unavailable(
            "a list came that holds other things than were asked for",
        )),
    }
}

fn write<T: DeserializeOwned>(request: Request, body: &Value) -> Result<T, Refusal> {
    let response = refusal::accepted(request.json(body)?.send()?)?;
    Ok(response.json()?)
}

fn gone(request: Request) -> Result<(), Refusal> {
    let response: Response = request.send()?;
    match refusal::accepted(response) {
        Err(refusal) if refusal.is("not_found") => Ok(()),
        answer => answer.map(|_| ()),
    }
}

#[derive(Deserialize)]
struct Meta {
    pagination: Option<Pagination>,
}

#[derive(Deserialize)]
struct Pagination {
    next_page: Option<usize>,
}

#[derive(Deserialize)]
struct LoadBalancersAnswer {
    #[serde(default, rename = "error")]
    _error: NoError,
    load_balancers: Vec<LoadBalancer>,
    meta: Option<Meta>,
}

#[derive(Deserialize)]
struct LoadBalancerAnswer {
    #[serde(rename = "load_balancer")]
    _written: LoadBalancer,
}

#[derive(Deserialize)]
struct CreateAnswer {
    load_balancer: LoadBalancer,
    action: Action,
}

#[derive(Deserialize)]
struct ActionAnswer {
    action: Action,
}

#[derive(Deserialize)]
struct CertificatesAnswer {
    #[serde(default, rename = "error")]
    _error: NoError,
    certificates: Vec<Certificate>,
    meta: Option<Meta>,
}

#[derive(Deserialize)]
struct CreateCertificateAnswer {
    certificate: Certificate,
    action: Option<Action>,
}
