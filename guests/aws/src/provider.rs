//! The provider type: hands the host's calls to the other modules.

use ccm_guest::load_balancer::{
    DeleteRequest, EnsureReply, EnsureRequest, Found, ProgressReply, Service, UpdateRequest,
};
use ccm_guest::routes::{self, Route};
use ccm_guest::{
    Capability, Config, Error, Failure, FindReply, Instances, LoadBalancer, Node, Provider, Routes,
    SelfCheck,
};

use crate::config::Settings;
use crate::load_balancer::{deletion, ensure};
use crate::{ec2, instances, own_instance};

#[cfg(test)]
mod tests;

/// The AWS provider with its configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Aws {
    settings: Settings,
}

impl Aws {
    /// The settings of a call. If the configuration names no cluster, reads the tags of the instance, once an hour.
    ///
    /// # Errors
    /// The tags cannot be read, or do not name one cluster.
    pub(crate) fn settings(&self) -> Result<Settings, Error> {
        let mut settings = self.settings.clone();
        if let Some(instance) = &self.settings.own_instance {
            settings.cluster = own_instance::cluster(instance)?;
        }
        Ok(settings)
    }
}

impl Provider for Aws {
    fn init(config: &Config) -> Result<Aws, Error> {
        let settings = Settings::read(config)?;
        Ok(Aws { settings })
    }

    /// Routes only with `--cluster-cidr`: without it the cluster's routes cannot be told from others.
    fn enabled(&self, exported: &[Capability]) -> Vec<Capability> {
        let mut enabled = exported.to_vec();
        let has_pod_ranges = !self.settings.pod_ranges.is_empty();
        enabled.retain(|one| *one != Capability::Routes || has_pod_ranges);
        enabled
    }
}

impl Instances for Aws {
    fn find(&self, nodes: Vec<Node>) -> Result<FindReply, Error> {
        instances::find(&self.settings()?, &nodes)
    }
}

impl LoadBalancer for Aws {
    fn ensure(&self, request: EnsureRequest) -> Result<EnsureReply, Failure> {
        ensure::ensure(&self.settings()?, &request)
    }

    fn update_targets(&self, request: UpdateRequest) -> Result<ProgressReply, Failure> {
        ensure::update_targets(&self.settings()?, &request)
    }

    fn delete(&self, request: DeleteRequest) -> Result<ProgressReply, Failure> {
        Ok(deletion::delete(&self.settings()?, &request)?)
    }

    fn get(&self, service: Service) -> Result<Found, Failure> {
        Ok(deletion::get(&service)?)
    }
}

impl Routes for Aws {
    fn list(&self, nodes: Vec<Node>) -> Result<Vec<Route>, Failure> {
        Ok(crate::routes::list(&self.settings()?, &nodes)?)
    }

    fn create(&self, request: routes::CreateRequest) -> Result<routes::ProgressReply, Failure> {
        Ok(crate::routes::create(&self.settings()?, &request)?)
    }

    fn delete(&self, request: routes::DeleteRequest) -> Result<routes::ProgressReply, Failure> {
        Ok(crate::routes::delete(&self.settings()?, &request)?)
    }
}

impl SelfCheck for Aws {
    /// Reads the zones: this proves the credential, the endpoint and the region's name. And finds the cluster's ID.
    fn check(&self) -> Result<(), Error> {
        let zones = ec2::zones()?;
        let zones: Vec<&str> = zones.iter().map(|zone| zone.zone_name.as_str()).collect();
        let region = &self.settings.region;
        if zones.iter().any(|zone| zone.starts_with(region)) {
            return self.settings().map(drop);
        }
        let zones = zones.join(", ");
        Err(Error::invalid(format!(
            "Region: the endpoint has the zones {zones}, none of them in {region}"
        )))
    }
}
