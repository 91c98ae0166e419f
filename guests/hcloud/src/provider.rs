//! The provider itself: what the host calls, handed to the file that knows.

use ccm_guest::{Config, Error, FindReply, Instances, Node, Provider, SelfCheck};

use crate::config::Settings;
use crate::{api, find, robot};

/// Hetzner with one configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hetzner {
    settings: Settings,
}

impl Provider for Hetzner {
    fn init(config: &Config) -> Result<Hetzner, Error> {
        let settings = Settings::read(config)?;
        Ok(Hetzner { settings })
    }
}

impl Instances for Hetzner {
    fn find(&self, nodes: Vec<Node>) -> Result<FindReply, Error> {
        find::find(&self.settings, &nodes)
    }
}

impl SelfCheck for Hetzner {
    /// Proves token and reachability by the list of locations, which every token may read; and that the configured
    /// network exists, because a typing error in it would silently leave nodes without InternalIP. Of Robot only a refused
    /// log-in counts: its limits and its maintenance say nothing about the cloud.
    fn check(&self) -> Result<(), Error> {
        api::check()?;
        if let Some(network) = &self.settings.network {
            api::network_id(network)?;
        }
        match &self.settings.robot {
            Some(robot) => match robot::list(robot, robot.list_age) {
                Err(error @ Error::Denied(_)) => Err(error),
                Ok(_) | Err(_) => Ok(()),
            },
            None => Ok(()),
        }
    }
}
