//! Compares listeners and target groups with the wanted ports, and changes what differs.
//!
//! Each listener has a target group of its own. If a field differs that AWS cannot change in a target group (port,
//! protocol, protocol and interval of health checks), a new group is made: its nodes are registered before the listener
//! switches to it, and the old one is deleted at the end of the call. AWS may count that as used for a moment, and only the
//! cached state knows it then.

use std::collections::BTreeSet;

use ccm_guest::Error;
use serde::{Deserialize, Serialize};

use super::cached_state;
use super::elb::{self, Listener, LoadBalancer, TargetGroup, Targets};
use super::wanted::{Port, Wanted};
use crate::query::Answer;

/// The listeners of a load balancer, and the target groups behind them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listening {
    listeners: Vec<Listener>,
    /// The target groups; those of the listeners, if there are any.
    pub groups: Vec<TargetGroup>,
    /// ARNs of those that listeners used before this call: the cached state may have no room for them.
    #[serde(skip)]
    former: BTreeSet<String>,
}

impl Listening {
    /// Reads the current listeners and target groups.
    ///
    /// # Errors
    /// A refusal by AWS, or no answer.
    pub fn read(load_balancer: &str) -> Result<Listening, Error> {
        let listeners = elb::listeners(load_balancer)?;
        // AWS answers with an error for the target groups of a load balancer that has none.
        let groups = match listeners.is_empty() {
            true => Vec::new(),
            false => elb::target_groups(Some(load_balancer))?,
        };
        Ok(Listening {
            listeners,
            groups,
            ..Listening::default()
        })
    }

    /// Makes the targets of all groups the wanted ones.
    ///
    /// # Errors
    /// A refusal by AWS, or no answer.
    pub fn set_targets(&self, wanted: &Targets) -> Result<(), Error> {
        for (group, are) in self.groups.iter().zip(elb::targets(&self.groups)?) {
            elb::set_targets(group, &are, wanted)?;
        }
        Ok(())
    }

    /// Deletes the target groups that listeners used before, and use no more. For an hour each call tries it again.
    ///
    /// # Errors
    /// A refusal by AWS, such as while it counts one as used, or no answer.
    pub fn delete_former(&self, load_balancer: &str) -> Answer<()> {
        let mut former = &former(load_balancer) | &self.former;
        former.retain(|arn| self.groups.iter().all(|one| one.target_group_arn != *arn));
        let delete = |arn: &String| elb::delete((elb::TARGET_GROUP, arn));
        // All are tried before the first refusal ends the call.
        let answers: Vec<_> = former.iter().map(delete).collect();
        answers.into_iter().collect::<Answer<()>>()?;
        cached_state::forget(&key(load_balancer));
        Ok(())
    }
}

/// ARNs of the target groups that listeners of this load balancer used before a call that has not deleted all of those.
pub fn former(load_balancer: &str) -> BTreeSet<String> {
    cached_state::get(&key(load_balancer)).unwrap_or_default()
}

fn key(load_balancer: &str) -> String {
    format!("{load_balancer}/groups")
}

/// Creates, changes and deletes listeners until all ports are as wanted, and returns the new state. What goes, goes last,
/// unless the load balancer can have no more listeners. The targets of groups that existed before are unchanged; those that
/// listeners use no more are left for [`Listening::delete_former`].
///
/// # Errors
/// A refused change, or no answer. Earlier changes stay.
pub fn apply(
    wanted: &Wanted,
    load_balancer: &LoadBalancer,
    are: Listening,
    targets: &Targets,
) -> Result<Listening, Error> {
    let arn = &load_balancer.load_balancer_arn;
    let groups = are.groups;
    let used = are.listeners.iter();
    let used = used.filter_map(|one| group_of(one, &groups));
    let mut former = former(&wanted.name);
    former.extend(used.map(|group| group.target_group_arn.clone()));
    // Before the changes, so that an error after one of them loses no group.
    cached_state::set(&key(&wanted.name), &former);
    let delete = |one: Listener| elb::delete((elb::LISTENER, &one.listener_arn));
    let is_wanted = |one: &Listener| wanted.ports.iter().any(|port| port.front == one.port);
    let (mut listeners, mut surplus): (Vec<_>, Vec<_>) =
        are.listeners.into_iter().partition(is_wanted);
    let mut now = Listening::default();
    for port in &wanted.ports {
        let place = listeners.iter().position(|one| one.port == port.front);
        let listener = place.map(|place| listeners.remove(place));
        let group = listener.as_ref().and_then(|one| group_of(one, &groups));
        let (listener, group) = match (listener, group) {
            (Some(mut listener), Some(group)) if fits(group, port) => {
                if is_otherwise(&listener, port) {
                    let to = &group.target_group_arn;
                    listener = elb::put_listener(wanted, arn, Some(&listener), port, to)?;
                }
                (listener, elb::set_health(group.clone(), port)?)
            }
            (listener, _) => {
                let (group, has) = elb::create_target_group(wanted, port, &load_balancer.vpc_id)?;
                let to = &group.target_group_arn;
                elb::set_targets(&group, &has, targets)?;
                let put = || elb::put_listener(wanted, arn, listener.as_ref(), port, to);
                let listener = match put() {
                    // What goes makes room.
                    Err(refusal) if refusal.is("TooManyListeners") && !surplus.is_empty() => {
                        surplus.drain(..).try_for_each(delete)?;
                        put()?
                    }
                    answer => answer?,
                };
                (listener, group)
            }
        };
        // As with the Go provider, an attribute that is not named keeps its value.
        if !wanted.group_attributes.is_empty() {
            let object = (elb::TARGET_GROUP, &*group.target_group_arn);
            // Whether the client's address is preserved by default depends on the protocol, so the attributes of new
            // groups are read, too.
            elb::set_attributes(object, elb::attributes(object)?, &wanted.group_attributes)?;
        }
        now.listeners.push(listener);
        now.groups.push(group);
    }
    surplus.into_iter().try_for_each(delete)?;
    now.former = former;
    Ok(now)
}

fn group_of<'a>(listener: &Listener, groups: &'a [TargetGroup]) -> Option<&'a TargetGroup> {
    let arn = listener.target_groups.first()?;
    groups.iter().find(|group| group.target_group_arn == *arn)
}

fn fits(group: &TargetGroup, port: &Port) -> bool {
    let (health, checked) = (&port.health, &group.health_check_protocol);
    (group.port, group.protocol.as_str()) == (port.back, port.back_protocol)
        && checked.eq_ignore_ascii_case(&health.protocol)
        && group.health_check_interval_seconds == health.interval
}

fn is_otherwise(listener: &Listener, port: &Port) -> bool {
    listener.protocol != port.front_protocol
        || port.tls.as_ref().is_some_and(|tls| {
            let policy = tls.policy.as_ref();
            let certificate = listener.certificates.first();
            // No two certificates have names that differ in case only.
            certificate.is_none_or(|one| !one.eq_ignore_ascii_case(&tls.certificate))
                || (policy.is_some() && policy != listener.ssl_policy.as_ref())
        })
}
