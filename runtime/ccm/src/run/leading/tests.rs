//! The lease under which each controller runs, and its identity.
#![allow(clippy::unwrap_used, reason = "tests")]

use ccm_core::safety::lease::Timing;

use super::*;
use crate::flags::FLAGS;

fn election() -> ElectionFlags {
    ElectionFlags {
        timing: Timing {
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        },
        name: "cloud-controller-manager".to_owned(),
        namespace: "kube-system".to_owned(),
        migration: None,
    }
}

const BOTH: [&str; 2] = [NODE_CONTROLLER, NODE_LIFECYCLE_CONTROLLER];

fn name(group: &Group) -> Option<&str> {
    let lease = group.lease.as_ref()?;
    assert_eq!(lease.settings.namespace, "kube-system");
    Some(&lease.settings.name)
}

#[test]
fn proc_046_without_an_election_everything_runs_and_nothing_is_stood_for() {
    let built_in = Migration::built_in();
    let groups = Groups::new(None, Some(&built_in), BOTH.to_vec());
    assert_eq!(name(&groups.main), None);
    assert_eq!(groups.main.controllers, BOTH);
    assert!(groups.migration.is_none());
}

#[test]
fn what_was_deleted_is_stored_in_the_lease_that_is_held_or_in_the_one_that_would_be() {
    let other = ElectionFlags {
        name: "other".to_owned(),
        namespace: "clouds".to_owned(),
        ..election()
    };
    let default = |name: &str| FLAGS.iter().find(|flag| flag.name == name).unwrap().default;
    let by_default = [
        default("leader-elect-resource-namespace"),
        default("leader-elect-resource-name"),
    ];
    for (election, expected) in [(Some(other), ["clouds", "other"]), (None, by_default)] {
        let groups = Groups::new(election.as_ref(), None, BOTH.to_vec());
        let stored = groups.main.budget_lease();
        assert_eq!([stored.namespace, stored.name], expected);
    }
}

#[test]
fn proc_040_without_a_migration_everything_runs_under_the_main_lease() {
    let groups = Groups::new(Some(&election()), None, BOTH.to_vec());
    assert_eq!(name(&groups.main), Some("cloud-controller-manager"));
    assert_eq!(groups.main.controllers, BOTH);
    assert!(groups.migration.is_none());
}

#[test]
fn proc_045_with_the_built_in_migration_the_lifecycle_controller_runs_under_its_lease() {
    let built_in = Migration::built_in();
    let groups = Groups::new(Some(&election()), Some(&built_in), BOTH.to_vec());
    assert_eq!(groups.main.controllers, [NODE_CONTROLLER]);
    let migration = groups.migration.unwrap();
    assert_eq!(
        name(&migration),
        Some("cloud-provider-extraction-migration")
    );
    assert_eq!(migration.controllers, [NODE_LIFECYCLE_CONTROLLER]);
    // PROC-044: the message names the lease that was lost.
    let lost_message = |group: &Group| group.lease.as_ref().unwrap().lost_message;
    assert_eq!(lost_message(&groups.main), "leaderelection lost");
    assert_eq!(lost_message(&migration), "migration leaderelection lost");
}

#[test]
fn proc_044_what_another_component_runs_is_not_run_here_and_what_is_off_stays_off() {
    let text = "kind: LeaderMigrationConfiguration\napiVersion: controllermanager.config.k8s.io/v1\nleaderName: m\ncontrollerLeaders:\n- {name: cloud-node-lifecycle, component: kube-controller-manager}\n";
    let migration = Migration::read(text).unwrap();
    let groups = Groups::new(Some(&election()), Some(&migration), BOTH.to_vec());
    assert_eq!(groups.main.controllers, [NODE_CONTROLLER]);
    assert!(groups.migration.as_ref().unwrap().controllers.is_empty());
    assert!(!groups.is_idle());
    let groups = Groups::new(Some(&election()), Some(&migration), BOTH[1..].to_vec());
    assert!(groups.is_idle());
    // A plan stands for no lease.
    let groups = Groups::new(None, Some(&migration), BOTH.to_vec());
    assert_eq!(groups.main.controllers, [NODE_CONTROLLER]);
    assert!(groups.migration.is_none());
}

#[test]
fn proc_040_an_identity_is_the_hosts_name_and_something_that_was_never_there_before() {
    let (first, second) = (identity(), identity());
    assert_ne!(first, second);
    let (host, id) = first.rsplit_once('_').unwrap();
    assert_eq!(host, second.rsplit_once('_').unwrap().0);
    assert_eq!(id.len(), 36);
    assert!(!first.contains(char::is_whitespace));
}
