//! The owner of a cloud object. A provider writes the Service's UID on everything that it makes for it, as a label, a
//! tag or a part of a description, and believes that mark alone: the object's own name proves nothing. Where the cloud
//! keeps no UID, the mark is the Service's namespace and name.
//!
//! A provider never decides whether another owner is alive. It answers with a conflict that names the owner, and the
//! host asks again with `adopt` if that owner is gone and the operator allows it.

use crate::instances::at_most;
use crate::load_balancer::{Adoption, EnsureRequest, Service};
use crate::{Error, NamespacedName, Owner};

#[cfg(test)]
mod tests;

/// Maximum length of a label's value, in bytes; the clouds that have labels took it from Kubernetes.
const MAX_LABEL: usize = 63;
/// The contract's maximum length of an owner's UID, in bytes.
const UID_BYTES: usize = 128;
/// The contract's maximum length of an owner's name, in bytes.
const NAME_BYTES: usize = 253;

/// The owner of an object, as far as this request is concerned. See [`EnsureRequest::claim`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// It belongs to the Service of the request.
    Ours,
    /// It belongs to another Service, or carries no mark, and the host allows to take it over: put the Service's mark
    /// on it, and read it again before anything else is changed, because another Service may do the same at this
    /// moment.
    Adoptable,
}

impl EnsureRequest {
    /// Claims an object that carries the mark of `owner`; `None` for one without a mark. `what` names the object in the
    /// error, such as `load balancer 7`.
    ///
    /// # Errors
    /// [`Error::Conflict`] for an object of another owner that may not be taken over. A mark that is neither a UID nor the
    /// name of a Service is in its message alone: anybody may write it at the cloud, and the host refuses such an owner.
    pub fn claim(&self, what: &str, owner: Option<&Owner>) -> Result<Claim, Error> {
        claim(&self.service, self.adopt.as_ref(), what, owner)
    }
}

impl Adoption {
    /// Permission to take over objects of the Service with this UID, which does not exist any more.
    pub fn of(uid: impl Into<String>) -> Adoption {
        Adoption::Owned(Owner::uid(uid))
    }

    /// Whether an object with the mark of this owner may be taken over; `None` for one without a mark. A UID and a name
    /// are never the same owner.
    pub fn covers(&self, owner: Option<&Owner>) -> bool {
        match (self, owner) {
            (Adoption::Owned(allowed), Some(owner)) => allowed == owner,
            (Adoption::Unowned, None) => true,
            _ => false,
        }
    }
}

/// As [`EnsureRequest::claim`], for this Service.
///
/// # Errors
/// As [`EnsureRequest::claim`].
pub fn claim(
    service: &Service,
    adopt: Option<&Adoption>,
    what: &str,
    owner: Option<&Owner>,
) -> Result<Claim, Error> {
    let owner = owner.filter(|owner| is_mark(owner));
    if owner.is_some_and(|owner| is_own(service, owner)) {
        return Ok(Claim::Ours);
    }
    if adopt.is_some_and(|adopt| adopt.covers(owner)) {
        return Ok(Claim::Adoptable);
    }
    let whose = match owner {
        Some(Owner::Uid(uid)) => format!("belongs to the Service with UID {uid}"),
        Some(Owner::Name(of)) => format!("belongs to the Service {}/{}", of.namespace, of.name),
        None => "belongs to no Service".to_owned(),
    };
    let message = format!("{what} is there already and {whose}");
    let owner = owner.filter(|owner| check_owner(owner).is_ok());
    Err(Error::conflict(message, owner.cloned()))
}

/// Checks the contract's limits of an owner.
pub(crate) fn check_owner(owner: &Owner) -> Result<(), String> {
    match owner {
        Owner::Uid(uid) => {
            at_most("bytes of an owner", uid.len(), UID_BYTES)?;
            match !uid.is_empty() && uid.bytes().all(|byte| byte.is_ascii_graphic()) {
                true => Ok(()),
                false => Err("an owner that is no UID".to_owned()),
            }
        }
        Owner::Name(NamespacedName { namespace, name }) => {
            let is_name = name.len() <= NAME_BYTES && name.split('.').all(is_name_part);
            match is_name_part(namespace) && namespace.len() <= MAX_LABEL && is_name {
                true => Ok(()),
                false => Err("an owner that no object can be called".to_owned()),
            }
        }
    }
}

/// Whether the text is a part of an RFC 1123 name. The parts of a subdomain have no limit of their own.
fn is_name_part(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.bytes().all(is_inner) && !text.starts_with('-') && !text.ends_with('-')
}

/// Whether the mark says anything: an empty label is none.
fn is_mark(owner: &Owner) -> bool {
    match owner {
        Owner::Uid(uid) => !uid.is_empty(),
        Owner::Name(of) => !of.name.is_empty(),
    }
}

fn is_own(service: &Service, owner: &Owner) -> bool {
    match owner {
        Owner::Uid(uid) => *uid == service.uid,
        Owner::Name(of) => of.namespace == service.namespace && of.name == service.name,
    }
}

/// The one object with a mark. `mark` and the `id` of each object are for the error.
///
/// # Errors
/// [`Error::Invalid`] when there are several: a person put the mark on another object.
pub fn only_one<T>(
    mut found: Vec<T>,
    mark: &str,
    id: impl Fn(&T) -> String,
) -> Result<Option<T>, Error> {
    if found.len() <= 1 {
        return Ok(found.pop());
    }
    let ids: Vec<String> = found.iter().map(id).collect();
    Err(Error::invalid(format!(
        "more than one object is marked {mark}: {}; take the mark off all but one",
        ids.join(" and ")
    )))
}

/// The UID itself, if it can be the value of a label or tag that a list is filtered by: 1 to 63 letters, digits, `-`, `_`
/// and `.`.
///
/// # Errors
/// [`Error::Invalid`] otherwise: it may have a character that means something in a selector, such as a comma.
pub fn label_value(uid: &str) -> Result<&str, Error> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if uid.is_empty() || uid.len() > MAX_LABEL || !uid.bytes().all(plain) {
        return Err(Error::invalid(format!(
            "the UID {uid:?} cannot be written into a label"
        )));
    }
    Ok(uid)
}
