//! The simulated cloud in a process of its own, so that its processor time and memory are nobody else's: this program
//! again, spoken to in lines of JSON. Nothing here is measured.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use ccm_sim::hetzner::{Hetzner, Options, ServerSpec};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// The argument that makes this program the cloud.
pub(crate) const ARGUMENT: &str = "__cloud";

/// What clients must send: as long as the vendor's, because the vendor's manager takes no other.
pub(crate) const TOKEN: &str = "the-token-of-the-simulated-cloud-which-opens-nothing-else-at-all";

/// What the vendor's API takes for one answer, more or less.
const LATENCY: Duration = Duration::from_millis(20);
/// What the vendor's actions take; no workload here has any.
const ACTIONS: Duration = Duration::from_millis(300);

/// The cloud, until it is dropped.
pub(crate) struct Cloud {
    pub(crate) endpoint: String,
    asked: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    _process: Child,
}

impl Cloud {
    pub(crate) async fn start() -> Result<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .arg(ARGUMENT)
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

    /// Adds servers; their ids, in the same order.
    pub(crate) async fn add(&mut self, names: &[String]) -> Result<Vec<u64>> {
        let answer = self.ask(json!({"add": names})).await?;
        serde_json::from_value(answer["ids"].clone()).context("not the ids of servers")
    }

    /// The paths that were asked for since the last time.
    pub(crate) async fn take_requests(&mut self) -> Result<Vec<String>> {
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

/// The other side: serves until its standard input ends.
pub(crate) async fn serve() -> Result<()> {
    let options = Options {
        latency: LATENCY,
        action_duration: ACTIONS,
        ..Options::new(TOKEN)
    };
    let cloud = Hetzner::start(options).await?;
    let mut output = tokio::io::stdout();
    let mut say = async |value: Value| {
        output.write_all(format!("{value}\n").as_bytes()).await?;
        output.flush().await
    };
    say(json!({"endpoint": cloud.endpoint()})).await?;
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        let question: Value = serde_json::from_str(&line)?;
        let answer = if let Some(names) = question["add"].as_array() {
            let specs = names
                .iter()
                .filter_map(Value::as_str)
                .map(ServerSpec::named);
            json!({"ids": cloud.add_servers(specs)})
        } else {
            let requests = cloud.requests();
            cloud.clear_requests();
            let paths: Vec<_> = requests.into_iter().map(|request| request.path).collect();
            json!({"requests": paths})
        };
        say(answer).await?;
    }
    Ok(())
}

fn text(value: &Value) -> Result<String> {
    value.as_str().map(str::to_owned).context("not a text")
}
