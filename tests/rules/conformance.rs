//! `conformance.md` lists every statement about the controllers and leader election, and every case of upstream's own
//! tests of the former, with the tests that hold it here. This checks that no statement is missing or listed twice,
//! that each test exists, and that a test of a case has the case's ID in its name. It cannot judge a test's quality.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use crate::lists::{Row, assert_none, files, functions, root, sources, text};

/// The statements that must have a row: all about the node controller, the node lifecycle controller, the process and
/// leader election, the service, the route and the node IPAM controller; of the sharp edges those about them.
const STATEMENTS: [(&str, RangeInclusive<u32>); 47] = [
    ("NODE", 1..=7),
    ("NODE", 10..=13),
    ("NODE", 20..=25),
    ("NODE", 30..=35),
    ("NODE", 40..=48),
    ("NODE", 50..=60),
    ("NODE", 70..=73),
    ("NODE", 80..=84),
    ("LIFE", 1..=19),
    ("PROC", 1..=5),
    ("PROC", 10..=11),
    ("PROC", 20..=23),
    ("PROC", 30..=34),
    ("PROC", 40..=47),
    ("PROC", 50..=56),
    ("PROC", 60..=61),
    ("PROC", 70..=76),
    ("PROC", 80..=81),
    ("EDGE", 1..=7),
    ("EDGE", 10..=12),
    ("EDGE", 90..=91),
    ("EDGE", 94..=95),
    ("EDGE", 20..=27),
    ("EDGE", 30..=33),
    ("EDGE", 40..=42),
    ("EDGE", 50..=51),
    ("SVC", 1..=9),
    ("SVC", 10..=16),
    ("SVC", 20..=24),
    ("SVC", 30..=39),
    ("SVC", 40..=47),
    ("SVC", 50..=56),
    ("SVC", 60..=73),
    ("SVC", 80..=85),
    ("SVC", 90..=92),
    ("SVC", 100..=107),
    ("IFACE", 10..=13),
    ("EDGE", 60..=72),
    ("ROUTE", 1..=6),
    ("ROUTE", 10..=15),
    ("ROUTE", 20..=33),
    ("ROUTE", 40..=46),
    ("EDGE", 80..=83),
    ("IPAM", 1..=9),
    ("IPAM", 20..=29),
    ("IPAM", 40..=45),
    ("IPAM", 60..=60),
];

