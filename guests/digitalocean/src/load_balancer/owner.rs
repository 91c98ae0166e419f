//! The owner of a load balancer.
//!
//! The owner is recorded in a tag with the Service's UID, which is part of the request that creates the load balancer.
//! One that exists already gets it by requests about tags: the vendor reads `tags` only when it creates a load balancer.
//! Without such a tag, a name of the Go manager's form names the owner. The annotation with the id only says where to
//! look: any tenant can write it, as with a name.

use std::collections::BTreeSet;

use ccm_guest::load_balancer::{Adoption, Service};
use ccm_guest::{Error, Owner, log, owner as shared};

use super::annotations as annotation;
use super::api::{self, LoadBalancer, is_id};
use crate::config::{Settings, is_tag};

/// Prefix of the tag that names an owner.
const MARK: &str = "k8s-service-uid:";
/// Prefix of the tag that names a cluster, as with the Go manager.
const CLUSTER: &str = "k8s:";

/// The owner's tag of a Service's load balancer.
///
/// # Errors
/// [`Error::Invalid`] when the vendor would not accept it; UIDs of a real API server never cause this.
pub fn tag(uid: &str) -> Result<String, Error> {
    match is_tag(uid) {
        true => Ok(format!("{MARK}{uid}")),
        false => Err(Error::invalid(format!("the UID {uid:?} cannot be a tag"))),
    }
}

/// The UID of the Service that owns a load balancer, as far as this Service can tell. Without a tag, this Service owns
/// one under the Go manager's name for it; any other has no owner.
pub fn owner<'a>(found: &'a LoadBalancer, service: &'a Service) -> Option<&'a str> {
    let tags = found.tags().into_iter().flatten();
    let mut marks = tags.filter_map(|tag| tag.strip_prefix(MARK));
    let by_name = || (found.name() == service.default_name()).then_some(service.uid.as_str());
    marks.find(|owner| !owner.is_empty()).or_else(by_name)
}

/// Whether the Service owns the load balancer.
pub fn is_own(found: &LoadBalancer, service: &Service) -> bool {
    owner(found, service) == Some(&service.uid)
}

/// The Service's load balancer, or the one that its annotations name, whoever owns it: by its id if that is known, and
/// otherwise by list. `hint` is the id from the last call's hint.
///
/// # Errors
/// The reason why the answer is not known; [`Error::Invalid`] when there are two.
pub fn find(service: &Service, hint: Option<&str>) -> Result<Option<LoadBalancer>, Error> {
    let named = service.annotation(annotation::ID).or(hint);
    if let Some(id) = named.filter(|id| is_id(id))
        && let Some(found) = api::get(id)?
    {
        return Ok(Some(found));
    }
    by_list(service)
}

/// As [`find`], but the Service's own load balancer takes precedence over the one that the annotation with the id names.
///
/// # Errors
/// As for [`find`].
pub fn find_own(service: &Service) -> Result<Option<LoadBalancer>, Error> {
    match find(service, None)? {
        Some(other) if !is_own(&other, service) => by_list(service),
        found => Ok(found),
    }
}

/// As [`find`], by list alone.
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
    // A load balancer that the annotation names by id takes precedence over one that only has the name.
    others.sort_by_key(|one| Some(one.id.as_str()) != id);
    Ok(own.or_else(|| others.into_iter().next()))
}

/// Checks whether the load balancer is the Service's, or may become it: `adopt` lists the owners that it may be taken
/// from.
///
/// # Errors
/// [`Error::Conflict`] when another Service owns it and it may not be taken over; [`Error::Invalid`] for another
/// cluster's.
pub fn claim(
    settings: &Settings,
    found: &LoadBalancer,
    service: &Service,
    adopt: Option<&Adoption>,
) -> Result<(), Error> {
    let owner = owner(found, service);
    let what = format!("load balancer {} ({})", found.id, found.name());
    if owner != Some(&service.uid)
        && let Some((own, other)) = other_cluster(settings, found)
    {
        return Err(Error::invalid(format!(
            "{what} has the tag {other} of another cluster: take the tag off, or add {own}, before it can be taken over"
        )));
    }
    let marked = owner.map(Owner::uid);
    match shared::claim(service, adopt, &what, marked.as_ref()) {
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

/// Gives a load balancer the wanted tags that it lacks, and takes the marks of other owners off it. Returns whether it
/// had to: then the load balancer is read again before anything else is changed, because another Service may have done
/// the same at this moment. Tags that the vendor did not return count as missing. `then` says what will be changed next:
/// `ccm migrate check` refuses the request for the tag, and shows the line that was logged before it.
///
/// # Errors
/// The reason why a tag could not be written.
pub fn mark(
    wanted: &BTreeSet<String>,
    found: &LoadBalancer,
    then: impl FnOnce() -> String,
) -> Result<bool, Error> {
    let none = BTreeSet::new();
    let tags = found.tags().unwrap_or(&none);
    let missing: Vec<&String> = wanted.difference(tags).collect();
    let others = tags.difference(wanted).filter(|tag| tag.starts_with(MARK));
    let others: Vec<&String> = others.collect();
    if missing.is_empty() && others.is_empty() {
        return Ok(false);
    }
    let then = then();
    let (id, then) = (found.id.as_str(), then.as_str());
    for tag in missing {
        let fields = [("id", id), ("tag", tag.as_str()), ("then", then)];
        log::info("tagging the load balancer", &fields);
        api::tag(id, tag)?;
    }
    for tag in others {
        let fields = [("id", id), ("tag", tag.as_str()), ("then", then)];
        log::info("taking the tag of the former owner off", &fields);
        api::untag(id, tag)?;
    }
    Ok(true)
}

/// The tags of this cluster and of another one, if this cluster has an id to compare with, and the load balancer lacks its
/// tag and has the other one. The Go manager's way of moving one leaves both tags on it.
fn other_cluster<'a>(settings: &Settings, found: &'a LoadBalancer) -> Option<(String, &'a String)> {
    let (own, tags) = (settings.cluster_tag()?, found.tags()?);
    let mut others = tags.iter().filter(|tag| tag.starts_with(CLUSTER));
    let other = others.next().filter(|_| !tags.contains(&own))?;
    Some((own, other))
}

/// Releases a Service's load balancer without changing it: removes the owner's tag.
///
/// # Errors
/// The reason why the tag could not be removed.
pub fn release(uid: &str) -> Result<(), Error> {
    let tag = tag(uid)?;
    match api::has_tag(&tag)? {
        true => api::delete_tag(&tag),
        false => Ok(()),
    }
}
