//! Input that is not what a command expects: other files, references in another form, options of another command.

use std::process::Command;

use tempfile::TempDir;

use super::component::{Component, component};
use super::status::answering;
use super::{ccm, ended, file, other_module, text};

#[test]
fn files_that_are_no_modules_are_refused_by_name_and_reason() {
    let folder = TempDir::new().unwrap();
    let whole = other_module();
    let core = [0, b'a', b's', b'm', 1, 0, 0, 0];
    let cases: &[(&str, &[u8], &str)] = &[
        ("text.wasm", b"hello, this is text", "not WebAssembly"),
        ("cut.wasm", &whole[..whole.len() / 2], "offset"),
        ("core.wasm", &core, "component"),
    ];
    for (name, bytes, reason) in cases {
        let path = file(&folder, name, bytes);
        for command in ["inspect", "check"] {
            let ran = ccm(&["provider", command, text(&path)]);
            assert_eq!(ran.code, 2, "{name}: {}{}", ran.out, ran.err);
            assert!(
                ran.out.contains(name) && ran.out.contains(reason),
                "{name}: {}",
                ran.out
            );
        }
    }
    let ran = ccm(&[
        "provider",
        "check",
        text(&folder.path().join("nothing.wasm")),
    ]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("nothing.wasm"), "{}", ran.err);
    // It is unclear which of the files is meant.
    let ran = ccm(&["provider", "check", text(folder.path())]);
    assert_eq!(ran.code, 2, "{}{}", ran.out, ran.err);
    let several = "the folder has several modules: core.wasm, cut.wasm, text.wasm";
    assert!(ran.out.contains(several), "{}", ran.out);
    let without = TempDir::new().unwrap();
    let ran = ccm(&["provider", "check", text(without.path())]);
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    assert!(
        ran.err.contains("the folder has no module\n"),
        "{}",
        ran.err
    );
    let empty = file(&folder, "empty.wasm", b"");
    let ran = ccm(&["provider", "check", text(&empty)]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("it is empty"), "{}", ran.err);
}

#[test]
fn a_reference_without_its_scheme_is_told_with_it() {
    for (typed, meant) in [
        ("ghcr.io/acme/hcloud:1.0", "oci://ghcr.io/acme/hcloud:1.0"),
        (
            "localhost:5000/acme/hcloud",
            "oci://localhost:5000/acme/hcloud",
        ),
        ("hcloud", "embedded:hcloud"),
    ] {
        let ran = ccm(&["provider", "inspect", typed]);
        assert_eq!(ran.code, 1, "{}", ran.out);
        let hint = format!("is {meant} meant?");
        assert!(ran.err.contains("does not exist"), "{}", ran.err);
        assert!(ran.err.contains(&hint), "{typed}: {}", ran.err);
    }
    for typed in [
        "nothing.wasm",
        "modules/nothing.wasm",
        "./x/y",
        "../x/y",
        "/nowhere/x.wasm",
    ] {
        let ran = ccm(&["provider", "inspect", typed]);
        assert_eq!(ran.code, 1, "{}", ran.out);
        assert!(!ran.err.contains("meant"), "{typed}: {}", ran.err);
    }
}

#[test]
fn a_kubeconfig_that_is_no_kubeconfig_is_not_called_missing() {
    let folder = TempDir::new().unwrap();
    let broken = file(&folder, "config", b"hello world\n");
    let status = |kubeconfig: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ccm"));
        command.args(["provider", "status"]);
        command.env("KUBECONFIG", kubeconfig);
        let ran = ended(&mut command);
        assert_eq!(ran.code, 1, "{}", ran.out);
        ran.err
    };
    let told = status(text(&broken));
    assert!(
        told.starts_with("Error: the kubeconfig is not usable"),
        "{told}"
    );
    let told = status("/nowhere");
    assert!(told.starts_with("Error: there is no kubeconfig"), "{told}");
    assert!(told.contains("/nowhere"), "{told}");
    assert!(!told.contains("environment variable"), "{told}");
}

#[test]
fn the_lines_of_a_kubeconfig_are_not_shown() {
    let folder = TempDir::new().unwrap();
    let lines = "apiVersion: v1\nkind: Config\nusers:\n- name: x\n  user:\n    token: t0ken-of-the-admin\n\tname: y\n";
    let broken = file(&folder, "config", lines.as_bytes());
    let kubeconfig = format!("--kubeconfig={}", text(&broken));
    for command in [
        &["provider", "status"][..],
        &["migrate", "check"],
        &["run", "--cloud-provider=hcloud"],
    ] {
        let ran = ccm(&[command, &[&kubeconfig]].concat());
        assert_eq!(ran.code, 1, "{}", ran.out);
        assert!(ran.err.contains(" at line "), "{}", ran.err);
        assert!(!ran.err.contains("t0ken"), "{}", ran.err);
    }
}

