//! Removes the load balancer of a Service, and reads whether there is one.

use ccm_guest::load_balancer::{Found, ProgressReply, Service};
use ccm_guest::{Error, Event, log};

use super::annotations::{HOSTNAME, ID, is_disowned};
use super::api;
use super::owner;
use super::status::status;

/// See [`ccm_guest::LoadBalancer::delete`].
///
/// # Errors
/// See [`ccm_guest::LoadBalancer::delete`].
pub fn delete(service: &Service) -> Result<ProgressReply, Error> {
    if is_disowned(service)? {
        // The Service may have been disowned after the last `ensure`.
        owner::release(&service.uid)?;
        return Err(Error::Elsewhere);
    }
    let Some(found) = owner::find_own(service)? else {
        return Ok(ProgressReply::done());
    };
    let name = found.name();
    match owner::owner(&found, service) {
        Some(uid) if uid == service.uid => {}
        Some(_) => return Ok(ProgressReply::done()),
        // The Go manager writes this annotation for what it made, and any tenant can: neither a deletion nor a bill
        // that nobody expects.
        None if service.annotation(ID) == Some(found.id.as_str()) => {
            return Err(Error::invalid(format!(
                "load balancer {name} ({}) shows no owner: give it the tag {} to have it deleted, or delete it at DigitalOcean; to keep it, remove the annotation {ID} from the Service",
                found.id,
                owner::tag(&service.uid)?
            )));
        }
        None => {
            let message = format!(
                "load balancer {name} ({}), which the Service names, has no owner: it stays, and costs what it costs",
                found.id
            );
            let event = Event::warning("LoadBalancerKept", message);
            return Ok(ProgressReply::done().with_events(vec![event]));
        }
    }
    let fields = [
        ("id", found.id.as_str()),
        ("name", name),
        ("why", "the Service has none any more"),
    ];
    log::info("deleting the load balancer", &fields);
    api::delete(&found.id)?;
    // A tag outlives its objects. If this deletion fails, the next call does not know of the tag, which does no harm.
    let tag = owner::tag(&service.uid)?;
    if found.tags().is_some_and(|tags| tags.contains(&tag))
        && let Err(error) = api::delete_tag(&tag)
    {
        log::warn(
            "cannot delete a tag",
            &[("tag", &tag), ("why", error.message())],
        );
    }
    Ok(ProgressReply::done())
}

/// See [`ccm_guest::LoadBalancer::get`]. By list alone: if the load balancer does not exist, only a list shows that the
/// account does.
///
/// # Errors
/// See [`ccm_guest::LoadBalancer::get`].
pub fn get(service: &Service) -> Result<Found, Error> {
    // A mistake in the annotation does not make the load balancer absent.
    if is_disowned(service).unwrap_or(false) {
        return Err(Error::Elsewhere);
    }
    let found = owner::by_list(service)?;
    Ok(match found {
        Some(found) if owner::is_own(&found, service) => {
            let hostname = service.values().hostname(HOSTNAME);
            Found::Present(status(hostname.as_deref(), &found))
        }
        _ => Found::Absent,
    })
}
