//! Starts the HTTP endpoints of `ccm run` and gives them their contents. Holds the checks in which the rest of the
//! process reports its health.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use ccm_controllers::{Heartbeats, RestClients};
use ccm_core::safety::tenure::Tenure;
use ccm_core::well_known::COMPONENT;
use ccm_delivery::source::Location;
use ccm_host::egress::now;
use ccm_serving::{Checks, ClusterAccess, Endpoints, RuntimeHeartbeat, Server};
use clap::ArgMatches;
use kube::Config;
use prometheus_client::registry::Registry;
use serde_json::Value;

use super::as_user;
use crate::api_server_proxy::{completed, counted_client};
use crate::api_server_url::in_cluster;
use crate::config::ProviderConfig;
use crate::flags::{ServingFlags, shown_values};
use crate::kubeconfig::configuration_of;
use crate::status_collector::StatusCollector;
use crate::{builtin_grants, provider_loading, telemetry};

/// Upstream's tolerance of a late renewal (PROC-072).
const LATE: Duration = Duration::from_secs(20);
/// The name of the check of the controllers' own runtime.
const RUNTIME: &str = "runtime";
/// The name of the check that a provider serves.
const PROVIDER: &str = "provider";

/// The health of the process, and its servers, which end when this is dropped.
pub(super) struct Served {
    checks: Checks,
    ready: Checks,
    /// Monitors whether the controllers hang.
    pub(super) heartbeats: Heartbeats,
    /// The contents of the status page.
    pub(super) status: StatusCollector,
    endpoints: Endpoints,
    secure: Option<Server>,
    plain: Vec<Server>,
}

impl Served {
    /// Opens the ports. Nothing else of the process may have begun: a manager that cannot be probed does not start.
    ///
    /// # Errors
    /// A port is taken, a certificate is unusable, or the cluster's authentication settings cannot be read.
    pub(super) async fn start(
        flags: Option<ServingFlags>,
        values: &ArgMatches,
        configz: Value,
        kubernetes: &Config,
        clients: &RestClients,
        registry: Registry,
        status: StatusCollector,
    ) -> anyhow::Result<Served> {
        let mut slis = Registry::default();
        let checks = Checks::new(&mut slis);
        let ready = checks.beside();
        let heartbeats = Heartbeats::default();
        let runtime = RuntimeHeartbeat::start();
        // Fails when no thread of the controllers' runtime is free any more.
        checks.add(RUNTIME, move || runtime.health());
        ready.add(PROVIDER, || Err("no provider serves yet".to_owned()));
        let shown = shown_values(values).into_iter();
        let shown = shown.map(|(name, value)| (name.to_owned(), value));
        let profiles = flags.as_ref().is_some_and(|flags| flags.profiles);
        let endpoints = Endpoints {
            component: COMPONENT,
            version: env!("CARGO_PKG_VERSION"),
            checks: checks.clone(),
            ready: ready.clone(),
            metrics: Arc::new(registry),
            slis: Arc::new(slis),
            configz: Arc::new(configz),
            flags: Arc::new(shown.collect()),
            started: SystemTime::now(),
            status: status.source(),
            set_verbosity: profiles.then_some(telemetry::set_verbosity),
        };
        let secure = match flags {
            None => None,
            Some(flags) => Some(secure(flags, kubernetes, clients, endpoints.clone()).await?),
        };
        Ok(Served {
            checks,
            ready,
            heartbeats,
            status,
            endpoints,
            secure,
            plain: Vec::new(),
        })
    }

