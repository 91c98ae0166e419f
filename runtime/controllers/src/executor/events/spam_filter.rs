//! Limits the Events of one type about one object, as client-go's spam filter does: whoever always has something new to
//! say, such as a provider that is polled ten times a second, does not fill the API server's store. The Events of providers
//! have a budget of their own, whatever their reasons are, so that their notices leave the manager's failures theirs. Sends
//! nothing.

use std::collections::HashMap;

use ccm_core::cloud::CloudEvent;
use ccm_core::reconciliation::event::EventSubject;
use k8s_openapi::jiff::Timestamp;

/// Events that may come at once, and the seconds after which there may be one more; client-go's values.
const BURST: f64 = 25.0;
const REFILL: f64 = 300.0;
/// Maximum number of remembered budgets; client-go's value. Beyond it the full ones are forgotten, or else all.
const MOST: usize = 4096;

/// The Events that each component may still send.
#[derive(Debug, Default)]
pub(super) struct SpamFilter {
    budgets: HashMap<Source, Budget>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Source {
    component: String,
    uid: String,
    name: String,
    event_type: &'static str,
    is_from_provider: bool,
}

#[derive(Debug)]
struct Budget {
    left: f64,
    at: Timestamp,
}

impl Budget {
    /// What is left at `now`. A clock that was set back gives nothing.
    fn left(&self, now: Timestamp) -> f64 {
        let gained = now.duration_since(self.at).as_secs_f64().max(0.0) / REFILL;
        (self.left + gained).min(BURST)
    }
}

impl SpamFilter {
    /// Takes one Event from its budget at `now`. `false`: none is left, and it is not sent.
    pub(super) fn admits(
        &mut self,
        about: &EventSubject<'_>,
        event: &CloudEvent,
        now: Timestamp,
    ) -> bool {
        let source = Source {
            component: about.component.to_owned(),
            uid: about.uid.unwrap_or_default().to_owned(),
            name: about.name.to_owned(),
            event_type: event.event_type.as_str(),
            is_from_provider: event.is_from_provider,
        };
        if self.budgets.len() >= MOST {
            self.budgets.retain(|_, budget| budget.left(now) < BURST);
        }
        if self.budgets.len() >= MOST {
            self.budgets.clear();
        }
        let full = Budget {
            left: BURST,
            at: now,
        };
        let budget = self.budgets.entry(source).or_insert(full);
        let left = budget.left(now);
        let is_admitted = left >= 1.0;
        *budget = Budget {
            left: if is_admitted { left - 1.0 } else { left },
            at: now,
        };
        is_admitted
    }
}
