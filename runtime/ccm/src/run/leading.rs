//! Wins leases and runs controllers under them until the end. All controllers share one set of providers (EDGE-094).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use ccm_controllers::lease::{ElectionMetrics, ElectionSettings};
use ccm_controllers::tenure_client::TokenSource;
use ccm_controllers::{
    Clients, Controllers, LeaseName, Metrics, Provided, RestClients, Settings, Stopped,
    tenure_client,
};
use ccm_core::safety::permit::Mode;
use ccm_core::safety::tenure::Tenure;
use ccm_core::well_known::{
    COMPONENT, IPAM_CONTROLLER, NODE_CONTROLLER, NODE_LIFECYCLE_CONTROLLER, ROUTE_CONTROLLER,
    SERVICE_CONTROLLER,
};
use ccm_delivery::rollout_controller::Lead;
use kube::{Client, Config};
use tokio::sync::{oneshot, watch};
use uuid::Uuid;

use super::endpoints::Served;
use super::{Stop, as_user};
use crate::audit::AuditWriter;
use crate::flags::ElectionFlags;
use crate::leader_migration::{Migration, MigrationLease};
use crate::leadership::{Leadership, Lock};
use crate::provider_manager::LeadershipSignal;
use crate::status_collector::Candidacy;

/// Controllers that run under one lease.
pub(super) struct Group {
    /// The lease that they run under. `None`: without a lease.
    lease: Option<Lease>,
    controllers: Vec<&'static str>,
}

/// A lease, and the last log line when it is lost.
pub(super) struct Lease {
    pub(super) settings: ElectionSettings,
    lost_message: &'static str,
}

impl Group {
    /// The Lease that stores how much was deleted: the group's own. Without an election it is the one that an election has
    /// by default. That is not held then, and without the right to write it, which may be missing where no election takes
    /// place, a warning is logged and the budgets stay in memory.
    fn budget_lease(&self) -> LeaseName {
        match &self.lease {
            Some(lease) => LeaseName {
                namespace: lease.settings.namespace.clone(),
                name: lease.settings.name.clone(),
            },
            None => LeaseName {
                namespace: "kube-system".to_owned(),
                name: "cloud-controller-manager".to_owned(),
            },
        }
    }
}

/// All controllers, grouped by lease.
pub(super) struct Groups {
    main: Group,
    /// Starts competing after the main lease is won (PROC-044).
    migration: Option<Group>,
}

impl Groups {
    /// Assigns each enabled controller to its lease. What the migration gives to another component is left out, also
    /// without an election: a plan takes part in none, and shows only what this manager would change.
    pub(super) fn new(
        election: Option<&ElectionFlags>,
        migration: Option<&Migration>,
        enabled: Vec<&'static str>,
    ) -> Groups {
        let place = |controller: &&'static str| {
            let found = migration.map(|migration| migration.place(controller, COMPONENT));
            found.unwrap_or(MigrationLease::Main)
        };
        let Some(election) = election else {
            let is_here =
                |controller: &&'static str| place(controller) != MigrationLease::Elsewhere;
            let main = Group {
                lease: None,
                controllers: enabled.into_iter().filter(is_here).collect(),
            };
            return Groups {
                main,
                migration: None,
            };
        };
        let identity = identity();
        let group = |name: &str, lost_message, lease| Group {
            lease: Some(Lease {
                settings: ElectionSettings {
                    namespace: election.namespace.clone(),
                    name: name.to_owned(),
                    identity: identity.clone(),
                    timing: election.timing,
                },
                lost_message,
            }),
            controllers: enabled
                .iter()
                .copied()
                .filter(|controller| place(controller) == lease)
                .collect(),
        };
        Groups {
            main: group(&election.name, "leaderelection lost", MigrationLease::Main),
            migration: migration.map(|migration| {
                group(
                    &migration.leader_name,
                    "migration leaderelection lost",
                    MigrationLease::Migration,
                )
            }),
        }
    }

    /// The main lease, if there is one.
    pub(super) fn lease(&self) -> Option<&Lease> {
        self.main.lease.as_ref()
    }

    /// Whether no controller runs in this process.
    pub(super) fn is_idle(&self) -> bool {
        let migrated = self.migration.as_ref();
        self.main.controllers.is_empty()
            && migrated.is_none_or(|group| group.controllers.is_empty())
    }
}

