//! Leader migration: which controllers run under which of two leases while they move between two controller managers
//! (PROC-044). Reads no files and elects no leader: the text is an argument.

use ccm_core::well_known::{
    IPAM_CONTROLLER, NODE_CONTROLLER, NODE_LIFECYCLE_CONTROLLER, ROUTE_CONTROLLER,
    SERVICE_CONTROLLER,
};
use serde::{Deserialize, Serialize};

use crate::config::Mistakes;
use crate::yaml_error;

const ANY: &str = "*";
const KIND: &str = "LeaderMigrationConfiguration";
const GROUP: &str = "controllermanager.config.k8s.io";
const LEASES: &str = "leases";
/// Upstream accepts it and then cannot create such a lock.
const ENDPOINTS: &str = "endpoints";

/// The controllers by upstream's canonical names, each with its alias (PROC-020).
pub(crate) const CONTROLLERS: &[(&str, &str)] = &[
    (NODE_CONTROLLER, "cloud-node"),
    (NODE_LIFECYCLE_CONTROLLER, "cloud-node-lifecycle"),
    (SERVICE_CONTROLLER, "service"),
    (ROUTE_CONTROLLER, "route"),
    (IPAM_CONTROLLER, "nodeipam"),
];

/// The lease that a controller runs under.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MigrationLease {
    /// The main lease: the controller does not migrate.
    Main,
    /// The lease of the migration, which both managers compete for.
    Migration,
    /// No lease: another component runs the controller.
    Elsewhere,
}

/// The file as it is parsed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    api_version: String,
    kind: String,
    #[serde(default)]
    leader_name: String,
    #[serde(default)]
    resource_lock: Option<String>,
    #[serde(default)]
    controller_leaders: Vec<ControllerLeader>,
}

/// One controller, and the component whose leader runs it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ControllerLeader {
    #[serde(default)]
    name: String,
    #[serde(default)]
    component: String,
}

/// Configuration of a migration; serialises as the fields that all versions of the file have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Migration {
    /// Name of the migration's Lease.
    pub leader_name: String,
    resource_lock: String,
    #[serde(rename = "controllerLeaders")]
    leaders: Vec<ControllerLeader>,
}

impl Migration {
    /// The default without a file (PROC-045).
    pub(crate) fn built_in() -> Migration {
        let leader = |name: &str| ControllerLeader {
            name: name.to_owned(),
            component: ANY.to_owned(),
        };
        Migration {
            leader_name: "cloud-provider-extraction-migration".to_owned(),
            resource_lock: LEASES.to_owned(),
            leaders: vec![
                leader("route-controller"),
                leader("service-controller"),
                leader(NODE_LIFECYCLE_CONTROLLER),
            ],
        }
    }

    /// Parses a file (PROC-011) strictly, so that a misspelt name cannot make a controller run twice.
    ///
    /// # Errors
    /// All mistakes in the file.
    pub(crate) fn read(text: &str) -> Result<Migration, Mistakes> {
        let migration = Migration::decode(text).map_err(|mistake| Mistakes(vec![mistake]))?;
        let mut mistakes = migration.mistakes();
        if migration.resource_lock == ENDPOINTS {
            mistakes.push("resourceLock value must be \"leases\"".to_owned());
        }
        Mistakes(mistakes).or(migration)
    }

    fn decode(text: &str) -> Result<Migration, String> {
        let file: File =
            serde_saphyr::from_str(text).map_err(|error| yaml_error::describe(&error))?;
        let version = file.api_version.strip_prefix(GROUP);
        let version = version.and_then(|version| version.strip_prefix('/'));
        let is_known = matches!(version, Some("v1" | "v1beta1" | "v1alpha1"));
        if file.kind != KIND || !is_known {
            return Err(format!(
                "expected {KIND} in {GROUP}/v1, v1beta1 or v1alpha1, found {} in {}",
                file.kind, file.api_version
            ));
        }
        let resource_lock = match (version, file.resource_lock) {
            (Some("v1"), None) => LEASES.to_owned(),
            (Some("v1"), Some(_)) => {
                return Err("resourceLock: v1 has no such field: it is always leases".to_owned());
            }
            (_, lock) => lock.unwrap_or_default(),
        };
        Ok(Migration {
            leader_name: file.leader_name,
            resource_lock,
            leaders: file.controller_leaders,
        })
    }

    /// Validates as upstream does.
    fn mistakes(&self) -> Vec<String> {
        let mut mistakes = Vec::new();
        if self.leader_name.is_empty() {
            mistakes.push("leaderName must be set".to_owned());
        }
        if ![LEASES, ENDPOINTS].contains(&self.resource_lock.as_str()) {
            mistakes.push(format!(
                "resourceLock {:?}: expected leases",
                self.resource_lock
            ));
        }
        for (index, leader) in self.leaders.iter().enumerate() {
            if leader.name.is_empty() {
                mistakes.push(format!("controllerLeaders[{index}].name must be set"));
            }
            if leader.component.is_empty() {
                mistakes.push(format!("controllerLeaders[{index}].component must be set"));
            }
        }
        mistakes
    }

    /// The lease under which a controller, given by its canonical name, runs in a process of this component. Of two
    /// entries for one controller the last one counts, as upstream.
    pub(crate) fn place(&self, controller: &str, component: &str) -> MigrationLease {
        let entry = self
            .leaders
            .iter()
            .rev()
            .find(|leader| canonical(&leader.name) == controller);
        match entry {
            None => MigrationLease::Main,
            Some(leader) if leader.component == ANY || leader.component == component => {
                MigrationLease::Migration
            }
            Some(_) => MigrationLease::Elsewhere,
        }
    }
}

/// EDGE-094: names in the file, and in `--controllers`, may be aliases. Upstream's built-in configuration uses the
/// controllers' names in the kube-controller-manager, and no longer finds them (PROC-045); files use them, too.
pub(crate) fn canonical(name: &str) -> &str {
    let alias = match name {
        "service-controller" => "service",
        "route-controller" => "route",
        name => name,
    };
    let found = CONTROLLERS.iter().find(|(_, one)| *one == alias);
    found.map_or(name, |(canonical, _)| canonical)
}

#[cfg(test)]
mod tests;
