//! A real Prometheus scrapes the secure port of a real manager with a token: the alerts of `deploy/monitoring` fire for
//! real faults, and the dashboard's queries about providers' versions, which the golden scrape lacks, are answered.

use ccm_sim::hetzner::{Fault, ServerSpec, Trouble};
use ccm_tests::prometheus::Prometheus;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::Api;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::endpoints::{Served, token};
use crate::services::{Services, load_balancer};
use crate::world::root;

/// The alerts without `for`, evaluated every second.
fn impatient_rules() -> String {
    let rules = root().join("deploy/monitoring/rules.yaml");
    let rules = std::fs::read_to_string(rules).unwrap();
    let lines = rules.lines().filter(|line| !line.starts_with("    for: "));
    lines.map(|line| format!("{line}\n")).collect()
}

/// The dashboard's queries about the versions of providers.
fn queries_about_versions() -> Vec<String> {
    let file = root().join("deploy/monitoring/dashboard.json");
    let dashboard: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.filter_map(|panel| panel["targets"].as_array());
    let queries = targets.flatten().map(|target| {
        let query = target["expr"].as_str().unwrap();
        let query = query.replace("$__rate_interval", "1m");
        query.replace("$instance", ".*")
    });
    let metrics = [
        "ccm_provider_info{",
        "ccm_provider_swaps_total{",
        "ccm_provider_load_seconds_bucket{",
    ];
    let mut queries: Vec<String> = queries.collect();
    queries.retain(|query| metrics.iter().any(|metric| query.contains(metric)));
    assert_eq!(queries.len(), metrics.len(), "{queries:#?}");
    queries
}

async fn fires(prometheus: &mut Prometheus, alert: &str) {
    let firing = format!("ALERTS{{alertname=\"{alert}\", alertstate=\"firing\"}}");
    prometheus.until(&firing).await.unwrap();
}

#[tokio::test]
async fn prometheus_scrapes_a_manager_and_its_troubles_fire_the_alerts() {
    let mut served = Served::start(&[]).await;
    let token = token(&served.world, "prometheus", true).await;
    let folder = tempfile::TempDir::new().unwrap();
    std::fs::write(folder.path().join("token"), token).unwrap();
    std::fs::write(folder.path().join("rules.yaml"), impatient_rules()).unwrap();
    let configuration = format!(
        "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\n\
         rule_files: [rules.yaml]\n\
         scrape_configs:\n\
         - job_name: ccm\n  \
           scheme: https\n  \
           authorization: {{ type: Bearer, credentials_file: token }}\n  \
           tls_config: {{ insecure_skip_verify: true }}\n  \
           static_configs: [{{ targets: ['127.0.0.1:{}'] }}]\n",
        served.port
    );
    let mut prometheus = Prometheus::start(folder.path(), &configuration).unwrap();
    prometheus.until("up{job=\"ccm\"} == 1").await.unwrap();

    // Once it leads and a node is initialised, nothing fires.
    let (world, ccm) = (&served.world, &mut served.ccm);
    world.cloud.add_server(ServerSpec::named("worker-1"));
    world.add_node("worker-1", json!({})).await;
    world.initialised(ccm, "worker-1").await;
    let counted = "node_controller_cloud_provider_taint_removal_delay_seconds_count > 0";
    prometheus.until(counted).await.unwrap();
    let nothing = "absent(ALERTS{alertstate=\"firing\"})";
    prometheus.until(nothing).await.unwrap();
    for query in queries_about_versions() {
        let series = prometheus.until(&query).await.unwrap();
        assert_eq!(series.len(), 1, "{query}: {series:#?}");
        assert_eq!(series[0]["metric"]["provider"], "hcloud", "{query}");
    }

    let unavailable = Trouble::Refuse {
        status: 503,
        code: "unavailable".to_owned(),
    };
    world.cloud.inject(Fault::new(unavailable));
    world.cloud.add_server(ServerSpec::named("worker-2"));
    world.add_node("worker-2", json!({})).await;
    let services = Services::of(world).await;
    services.create("web", load_balancer(&[80])).await;
    for alert in [
        "CCMCloudRequestsFailing",
        "CCMNodesRetried",
        "CCMLoadBalancerOperationsFailing",
    ] {
        fires(&mut prometheus, alert).await;
    }

    world.cloud.clear_faults();
    let throttled = Trouble::TooManyRequests { retry_after: None };
    world.cloud.inject(Fault::new(throttled));
    world.cloud.add_server(ServerSpec::named("worker-3"));
    world.add_node("worker-3", json!({})).await;
    fires(&mut prometheus, "CCMCloudRequestsThrottled").await;

    // The rights of the controllers go; those to read the Lease and to review tokens stay.
    let admin = world.api.client_for("admin").await.unwrap();
    let bindings: Api<ClusterRoleBinding> = Api::all(admin);
    for manifest in &world.rights {
        let name = manifest["metadata"]["name"].as_str().unwrap();
        if manifest["kind"] == "ClusterRoleBinding" && name.ends_with("-controller") {
            let params = DeleteParams::default();
            bindings.delete(name, &params).await.unwrap();
        }
    }
    world.cloud.clear_faults();
    fires(&mut prometheus, "CCMAPIServerRequestsDenied").await;

    served.world.stop(served.ccm).await;
    fires(&mut prometheus, "CCMAbsent").await;
}
