//! The provider type: dispatches the host's calls to the other modules.

use ccm_guest::load_balancer::{
    DeleteRequest, EnsureReply, EnsureRequest, Found, ProgressReply, Service, UpdateRequest,
};
use ccm_guest::routes::{self, Route};
use ccm_guest::{
    Capability, Config, Error, Failure, FindReply, Instances, LoadBalancer, Node, Provider, Routes,
    SelfCheck,
};

use crate::config::{RouteSettings, Settings};
use crate::load_balancer::{deletion, ensure};
use crate::routes::{change, list};
use crate::{api, find, robot};

#[cfg(test)]
mod tests;

/// The Hetzner provider with its configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hetzner {
    settings: Settings,
}

impl Provider for Hetzner {
    fn init(config: &Config) -> Result<Hetzner, Error> {
        let settings = Settings::read(config)?;
        Ok(Hetzner { settings })
    }

    /// Load balancers unless `HCLOUD_LOAD_BALANCERS_ENABLED` is false; routes if there is a network, unless
    /// `HCLOUD_NETWORK_ROUTES_ENABLED` is false.
    fn enabled(&self, exported: &[Capability]) -> Vec<Capability> {
        let mut enabled = exported.to_vec();
        enabled.retain(|one| match one {
            Capability::LoadBalancer => self.settings.load_balancers.enabled,
            Capability::Routes => self.settings.routes.is_some(),
            _ => true,
        });
        enabled
    }
}

impl Hetzner {
    fn routes(&self) -> Result<&RouteSettings, Error> {
        let routes = self.settings.routes.as_ref();
        routes.ok_or_else(|| Error::unsupported("routes are not enabled"))
    }
}

impl Instances for Hetzner {
    fn find(&self, nodes: Vec<Node>) -> Result<FindReply, Error> {
        find::find(&self.settings, &nodes)
    }
}

impl LoadBalancer for Hetzner {
    fn ensure(&self, request: EnsureRequest) -> Result<EnsureReply, Failure> {
        Ok(ensure::ensure(&self.settings, &request)?)
    }

    fn update_targets(&self, request: UpdateRequest) -> Result<ProgressReply, Failure> {
        Ok(ensure::update_targets(&self.settings, &request)?)
    }

    fn delete(&self, request: DeleteRequest) -> Result<ProgressReply, Failure> {
        Ok(deletion::delete(&request)?)
    }

    fn get(&self, service: Service) -> Result<Found, Failure> {
        Ok(deletion::get(&self.settings, &service)?)
    }
}

impl Routes for Hetzner {
    fn list(&self, nodes: Vec<Node>) -> Result<Vec<Route>, Failure> {
        Ok(list::list(self.routes()?, &nodes)?)
    }

    fn create(&self, request: routes::CreateRequest) -> Result<routes::ProgressReply, Failure> {
        Ok(change::create(self.routes()?, &request)?)
    }

    fn delete(&self, request: routes::DeleteRequest) -> Result<routes::ProgressReply, Failure> {
        Ok(change::delete(self.routes()?, &request)?)
    }
}

impl SelfCheck for Hetzner {
    /// Checks token and reachability with the list of locations, which every token may read. Checks that the
    /// configured network exists, because a typing error in it would silently leave nodes without InternalIP. For
    /// Robot only a refused log-in counts: its limits and maintenance do not concern the cloud.
    fn check(&self) -> Result<(), Error> {
        api::check()?;
        if let Some(network) = &self.settings.network {
            api::network_id(network)?;
        }
        match self.settings.robot.granted() {
            Some(robot) => match robot::list(robot, robot.list_age) {
                Err(error @ Error::Denied(_)) => Err(error),
                Ok(_) | Err(_) => Ok(()),
            },
            None => Ok(()),
        }
    }
}
