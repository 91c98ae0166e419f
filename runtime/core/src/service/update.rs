//! Updates the nodes behind a load balancer that is otherwise as wanted (SVC-066 to SVC-070).

use std::sync::Arc;

use super::effect::ServiceAction;
use super::waiting::{self, Obstacle};
use super::work::Doing;
use super::{Facts, Step, cloud_service, record, record_once};
use crate::cloud::error::ProviderError;
use crate::cloud::instance::CloudNode;
use crate::cloud::load_balancer::{Progress, TargetNodes, UpdateRequest};
use crate::moment::Moment;
use crate::reconciliation::event::reasons;

/// Maximum number of node names in an Event (SVC-069).
const MOST_NAMES: usize = 20;

pub(super) fn ask(facts: &Facts, targets: TargetNodes) -> Step<'_> {
    if let Some(step) = super::only_look(facts) {
        return step;
    }
    let request = UpdateRequest {
        service: Arc::new(cloud_service(&facts.service)),
        targets,
        hint: facts.past.phase.hint(),
    };
    Step::Do(vec![ServiceAction::UpdateTargets(Arc::new(request))])
}

/// The Event of SVC-032, once per occurrence.
pub(super) fn unavailable(facts: &Facts, targets: &[Arc<CloudNode>]) -> Option<ServiceAction> {
    if !targets.is_empty() || facts.past.targets.is_lack_reported {
        return None;
    }
    let message = "There are no available nodes for LoadBalancer";
    record_once(facts, reasons::UNAVAILABLE_LOAD_BALANCER, message)
}

/// The step after an update of the targets (SVC-068 to SVC-070). Any failure but throttling causes an ensure at once.
pub(super) fn after(facts: &Facts, now: Moment) -> Option<Step<'_>> {
    let making = facts.state.work.making()?;
    let asked = &making.asked;
    match making.updated.as_ref()? {
        Ok(Progress::Pending(pending)) => {
            let doing = Doing::Update;
            Some(Step::Wait(waiting::begun(facts, doing, pending, now)))
        }
        Ok(Progress::Done) => {
            let event = match asked.targets.is_empty() {
                true => unavailable(facts, &asked.targets),
                false => {
                    let message = "Updated load balancer with new hosts";
                    record_once(facts, reasons::UPDATED_LOAD_BALANCER, message)
                }
            };
            event.map(|event| Step::Do(vec![event]))
        }
        Err(ProviderError::Elsewhere) => None,
        // Already reported and handled.
        Err(_) if making.ensured.is_some() => None,
        Err(error) if !facts.has_recorded(reasons::UPDATE_LOAD_BALANCER_FAILED) => {
            let message = update_failed(&asked.targets, error);
            let event = record(reasons::UPDATE_LOAD_BALANCER_FAILED, &message);
            Some(Step::Do(vec![event]))
        }
        Err(error @ ProviderError::Throttled { .. }) => {
            Some(Step::Wait(Obstacle::Provider(Doing::Update, error)))
        }
        Err(_) => None,
    }
}

fn update_failed(targets: &[Arc<CloudNode>], error: &ProviderError) -> String {
    let mut names: Vec<String> = targets
        .iter()
        .take(MOST_NAMES)
        .map(|node| node.name.clone())
        .collect();
    if targets.len() > MOST_NAMES {
        names.push(format!("<{} more>", targets.len() - MOST_NAMES));
    }
    format!(
        "Error updating load balancer with new hosts [{}] [node names limited, total number of nodes: {}], error: {error}",
        names.join(" "),
        targets.len()
    )
}
