//! Upstream's cases of leader migration, and our departures from them.
#![allow(clippy::unwrap_used, reason = "tests")]

use ccm_core::well_known::COMPONENT;

use super::*;

const KCM: &str = "kube-controller-manager";

fn text(version: &str, rest: &str) -> String {
    format!("kind: {KIND}\napiVersion: {GROUP}/{version}\n{rest}")
}

fn with(leaders: &[(&str, &str)]) -> Migration {
    Migration {
        leaders: leaders
            .iter()
            .map(|(name, component)| ControllerLeader {
                name: (*name).to_owned(),
                component: (*component).to_owned(),
            })
            .collect(),
        ..Migration::built_in()
    }
}

/// Upstream's TestLeaderMigratorFilterFunc.
#[test]
fn proc_044_a_controller_runs_where_the_file_says() {
    use MigrationLease::{Elsewhere, Main, Migration as Migrated};
    let from: &[_] = &[
        ("route-controller", KCM),
        ("service-controller", KCM),
        ("cloud-node-lifecycle-controller", KCM),
    ];
    let to: &[_] = &[
        ("route-controller", COMPONENT),
        ("service-controller", COMPONENT),
        ("cloud-node-lifecycle-controller", COMPONENT),
    ];
    let any: &[_] = &[
        ("route-controller", ANY),
        ("service-controller", ANY),
        ("cloud-node-lifecycle-controller", ANY),
    ];
    for (case, leaders, component, listed) in [
        ("TestLeaderMigratorFilterFunc/01", from, KCM, Migrated),
        (
            "TestLeaderMigratorFilterFunc/02",
            from,
            COMPONENT,
            Elsewhere,
        ),
        ("TestLeaderMigratorFilterFunc/03", to, KCM, Elsewhere),
        ("TestLeaderMigratorFilterFunc/04", to, COMPONENT, Migrated),
        ("TestLeaderMigratorFilterFunc/05", any, KCM, Migrated),
        ("TestLeaderMigratorFilterFunc/06", any, COMPONENT, Migrated),
    ] {
        let migration = with(leaders);
        for (controller, place) in [
            ("node-ipam-controller", Main),
            (NODE_CONTROLLER, Main),
            ("node-route-controller", listed),
            ("service-lb-controller", listed),
            (NODE_LIFECYCLE_CONTROLLER, listed),
        ] {
            assert_eq!(
                migration.place(controller, component),
                place,
                "{case}: {controller}"
            );
        }
    }
}

/// Upstream's TestReadLeaderMigrationConfiguration.
#[test]
fn proc_011_a_file_is_read_strictly() {
    let basic = "leaderName: migration-120-to-121\nresourceLock: leases\ncontrollerLeaders: []\n";
    for (case, text, expected) in [
        (
            "TestReadLeaderMigrationConfiguration/01",
            String::new(),
            Err("unexpected end"),
        ),
        (
            "TestReadLeaderMigrationConfiguration/02",
            text("v1alpha1", basic).replace(KIND, "AdmissionConfiguration"),
            Err("expected LeaderMigrationConfiguration"),
        ),
        (
            "wrong version",
            text("v2", basic),
            Err("expected LeaderMigrationConfiguration"),
        ),
        (
            "TestReadLeaderMigrationConfiguration/03",
            text("v1alpha1", basic),
            Ok(("leases", 0)),
        ),
        (
            "TestReadLeaderMigrationConfiguration/04",
            text("v1alpha1", &basic.replace("leases", "endpoints")),
            Ok(("endpoints", 0)),
        ),
        (
            "TestReadLeaderMigrationConfiguration/05",
            text("v1alpha1", &format!("{basic}foo: bar\n")),
            Err("foo"),
        ),
        (
            "unknown field of a leader",
            text(
                "v1",
                "leaderName: x\ncontrollerLeaders: [{name: a-controller, component: b, foo: bar}]\n",
            ),
            Err("foo"),
        ),
        (
            "a field that v1 has no more",
            text("v1", basic),
            Err("resourceLock"),
        ),
        (
            "TestReadLeaderMigrationConfiguration/06",
            text("v1alpha1", &format!("{basic}leaderName: other\n")),
            Err("leaderName"),
        ),
        (
            "TestReadLeaderMigrationConfiguration/07",
            text(
                "v1alpha1",
                "leaderName: x\nresourceLock: leases\ncontrollerLeaders:\n- name: route-controller\n  component: kube-controller-manager\n- name: service-controller\n  component: cloud-controller-manager\n",
            ),
            Ok(("leases", 2)),
        ),
    ] {
        let read = Migration::decode(&text);
        match (expected, read) {
            (Ok((lock, leaders)), Ok(read)) => {
                assert_eq!(read.resource_lock, lock, "{case}");
                assert_eq!(read.leaders.len(), leaders, "{case}");
            }
            (Err(word), Err(mistake)) => assert!(mistake.contains(word), "{case}: {mistake}"),
            (_, read) => panic!("{case}: {read:?}"),
        }
    }
}

