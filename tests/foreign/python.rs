//! Clients of others that are written in Python: installed into a folder of the test, and driven by a script that reads
//! a task and prints the client's results.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A client with its driving script, both from one folder beside this file.
pub(crate) struct Client {
    folder: TempDir,
    sources: PathBuf,
}

impl Client {
    /// Installs it with the versions and checksums that stand beside the script.
    pub(crate) fn install(name: &str) -> Client {
        let folder = TempDir::new().unwrap();
        let sources = super::checkout().join("tests/foreign").join(name);
        let output = Command::new("python3")
            .args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
            ])
            .args([
                "--root-user-action",
                "ignore",
                "--no-deps",
                "--only-binary",
                ":all:",
            ])
            .args(["--require-hashes", "--requirement"])
            .arg(sources.join("requirements.txt"))
            .arg("--target")
            .arg(folder.path())
            .output()
            .expect("python3, 3.11 or newer, is not in PATH");
        let reported = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "`python3 -m pip install` failed:\n{reported}"
        );
        Client { folder, sources }
    }

    /// The folder in which it is installed.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Writes the authority that the client is to trust, and returns the file.
    pub(crate) fn trust(&self, pem: &str) -> PathBuf {
        let authority = self.folder.path().join("authority.pem");
        std::fs::write(&authority, pem).unwrap();
        authority
    }

    /// Runs the script with a task, and returns the result of each of its calls.
    pub(crate) fn drive(&self, task: &Value, environment: &[(&str, &Path)]) -> Vec<Value> {
        let mut child = Command::new("python3")
            .arg("-B")
            .arg(self.sources.join("drive.py"))
            .env("PYTHONPATH", self.folder.path())
            .env("NO_PROXY", "localhost,127.0.0.1")
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(task.to_string().as_bytes()).unwrap();
        drop(input);
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "drive.py: {:?}", output.status);
        serde_json::from_slice(&output.stdout).unwrap()
    }
}
