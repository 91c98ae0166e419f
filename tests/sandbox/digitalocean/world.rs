//! The set-up of these tests: a cluster in memory, a simulated DigitalOcean on loopback, and the real controllers, host
//! and guest between them. Asserts nothing.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ccm_controllers::{Controllers, Metrics, Pace, Settings};
use ccm_core::cloud::{CloudNode, FindReply, Lookup, Readiness};
use ccm_core::cloud_provider::CloudProvider as _;
use ccm_core::safety::brake::{Allowance, Allowances, Brake};
use ccm_core::safety::permit::Permit;
use ccm_core::settings::{Adoption, NodeSettings, ServiceRules};
pub(crate) use ccm_fixtures::TOKEN;
use ccm_fixtures::kubernetes::{node, service};
use ccm_host::grant::{Credential, Secret};
use ccm_host::{GuestConfig, Module, Provider};
use ccm_sim::cluster::Cluster;
use ccm_sim::digitalocean::{DigitalOcean, DropletSpec, Options};
use ccm_tests::controllers::{NO_CONTROLLERS, create, run_with_rules};
use k8s_openapi::api::core::v1::{Event, Node, Service};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use libtest_mimic::Failed;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::host::HOST;

/// The annotation with a load balancer's ID.
pub(crate) const ID: &str = "kubernetes.digitalocean.com/load-balancer-id";
/// Timeout of a test's waits, longer than a busy machine needs. Only a failing test waits that long.
const TIMEOUT: Duration = Duration::from_secs(120);
/// A minute of the controllers takes a second here, which shortens the waits for a new load balancer.
const PACE: u32 = 60;

/// One cluster and one cloud.
pub(crate) struct World {
    pub(crate) cloud: DigitalOcean,
    pub(crate) services: Api<Service>,
    pub(crate) nodes: Api<Node>,
    events: Api<Event>,
    cluster: Cluster,
    values: &'static [(&'static str, &'static str)],
}

/// Runs a test with a world of its own, on this thread alone.
pub(crate) fn in_world(
    values: &'static [(&'static str, &'static str)],
    play: impl AsyncFnOnce(&World) -> Result<(), Failed>,
) -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let cloud = DigitalOcean::start(Options {
            rate_limit: None,
            ..Options::new(TOKEN)
        });
        let cluster = Cluster::new();
        let tenant = cluster.client_as("tenant");
        let world = World {
            cloud: cloud.await?,
            services: Api::default_namespaced(tenant.clone()),
            nodes: Api::all(tenant.clone()),
            events: Api::default_namespaced(tenant),
            cluster,
            values,
        };
        play(&world).await
    })
}

impl World {
    /// The shipped guest in the sandbox, with its requests granted for this cloud.
    pub(crate) async fn provider(&self) -> Result<Provider, Failed> {
        let module = Module {
            source: "digitalocean.wasm".to_owned(),
            wasm: Bytes::from_static(embedded_guests::DIGITALOCEAN),
        };
        let inspection = ccm_host::inspect(&module.source, &module.wasm)?;
        let mut grants = inspection.manifest.as_grants();
        for target in &mut grants.targets {
            target.endpoint = self.cloud.endpoint().parse()?;
            target.credential = Credential::Bearer(Secret::new(TOKEN.to_owned()));
            target.requests.requests = NonZeroU32::MAX;
        }
        let values = [("REGION", "fra1")];
        let values = values.iter().chain(self.values);
        let config = GuestConfig {
            schemes: Vec::new(),
            cluster_name: "kubernetes".to_owned(),
            cluster_cidrs: Vec::new(),
            values: values
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
        };
        Ok(HOST.load(module, grants, config).await?)
    }

    /// Runs the controllers of nodes and Services while the test runs.
    pub(crate) async fn managed(
        &self,
        play: impl AsyncFnOnce() -> Result<(), Failed>,
    ) -> Result<(), Failed> {
        let provider = Arc::new(self.provider().await?);
        let client = self.cluster.client_as("ccm");
        let (metrics, never) = (Metrics::default(), std::future::pending());
        let rules = ServiceRules {
            adoption: Adoption::Unowned,
            ..ServiceRules::default()
        };
        let run = run_with_rules(client, provider, rules, settings(), metrics, never);
        tokio::select! {
            ended = run => Err(format!("the controllers ended: {:?}", ended.map(drop)).into()),
            played = play() => played,
        }
    }

    /// Adds a droplet and its node, as a kubelet registers it. Returns the droplet's ID.
    pub(crate) async fn join(&self, name: &str) -> u64 {
        let droplet = self.cloud.add_droplet(DropletSpec::named(name));
        let node = node(name).uninitialized().address("Hostname", name);
        create(&self.nodes, node.ready()).await;
        droplet
    }

