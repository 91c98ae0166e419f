//! `--controllers`: the known names, and the controllers that a list enables.

use ccm_core::well_known::{NODE_CONTROLLER, ROUTE_CONTROLLER, SERVICE_CONTROLLER};

use super::super::*;
use super::run;

#[test]
fn proc_020_the_first_hit_wins_and_aliases_count() {
    for (list, enabled) in [
        ("*", true),
        ("cloud-node", true),
        ("-cloud-node,*", false),
        ("*,-cloud-node-controller", false),
        ("cloud-node-controller,-cloud-node-controller", true),
        ("service", false),
    ] {
        let flags = run(&format!("--cloud-provider=x --controllers={list}")).unwrap();
        let is_on = flags.controllers.contains(&NODE_CONTROLLER);
        assert_eq!(is_on, enabled, "{list}");
    }
}

#[test]
fn proc_020_a_controller_is_on_or_off_by_the_first_entry_that_names_it() {
    for (case, list, is_on) in [
        ("TestIsControllerEnabled/01", "service,-route", true),
        ("TestIsControllerEnabled/02", "-service,route", false),
        ("TestIsControllerEnabled/03", "*", true),
        ("TestIsControllerEnabled/05", "*,-route", true),
        ("TestIsControllerEnabled/06", "*,-service", false),
        ("TestIsControllerEnabled/07", "-route", false),
    ] {
        let list: Vec<String> = list.split(',').map(str::to_owned).collect();
        assert_eq!(is_enabled(&list, "service-lb-controller"), is_on, "{case}");
    }
}

#[test]
fn proc_003_lists_of_controllers_and_the_kind_of_the_lock_are_checked() {
    let unknown = |name: &str| format!("{name:?} is not in the list of known controllers");
    for (case, flags, mistake) in [
        (
            "TestValidateGenericControllerManagerConfigurationOptions/01",
            "",
            None,
        ),
        (
            "TestValidateGenericControllerManagerConfigurationOptions/02",
            "--controllers=",
            None,
        ),
        (
            "TestValidateGenericControllerManagerConfigurationOptions/03",
            "--controllers=cloud-node-controller,service-lb-controller",
            None,
        ),
        (
            "TestValidateGenericControllerManagerConfigurationOptions/04",
            "--controllers=*,-service-lb-controller",
            None,
        ),
        (
            "TestValidateGenericControllerManagerConfigurationOptions/06",
            "--controllers=service,-route",
            None,
        ),
        (
            "TestValidateGenericControllerManagerConfigurationOptions/07",
            "--controllers=foo",
            Some(unknown("foo")),
        ),
        (
            "TestValidateGenericControllerManagerConfigurationOptions/08",
            "--controllers=service,foo-alias",
            Some(unknown("foo-alias")),
        ),
        (
            "TestValidateGenericControllerManagerConfigurationOptions/09",
            "--leader-elect-resource-lock=configmapsleases",
            Some("resourceLock value must be \"leases\"".to_owned()),
        ),
    ] {
        let text = run(&format!("--cloud-provider=x {flags}")).err();
        match mistake {
            None => assert_eq!(text, None, "{case}"),
            Some(mistake) => assert!(text.unwrap().contains(&mistake), "{case}"),
        }
    }
}

#[test]
fn proc_020_lists_are_kept_in_their_order_and_aliases_mean_the_same() {
    // The state of the service controller and the route controller after each list.
    for (case, list, service, route) in [
        (
            "TestApplyToGenericControllerManagerConfigurationOptions/01",
            "*",
            true,
            true,
        ),
        (
            "TestApplyToGenericControllerManagerConfigurationOptions/02",
            "service-lb-controller,-node-route-controller",
            true,
            false,
        ),
        (
            "TestApplyToGenericControllerManagerConfigurationOptions/03",
            "*,-service-lb-controller,service-lb-controller",
            false,
            true,
        ),
        (
            "TestApplyToGenericControllerManagerConfigurationOptions/04",
            "-service,service-lb-controller,service,route,route",
            false,
            true,
        ),
    ] {
        let flags = run(&format!("--cloud-provider=x --controllers={list}")).unwrap();
        let is_on = flags.controllers.contains(&SERVICE_CONTROLLER);
        assert_eq!(is_on, service, "{case}");
        assert_eq!(flags.pod_network.configures_routes, route, "{case}");
    }
}

#[test]
fn awss_tagging_controller_is_missed_only_where_a_list_names_it() {
    let warning = "--controllers: tagging has no effect: instances are not tagged, and those without the cluster's tag are no targets of load balancers";
    for (list, warnings) in [
        ("*", &[][..]),
        ("*,-tagging", &[]),
        ("*,tagging", &[warning]),
    ] {
        let flags = run(&format!("--cloud-provider=aws --controllers={list}")).unwrap();
        assert_eq!(flags.warnings, warnings, "{list}");
        assert!(flags.controllers.contains(&NODE_CONTROLLER), "{list}");
    }
}

#[test]
fn upstream_aliases_are_resolved_in_their_order() {
    let case = "TestCloudControllerManagerAliases/01";
    let list = "service-lb-controller,-service,route,-cloud-node-lifecycle-controller";
    let flags = run(&format!("--cloud-provider=gce --controllers={list}")).unwrap();
    let enabled = [SERVICE_CONTROLLER, ROUTE_CONTROLLER];
    assert_eq!(flags.controllers, enabled, "{case}: the first entry counts");
    assert!(flags.pod_network.configures_routes, "{case}");
}

#[test]
fn proc_021_an_empty_list_switches_all_controllers_off() {
    let flags = run("--cloud-provider=x --controllers=").unwrap();
    assert_eq!(flags.controllers, [""; 0]);
    assert!(!flags.pod_network.configures_routes);
    assert!(flags.leadership.election.is_some());
}

#[test]
fn proc_022_names_of_controllers_are_built_as_upstreams() {
    let cases = [
        "TestCloudControllerNamesConsistency/01",
        "TestCloudControllerNamesDeclaration/01",
    ];
    for (name, _) in CONTROLLERS {
        assert!(name.ends_with("-controller"), "{cases:?}: {name}");
        let is_plain = |one: char| one.is_ascii_lowercase() || one == '-';
        assert!(name.chars().all(is_plain), "{cases:?}: {name}");
        assert!(
            name.starts_with(|one: char| one.is_ascii_lowercase()),
            "{cases:?}: {name}"
        );
    }
}
