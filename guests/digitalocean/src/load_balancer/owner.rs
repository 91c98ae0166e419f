//! Whose a load balancer is.
//!
//! Its owner is written down in a tag with the Service's UID, from the request that creates it on. Without such a tag the
//! name that the Go manager gives tells the owner of those that it made. The annotation with the id only says where to
//! look: any tenant can write it, as with a name.

use ccm_guest::load_balancer::{Adoption, Service};
use ccm_guest::{Error, owner as shared};

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

/// The UID of the Service that a load balancer belongs to, as far as this Service can tell: without a tag it is its own
/// under the name that the Go manager gives, and otherwise nobody's.
pub fn owner<'a>(found: &'a LoadBalancer, service: &'a Service) -> Option<&'a str> {
    let tags = found.tags().into_iter().flatten();
    let mut marks = tags.filter_map(|tag| tag.strip_prefix(MARK));
    let by_name = || (found.name() == service.default_name()).then_some(service.uid.as_str());
    marks.find(|owner| !owner.is_empty()).or_else(by_name)
}

/// Whether a load balancer is the Service's.
pub fn is_own(found: &LoadBalancer, service: &Service) -> bool {
    owner(found, service) == Some(&service.uid)
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
        is_own(one, service) || Some(one.id.as_str()) == id || Some(one.name()) == name
    })?;
    let (own, mut others): (Vec<_>, Vec<_>) =
        candidates.into_iter().partition(|one| is_own(one, service));
    let (uid, default) = (&service.uid, service.default_name());
    let mark = format!("with the tag {MARK}{uid} or the name {default}");
    let own = shared::only_one(own, &mark, |one| one.id.clone())?;
    // What is named by its id was meant before what only has the name.
    others.sort_by_key(|one| Some(one.id.as_str()) != id);
    Ok(own.or_else(|| others.into_iter().next()))
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
    let owner = owner(found, service);
    let what = format!("load balancer {} ({})", found.id, found.name());
    if owner.is_none()
        && let Some(tag) = other_cluster(settings, found)
    {
        return Err(Error::invalid(format!(
            "{what} has the tag {tag} of another cluster: take the tag off before it can be taken over"
        )));
    }
    match shared::claim(&service.uid, adopt, &what, owner) {
        Ok(_) => Ok(()),
        Err(conflict) if owner.is_some() => {
            let message = format!(
                "{}; annotate that one with {}=true to give it away",
                conflict.message(),
                annotation::DISOWN
            );
            Err(conflict.with_message(message))
        }
        Err(conflict) => Err(conflict),
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
