//! The demo's status page: the one of `ccm run`, on loopback, without authorisation.

use ccm_core::safety::permit::Mode;
use ccm_serving::Server;

use super::interrupts::Interrupts;
use super::narrate::Narrator;
use crate::provider_manager::ProviderManager;
use crate::status_collector::StatusCollector;

/// A page that is served until this is dropped.
pub(super) struct StatusPage<'a> {
    pub(super) status: StatusCollector,
    server: Server,
    narrator: &'a Narrator,
}

impl<'a> StatusPage<'a> {
    /// Serves the page on a free port, and prints its address.
    pub(super) async fn open(
        providers: &ProviderManager,
        narrator: &'a Narrator,
    ) -> anyhow::Result<StatusPage<'a>> {
        let status = StatusCollector::new(Mode::Enforce, false, "simulated".to_owned());
        status.shows_providers(providers.overview());
        let server = Server::status(([127, 0, 0, 1], 0).into(), status.source()).await?;
        let text = format!("as a page while it runs: http://{}/", server.address());
        narrator.print("status", "", &text);
        Ok(StatusPage {
            status,
            server,
            narrator,
        })
    }

    /// Keeps the page open until Ctrl-C.
    pub(super) async fn stays_open(&self, interrupts: &Interrupts) -> anyhow::Result<()> {
        let address = self.server.address();
        let text = format!("stays open until Ctrl-C: http://{address}/");
        self.narrator.print("status", "", &text);
        interrupts.awaited().await
    }
}
