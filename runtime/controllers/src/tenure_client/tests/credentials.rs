//! The client with a kubeconfig whose credential comes from an exec plugin.

use std::sync::Arc;

use ccm_core::safety::tenure::Tenure;
use k8s_openapi::api::core::v1::Node;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Config};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::{NODE, answer_as, client, error_text, listener};
use crate::RestClients;
use crate::tenure_client;

/// A configuration for `server` whose credential this shell script prints.
async fn exec(server: &Config, script: &str) -> Config {
    let kubeconfig = json!({
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        "clusters": [{"name": "x", "cluster": {"server": server.cluster_url.to_string()}}],
        "users": [{"name": "x", "user": {"exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "sh",
            "args": ["-c", script],
            "env": [{"name": "KIND", "value": "ExecCredential"}],
            "interactiveMode": "Never",
        }}}],
    });
    let kubeconfig: Kubeconfig = serde_json::from_value(kubeconfig).unwrap();
    let options = KubeConfigOptions::default();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .unwrap();
    config.root_cert = Some(Vec::new());
    config.proxy_url = None;
    config
}

/// Prints another token each time, valid until `expiry`.
fn script(expiry: &str) -> String {
    format!(
        r#"printf '{{"apiVersion":"client.authentication.k8s.io/v1","kind":"%s","status":{{"token":"%s"{expiry}}}}}' "$KIND" "$(cat /proc/sys/kernel/random/uuid)""#
    )
}

const GOOD: (&str, &str) = ("200 OK", NODE);
const REFUSED: (&str, &str) = (
    "401 Unauthorized",
    r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Unauthorized","code":401}"#,
);

/// Answers the requests on one connection, one after another, and returns their heads.
fn serve<const N: usize>(
    listener: TcpListener,
    answers: [(&'static str, &'static str); N],
) -> JoinHandle<Vec<String>> {
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut requests = Vec::new();
        for (status, body) in answers {
            requests.push(answer_as(&mut stream, status, body).await);
        }
        requests
    })
}

/// The token in the head of a request.
fn token(request: &str) -> &str {
    let mut lines = request.lines();
    let token = lines.find_map(|line| line.strip_prefix("authorization: Bearer "));
    token.unwrap()
}

#[tokio::test]
async fn an_exec_plugins_token_is_sent_and_replaced_when_it_expires() {
    for (expiry, is_kept) in [
        ("", true),
        (r#","expirationTimestamp":"2999-01-01T00:00:00Z""#, true),
        (r#","expirationTimestamp":"2001-01-01T00:00:00Z""#, false),
    ] {
        let (listener, server) = listener("http").await;
        let config = exec(&server, &script(expiry)).await;
        let nodes: Api<Node> = Api::all(client(&config, &Arc::new(Tenure::unlimited())));
        let served = serve(listener, [GOOD, GOOD]);
        nodes.get("worker-1").await.unwrap();
        nodes.get("worker-1").await.unwrap();
        let requests = served.await.unwrap();
        let tokens: Vec<_> = requests.iter().map(|request| token(request)).collect();
        assert_eq!(tokens[0].len(), 36, "{tokens:?}");
        assert_eq!(tokens[0] == tokens[1], is_kept, "{expiry}");
    }
}

#[tokio::test]
async fn a_token_that_the_api_server_refuses_is_replaced_before_it_expires() {
    for expiry in ["", r#","expirationTimestamp":"2999-01-01T00:00:00Z""#] {
        let (listener, server) = listener("http").await;
        let config = exec(&server, &script(expiry)).await;
        let nodes: Api<Node> = Api::all(client(&config, &Arc::new(Tenure::unlimited())));
        let forbidden = ("403 Forbidden", REFUSED.1);
        let served = serve(listener, [GOOD, forbidden, REFUSED, REFUSED, GOOD, GOOD]);
        for is_answered in [true, false, false, false, true, true] {
            // A refused request is not repeated.
            assert_eq!(nodes.get("worker-1").await.is_ok(), is_answered);
        }
        let requests = served.await.unwrap();
        let same = requests
            .windows(2)
            .map(|two| token(&two[0]) == token(&two[1]));
        assert!(same.eq([true, true, false, false, true]), "{requests:?}");
    }
}

#[tokio::test]
async fn a_token_file_is_read_again_when_its_token_is_refused() {
    let (listener, mut config) = listener("http").await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "first").unwrap();
    config.auth_info.token_file = Some(file.display().to_string());
    let nodes: Api<Node> = Api::all(client(&config, &Arc::new(Tenure::unlimited())));
    std::fs::write(&file, "second").unwrap();
    let served = serve(listener, [REFUSED, GOOD]);
    nodes.get("worker-1").await.unwrap_err();
    nodes.get("worker-1").await.unwrap();
    let requests = served.await.unwrap();
    let tokens: Vec<_> = requests.iter().map(|request| token(request)).collect();
    assert_eq!(tokens, ["first", "second"]);
}

/// A credential that cannot be replaced stays in use, so that a server that is wrong for a moment causes no outage.
#[tokio::test]
async fn a_refused_token_stays_while_its_plugin_fails() {
    let (listener, server) = listener("http").await;
    let folder = tempfile::tempdir().unwrap();
    let gone = folder.path().join("fails").display().to_string();
    let script = format!("test ! -e {gone} && {}", script(""));
    let config = exec(&server, &script).await;
    let nodes: Api<Node> = Api::all(client(&config, &Arc::new(Tenure::unlimited())));
    std::fs::write(&gone, "").unwrap();
    let served = serve(listener, [REFUSED, GOOD]);
    nodes.get("worker-1").await.unwrap_err();
    nodes.get("worker-1").await.unwrap();
    let requests = served.await.unwrap();
    assert_eq!(token(&requests[0]), token(&requests[1]));
}

#[tokio::test]
async fn an_exec_plugin_that_fails_is_an_error() {
    let (_listener, server) = listener("http").await;
    for script in ["exit 3", "echo no credential"] {
        let config = exec(&server, script).await;
        let tenure = Arc::new(Tenure::unlimited());
        assert!(tenure_client::client(&config, tenure, None, &RestClients::default()).is_err());
    }
}

#[tokio::test]
async fn a_token_file_is_read_as_client_go_reads_it() {
    for (content, beside, expected) in [
        // `kubectl create token` ends its line.
        ("of-the-file\n", None, "of-the-file"),
        (" of-the-file\r\n", None, "of-the-file"),
        ("of-the-file", Some("beside"), "of-the-file"),
        ("\n", Some("beside"), "beside"),
    ] {
        let (listener, mut config) = listener("http").await;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        std::fs::write(&file, content).unwrap();
        config.auth_info.token_file = Some(file.display().to_string());
        config.auth_info.token = beside.map(|token| token.to_owned().into());
        let nodes: Api<Node> = Api::all(client(&config, &Arc::new(Tenure::unlimited())));
        let served = serve(listener, [GOOD]);
        nodes.get("worker-1").await.unwrap();
        let requests = served.await.unwrap();
        assert_eq!(token(&requests[0]), expected, "{content:?}, {beside:?}");
    }
}

/// A token that is replaced in its file before it expires is never refused.
#[tokio::test]
async fn a_token_file_is_read_again_each_minute() {
    let (listener, mut config) = listener("http").await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "first\n").unwrap();
    config.auth_info.token_file = Some(file.display().to_string());
    let nodes: Api<Node> = Api::all(client(&config, &Arc::new(Tenure::unlimited())));
    let served = serve(listener, [GOOD, GOOD, GOOD, GOOD]);
    for (content, waits) in [
        (Some("first\n"), false),
        (Some("second\n"), false),
        (Some("second\n"), true),
        // A file that is gone leaves the token as it is.
        (None, true),
    ] {
        match content {
            Some(content) => std::fs::write(&file, content).unwrap(),
            None => std::fs::remove_file(&file).unwrap(),
        }
        if waits {
            tokio::time::pause();
            tokio::time::advance(std::time::Duration::from_secs(60)).await;
            tokio::time::resume();
        }
        nodes.get("worker-1").await.unwrap();
    }
    let requests = served.await.unwrap();
    let tokens: Vec<_> = requests.iter().map(|request| token(request)).collect();
    assert_eq!(tokens, ["first", "first", "second", "second"]);
}

