//! Names, labels and buckets of the controllers' metrics.
#![allow(clippy::unwrap_used, reason = "tests")]
mod upstream;

use ccm_core::cloud::ProviderError;

use super::*;

/// The metrics as a scrape shows them.
pub(crate) fn encoded(registry: &Registry) -> String {
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
    text
}

#[test]
fn node_044_and_046_names_and_buckets_are_upstreams() {
    let mut registry = Registry::default();
    Metrics::register(&mut registry).initialised(Duration::from_secs(5));
    let text = encoded(&registry);
    for name in [
        "node_controller_cloud_provider_taint_removal_delay_seconds",
        "node_controller_initial_node_sync_delay_seconds",
    ] {
        assert!(text.contains(&format!("# TYPE {name} histogram")), "{text}");
        for (le, count) in [
            ("1.0", 0),
            ("4.0", 0),
            ("16.0", 1),
            ("64.0", 1),
            ("256.0", 1),
            ("1024.0", 1),
        ] {
            assert!(
                text.contains(&format!("{name}_bucket{{le=\"{le}\"}} {count}")),
                "{text}"
            );
        }
    }
}

#[test]
fn names_and_buckets_about_load_balancers_are_upstreams() {
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    metrics.asked(
        "sim",
        Operation::UpdateTargets,
        "timed-out",
        Duration::from_secs(3),
    );
    metrics.asked("sim", Operation::Ensure, "success", Duration::from_secs(3));
    metrics.passed_nodes(Duration::from_secs(20_000));
    let text = encoded(&registry);
    for line in [
        "service_controller_loadbalancer_sync_total 1",
        "service_controller_nodesync_error_total 1",
        "service_controller_update_loadbalancer_host_latency_seconds_bucket{le=\"2.0\"} 0",
        "service_controller_update_loadbalancer_host_latency_seconds_bucket{le=\"4.0\"} 1",
        "service_controller_nodesync_latency_seconds_bucket{le=\"16384.0\"} 0",
        "service_controller_nodesync_latency_seconds_count 1",
        "ccm_load_balancer_operations_total{operation=\"ensure\",result=\"success\",provider=\"sim\"} 1",
        "ccm_load_balancer_operation_duration_seconds_count{operation=\"update-targets\",provider=\"sim\"} 1",
    ] {
        assert!(
            text.lines().any(|one| one == line),
            "{line} is not in {text}"
        );
    }
}

#[test]
fn changed_nodes_that_another_component_or_the_mode_takes_over_are_no_failure() {
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    for result in ["success", "elsewhere", "withheld"] {
        let second = Duration::from_secs(1);
        metrics.asked("sim", Operation::UpdateTargets, result, second);
    }
    let text = encoded(&registry);
    for line in [
        "service_controller_loadbalancer_sync_total 3",
        "service_controller_nodesync_error_total 0",
    ] {
        assert!(
            text.lines().any(|one| one == line),
            "{line} is not in {text}"
        );
    }
}

#[test]
fn route_020_passes_are_counted_under_upstreams_name_and_calls_and_states_under_ours() {
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    metrics.passes_routes();
    let second = Duration::from_secs(1);
    metrics.asked("sim", Operation::CreateRoute, "denied", second);
    let tally = Tally {
        foreign: 3,
        ..Tally::default()
    };
    metrics.count_routes("sim", &tally);
    let text = encoded(&registry);
    for line in [
        "route_controller_route_sync_total 1",
        "ccm_routes{state=\"foreign\",provider=\"sim\"} 3",
        "ccm_routes{state=\"held\",provider=\"sim\"} 0",
        "ccm_route_operations_total{operation=\"create\",result=\"denied\",provider=\"sim\"} 1",
        "ccm_route_operation_duration_seconds_count{operation=\"create\",provider=\"sim\"} 1",
    ] {
        assert!(
            text.lines().any(|one| one == line),
            "{line} is not in {text}"
        );
    }
}

/// Label values are only fixed texts and the provider names given by the operator.
#[test]
fn h8_twenty_providers_that_fail_in_every_way_make_a_bounded_number_of_series() {
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let series = |metrics: &Metrics| {
        let second = Duration::from_secs(1);
        let text = || "chosen by a guest".to_owned();
        let results = [
            ProviderError::Invalid(text()).reason(),
            ProviderError::Denied(text()).reason(),
            ProviderError::Unavailable(text()).reason(),
            ProviderError::Unsupported(text()).reason(),
            ProviderError::Internal(text()).reason(),
            ProviderError::TimedOut(text()).reason(),
            ProviderError::Trapped(text()).reason(),
            ProviderError::Interrupted(text()).reason(),
            ProviderError::NotBegun(text()).reason(),
            ProviderError::Elsewhere.reason(),
            "conflict",
            "throttled",
            "success",
        ];
        for provider in (0..20).map(|number| format!("provider-{number}")) {
            for result in results {
                for operation in [
                    Operation::Ensure,
                    Operation::UpdateTargets,
                    Operation::Delete,
                    Operation::Get,
                    Operation::ListRoutes,
                    Operation::CreateRoute,
                    Operation::DeleteRoute,
                ] {
                    metrics.asked(&provider, operation, result, second);
                }
            }
            metrics.count_routes(&provider, &Tally::default());
            for brake in Brake::ALL {
                metrics.held(brake, &provider);
            }
        }
        let text = encoded(&registry);
        assert!(!text.contains("chosen"), "{text}");
        text.lines().filter(|line| !line.starts_with('#')).count()
    };
    let first = series(&metrics);
    assert!(first <= 5_000, "{first} series");
    assert_eq!(series(&metrics), first, "no more come");
}
