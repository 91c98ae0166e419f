//! The secure port on a real API server: which client may read which path, and the content of a scrape and of the
//! probes.

use std::time::Duration;

use ccm_sim::hetzner::ServerSpec;
use ccm_tests::link::Cut;
use ccm_tests::ports;
use ccm_tests::process::Process;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::Api;
use kube::api::PostParams;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use reqwest::Client;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};

use crate::services::PLACE;
use crate::world::{Setup, World, until};

/// A world whose cluster has a client authority, and a manager in it.
pub(crate) struct Served {
    pub(crate) world: World,
    pub(crate) ccm: Process,
    authority: CertifiedIssuer<'static, KeyPair>,
    server: CertificateDer<'static>,
    pub(crate) port: u16,
}

impl Served {
    pub(crate) async fn start(flags: &[&str]) -> Served {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let folder = tempfile::TempDir::new().unwrap();
        let bundle = folder.path().join("clients.crt");
        std::fs::write(&bundle, authority.pem()).unwrap();
        let world = World::start(Setup {
            server_flags: vec![format!("--client-ca-file={}", bundle.display())],
            ..Setup::default()
        })
        .await;
        let tls = ccm_tests::authority::issue("ccm").unwrap();
        let certificate = world.file("ccm.crt", &tls.certificate_pem);
        let key = world.file("ccm.key", &tls.key_pem);
        let (port, kubeconfig) = (
            ports::keep().unwrap(),
            world.kubeconfig().display().to_string(),
        );
        let own = [
            format!("--secure-port={port}"),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--tls-cert-file={}", certificate.display()),
            format!("--tls-private-key-file={}", key.display()),
            format!("--authentication-kubeconfig={kubeconfig}"),
            format!("--authorization-kubeconfig={kubeconfig}"),
        ];
        let all: Vec<&str> = own
            .iter()
            .map(String::as_str)
            .chain(flags.iter().copied())
            .collect();
        let configuration = world.configuration(json!({PLACE.0: PLACE.1}));
        let ccm = world.ccm(&configuration, &all);
        Served {
            ccm,
            authority,
            server: CertificateDer::from_pem_slice(tls.ca_pem.as_bytes()).unwrap(),
            port,
            world,
        }
    }

    /// A client that trusts the manager's certificate; with a name it presents a certificate of the cluster's
    /// authority.
    fn client(&self, own: Option<(&str, &str)>) -> Client {
        let own = own.map(|(user, group)| {
            let mut params = CertificateParams::new(Vec::new()).unwrap();
            params.distinguished_name = rcgen::DistinguishedName::new();
            params.distinguished_name.push(DnType::CommonName, user);
            params
                .distinguished_name
                .push(DnType::OrganizationName, group);
            let key = KeyPair::generate().unwrap();
            let certificate = params.signed_by(&key, &self.authority).unwrap();
            let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
            (certificate.der().clone(), key)
        });
        let config = ccm_tests::tls_client::config(self.server.clone(), own).unwrap();
        Client::builder()
            .tls_backend_preconfigured(config)
            .build()
            .unwrap()
    }

    async fn get(&self, client: &Client, path: &str, token: Option<&str>) -> Option<(u16, String)> {
        let mut request = client.get(format!("https://127.0.0.1:{}{path}", self.port));
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        // The port opens a moment after the start.
        let answer = request.send().await.ok()?;
        Some((answer.status().as_u16(), answer.text().await.ok()?))
    }

    /// Waits until a path answers with this code, and its text contains `holds`.
    async fn until(&mut self, client: &Client, path: &str, code: u16, holds: &str) -> String {
        let (port, url) = (self.port, path.to_owned());
        until(
            &mut self.ccm,
            &format!("{path} with {holds:?}"),
            async || {
                let answer = client
                    .get(format!("https://127.0.0.1:{port}{url}"))
                    .send()
                    .await
                    .ok()?;
                let is_code = answer.status() == code;
                let text = answer.text().await.ok()?;
                (is_code && text.contains(holds)).then_some(text)
            },
        )
        .await
    }
}

