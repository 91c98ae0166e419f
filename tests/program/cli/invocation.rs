//! The binary under the names of Go's managers, in a pod, with the spellings of their manifests, and in a pipe.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use ccm_fixtures::http_server::{Server, ok};
use ccm_tests::log::severity;
use serde_json::Value;
use tempfile::TempDir;

use super::{ProgramOutput, ccm, ended, file, text};
use crate::COMPILED;

/// Runs the binary under this name, as a file in an image.
fn called(name: &str, arguments: &[&str]) -> ProgramOutput {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ccm"));
    command.arg0(name).args(arguments);
    ended(&mut command)
}

const HCLOUD: &str = "/bin/hcloud-cloud-controller-manager";
const NAMES: [&str; 3] = ["/usr/local/bin/cloud-controller-manager", AWS, HCLOUD];

#[test]
fn under_the_name_of_a_go_manager_flags_need_no_command() {
    for name in NAMES {
        let output = called(name, &["--cloud-provider=hcloud", "--kubeconfig=/nowhere"]);
        assert_eq!(output.code, 1);
        assert!(
            output.err.contains("cannot read kubeconfig /nowhere"),
            "{}",
            output.err
        );
        // All manifests of these managers name their provider, so that none is guessed.
        let output = called(name, &[]);
        assert_eq!(output.code, 1);
        assert!(
            output.err.contains("--cloud-provider cannot be empty"),
            "{}",
            output.err
        );
        assert_eq!(output.out, "");
    }
}

/// DigitalOcean's manifest has these arguments, and no flag that names the provider.
#[test]
fn a_vendors_manager_that_needs_no_flag_for_its_cloud_needs_none_here() {
    let name = "/bin/digitalocean-cloud-controller-manager";
    for arguments in [
        &["--leader-elect=false"][..],
        &["--cloud-provider=digitalocean"],
        // These begin as flags that name a provider do.
        &["--configure-cloud-routes=false", "--cloud-proxy=direct"],
    ] {
        let arguments = [arguments, &["--kubeconfig=/nowhere"]].concat();
        let output = called(name, &arguments);
        assert_eq!(output.code, 1);
        assert!(
            output.err.contains("cannot read kubeconfig /nowhere"),
            "{}",
            output.err
        );
    }
    let output = called(name, &["--cloud-provider="]);
    assert!(
        output.err.contains("--cloud-provider cannot be empty"),
        "{}",
        output.err
    );
}

#[test]
fn a_manifest_of_the_go_manager_starts_without_a_warning() {
    let output = called(
        HCLOUD,
        &[
            "--allow-untagged-cloud",
            "--cloud-provider=hcloud",
            "--leader-elect=false",
            "--route-reconciliation-period=30s",
            "--webhook-secure-port=0",
            "--allocate-node-cidrs=true",
            "--cluster-cidr=10.244.0.0/16",
            "--feature-gates=CloudControllerManagerWatchBasedRoutesReconciliation=true",
            "--v=2",
            "--kubeconfig=/nowhere",
        ],
    );
    assert_eq!(output.code, 1);
    assert!(
        output.err.contains("cannot read kubeconfig /nowhere"),
        "{}",
        output.err
    );
    assert!(!output.err.contains("no effect"), "{}", output.err);
}

const AWS: &str = "/bin/aws-cloud-controller-manager";
/// The arguments of AWS's DaemonSet; its chart lacks the last two.
const OF_AWS: [&str; 4] = [
    "--v=2",
    "--cloud-provider=aws",
    "--use-service-account-credentials=true",
    "--configure-cloud-routes=false",
];

#[test]
fn the_manifest_of_aws_starts_without_a_warning() {
    // Who has no right to tag instances switches that controller off.
    let untagged = ["--cloud-provider=aws", "--controllers=*,-tagging"];
    for arguments in [&OF_AWS[..], &OF_AWS[..2], &untagged] {
        let output = called(AWS, &[arguments, &["--kubeconfig=/nowhere"]].concat());
        assert_eq!(output.code, 1);
        let expected = "cannot read kubeconfig /nowhere";
        assert!(output.err.contains(expected), "{}", output.err);
        assert!(!output.err.contains("no effect"), "{}", output.err);
    }
}

