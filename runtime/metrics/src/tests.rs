#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::{Arc, Weak};
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::build::{self, Build};
use crate::process;
use crate::requests::{EndedRequest, RequestEnd, RequestMetrics, StatedRemaining};
use crate::text::{Format, encode};

#[test]
fn the_classic_format_names_counters_with_their_suffix_and_writes_bounds_like_go() {
    let mut registry = Registry::default();
    let events = Counter::<u64>::default();
    events.inc();
    registry.register("events", "Events", events);
    let histogram = Histogram::new([1e-8, 0.5, 1.0, 16384.0, 1_048_576.0]);
    histogram.observe(0.25);
    registry.register("took_seconds", "Times", histogram);
    let hostile = Family::<[(&str, String); 1], Gauge>::default();
    let value = "a\n# EOF\n_bucket{le=\"1.0\"}\\";
    hostile
        .get_or_create(&[("version", value.to_owned())])
        .set(2);
    registry.register("info", "Infos", hostile);
    assert_eq!(
        encode(&registry, Format::Classic).unwrap(),
        r##"# HELP events_total Events.
# TYPE events_total counter
events_total 1
# HELP took_seconds Times.
# TYPE took_seconds histogram
took_seconds_sum 0.25
took_seconds_count 1
took_seconds_bucket{le="1e-08"} 0
took_seconds_bucket{le="0.5"} 1
took_seconds_bucket{le="1"} 1
took_seconds_bucket{le="16384"} 1
took_seconds_bucket{le="1.048576e+06"} 1
took_seconds_bucket{le="+Inf"} 1
# HELP info Infos.
# TYPE info gauge
info{version="a\n# EOF\n_bucket{le=\"1.0\"}\\"} 2
"##
    );
    let open_metrics = encode(&registry, Format::OpenMetrics).unwrap();
    assert!(open_metrics.contains("# TYPE events counter\nevents_total 1\n"));
    assert!(open_metrics.ends_with("\n# EOF\n"));
}

#[test]
fn a_scrape_gets_open_metrics_only_if_it_accepts_nothing_else() {
    let prometheus = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
        application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
    for (accept, expected) in [
        (None, Format::Classic),
        (Some("*/*"), Format::Classic),
        (Some("text/plain"), Format::Classic),
        (Some("application/openmetrics-text"), Format::OpenMetrics),
        (Some(prometheus), Format::Classic),
        (
            Some("text/plain;version=0.0.4;q=0.9, application/openmetrics-text;q=0.8"),
            Format::Classic,
        ),
        (
            Some("application/openmetrics-text, text/*;q=0.1"),
            Format::Classic,
        ),
        (
            Some("application/openmetrics-text, */*;q=0.1"),
            Format::Classic,
        ),
        (
            Some("application/openmetrics-text;q=0.5, text/plain;q=0"),
            Format::OpenMetrics,
        ),
        (Some("application/openmetrics-text;q=0"), Format::Classic),
        (Some("application/openmetrics-text;q=x"), Format::Classic),
        (Some(";;,,q=1"), Format::Classic),
    ] {
        assert_eq!(Format::accepted(accept), expected, "{accept:?}");
    }
}

#[test]
fn what_a_cloud_said_of_its_rate_limit_has_a_series_until_its_window_ends_or_its_provider_goes() {
    let mut registry = Registry::default();
    let requests = RequestMetrics::register(&mut registry);
    let providers: [Arc<()>; 3] = Default::default();
    let says = |provider: &'static str, remaining, lasts: Duration, listener: &Arc<()>| {
        let listener: Weak<()> = Arc::downgrade(listener);
        let stated = StatedRemaining {
            remaining,
            lasts,
            listener,
        };
        requests.cloud_admits(provider, "api", &stated);
    };
    let shown = || {
        let text = encode(&registry, Format::Classic).unwrap();
        let mut lines: Vec<String> = text
            .lines()
            .filter_map(|line| line.strip_prefix("ccm_provider_cloud_requests_remaining{provider="))
            .map(str::to_owned)
            .collect();
        lines.sort();
        lines
    };
    let hour = Duration::from_secs(3600);
    let [ended, gone, lasting] = &providers;
    says("ended", 1, hour, ended);
    says("gone", 2, hour, gone);
    says("lasting", 3, Duration::ZERO, lasting);
    says("lasting", 4, hour, lasting);
    let line =
        |provider: &str, remaining: u32| format!("{provider:?},target=\"api\"}} {remaining}");
    let expected = [line("ended", 1), line("gone", 2), line("lasting", 4)];
    assert_eq!(shown(), expected);
    says("ended", 1, Duration::ZERO, ended);
    assert_eq!(shown(), expected[1..]);
    let [_, gone, _lasting] = providers;
    drop(gone);
    assert_eq!(shown(), expected[2..]);
}

#[test]
fn build_and_process_have_one_series_each() {
    let mut registry = Registry::default();
    let version = "1.2.3-rc.1";
    build::register(
        &mut registry,
        Build {
            version,
            commit: "",
        },
    );
    process::register(&mut registry);
    let text = encode(&registry, Format::Classic).unwrap();
    assert!(text.contains(
        "kubernetes_build_info{major=\"1\",minor=\"2\",git_version=\"v1.2.3-rc.1\",git_commit=\"\","
    ));
    for (name, kind) in [
        ("kubernetes_build_info", "gauge"),
        ("ccm_build_info", "gauge"),
        ("process_cpu_seconds_total", "counter"),
        ("process_network_receive_bytes_total", "counter"),
        ("process_network_transmit_bytes_total", "counter"),
        ("process_resident_memory_bytes", "gauge"),
        ("process_virtual_memory_bytes", "gauge"),
        ("process_virtual_memory_max_bytes", "gauge"),
        ("process_open_fds", "gauge"),
        ("process_max_fds", "gauge"),
        ("process_start_time_seconds", "gauge"),
    ] {
        assert!(text.contains(&format!("# TYPE {name} {kind}\n")), "{text}");
        let is_sample = |line: &&str| line.split([' ', '{']).next() == Some(name);
        let samples: Vec<_> = text.lines().filter(is_sample).collect();
        let [sample] = samples.as_slice() else {
            panic!("{name}: {samples:?}");
        };
        let value: f64 = sample.rsplit_once(' ').unwrap().1.parse().unwrap();
        assert!(value != 0.0, "{sample}");
    }
}