    /// A node as it is stored.
    pub(crate) async fn node(&self, name: &str) -> Value {
        json!(self.nodes.get_opt(name).await.unwrap())
    }

    /// Creates a Service of type LoadBalancer with two ports.
    pub(crate) async fn create(&self, name: &str, annotations: Value) {
        let service = service(name).port(80).port(443);
        let service = service.with(|one| one["metadata"]["annotations"] = annotations);
        create(&self.services, service).await;
    }

    /// Changes a Service as `kubectl patch` does.
    pub(crate) async fn change(&self, name: &str, patch: Value) {
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        let changed = self.services.patch(name, &params, &patch).await;
        changed.unwrap();
    }

    /// Deletes a Service, and waits until it is gone.
    pub(crate) async fn delete(&self, name: &str) -> Result<(), Failed> {
        let gone = self.services.delete(name, &DeleteParams::default()).await;
        gone.unwrap();
        let is_gone = async || self.service(name).await.is_null();
        self.until("the end of the Service", is_gone).await
    }

    /// A Service as it is stored; null when there is none.
    pub(crate) async fn service(&self, name: &str) -> Value {
        json!(self.services.get_opt(name).await.unwrap())
    }

    /// The first address of a Service; null without one.
    pub(crate) async fn address(&self, name: &str) -> Value {
        let service = self.service(name).await;
        let ip = service.pointer("/status/loadBalancer/ingress/0/ip");
        ip.cloned().unwrap_or_default()
    }

    /// Checks a condition repeatedly until it holds.
    pub(crate) async fn until(
        &self,
        what: &str,
        is_so: impl AsyncFn() -> bool,
    ) -> Result<(), Failed> {
        let deadline = Instant::now() + TIMEOUT;
        while !is_so().await {
            if Instant::now() > deadline {
                let events = self.events.list(&ListParams::default()).await?;
                let reported = events
                    .into_iter()
                    .map(|one| one.message.unwrap_or_default());
                let reported: Vec<String> = reported.collect();
                let asked = self.asked();
                return Err(
                    format!("not within {TIMEOUT:?}: {what}\n{reported:#?}\n{asked:#?}").into(),
                );
            }
            sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    /// The requests to the cloud, with `ID` for every ID.
    pub(crate) fn asked(&self) -> Vec<String> {
        let is_id = |part: &str| part.len() == 36 && part.matches('-').count() == 4;
        let requests = self.cloud.requests().into_iter().map(|request| {
            let path: Vec<&str> = request
                .path
                .split('/')
                .map(|part| if is_id(part) { "ID" } else { part })
                .collect();
            format!("{} {}", request.method, path.join("/"))
        });
        requests.collect()
    }
}

fn settings() -> Settings {
    let mut allowances = Allowances::default();
    for brake in [
        Brake::LoadBalancerDeletion,
        Brake::StatusClear,
        Brake::CloudMutations,
    ] {
        let allowance = Allowance {
            least: 1_000_000,
            percent: 100,
            most: 1_000_000,
            window: Duration::from_secs(600),
        };
        allowances.set(brake, allowance);
    }
    let base = ccm_tests::controllers::settings();
    Settings {
        controllers: Controllers {
            node: true,
            service: true,
            ..NO_CONTROLLERS
        },
        node: NodeSettings {
            // Longer than any test: no periodic request disturbs the counts.
            status_update_frequency: Duration::from_secs(100_000),
            ..base.node.clone()
        },
        allowances,
        pace: Pace::times(PACE),
        call_time: Duration::from_secs(3600),
        ..base
    }
}

/// Looks nodes up without the controllers.
pub(crate) async fn find(provider: &Provider, nodes: &[CloudNode]) -> Result<FindReply, Failed> {
    let end = ccm_host::egress::now().after(Duration::from_secs(60));
    let permit = Arc::new(Permit::read_only(end));
    Ok(provider.find_fresh(nodes, permit).await?)
}

/// A node whose kubelet has stopped reporting.
pub(crate) fn silent(name: &str, droplet: u64) -> CloudNode {
    CloudNode {
        provider_id: Some(format!("digitalocean://{droplet}")),
        readiness: Readiness::Unknown,
        ..ccm_fixtures::objects::cloud_node(name)
    }
}

/// The look-ups in short form.
pub(crate) fn brief(reply: &FindReply) -> Vec<String> {
    let show = |lookup: &Lookup| match lookup {
        Lookup::Found(instance) => instance.provider_id.clone(),
        Lookup::Gone => "gone".to_owned(),
        Lookup::NotMine => "not mine".to_owned(),
        Lookup::Unknown(_) => "unknown".to_owned(),
    };
    reply.lookups.iter().map(show).collect()
}
