//! Where results go: to a full disk, into a pipe that nobody reads, to devices and through links.

use std::fs::{self, File};
use std::os::unix::fs::{FileTypeExt as _, symlink};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::status::answering;
use super::{ccm, ended, file, text};

/// Commands that print something, and their exit codes.
const PRINTING: [(&[&str], i32); 9] = [
    (&["--help"], 0),
    (&["--version"], 0),
    (&["run", "--help"], 0),
    (&["version"], 0),
    (&["version", "-o", "json"], 0),
    (&["completion", "bash"], 0),
    (&["provider", "inspect", "-o", "json", "embedded:hcloud"], 0),
    (&["provider", "pack", "embedded:hcloud", "--to", "-"], 0),
    // A refusal: a device is no module.
    (&["provider", "inspect", "/dev/null"], 2),
];

#[test]
fn a_result_that_cannot_be_written_is_an_error_with_a_reason() {
    for (arguments, _) in PRINTING {
        let output = Command::new(env!("CARGO_BIN_EXE_ccm"))
            .args(arguments)
            .stdout(File::options().write(true).open("/dev/full").unwrap())
            .output()
            .unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {told}");
        let expected = "Error: cannot write to standard output\n  caused by: No space left";
        assert!(told.starts_with(expected), "{arguments:?}: {told}");
    }
}

#[test]
fn a_pipe_that_nobody_reads_is_no_error() {
    for (arguments, code) in PRINTING {
        let mut child = Command::new(env!("CARGO_BIN_EXE_ccm"))
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {told}");
        assert_eq!(told, "", "{arguments:?}");
    }
}

#[test]
fn a_refusal_is_not_printed_in_place_of_a_document() {
    let folder = TempDir::new().unwrap();
    let module = file(&folder, "text.wasm", b"hello, this is text");
    let module = text(&module);
    let (_registry, registry) = answering(200, "{");
    let place = format!("oci://{registry}/a/b:1");
    for (arguments, reason) in [
        (&["init", module][..], "not WebAssembly"),
        (&["inspect", "-o", "grants", module], "not WebAssembly"),
        (&["pack", module, "--to", "-"], "not WebAssembly"),
        (
            &["pack", module, "--configmap", "ns/name"],
            "not WebAssembly",
        ),
        (
            &["pull", &place, "--plain-http", "--to", "-"],
            "the manifest cannot be read",
        ),
    ] {
        let ran = ccm(&[&["provider"], arguments].concat());
        assert_eq!(ran.code, 2, "{arguments:?}: {}{}", ran.out, ran.err);
        assert_eq!(ran.out, "", "{arguments:?}");
        assert!(ran.err.contains(reason), "{arguments:?}: {}", ran.err);
    }
}

#[test]
fn what_is_written_to_a_device_or_a_link_does_not_take_its_place() {
    let folder = TempDir::new().unwrap();
    let pack = |to: &str| ccm(&["provider", "pack", "embedded:hcloud", "--to", to]);

    // A device is written to, as a shell would.
    let device = folder.path().join("null");
    symlink("/dev/null", &device).unwrap();
    let ran = pack(text(&device));
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(fs::symlink_metadata(&device).unwrap().is_symlink());
    assert!(
        fs::metadata("/dev/null")
            .unwrap()
            .file_type()
            .is_char_device()
    );

    // The file that a link leads to is replaced, and the link stays.
    let (real, link) = (
        folder.path().join("1.wasm"),
        folder.path().join("link.wasm"),
    );
    fs::write(&real, b"old").unwrap();
    symlink(&real, &link).unwrap();
    let ran = pack(text(&link));
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(fs::metadata(&real).unwrap().len() > 100_000);

    let ran = pack(text(folder.path()));
    assert_eq!(ran.code, 1, "{}", ran.out);
    assert!(ran.err.contains("is a folder"), "{}", ran.err);
    let left = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 3, "two links and a file");
}

#[test]
fn the_end_of_a_plan_is_not_called_a_signal() {
    let folder = TempDir::new().unwrap();
    let kubeconfig = "{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: x, user: x}}], clusters: [{name: x, cluster: {server: 'http://127.0.0.1:9'}}], users: [{name: x, user: {}}]}";
    let kubeconfig = file(&folder, "kubeconfig", kubeconfig.as_bytes());
    let ran = ended(
        Command::new(env!("CARGO_BIN_EXE_ccm"))
            .args(["run", "--cloud-provider=static", "--secure-port=0"])
            .args(["--mode=plan", "--plan-for=1s"])
            .arg(format!("--kubeconfig={}", text(&kubeconfig)))
            .env("STATIC_NODES", "rules: [{ names: [a] }]"),
    );
    assert_eq!(ran.code, 3, "{}{}", ran.out, ran.err);
    let why = "stopping: the time for the plan is over";
    assert!(ran.err.contains(why), "{}", ran.err);
    assert!(!ran.err.contains("signal"), "{}", ran.err);
}