#[test]
fn the_vendors_names_are_served_for_its_own_provider() {
    let mut registry = Registry::default();
    let metrics = RequestMetrics::register(&mut registry);
    let request = |provider, end| {
        metrics.begun(provider, "api");
        metrics.ended(&EndedRequest {
            provider,
            target: "api",
            method: "POST",
            endpoint: Some("/load_balancers/{id}/actions/add_target"),
            end,
            took: Duration::from_millis(200),
        });
    };
    request("hcloud", RequestEnd::Answered(201));
    request("hcloud", RequestEnd::Kept);
    request("hcloud", RequestEnd::Failed("timed-out"));
    request("other", RequestEnd::Answered(201));
    for end in [
        RequestEnd::Answered(200),
        RequestEnd::Kept,
        RequestEnd::Kept,
    ] {
        metrics.begun("hcloud", "api");
        metrics.ended(&EndedRequest {
            provider: "hcloud",
            target: "api",
            method: "GET",
            endpoint: Some("/servers"),
            end,
            took: Duration::ZERO,
        });
    }
    metrics.begun("hcloud", "api");
    let text = encode(&registry, Format::Classic).unwrap();
    let endpoint = "api_endpoint=\"/load_balancers/-/actions/add_target\"";
    for line in [
        &*format!("hcloud_api_requests_total{{code=\"201\",method=\"post\",{endpoint}}} 1"),
        "hcloud_api_in_flight_requests 1",
        "cloud_controller_manager_server_cache_requests_total{subsystem=\"\",mode=\"all\",result=\"hit\"} 2",
        "cloud_controller_manager_server_cache_requests_total{subsystem=\"\",mode=\"all\",result=\"miss\"} 1",
        "hcloud_api_request_duration_seconds_count{method=\"post\"} 1",
        "hcloud_api_request_duration_seconds_bucket{le=\"0.25\",method=\"post\"} 1",
        "ccm_provider_requests_total{provider=\"hcloud\",target=\"api\",method=\"POST\",code=\"kept\"} 1",
        "ccm_provider_requests_total{provider=\"other\",target=\"api\",method=\"POST\",code=\"201\"} 1",
        "ccm_provider_requests_in_flight{provider=\"hcloud\",target=\"api\"} 1",
        "ccm_provider_request_duration_seconds_count{provider=\"hcloud\",target=\"api\"} 5",
    ] {
        assert!(text.lines().any(|one| one == line), "{line}: {text}");
    }
}

#[test]
fn a_code_without_a_name_counts_as_its_hundred() {
    let mut registry = Registry::default();
    let metrics = RequestMetrics::register(&mut registry);
    let cases = [
        (RequestEnd::Answered(101), "1xx"),
        (RequestEnd::Answered(299), "2xx"),
        (RequestEnd::Answered(399), "3xx"),
        (RequestEnd::Answered(418), "4xx"),
        (RequestEnd::Answered(429), "429"),
        (RequestEnd::Answered(599), "5xx"),
        (RequestEnd::Kept, "kept"),
    ];
    for (end, _) in cases {
        metrics.begun("hcloud", "api");
        metrics.ended(&EndedRequest {
            provider: "hcloud",
            target: "api",
            method: "GET",
            endpoint: Some("/servers/{id}"),
            end,
            took: Duration::ZERO,
        });
    }
    let text = encode(&registry, Format::Classic).unwrap();
    let cache = "cloud_controller_manager_server_cache_requests_total";
    let mut expected = vec![
        format!("{cache}{{subsystem=\"\",mode=\"one\",result=\"hit\"}} 1"),
        format!("{cache}{{subsystem=\"\",mode=\"one\",result=\"miss\"}} 6"),
    ];
    expected.extend(cases.map(|(_, code)| {
        format!(
            "ccm_provider_requests_total{{provider=\"hcloud\",target=\"api\",method=\"GET\",code=\"{code}\"}} 1"
        )
    }));
    for line in expected {
        assert!(text.lines().any(|one| one == line), "{line}: {text}");
    }
}

#[test]
fn h8_whatever_is_asked_and_answered_the_series_stay_bounded() {
    let mut registry = Registry::default();
    let metrics = RequestMetrics::register(&mut registry);
    for number in 0..20_000_u32 {
        metrics.begun("hcloud", "api");
        metrics.ended(&EndedRequest {
            provider: "hcloud",
            target: "api",
            method: &format!("METHOD{number}"),
            endpoint: Some(&format!("/path-{number}/{{id}}")),
            end: RequestEnd::Answered(u16::try_from(number).unwrap_or(u16::MAX)),
            took: Duration::ZERO,
        });
    }
    let text = encode(&registry, Format::Classic).unwrap();
    let about = |name: &str| text.lines().filter(|line| line.starts_with(name)).count();
    assert!(about("ccm_provider_requests_total{") <= 35, "{text}");
    assert!(about("hcloud_api_requests_total{") <= 35 + 64, "{text}");
}
