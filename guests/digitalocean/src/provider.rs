//! The provider type: dispatches the host's calls to the other modules.

use ccm_guest::load_balancer::{
    DeleteRequest, EnsureReply, EnsureRequest, Found, ProgressReply, Service, UpdateRequest,
};
use ccm_guest::{
    Config, Error, Failure, FindReply, Instances, LoadBalancer, Node, Provider, SelfCheck,
};

use crate::config::Settings;
use crate::load_balancer::{deletion, ensure};
use crate::{api, find};

#[cfg(test)]
mod tests;

/// The DigitalOcean provider with its configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DigitalOcean {
    settings: Settings,
}

impl Provider for DigitalOcean {
    fn init(config: &Config) -> Result<DigitalOcean, Error> {
        let settings = Settings::read(config)?;
        Ok(DigitalOcean { settings })
    }
}

impl Instances for DigitalOcean {
    fn find(&self, nodes: Vec<Node>) -> Result<FindReply, Error> {
        find::find(&nodes)
    }
}

impl LoadBalancer for DigitalOcean {
    fn ensure(&self, request: EnsureRequest) -> Result<EnsureReply, Failure> {
        ensure::ensure(&self.settings, &request)
    }

    fn update_targets(&self, request: UpdateRequest) -> Result<ProgressReply, Failure> {
        Ok(ensure::update_targets(&self.settings, &request)?)
    }

    fn delete(&self, request: DeleteRequest) -> Result<ProgressReply, Failure> {
        Ok(deletion::delete(&request.service)?)
    }

    fn get(&self, service: Service) -> Result<Found, Failure> {
        Ok(deletion::get(&service)?)
    }
}

impl SelfCheck for DigitalOcean {
    /// Checks token, reachability and `REGION` with the list of regions, as the Go manager does when it starts; and
    /// that the configured VPC exists, because without it no load balancer could be created.
    fn check(&self) -> Result<(), Error> {
        let regions = api::regions()?;
        if let Some(region) = &self.settings.region
            && !regions.contains(region)
        {
            return Err(Error::invalid(format!(
                "REGION: there is no region {region:?}"
            )));
        }
        match &self.settings.vpc {
            Some(vpc) => api::vpc_region(vpc).map(drop),
            None => Ok(()),
        }
    }
}
