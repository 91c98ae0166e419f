//! The cost of a call because the provider runs in the sandbox: the same logic with the same answers, compiled natively
//! under the SDK's `TestHost`, and as a component in the real host with its fresh instance. One after the other, so
//! that both have the same machine.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use ccm_core::cloud::{CloudNode, Lookup};
use ccm_core::cloud_provider::CloudProvider as _;
use ccm_core::safety::permit::{CloudRequest, Permit};
use ccm_fixtures::objects::ready_node;
use ccm_guest::testing::{Answer, TestHost, config, json, node, ready};
use ccm_host::egress::FetchError;
use ccm_host::grant::{Credential, Grants, Secret, TargetGrant};
use ccm_host::{
    CallUsage, Compiler, GuestConfig, Host, HostOptions, InjectedFault, Interceptor, Isolation,
    Loading, Module, Provider,
};
use guest_hcloud::provider::Hetzner;
use percent_encoding::percent_decode_str;

use crate::cloud::{Cloud, CloudBehaviour, TOKEN};
use crate::cluster::repository;
use crate::course::Course;
use crate::figure::{Figure, Key, Size, Subject, percentile};
use crate::{fat, progress};

/// The argument that makes this program compile modules for its own host.
pub(crate) const COMPILE: &str = "__compile";

/// The scheme of a cloud that the provider does not have: it answers without a request.
const FOREIGN: &str = "another";

/// The times of one call's requests on the wire, from the first byte to the last.
#[derive(Default)]
struct Wire(Mutex<Vec<(Instant, Instant)>>);

impl Interceptor for Wire {
    fn before(&self, _: &CloudRequest) -> InjectedFault {
        InjectedFault::None
    }

    fn ended(&self, _: &CloudRequest, _: &Result<u16, FetchError>, _: Option<u16>, took: Duration) {
        let now = Instant::now();
        let mut spans = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        spans.push((now - took, now));
    }

    fn called(&self, _: &CallUsage, _: &[String]) {}
}

impl Wire {
    /// How long at least one request was on the wire since this was called last.
    fn take(&self) -> Duration {
        let mut spans = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut spans = std::mem::take(&mut *spans);
        spans.sort_unstable();
        let mut covered = Duration::ZERO;
        let mut reached = None;
        for (from, to) in spans {
            let from = reached.map_or(from, |reached| from.max(reached));
            covered += to.saturating_duration_since(from);
            reached = Some(reached.map_or(to, |reached: Instant| reached.max(to)));
        }
        covered
    }
}

/// The times of one kind of call, in the order of the calls.
#[derive(Default)]
struct Times {
    whole: Vec<Duration>,
    wire: Vec<Duration>,
    inside: Vec<Duration>,
    native: Vec<Duration>,
    tax: Vec<Duration>,
    empty: Vec<Duration>,
    /// Calls that need no request, in the sandbox and natively.
    foreign: Vec<Duration>,
    foreign_native: Vec<Duration>,
}

pub(crate) async fn measure(course: &mut Course<'_>) -> Result<()> {
    let wire = Arc::new(Wire::default());
    let mut cloud = Cloud::start(CloudBehaviour::Fair).await?;
    let mut ids = Vec::new();
    let provider = load(&cloud.endpoint, &wire).await?;
    for (nodes, calls) in course.options.calls() {
        progress!("sandbox, {nodes} nodes a call, {calls} calls");
        // The cloud has exactly these servers, so that its list is as long as the question.
        let names = fat::names(nodes);
        ids.extend(cloud.add(&names[ids.len()..]).await?);
        let ids: &[u64] = &ids;
        let answers = answers(&provider, &mut cloud, ids).await?;
        let mut times = Times::default();
        // One call that is not counted: it opens connections and fills caches.
        for counted in [1, calls] {
            times = Times::default();
            for _ in 0..counted {
                one(&provider, &wire, &answers, ids, &mut times).await?;
            }
        }
        add(course, nodes, &times);
    }
    Ok(())
}

