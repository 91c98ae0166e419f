#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::future::poll_fn;
use std::task::Poll;

use ccm_core::safety::brake::Brake;
use ccm_core::safety::permit::Mode;
use ccm_core::settings::{AddressRules, NodeRules};
use ipnet::IpNet;
use serde_json::{Value, json};

use super::prepare::{ranges, settings};
use super::*;
use crate::api_server_url::with_port;
use crate::flags::run_command;

#[tokio::test]
async fn outside_of_a_pod_the_url_alone_is_enough() {
    let url = "http://127.0.0.1:8080";
    let config = kubernetes(None, Some(url.to_owned())).await.unwrap();
    assert_eq!(config.cluster_url, Uri::from_static(url));
    assert_eq!(config.auth_info.token.map(|_| "a token"), None);
    let refused = kubernetes(None, None).await.unwrap_err();
    assert!(
        refused
            .to_string()
            .starts_with("neither --kubeconfig nor --master")
    );
    for (master, expected) in [
        ("https://me:secret@ x", "--master https:// x: "),
        (
            "//me:secret@10.0.0.1",
            "the address of the API server must be a URL or HOST:PORT: 10.0.0.1",
        ),
    ] {
        let wrong = kubernetes(None, Some(master.to_owned())).await;
        let text = format!("{:#}", wrong.unwrap_err());
        assert!(text.starts_with(expected), "{text}");
    }
}

#[tokio::test]
async fn proc_056_a_panic_is_a_failure_that_is_told_without_its_message() {
    let panics = || -> anyhow::Result<()> { panic!("a-secret-that-was-at-hand") };
    let ended = caught(poll_fn(|_| Poll::Ready(panics()))).await;
    let told = format!("{:#}", ended.unwrap_err());
    assert_eq!(told, "a task that has no end panicked, which is a defect");
    assert_eq!(caught(async { anyhow::Ok(3) }).await.unwrap(), 3);
}

#[test]
fn the_ranges_of_services_and_of_pods_are_inside_the_cluster() {
    let range = |text: &str| text.parse::<IpNet>().unwrap();
    let services = [range("10.96.0.0/12"), range("fd00::/108")];
    let pods = ["10.244.0.0/16".to_owned(), "nonsense".to_owned()];
    let both = [services[0], services[1], range("10.244.0.0/16")];
    assert_eq!(ranges(&services, &pods), both);
}

/// The configuration of a kubeconfig with this cluster, and of `--master`.
async fn configured(cluster: &Value, master: Option<&str>) -> Config {
    configured_for(cluster, &json!({}), master).await
}

/// The same for this user.
async fn configured_for(cluster: &Value, user: &Value, master: Option<&str>) -> Config {
    let kubeconfig = json!({
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        "clusters": [{"name": "x", "cluster": cluster}],
        "users": [{"name": "x", "user": user}],
    });
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kubeconfig");
    std::fs::write(&file, kubeconfig.to_string()).unwrap();
    kubernetes(Some(file), master.map(str::to_owned))
        .await
        .unwrap()
}

/// Without a scheme no request could be built.
#[tokio::test]
async fn an_api_server_without_a_scheme_gets_the_one_of_client_go() {
    for (address, plain, encrypted) in [
        (
            "192.168.4.20",
            "http://192.168.4.20/",
            "https://192.168.4.20/",
        ),
        (
            "10.0.0.1:6443",
            "http://10.0.0.1:6443/",
            "https://10.0.0.1:6443/",
        ),
        (
            "[fd00::1]:6443",
            "http://[fd00::1]:6443/",
            "https://[fd00::1]:6443/",
        ),
        ("api.test", "http://api.test/", "https://api.test/"),
        ("http://api.test", "http://api.test/", "http://api.test/"),
        (
            "https://api.test/x",
            "https://api.test/x",
            "https://api.test/x",
        ),
    ] {
        let config = kubernetes(None, Some(address.to_owned())).await.unwrap();
        assert_eq!(config.cluster_url.to_string(), plain, "{address}");
        for (is_encrypted, expected) in [(false, plain), (true, encrypted)] {
            let cluster = json!({"server": address, "insecure-skip-tls-verify": is_encrypted});
            let config = configured(&cluster, None).await;
            assert_eq!(config.cluster_url.to_string(), expected, "{address}");
            let cluster =
                json!({"server": "https://a.test", "insecure-skip-tls-verify": is_encrypted});
            let config = configured(&cluster, Some(address)).await;
            assert_eq!(config.cluster_url.to_string(), expected, "{address}");
        }
    }
    let refused = kubernetes(None, Some("/api".to_owned())).await.unwrap_err();
    assert!(refused.to_string().contains("/api"), "{refused}");
}

#[test]
fn a_pods_api_server_has_its_port_as_in_client_go() {
    for (url, expected) in [
        ("https://10.96.0.1", "10.96.0.1:443"),
        ("https://[fd00::1]", "[fd00::1]:443"),
        (
            "https://kubernetes.default.svc",
            "kubernetes.default.svc:443",
        ),
        ("https://10.96.0.1:6443", "10.96.0.1:6443"),
        ("https://[fd00::1]:6443", "[fd00::1]:6443"),
    ] {
        let url = with_port(url.parse().unwrap());
        assert_eq!(url.scheme_str(), Some("https"));
        assert_eq!(url.authority().unwrap().as_str(), expected);
    }
}

