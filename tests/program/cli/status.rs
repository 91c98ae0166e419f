//! `ccm status`, and `ccm provider status` on an API server whose answers each test chooses.

use std::path::PathBuf;
use std::process::Command;

use axum::Router;
use axum::http::{StatusCode, Uri};
use axum::routing::get;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::{ProgramOutput, ccm, ended, file, text};

const DIGEST: &str = "sha256:1111111111112222222222222222222222222222222222222222222222222222";
const OTHER: &str = "sha256:aaaaaaaaaaaabbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

/// Runs the command on an API server with this answer to the list of providers.
fn status(code: u16, body: Value, more: &[&str]) -> ProgramOutput {
    let runtime = Runtime::new().unwrap();
    let listener = runtime
        .block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))
        .unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    let answer = move |uri: Uri| async move {
        let is_list = uri.path() == "/apis/wasm-ccm.dev/v1alpha1/providers";
        assert!(is_list, "{uri}");
        (StatusCode::from_u16(code).unwrap(), body.to_string())
    };
    let router = Router::new().fallback(get(answer));
    runtime.spawn(async move { axum::serve(listener, router).await });
    let folder = TempDir::new().unwrap();
    let kubeconfig = kubeconfig(&folder, &server);
    let arguments = ["provider", "status", "--kubeconfig", text(&kubeconfig)];
    ccm(&[&arguments, more].concat())
}

fn kubeconfig(folder: &TempDir, server: &str) -> PathBuf {
    let config = format!(
        "{{apiVersion: v1, kind: Config, current-context: x, contexts: [{{name: x, context: {{cluster: x, user: x}}}}], clusters: [{{name: x, cluster: {{server: '{server}'}}}}], users: [{{name: x, user: {{}}}}]}}"
    );
    file(folder, "kubeconfig", config.as_bytes())
}

fn list(items: &[Value]) -> Value {
    json!({ "apiVersion": "wasm-ccm.dev/v1alpha1", "kind": "ProviderList", "metadata": {}, "items": items })
}

fn waiting() -> Value {
    json!({
        "apiVersion": "wasm-ccm.dev/v1alpha1",
        "kind": "Provider",
        "metadata": { "name": "hcloud" },
        "status": {
            "state": "WaitsForApproval",
            "active": { "digest": DIGEST, "version": "1.2.0", "origin": "file:///x.wasm", "since": "2026-01-02T03:04:05Z" },
            "trial": {
                "digest": OTHER, "version": "2.0.0", "phase": "WaitsForApproval", "since": "2026-01-03T03:04:05Z",
                "lines": ["+ target api: DELETE /servers/{id} (write)", "\u{1b}[2Jcleared"],
            },
            "rejected": [{ "digest": OTHER, "version": "1.9.0", "reason": "it traps", "at": "2026-01-01T03:04:05Z" }],
        },
    })
}

#[test]
fn what_a_provider_waits_for_is_shown_like_a_plan() {
    let output = status(200, list(&[waiting()]), &[]);
    assert_eq!(output.code, 0, "{}", output.err);
    let expected = format!(
        "NAME     VERSION   DIGEST         STATE              CANDIDATE   AGE\n\
         hcloud   1.2.0     111111111111   WaitsForApproval   2.0.0       -\n\
         \n\
         hcloud:\n  waits for approval: 2.0.0 ({OTHER}), since 2026-01-03T03:04:05Z\n    \
         + target api: DELETE /servers/{{id}} (write)\n    \
         \\u{{1b}}[2Jcleared\n    \
         approve it with: kubectl annotate ccmp hcloud --overwrite wasm-ccm.dev/approve={OTHER}\n  \
         rejected: 1.9.0 ({OTHER}), at 2026-01-01T03:04:05Z: it traps\n"
    );
    assert_eq!(output.out, expected);
    let output = status(200, list(&[waiting()]), &["-o", "wide"]);
    assert_eq!(output.code, 0, "{}", output.err);
    assert!(
        output.out.contains("serves: file:///x.wasm"),
        "{}",
        output.out
    );
}

