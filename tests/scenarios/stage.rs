//! Plays a script: cluster, cloud, controllers and a paused clock. Judges nothing.

use std::fmt::Write as _;
use std::num::NonZeroUsize;
use std::time::Duration;

use ccm_controllers::{Metrics, Settings};
use ccm_core::permit::Mode;
use ccm_core::settings::NodeSettings;
use ccm_sim::cluster::{Cluster, Fault, FaultEffect, Verb};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tracing_subscriber::layer::SubscriberExt;

use crate::cloud::ScriptedCloud;
use crate::gate::Gate;
use crate::script::Line;
use crate::transcript::Transcript;

const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";
/// How long the world goes on after the script, so that runs with and without a crash come to rest.
const REST: Duration = Duration::from_secs(30);

/// How a play went.
pub(crate) struct Played {
    /// Script and transcript, as they stand in the file.
    pub(crate) text: String,
    /// All nodes at the end, without what differs from run to run.
    pub(crate) state: String,
    /// How many writes the controllers sent.
    pub(crate) writes: usize,
}

/// Plays `script`; with `crash`, the controllers die behind their so many-th write and are started anew.
pub(crate) fn play(script: &[Line], crash: Option<usize>) -> Result<Played, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build();
    let transcript = Transcript::default();
    let subscriber = tracing_subscriber::registry().with(transcript.clone());
    let _listening = tracing::subscriber::set_default(subscriber);
    runtime.map_err(|error| error.to_string())?.block_on(async {
        let mut stage = Stage::new(crash);
        let mut text = String::new();
        for line in script {
            let _ = writeln!(text, "{}", line.text);
            let shown = stage
                .play(line)
                .await
                .map_err(|error| format!("{:?}: {error}", line.text))?;
            for line in transcript.take().into_iter().chain(shown) {
                let _ = writeln!(text, "{line}");
            }
        }
        tokio::time::sleep(REST).await;
        let writes = stage.gate.writes();
        stage.stop().await;
        Ok(Played {
            text,
            state: stage.state().await,
            writes,
        })
    })
}

struct Stage {
    cluster: Cluster,
    cloud: ScriptedCloud,
    gate: Gate,
    mode: Mode,
    running: Option<JoinHandle<()>>,
}

impl Stage {
    fn new(crash: Option<usize>) -> Stage {
        Stage {
            cluster: Cluster::new(),
            cloud: ScriptedCloud::default(),
            gate: Gate::new(crash),
            mode: Mode::Enforce,
            running: None,
        }
    }

    /// Plays one line and returns what it shows.
    async fn play(&mut self, line: &Line) -> Result<Vec<String>, String> {
        let Some(verb) = line.words.first() else {
            return Ok(Vec::new());
        };
        match verb.as_str() {
            "cloud" => self.cloud.say(line)?,
            "node" => self.create(line).await?,
            "change" => self.change(line).await?,
            "delete" => self.delete(line.word(1)?).await?,
            "cluster" => self.disturb(line)?,
            "plan" => self.mode = Mode::Plan,
            "wait" => {
                self.start();
                tokio::time::sleep(seconds(line.word(1)?)?).await;
            }
            "restart" => {
                self.stop().await;
                self.start();
            }
            "calls" => return Ok(vec![format!("| {:?}", self.cloud.calls())]),
            "show" => return self.show(line.word(1)?).await,
            other => return Err(format!("no line begins with {other:?}")),
        }
        Ok(Vec::new())
    }

    /// Starts the controllers, if they do not run. After a crash they are started once more, whole.
    fn start(&mut self) {
        if self.running.is_some() {
            return;
        }
        let run = |client| {
            ccm_controllers::run(
                client,
                std::sync::Arc::new(self.cloud.clone()),
                settings(self.mode),
                Metrics::default(),
                std::future::pending(),
            )
        };
        let inner = self.cluster.client_as("ccm");
        let first = run(self.gate.client(inner.clone()));
        let second = run(inner);
        let gate = self.gate.clone();
        self.running = Some(tokio::spawn(async move {
            tokio::select! {
                result = first => result.expect("the provider has instances"),
                () = gate.cut() => second.await.expect("the provider has instances"),
            }
        }));
    }