/// Upstream's TestValidateLeaderMigrationConfiguration.
#[test]
fn proc_011_a_file_needs_a_name_and_a_known_lock() {
    let valid = with(&[("route-controller", KCM)]);
    for (case, migration, mistakes) in [
        (
            "TestValidateLeaderMigrationConfiguration/01",
            Migration {
                leader_name: String::new(),
                ..valid.clone()
            },
            1,
        ),
        (
            "TestValidateLeaderMigrationConfiguration/02",
            Migration {
                resource_lock: "invalid".to_owned(),
                ..valid.clone()
            },
            1,
        ),
        ("TestValidateLeaderMigrationConfiguration/03", with(&[]), 0),
        (
            "TestValidateLeaderMigrationConfiguration/04",
            Migration {
                resource_lock: ENDPOINTS.to_owned(),
                ..valid.clone()
            },
            0,
        ),
        ("a leader without anything", with(&[("", "")]), 2),
    ] {
        assert_eq!(migration.mistakes().len(), mistakes, "{case}");
    }
}

/// Upstream's TestLeaderMigrationOptions.
#[test]
fn proc_045_every_version_of_the_file_is_taken_and_there_is_one_built_in() {
    let leaders = |component: &str| {
        format!(
            "leaderName: test-leader-migration\nresourceLock: leases\ncontrollerLeaders:\n- name: route-controller\n  component: \"{component}\"\n- name: service-controller\n  component: \"{component}\"\n- name: cloud-node-lifecycle-controller\n  component: \"{component}\"\n"
        )
    };
    let without_lock = |text: String| text.replace("resourceLock: leases\n", "");
    let unlocked = without_lock(leaders("*"));
    let ipam = format!("{unlocked}- name: node-ipam-controller\n  component: \"*\"\n");
    for (case, read, name, count) in [
        (
            "TestLeaderMigrationOptions/01",
            Migration::built_in(),
            "cloud-provider-extraction-migration",
            3,
        ),
        (
            "TestLeaderMigrationOptions/02",
            Migration::read(&text("v1alpha1", &leaders("*"))).unwrap(),
            "test-leader-migration",
            3,
        ),
        (
            "TestLeaderMigrationOptions/03",
            Migration::read(&text("v1beta1", &leaders("*"))).unwrap(),
            "test-leader-migration",
            3,
        ),
        (
            "TestLeaderMigrationOptions/04",
            Migration::read(&text("v1", &unlocked)).unwrap(),
            "test-leader-migration",
            3,
        ),
        (
            "TestLeaderMigrationOptions/05",
            Migration::read(&text("v1", &ipam)).unwrap(),
            "test-leader-migration",
            4,
        ),
        (
            "TestLeaderMigrationOptions/06",
            Migration::read(&text("v1", &without_lock(leaders(COMPONENT)))).unwrap(),
            "test-leader-migration",
            3,
        ),
    ] {
        assert_eq!(read.leader_name, name, "{case}");
        assert_eq!(read.resource_lock, LEASES, "{case}");
        assert_eq!(read.leaders.len(), count, "{case}");
        assert_eq!(
            read.place(NODE_LIFECYCLE_CONTROLLER, COMPONENT),
            MigrationLease::Migration,
            "{case}"
        );
    }
}

#[test]
fn proc_011_the_lock_is_defaulted_in_v1_only() {
    for version in ["v1beta1", "v1alpha1"] {
        let read = Migration::read(&text(version, "leaderName: x\n"));
        let mistakes = read.unwrap_err().to_string();
        assert!(mistakes.contains("resourceLock"), "{version}: {mistakes}");
    }
}

#[test]
fn proc_044_a_lock_that_cannot_be_made_is_refused_before_the_election_with_all_other_mistakes() {
    let text = text(
        "v1beta1",
        "resourceLock: endpoints\ncontrollerLeaders: [{name: route-controller}]\n",
    );
    let mistakes = Migration::read(&text).unwrap_err().to_string();
    for word in [
        "leaderName must be set",
        "controllerLeaders[0].component must be set",
        "resourceLock value must be \"leases\"",
    ] {
        assert!(mistakes.contains(word), "{mistakes}");
    }
}

#[test]
fn edge_094_aliases_and_former_names_are_resolved() {
    for (name, controller) in [
        ("cloud-node", NODE_CONTROLLER),
        ("cloud-node-lifecycle", NODE_LIFECYCLE_CONTROLLER),
        ("service", "service-lb-controller"),
        ("service-controller", "service-lb-controller"),
        ("route", "node-route-controller"),
        ("route-controller", "node-route-controller"),
        ("nodeipam", "node-ipam-controller"),
        ("node-route-controller", "node-route-controller"),
    ] {
        let migration = with(&[(name, COMPONENT)]);
        assert_eq!(
            migration.place(controller, COMPONENT),
            MigrationLease::Migration,
            "{name}"
        );
    }
    // Upstream's built-in configuration does not find these two (PROC-045).
    for controller in ["service-lb-controller", "node-route-controller"] {
        let place = Migration::built_in().place(controller, COMPONENT);
        assert_eq!(place, MigrationLease::Migration, "{controller}");
    }
}

#[test]
fn of_two_entries_the_last_one_counts() {
    let migration = with(&[("route", KCM), ("node-route-controller", COMPONENT)]);
    assert_eq!(
        migration.place("node-route-controller", COMPONENT),
        MigrationLease::Migration
    );
}
