//! A real Prometheus for a test: started with a configuration, queried with `promtool`. It knows no metric.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::ports;
use crate::process::Process;

/// Timeout of an answer. Only a failing test waits that long.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A running Prometheus; killed on drop.
pub struct Prometheus {
    process: Process,
    url: String,
}

impl Prometheus {
    /// Starts it with this configuration (YAML) in this folder, from which relative paths of the configuration are
    /// read.
    ///
    /// # Errors
    /// `prometheus` is not in PATH, or the folder cannot be written.
    pub fn start(folder: &Path, configuration: &str) -> Result<Self> {
        let file = folder.join("prometheus.yaml");
        std::fs::write(&file, configuration).context("cannot write the configuration")?;
        // Prometheus does not report the port that it was given, so one is chosen.
        let address = format!("127.0.0.1:{}", ports::keep()?);
        let mut command = Command::new("prometheus");
        command
            .arg(format!("--config.file={}", file.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                folder.join("series").display()
            ))
            .arg(format!("--web.listen-address={address}"));
        let process = Process::spawn(command, &folder.join("prometheus.log"))
            .context("on Debian: apt-get install prometheus")?;
        Ok(Self {
            process,
            url: format!("http://{address}"),
        })
    }

    /// The value of an expression now: the series of a vector, or the one value of a scalar.
    ///
    /// # Errors
    /// Prometheus is not ready, or refuses the expression; the error holds its message.
    pub fn query(&self, expression: &str) -> Result<Vec<Value>> {
        let output = Command::new("promtool")
            .args(["query", "instant", "--format=json", &self.url, expression])
            .output()
            .context("cannot run promtool")?;
        let reported = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{expression}: {reported}");
        let value = serde_json::from_slice(&output.stdout)
            .with_context(|| format!("{expression}: promtool printed no JSON"))?;
        Ok(match value {
            Value::Array(series) => series,
            Value::Null => Vec::new(),
            one => vec![one],
        })
    }

    /// Waits until an expression selects something.
    ///
    /// # Errors
    /// It selected nothing for two minutes, or Prometheus has ended.
    pub async fn until(&mut self, expression: &str) -> Result<Vec<Value>> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            self.process.check()?;
            let last = self.query(expression);
            match last {
                Ok(series) if !series.is_empty() => return Ok(series),
                last => ensure!(
                    Instant::now() < deadline,
                    "waited for {expression}, {last:?}:\n{}",
                    self.process.tail()
                ),
            }
            sleep(Duration::from_millis(200)).await;
        }
    }
}
