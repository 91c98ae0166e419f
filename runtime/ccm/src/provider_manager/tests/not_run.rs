//! Providers that are configured and do not run.

use ccm_metrics::text::{Format, encode};
use prometheus_client::registry::Registry;

use super::*;

/// The alert counts series without a digest, and after a restart no rollout controller has one for such an object.
#[tokio::test]
async fn an_object_that_does_not_run_has_a_series_until_it_runs_or_goes() {
    let folder = tempfile::tempdir().unwrap();
    let mut configuration = configuration(folder.path());
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let mut manager = manager(&folder.path().join("modules"));
    manager.shared.metrics = metrics;
    let shown = || {
        let text = encode(&registry, Format::Classic).unwrap();
        let lines = text.lines().filter(|line| line.contains("NotServing"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let series =
        "ccm_provider_info{provider=\"one\",digest=\"\",version=\"\",state=\"NotServing\"} 1";
    let (refused, not_embedded) = (("one", "nowhere"), ("one", "embedded:one"));
    for (sources, expected) in [
        (vec![refused], vec![series]),
        (vec![refused], vec![series]),
        (vec![("one", "embedded:static")], vec![]),
        (vec![], vec![]),
        (vec![not_embedded], vec![series]),
        (vec![], vec![]),
    ] {
        configuration.objects = Some(ObjectConfiguration {
            objects: objects(&sources),
            secret_namespace: "clouds".to_owned(),
            accepted: Default::default(),
        });
        manager.look(&configuration).await;
        assert_eq!(shown(), expected, "{sources:?}");
    }
}
