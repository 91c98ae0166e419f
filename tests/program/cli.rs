//! The binary as used by a person or a script: help, completion, exit codes, messages, JSON.

#[path = "cli/component.rs"]
mod component;
#[path = "cli/config.rs"]
mod config;
#[path = "cli/diff.rs"]
mod diff;
#[path = "cli/hostile.rs"]
mod hostile;
#[path = "cli/invocation.rs"]
mod invocation;
#[path = "cli/output.rs"]
mod output;
#[path = "cli/pack.rs"]
mod pack;
#[path = "cli/status.rs"]
mod status;
#[path = "cli/try_command.rs"]
mod try_command;
#[path = "cli/wrong_input.rs"]
mod wrong_input;

use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::COMPILED;

struct ProgramOutput {
    code: i32,
    out: String,
    err: String,
}

/// Timeout of a command that ends by itself.
const TIMEOUT: Duration = Duration::from_secs(120);

fn ccm(arguments: &[&str]) -> ProgramOutput {
    ended(Command::new(env!("CARGO_BIN_EXE_ccm")).args(arguments))
}

/// Runs a command, without the cloud's variables, until it ends.
fn ended(command: &mut Command) -> ProgramOutput {
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("HCLOUD_")) {
        command.env_remove(name);
    }
    // Files, not pipes: a full pipe would block the command.
    let (mut out, mut err) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
    let mut child = command
        .stdin(Stdio::null())
        .stdout(out.try_clone().unwrap())
        .stderr(err.try_clone().unwrap())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break Some(status),
            None if begun.elapsed() > TIMEOUT => break None,
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    if status.is_none() {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let whole = |file: &mut File| {
        let mut text = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
        text
    };
    let (out, err) = (whole(&mut out), whole(&mut err));
    let Some(status) = status else {
        panic!("{command:?} does not end: {out}{err}");
    };
    ProgramOutput {
        code: status.code().unwrap(),
        out,
        err,
    }
}

