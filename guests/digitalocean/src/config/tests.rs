//! Reading the configuration.
#![allow(clippy::unwrap_used, reason = "tests")]

use ccm_guest::testing::config;

use super::*;

#[test]
fn without_values_it_is_as_the_go_manager_is() {
    let settings = Settings::read(&config(&[])).unwrap();
    assert_eq!(settings.default_type, Type::RegionalNetwork);
    assert_eq!(settings.cluster_tag(), None);
    assert_eq!(
        (settings.region, settings.vpc, settings.project),
        (None, None, None)
    );
}

#[test]
fn every_value_is_read() {
    let values = [
        ("REGION", "fra1"),
        ("DO_CLUSTER_ID", "c63024c5"),
        ("DO_CLUSTER_VPC_ID", "760e09ef-dc84"),
        ("DEFAULT_LB_TYPE", "REGIONAL"),
        ("DO_PROJECT_ID", "4e1bfbc3"),
    ];
    let settings = Settings::read(&config(&values)).unwrap();
    assert_eq!(settings.region.as_deref(), Some("fra1"));
    assert_eq!(settings.cluster_tag().as_deref(), Some("k8s:c63024c5"));
    assert_eq!(settings.vpc.as_deref(), Some("760e09ef-dc84"));
    assert_eq!(settings.default_type, Type::Regional);
    assert_eq!(settings.project.as_deref(), Some("4e1bfbc3"));
}

#[test]
fn all_mistakes_are_told_at_once() {
    let values = [
        ("REGION", "../fra1"),
        ("DO_CLUSTER_ID", "a b"),
        ("DEFAULT_LB_TYPE", "GLOBAL"),
    ];
    let error = Settings::read(&config(&values)).unwrap_err();
    for key in ["REGION", "DO_CLUSTER_ID", "DEFAULT_LB_TYPE"] {
        assert!(error.message().contains(key), "{error:?}");
    }
}