/// Upstream's test functions, and how many cases each has: 42 of the node controller, 28 of the node helpers,
/// 20 of the node IP, 28 of the node lifecycle controller, 140 of the service controller, 46 of the service helpers,
/// 42 of the route controller, 102 of node IPAM, 19 of the options, 52 of the controller manager.
const CASES: [(&str, u32); 87] = [
    ("Test_NodesDeleted", 12),
    ("Test_NodesShutdown", 9),
    ("Test_GetProviderID", 7),
    ("Test_syncNode", 22),
    ("Test_reconcileNodeLabels", 3),
    ("TestNodeAddressesChangeDetected", 5),
    ("TestNodeAddressesNotUpdateV2", 1),
    ("TestNodeAddressesNotUpdate", 1),
    ("TestGetInstanceMetadata", 6),
    ("TestUpdateNodeStatus", 4),
    ("TestAddToNodeAddresses", 4),
    ("TestGetNodeAddressesFromNodeIP", 14),
    ("TestTaintExists", 3),
    ("TestRemoveTaint", 3),
    ("TestDeleteTaint", 4),
    ("TestParseNodeIPAnnotation", 20),
    ("TestSyncLoadBalancerIfNeeded", 8),
    ("TestUpdateNodesInExternalLoadBalancer", 7),
    ("TestNodeChangesForStableNodeSetEnabled", 10),
    ("TestNodeChangesInExternalLoadBalancer", 5),
    ("TestNodesNotEqual", 3),
    ("TestProcessServiceCreateOrUpdate", 2),
    ("TestProcessServiceCreateOrUpdateK8sError", 2),
    ("TestSyncService", 2),
    ("TestProcessServiceDeletion", 3),
    ("TestNeedsCleanup", 4),
    ("TestSlowNodeSync", 1),
    ("TestServiceCache", 6),
    ("TestAddFinalizer", 2),
    ("TestRemoveFinalizer", 2),
    ("TestPatchStatus", 4),
    ("TestListWithPredicate", 3),
    ("TestServiceQueueDelay", 3),
    ("TestNeedsUpdate", 15),
    ("Test_respectsPredicates", 10),
    ("Test_shouldSyncUpdatedNode_individualPredicates", 21),
    ("Test_shouldSyncUpdatedNode_compoundedPredicates", 27),
    ("TestGetLoadBalancerSourceRanges", 12),
    ("TestAllowAll", 6),
    ("TestRequestsOnlyLocalTraffic", 7),
    ("TestNeedsHealthCheck", 5),
    ("TestHasLBFinalizer", 4),
    ("TestPatchService", 1),
    ("Test_getPatchBytes", 1),
    ("TestLoadBalancerStatusEqual", 10),
    ("TestIsResponsibleForRoute", 12),
    ("TestReconcile", 17),
    ("TestHandleNodeUpdate", 4),
    ("TestUpdateNetworkingCondition", 8),
    ("TestUpdateNetworkingConditionWithCalicoScenario", 1),
    ("TestStartNodeIpamController", 10),
    ("TestNewNodeIpamControllerWithCIDRMasks", 12),
    ("TestOccupyPreExistingCIDR", 8),
    ("TestAllocateOrOccupyCIDRSuccess", 7),
    ("TestAllocateOrOccupyCIDRFailure", 1),
    ("TestReleaseCIDRSuccess", 2),
    ("TestCIDRSetFullyAllocated", 2),
    ("TestIndexToCIDRBlock", 15),
    ("TestCIDRSet_RandomishAllocation", 2),
    ("TestCIDRSet_AllocationOccupied", 2),
    ("TestDoubleOccupyRelease", 7),
    ("TestGetBitforCIDR", 14),
    ("TestOccupy", 14),
    ("TestCIDRSetv6", 3),
    ("TestCidrSetMetrics", 1),
    ("TestCidrSetMetricsHistogram", 1),
    ("TestCidrSetMetricsDual", 1),
    ("TestDefaultFlags", 1),
    ("TestAddFlags", 1),
    ("TestCreateConfig", 1),
    ("TestCreateConfigWithoutWebHooks", 1),
    ("TestCloudControllerManagerAliases", 1),
    ("TestCloudControllerManagerDefaultsRoundTrip", 1),
    ("TestNodeControllerValidation", 6),
    ("TestCloudControllerNamesConsistency", 1),
    ("TestCloudControllerNamesDeclaration", 1),
    ("TestWebhookEnableDisable", 5),
    ("TestIsControllerEnabled", 7),
    (
        "TestValidateGenericControllerManagerConfigurationOptions",
        9,
    ),
    ("TestApplyToGenericControllerManagerConfigurationOptions", 4),
    ("TestMutableHealthzHandler", 7),
    ("TestConcurrentChecks", 1),
    ("TestNamedHealthChecker", 1),
    ("TestLeaderMigratorFilterFunc", 6),
    ("TestReadLeaderMigrationConfiguration", 7),
    ("TestValidateLeaderMigrationConfiguration", 4),
    ("TestLeaderMigrationOptions", 6),
];

/// The cases that only upstream's older interface allows, or that are about features which ours lacks.
const NOT_COVERED: [(&str, u32); 32] = [
    ("Test_syncNode", 12),
    ("TestGetInstanceMetadata", 2),
    ("Test_NodesDeleted", 1),
    ("Test_NodesDeleted", 2),
    ("Test_NodesDeleted", 3),
    ("Test_NodesDeleted", 4),
    ("Test_NodesDeleted", 6),
    ("Test_GetProviderID", 1),
    ("Test_GetProviderID", 2),
    ("Test_GetProviderID", 3),
    ("Test_GetProviderID", 4),
    ("Test_GetProviderID", 5),
    ("Test_GetProviderID", 6),
    ("Test_GetProviderID", 7),
    ("TestSyncService", 1),
    ("TestServiceCache", 1),
    ("TestServiceCache", 2),
    ("TestServiceCache", 3),
    ("TestServiceCache", 4),
    ("TestServiceCache", 5),
    ("TestServiceCache", 6),
    ("TestListWithPredicate", 1),
    ("TestListWithPredicate", 2),
    ("TestListWithPredicate", 3),
    ("TestWebhookEnableDisable", 1),
    ("TestWebhookEnableDisable", 2),
    ("TestWebhookEnableDisable", 3),
    ("TestWebhookEnableDisable", 4),
    ("TestWebhookEnableDisable", 5),
    ("TestIsControllerEnabled", 4),
    (
        "TestValidateGenericControllerManagerConfigurationOptions",
        5,
    ),
    ("TestConcurrentChecks", 1),
];

