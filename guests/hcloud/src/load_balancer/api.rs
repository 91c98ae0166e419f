//! API calls for load balancers and certificates. Responses are parsed only as far as needed. This file decides nothing
//! about Services.
//!
//! Every list response is checked to be complete and to contain only matching objects: the owner label protects the
//! load balancers of others.

use ccm_guest::Error;
use ccm_guest::http::Request;
use ccm_guest::owner::label_value;
use serde::Deserialize;
use serde_json::Value;

use super::names::SERVICE_UID;
use crate::api::{API, Meta, NoError, PER_PAGE, actions, read, refusal, write};

pub use crate::api::actions::Action;
pub use crate::api::refusal::Refusal;
pub use answers::{Certificate, LoadBalancer, PrivateNet, Service, Target};

mod answers;

#[cfg(test)]
mod tests;

/// All load balancers whose label names the Service with this UID as owner.
///
/// # Errors
/// [`Error::Invalid`] if `uid` cannot be a UID; otherwise the reason why they are not known.
pub fn by_owner(uid: &str) -> Result<Vec<LoadBalancer>, Error> {
    let answer: LoadBalancersAnswer = read(list_by_owner("/load_balancers", uid)?)?;
    let ours = |one: &LoadBalancer| one.owner() == Some(uid);
    complete(&answer.meta, answer.load_balancers.iter().all(ours))?;
    Ok(answer.load_balancers)
}

/// The load balancer with this name.
///
/// # Errors
/// The reason why it is not known.
pub fn by_name(name: &str) -> Result<Option<LoadBalancer>, Error> {
    let list = Request::get(API, "/load_balancers").query("name", name);
    let answer: LoadBalancersAnswer = read(list)?;
    let named = |one: &LoadBalancer| one.name == name;
    complete(&answer.meta, answer.load_balancers.iter().all(named))?;
    Ok(answer.load_balancers.into_iter().next())
}

/// Creates a load balancer. Returns its initial state and the action that sets it up.
///
/// # Errors
/// The reason why it was not created; without a response, it is unknown whether it was.
pub fn create(body: &Value) -> Result<(LoadBalancer, Action), Refusal> {
    let answer: CreateAnswer = write(Request::post(API, "/load_balancers"), body)?;
    Ok((answer.load_balancer, answer.action))
}

/// Changes name or labels. Takes effect immediately, without an action.
///
/// # Errors
/// The reason why it failed.
pub fn update(id: u64, body: &Value) -> Result<(), Refusal> {
    let path = format!("/load_balancers/{id}");
    let _: LoadBalancerAnswer = write(Request::put(API, path), body)?;
    Ok(())
}

/// Starts any other change. `action` is its name in the API path.
///
/// # Errors
/// The reason why it was not started.
pub fn begin(id: u64, action: &str, body: &Value) -> Result<Action, Refusal> {
    actions::begin(format!("/load_balancers/{id}/actions/{action}"), body)
}

/// Deletes the load balancer. Done if it does not exist. Since October 2026 the response names an action; its end does
/// not matter, because the load balancer is read again afterwards.
///
/// # Errors
/// The reason why it still exists.
pub fn delete(id: u64) -> Result<(), Refusal> {
    gone(Request::delete(API, format!("/load_balancers/{id}")))
}

/// The certificate with this name.
///
/// # Errors
/// The reason why it is not known.
pub fn certificate(name: &str) -> Result<Option<Certificate>, Error> {
    let list = Request::get(API, "/certificates").query("name", name);
    let answer: CertificatesAnswer = read(list)?;
    let named = |one: &Certificate| one.name == name;
    complete(&answer.meta, answer.certificates.iter().all(named))?;
    Ok(answer.certificates.into_iter().next())
}

/// The certificates whose label names the Service with this UID as owner.
///
/// # Errors
/// The reason why they are not known.
pub fn certificates_of(uid: &str) -> Result<Vec<Certificate>, Error> {
    let answer: CertificatesAnswer = read(list_by_owner("/certificates", uid)?)?;
    let ours = |one: &Certificate| one.labels.get(SERVICE_UID).map(String::as_str) == Some(uid);
    complete(&answer.meta, answer.certificates.iter().all(ours))?;
    Ok(answer.certificates)
}

/// Creates a certificate.
///
/// # Errors
/// The reason why it was not created; without a response, it is unknown whether it was.
pub fn create_certificate(body: &Value) -> Result<(Certificate, Option<Action>), Refusal> {
    let answer: CreateCertificateAnswer = write(Request::post(API, "/certificates"), body)?;
    Ok((answer.certificate, answer.action))
}

/// Deletes the certificate. Done if it does not exist.
///
/// # Errors
/// The reason why it still exists.
pub fn delete_certificate(id: u64) -> Result<(), Refusal> {
    gone(Request::delete(API, format!("/certificates/{id}")))
}

/// Lists a Service's objects by label selector. They never need more than one page.
fn list_by_owner(path: &str, uid: &str) -> Result<Request, Error> {
    let uid = label_value(uid)?;
    Ok(Request::get(API, path)
        .query("label_selector", format!("{SERVICE_UID}={uid}"))
        .query("per_page", PER_PAGE))
}

/// Checks that a list is complete, and by `matches` that it contains only requested objects.
fn complete(meta: &Option<Meta>, matches: bool) -> Result<(), Error> {
    match (meta.as_ref().is_some_and(Meta::is_whole), matches) {
        (true, true) => Ok(()),
        (false, _) => Err(Error::unavailable("a list came that is not complete")),
        (true, false) => Err(Error::unavailable(
            "a list came that holds other things than were asked for",
        )),
    }
}

fn gone(request: Request) -> Result<(), Refusal> {
    match refusal::accepted(request.send()?) {
        Err(refusal) if refusal.is("not_found") => Ok(()),
        answer => answer.map(|_| ()),
    }
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