/// The file that its Go provider reads with `--cloud-config`. Every mistake is reported before the API server is asked.
#[test]
fn the_cloud_config_of_aws_is_read_or_refused_key_by_key() {
    for (config, expected) in [
        (
            "[Global]\nKubernetesClusterID = prod\nNodeIPFamilies = ipv5\n",
            &["NodeIPFamilies"][..],
        ),
        (
            "[Global]\nRegion = eu-west-1\n",
            &["KubernetesClusterID: is required"],
        ),
        (
            "[Global]\nRoleARN = arn:aws:iam::1:role/r\n[ServiceOverride \"1\"]\n",
            &[
                "cloud.conf is not a valid configuration",
                "line 2: RoleARN",
                "line 3: [ServiceOverride",
            ],
        ),
    ] {
        let output = aws_with(config, &[("AWS_EC2_METADATA_DISABLED", "true")]);
        for part in expected {
            assert!(output.err.contains(part), "{part}: {}", output.err);
        }
    }
}

/// The Go provider's manifest names no cluster: the tags of the instance do, which the module reads later. The other
/// mistake ends the program.
#[test]
fn the_manifest_of_aws_needs_no_cluster_id_on_an_instance_that_tells_its_own() {
    const REQUIRED: &str = "KubernetesClusterID: is required";
    const SILENT: &str =
        "the instance, whose tags would name it, does not tell its own ID: http://127.0.0.1:9/";
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let metadata = runtime.block_on(Server::start(|request| match request.line.as_str() {
        "GET /latest/meta-data/instance-id" => ok("i-1234567890abcdef0"),
        _ => ok("session"),
    }));
    let service = "AWS_EC2_METADATA_SERVICE_ENDPOINT";
    let here = format!("http://{}", metadata.address);
    for (variable, present, absent) in [
        ((service, here.as_str()), "NodeIPFamilies", REQUIRED),
        ((service, "http://127.0.0.1:9"), REQUIRED, "InstanceID"),
        ((service, "http://127.0.0.1:9"), SILENT, "InstanceID"),
        (("AWS_EC2_METADATA_DISABLED", "true"), REQUIRED, "own ID"),
    ] {
        let output = aws_with("[Global]\nNodeIPFamilies = ipv5\n", &[variable]);
        assert!(output.err.contains(present), "{variable:?}: {}", output.err);
        assert!(!output.err.contains(absent), "{variable:?}: {}", output.err);
    }
    assert_eq!(metadata.arrived().len(), 2, "{:?}", metadata.lines());
}

/// Runs the manager of AWS with this `--cloud-config` and these variables; it has to end with an error. Port 9
/// (discard) is closed.
fn aws_with(config: &str, more: &[(&str, &str)]) -> ProgramOutput {
    let folder = TempDir::new().unwrap();
    let away = "{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: x, user: x}}], clusters: [{name: x, cluster: {server: 'http://127.0.0.1:9'}}], users: [{name: x, user: {}}]}";
    let away = file(&folder, "kubeconfig", away.as_bytes());
    let config = file(&folder, "cloud.conf", config.as_bytes());
    let mut command = Command::new(env!("CARGO_BIN_EXE_ccm"));
    let command = command.arg0(AWS).args(OF_AWS).arg("--secure-port=0");
    let command = command
        .args([
            format!("--kubeconfig={}", text(&away)),
            format!("--cloud-config={}", text(&config)),
            COMPILED.clone(),
        ])
        .envs([
            ("AWS_REGION", "eu-west-1"),
            ("AWS_ACCESS_KEY_ID", "x"),
            ("AWS_SECRET_ACCESS_KEY", "x"),
        ])
        .envs(more.iter().copied());
    let output = ended(command);
    assert_eq!(output.code, 1, "{}", output.err);
    output
}