/// As in client-go: the name belongs to the server of the kubeconfig.
#[tokio::test]
async fn a_server_of_the_flag_has_its_own_name() {
    let cluster = json!({"server": "https://10.0.0.1:6443", "tls-server-name": "kubernetes"});
    for (master, expected) in [(None, Some("kubernetes")), (Some("https://api.test"), None)] {
        let config = configured(&cluster, master).await;
        assert_eq!(config.tls_server_name.as_deref(), expected);
    }
}

/// The second one could be sent after the Lease is lost.
#[tokio::test]
async fn no_request_to_the_api_server_is_sent_twice_by_itself() {
    let config = configured(&json!({"server": "https://10.0.0.1:6443"}), None).await;
    assert!(!config.default_retry);
}

#[test]
fn the_flags_reach_the_settings_of_the_controllers() {
    let words = [
        "--cloud-provider=x",
        "--mode=plan",
        "--brake=node-deletion=1:5:10",
        "--shutdown-drain=3s",
        "--reconcile-node-labels",
        "--node-internal-ip-cidrs=192.168.0.0/16",
        "--service-cluster-ip-range=10.96.0.0/12",
        "--node-change-confirm-after=13s",
        "--node-monitor-period=7s",
        "--load-balancer-drift-check=0s",
    ];
    let matches = run_command().no_binary_name(true);
    let matches = matches.try_get_matches_from(words).unwrap();
    let flags = RunFlags::from_matches(&matches).unwrap();
    let api_server: Vec<IpAddr> = vec!["198.51.100.1".parse().unwrap()];
    let settings = settings(&flags, api_server.clone());
    assert_eq!(settings.mode, Mode::Plan);
    let budget = settings.allowances.of(Brake::NodeDeletion);
    assert_eq!((budget.least, budget.percent, budget.most), (1, 5, 10));
    assert_eq!(settings.drain, Duration::from_secs(3));
    let rules = NodeRules {
        reconcile_labels: true,
        addresses: AddressRules {
            refused: vec!["10.96.0.0/12".parse().unwrap()],
            api_server,
            internal: vec!["192.168.0.0/16".parse().unwrap()],
        },
        confirm_after: Duration::from_secs(13),
    };
    assert_eq!(settings.node.rules, rules);
    let period = settings.lifecycle.monitor_period;
    assert_eq!(period, Duration::from_secs(7));
    assert_eq!(settings.service.drift_check, None);
}

/// As in client-go: an authority that is replaced in its file is used without a restart.
#[tokio::test]
async fn the_file_of_an_authority_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.crt");
    let key = rcgen::KeyPair::generate().unwrap();
    let authority = rcgen::CertificateParams::default().self_signed(&key);
    let pem = authority.unwrap().pem();
    std::fs::write(&file, &pem).unwrap();
    let server = "https://10.0.0.1:6443";
    let data = k8s_openapi::ByteString(pem.into_bytes());
    for (cluster, expected) in [
        (
            json!({"server": server, "certificate-authority": file}),
            Some(file.clone()),
        ),
        (
            json!({"server": server, "certificate-authority": file, "certificate-authority-data": data}),
            None,
        ),
        (
            json!({"server": server, "certificate-authority": file, "certificate-authority-data": ""}),
            Some(file.clone()),
        ),
        (json!({"server": server, "certificate-authority": ""}), None),
        (json!({"server": server}), None),
    ] {
        let config = configured(&cluster, None).await;
        assert_eq!(config.root_cert_file, expected, "{cluster}");
    }
}

/// As in client-go: a scheme that was forgotten sends no token over the network.
#[tokio::test]
async fn an_api_server_without_tls_gets_no_credentials() {
    let user = json!({"token": "x", "username": "joe", "password": "y", "as": "jane"});
    for (server, sent) in [
        ("http://10.0.0.1:8080", json!({"as": "jane"})),
        ("10.0.0.1:6443", json!({"as": "jane"})),
        ("https://10.0.0.1:6443", user.clone()),
    ] {
        let config = configured_for(&json!({"server": server}), &user, None).await;
        assert_eq!(
            serde_json::to_value(&config.auth_info).unwrap(),
            sent,
            "{server}"
        );
    }
}

/// As in client-go. Templates leave such fields behind.
#[tokio::test]
async fn an_empty_field_of_a_kubeconfig_is_not_set() {
    let server = "https://10.0.0.1:6443";
    for field in [
        "as",
        "client-certificate",
        "client-certificate-data",
        "client-key",
        "client-key-data",
        "token",
        "tokenFile",
        "username",
    ] {
        let user = json!({field: ""});
        let config = configured_for(&json!({"server": server}), &user, None).await;
        let user = serde_json::to_value(&config.auth_info).unwrap();
        assert_eq!(user, json!({}), "{field}");
    }
    let cluster = json!({"server": server, "tls-server-name": ""});
    let user = json!({"username": "", "password": "", "token": "x"});
    let config = configured_for(&cluster, &user, None).await;
    assert_eq!(config.tls_server_name, None);
    assert!(config.auth_info.username.is_none() && config.auth_info.token.is_some());
    // A password can be empty.
    let user = json!({"username": "x", "password": ""});
    let config = configured_for(&cluster, &user, None).await;
    assert_eq!(serde_json::to_value(&config.auth_info).unwrap(), user);
}
