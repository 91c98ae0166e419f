//! Compares listeners and target groups with the wanted ports, and changes what differs.
//!
//! Each listener has a target group of its own. What AWS cannot change in a target group (port, protocol, protocol and
//! interval of health checks) makes a new one: its nodes are registered before the listener turns to it, and then the old one
//! goes.

use std::collections::BTreeSet;

use ccm_guest::Error;

use super::elb::{self, Listener, LoadBalancer, Of, TargetGroup, Targets};
use super::wanted::{Port, Wanted};

/// A target group by its name for requests, and the port of its targets.
pub type Registered = (String, u16);

/// Makes all ports of a load balancer as wanted. Returns the target groups.
///
/// # Errors
/// When AWS does not change something. What was changed before stays.
pub fn apply(
    wanted: &Wanted,
    load_balancer: &LoadBalancer,
    is_new: bool,
    targets: &Targets,
) -> Result<Vec<Registered>, Error> {
    let arn = &load_balancer.load_balancer_arn;
    let mut listeners = match is_new {
        true => Vec::new(),
        false => elb::listeners(arn)?,
    };
    // Of a load balancer that has none, the groups are an error.
    let groups = match listeners.is_empty() {
        true => Vec::new(),
        false => elb::target_groups(Some(arn))?,
    };
    let (mut kept, mut made) = (Vec::new(), Vec::new());
    for port in &wanted.ports {
        let place = listeners.iter().position(|one| one.port == port.front);
        let listener = place.map(|place| listeners.remove(place));
        let group = listener
            .as_ref()
            .and_then(|listener| group_of(listener, &groups));
        match (listener, group) {
            (Some(listener), Some(group)) if fits(group, port) => {
                if is_otherwise(&listener, port) {
                    elb::put_listener(wanted, arn, Some(&listener), port, &group.target_group_arn)?;
                }
                if is_checked_otherwise(group, port) {
                    elb::modify_target_group(group, port)?;
                }
                set_group_attributes(wanted, group)?;
                kept.push(registered(group));
            }
            (listener, old) => {
                let group = elb::create_target_group(wanted, port, &load_balancer.vpc_id)?;
                elb::set_targets(
                    &group.target_group_arn,
                    group.port,
                    &BTreeSet::new(),
                    targets,
                )?;
                elb::put_listener(
                    wanted,
                    arn,
                    listener.as_ref(),
                    port,
                    &group.target_group_arn,
                )?;
                if let Some(old) = old {
                    elb::delete_target_group(&old.target_group_arn)?;
                }
                set_group_attributes(wanted, &group)?;
                made.push(registered(&group));
            }
        }
    }
    for listener in listeners {
        elb::delete_listener(&listener.listener_arn)?;
        if let Some(group) = group_of(&listener, &groups) {
            elb::delete_target_group(&group.target_group_arn)?;
        }
    }
    // What was made above has its nodes.
    set_targets(&kept, targets)?;
    kept.extend(made);
    Ok(kept)
}

/// See [`Registered`].
pub fn registered(group: &TargetGroup) -> Registered {
    (group.target_group_arn.clone(), group.port)
}

/// Makes the targets of all groups those that are wanted.
///
/// # Errors
/// When AWS does not.
pub fn set_targets(groups: &[Registered], wanted: &Targets) -> Result<(), Error> {
    let arns: Vec<&str> = groups.iter().map(|(arn, _)| arn.as_str()).collect();
    for ((arn, port), are) in groups.iter().zip(elb::targets(&arns)?) {
        elb::set_targets(arn, *port, &are, wanted)?;
    }
    Ok(())
}

fn set_group_attributes(wanted: &Wanted, group: &TargetGroup) -> Result<(), Error> {
    // As with the Go provider, an attribute that is not named stays as it is.
    match wanted.group_attributes.is_empty() {
        true => Ok(()),
        // By default the client's address is preserved or not, depending on the protocol: also a new one is asked.
        false => elb::set_attributes(
            Of::TargetGroup(&group.target_group_arn),
            false,
            &wanted.group_attributes,
        ),
    }
}

fn group_of<'a>(listener: &Listener, groups: &'a [TargetGroup]) -> Option<&'a TargetGroup> {
    let action = listener.default_actions.items.first()?;
    groups
        .iter()
        .find(|group| group.target_group_arn == action.target_group_arn)
}

fn fits(group: &TargetGroup, port: &Port) -> bool {
    let Port {
        back,
        back_protocol,
        health,
        ..
    } = port;
    (group.port, group.protocol.as_str()) == (*back, back_protocol)
        && group
            .health_check_protocol
            .eq_ignore_ascii_case(&health.protocol)
        && group.health_check_interval_seconds == health.interval
}

fn is_checked_otherwise(group: &TargetGroup, port: &Port) -> bool {
    let health = &port.health;
    let path = health.path.as_deref();
    group.health_check_port != health.port
        || (
            group.healthy_threshold_count,
            group.unhealthy_threshold_count,
        ) != (health.healthy, health.unhealthy)
        || (path.is_some() && group.health_check_path.as_deref() != path)
}

fn is_otherwise(listener: &Listener, port: &Port) -> bool {
    let certificate = listener
        .certificates
        .items
        .first()
        .map(|one| one.certificate_arn.as_str());
    listener.protocol != port.front_protocol
        || port.tls.as_ref().is_some_and(|tls| {
            let policy = tls.policy.as_ref();
            certificate != Some(&tls.certificate)
                || (policy.is_some() && policy != listener.ssl_policy.as_ref())
        })
}
