//! Whose a load balancer is.
//!
//! Its owner is written down in a tag with the Service's UID, from the request that creates it on. Without such a tag the
//! name that the Go manager gives tells the owner of those that it made. The annotation with the id only says where to
//! look: any tenant can write it, as with a name.

use ccm_guest::Error;
use ccm_guest::load_balancer::{Adoption, Service};

use super::annotations as annotation;
use super::api::{self, LoadBalancer, is_id};
use crate::config::{Settings, is_tag};

/// With what the tag of an owner begins.
const MARK: &str = "k8s-service-uid:";
/// With what the tag of a cluster begins, as with the Go manager.
const CLUSTER: &str = "k8s:";

/// The tag of a Service's load balancer.
///
/// # Errors
/// [`Error::Invalid`] when the vendor would not accept it; the UIDs of a real API server are never like that.
pub fn tag(uid: &str) -> Result<String, Error> {
    match is_tag(uid) {
        true => Ok(format!("{MARK}{uid}")),
        false => Err(Error::invalid(format!("the UID {uid:?} cannot be a tag"))),
    }
}

/// Whether a tag names an owner.
pub fn is_mark(tag: &str) -> bool {
    tag.starts_with(MARK)
}

/// An owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    /// The Service itself.
    Own,
    /// The Service with this UID.
    Other(String),
    /// No Service; or one that the Go manager gave a load balancer of another name.
    Nobody,
}

/// Whose a load balancer is, for this Service.
pub fn owner(found: &LoadBalancer, service: &Service) -> Owner {
    let mut marks = found
        .tags()
        .into_iter()
        .flatten()
        .filter_map(|tag| tag.strip_prefix(MARK));
    match marks.next() {
        Some(owner) if owner == service.uid => Owner::Own,
        Some(owner) => Owner::Other(owner.to_owned()),
        None if found.name() == service.default_name() => Owner::Own,
        None => Owner::Nobody,
    }
}

/// The Service's load balancer, or the one that it names, whoever has it: by its id if that is known, and otherwise by
/// list. `hint` is the id that the last call knew.
///
/// # Errors
/// When that could not be told; [`Error::Invalid`] when there are two.
pub fn find(service: &Service, hint: Option<&str>) -> Result<Option<LoadBalancer>, Error> {
    let named = service.annotation(annotation::ID).or(hint);
    if let Some(id) = named.filter(|id| is_id(id))
        && let Some(found) = api::get(id)?
    {
        return Ok(Some(found));
    }
    by_list(service)
}

/// The same by list alone.
///
/// # Errors
/// As for [`find`].
pub fn by_list(service: &Service) -> Result<Option<LoadBalancer>, Error> {
    let id = service.annotation(annotation::ID);
    let name = service.annotation(annotation::NAME).map(str::trim);
    let name = name.filter(|name| !name.is_empty());
    let candidates = api::list(|one| {
        owner(one, service) == Owner::Own || Some(one.id.as_str()) == id || Some(one.name()) == name
    })?;
    let (mut own, mut others): (Vec<_>, Vec<_>) = candidates
        .into_iter()
        .partition(|one| owner(one, service) == Owner::Own);
    match own.len() {
        0 => {
            // What is named by its id was meant before what only has the name.
            others.sort_by_key(|one| Some(one.id.as_str()) != id);
            Ok(others.into_iter().next())
        }
        1 => Ok(own.pop()),
        _ => {
            let ids: Vec<String> = own.into_iter().map(|one| one.id).collect();
            Err(Error::invalid(format!(
                "more than one load balancer belongs to this Service: {}; take the tag {MARK}{} off all but one, and rename them",
                ids.join(" and "),
                service.uid
            )))
        }
    }
}

/// Whether the load balancer is the Service's, or may become it: `adopt` says that it may be taken over.
///
/// # Errors
/// [`Error::Conflict`] when it is another's and may not; [`Error::Invalid`] when it is another cluster's.
pub fn claim(
    settings: &Settings,
    found: &LoadBalancer,
    service: &Service,
    adopt: Option<&Adoption>,
) -> Result<(), Error> {
    let LoadBalancer { id, .. } = found;
    let name = found.name();
    let may_take = |owner| adopt.is_some_and(|adopt| adopt.covers(owner));
    match owner(found, service) {
        Owner::Own => Ok(()),
        Owner::Other(owner) if may_take(Some(&owner)) => Ok(()),
        Owner::Other(owner) => {
            let message = format!(
                "load balancer {id} ({name}) belongs to the Service with UID {owner}; annotate that one with {}=true to give it away",
                annotation::DISOWN
            );
            Err(Error::conflict(message, Some(ccm_guest::Owner::Uid(owner))))
        }
        Owner::Nobody => match other_cluster(settings, found) {
            Some(tag) => Err(Error::invalid(format!(
                "load balancer {id} ({name}) has the tag {tag} of another cluster: take the tag off before it can be taken over"
            ))),
            None if may_take(None) => Ok(()),
            None => {
                let message = format!("load balancer {id} ({name}) belongs to no Service");
                Err(Error::conflict(message, None))
            }
        },
    }
}

/// The tag of another cluster, if this one has an id to tell them apart.
fn other_cluster<'a>(settings: &Settings, found: &'a LoadBalancer) -> Option<&'a String> {
    let own = settings.cluster_tag()?;
    let mut tags = found
        .tags()
        .into_iter()
        .flatten()
        .filter(|tag| tag.starts_with(CLUSTER));
    tags.find(|tag| **tag != own)
}

/// Gives up a Service's load balancer without changing it: takes its mark away.
///
/// # Errors
/// When that was not possible.
pub fn release(uid: &str) -> Result<(), Error> {
    let tag = tag(uid)?;
    match api::has_tag(&tag)? {
        true => api::delete_tag(&tag),
        false => Ok(()),
    }
}
