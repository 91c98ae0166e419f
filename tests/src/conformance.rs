//! Runs `ccm provider test` on a module before a simulated cloud, as a third party does before a test account.

use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

/// A module, and what it is tested with.
pub struct Tested<'a> {
    /// The built `ccm`: `env!("CARGO_BIN_EXE_ccm")` in a test of its package.
    pub program: &'a Path,
    /// The module as the command takes it: `embedded:NAME`, or a path.
    pub module: &'a str,
    /// The configuration, such as [`configuration`] makes.
    pub config: &'a str,
    /// More arguments: `--compiled-cache-dir`, `--node`, `--gone`, `--service`, `--suite`, `--cluster-cidr`,
    /// `--allow-changes`.
    pub arguments: &'a [&'a str],
}

/// One target of a module, at a simulated cloud.
pub struct At<'a> {
    /// The target's name in the manifest.
    pub target: &'a str,
    /// The target's base URL.
    pub endpoint: &'a str,
    /// The `credential` of the grant as the configuration has it, such as `{"bearer": {"file": "/x"}}`; null without
    /// one.
    pub credential: Value,
}

/// A configuration that grants the module at these targets all that it requests there, with these values.
///
/// # Errors
/// The module cannot be inspected, or has no such target.
pub fn configuration(
    program: &Path,
    module: &str,
    targets: &[At<'_>],
    values: &[(&str, &str)],
) -> Result<String> {
    let output = Command::new(program)
        .args(["provider", "inspect", "-o", "json", module])
        .output()?;
    ensure!(output.status.success(), "{module} cannot be inspected");
    let inspected: Value = serde_json::from_slice(&output.stdout)?;
    let requested = inspected["targets"].as_array().context("no targets")?;
    let mut granted = Vec::new();
    for at in targets {
        let target = requested.iter().find(|one| one["name"] == at.target);
        let target = target.with_context(|| format!("{module} has no target {}", at.target))?;
        let mut grant = json!({
            "name": at.target,
            "endpoint": at.endpoint,
            "rules": crate::grants::rules(target),
            "requestBudget": { "requests": 1_000_000, "per": "1m" },
        });
        if !at.credential.is_null() {
            grant["credential"] = at.credential.clone();
        }
        granted.push(grant);
    }
    let values: serde_json::Map<String, Value> = values
        .iter()
        .map(|(key, value)| ((*key).to_owned(), json!(value)))
        .collect();
    let config = json!({
        "apiVersion": "wasm-ccm.dev/v1alpha1",
        "kind": "ProviderConfiguration",
        "providers": [{
            "name": inspected["name"],
            "source": "file:///tested.wasm",
            "trust": { "digest": inspected["digest"] },
            "config": values,
            "grants": {
                "targets": granted,
                "annotationPrefixes": inspected["annotationPrefixes"],
            },
        }],
    });
    Ok(config.to_string())
}

/// Tests the module and returns the report.
///
/// # Errors
/// There is no report: the command says why.
pub fn report(tested: &Tested<'_>) -> Result<Value> {
    let folder = tempfile::tempdir()?;
    let config = folder.path().join("ccm.yaml");
    std::fs::write(&config, tested.config)?;
    let output = Command::new(tested.program)
        .args(["provider", "test", "-o", "json", "--config"])
        .arg(&config)
        .args(tested.arguments)
        .arg(tested.module)
        .output()?;
    let reported = String::from_utf8_lossy(&output.stdout).into_owned();
    let report: Value = serde_json::from_slice(&output.stdout).with_context(|| {
        let errors = String::from_utf8_lossy(&output.stderr);
        format!("no report ({}): {reported}{errors}", output.status)
    })?;
    ensure!(report["laws"].is_array(), "no report: {reported}");
    let expected = if report["conforms"] == true { 0 } else { 2 };
    ensure!(
        output.status.code() == Some(expected),
        "{}: {reported}",
        output.status
    );
    Ok(report)
}

/// Tests the module, and fails unless no law is broken and these laws could be tested. Returns the report, and keeps it
/// in the folder that `CCM_CONFORMANCE_REPORTS` names.
///
/// # Errors
/// There is no report, it cannot be kept, a law is broken, or one of `tested_laws` is not applicable.
pub fn conforms(tested: &Tested<'_>, tested_laws: &[&str]) -> Result<Value> {
    let report = report(tested)?;
    if let Some(folder) = std::env::var_os("CCM_CONFORMANCE_REPORTS") {
        keep(&report, Path::new(&folder))?;
    }
    let broken: Vec<String> = laws(&report, "fail").map(shown).collect();
    ensure!(broken.is_empty(), "laws are broken:\n{}", broken.join("\n"));
    for law in tested_laws {
        let is_tested = laws(&report, "pass").any(|one| one["law"] == *law);
        ensure!(is_tested, "{law} was not tested: {report:#}");
    }
    Ok(report)
}

/// Writes the report under a name of its own, because a module may be tested several times with other Services.
fn keep(report: &Value, folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    let name = report["name"].as_str().context("no name")?;
    let text = serde_json::to_string_pretty(report)?;
    for number in 1..100 {
        match File::create_new(folder.join(format!("{name}-{number}.json"))) {
            Ok(mut file) => return Ok(file.write_all(text.as_bytes())?),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error.into()),
        }
    }
    anyhow::bail!("{} is full of reports", folder.display())
}

/// The laws of a report with this result: `pass`, `fail` or `not-applicable`.
pub fn laws<'a>(report: &'a Value, result: &'a str) -> impl Iterator<Item = &'a Value> {
    let laws = report["laws"].as_array().into_iter().flatten();
    laws.filter(move |law| law["result"] == result)
}

fn shown(law: &Value) -> String {
    let text = |key: &str| law[key].as_str().unwrap_or_default().to_owned();
    format!("{}: {}\n  {}", text("law"), text("says"), text("why"))
}
