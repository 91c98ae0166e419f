//! Tells the provider manager whether this process leads. Decides nothing.

use std::time::Duration;

use ccm_delivery::rollout_controller::{Lead, UnwrittenRecords};
use tokio::sync::watch;
use tokio::time::timeout;

/// How long the end of the lead waits for records that are still to be written.
const RECORDED_WITHIN: Duration = Duration::from_secs(2);

/// Signals to the provider manager whether this process leads.
#[derive(Clone, Default)]
pub(crate) struct LeadershipSignal {
    pub(super) lead: watch::Sender<Option<Lead>>,
    pub(super) writer: watch::Sender<Option<kube::Client>>,
    pub(super) unwritten: UnwrittenRecords,
}

impl LeadershipSignal {
    /// Starts leading: versions may be decided, and recorded with this client.
    pub(crate) fn take(&self, lead: Lead, writer: Option<kube::Client>) {
        self.writer.send_replace(writer);
        self.lead.send_replace(Some(lead));
    }

    /// Stops leading: versions are neither decided nor recorded any more. Waits until the records have what was decided, but not
    /// longer than [`RECORDED_WITHIN`]: the next leader would try a rejected version again.
    pub(crate) async fn give_back(&self) {
        let _ = timeout(RECORDED_WITHIN, self.unwritten.written()).await;
        self.lead.send_replace(None);
        self.writer.send_replace(None);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ccm_core::safety::tenure::Tenure;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_lead_ends_when_the_records_are_written() {
        let signal = LeadershipSignal::default();
        let tenure = Arc::new(Tenure::unlimited());
        signal.take(Lead { tenure }, None);
        let record = signal.unwritten.add();
        let gives_back = signal.give_back();
        tokio::pin!(gives_back);
        let waits = timeout(Duration::from_secs(1), &mut gives_back).await;
        assert!(waits.is_err() && signal.lead.borrow().is_some());
        drop(record);
        gives_back.await;
        assert!(signal.lead.borrow().is_none());
    }
}