#[test]
fn words_are_an_error_in_upstreams_words_whatever_they_are() {
    for words in [
        &["run"][..],
        &["demo"],
        &["--cloud-provider=x", "provider", "check"],
    ] {
        let output = called(HCLOUD, words);
        assert_eq!(output.code, 1);
        let expected = "\"cloud-controller-manager\" does not take any arguments, got [";
        assert!(output.err.contains(expected), "{words:?}: {}", output.err);
        assert_eq!(output.out, "");
    }
}

#[test]
fn help_version_and_completion_are_of_the_program_that_was_called() {
    let output = called(HCLOUD, &["--help"]);
    assert_eq!(output.code, 0, "{}", output.err);
    for part in [
        "cloud-controller-manager [flags]",
        "Generic flags:",
        "Wasm flags:",
        "Exit codes",
    ] {
        assert!(output.out.contains(part), "{part}: {}", output.out);
    }
    for (form, part) in [
        ("--version", "(contract ccm:provider@"),
        ("--version=true", "(contract ccm:provider@"),
        ("--version=raw", "\nplatform: linux/"),
    ] {
        let output = called(HCLOUD, &[form]);
        assert_eq!(output.code, 0, "{}", output.err);
        assert!(output.out.contains(part), "{form}: {}", output.out);
        assert!(
            output.out.contains(env!("CARGO_PKG_VERSION")),
            "{}",
            output.out
        );
        assert_eq!(ccm(&["run", form]).out, output.out);
    }
    for shell in ["bash", "zsh", "fish"] {
        let output = called(HCLOUD, &["completion", shell]);
        assert_eq!(output.code, 0, "{}", output.err);
        for part in ["hcloud-cloud-controller-manager", "webhook-secure-port"] {
            assert!(output.out.contains(part), "{shell}: {part}: {}", output.out);
        }
    }
}

#[test]
fn the_version_is_a_document_for_scripts() {
    let output = ccm(&["version", "-o", "json"]);
    assert_eq!(output.code, 0, "{}", output.err);
    let version: Value = serde_json::from_str(&output.out).unwrap();
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
    let contracts = serde_json::json!(["ccm:provider@0.1.0", "ccm:provider@0.2.0"]);
    assert_eq!(version["contracts"], contracts);
    let target = version["target"].as_str().unwrap();
    assert!(target.starts_with(std::env::consts::ARCH), "{target}");
    let rust = env!("CARGO_PKG_RUST_VERSION");
    assert!(
        version["rust"].as_str().unwrap().starts_with(rust),
        "{rust}"
    );
    let modules = version["modules"].as_array().unwrap();
    let names: Vec<_> = modules.iter().map(|module| &module["name"]).collect();
    assert_eq!(
        names,
        ["aws", "digitalocean", "hcloud", "proxmox", "static"]
    );
    let module = &modules[2];
    let inspected = ccm(&["provider", "inspect", "embedded:hcloud"]);
    let digest = module["digest"].as_str().unwrap();
    assert!(
        inspected.out.contains(digest),
        "{digest}: {}",
        inspected.out
    );

    let yaml = ccm(&["version", "-o", "yaml"]);
    assert!(yaml.out.contains(digest), "{}", yaml.out);
    assert!(ccm(&["version"]).out.starts_with("ccm "));
    assert_eq!(ccm(&["version", "-o", "wide"]).code, 1);
}

#[test]
fn children_are_children_under_every_name() {
    for name in ["ccm", HCLOUD] {
        for (child, expected) in [("__compile", Some(65)), ("__sandbox", Some(1))] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_ccm"));
            // Pipes, because a child may not write files. Standard input is empty, which is no module.
            command.arg0(name).arg(child).stdin(Stdio::null());
            let output = command.output().unwrap();
            let error = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), expected, "{name} {child}: {error}");
            assert!(!error.contains("does not take any arguments"), "{error}");
        }
    }
}