/// A token of a new service account in kube-system; `monitors` binds `system:monitoring` to it.
pub(crate) async fn token(world: &World, name: &str, monitors: bool) -> String {
    let admin = world.api.client_for("admin").await.unwrap();
    let params = PostParams::default();
    let accounts: Api<ServiceAccount> = Api::namespaced(admin.clone(), "kube-system");
    let account = json!({"metadata": {"name": name}});
    let account = serde_json::from_value(account).unwrap();
    accounts.create(&params, &account).await.unwrap();
    if monitors {
        let binding = json!({
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:monitoring"},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "kube-system"}],
        });
        let bindings: Api<ClusterRoleBinding> = Api::all(admin.clone());
        let binding = serde_json::from_value(binding).unwrap();
        bindings.create(&params, &binding).await.unwrap();
        may_scrape(&Api::all(admin), name).await;
    }
    let request = TokenRequest {
        spec: TokenRequestSpec {
            audiences: vec!["https://kubernetes.default.svc".to_owned()],
            ..TokenRequestSpec::default()
        },
        ..TokenRequest::default()
    };
    let token = accounts.create_token_request(name, &params, &request).await;
    token.unwrap().status.unwrap().token
}

/// Waits until the API server's authorizer knows the binding of this account: a manager that asks before is refused.
async fn may_scrape(reviews: &Api<SubjectAccessReview>, name: &str) {
    let review = json!({"spec": {
        "user": format!("system:serviceaccount:kube-system:{name}"),
        "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
    }});
    let review: SubjectAccessReview = serde_json::from_value(review).unwrap();
    for _ in 0..1000 {
        let reviewed = reviews.create(&PostParams::default(), &review).await;
        if reviewed.unwrap().status.unwrap().allowed {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{name} may not scrape");
}

#[tokio::test]
async fn proc_075_users_are_known_and_reviewed_by_the_cluster() {
    let mut served = Served::start(&["--leader-elect=T"]).await;
    let anybody = served.client(None);
    served
        .until(&anybody, "/healthz?verbose", 200, "[+]leaderElection")
        .await;
    let monitor = token(&served.world, "monitor", true).await;
    let nobody = token(&served.world, "nobody", false).await;
    for (token, expected, holds) in [
        (Some(monitor.as_str()), 200, "leader_election_master_status"),
        (
            Some(&nobody),
            403,
            "system:serviceaccount:kube-system:nobody",
        ),
        (Some("made-up"), 401, "Unauthorized"),
        (None, 403, "system:anonymous"),
    ] {
        let (code, text) = served.get(&anybody, "/metrics", token).await.unwrap();
        assert_eq!(code, expected, "{text}");
        assert!(text.contains(holds), "{holds}: {text}");
    }
    // Signed by the cluster's own authority, which the manager reads in kube-system (PROC-076).
    let admin = served.client(Some(("jane", "system:masters")));
    let (code, text) = served.get(&admin, "/configz", None).await.unwrap();
    let shown: Value = serde_json::from_str(&text).unwrap();
    let generic = &shown["cloudcontrollermanager.config.k8s.io"]["Generic"];
    assert_eq!((code, &generic["Port"]), (200, &json!(0)));
    assert_eq!(generic["LeaderElection"]["leaderElect"], true);
    let (code, text) = served.get(&admin, "/metrics/slis", None).await.unwrap();
    let ran = "kubernetes_healthcheck{name=\"leaderElection\",type=\"healthz\"} 1";
    assert!(code == 200 && text.contains(ran), "{text}");
    let verbosity = format!("https://127.0.0.1:{}/debug/flags/v", served.port);
    let set = admin.put(&verbosity).body("5").send().await.unwrap();
    assert_eq!(set.status(), 200);
    let recorded = "\"the verbosity of the log was set\" verbosity=5";
    assert!(
        served.world.log().contains(recorded),
        "{}",
        served.world.log()
    );
    let user = served.client(Some(("jane", "developers")));
    let set = user.put(&verbosity).body("0").send().await.unwrap();
    assert_eq!(set.status(), 403);
    let (code, text) = served.get(&user, "/configz", None).await.unwrap();
    assert!(
        code == 403 && text.contains("User \\\"jane\\\""),
        "{code} {text}"
    );
    assert!(
        !served.world.log().contains(&monitor),
        "a token is in the log"
    );
    served.world.stop(served.ccm).await;
}

#[tokio::test]
async fn h7_a_storm_of_requests_with_tokens_is_a_handful_of_reviews() {
    let mut served = Served::start(&["--authentication-token-webhook-cache-ttl=10m"]).await;
    let client = served.client(None);
    served.until(&client, "/readyz", 200, "ok").await;
    let monitor = token(&served.world, "monitor", true).await;
    for (token, expected) in [(monitor.as_str(), 200), ("made-up", 401)] {
        for _ in 0..50 {
            let (code, _) = served.get(&client, "/metrics", Some(token)).await.unwrap();
            assert_eq!(code, expected);
        }
    }
    let asked = served.world.asked();
    let reviews = asked.iter().filter(|one| one.resource == "tokenreviews");
    let reviews = reviews.count();
    // One for each token; that of the one that is made up counts for ten seconds, which may pass on a busy machine.
    assert!((2..=6).contains(&reviews), "{reviews}");
    served.world.stop(served.ccm).await;
}

#[tokio::test]
async fn proc_072_probes_say_who_leads_and_what_runs_and_the_cloud_s_absence_is_no_failure() {
    let mut served = Served::start(&[]).await;
    let anybody = served.client(None);
    let text = served
        .until(
            &anybody,
            "/livez?verbose",
            200,
            "[+]service-lb-controller ok",
        )
        .await;
    for check in [
        "ping",
        "runtime",
        "leaderElection",
        "cloud-node-controller",
        "cloud-node-lifecycle-controller",
    ] {
        assert!(
            text.contains(&format!("[+]{check} ok\n")),
            "{check}: {text}"
        );
    }
    served
        .until(&anybody, "/readyz?verbose", 200, "[+]provider ok")
        .await;
    served.world.cloud.add_server(ServerSpec::named("worker-1"));
    served.world.cloud_link.cut(Cut::Silent);
    served.world.add_node("worker-1", json!({})).await;
    let admin = served.client(Some(("jane", "system:masters")));
    let metrics = served
        .until(&admin, "/metrics", 200, "ccm_provider_requests_total{")
        .await;
    for series in [
        "leader_election_master_status{name=\"cloud-controller-manager\"} 1",
        "running_managed_controllers{",
        "workqueue_adds_total{name=\"Nodes\"}",
        "rest_client_requests_total{",
        "process_resident_memory_bytes ",
        "kubernetes_build_info{",
    ] {
        assert!(metrics.contains(series), "{series}: {metrics}");
    }
    served.until(&anybody, "/livez", 200, "ok").await;
    served.until(&anybody, "/readyz", 200, "ok").await;
    served.world.stop(served.ccm).await;
}

#[tokio::test]
async fn proc_076_a_manager_that_may_not_read_how_the_cluster_authenticates_says_so_and_does_not_start()
 {
    let world = World::start(Setup::default()).await;
    let token = token(&world, "nobody", false).await;
    let kubeconfig = world.api.kubeconfig_with_token("nobody", &token).unwrap();
    let kubeconfig = kubeconfig.display();
    let flags = [
        format!("--secure-port={}", ports::keep().unwrap()),
        format!("--authentication-kubeconfig={kubeconfig}"),
        format!("--authorization-kubeconfig={kubeconfig}"),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let mut ccm = world.ccm(&world.configuration(json!({})), &flags);
    let status = ccm.ended(Duration::from_secs(60)).await.unwrap();
    assert_eq!(status.code(), Some(1));
    let log = world.log();
    for expected in [
        "extension-apiserver-authentication-reader",
        "--authentication-skip-lookup",
    ] {
        assert!(log.contains(expected), "{expected}: {log}");
    }
}

#[tokio::test]
async fn the_managers_own_account_sees_the_status_page_and_others_do_not() {
    let mut served = Served::start(&[]).await;
    let admin = served.client(Some(("jane", "system:masters")));
    served.world.add_node("laptop", json!({})).await;
    served.until(&admin, "/", 200, "node/laptop").await;
    let page = served.until(&admin, "/", 200, "this process").await;
    assert!(
        page.contains("kube-system/cloud-controller-manager"),
        "{page}"
    );

    // With the rights of deploy/, as in the manager's own pod.
    let kubeconfig = std::fs::read(served.world.kubeconfig()).unwrap();
    let kubeconfig: Value = serde_json::from_slice(&kubeconfig).unwrap();
    let own = kubeconfig["users"][0]["user"]["token"].as_str().unwrap();
    let own = own.to_owned();
    let nobody = token(&served.world, "nobody", false).await;
    for (token, code, holds) in [(own, 0, "node/laptop"), (nobody, 1, "nonResourceURL /")] {
        let file = served.world.file("token", &token);
        let server = format!("https://127.0.0.1:{}", served.port);
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_ccm"));
        command.args(["status", "--server", &server, "--token-file"]);
        command.arg(file);
        let asked = tokio::task::spawn_blocking(move || command.output().unwrap());
        let output = asked.await.unwrap();
        let reported = [output.stdout, output.stderr].concat();
        let reported = String::from_utf8(reported).unwrap();
        assert_eq!(output.status.code(), Some(code), "{reported}");
        assert!(
            reported.contains(holds) && !reported.contains(&token),
            "{reported}"
        );
    }
    served.world.stop(served.ccm).await;
}