#[test]
fn programs_get_what_is_written_down_as_it_is() {
    let output = status(200, list(&[waiting()]), &["-o", "json"]);
    assert_eq!(output.code, 0, "{}", output.err);
    let json: Value = serde_json::from_str(&output.out).unwrap();
    assert_eq!(json["providers"][0]["name"], "hcloud");
    assert_eq!(json["providers"][0]["status"], waiting()["status"]);
    let output = status(200, list(&[]), &["-o", "json"]);
    let json: Value = serde_json::from_str(&output.out).unwrap();
    assert_eq!(json["providers"], json!([]));
}

#[test]
fn one_provider_is_asked_for_by_its_name() {
    let output = status(200, list(&[waiting()]), &["hcloud"]);
    assert_eq!(output.code, 0, "{}", output.err);
    assert!(output.out.contains("1.2.0"), "{}", output.out);
    let output = status(200, list(&[waiting()]), &["nimbus"]);
    assert_eq!(output.code, 1);
    assert!(
        output.err.contains("no provider \"nimbus\""),
        "{}",
        output.err
    );
}

#[test]
fn clusters_that_do_not_answer_are_told_apart() {
    let refused = |code: u16, reason: &str| json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "no \u{1b}[31m", "reason": reason, "code": code });
    let output = status(404, refused(404, "NotFound"), &[]);
    assert_eq!(output.code, 1);
    assert!(output.err.contains("no kind Provider"), "{}", output.err);
    // Which of a person's clusters was asked.
    let headline = "Error: cannot read from the API server http://127.0.0.1:";
    assert!(output.err.starts_with(headline), "{}", output.err);
    let output = status(403, refused(403, "Forbidden"), &[]);
    assert_eq!(output.code, 1);
    assert!(output.err.contains("cannot be listed"), "{}", output.err);
    assert!(output.err.starts_with(headline), "{}", output.err);
    assert!(!output.err.contains('\u{1b}'), "{}", output.err);
    let folder = TempDir::new().unwrap();
    // Port 9 (discard) is closed.
    let away = kubeconfig(&folder, "http://127.0.0.1:9");
    let output = ccm(&["provider", "status", "--kubeconfig", text(&away)]);
    assert_eq!(output.code, 1);
    assert!(output.err.contains("cannot be listed"), "{}", output.err);
    assert!(output.err.starts_with(headline), "{}", output.err);
    let reference = ["provider", "inspect", "configmap://system/modules/hcloud"];
    let output = ccm(&[&reference[..], &["--kubeconfig", text(&away)]].concat());
    assert_eq!(output.code, 1);
    assert!(output.err.starts_with(headline), "{}", output.err);
    let checked = ["migrate", "check", "--from=daemonset/kube-system/ccm"];
    let output = ccm(&[&checked[..], &["--kubeconfig", text(&away)]].concat());
    assert_eq!(output.code, 1);
    assert!(output.err.starts_with(headline), "{}", output.err);
    let output = ccm(&["provider", "status", "--kubeconfig", "/nowhere"]);
    assert_eq!(output.code, 1);
    assert!(output.err.contains("/nowhere"), "{}", output.err);
}

#[test]
fn the_check_of_a_workload_waits_for_the_cluster_as_long_as_its_timeout() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}", silent.local_addr().unwrap());
    let folder = TempDir::new().unwrap();
    let kubeconfig = kubeconfig(&folder, &server);
    let from = "--from=daemonset/kube-system/ccm";
    let arguments = ["migrate", "check", from, "--timeout=100ms", "--kubeconfig"];
    let output = ccm(&[&arguments[..], &[text(&kubeconfig)]].concat());
    assert_eq!(output.code, 1, "{}", output.out);
    assert!(output.err.contains(&server), "{}", output.err);
    let expected = "--timeout: no answer within 100ms";
    assert!(output.err.contains(expected), "{}", output.err);
}

