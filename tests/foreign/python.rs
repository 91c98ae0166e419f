//! Clients of others that are written in Python: installed once, and driven by a script that reads a task and prints the
//! client's results.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ccm_tests::python;
use serde_json::Value;
use tempfile::TempDir;

/// A client with its driving script, both from one folder beside this file.
pub(crate) struct Client {
    packages: PathBuf,
    folder: TempDir,
    sources: PathBuf,
}

impl Client {
    /// A client with the packages, in their versions, that stand beside the script.
    pub(crate) fn install(name: &str) -> Client {
        Client::with_packages_of(name, name)
    }

    /// A client with the packages that stand beside another script.
    pub(crate) fn with_packages_of(other: &str, name: &str) -> Client {
        let sources = super::checkout().join("tests/foreign");
        Client {
            packages: python::packages(&sources.join(other)).unwrap(),
            folder: TempDir::new().unwrap(),
            sources: sources.join(name),
        }
    }

    /// The folder with the packages, for `PYTHONPATH`.
    pub(crate) fn packages(&self) -> &Path {
        &self.packages
    }

    /// A folder for the test's files.
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
            .env("PYTHONPATH", &self.packages)
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