/// The embedded module in a host of its own.
async fn load(endpoint: &str, wire: &Arc<Wire>) -> Result<Provider> {
    let host = Host::new(HostOptions {
        compiler: Compiler {
            program: std::env::current_exe()?,
            arguments: vec![COMPILE.into()],
        },
        cache_dir: None,
        isolation: Isolation::InProcess,
    })?;
    let wasm = embedded_guests::HCLOUD;
    let manifest = ccm_host::inspect("hcloud", wasm)?.manifest;
    let api = manifest.targets.iter().find(|target| target.name == "api");
    let grant = TargetGrant {
        endpoint: endpoint.parse()?,
        credential: Credential::Bearer(Secret::new(TOKEN.to_owned())),
        ..api.context("a module without its target")?.as_grant()
    };
    let module = Module {
        source: "embedded:hcloud".to_owned(),
        wasm: bytes::Bytes::from_static(wasm),
    };
    let loading = Loading {
        grants: Grants {
            targets: vec![grant],
            annotation_prefixes: Vec::new(),
        },
        config: GuestConfig {
            schemes: Vec::new(),
            cluster_name: "kubernetes".to_owned(),
            cluster_cidrs: Vec::new(),
            values: Default::default(),
        },
        interceptor: Some(Arc::clone(wire) as Arc<dyn Interceptor>),
        ..Loading::default()
    };
    Ok(host.load_as(module, loading).await?)
}

/// The cloud's answers to the requests of one call, by path and query, decoded as `TestHost` shows them.
async fn answers(
    provider: &Provider,
    cloud: &mut Cloud,
    ids: &[u64],
) -> Result<HashMap<String, String>> {
    cloud.take_requests().await?;
    let reply = provider
        .find_fresh(&nodes_of("hcloud", ids), permit())
        .await
        .context("the provider does not answer")?;
    let found = |lookup: &&Lookup| matches!(lookup, Lookup::Found(_));
    let found = reply.lookups.iter().filter(found).count();
    ensure!(found == ids.len(), "{found} of {} were found", ids.len());
    let client = reqwest::Client::new();
    let mut answers = HashMap::new();
    for asked in cloud.take_requests().await? {
        let url = format!("{}{}", cloud.endpoint, asked.path);
        let answer = client.get(url).bearer_auth(TOKEN).send().await?;
        let path = percent_decode_str(&asked.path).decode_utf8()?.into_owned();
        answers.insert(path, answer.error_for_status()?.text().await?);
    }
    Ok(answers)
}

/// One call of each kind.
async fn one(
    provider: &Provider,
    wire: &Wire,
    answers: &HashMap<String, String>,
    ids: &[u64],
    times: &mut Times,
) -> Result<()> {
    let native = native(answers, "hcloud", ids)?;
    wire.take();
    let whole = sandboxed(provider, "hcloud", ids).await?;
    let on_the_wire = wire.take();
    let inside = whole.saturating_sub(on_the_wire);
    times.native.push(native);
    times.whole.push(whole);
    times.wire.push(on_the_wire);
    times.inside.push(inside);
    times.tax.push(inside.saturating_sub(native));
    times.empty.push(sandboxed(provider, "hcloud", &[]).await?);
    let foreign = sandboxed(provider, FOREIGN, ids).await?;
    times.foreign.push(foreign);
    ensure!(
        wire.take().is_zero(),
        "a request about another cloud's nodes"
    );
    times
        .foreign_native
        .push(self::native(answers, FOREIGN, ids)?);
    Ok(())
}

async fn sandboxed(provider: &Provider, scheme: &str, ids: &[u64]) -> Result<Duration> {
    let (nodes, permit) = (nodes_of(scheme, ids), permit());
    let began = Instant::now();
    let reply = provider.find_fresh(&nodes, permit).await;
    let took = began.elapsed();
    let answered = reply.context("in the sandbox")?.lookups.len();
    ensure!(answered == ids.len(), "{answered} answers");
    Ok(took)
}

