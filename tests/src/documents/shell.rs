//! One shell in which the commands of a page run one after the other, as a reader's do: variables and the working
//! folder last from one block to the next.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::time::{Instant, sleep};

/// Timeout of a command. Only a failing test waits that long.
const TIMEOUT: Duration = Duration::from_secs(150);

/// A running shell; killed on drop.
pub struct Shell {
    child: Child,
    stdin: ChildStdin,
    folder: PathBuf,
    commands: usize,
}

impl Shell {
    /// Starts bash in `home`, with these variables and no others. Its scripts and their output are kept in `folder`.
    ///
    /// # Errors
    /// There is no bash.
    pub fn start(home: &Path, folder: &Path, variables: &[(&str, &str)]) -> Result<Shell> {
        fs::create_dir_all(folder)?;
        let mut child = Command::new("bash")
            .args(["--noprofile", "--norc", "-s"])
            .current_dir(home)
            .env_clear()
            .env("HOME", home)
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start bash")?;
        let stdin = child.stdin.take().context("bash has no input")?;
        Ok(Shell {
            child,
            stdin,
            folder: folder.to_owned(),
            commands: 0,
        })
    }

    /// Runs a command and returns what it printed on both of its outputs.
    ///
    /// # Errors
    /// It failed, ended the shell, or did not end; the error holds what it printed.
    pub async fn run(&mut self, command: &str) -> Result<String> {
        self.commands += 1;
        let file = |end: &str| self.folder.join(format!("{}.{end}", self.commands));
        let (script, output, ended) = (file("sh"), file("out"), file("ended"));
        fs::write(&script, format!("{command}\n"))?;
        // The shell ends with the first command that fails. The file appears with its content.
        let line = format!(
            "set -e; . {} > {out} 2>&1 < /dev/null; set +e; : > {}\n",
            script.display(),
            ended.display(),
            out = output.display(),
        );
        self.stdin.write_all(line.as_bytes())?;
        self.stdin.flush()?;
        let deadline = Instant::now() + TIMEOUT;
        let printed =
            || String::from_utf8_lossy(&fs::read(&output).unwrap_or_default()).into_owned();
        while !ended.exists() {
            if let Some(status) = self.child.try_wait()? {
                bail!("{command}\nfailed ({status}):\n{}", printed());
            }
            if Instant::now() > deadline {
                bail!("{command}\ndoes not end:\n{}", printed());
            }
            sleep(Duration::from_millis(20)).await;
        }
        Ok(printed())
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // Both fail only when the shell has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