#[test]
fn a_warning_about_the_connection_to_the_cluster_is_shown() {
    let folder = TempDir::new().unwrap();
    // Port 9 (discard) is closed.
    let path = kubeconfig(&folder, "http://127.0.0.1:9");
    let written = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, written.replace("user: {}", "user: {token: t}")).unwrap();
    for command in [
        &["provider", "status"][..],
        &["provider", "inspect", "configmap://system/modules/hcloud"],
        &["migrate", "check", "--from=daemonset/kube-system/ccm"],
    ] {
        let output = ccm(&[command, &["--kubeconfig", text(&path)]].concat());
        assert_eq!(output.code, 1, "{command:?}: {}", output.out);
        let expected = "the credentials are not sent";
        assert!(output.err.contains(expected), "{command:?}: {}", output.err);
    }
}

/// As for `ccm run`, which follows the file.
#[test]
fn a_file_of_authorities_without_one_is_a_mistake_before_the_cluster_is_asked() {
    let folder = TempDir::new().unwrap();
    let none = file(&folder, "ca.pem", b"no certificate\n");
    // Port 9 (discard) is closed.
    let path = kubeconfig(&folder, "https://127.0.0.1:9");
    let written = std::fs::read_to_string(&path).unwrap();
    let authority = format!("certificate-authority: '{}', server:", text(&none));
    std::fs::write(&path, written.replace("server:", &authority)).unwrap();
    let output = ccm(&["provider", "status", "--kubeconfig", text(&path)]);
    assert_eq!(output.code, 1, "{}", output.out);
    let expected = "cannot make a Kubernetes client";
    assert!(output.err.contains(expected), "{}", output.err);
}

/// kubectl skips what is missing or empty, and reads the home folder only if the variable is not set.
#[test]
fn without_its_option_the_kubeconfig_is_found_as_by_kubectl() {
    let folder = TempDir::new().unwrap();
    // The ports 7 (echo) and 9 (discard) are closed.
    let at_home = kubeconfig(&folder, "http://127.0.0.1:7");
    std::fs::create_dir(folder.path().join(".kube")).unwrap();
    std::fs::rename(at_home, folder.path().join(".kube/config")).unwrap();
    let away = kubeconfig(&folder, "http://127.0.0.1:9");
    let empty_fields = "{apiVersion: v1, kind: Config, current-context: '', contexts: [{name: y, context: {cluster: y, user: y}}], clusters: [{name: y, cluster: {server: 'http://127.0.0.1:7', certificate-authority: ''}}], users: []}";
    let empty_fields = file(&folder, "empty-fields", empty_fields.as_bytes());
    let broken = file(&folder, "broken", b"hello world\n");
    let (away, empty_fields, broken) = (text(&away), text(&empty_fields), text(&broken));
    let (cluster, other) = ("http://127.0.0.1:9", "http://127.0.0.1:7");
    let none = "Error: there is no kubeconfig, and this is not a pod";
    let unusable = "Error: the kubeconfig is not usable\n";
    for (list, context, expected) in [
        (format!("/nowhere:{away}"), None, cluster),
        (format!("{away}:/nowhere"), None, cluster),
        (format!(":{away}:"), None, cluster),
        (format!("{empty_fields}:{away}"), None, cluster),
        (format!("{away}:{empty_fields}"), Some("y"), other),
        (String::new(), None, other),
        ("/nowhere:/elsewhere".to_owned(), None, none),
        (
            "/nowhere:/elsewhere".to_owned(),
            None,
            "/nowhere, /elsewhere\n",
        ),
        (":".to_owned(), None, none),
        ("/dev/null".to_owned(), None, none),
        (
            "/nowhere".to_owned(),
            Some("y"),
            "Error: there is no kubeconfig\n",
        ),
        (format!("{away}:{broken}"), None, unusable),
        (empty_fields.to_owned(), None, unusable),
        (away.to_owned(), Some("y"), unusable),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ccm"));
        command.args(["provider", "status"]);
        command.args(context.map(|name| format!("--context={name}")));
        command.env("KUBECONFIG", &list).env("HOME", folder.path());
        let output = ended(command.env_remove("KUBERNETES_SERVICE_HOST"));
        assert_eq!(output.code, 1, "{list}: {}", output.out);
        assert!(output.err.contains(expected), "{list}: {}", output.err);
    }
}

