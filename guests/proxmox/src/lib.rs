//! The Proxmox VE provider: virtual machines of one Proxmox cluster as nodes. Several clusters are several providers.
//!
//! In reading order: [`config`] (the operator's values), [`api`] (the only file that speaks HTTP), [`machine`] (a
//! machine of the API → an instance of the contract; pure) and [`find`] (which requests answer which nodes). The page
//! `deploy/docs/tutorial-provider.md` walks through them.

pub mod api;
pub mod config;
pub mod find;
pub mod machine;

use ccm_guest::{Config, Error, FindReply, Instances, Node, Provider, SelfCheck};

use config::{Settings, Zone};

/// The Proxmox provider with its configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proxmox {
    settings: Settings,
}

impl Provider for Proxmox {
    fn init(config: &Config) -> Result<Proxmox, Error> {
        let settings = Settings::read(config)?;
        Ok(Proxmox { settings })
    }
}

impl Instances for Proxmox {
    fn find(&self, nodes: Vec<Node>) -> Result<FindReply, Error> {
        find::find(&self.settings, &nodes)
    }
}

impl SelfCheck for Proxmox {
    /// A token without rights gets an empty list of machines, or machines without their pools, and no error, so its
    /// rights are read.
    fn check(&self) -> Result<(), Error> {
        let rights = api::rights()?;
        if !rights.may_see_machines() {
            return Err(Error::denied(
                "the token may see no machine: it needs the privilege VM.Audit, best on the path /vms",
            ));
        }
        if self.settings.zone == Zone::Pool && !rights.may_see_pools() {
            return Err(Error::denied(
                "the token may see no pool, and pools are the zones: it needs the privilege Pool.Audit, best on the path /pool",
            ));
        }
        Ok(())
    }
}

ccm_guest::export_provider! {
    provider: Proxmox,
    interfaces: [instances, self_check],
    manifest: "manifest.json",
}
