//! The remains of a process that is ended in the middle of its work.

use std::io::Read as _;
use std::net::TcpListener;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ccm_tests::conformance::{At, configuration};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};
use serde_json::json;
use tempfile::TempDir;

use crate::COMPILED;
use crate::conformance::{World, plain_cloud};

/// Longer than the start takes on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

#[test]
fn h4_a_process_that_is_aborted_leaves_no_core_file() {
    // The limit of this process is inherited by the next one: the maximum that is allowed.
    let allowed = getrlimit(Resource::Core).maximum;
    let most = Rlimit {
        current: allowed,
        maximum: allowed,
    };
    setrlimit(Resource::Core, most).unwrap();

    let folder = TempDir::new().unwrap();
    // An API server that accepts connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let text = format!(
        "{{apiVersion: v1, kind: Config, current-context: x, contexts: [{{name: x, context: {{cluster: x, user: x}}}}], clusters: [{{name: x, cluster: {{server: 'http://{address}'}}}}], users: [{{name: x, user: {{}}}}]}}"
    );
    std::fs::write(&kubeconfig, text).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_ccm"))
        .args(["run", "--cloud-provider=hcloud", "--secure-port=0"])
        .arg(format!("--kubeconfig={}", kubeconfig.display()))
        .env("HCLOUD_TOKEN", "x".repeat(64))
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    let limits = format!("/proc/{}/limits", child.id());
    let core = || {
        let limits = std::fs::read_to_string(&limits).unwrap();
        let mut lines = limits.lines();
        let line = lines.find(|line| line.starts_with("Max core file size"));
        let words: Vec<_> = line
            .unwrap()
            .split_whitespace()
            .map(str::to_owned)
            .collect();
        words[4..6].to_vec()
    };
    while core() != ["0", "0"] {
        assert!(begun.elapsed() < TIMEOUT, "its limit is {:?}", core());
        assert!(child.try_wait().unwrap().is_none(), "it has ended");
        std::thread::sleep(Duration::from_millis(5));
    }
    kill_process(Pid::from_child(&child), Signal::ABORT).unwrap();
    let status = child.wait().unwrap();
    assert_eq!((status.signal(), status.core_dumped()), (Some(6), false));
    let left = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 1, "the kubeconfig alone");
}

#[test]
fn an_interrupted_test_of_a_provider_names_what_it_leaves() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let world = World::forgetful();
    let folder = TempDir::new().unwrap();
    let in_folder = |name: &str| folder.path().join(name);
    std::fs::write(in_folder("guest.wasm"), test_guests::MISBEHAVING).unwrap();
    std::fs::write(in_folder("token"), "secret").unwrap();
    let module = in_folder("guest.wasm").display().to_string();
    let api = At {
        target: "api",
        endpoint: &format!("http://{}/v1", plain_cloud(&runtime, &world)),
        credential: json!({ "bearer": { "file": in_folder("token") } }),
    };
    let values = [("behaviour", "honest-requests"), ("balancing", "honest")];
    let program = Path::new(env!("CARGO_BIN_EXE_ccm"));
    let config = configuration(program, &module, &[api], &values).unwrap();
    std::fs::write(in_folder("ccm.yaml"), config).unwrap();
    let compiled: &str = &COMPILED;
    let mut child = Command::new(program)
        .args(["provider", "test", "--allow-changes", compiled])
        .args(["--suite=load-balancer", "--config"])
        .args([in_folder("ccm.yaml"), in_folder("guest.wasm")])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while world.lock().unwrap().posts == 0 {
        assert!(begun.elapsed() < TIMEOUT, "it makes nothing");
        assert!(child.try_wait().unwrap().is_none(), "it has ended");
        std::thread::sleep(Duration::from_millis(5));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let status = child.wait().unwrap();
    let mut said = String::new();
    child.stderr.unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(status.code(), Some(1), "{said}");
    let left = "interrupted; left at the cloud: the load balancer of ccm-conformance-";
    assert!(said.contains(left), "{said}");
}
