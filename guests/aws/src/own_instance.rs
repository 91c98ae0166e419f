//! The cluster's ID in the tags of the manager's own instance, for a configuration that does not name it: the Go
//! provider's way, and its rules. The host asks the metadata service for the instance's ID; a guest cannot.

use std::time::Duration;

use ccm_guest::{Error, state};

use crate::config::Cluster;
use crate::ec2;

#[cfg(test)]
mod tests;

/// The key of the cluster in the store.
const KEY: &str = "cluster";
/// How long the cluster is kept: the host's maximum. The Go provider reads the tags once, when it starts.
const AGE: Duration = Duration::from_secs(3600);

/// The cluster that the tags of this instance name, kept for an hour.
///
/// # Errors
/// A refusal by AWS, or no answer; tags that name no cluster, or several.
pub fn cluster(instance: &str) -> Result<Cluster, Error> {
    if let Some(cluster) = state::get_json(KEY) {
        return Ok(cluster);
    }
    let Some(tags) = ec2::tags_of(instance)? else {
        // Answers of EC2 may lag behind the start of an instance.
        return Err(Error::unavailable(format!(
            "KubernetesClusterID is not set, and the region has no instance {instance}, whose tags would name the cluster: set it, or check Region"
        )));
    };
    let cluster = Cluster::of_instance(instance, &tags)?;
    state::set_json(KEY, &cluster, AGE);
    Ok(cluster)
}
