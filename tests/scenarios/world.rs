//! Plays a script: cluster, cloud, controllers, a paused clock, and the planned disturbance. Judges nothing itself.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ccm_controllers::{Metrics, Pace, Settings};
use ccm_sim::cluster::{Cluster, Write};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tracing_subscriber::layer::SubscriberExt;

use crate::audited::{self, Audit, AuditedChange};
use crate::broken_clients::Tamper;
use crate::cloud::{SIM, ScriptedCloud};
use crate::cluster_edits::People;
use crate::cluster_faults;
use crate::crash::{Act, LATE, Life, Moment};
use crate::disturbance::{Asked, CallFault, Disturbance};
use crate::disturbed_client::Wire;
use crate::laws::{self, Record};
use crate::load_balancer_answers;
use crate::load_balancers;
use crate::nodes;
use crate::providers::Providers;
use crate::route_laws::{RouteCloud, RouteRecord};
use crate::routes::Changed;
use crate::script::Line;
use crate::service_laws::ServiceRecord;
use crate::services;
use crate::settings::Configuration;
use crate::transcript::Transcript;

/// The line of a script whose end depends on true answers: a false "not mine" of one of two providers decides the owner
/// of a machine.
pub(crate) const HONEST_FAULTS: &str = "honest-faults";
/// The user of the controllers at the API server.
const CONTROLLERS: &str = "ccm";

/// The start of every scenario, on the wall clock.
const BEGIN: &str = "2026-01-01T00:00:00Z";
/// How long the world goes on after the script of a transcript.
const REST: Duration = Duration::from_secs(30);
/// How long it goes on after each `wait` of a replay, so that the effects of the disturbance end before the next line:
/// longer than a periodic pass and the back-off after a few failures.
const CALM: Duration = Duration::from_secs(400);

/// The way to play a script.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Run {
    /// Whether waits are those of the script, for a transcript, or long enough for all effects to end.
    pub(crate) is_calm: bool,
    /// The disturbance, at one place.
    pub(crate) disturbance: Option<Disturbance>,
    /// A defect of the client, in the tests of the runner.
    pub(crate) tamper: Option<Tamper>,
}

impl Run {
    /// A replay with this disturbance.
    pub(crate) fn with(disturbance: Option<Disturbance>) -> Run {
        Run {
            is_calm: true,
            disturbance,
            tamper: None,
        }
    }
}

/// The result of a play.
pub(crate) struct Played {
    /// Script and transcript, as in the file.
    pub(crate) text: String,
    /// All nodes, Services and load balancers at the end, without values that differ from run to run.
    pub(crate) state: String,
    /// The same, without the object that a death may leave behind.
    pub(crate) state_apart: String,
    /// The effects of the controllers, writes and calls, up to the end of the script.
    pub(crate) effects: Vec<Act>,
    /// How many mutations of the cloud were announced to the audit sink by then.
    pub(crate) mutations: usize,
    /// The requests of the controllers by then.
    pub(crate) asked: Vec<Asked>,
    /// Number of cloud calls by then.
    pub(crate) calls: usize,
    /// The log at its default level.
    pub(crate) loud: Vec<String>,
    /// The messages of all broken laws.
    pub(crate) broken: Vec<String>,
    /// Whether the disturbance has happened.
    pub(crate) is_disturbed: bool,
}

/// Plays `script` on a paused clock, and judges the record.
pub(crate) fn play(script: &[Line], run: Run) -> Result<Played, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build();
    let transcript = Transcript::default();
    let subscriber = tracing_subscriber::registry().with(transcript.clone());
    let _listening = ccm_tests::log::listen(subscriber);
    runtime.map_err(|error| error.to_string())?.block_on(async {
        let mut world = World::new(run, transcript.clone());
        let mut text = String::new();
        for line in script {
            let _ = writeln!(text, "{}", line.text);
            let shown = world
                .play(line)
                .await
                .map_err(|error| format!("{:?}: {error}", line.text))?;
            let lines = match line.words.iter().any(|word| word == "quietly") {
                true => transcript.take_quietly(),
                false => transcript.take(),
            };
            for line in lines.into_iter().chain(shown) {
                let _ = writeln!(text, "{line}");
            }
        }
        // From here on a disturbance would make no sense: nothing comes after it.
        let (effects, mutations) = (world.life.effects(), world.life.mutations().0);
        let (asked, calls) = (world.wire.asked(), world.providers.sim().made());
        tokio::time::sleep(if run.is_calm { world.rest } else { REST }).await;
        world.stop().await;
        for line in transcript.take().iter().filter(|_| run.is_calm) {
            let _ = writeln!(text, "{line}");
        }
        let mut broken = world.broken();
        broken.extend(transcript.defects());
        Ok(Played {
            text,
            state: world.state(None).await,
            state_apart: world.state(world.orphan.as_deref()).await,
            effects,
            mutations,
            asked,
            calls,
            loud: transcript.loud(),
            broken,
            is_disturbed: world.is_disturbed(),
        })
    })
}

