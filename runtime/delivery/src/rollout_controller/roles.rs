//! Assigns the roles: has calls answered as the facts say. Nothing else changes what serves or is on trial.

use std::sync::Arc;

use ccm_core::rollout::{Loaded, RolloutFacts};
use thiserror::Error;
use tokio::sync::watch;

use super::Served;
use crate::active::{Active, Generation, Holding};

/// A role that the facts give to a version that is not loaded.
#[derive(Debug, Error)]
#[error("the version that should {0} is not loaded")]
pub(crate) struct NotLoaded(&'static str);

/// Derives from `facts` which generation serves, which one is on trial and of what kind, and routes calls to them.
/// Publishes another [`Active`] for the first one that serves, and for one of another shape, and that there is none
/// once none serves.
///
/// # Errors
/// A version with a role has no `generation`. The roles stay as they were.
pub(crate) fn assign<P: Holding>(
    name: &str,
    facts: &RolloutFacts,
    generation: impl Fn(&Loaded) -> Option<Arc<Generation<P>>>,
    served: &watch::Sender<Served<P>>,
) -> Result<(), NotLoaded> {
    let former = served.borrow().active();
    let candidate = facts.candidate.as_ref();
    let trial = match candidate.and_then(|it| Some((it.step.trial()?, &it.release))) {
        Some((kind, release)) => {
            let ready = facts.ready.as_ref().filter(|it| it.is(&release.digest));
            let ready = ready.and_then(&generation);
            Some((kind, ready.ok_or(NotLoaded("be tried"))?))
        }
        None => None,
    };
    let serving = match &facts.serving {
        None if trial.is_none() => {
            if let Some(former) = former {
                former.set_roles(former.serving(), None);
                served.send_replace(Served::Starting);
            }
            return Ok(());
        }
        serving => serving
            .as_ref()
            .and_then(generation)
            .ok_or(NotLoaded("serve"))?,
    };
    let active = match former {
        Some(active) if active.fits(&serving) => active,
        former => {
            if let Some(former) = former {
                former.set_roles(former.serving(), None);
            }
            let active = Active::new(name, serving.clone());
            served.send_replace(Served::Serving(active.clone()));
            active
        }
    };
    active.set_roles(serving, trial);
    Ok(())
}
