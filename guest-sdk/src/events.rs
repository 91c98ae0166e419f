//! Events about the nodes of one [`Instances::find`](crate::Instances::find), within the contract's limits.
//! [`event`](crate::event) has the texts of a single one.

use crate::{Event, NodeEvent};

#[cfg(test)]
mod tests;

/// The contract's maximum number of events per reply, and per node.
const MAX_EVENTS: usize = 256;
const MAX_EVENTS_PER_NODE: usize = 8;

/// Events about nodes. Those beyond the contract's limits are dropped: the host would refuse the whole reply for them.
#[derive(Debug, Default)]
pub struct Events {
    events: Vec<NodeEvent>,
}

impl Events {
    /// Adds an event about the node at this index of the call.
    // A module is smaller with it than with calls.
    #[inline]
    pub fn add(&mut self, node: usize, event: Event) {
        if let Ok(node) = u32::try_from(node) {
            self.push(NodeEvent { node, event });
        }
    }

    pub(crate) fn push(&mut self, event: NodeEvent) {
        let same = self.events.iter().filter(|one| one.node == event.node);
        if self.events.len() < MAX_EVENTS && same.count() < MAX_EVENTS_PER_NODE {
            self.events.push(event);
        }
    }

    /// The events, for [`FindReply::with_events`](crate::FindReply::with_events).
    pub fn into_vec(self) -> Vec<NodeEvent> {
        self.events
    }
}