/// Runs `ccm status` in a pod with a proxy.
fn status_page(server: &str, more: &[&str]) -> ProgramOutput {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ccm"));
    command.args(["status", "--server", server]).args(more);
    for name in ["HTTPS_PROXY", "HTTP_PROXY", "https_proxy"] {
        command.env(name, "http://me:s3cret@127.0.0.1:9");
    }
    ended(&mut command)
}

/// `ccm status` of a manager that gives this answer.
fn status_page_of(code: u16, body: &'static str) -> ProgramOutput {
    let (_runtime, host) = answering(code, body);
    status_page(&format!("http://{host}"), &[])
}

/// The host of a server that gives this answer to everything, as long as its runtime is kept.
pub(super) fn answering(code: u16, body: &'static str) -> (Runtime, String) {
    let runtime = Runtime::new().unwrap();
    let listener = runtime
        .block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))
        .unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let code = StatusCode::from_u16(code).unwrap();
    let router = Router::new().fallback(get(async move || (code, body)));
    runtime.spawn(async move { axum::serve(listener, router).await });
    (runtime, host)
}

/// 401 says nothing about rights: nobody knows who asks.
#[test]
fn who_lacks_a_right_is_told_apart_from_who_is_unknown() {
    let unauthorized =
        r#"{"kind":"Status","status":"Failure","message":"Unauthorized","code":401}"#;
    let forbidden = r#"{"kind":"Status","status":"Failure","message":"forbidden","code":403}"#;
    for (code, body, expected, other) in [
        (401, unauthorized, "system:auth-delegator", "nonResourceURL"),
        (403, forbidden, "nonResourceURL", "system:auth-delegator"),
    ] {
        let error = status_page_of(code, body).err;
        assert!(error.contains(expected), "{error}");
        assert!(!error.contains(other), "{error}");
    }
}

#[test]
fn a_manager_that_answers_with_an_error_is_not_called_silent_or_the_api_server() {
    for code in [404, 429, 500, 503] {
        let ran = status_page_of(code, "not now");
        assert_eq!(ran.code, 1, "{}", ran.out);
        let expected = format!("answered {code}: not now");
        assert!(ran.err.contains(&expected), "{}", ran.err);
        for not in ["does not answer", "API server"] {
            assert!(!ran.err.contains(not), "{}", ran.err);
        }
    }
}

#[test]
fn the_proxy_of_the_cloud_is_none_to_the_manager_beside_it() {
    let ran = status_page_of(200, "no report");
    assert_eq!(ran.code, 1, "{}", ran.out);
    let answered = "the answer is not that of a status page";
    assert!(ran.err.contains(answered), "{}", ran.err);
}

#[test]
fn the_file_of_the_token_may_end_with_a_newline() {
    let folder = TempDir::new().unwrap();
    let token = file(&folder, "token", b"a-token\n");
    let arguments = ["--token-file", text(&token)];
    // Port 9 (discard) is closed.
    for server in ["https://127.0.0.1:9", "https://localhost:9"] {
        let ran = status_page(server, &arguments);
        assert_eq!(ran.code, 1, "{}", ran.out);
        assert!(ran.err.contains("does not answer"), "{}", ran.err);
        assert!(ran.err.contains("Connection refused"), "{}", ran.err);
    }
    let ran = status_page("https://127.0.0.1:9", &["--token-file", "/nowhere"]);
    assert_eq!(ran.code, 1, "{}", ran.out);
    assert!(ran.err.contains("/nowhere"), "{}", ran.err);
}

#[test]
fn a_missing_file_of_authorities_is_named_with_its_option() {
    let ran = status_page("https://127.0.0.1:9", &["--ca-file", "/nowhere"]);
    assert_eq!(ran.code, 1, "{}", ran.out);
    for expected in ["--ca-file is not usable", "/nowhere"] {
        assert!(ran.err.contains(expected), "{}", ran.err);
    }
}
