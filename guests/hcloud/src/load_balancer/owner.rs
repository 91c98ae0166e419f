//! Finds a Service's load balancer: only the owner label decides.
//!
//! A load balancer with only the right name belongs to another owner, unless the host allows its adoption: naming
//! another owner's load balancer in an annotation has no effect. One without an owner that serves other machines is
//! never adopted: its clients depend on it, such as those of an API server.

use ccm_guest::load_balancer::{Adoption, Service};
use ccm_guest::owner::{self, Claim};
use ccm_guest::{Error, Owner, log};
use serde_json::json;

use super::api::{self, LoadBalancer};
use super::changes;
use super::names::SERVICE_UID;
use super::wanted::Wanted;

/// The Service's load balancer, if it exists.
///
/// # Errors
/// [`Error::Invalid`] when there are two.
pub fn of_service(uid: &str) -> Result<Option<LoadBalancer>, Error> {
    let mark = format!("{SERVICE_UID}={uid}");
    owner::only_one(api::by_owner(uid)?, &mark, |one| one.id.to_string())
}

/// The result of a look-up by name.
#[derive(Debug)]
pub enum Named {
    /// No load balancer has the name.
    NotFound,
    /// A load balancer owned by this Service.
    Ours(Box<LoadBalancer>),
    /// A load balancer that was just adopted. It has to be read again before anything else is changed: another Service
    /// that wants it, too, may have set its own label at the same time.
    Adopted,
    /// The cloud is too busy to set the owner label.
    Busy,
}

/// Looks up the name, and adopts the load balancer if `adopt` names its owner, the UID in its label, or allows one
/// without a label.
///
/// # Errors
/// [`Error::Conflict`] when it has another owner; [`Error::Invalid`] when it has none, and serves other machines;
/// [`Error::Unavailable`] when these may be dedicated servers whose addresses are not known.
pub fn by_name(
    wanted: &Wanted,
    service: &Service,
    adopt: Option<&Adoption>,
) -> Result<Named, Error> {
    let (name, uid) = (&wanted.name, &service.uid);
    let Some(found) = api::by_name(name)? else {
        return Ok(Named::NotFound);
    };
    let id = found.id;
    let owner = found.owner().map(str::to_owned);
    let what = format!("load balancer {id}, called {name},");
    let marked = owner.as_deref().map(Owner::uid);
    match owner::claim(service, adopt, &what, marked.as_ref())? {
        Claim::Ours => return Ok(Named::Ours(Box::new(found))),
        Claim::Adoptable => {}
    }
    if owner.is_none() && changes::serves_others(&wanted.targets, &found) {
        if !wanted.targets.dedicated.is_empty() {
            return Err(Error::unavailable(format!(
                "load balancer {id} is called {name} and belongs to no Service: it cannot be taken over before Robot has told which of its targets are this Service's dedicated servers"
            )));
        }
        return Err(Error::invalid(format!(
            "load balancer {id} is called {name}, belongs to no Service, and has targets that are no nodes of this Service: whoever made it has to remove those, or to give it the label {SERVICE_UID}={uid}, before it can be taken over"
        )));
    }
    let owner = owner.unwrap_or_default();
    log::info!(id, owner; "taking the load balancer over from its former owner");
    let mut labels = found.labels;
    labels.extend(wanted.labels.clone());
    match api::update(id, &json!({"labels": labels})) {
        Ok(()) => Ok(Named::Adopted),
        Err(refusal) if refusal.is_busy() => Ok(Named::Busy),
        Err(refusal) => Err(refusal.error),
    }
}