/// The same, with this on standard input.
fn ccm_reading(arguments: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_ccm"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

fn file(folder: &TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn help_names_every_command_and_the_exit_codes() {
    let ran = ccm(&["--help"]);
    assert_eq!(ran.code, 0);
    for word in [
        "run",
        "provider",
        "config",
        "completion",
        "demo",
        "Exit codes",
    ] {
        assert!(ran.out.contains(word), "{word}: {}", ran.out);
    }
    assert!(!ran.out.contains("__compile"), "{}", ran.out);
    let ran = ccm(&["run", "--help"]);
    assert_eq!(ran.code, 0);
    for word in [
        "--cloud-provider",
        "--provider-module",
        "--leader-elect",
        "--node-status-update-frequency",
        "Exit codes",
    ] {
        assert!(ran.out.contains(word), "{word}");
    }
    for (command, about) in [("provider", "Make provider"), ("config", "Look at a")] {
        let ran = ccm(&[command, "--help"]);
        assert!(ran.out.starts_with(about), "{command}: {}", ran.out);
    }
}

#[test]
fn completion_scripts_know_the_flags() {
    for shell in ["bash", "zsh", "fish"] {
        let ran = ccm(&["completion", shell]);
        assert_eq!(ran.code, 0);
        for word in [
            "provider-module",
            "certificate-identity",
            "configmap",
            "registry-config",
        ] {
            assert!(ran.out.contains(word), "{shell}: {word}");
        }
        assert!(!ran.out.contains("__compile"), "{shell}");
    }
}

#[test]
fn every_command_for_modules_helps_with_an_example_and_its_exit_codes() {
    for command in [
        &["provider", "pack"][..],
        &["provider", "inspect"],
        &["provider", "check"],
        &["provider", "try"],
        &["provider", "test"],
        &["provider", "diff"],
        &["provider", "pull"],
        &["provider", "verify"],
        &["provider", "status"],
        &["config", "check"],
    ] {
        let ran = ccm(&[command, &["--help"]].concat());
        assert_eq!(ran.code, 0, "{command:?}: {}", ran.err);
        let example = format!("  ccm {} ", command.join(" "));
        for part in ["Example", &example, "Exit codes: 0"] {
            assert!(ran.out.contains(part), "{command:?}: {part}: {}", ran.out);
        }
    }
}

#[test]
fn flags_of_the_go_binary_without_run_do_not_start_the_demo() {
    let ran = ccm(&["--cloud-provider=hcloud"]);
    assert_eq!(ran.code, 1);
    assert_eq!(ran.out, "");
    assert!(ran.err.contains("ccm run"), "{}", ran.err);
}

#[test]
fn run_says_what_is_missing() {
    for (arguments, expected) in [
        (&["run"][..], "--cloud-provider cannot be empty"),
        (
            &["run", "--cloud-provider=hcloud", "extra"],
            "\"ccm run\" does not take any arguments, got [\"extra\"]",
        ),
        (
            &["run", "--cloud-provider=hcloud", "--leader-elect", "false"],
            "--leader-elect=false",
        ),
        (
            &["run", "--cloud-provider=hcloud", "--kubeconfig=/nowhere"],
            "/nowhere",
        ),
        (
            &["run", "--cloud-provider=hcloud"],
            "neither --kubeconfig nor --master was given",
        ),
        (
            &[
                "run",
                "--cloud-provider=hcloud",
                "--node-status-update-frequency=soon",
            ],
            "expected a duration",
        ),
    ] {
        let ran = ccm(arguments);
        assert_eq!(ran.code, 1, "{arguments:?}");
        assert!(ran.err.contains(expected), "{arguments:?}: {}", ran.err);
    }
}

#[test]
fn edge_095_what_is_wrong_is_said_before_anybody_is_elected() {
    let folder = TempDir::new().unwrap();
    // Port 9 (discard) is closed: an election would wait for ever.
    let kubeconfig = |name: &str, more: &str| {
        let config = format!(
            "{{apiVersion: v1, kind: Config, current-context: x, contexts: [{{name: x, context: {{cluster: x, user: x}}}}], clusters: [{{name: x, cluster: {{server: 'http://127.0.0.1:9'{more}}}}}], users: [{{name: x, user: {{}}}}]}}"
        );
        let path = file(&folder, name, config.as_bytes());
        format!("--kubeconfig={}", text(&path))
    };
    let away = kubeconfig("away", "");
    let proxied = kubeconfig("proxied", ", proxy-url: 'ftp://me:secret@127.0.0.1:3128'");
    let migration = "kind: LeaderMigrationConfiguration\napiVersion: controllermanager.config.k8s.io/v1beta1\nresourceLock: endpoints\n";
    let migration = file(&folder, "migration.yaml", migration.as_bytes());
    let migration = format!("--leader-migration-config={}", text(&migration));
    for (more, expected) in [
        (
            &[proxied.as_str()][..],
            "expected a URL with http://, https:// or socks5:// and a host",
        ),
        (
            &[&away, "--enable-leader-migration", &migration],
            "leaderName must be set",
        ),
        (
            &[&away, "--enable-leader-migration", &migration],
            r#"resourceLock value must be \"leases\""#,
        ),
        (
            &[&away, "--leader-elect-renew-deadline=15s"],
            "leaseDuration must be greater",
        ),
        // It has no token: the provider cannot be loaded, and a standby without one could not take over.
        (&[&away], "Cloud provider could not be initialized"),
    ] {
        let run = ["run", "--cloud-provider=hcloud", "--secure-port=0"];
        let ran = ccm(&[&run[..], &[&COMPILED], more].concat());
        assert_eq!(ran.code, 1, "{more:?}");
        assert!(ran.err.contains(expected), "{more:?}: {}", ran.err);
        assert!(!ran.err.contains("standing for election"), "{}", ran.err);
        assert!(!ran.err.contains("secret"), "{}", ran.err);
    }
}

#[test]
fn a_cluster_that_is_away_does_not_hide_a_wrong_provider() {
    let folder = TempDir::new().unwrap();
    // Port 9 (discard) is closed: this test needs no API server.
    let kubeconfig = "{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: x, user: x}}], clusters: [{name: x, cluster: {server: 'http://127.0.0.1:9'}}], users: [{name: x, user: {}}]}";
    let kubeconfig = file(&folder, "kubeconfig", kubeconfig.as_bytes());
    let run = |more: &[&str]| {
        let config = format!("--kubeconfig={}", text(&kubeconfig));
        let arguments = ["run", "--secure-port=0", &COMPILED, config.as_str()];
        ccm(&[&arguments[..], more].concat())
    };
    let ran = run(&["--cloud-provider=nimbus"]);
    assert_eq!(ran.code, 1);
    assert!(
        ran.err
            .contains(r#"unknown cloud provider \"nimbus\": known are aws, digitalocean, hcloud"#),
        "{}",
        ran.err
    );

    let ran = run(&["--cloud-provider=hcloud"]);
    assert_eq!(ran.code, 1);
    assert!(
        ran.err
            .contains("neither HCLOUD_TOKEN nor HCLOUD_TOKEN_FILE is set"),
        "{}",
        ran.err
    );

    let module = file(&folder, "other.wasm", &other_module());
    let reference = format!("--provider-module=file://{}", text(&module));
    let ran = run(&["--cloud-provider=other", &reference]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("needs grants"), "{}", ran.err);
}

#[test]
fn mistakes_in_variables_and_those_that_the_module_finds_are_told_at_once() {
    let folder = TempDir::new().unwrap();
    let kubeconfig = "{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: x, user: x}}], clusters: [{name: x, cluster: {server: 'http://127.0.0.1:9'}}], users: [{name: x, user: {}}]}";
    let kubeconfig = file(&folder, "kubeconfig", kubeconfig.as_bytes());
    let run = |variables: &[(&str, &str)]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ccm"));
        command.args(["run", "--cloud-provider=hcloud", "--secure-port=0"]);
        command.arg(COMPILED.as_str());
        command.arg(format!("--kubeconfig={}", text(&kubeconfig)));
        command.env_clear().envs(variables.iter().copied());
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    let ran = run(&[
        ("HCLOUD_INSTANCES_ADDRESS_FAMILY", "ipv5"),
        ("ROBOT_ENABLED", "sometimes"),
        ("HCLOUD_LOAD_BALANCERS_LOCATION", "fsn1"),
        ("HCLOUD_LOAD_BALANCERS_NETWORK_ZONE", "eu-central"),
        ("HCLOUD_NETWORK_ROUTES_ENABLED", "sometimes"),
    ]);
    for expected in [
        "neither HCLOUD_TOKEN nor HCLOUD_TOKEN_FILE is set",
        "HCLOUD_INSTANCES_ADDRESS_FAMILY: must be one of",
        "ROBOT_ENABLED: must be true or false",
        "HCLOUD_LOAD_BALANCERS_NETWORK_ZONE",
        "HCLOUD_NETWORK_ROUTES_ENABLED: must be true or false",
    ] {
        assert!(ran.contains(expected), "{expected}: {ran}");
    }
    // Without either, no request is sent to Robot.
    let robot = [("ROBOT_ENABLED", "true"), ("ROBOT_USER", "user")];
    let ran = run(&[
        &[("HCLOUD_TOKEN", "x"), ("HCLOUD_NETWROK", "y")],
        &robot[..],
    ]
    .concat());
    for expected in [
        "neither ROBOT_PASSWORD nor ROBOT_PASSWORD_FILE is set",
        "is there a typing error?): HCLOUD_NETWROK",
        "HCLOUD_TOKEN has 1 characters",
    ] {
        assert!(ran.contains(expected), "{expected}: {ran}");
    }
}

#[test]
fn an_optional_target_is_asked_for_in_a_comment_and_not_needed() {
    let folder = TempDir::new().unwrap();
    let module = file(&folder, "other.wasm", &other_module());
    let secret = file(&folder, "token", b"secret\n");
    let ran = ccm(&["provider", "inspect", "-o", "grants", text(&module)]);
    let comments: Vec<&str> = ran
        .out
        .lines()
        .filter(|line| line.starts_with('#'))
        .collect();
    assert!(comments.join("\n").contains("name: robot"), "{}", ran.out);
    let config = ran
        .out
        .replace("env: API_SECRET", &format!("file: {}", text(&secret)))
        .replace(
            "- name: hcloud",
            "- name: hcloud\n  config: { ROBOT_ENABLED: 'true' }",
        );
    let config = file(&folder, "ccm.yaml", config.as_bytes());
    let ran = ccm(&[
        "provider",
        "check",
        &COMPILED,
        "--config",
        text(&config),
        text(&module),
    ]);
    // Dedicated servers are then targets of load balancers alone.
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
}

/// The shipped module with one more custom section: the same code, other bytes, and so no built-in grants.
fn other_module() -> Vec<u8> {
    let guest = embedded_guests::ALL
        .iter()
        .find(|guest| guest.name == "hcloud")
        .unwrap();
    let mut wasm = guest.wasm.to_vec();
    wasm.extend([0, 5, 4, b'n', b'o', b't', b'e']);
    wasm
}

#[test]
fn inspect_describes_a_module_in_three_forms() {
    let folder = TempDir::new().unwrap();
    let module = file(&folder, "other.wasm", &other_module());
    let ran = ccm(&["provider", "inspect", text(&module)]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    for word in [
        "hcloud",
        "sha256:",
        "instances",
        "GET /servers/{id} (read)",
        "ccm:provider/http@0.2.0",
    ] {
        assert!(ran.out.contains(word), "{word}: {}", ran.out);
    }
    let ran = ccm(&["provider", "inspect", "-o", "json", text(&module)]);
    let json: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(json["contract"], "0.2.0");
    assert_eq!(json["targets"][0]["rules"][0]["access"], "read");
}

#[test]
fn what_inspect_prints_as_grants_is_a_configuration_that_check_accepts() {
    let folder = TempDir::new().unwrap();
    let module = file(&folder, "other.wasm", &other_module());
    let ran = ccm(&["provider", "inspect", "-o", "grants", text(&module)]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    // The configuration as printed: the variable of the credential is set where ccm runs, and not here.
    assert!(ran.out.contains("env: API_SECRET"), "{}", ran.out);
    for part in [
        "digest: sha256:",
        "another version is refused",
        "keys: [{ file: ",
    ] {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
    let config = file(&folder, "ccm.yaml", ran.out.as_bytes());
    let checked = ccm(&["config", "check", text(&config)]);
    assert_eq!(checked.code, 0, "{}{}", checked.out, checked.err);
    let ran = ccm(&[
        "provider",
        "check",
        &COMPILED,
        "--config",
        text(&config),
        text(&module),
    ]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("yes"), "{}", ran.out);
}

#[test]
fn a_module_that_wants_more_than_it_is_granted_is_refused_line_by_line() {
    let folder = TempDir::new().unwrap();
    let module = file(&folder, "other.wasm", &other_module());
    let secret = file(&folder, "token", b"secret\n");
    let config = format!(
        "apiVersion: wasm-ccm.dev/v1alpha1\nkind: ProviderConfiguration\nproviders:\n- name: hcloud\n  grants:\n    targets:\n    - name: api\n      endpoint: https://api.hetzner.cloud/v1\n      credential: {{ bearer: {{ file: {} }} }}\n      rules:\n      - {{ methods: [GET], path: /servers, access: read }}\n",
        text(&secret)
    );
    let config = file(&folder, "ccm.yaml", config.as_bytes());
    let ran = ccm(&[
        "provider",
        "check",
        "--config",
        text(&config),
        text(&module),
    ]);
    assert_eq!(ran.code, 2, "{}{}", ran.out, ran.err);
    for line in ["GET /servers/{id}", "GET /networks/{id}", "GET /locations"] {
        assert!(ran.out.contains(line), "{line}: {}", ran.out);
    }
    assert!(!ran.out.contains("GET /servers \n"), "{}", ran.out);
}