struct World {
    cluster: Cluster,
    providers: Providers,
    wire: Wire,
    life: Life,
    run: Run,
    configuration: Configuration,
    calm: Duration,
    rest: Duration,
    running: Option<JoinHandle<()>>,
    transcript: Transcript,
    /// The start of the play.
    began: Instant,
    people: People,
    /// The Service whose load balancer, or the route, that a death may leave behind.
    orphan: Option<String>,
    /// Number of processes, those that were never needed included.
    processes: usize,
    /// The start of each process.
    starts: Arc<Mutex<Vec<Instant>>>,
    /// The audit of all processes.
    audit: Audit,
}

impl World {
    fn new(run: Run, transcript: Transcript) -> World {
        let (began, age) = (Instant::now(), Arc::<Mutex<Duration>>::default());
        let older = age.clone();
        let cluster = Cluster::with_clock(move || {
            let older = *older.lock().unwrap();
            (wall(began) - SignedDuration::try_from(older).unwrap()).into()
        });
        cluster.keep_writes();
        let log = cluster.clone();
        let cloud = ScriptedCloud::new(run.tamper, move || {
            log.requests().last().map_or(0, |request| request.sequence)
        });
        let (mut death, mut fault) = (None, None);
        match run.disturbance {
            None => {}
            Some(Disturbance::Death(planned)) => death = Some(planned),
            Some(Disturbance::Request(planned, number)) => fault = Some((planned, number)),
            Some(Disturbance::Call(planned, number)) => cloud.disturb(planned, number),
        }
        let wire = Wire::new(fault, run.tamper, cluster.client_as("somebody"));
        World {
            people: People::new(cluster.clone(), age),
            orphan: None,
            processes: 0,
            cluster,
            providers: Providers::new(cloud),
            wire,
            life: Life::new(death),
            run,
            configuration: Configuration::default(),
            calm: CALM,
            rest: CALM,
            running: None,
            transcript,
            began,
            starts: Arc::default(),
            audit: Audit::default(),
        }
    }

    fn is_disturbed(&self) -> bool {
        match self.run.disturbance {
            None => false,
            Some(Disturbance::Death(_)) => self.life.is_over(),
            Some(Disturbance::Request(..)) => self.wire.hits() > 0,
            Some(Disturbance::Call(_, number)) => self.providers.sim().made() >= number,
        }
    }

    /// The messages of the laws that the controllers have broken.
    fn broken(&self) -> Vec<String> {
        let all = self.cluster.writes();
        let starts = self.starts.lock().unwrap().clone();
        let is_object = |write: &&Write| matches!(write.request.resource, "nodes" | "services");
        let history: Vec<Write> = all.iter().filter(is_object).cloned().collect();
        let mut audited = self.audit.changes();
        let services = self.providers.clouds().map(|(name, cloud)| {
            let cloud = cloud.balancers().recorded();
            ServiceRecord {
                provider: Some(name.clone()),
                history: history.clone(),
                identity: CONTROLLERS,
                audited: audited::of(&cloud.changes, &mut audited),
                cloud,
                mode: self.configuration.mode,
                allowances: self.configuration.allowances.clone(),
                starts: self.providers.rules(name),
            }
        });
        let mut services: Vec<ServiceRecord> = services.collect();
        let routes = self.routes_recorded(history.clone(), &mut audited);
        // Records without a change.
        services[0].audited.append(&mut audited);
        let (writes, others): (Vec<Write>, Vec<Write>) = all
            .into_iter()
            .partition(|write| write.request.identity == CONTROLLERS);
        let is_creation =
            |write: &&Write| (write.request.resource, write.request.verb) == ("nodes", "create");
        laws::broken(&Record {
            writes,
            answered: self.providers.answered(),
            truth: self.providers.truth(),
            surveys: self.transcript.surveys(),
            starts,
            mode: self.configuration.mode,
            allowances: self.configuration.allowances.clone(),
            began: Some((self.began, BEGIN.parse().expect("a date"))),
            may_delete_the_last: self.configuration.rules.delete_last_node,
            has_late_answers: matches!(
                self.run.disturbance,
                Some(Disturbance::Call(CallFault::Slow, _))
            ),
            lateness: match self.run.disturbance {
                Some(Disturbance::Death(death)) if death.moment == Moment::Late => Some(LATE),
                Some(Disturbance::Death(_)) => Some(Duration::ZERO),
                _ => None,
            },
            audited: Some(self.audit.records()),
            services,
            routes,
            most_nodes: others.iter().filter(is_creation).count(),
        })
    }