#[tokio::test]
async fn a_token_file_without_a_token_is_an_error() {
    let (_listener, mut config) = listener("http").await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    config.auth_info.token_file = Some(file.display().to_string());
    for content in [None, Some(""), Some("\n"), Some("two\nlines")] {
        if let Some(content) = content {
            std::fs::write(&file, content).unwrap();
        }
        let tenure = Arc::new(Tenure::unlimited());
        let made = tenure_client::client(&config, tenure, None, &RestClients::default());
        assert!(made.is_err(), "{content:?}");
    }
}

#[tokio::test]
async fn a_token_that_no_header_can_hold_is_an_error() {
    let (_listener, server) = listener("http").await;
    let mut inline = server.clone();
    inline.auth_info.token = Some("two\nlines".to_owned().into());
    let printed = script("").replace("$(cat", "two\\\\nlines$(cat");
    for config in [inline, exec(&server, &printed).await] {
        let tenure = Arc::new(Tenure::unlimited());
        let made = tenure_client::client(&config, tenure, None, &RestClients::default());
        let cause = made.err().unwrap();
        let cause = std::error::Error::source(&cause).unwrap().to_string();
        assert!(cause.contains("that no header can have"), "{cause}");
    }
}

/// The plugin's environment and output may have secrets. As in client-go, its standard error is for the log.
#[tokio::test]
async fn an_exec_plugin_that_fails_is_told_without_its_environment_and_its_output() {
    let fails = "echo of-its-output; echo the reason >&2; exit 3";
    let garbled = r#"printf '{"status": {"token": "of-its-output", '"#;
    let (listener, server) = listener("http").await;
    let mut texts = Vec::new();
    for script in [fails, garbled] {
        let config = exec(&server, script).await;
        let tenure = Arc::new(Tenure::unlimited());
        let made = tenure_client::client(&config, tenure, None, &RestClients::default());
        let error = made.err().unwrap();
        let cause = std::error::Error::source(&error).unwrap();
        texts.push(format!("{error}: {cause}"));
    }
    // Its token expires at once, and it fails when it runs again.
    let folder = tempfile::tempdir().unwrap();
    let gone = folder.path().join("fails").display().to_string();
    let expired = script(r#","expirationTimestamp":"2001-01-01T00:00:00Z""#);
    let script = format!("if test -e {gone}; then {fails}; fi; {expired}");
    let config = exec(&server, &script).await;
    let nodes: Api<Node> = Api::all(client(&config, &Arc::new(Tenure::unlimited())));
    let served = serve(listener, [GOOD]);
    nodes.get("worker-1").await.unwrap();
    served.await.unwrap();
    std::fs::write(&gone, "").unwrap();
    texts.push(error_text(nodes.get("worker-1").await.unwrap_err()));
    for text in &texts {
        assert!(!text.contains("of-its-output"), "{text}");
        // The value of a variable.
        assert!(!text.contains("\"ExecCredential\""), "{text}");
    }
    for text in [&texts[0], &texts[2]] {
        assert!(text.contains("exit status: 3: the reason"), "{text}");
    }
}