/// The folders of the cases' scenarios, which are named after the case's number.
const UPSTREAM: [&str; 3] = ["node/upstream", "node_lifecycle/upstream", "route/upstream"];
const SCENARIOS: [(&str, &str); 6] = [
    ("reconcile_", "TestReconcile"),
    ("nodes_deleted_", "Test_NodesDeleted"),
    ("nodes_shutdown_", "Test_NodesShutdown"),
    ("sync_node_", "Test_syncNode"),
    (
        "node_addresses_not_update_v2_",
        "TestNodeAddressesNotUpdateV2",
    ),
    ("node_addresses_not_update_", "TestNodeAddressesNotUpdate"),
];

/// Whether it is an ID such as `NODE-001` or `Test_syncNode/08`.
fn is_id(text: &str) -> bool {
    let is_number =
        |number: &str| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    if let Some((prefix, number)) = text.split_once('-') {
        return prefix.bytes().all(|byte| byte.is_ascii_uppercase()) && is_number(number);
    }
    is_case(text)
}

fn is_case(text: &str) -> bool {
    let Some((function, number)) = text.split_once('/') else {
        return false;
    };
    let is_name = function
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let is_number = number.len() == 2 && number.bytes().all(|byte| byte.is_ascii_digit());
    function.starts_with("Test") && is_name && is_number
}

fn case(function: &str, number: u32) -> String {
    format!("{function}/{number:02}")
}

/// The rows of all tables.
fn rows() -> Vec<Row> {
    crate::lists::rows("conformance.md", is_id)
}

/// All Rust files of the repository's runtime and tests.
fn all() -> Vec<String> {
    sources(&["runtime", "tests"])
}

/// The IDs of cases in the string literals of `source`.
fn cases_in(source: &str) -> impl Iterator<Item = &str> {
    source.split('"').filter(|text| is_case(text))
}

/// The scenarios of cases: the path below `scenarios/`, and the case that the name refers to.
fn scenarios_of_cases() -> Vec<(String, Option<String>)> {
    let names = UPSTREAM.iter().flat_map(|below| {
        let folder = root().join("tests/scenarios").join(below);
        let names = std::fs::read_dir(folder).unwrap();
        names.map(move |entry| (below, entry.unwrap().file_name().into_string().unwrap()))
    });
    names
        .map(|(below, name)| {
            let case = SCENARIOS.iter().find_map(|(prefix, function)| {
                let id = format!("{function}/{}", name.strip_prefix(prefix)?.get(..2)?);
                is_case(&id).then_some(id)
            });
            (format!("{below}/{name}"), case)
        })
        .collect()
}

#[test]
fn every_statement_and_every_case_has_one_row() {
    let mut wanted = BTreeSet::new();
    for (prefix, numbers) in STATEMENTS {
        wanted.extend(numbers.map(|number| format!("{prefix}-{number:03}")));
    }
    for (function, cases) in CASES {
        wanted.extend((1..=cases).map(|number| case(function, number)));
    }
    let mut seen = BTreeSet::new();
    let mut problems = Vec::new();
    for row in rows() {
        let is_bounded = ["NODE-", "LIFE-", "SVC-", "ROUTE-", "IPAM-", "PROC-"]
            .iter()
            .any(|prefix| row.id.starts_with(prefix))
            || is_case(&row.id);
        if is_bounded && !wanted.contains(&row.id) {
            problems.push(format!("{} is neither a statement nor a case", row.id));
        }
        if !seen.insert(row.id.clone()) {
            problems.push(format!("{} has two rows", row.id));
        }
    }
    let missing = wanted.difference(&seen);
    problems.extend(missing.map(|id| format!("{id} has no row")));
    assert_none(&problems);
}

#[test]
fn every_test_that_conformance_md_names_exists() {
    let functions = functions(&all());
    let mut problems = Vec::new();
    for row in rows() {
        if row.is_covered() && row.named().next().is_none() {
            let Row { id, tests, .. } = &row;
            problems.push(format!(
                "{id} names no test and does not say \"Not …\": {tests}"
            ));
        }
        for test in row.named() {
            let exists = match test.strip_suffix(".txt") {
                Some(_) => root().join("tests/scenarios").join(test).exists(),
                None => functions.contains_key(test),
            };
            if !exists {
                problems.push(format!("{} names {test}, which does not exist", row.id));
            }
        }
    }
    assert_none(&problems);
}

