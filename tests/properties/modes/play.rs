//! Plays a world in one mode: the real controllers, from the beginning until nothing changes any more.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ccm_controllers::{Metrics, Settings, SharedPlan};
use ccm_core::moment::Moment;
use ccm_core::safety::audit::AuditSink;
use ccm_core::safety::permit::{Mode, Refusal};
use ccm_core::settings::{NodeRules, NodeSettings};
use ccm_fixtures::audit::RecordingAudit;
use ccm_fixtures::permits::change;
use ccm_fixtures::provider::{ScriptedProvider, at_once};
use ccm_sim::cluster::Cluster;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::PostParams;

use crate::modes::world::World;

/// The user of the controllers at the API server.
const CONTROLLERS: &str = "ccm";
/// Duration of a play: a mass outage is held for a quarter of an hour, and then the brakes allow three of at most nine
/// changes in ten minutes.
const LONG: Duration = Duration::from_secs(50 * 60);
/// All nodes are older than any rule asks for.
const AGE: Duration = Duration::from_secs(3600);

/// The result of a play.
pub(crate) struct Played {
    /// The planned verb of each object.
    pub(crate) planned: BTreeMap<String, String>,
    /// Whether the plan is complete.
    pub(crate) is_sure: bool,
    /// The verb of the first write to each node.
    pub(crate) written: BTreeMap<String, String>,
    /// Number of writes of all kinds, Events included.
    pub(crate) requests: usize,
    /// Number of audit records of node deletions.
    pub(crate) deletions: usize,
    verbs: Vec<String>,
}

impl Played {
    /// Number of writes to nodes with this verb.
    pub(crate) fn written_verbs(&self, verb: &str) -> usize {
        self.verbs.iter().filter(|one| *one == verb).count()
    }
}

/// Plays `world` in this mode.
pub(crate) fn play(world: &World, mode: Mode) -> Played {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(played(world, mode))
}

async fn played(world: &World, mode: Mode) -> Played {
    let cluster = Cluster::with_clock(|| SystemTime::now() - AGE);
    let nodes: Api<Node> = Api::all(cluster.client_as("somebody"));
    for node in world.nodes() {
        let node: Node = serde_json::from_value(node).expect("a node");
        let made = nodes.create(&PostParams::default(), &node).await;
        made.expect("the node can be made");
    }
    cluster.keep_writes();
    let (shared_plan, audit) = (SharedPlan::default(), Arc::new(RecordingAudit::default()));
    let result = ccm_tests::controllers::run_one(
        cluster.client_as(CONTROLLERS),
        Arc::new(cloud(world.clone())),
        settings(world, mode, shared_plan.clone(), audit.clone()),
        Metrics::default(),
        tokio::time::sleep(LONG),
    );
    result.await.expect("the provider has instances");
    let asked = audit.requests();
    assert!(asked.is_empty(), "a look-up may change nothing: {asked:?}");
    let mut played = Played {
        planned: BTreeMap::new(),
        is_sure: shared_plan.snapshot().is_sure(),
        written: BTreeMap::new(),
        requests: 0,
        deletions: audit.deletions().len(),
        verbs: Vec::new(),
    };
    for planned in shared_plan.snapshot().changes() {
        let Some(_) = planned.object.strip_prefix("node/") else {
            panic!("{planned:?} is not about a node");
        };
        let (object, verb) = (planned.object.clone(), planned.verb.clone());
        let another = played.planned.insert(object, verb);
        assert_eq!(another, None, "no two controllers change a node here");
    }
    for write in cluster.writes() {
        let request = write.request;
        if request.identity != CONTROLLERS {
            continue;
        }
        played.requests += 1;
        let is_done = request.code.is_some_and(|code| (200..300).contains(&code));
        if request.resource != "nodes" || !is_done {
            continue;
        }
        let verb = format!("{} {}", request.verb, request.subresource);
        let verb = verb.trim_end().to_owned();
        let object = format!("node/{}", request.name);
        played.written.entry(object).or_insert(verb.clone());
        played.verbs.push(verb);
    }
    played
}

fn settings(world: &World, mode: Mode, plan: SharedPlan, audit: Arc<dyn AuditSink>) -> Settings {
    let base = ccm_tests::controllers::settings();
    Settings {
        audit,
        plan,
        node: NodeSettings {
            rules: NodeRules {
                reconcile_labels: world.reconcile_labels,
                ..NodeRules::default()
            },
            ..base.node.clone()
        },
        mode,
        ..base
    }
}

/// The provider `sim`, which always gives the same answers, and tries to change something in every look-up. Every
/// permit refuses that, so no plan has it.
fn cloud(world: World) -> ScriptedProvider {
    ScriptedProvider::new("sim")
        .finding(move |node| world.lookup(&node.name))
        .scripted(|asked| {
            let request = change("DELETE", "/servers/1");
            let verdict = asked.permit.ask(Moment(Duration::ZERO), &request);
            assert_eq!(verdict, Err(Refusal::Budget(0)));
            at_once(Ok(()))
        })
}