    async fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            running.abort();
            let ended = running.await;
            assert!(
                ended.is_err_and(|error| error.is_cancelled()),
                "the controllers ended by themselves"
            );
        }
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.cluster.client_as("somebody"))
    }

    async fn create(&self, line: &Line) -> Result<(), String> {
        let mut node = json!({ "metadata": { "name": line.word(1)? }, "spec": {}, "status": {} });
        for (key, value) in line.pairs(2)? {
            describe(&mut node, key, value)?;
        }
        let node: Node = serde_json::from_value(node).map_err(|error| error.to_string())?;
        let made = self.nodes().create(&PostParams::default(), &node).await;
        made.map(|_| ()).map_err(|error| error.to_string())
    }

    /// Somebody else writes to a node.
    async fn change(&self, line: &Line) -> Result<(), String> {
        let name = line.word(1)?;
        let api = self.nodes();
        let node = api.get(name).await.map_err(|error| error.to_string())?;
        let mut node = serde_json::to_value(node).map_err(|error| error.to_string())?;
        for (key, value) in line.pairs(2)? {
            describe(&mut node, key, value)?;
        }
        let object = json!({ "metadata": node["metadata"], "spec": node["spec"] });
        let status = json!({ "status": node["status"] });
        let params = PatchParams::default();
        let patched = api.patch(name, &params, &Patch::Merge(object)).await;
        patched.map_err(|error| error.to_string())?;
        let patched = api.patch_status(name, &params, &Patch::Merge(status)).await;
        patched.map(|_| ()).map_err(|error| error.to_string())
    }

    async fn delete(&self, name: &str) -> Result<(), String> {
        let deleted = self.nodes().delete(name, &DeleteParams::default()).await;
        deleted.map(|_| ()).map_err(|error| error.to_string())
    }

    /// `cluster …`: what goes wrong at the API server.
    fn disturb(&self, line: &Line) -> Result<(), String> {
        let effect = match line.word(1)? {
            "forgets" => {
                self.cluster.expire_watches();
                return Ok(());
            }
            "loses" => FaultEffect::LostAfterCommit,
            "drops" => FaultEffect::LostBeforeCommit,
            code => FaultEffect::Refused {
                code: code
                    .parse()
                    .map_err(|_| format!("{code:?} is not a status"))?,
                retry_after: None,
            },
        };
        let verb = match line.word(2)? {
            "patch" => Verb::Patch,
            "get" => Verb::Get,
            "list" => Verb::List,
            "watch" => Verb::Watch,
            "create" => Verb::Create,
            other => return Err(format!("no verb is called {other:?}")),
        };
        let (resource, subresource) = line.word(3)?.split_once('/').unwrap_or((line.word(3)?, ""));
        let times = line
            .word(4)?
            .parse()
            .map_err(|_| "the last word is how often".to_owned())?;
        self.cluster.inject(
            Fault::next(verb, resource, effect)
                .on(subresource)
                .times(times),
        );
        Ok(())
    }

    async fn show(&self, name: &str) -> Result<Vec<String>, String> {
        let node = self
            .nodes()
            .get(name)
            .await
            .map_err(|error| error.to_string())?;
        Ok(portrait(
            &serde_json::to_value(node).map_err(|error| error.to_string())?,
        ))
    }

    async fn state(&self) -> String {
        let nodes = self
            .nodes()
            .list(&ListParams::default())
            .await
            .expect("the in-memory API server answers");
        let mut text = String::new();
        for node in nodes {
            let node = serde_json::to_value(node).expect("nodes are JSON");
            let _ = writeln!(
                text,
                "{}\n{}",
                node["metadata"]["name"],
                portrait(&node).join("\n")
            );
        }
        text
    }
}

/// Puts `key=value` of a script into a node.
fn describe(node: &mut Value, key: &str, value: &str) -> Result<(), String> {
    let push = |list: &mut Value, item: Value| match list.as_array_mut() {
        Some(list) => list.push(item),
        None => *list = json!([item]),
    };
    let halves = || {
        value
            .split_once(':')
            .ok_or_else(|| format!("{key} wants A:B"))
    };
    match key {
        "taint" => {
            let taint = if value == "uninitialized" {
                UNINITIALIZED
            } else {
                value
            };
            push(
                &mut node["spec"]["taints"],
                json!({ "key": taint, "value": "true", "effect": "NoSchedule" }),
            );
        }
        "provider-id" => node["spec"]["providerID"] = json!(value),
        "addr" => {
            let (kind, address) = halves()?;
            push(
                &mut node["status"]["addresses"],
                json!({ "type": kind, "address": address }),
            );
        }
        "label" | "annotation" => {
            let (name, value) = halves()?;
            node["metadata"][format!("{key}s")][name] = json!(value);
        }
        other => return Err(format!("a node has no {other:?}")),
    }
    Ok(())
}

/// What a node looks like, one line per fact that a controller may write.
fn portrait(node: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut lines = vec![format!(
        "| providerID {}",
        text(&node["spec"]["providerID"])
    )];
    for taint in list(&node["spec"]["taints"]) {
        lines.push(format!(
            "| taint {} {}",
            text(&taint["key"]),
            text(&taint["effect"])
        ));
    }
    for one in list(&node["status"]["addresses"]) {
        lines.push(format!(
            "| address {} {}",
            text(&one["type"]),
            text(&one["address"])
        ));
    }
    for (key, value) in node["metadata"]["labels"].as_object().into_iter().flatten() {
        lines.push(format!("| label {key}={}", text(value)));
    }
    lines
}

fn settings(mode: Mode) -> Settings {
    Settings {
        node: NodeSettings {
            status_update_frequency: Duration::from_secs(300),
            // One after another, so that a transcript has one order.
            concurrent_syncs: NonZeroUsize::MIN,
            concurrent_status_updates: None,
        },
        mode,
        call_time: Duration::from_secs(60),
        drain: Duration::from_secs(10),
        revoked: std::sync::Arc::default(),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text
        .strip_suffix('s')
        .and_then(|number| number.parse().ok());
    seconds
        .map(Duration::from_secs)
        .ok_or_else(|| format!("{text:?} is not a time such as 10s"))
}