fn native(answers: &HashMap<String, String>, scheme: &str, ids: &[u64]) -> Result<Duration> {
    let manifest = std::fs::read_to_string(repository().join("guests/hcloud/manifest.json"))?;
    let answers = answers.clone();
    let script = move |seen: &ccm_guest::testing::Seen| -> Answer {
        match answers.get(&seen.path) {
            Some(answer) => json(200, answer),
            None => json(404, "{}"),
        }
    };
    let host = TestHost::new(&manifest, script);
    let nodes: Vec<_> = ids
        .iter()
        .zip(fat::names(ids.len()))
        .map(|(id, name)| ready(node(&name, Some(&format!("{scheme}://{id}")))))
        .collect();
    let config = config(&[]);
    let began = Instant::now();
    let provider: Hetzner = host
        .init(&config)
        .map_err(|error| anyhow::anyhow!("natively: {error:?}"))?;
    let reply = host.find(&provider, nodes);
    let took = began.elapsed();
    let reply = reply.map_err(|error| anyhow::anyhow!("natively: {error:?}"))?;
    // Otherwise it has read no answer, and its time is that of nothing.
    let is_expected = |one: &ccm_guest::Lookup| match scheme {
        FOREIGN => matches!(one, ccm_guest::Lookup::NotMine),
        _ => matches!(one, ccm_guest::Lookup::Found(_)),
    };
    let expected = reply.lookups.iter().filter(|one| is_expected(one)).count();
    ensure!(
        expected == ids.len(),
        "natively {expected} answers of {} are as in the sandbox",
        ids.len()
    );
    Ok(took)
}

fn nodes_of(scheme: &str, ids: &[u64]) -> Vec<CloudNode> {
    let nodes = ids.iter().zip(fat::names(ids.len()));
    let nodes = nodes.map(|(id, name)| ready_node(&name, Some(&format!("{scheme}://{id}"))));
    nodes.collect()
}

fn permit() -> Arc<Permit> {
    let end = ccm_host::egress::now().after(Duration::from_secs(60));
    Arc::new(Permit::read_only(end))
}

fn add(course: &mut Course<'_>, nodes: usize, times: &Times) {
    let key = |what: &str| Key::new("sandbox", Size::Nodes(nodes), Subject::Ccm, what);
    let at = |times: &[Duration], percent| {
        let mut sorted = times.to_vec();
        sorted.sort_unstable();
        percentile(&sorted, percent)
    };
    let parts: [(&str, &[Duration]); 6] = [
        ("a call with its requests", &times.whole),
        ("on the wire", &times.wire),
        ("inside", &times.inside),
        ("the same natively", &times.native),
        ("tax: inside less natively", &times.tax),
        ("instance, init and an empty answer", &times.empty),
    ];
    for (what, times) in parts {
        for percent in [50, 99] {
            let figure = Figure::micros(key(&format!("{what}, p{percent}")), at(times, percent));
            let has_goal = what.starts_with("tax") && percent == 99 && nodes == 1;
            let figure = figure.at_most(has_goal.then_some(250.0));
            let is_shown = percent == 50 && what != "on the wire";
            course.add(if is_shown { figure.shown() } else { figure });
        }
    }
    let [empty, foreign, foreign_native, inside, native] = [
        &times.empty,
        &times.foreign,
        &times.foreign_native,
        &times.inside,
        &times.native,
    ]
    .map(|times| at(times, 50));
    // The time of a call without requests, less its instance and the guest's own work.
    let conversion = foreign.saturating_sub(empty + foreign_native);
    let rest = inside.saturating_sub(native + empty + conversion);
    course.add(Figure::micros(
        key("of it conversion of nodes and answers, p50"),
        conversion,
    ));
    course.add(Figure::micros(
        key("of it egress but the wire, and slower code, p50"),
        rest,
    ));
    let (inside, whole): (Duration, Duration) =
        (times.inside.iter().sum(), times.whole.iter().sum());
    let share = inside.as_secs_f64() / whole.as_secs_f64() * 100.0;
    course.add(Figure::new(
        key("inside, share of the whole call"),
        share,
        "%",
    ));
}