#[test]
fn a_mistake_in_the_go_managers_arguments_is_told_once() {
    let folder = TempDir::new().unwrap();
    let kubeconfig = "{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: x, user: x}}], clusters: [{name: x, cluster: {server: 'http://127.0.0.1:9'}}], users: [{name: x, user: {}}]}";
    let kubeconfig = file(&folder, "kubeconfig", kubeconfig.as_bytes());
    let kubeconfig = format!("--kubeconfig={}", text(&kubeconfig));
    for (arguments, expected) in [
        (&[][..], "--cloud-provider cannot be empty"),
        (
            &["--clod-provider=x"],
            "unexpected argument '--clod-provider'",
        ),
        (&["--no-such-flag"], "unexpected argument '--no-such-flag'"),
        (&["--help"], "ask for help or a version"),
        (&["--version"], "ask for help or a version"),
    ] {
        let ran = ccm(&[&["migrate", "check", &kubeconfig, "--"], arguments].concat());
        assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
        assert!(ran.err.starts_with("Error: "), "{}", ran.err);
        assert!(!ran.err.contains("error:"), "{}", ran.err);
        assert!(!ran.err.contains("as a value"), "{}", ran.err);
        assert!(!ran.err.ends_with("\n\n"), "{:?}", ran.err);
        assert!(ran.err.contains(expected), "{}", ran.err);
    }
}

#[test]
fn a_tip_is_one_that_works() {
    for (arguments, tip, not) in [
        (
            &["migrate", "check", "--cloud-provider=hcloud"][..],
            "arguments of the Go manager follow after --",
            "ccm run",
        ),
        (
            &["run", "--unknown-flag"],
            "unexpected argument '--unknown-flag'",
            "as a value",
        ),
        (&["run", "--kubeconfg=x"], "'--kubeconfig'", "as a value"),
        (&["--cloud-provider=hcloud"], "`ccm run`", "as a value"),
    ] {
        let ran = ccm(arguments);
        assert_eq!(ran.code, 1, "{}", ran.out);
        assert!(ran.err.contains(tip), "{arguments:?}: {}", ran.err);
        assert!(!ran.err.contains(not), "{arguments:?}: {}", ran.err);
    }
}

#[test]
fn status_says_what_its_server_has_to_look_like() {
    for typed in [
        "localhost:10258",
        "foo",
        "10.0.0.1:10258",
        "ftp://127.0.0.1",
    ] {
        let ran = ccm(&["status", "--server", typed]);
        assert_eq!(ran.code, 1, "{}", ran.out);
        let expected = "expected a URL such as https://127.0.0.1:10258";
        assert!(ran.err.contains(expected), "{typed}: {}", ran.err);
    }
    let ran = ccm(&["status", "--server", "http://example.com"]);
    assert_eq!(ran.code, 1, "{}", ran.out);
    assert!(ran.err.contains("without TLS only"), "{}", ran.err);
}

#[test]
fn what_is_wrong_with_an_option_is_not_blamed_on_the_module() {
    let folder = TempDir::new().unwrap();
    let none = file(&folder, "none.pem", b"no certificate\n");
    let place = "oci://127.0.0.1:9/a/b:1";
    let ran = ccm(&["provider", "inspect", "--ca-file", text(&none), place]);
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    assert!(
        ran.err.contains("no certificate in the text"),
        "{}",
        ran.err
    );

    for command in ["try", "test"] {
        let ran = ccm(&[
            "provider",
            command,
            "--cluster-cidr=10.0.0.0",
            "embedded:static",
        ]);
        assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
        assert!(ran.err.contains("expected a range such as"), "{}", ran.err);
    }

    // The module is refused for its exports, whether compiled code can be kept or not.
    let manifest = r#"{"contract":"0.1.0","name":"sample","version":"1","schemes":["sample"]}"#;
    let sample = component(&Component {
        manifests: &[manifest],
        ..Component::default()
    });
    let sample = file(&folder, "sample.wasm", &sample);
    let no_folder = "--compiled-cache-dir=/dev/null";
    let ran = ccm(&["provider", "check", no_folder, text(&sample)]);
    assert_eq!(ran.code, 2, "{}{}", ran.out, ran.err);
    assert!(!ran.out.contains("/dev/null"), "{}", ran.out);
    let expected = "compiled code is not cached";
    assert!(ran.err.contains(expected), "{}", ran.err);

    let head = "apiVersion: wasm-ccm.dev/v1alpha1\nkind: ProviderConfiguration\nproviders: []\n";
    let config = file(&folder, "ccm.yaml", head.as_bytes());
    for command in [
        &["provider", "verify"][..],
        &["provider", "check", "embedded:hcloud"],
        &["provider", "check", "--provider=hcloud", "embedded:hcloud"],
    ] {
        let ran = ccm(&[command, &["--config", text(&config)]].concat());
        assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
        let expected = "providers: there is none in the list";
        assert!(ran.err.contains(expected), "{}", ran.err);
    }
}