    /// The record of routes and pod networks. Takes its records out of the audit's.
    fn routes_recorded(
        &self,
        history: Vec<Write>,
        audited: &mut Vec<AuditedChange>,
    ) -> RouteRecord {
        let clouds = self.providers.clouds().map(|(_, cloud)| {
            let recorded = cloud.routes().recorded();
            let paths: Vec<String> = recorded.changes.iter().map(Changed::path).collect();
            let mut its = Vec::new();
            for path in paths {
                if let Some(index) = audited.iter().position(|(one, _)| *one == path) {
                    its.push(audited.remove(index));
                }
            }
            RouteCloud {
                recorded,
                audited: its,
            }
        });
        RouteRecord {
            clouds: clouds.collect(),
            history,
            identity: CONTROLLERS,
            truth: self.providers.truth(),
            cluster_cidrs: self.configuration.routes.cluster_cidrs.clone(),
            pod_networks: self.configuration.pod_networks(),
            workers: self.configuration.routes.concurrent_syncs.get(),
            mode: self.configuration.mode,
            allowances: self.configuration.allowances.clone(),
        }
    }

    /// Plays one line and returns what it shows.
    async fn play(&mut self, line: &Line) -> Result<Vec<String>, String> {
        let Some(verb) = line.words.first() else {
            return Ok(Vec::new());
        };
        // `at NAME …`: the same line, for another cloud.
        let (cloud, line) = match verb.as_str() {
            "at" => (line.word(1)?.to_owned(), &line.from(2)),
            _ => (SIM.to_owned(), line),
        };
        let cloud = self.providers.cloud(&cloud).cloned();
        match line.word(0)? {
            "provider" => {
                let fault = match self.run.disturbance {
                    Some(Disturbance::Call(fault, number)) => Some((fault, number)),
                    _ => None,
                };
                self.providers.apply(line, fault)?;
            }
            "cloud" => cloud?.apply(line)?,
            "route" => cloud?.routes().apply(line)?,
            "routes" if line.words.len() > 1 => cloud?.routes().lie(line)?,
            "routes" => return Ok(cloud?.routes().describe()),
            "route-calls" => return Ok(vec![cloud?.routes().count()]),
            "balancer" => load_balancer_answers::apply(cloud?.balancers(), line)?,
            "node" => self.people.create_node(line, wall(self.began)).await?,
            "service" => {
                let (uid, key) = self.people.create_service(line).await?;
                for (_, cloud) in self.providers.clouds() {
                    cloud.balancers().introduce(&uid, &key);
                }
            }
            "change" => self.people.change(line, wall(self.began)).await?,
            "edit" => self.people.edit_status(line).await?,
            "delete" => self.people.delete(line.word(1)?).await?,
            "force" => self.people.force(line.word(1)?).await?,
            // Only replays use it.
            HONEST_FAULTS => {}
            "orphan" => {
                let name = line.word(1)?;
                let is_route = name.starts_with("route/");
                let key = load_balancers::key;
                self.orphan = Some(if is_route { name.to_owned() } else { key(name) });
            }
            "cluster" => cluster_faults::apply(&self.cluster, CONTROLLERS, line)?,
            "plan" | "observe" | "controllers" | "setting" => self.configuration.apply(line)?,
            "calm" => {
                self.calm = seconds(line.word(1)?)?;
                self.rest = seconds(line.word(2)?)?;
            }
            "wait" => {
                self.start();
                let calm = if self.run.is_calm {
                    self.calm
                } else {
                    Duration::ZERO
                };
                tokio::time::sleep(seconds(line.word(1)?)? + calm).await;
            }
            "restart" => {
                self.stop().await;
                self.start();
            }
            "calls" => return Ok(vec![format!("| {:?}", cloud?.calls())]),
            "balancers" => return Ok(cloud?.balancers().describe()),
            "balancer-calls" => return Ok(vec![cloud?.balancers().count()]),
            "show" => return self.people.show(line.word(1)?).await,
            "nodes" => return Ok(vec![format!("| {}", self.names().await.join(" "))]),
            other => return Err(format!("no line begins with {other:?}")),
        }
        Ok(Vec::new())
    }

