//! The set-up of these tests: a cluster in memory, a simulated cloud on loopback, and the real controllers, host and
//! guest between them. Asserts nothing.
//!
//! On the real clock, since sockets know no other: every wait is for an event.

use std::fmt::Display;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ccm_controllers::{Controllers, Metrics, Pace, Settings};
use ccm_core::cloud_provider::CloudProvider;
use ccm_core::safety::audit::{AuditSink, NoAudit};
use ccm_core::safety::brake::{Allowance, Allowances, Brake};
use ccm_core::settings::{Adoption, ServiceRules, ServiceSettings};
pub(crate) use ccm_fixtures::TOKEN;
use ccm_fixtures::kubernetes::node;
use ccm_host::grant::{Credential, Secret};
use ccm_host::{GuestConfig, Module, Provider};
use ccm_sim::cluster::Cluster;
use ccm_sim::hetzner::{Hetzner, Location, Options, Request, ServerSpec};
use ccm_tests::controllers::{NO_CONTROLLERS, create, run_with_rules};
use k8s_openapi::api::core::v1::{Event, Node, Service};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use libtest_mimic::Failed;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::host::HOST;
use crate::load_balancers::account::CredentialInUse;

/// The user of the controllers at the API server.
pub(crate) const CONTROLLERS: &str = "ccm";
/// Timeout of a test's waits, longer than a busy machine needs. Only a failing test waits that long.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Number of requests to the cloud that a failing test shows.
const LAST: usize = 200;
/// Duration of an action, the same as in the measurement of the Go manager.
pub(crate) const ACTION: Duration = Duration::from_millis(300);
/// The private network of the tests that have one.
pub(crate) const NETWORK: &str = "cluster";

/// The settings of a world.
#[derive(Clone)]
pub(crate) struct Setup {
    /// Duration of the cloud's actions.
    pub(crate) action: Duration,
    /// Speed of the decisions' clock.
    pub(crate) pace: u32,
    /// Whether servers, load balancers and the configuration have a private network.
    pub(crate) has_network: bool,
    /// The interval of drift checks on the decisions' clock.
    pub(crate) drift_check: Duration,
    /// The load balancers that may be adopted.
    pub(crate) adoption: Adoption,
    /// Further values of the guest's configuration.
    pub(crate) values: Vec<(&'static str, &'static str)>,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup {
            action: Duration::ZERO,
            pace: 1,
            has_network: false,
            drift_check: Duration::from_secs(3600),
            adoption: Adoption::Never,
            values: Vec::new(),
        }
    }
}

/// One cluster and one cloud.
pub(crate) struct World {
    pub(crate) credential: Arc<CredentialInUse>,
    pub(crate) setup: Setup,
    pub(crate) cloud: Hetzner,
    pub(crate) cluster: Cluster,
    pub(crate) services: Api<Service>,
    pub(crate) nodes: Api<Node>,
    events: Api<Event>,
    pub(crate) network: Option<u64>,
}

/// Runs a test with a world of its own, on this thread alone.
pub(crate) fn in_world(
    setup: Setup,
    play: impl AsyncFnOnce(&World) -> Result<(), Failed>,
) -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let world = World::start(setup).await?;
        play(&world).await
    })
}

impl World {
    pub(crate) async fn start(setup: Setup) -> Result<World, Failed> {
        let cloud = Hetzner::start(Options {
            rate_limit: None,
            action_duration: setup.action,
            ..Options::new(TOKEN)
        })
        .await?;
        let network = setup.has_network.then(|| {
            cloud.add_network(
                NETWORK,
                "172.20.0.0/16".parse().unwrap(),
                Location::default(),
            )
        });
        let cluster = Cluster::new();
        let tenant = cluster.client_as("tenant");
        Ok(World {
            credential: Arc::default(),
            setup,
            cloud,
            services: Api::default_namespaced(tenant.clone()),
            nodes: Api::all(tenant.clone()),
            events: Api::default_namespaced(tenant),
            cluster,
            network,
        })
    }

