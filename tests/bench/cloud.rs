//! The simulated cloud in a process of its own, so that its processor time and memory are counted apart: this program
//! again, controlled by lines of JSON. Nothing here is measured.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use ccm_sim::hetzner::{
    Fault, Hetzner, LoadBalancerSpec, Options, ServerSpec, Trouble, VENDOR_LIMIT,
};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// The argument that makes this program the cloud.
pub(crate) const ARGUMENT: &str = "__cloud";

/// The cloud's token: of the vendor's length, because the vendor's manager accepts no other.
pub(crate) const TOKEN: &str = "the-token-of-the-simulated-cloud-which-opens-nothing-else-at-all";

/// The approximate duration of an answer of the vendor's API.
pub(crate) const LATENCY: Duration = Duration::from_millis(20);
/// The duration of the vendor's actions.
const ACTIONS: Duration = Duration::from_millis(300);
/// One of this many requests fails in a cloud in trouble.
const TROUBLE: u64 = 20;
/// Maximum number of load balancers and targets, above the vendor's: no workload is about these limits.
const LIMIT: usize = 20_000;

/// The condition of the cloud.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum CloudBehaviour {
    /// It answers everything, without a request limit.
    Fair,
    /// One request of twenty is answered with 503, and the vendor's budget of requests is in force.
    Trouble,
    /// It answers everything, at once.
    Instant,
}

impl CloudBehaviour {
    const ALL: [Self; 3] = [Self::Fair, Self::Trouble, Self::Instant];

    fn name(self) -> &'static str {
        match self {
            Self::Fair => "fair",
            Self::Trouble => "trouble",
            Self::Instant => "instant",
        }
    }
}

/// One request that was answered.
#[derive(Deserialize)]
pub(crate) struct Asked {
    /// The path after the endpoint, with its query.
    pub(crate) path: String,
    pub(crate) status: Option<u16>,
}

/// Counts of the load balancers.
#[derive(Deserialize)]
pub(crate) struct Balancers {
    pub(crate) count: usize,
    /// How many of them listen on the given port.
    pub(crate) listening: usize,
    /// The smallest and the largest number of services, and of targets, of one load balancer.
    pub(crate) services: (usize, usize),
    pub(crate) targets: (usize, usize),
}

/// The cloud, until it is dropped.
pub(crate) struct Cloud {
    pub(crate) endpoint: String,
    asked: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    _process: Child,
}

impl Cloud {
    pub(crate) async fn start(behaviour: CloudBehaviour) -> Result<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .args([ARGUMENT, behaviour.name()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("cannot start the simulated cloud")?;
        let asked = process.stdin.take().context("no way to ask the cloud")?;
        let answers = process.stdout.take().context("no way to hear the cloud")?;
        let mut cloud = Self {
            endpoint: String::new(),
            asked,
            answers: BufReader::new(answers).lines(),
            _process: process,
        };
        let hello = cloud.answer().await?;
        cloud.endpoint = text(&hello["endpoint"])?;
        Ok(cloud)
    }

    /// Adds servers; returns their IDs in the same order.
    pub(crate) async fn add(&mut self, names: &[String]) -> Result<Vec<u64>> {
        let answer = self.ask(json!({"add": names})).await?;
        serde_json::from_value(answer["ids"].clone()).context("not the ids of servers")
    }

    /// Removes a server, as a scaled-down cluster does.
    pub(crate) async fn remove(&mut self, id: u64) -> Result<()> {
        self.ask(json!({"remove": id})).await.map(drop)
    }

    /// Counts all load balancers, and those that listen on this port.
    pub(crate) async fn balancers(&mut self, port: u16) -> Result<Balancers> {
        let answer = self.ask(json!({"balancers": port})).await?;
        serde_json::from_value(answer).context("not load balancers")
    }

    /// The requests since this was called last.
    pub(crate) async fn take_requests(&mut self) -> Result<Vec<Asked>> {
        let answer = self.ask(json!("requests")).await?;
        serde_json::from_value(answer["requests"].clone()).context("not requests")
    }

    async fn ask(&mut self, question: Value) -> Result<Value> {
        let line = format!("{question}\n");
        self.asked.write_all(line.as_bytes()).await?;
        self.answer().await
    }

    async fn answer(&mut self) -> Result<Value> {
        let Some(line) = self.answers.next_line().await? else {
            bail!("the simulated cloud has ended");
        };
        Ok(serde_json::from_str(&line)?)
    }
}

/// The cloud's process: serves until its standard input ends.
pub(crate) async fn serve() -> Result<()> {
    let behaviour = std::env::args().nth(2).unwrap_or_default();
    let behaviour = CloudBehaviour::ALL
        .into_iter()
        .find(|one| one.name() == behaviour);
    let behaviour = behaviour.context("the cloud needs its weather")?;
    let options = Options {
        latency: match behaviour {
            CloudBehaviour::Instant => Duration::ZERO,
            CloudBehaviour::Fair | CloudBehaviour::Trouble => LATENCY,
        },
        action_duration: ACTIONS,
        rate_limit: (behaviour == CloudBehaviour::Trouble).then_some(VENDOR_LIMIT),
        ..Options::new(TOKEN)
    };
    let cloud = Hetzner::start(options).await?;
    cloud.set_load_balancer_quota(LIMIT);
    cloud.set_max_targets(LIMIT);
    if behaviour == CloudBehaviour::Trouble {
        let refusal = Trouble::Refuse {
            status: 503,
            code: "unavailable".to_owned(),
        };
        cloud.inject(Fault::new(refusal).every(TROUBLE));
    }
    let mut output = tokio::io::stdout();
    let mut say = async |value: Value| {
        output.write_all(format!("{value}\n").as_bytes()).await?;
        output.flush().await
    };
    say(json!({"endpoint": cloud.endpoint()})).await?;
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        say(answer(&cloud, &serde_json::from_str(&line)?)).await?;
    }
    Ok(())
}

fn answer(cloud: &Hetzner, question: &Value) -> Value {
    if let Some(names) = question["add"].as_array() {
        let names = names.iter().filter_map(Value::as_str);
        json!({"ids": cloud.add_servers(names.map(ServerSpec::named))})
    } else if let Some(id) = question["remove"].as_u64() {
        json!({"removed": cloud.remove_server(id)})
    } else if let Some(port) = question["balancers"].as_u64() {
        let ids = cloud.load_balancer_ids().into_iter();
        let all: Vec<_> = ids.filter_map(|id| cloud.load_balancer_spec(id)).collect();
        let range = |count: fn(&LoadBalancerSpec) -> usize| {
            let counts = all.iter().map(count);
            (counts.clone().min().unwrap_or(0), counts.max().unwrap_or(0))
        };
        let listens = |spec: &&LoadBalancerSpec| {
            let mut services = spec.services.iter();
            services.any(|service| u64::from(service.listen_port) == port)
        };
        json!({
            "count": all.len(),
            "listening": all.iter().filter(listens).count(),
            "services": range(|spec| spec.services.len()),
            "targets": range(|spec| spec.targets.len()),
        })
    } else {
        let requests = cloud.requests();
        cloud.clear_requests();
        let asked = requests
            .iter()
            .map(|one| json!({"path": one.path, "status": one.status}));
        json!({"requests": asked.collect::<Vec<_>>()})
    }
}

fn text(value: &Value) -> Result<String> {
    value.as_str().map(str::to_owned).context("not a text")
}