/// `<hostname>_<random UUID>` (PROC-040): the host for people, the UUID to distinguish later processes on the same
/// host.
fn identity() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}_{}", host.trim(), Uuid::new_v4())
}

/// Dependencies shared by all groups.
pub(super) struct Manager {
    pub(super) kubernetes: Config,
    pub(super) provided: watch::Receiver<Arc<[Provided]>>,
    pub(super) leadership_signal: LeadershipSignal,
    pub(super) settings: Settings,
    pub(super) audit: AuditWriter,
    pub(super) metrics: Metrics,
    pub(super) election_metrics: ElectionMetrics,
    pub(super) clients: RestClients,
    /// `--use-service-account-credentials`, in enforce mode.
    pub(super) identity_per_controller: bool,
    pub(super) served: Served,
}

impl Manager {
    /// Runs all groups until the process has to stop.
    pub(super) async fn lead(&self, groups: Groups, stop: Stop) -> anyhow::Result<()> {
        let (has_won, main_is_won) = oneshot::channel();
        let main = self.lead_one(groups.main, stop.clone(), Some(has_won));
        let migration = async {
            let Some(group) = groups.migration else {
                return Ok(None);
            };
            match main_is_won.await {
                Ok(()) => self.lead_one(group, stop, None).await,
                // The process had to stop before.
                Err(_) => Ok(None),
            }
        };
        // A lease that is given back ends the writes of all groups, so each is held until the requests of both have
        // ended.
        let (main, migration) = tokio::try_join!(main, migration)?;
        tokio::join!(release(main), release(migration));
        Ok(())
    }

    /// Leads one group until the process has to stop. Returns the lease, which is still held, and whether requests of
    /// the group are on the wire; `None`: no lease is held.
    async fn lead_one(
        &self,
        group: Group,
        stop: Stop,
        has_won: Option<oneshot::Sender<()>>,
    ) -> anyhow::Result<Option<(Leadership, Stopped)>> {
        let budget_lease = group.budget_lease();
        let Some(lease) = group.lease else {
            let settings = Settings {
                tenure: Arc::new(Tenure::unlimited()),
                budget_lease: Some(budget_lease),
                audit: Arc::new(self.audit.led_by("", 0)),
                ..self.settings.clone()
            };
            if settings.mode == Mode::Enforce {
                self.lead_providers(&settings, None)?;
            }
            self.run(&group.controllers, settings, None, stop).await?;
            return Ok(None);
        };
        let timing = lease.settings.timing;
        let identity = lease.settings.identity.clone();
        let holder = watch::Sender::default();
        let candidacy = Candidacy {
            lease: format!("{}/{}", budget_lease.namespace, budget_lease.name),
            identity: identity.clone(),
            holder: holder.subscribe(),
        };
        let lock = self.lock(&lease, holder);
        let mut leadership = Leadership::start(lock, self.election_metrics.clone())?;
        self.served.watch_lease(leadership.tenure());
        self.served
            .status
            .add_candidacy(candidacy, leadership.tenure());
        let transitions = tokio::select! {
            won = leadership.won() => won.context("cannot take part in the election")?,
            () = stop.clone().requested() => {
                leadership.give_back().await;
                return Ok(None);
            }
        };
        // The holder of the main lease also decides about the providers' versions.
        let decides = has_won.is_some();
        if let Some(has_won) = has_won {
            // Without a migration there is no receiver.
            let _ = has_won.send(());
        }
        let unacknowledged = timing.unacknowledged();
        let settings = Settings {
            tenure: leadership.tenure(),
            budget_lease: Some(budget_lease),
            audit: Arc::new(self.audit.led_by(&identity, transitions)),
            ..self.settings.clone()
        };
        if decides {
            self.lead_providers(&settings, Some(unacknowledged))?;
        }
        let stopped = self
            .run(&group.controllers, settings, Some(unacknowledged), stop)
            .await?;
        if decides {
            self.leadership_signal.give_back().await;
        }
        Ok(Some((leadership, stopped)))
    }