    /// The shipped guest in the sandbox, with its requests granted for this cloud.
    pub(crate) async fn provider(&self) -> Result<Provider, Failed> {
        let module = Module {
            source: "hcloud.wasm".to_owned(),
            wasm: Bytes::from_static(embedded_guests::HCLOUD),
        };
        let inspection = ccm_host::inspect(&module.source, &module.wasm)?;
        let mut grants = inspection.manifest.as_grants();
        grants.targets.retain(|target| target.name == "api");
        for target in &mut grants.targets {
            target.endpoint = self.cloud.endpoint().parse()?;
            target.credential = Credential::Bearer(Secret::new(TOKEN.to_owned()));
            // Hours of requests happen in seconds here.
            target.requests.requests = NonZeroU32::MAX;
        }
        let location = [("HCLOUD_LOAD_BALANCERS_LOCATION", "fsn1")];
        let network = self.network.map(|_| ("HCLOUD_NETWORK", NETWORK));
        let values = location.iter().chain(&network).chain(&self.setup.values);
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

    /// Starts the controllers without a defect.
    pub(crate) async fn manage(&self) -> Result<Running, Failed> {
        let provider = Arc::new(self.provider().await?);
        let client = self.cluster.client_as(CONTROLLERS);
        Ok(self.run(client, provider, Arc::new(NoAudit)))
    }

    /// Starts the controllers with these connections to cluster and cloud.
    pub(crate) fn run(
        &self,
        client: Client,
        provider: Arc<dyn CloudProvider>,
        audit: Arc<dyn AuditSink>,
    ) -> Running {
        let (stop, stopped) = oneshot::channel::<()>();
        let settings = self.settings(audit);
        let rules = ServiceRules {
            adoption: self.setup.adoption,
            ..ServiceRules::default()
        };
        let task = tokio::spawn(async move {
            let recorded = async {
                // Dropped means the same as sent.
                let _ = stopped.await;
            };
            let metrics = Metrics::default();
            let ended = run_with_rules(client, provider, rules, settings, metrics, recorded).await;
            ended.map(drop).map_err(|error| error.to_string())
        });
        Running { stop, task }
    }

    fn settings(&self, audit: Arc<dyn AuditSink>) -> Settings {
        // A person's changes of a day happen in seconds here.
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
                service: true,
                ..NO_CONTROLLERS
            },
            service: ServiceSettings {
                drift_check: Some(self.setup.drift_check),
                ..ServiceSettings::default()
            },
            allowances,
            pace: Pace::times(self.setup.pace),
            audit,
            ..base
        }
    }

    /// Adds a server, and its node that is initialised and Ready. Returns the server's ID.
    pub(crate) async fn join(&self, name: &str) -> u64 {
        let server = self.cloud.add_server(ServerSpec::named(name));
        if let Some(network) = self.network {
            self.cloud.attach(server, network, None).unwrap();
        }
        let node = node(name)
            .label("wasm-ccm.dev/provider", "hcloud")
            .provider_id(&format!("hcloud://{server}"))
            .address("Hostname", name)
            .ready();
        create(&self.nodes, node).await;
        server
    }

    /// Deletes the node of a machine, and the machine.
    pub(crate) async fn leave(&self, name: &str, server: u64) {
        let gone = self.nodes.delete(name, &DeleteParams::default()).await;
        gone.unwrap();
        self.cloud.remove_server(server);
    }

    /// Creates a Service of type LoadBalancer.
    pub(crate) async fn create(&self, name: &str, ports: &[u16], annotations: Value) -> Service {
        let service = load_balancer(name, ports, annotations);
        self.try_create(&service).await.unwrap()
    }

    pub(crate) async fn try_create(&self, service: &Value) -> kube::Result<Service> {
        let service = serde_json::from_value(service.clone()).unwrap();
        self.services.create(&PostParams::default(), &service).await
    }

    /// Changes a Service as `kubectl patch` does.
    pub(crate) async fn change(&self, name: &str, patch: Value) -> Service {
        self.try_change(name, patch).await.unwrap()
    }

    pub(crate) async fn try_change(&self, name: &str, patch: Value) -> kube::Result<Service> {
        let params = PatchParams::default();
        self.services
            .patch(name, &params, &Patch::Merge(patch))
            .await
    }

    pub(crate) async fn delete(&self, name: &str) {
        let gone = self.services.delete(name, &DeleteParams::default()).await;
        gone.unwrap();
    }

    /// A Service as it is stored; null when there is none.
    pub(crate) async fn service(&self, name: &str) -> Value {
        json!(self.services.get_opt(name).await.unwrap())
    }

    /// The Events about a Service, as `REASON message`.
    pub(crate) async fn events_about(&self, name: &str) -> Vec<String> {
        let events = self.events.list(&ListParams::default()).await.unwrap();
        let about = |event: &Event| {
            let object = &event.involved_object;
            object.kind.as_deref() == Some("Service") && object.name.as_deref() == Some(name)
        };
        let reported = events.into_iter().filter(about).map(|event| {
            let (reason, message) = (event.reason, event.message);
            format!(
                "{} {}",
                reason.unwrap_or_default(),
                message.unwrap_or_default()
            )
        });
        reported.collect()
    }

    /// Waits for an Event about a Service with this reason, whose message contains these words.
    pub(crate) async fn event(&self, name: &str, reason: &str, words: &str) -> Result<(), Failed> {
        let begin = format!("{reason} ");
        let what = format!("an Event {reason} about {name} with {words:?}");
        self.until(&what, async || {
            let reported = self.events_about(name).await;
            reported
                .iter()
                .any(|one| one.starts_with(&begin) && one.contains(words))
        })
        .await
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
                return Err(self
                    .failed(format_args!("not within {TIMEOUT:?}: {what}"))
                    .await);
            }
            sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    /// The error of the test, with the requests to the cloud and the Events about Services.
    pub(crate) async fn failed(&self, why: impl Display) -> Failed {
        format!("{why}\n{}", self.account().await).into()
    }

    /// The last requests to the cloud, and the state of all objects.
    pub(crate) async fn account(&self) -> String {
        let requests = self.cloud.requests();
        let last = requests.len().saturating_sub(LAST);
        let mut lines: Vec<String> = requests[last..].iter().map(short).collect();
        for service in self.services.list(&ListParams::default()).await.unwrap() {
            let name = service.metadata.name.clone().unwrap_or_default();
            lines.push(format!("{name}: {}", json!(service)));
            lines.extend(self.events_about(&name).await);
        }
        for mut one in self.cloud.load_balancers() {
            one["load_balancer_type"] = one["load_balancer_type"]["name"].clone();
            lines.push(one.to_string());
        }
        lines.join("\n")
    }
}