    /// Starts the controllers, if they do not run. After a death they are started once more, without a planned death.
    fn start(&mut self) {
        if self.running.is_some() {
            return;
        }
        let mut run = |life: Option<Life>| {
            let client = self.cluster.client_as(CONTROLLERS);
            self.processes += 1;
            let settings = self.configuration.settings(Pace::REAL);
            let rules = self.configuration.service_rules.clone();
            let provided = self
                .providers
                .of_process(self.processes, life.clone(), rules);
            let audit = Arc::new(self.audit.for_process(life.clone()));
            let client = self.wire.client(client, life);
            let starts = self.starts.clone();
            let transcript = self.transcript.clone();
            let began = self.began;
            async move {
                starts.lock().unwrap().push(Instant::now());
                transcript.note_process();
                let settings = Settings {
                    audit,
                    pace: Pace::REAL.starting(wall(began)),
                    ..settings
                };
                let forever = std::future::pending();
                ccm_controllers::run_all(client, provided, settings, Metrics::default(), forever)
                    .await
            }
        };
        let life = self.life.clone();
        let first = run(Some(life.clone()).filter(|life| !life.is_over()));
        let second = run(None);
        self.running = Some(tokio::spawn(async move {
            let result = life.then(first, second).await;
            result.expect("the provider has instances");
        }));
    }

    async fn stop(&mut self) {
        self.providers.die();
        if let Some(running) = self.running.take() {
            running.abort();
            let ended = running.await;
            assert!(
                ended.is_err_and(|error| error.is_cancelled()),
                "the controllers ended by themselves"
            );
        }
    }

    async fn names(&self) -> Vec<String> {
        let (nodes, _) = self.people.objects().await;
        let name = |node: &Value| node["metadata"]["name"].as_str().map(str::to_owned);
        nodes.iter().filter_map(name).collect()
    }

    /// The state of the world, without the Service of this name and its load balancer, or without this route.
    async fn state(&self, without: Option<&str>) -> String {
        let (nodes, services) = self.people.objects().await;
        let mut text = String::new();
        for node in &nodes {
            let _ = writeln!(text, "{:#}", nodes::essence(node));
        }
        for service in services
            .iter()
            .filter(|one| without != Some(&services::key_of(one)))
        {
            let _ = writeln!(text, "{:#}", services::essence(service));
        }
        for (name, cloud) in self.providers.clouds() {
            for (balancer, line) in cloud.balancers().there() {
                if without != Some(&balancer.name) {
                    let _ = writeln!(text, "{name} {line}");
                }
            }
            let mut routes = cloud.routes().there();
            routes.retain(|one| without != Some(&format!("route/{}", one.destination)));
            for line in nodes::routes(&nodes, &routes) {
                let _ = writeln!(text, "{name} {line}");
            }
        }
        text
    }
}

/// The wall clock's time in a world.
fn wall(began: Instant) -> Timestamp {
    let begin: Timestamp = BEGIN.parse().expect("a date");
    begin + SignedDuration::try_from(began.elapsed()).expect("no play lasts so long")
}

/// Reads a duration such as `10s`.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text
        .strip_suffix('s')
        .and_then(|number| number.parse().ok());
    seconds
        .map(Duration::from_secs)
        .ok_or_else(|| format!("{text:?} is not a time such as 10s"))
}