#[test]
fn a_registry_that_cannot_be_asked_says_nothing_about_the_module() {
    let (_refusing, refusing) = answering(405, "");
    let (_lying, lying) = answering(200, "{");
    for (place, code, expected) in [
        (format!("oci://{refusing}/a/b:1"), 1, "answered 405"),
        ("oci://169.254.169.254/a/b:1".to_owned(), 1, "link-local"),
        (
            format!("oci://{lying}/a/b:1"),
            2,
            "the manifest cannot be read",
        ),
    ] {
        let loopback = place.contains("127.0.0.1").then_some("--plain-http");
        let mut arguments = vec!["provider", "inspect", place.as_str()];
        arguments.extend(loopback);
        let ran = ccm(&arguments);
        assert_eq!(ran.code, code, "{place}: {}{}", ran.out, ran.err);
        let told = [ran.err, ran.out];
        let told = &told[usize::from(code == 2)];
        assert!(told.contains(expected), "{place}: {told}");
    }
}

/// A metadata service is not asked, and may know what no variable says.
#[test]
fn a_shipped_module_that_is_to_run_here_lacks_what_no_variable_says() {
    let folder = TempDir::new().unwrap();
    let token = "x".repeat(64);
    let disabled = ("AWS_EC2_METADATA_DISABLED", "true");
    for (name, variables, mistakes) in [
        (
            "hcloud",
            &[][..],
            &["neither HCLOUD_TOKEN nor HCLOUD_TOKEN_FILE is set"][..],
        ),
        ("hcloud", &[("HCLOUD_TOKEN", token.as_str())], &[]),
        ("static", &[], &["STATIC_NODES is required"]),
        (
            "static",
            &[("STATIC_NODES", "rules: [{ names: [a] }]")],
            &[],
        ),
        (
            "proxmox",
            &[],
            &[
                "PROXMOX_ENDPOINT is not set",
                "PROXMOX_TOKEN",
                "PROXMOX_REGION",
            ],
        ),
        ("aws", &[], &[]),
        (
            "aws",
            &[disabled],
            &["AWS_REGION is not set", "no keys of AWS"],
        ),
    ] {
        let yaml = format!(
            "apiVersion: wasm-ccm.dev/v1alpha1\nkind: ProviderConfiguration\nproviders: [{{ name: {name} }}]\n"
        );
        let config = file(&folder, "ccm.yaml", yaml.as_bytes());
        let check = |more: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_ccm"));
            command.args(["config", "check", text(&config)]).args(more);
            ended(command.env_clear().envs(variables.iter().copied()))
        };
        assert_eq!(check(&[]).code, 0, "{name}");
        let output = check(&["--require-inputs"]);
        let told = format!("{name} {variables:?}: {}{}", output.out, output.err);
        assert_eq!(
            output.code,
            if mistakes.is_empty() { 0 } else { 2 },
            "{told}"
        );
        for mistake in mistakes {
            assert!(output.out.contains(mistake), "{told}");
        }
    }
}

#[test]
fn what_a_module_is_verified_by_is_named_with_its_option() {
    let digest = format!("--digest=sha256:{}", "1".repeat(64));
    let one = "--certificate-identity=me@example.com";
    let pattern = "--certificate-identity-regexp=(";
    let (issuer, root) = ("--certificate-oidc-issuer=https://x", "--trust-root=x");
    for (more, expected) in [
        (&[issuer][..], "--certificate-identity"),
        (&[root], "--certificate-identity"),
        (&[one, issuer], "--trust-root"),
        (
            &[one, "--certificate-identity-regexp=.*", issuer, root],
            "cannot be used with",
        ),
        (
            &[pattern, issuer, root],
            "--certificate-identity-regexp cannot be used",
        ),
        (
            &["--minimum-version=new"],
            "--minimum-version cannot be used",
        ),
    ] {
        let ran = ccm(&[&["provider", "verify", "embedded:static", &digest], more].concat());
        assert_eq!(ran.code, 1, "{more:?}: {}{}", ran.out, ran.err);
        assert!(ran.err.contains(expected), "{more:?}: {}", ran.err);
    }
}
