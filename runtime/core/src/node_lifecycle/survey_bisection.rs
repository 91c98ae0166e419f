//! About how many nodes a provider is asked at once. One node that makes it crash must not take the answers of all others:
//! what crashed is asked in halves, and success doubles again. Asks nobody.

use std::collections::BTreeMap;

use crate::cloud::error::ProviderError;

use super::survey::{LARGEST, Survey, scheme};

/// The schemes whose provider has crashed, and about how many nodes of each it is asked at once.
#[derive(Debug, Default)]
pub(super) struct Halving(BTreeMap<Option<String>, usize>);

/// Whether one of the nodes that were asked about may be the cause.
pub(super) fn is_crash(error: &ProviderError) -> bool {
    matches!(
        error,
        ProviderError::Trapped(_) | ProviderError::Internal(_) | ProviderError::TimedOut(_)
    )
}

impl Halving {
    /// The provider crashed at this survey. Says whether it is asked in halves: one node has none.
    pub(super) fn crashed(&mut self, survey: &Survey) -> bool {
        let about = survey.about.len();
        if about > 1 {
            self.0.insert(of(survey), about / 2);
        }
        about > 1
    }

    /// The provider answered this survey.
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

    /// About how many nodes of this scheme at once.
    pub(super) fn most(&self, scheme: &Option<String>) -> usize {
        self.0.get(scheme).copied().unwrap_or(LARGEST)
    }
}

fn of(survey: &Survey) -> Option<String> {
    let first = survey.about.first()?;
    scheme(first).map(str::to_owned)
}
