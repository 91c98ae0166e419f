//! Limits the nodes per look-up. One node that crashes the provider must not cost all others their answers: a look-up
//! that crashed is repeated in halves, and success doubles the size again. Performs no I/O.

use std::collections::BTreeMap;

use super::survey::{LARGEST, Survey, scheme};

/// Schemes whose look-ups have crashed the provider, with the present maximum of nodes per look-up.
#[derive(Debug, Default)]
pub(super) struct Halving(BTreeMap<Option<String>, usize>);

impl Halving {
    /// Notes a crash at this look-up. Returns whether it is halved: a single node is not.
    pub(super) fn crashed(&mut self, survey: &Survey) -> bool {
        let about = survey.about.len();
        if about > 1 {
            self.0.insert(of(survey), about / 2);
        }
        about > 1
    }

    /// Notes an answer to this look-up.
    pub(super) fn answered(&mut self, survey: &Survey) {
        let scheme = of(survey);
        let Some(most) = self.0.get_mut(&scheme) else {
            return;
        };
        if survey.about.len() >= *most {
            *most = most.saturating_mul(2);
        }
        if *most >= LARGEST {
            self.0.remove(&scheme);
        }
    }

    /// Maximum number of nodes of this scheme per look-up.
    pub(super) fn most(&self, scheme: &Option<String>) -> usize {
        self.0.get(scheme).copied().unwrap_or(LARGEST)
    }
}

fn of(survey: &Survey) -> Option<String> {
    let first = survey.about.first()?;
    scheme(first).map(str::to_owned)
}