#[test]
fn every_test_of_a_case_carries_its_id() {
    let functions = functions(&all());
    let not_covered = NOT_COVERED.map(|(function, number)| case(function, number));
    let mut problems = Vec::new();
    for row in rows().iter().filter(|row| is_case(&row.id)) {
        if row.is_covered() == not_covered.contains(&row.id) {
            problems.push(format!("{} is covered, or is not, by mistake", row.id));
        }
        for test in row.named() {
            let carries = if test.ends_with(".txt") {
                let text = std::fs::read_to_string(root().join("tests/scenarios").join(test));
                text.is_ok_and(|text| text.starts_with(&format!("# {}:", row.id)))
            } else {
                let body = functions.get(test);
                body.is_some_and(|body| cases_in(body).any(|case| case == row.id))
            };
            if !carries {
                problems.push(format!("{test} is not about {}", row.id));
            }
        }
    }
    assert_none(&problems);
}

#[test]
fn every_case_that_a_test_carries_is_listed_with_that_test() {
    let rows: BTreeMap<String, Row> = rows()
        .into_iter()
        .map(|row| (row.id.clone(), row))
        .collect();
    let is_listed = |case: &str, test: &str| {
        let row = rows.get(case);
        row.is_some_and(|row| row.named().any(|named| named == test))
    };
    let mut problems = Vec::new();
    for (scenario, case) in scenarios_of_cases() {
        match case {
            None => problems.push(format!("{scenario}: the name says no case")),
            Some(case) if !is_listed(&case, &scenario) => {
                problems.push(format!("{scenario} is not in the row of {case}"));
            }
            Some(_) => {}
        }
    }
    for source in all() {
        let in_functions = functions(std::slice::from_ref(&source));
        let mut count = 0;
        for (test, body) in &in_functions {
            for case in cases_in(body) {
                count += 1;
                if !is_listed(case, test) {
                    problems.push(format!("{test} is not in the row of {case}"));
                }
            }
        }
        if cases_in(&source).count() != count {
            let all: Vec<&str> = cases_in(&source).collect();
            problems.push(format!("outside of every test: one of {all:?}"));
        }
    }
    assert_none(&problems);
}

#[test]
fn every_departure_has_its_reason() {
    let departures = text("deploy/docs/departures.md");
    let mut explained: BTreeSet<&str> = BTreeSet::new();
    for line in departures.lines().filter(|line| line.starts_with('|')) {
        let cells = line.trim_matches('|').split('|').map(str::trim);
        let cells: Vec<&str> = cells.filter(|cell| !cell.is_empty()).collect();
        let [_upstream, _ccm, _why, ids] = cells.as_slice() else {
            panic!("not four texts: {line}");
        };
        explained.extend(ids.split(", "));
    }
    let mut problems = Vec::new();
    for row in rows() {
        let Some((_, after)) = row.cells[0].split_once("Ours differs") else {
            continue;
        };
        // The reason is at another ID, or at this one.
        let at = match after.strip_prefix(" (") {
            Some(rest) => rest.split(')').next().unwrap(),
            None => row.id.as_str(),
        };
        for id in at.split(", ").filter(|id| !explained.contains(id)) {
            problems.push(format!("{}: no reason is given at {id}", row.id));
        }
    }
    assert_none(&problems);
}

#[test]
fn every_statement_that_is_cited_has_a_row() {
    let known: BTreeSet<String> = rows().into_iter().map(|row| row.id).collect();
    let folders = ["runtime", "tests", "guests", "guest-sdk", "deploy", "wit"];
    let mut problems = BTreeSet::new();
    for path in files(&folders, "rs")
        .into_iter()
        .chain(files(&folders, "md"))
    {
        let text = std::fs::read_to_string(&path).unwrap();
        let unknown = cited(&text).filter(|id| !known.contains(*id));
        problems.extend(unknown.map(|id| format!("{id} has no row, and is cited in {path}")));
    }
    assert_none(&problems.into_iter().collect::<Vec<_>>());
}

/// The IDs of statements in a text: the name of a group, and three digits.
fn cited(text: &str) -> impl Iterator<Item = &str> {
    const GROUPS: [&str; 8] = [
        "NODE-", "LIFE-", "SVC-", "ROUTE-", "IPAM-", "PROC-", "IFACE-", "EDGE-",
    ];
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
    words.filter(|word| {
        let number = GROUPS.iter().find_map(|group| word.strip_prefix(group));
        number.is_some_and(|it| it.len() == 3 && it.bytes().all(|digit| digit.is_ascii_digit()))
    })
}