#[test]
fn in_a_pod_nobody_plays_the_demo_unasked() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ccm"));
    let output = ended(command.env("KUBERNETES_SERVICE_HOST", "10.96.0.1"));
    assert_eq!(output.code, 1);
    assert_eq!(output.out, "");
    assert!(output.err.contains("this is a pod"), "{}", output.err);
    let expected = "alone or after `ccm run`";
    assert!(output.err.contains(expected), "{}", output.err);
}

/// hcloud's manifests have arguments alone: the image determines the program.
#[test]
fn in_a_pod_flags_without_a_command_are_those_of_a_go_manager() {
    let in_a_pod = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ccm"));
        ended(
            command
                .args(words)
                .env("KUBERNETES_SERVICE_HOST", "10.96.0.1"),
        )
    };
    let flags = [
        "--allow-untagged-cloud",
        "--cloud-provider=hcloud",
        "--kubeconfig=/nowhere",
    ];
    let output = in_a_pod(&flags);
    assert_eq!(output.code, 1);
    // The lines begin with their time.
    let message = |output: &ProgramOutput| output.err.split_once("] ").unwrap().1.to_owned();
    assert_eq!(message(&output), message(&called(HCLOUD, &flags)));
    assert!(output.err.contains("/nowhere"), "{}", output.err);
    assert_eq!(
        in_a_pod(&["run", "--version"]).out,
        in_a_pod(&["--version"]).out
    );
    // Outside a pod a program with the demo needs a command.
    assert!(!ccm(&flags).err.contains("/nowhere"));
}

#[test]
fn proc_002_the_log_has_klogs_lines_or_component_bases_objects() {
    let run = |more: &[&str]| {
        let flags = [
            "--cloud-provider=x",
            "--kubeconfig=/nowhere",
            "--webhook-secure-port=1",
            "--v=1",
        ];
        called(HCLOUD, &[&flags, more].concat()).err
    };
    for output in [run(&[]), run(&["--logging-format=text"])] {
        let flag = output
            .lines()
            .find(|line| line.contains("FLAG: --cloud-provider="))
            .unwrap();
        assert_eq!(severity(flag), Some('I'), "{flag}");
        assert!(
            flag.ends_with(r#"] "FLAG: --cloud-provider=\"x\"""#),
            "{flag}"
        );
        assert!(flag.contains(" startup.rs:"), "{flag}");
        let warning = output
            .lines()
            .find(|line| line.contains("has no effect"))
            .unwrap();
        assert_eq!(severity(warning), Some('W'), "{warning}");
        let end = output.lines().last().unwrap();
        assert_eq!(severity(end), Some('E'), "{end}");
        let expected = r#"] "command failed" err="cannot read kubeconfig /nowhere: "#;
        assert!(end.contains(expected), "{end}");
    }
    let output = run(&["--logging-format=json"]);
    let lines: Vec<Value> = output
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let with = |part| {
        let is_it = |line: &&Value| line["msg"].as_str().unwrap().contains(part);
        lines.iter().find(is_it).unwrap()
    };
    let flag = with("FLAG: --cloud-provider=");
    assert!(flag["ts"].as_f64().unwrap() > 1.7e12, "{flag}");
    assert_eq!(flag["v"], 0, "{flag}");
    assert_eq!(with("has no effect")["severity"], "warning");
    let end = with("command failed")["err"].as_str().unwrap();
    assert!(
        end.starts_with("cannot read kubeconfig /nowhere: "),
        "{end}"
    );
}

#[test]
fn a_reader_that_wants_no_more_is_no_error() {
    for arguments in [
        &["version"][..],
        &["version", "-o", "json"],
        &["completion", "bash"],
        &["--help"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_ccm"));
        let command = command.args(arguments).stdin(Stdio::null()).stdout(writer);
        let output = command.stderr(Stdio::piped()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            (output.status.code(), &*said),
            (Some(0), ""),
            "{arguments:?}"
        );
    }
}