/// A request to the cloud in short form.
pub(crate) fn short(request: &Request) -> String {
    let status = request.status.map(|status| status.to_string());
    format!(
        "{} {} {}",
        request.method,
        request.path,
        status.as_deref().unwrap_or("-")
    )
}

/// A Service of type LoadBalancer as a tenant writes it, with a port name for each port.
pub(crate) fn load_balancer(name: &str, ports: &[u16], annotations: Value) -> Value {
    json!({
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"type": "LoadBalancer", "ports": ports.iter().map(|port| tcp(*port)).collect::<Vec<_>>()},
    })
}

/// One TCP port of a Service, whose node port the API server chooses.
pub(crate) fn tcp(port: u16) -> Value {
    json!({"name": format!("p{port}"), "port": port, "protocol": "TCP"})
}

/// Controllers that run until they are stopped.
pub(crate) struct Running {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), String>>,
}

impl Running {
    /// Ends the controllers as a rolling update does.
    pub(crate) async fn stop(self) -> Result<(), Failed> {
        drop(self.stop);
        Ok(self.task.await??)
    }

    /// Ends the controllers as a crash does: requests on the wire are not waited for.
    pub(crate) async fn kill(self) -> Result<(), Failed> {
        self.task.abort();
        match self.task.await {
            Err(error) if error.is_cancelled() => Ok(()),
            ended => Err(format!("the controllers ended by themselves: {ended:?}").into()),
        }
    }
}