    /// The candidacy for a lease, which reports its holder.
    pub(super) fn lock(&self, lease: &Lease, holder: watch::Sender<String>) -> Lock {
        Lock {
            config: as_user(&self.kubernetes, "/leader-election"),
            settings: lease.settings.clone(),
            lost_message: lease.lost_message,
            audit: self.audit.clone(),
            clients: self.clients.clone(),
            holder,
        }
    }

    /// Lets this process decide about the providers' versions while the tenure lasts.
    pub(super) fn lead_providers(
        &self,
        settings: &Settings,
        unacknowledged: Option<Duration>,
    ) -> anyhow::Result<()> {
        let tenure = settings.tenure.clone();
        let kubernetes = as_user(&self.kubernetes, "/delivery");
        let writer =
            tenure_client::client(&kubernetes, tenure.clone(), unacknowledged, &self.clients)?;
        self.leadership_signal.take(Lead { tenure }, Some(writer));
        Ok(())
    }

    /// Runs these controllers until the process has to stop.
    async fn run(
        &self,
        controllers: &[&'static str],
        settings: Settings,
        unacknowledged: Option<Duration>,
        stop: Stop,
    ) -> anyhow::Result<Stopped> {
        if controllers.is_empty() {
            tracing::warn!("no controller runs under this lease; it is held nevertheless");
            stop.requested().await;
            return Ok(Stopped::Drained);
        }
        self.served.watch_controllers(controllers);
        let kubernetes = as_user(&self.kubernetes, "");
        let tenure = settings.tenure.clone();
        let base =
            tenure_client::client(&kubernetes, tenure.clone(), unacknowledged, &self.clients)?;
        let identities = match self.identity_per_controller {
            true => self.identities(controllers, &base, &tenure, unacknowledged)?,
            false => BTreeMap::new(),
        };
        let settings = Settings {
            controllers: Controllers {
                node: controllers.contains(&NODE_CONTROLLER),
                node_lifecycle: controllers.contains(&NODE_LIFECYCLE_CONTROLLER),
                service: controllers.contains(&SERVICE_CONTROLLER),
                route: controllers.contains(&ROUTE_CONTROLLER),
                node_ipam: controllers.contains(&IPAM_CONTROLLER),
            },
            ..settings
        };
        let stopped = ccm_controllers::run_all(
            Clients::new(base, identities),
            self.provided.clone(),
            settings,
            self.metrics.clone(),
            stop.requested(),
        );
        Ok(stopped.await?)
    }

    /// PROC-030: a client for each of these controllers, which acts as the controller's ServiceAccount.
    fn identities(
        &self,
        controllers: &[&'static str],
        base: &Client,
        tenure: &Arc<Tenure>,
        unacknowledged: Option<Duration>,
    ) -> anyhow::Result<BTreeMap<&'static str, Client>> {
        let mut by_account: BTreeMap<&'static str, Client> = BTreeMap::new();
        let mut identities = BTreeMap::new();
        for controller in controllers {
            let (account, suffix) = service_account(controller);
            let client = match by_account.get(account) {
                Some(client) => client.clone(),
                None => tenure_client::client_of(
                    TokenSource::new(base.clone(), "kube-system", account),
                    &as_user(&self.kubernetes, suffix),
                    tenure.clone(),
                    unacknowledged,
                    &self.clients,
                )?,
            };
            by_account.insert(account, client.clone());
            identities.insert(*controller, client);
        }
        Ok(identities)
    }
}

/// Gives the lease of a group back, unless requests of the group are on the wire.
async fn release(led: Option<(Leadership, Stopped)>) {
    match led {
        Some((leadership, Stopped::Drained)) => {
            tracing::info!("all requests have ended");
            leadership.give_back().await;
        }
        Some((_, Stopped::OnTheWire)) => {
            tracing::warn!("requests are still on the wire: the lease is not released");
        }
        None => {}
    }
}

/// Upstream's name of the ServiceAccount that the controller acts as, and the suffix of its user agent.
fn service_account(controller: &str) -> (&'static str, &'static str) {
    match controller {
        SERVICE_CONTROLLER => ("service-controller", "/service-controller"),
        ROUTE_CONTROLLER => ("route-controller", "/route-controller"),
        _ => ("node-controller", "/node-controller"),
    }
}

#[cfg(test)]
mod tests;