    /// Serves metrics on a plain port where the vendor's own manager does, for a module with its built-in grants. As
    /// there, a port that is taken ends nothing.
    pub(super) async fn in_place_of_the_vendors(&mut self, provider: &ProviderConfig) {
        let (Location::Embedded(guest), None) = (&provider.source, &provider.grants) else {
            return;
        };
        // A mistake is reported with the module's other ones.
        let Ok(Some(address)) = builtin_grants::metrics_address(guest, &provider_loading::PROCESS)
        else {
            return;
        };
        let mut server = Server::plain(address, self.endpoints.clone()).await;
        if server.is_err() && address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED) {
            // The machine has no IPv6.
            let address = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), address.port());
            server = Server::plain(address, self.endpoints.clone()).await;
        }
        match server {
            Ok(server) => {
                tracing::info!(address = %server.address(), provider = provider.name, "serving metrics without TLS");
                self.plain.push(server);
            }
            Err(error) => {
                let error = anyhow::Error::new(error);
                tracing::error!(
                    error = format!("{error:#}"),
                    provider = provider.name,
                    "metrics are not served without TLS"
                );
            }
        }
    }

    /// The addresses of the endpoints: the secure port first, then the plain ones.
    pub(super) fn addresses(&self) -> Vec<String> {
        let secure = self
            .secure
            .iter()
            .map(|it| format!("https://{}", it.address()));
        let plain = self
            .plain
            .iter()
            .map(|it| format!("http://{}", it.address()));
        secure.chain(plain).collect()
    }

    /// Adds the check of the Lease: healthy while another process leads, and while this one renews in time (PROC-072).
    pub(super) fn watch_lease(&self, tenure: Arc<Tenure>) {
        self.checks.add("leaderElection", move || {
            let ends = tenure.ends();
            let never_led = ends.0.is_zero();
            if never_led || now() <= ends.after(LATE) {
                Ok(())
            } else {
                Err("the lease was not renewed in time".to_owned())
            }
        });
    }

    /// Adds a check for each of these controllers.
    pub(super) fn watch_controllers(&self, names: &[&'static str]) {
        for &name in names {
            let heartbeats = self.heartbeats.clone();
            self.checks.add(name, move || heartbeats.health(name));
        }
    }

    /// Makes the process ready only while `serves` returns true.
    pub(super) fn ready_while(&self, serves: impl Fn() -> bool + Send + Sync + 'static) {
        self.ready.add(PROVIDER, move || match serves() {
            true => Ok(()),
            false => Err("no provider serves".to_owned()),
        });
    }
}

async fn secure(
    flags: ServingFlags,
    kubernetes: &Config,
    clients: &RestClients,
    endpoints: Endpoints,
) -> anyhow::Result<Server> {
    let (reviews, access) = (
        flags.authentication_kubeconfig.as_deref(),
        flags.authorization_kubeconfig.as_deref(),
    );
    let reviews = reviewer(reviews, kubernetes, clients).await?;
    let access = reviewer(access, kubernetes, clients).await?;
    let mut authentication = flags.authentication;
    // As upstream, the look-up has to succeed if its cluster was named or is this pod's own.
    authentication.tolerates_failed_lookup |= reviews.is_fallback;
    authentication.cluster = Some(reviews.cluster);
    let mut authorization = flags.authorization;
    authorization.cluster = Some(access.cluster);
    let server = Server::secure(flags.secure, authentication, authorization, endpoints)
        .await
        .context("cannot serve the secure port (--secure-port=0 turns it off)")?;
    tracing::debug!(address = %server.address(), "serving securely");
    Ok(server)
}

/// The cluster that reviews tokens or access.
struct Reviewer {
    cluster: ClusterAccess,
    /// Whether it is only the cluster of `--kubeconfig`, whose user may lack the rights.
    is_fallback: bool,
}

async fn reviewer(
    file: Option<&Path>,
    kubernetes: &Config,
    clients: &RestClients,
) -> anyhow::Result<Reviewer> {
    let (config, is_fallback) = match file {
        Some(file) => {
            let (config, proxy) = configuration_of(file, None).await?;
            (completed(config, proxy)?, false)
        }
        None => match in_cluster() {
            Ok(config) => (completed(config, None)?, false),
            Err(_) => (kubernetes.clone(), true),
        },
    };
    // Whoever asks for metrics does not wait for the controllers' limit; as upstream.
    let clients = clients.without_limit();
    Ok(Reviewer {
        cluster: ClusterAccess {
            config: as_user(&config, "/delegated-auth"),
            connect: Arc::new(move |config: &Config| counted_client(config, &clients)),
        },
        is_fallback,
    })
}
