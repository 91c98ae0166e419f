//! The shipped guest under several versions, and the simulator of its cloud.

use std::sync::Arc;

use ccm_delivery::artifact::Artifact;
use ccm_delivery::load_policy::LoadPolicyOf;
pub(crate) use ccm_fixtures::TOKEN;
use ccm_host::grant::{Credential, Secret};
use ccm_host::{GuestConfig, Inspection, Loading};
use ccm_sim::hetzner::{Hetzner, Options};
use ccm_tests::versions::numbered;

use crate::rollout::world::PLACE;

/// Versions that begin like this have another default.
const CHANGED: &str = "9.";

/// The shipped guest with this version number.
pub(crate) fn version(number: &str) -> Artifact {
    Artifact::new(PLACE, numbered(embedded_guests::HCLOUD, number))
}

/// A cloud without a request limit.
pub(crate) async fn cloud() -> Hetzner {
    let options = Options {
        rate_limit: None,
        ..Options::new(TOKEN)
    };
    Hetzner::start(options).await.unwrap()
}

/// The load policy that grants everything that the guest requests, at this cloud.
pub(crate) fn load_policy(cloud: &Hetzner) -> Arc<dyn LoadPolicyOf> {
    Arc::new(Granted {
        endpoint: cloud.endpoint(),
    })
}

/// The changed versions' other default is a configured value here, which makes the same difference.
struct Granted {
    endpoint: String,
}

impl LoadPolicyOf for Granted {
    fn load_policy(&self, inspection: &Inspection) -> Result<Loading, Vec<String>> {
        let manifest = &inspection.manifest;
        let mut grants = manifest.as_grants();
        for target in &mut grants.targets {
            target.endpoint = self.endpoint.parse().unwrap();
            target.credential = Credential::Bearer(Secret::new(TOKEN.to_owned()));
        }
        let mut values = vec![("HCLOUD_LOAD_BALANCERS_LOCATION", "fsn1")];
        if manifest.version.starts_with(CHANGED) {
            values.push(("HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_RETRIES", "5"));
        }
        let values = values.into_iter();
        Ok(Loading {
            grants,
            config: GuestConfig {
                schemes: Vec::new(),
                cluster_name: "kubernetes".to_owned(),
                cluster_cidrs: Vec::new(),
                values: values
                    .map(|(key, value)| (key.to_owned(), value.to_owned()))
                    .collect(),
            },
            ..Loading::default()
        })
    }
}
