//! The first command of the README: the demo ends by itself with exit code 0, and prints what the README shows.

use std::fs::File;
use std::process::{Command, Output};
use std::sync::LazyLock;

use ccm_tests::documents::Page;

fn ccm(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ccm"));
    // A proxy in the environment must change nothing: the demo is loopback only, and the egress takes no proxy.
    command
        .env("HTTP_PROXY", "http://127.0.0.1:9")
        .env("HTTPS_PROXY", "http://127.0.0.1:9");
    command.args(arguments).output().unwrap()
}

/// The recorded output of the demo without arguments.
fn plain() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| {
        let output = ccm(&[]);
        let text = String::from_utf8(output.stdout).unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}\n{errors}");
        text
    });
    &TEXT
}

/// The README's output of a command, without empty lines.
fn shown(command: &str) -> Vec<String> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = Page::read(&root, "README.md").unwrap();
    let mut steps = page.blocks.iter().flat_map(|block| block.steps().unwrap());
    let step = steps.find(|step| step.command == command);
    let step = step.unwrap_or_else(|| panic!("the README does not show {command:?}"));
    let output = step.output.unwrap_or_default();
    let lines = output.lines().filter(|line| !line.is_empty());
    lines.map(str::to_owned).collect()
}

/// A line without the values that differ from run to run: ports, digests, numbers, times.
fn normal(line: &str) -> String {
    let mut words = Vec::new();
    for word in line.split_whitespace() {
        let word = match word {
            _ if word.contains("127.0.0.1:") => "ADDRESS",
            _ if word.starts_with("sha256:") => "DIGEST",
            _ if word.chars().all(|letter| letter.is_ascii_digit()) => "N",
            _ => word,
        };
        words.push(word);
    }
    words.join(" ")
}

#[test]
fn the_demo_shows_what_the_readme_shows() {
    let text = plain();
    let lines: Vec<_> = text.lines().map(normal).collect();
    let expected = shown("cargo run");
    assert!(expected.len() >= 8, "the README shows too little");
    for line in expected {
        assert!(
            lines.contains(&normal(&line)),
            "the README shows a line that the demo did not print:\n{line}\nin\n{text}"
        );
    }
}

#[test]
fn the_demo_speaks_json_on_request_and_shows_the_guests_token_nowhere() {
    let output = ccm(&["demo", "--output", "json"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
    let steps: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let who: Vec<_> = steps.iter().filter_map(|it| it["who"].as_str()).collect();
    assert!(
        who.starts_with(&["demo", "demo", "demo", "cloud"]),
        "{text}"
    );
    assert!(who.ends_with(&["result", "next"]), "{text}");
    let everything = [text.as_str(), &errors, plain()].concat();
    assert!(!everything.contains("a-token-that-the-guest-never-sees"));
}

#[test]
fn a_demo_whose_result_cannot_be_written_fails() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ccm"));
    let output = command.stdout(full).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{told}");
    let expected = "Error: cannot write to standard output\n";
    assert!(told.starts_with(expected), "{told}");
}

#[test]
fn nodes_follow_their_machines() {
    let text = plain();
    // In this order, and each line only after its reason.
    let expected = [
        "cloud worker-1 its server is switched off",
        "+taint(shutdown)",
        "cluster worker-1 its kubelet is back: Ready",
        "-taint(shutdown)",
        "cloud worker-2 its server is deleted",
        "hold deletion node/worker-2 young",
        "node worker-2 delete node/worker-2 → done",
        "cluster worker-2 is gone,",
    ];
    let mut lines = text.lines().map(normal);
    for part in expected {
        assert!(
            lines.any(|line| line.contains(part)),
            "{part:?} is missing, or comes too early:\n{text}"
        );
    }
    let deletions = text.lines().filter(|line| line.contains(" delete node/"));
    assert_eq!(deletions.count(), 1, "{text}");
}

#[test]
fn a_service_gets_its_load_balancer_and_leaves_nothing_behind() {
    let text = plain();
    let expected = [
        "+finalizer",
        "ensure service/default/web targets(3) → pending",
        "is reached at",
        "is deleted; its finalizer keeps it",
        "delete load balancer of service/default/web → done",
        "get load balancer of service/default/web → absent",
        "nothing of it is left in the cloud",
    ];
    // A client that waits for the Service's end may see it before the controller gets the answer to its patch.
    let (_, proven) = text.split_once("→ absent").unwrap_or_default();
    assert!(proven.contains("-finalizer"), "{text}");
    let mut lines = text.lines();
    for step in expected {
        assert!(
            lines.any(|line| line.contains(step)),
            "{step:?} is missing, or comes too early, in\n{text}"
        );
    }
}

#[test]
fn a_demo_that_is_stopped_leaves_no_files() {
    use rustix::process::{Pid, Signal, kill_process};
    use std::io::{BufRead as _, BufReader};
    use std::os::unix::process::ExitStatusExt as _;

    for signal in [Signal::INT, Signal::TERM] {
        let folder = tempfile::TempDir::new().unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_ccm"))
            .env("TMPDIR", folder.path())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // Its files are there once it reads the module.
        lines.find(|line| line.as_ref().unwrap().contains("a module is offered"));
        kill_process(Pid::from_child(&child), signal).unwrap();
        let status = child.wait().unwrap();
        assert_eq!((status.code(), status.signal()), (Some(1), None));
        let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
    }
}
