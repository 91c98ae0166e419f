//! A token endpoint at another host than the registry.

use axum::body::Body;
use axum::response::Response;
use ccm_core::rollout::Release;
use http::Method;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::super::fake_registry::{
    Asked, FakeRegistry, REPOSITORY, RegistryContent, module, source,
};
use super::super::proxies::{Tunnels, tls};
use super::{BASIC, PASSWORD, needs, token};
use crate::source::oci::OciSettings;
use crate::source::oci::login::RegistryCredentials;
use crate::source::{Source as _, SourceErrorKind};

/// A registry that accepts the tokens of `https://registry.test/token`.
struct Sent {
    registry: FakeRegistry,
    /// The digest of its artifact.
    digest: String,
    issuer: FakeRegistry,
    /// The way to the issuer.
    _proxy: Tunnels,
    settings: OciSettings,
}

/// The issuer answers all requests by `issue`.
async fn sent(issue: impl Fn(&Asked) -> Response + Send + Sync + 'static) -> Sent {
    let (content, digest) = RegistryContent::with(&module(100));
    let how = "Bearer realm=\"https://registry.test/token\",service=\"shelf\"";
    let registry =
        FakeRegistry::start(content, move |asked| needs("Bearer t0ken", asked, how)).await;
    let issuer = FakeRegistry::start(RegistryContent::default(), move |asked| Some(issue(asked)));
    let issuer = issuer.await;
    let (tls, ca) = tls();
    let proxy = Tunnels::start("200 OK", tls, issuer.host.clone()).await;
    let mut settings = registry.settings(":1");
    settings.access.ca_pem = Some(ca);
    settings.access.proxy = Some(proxy.grant(""));
    Sent {
        registry,
        digest,
        issuer,
        _proxy: proxy,
        settings,
    }
}

fn credentials(host: &str, login: Value) -> watch::Receiver<Option<RegistryCredentials>> {
    let text = json!({"auths": {host: login}}).to_string();
    let credentials = RegistryCredentials::parse_docker_config(&text).unwrap();
    watch::channel(Some(credentials)).1
}

#[tokio::test]
async fn a_login_is_sent_to_a_token_endpoint_at_another_host_and_not_to_the_registry() {
    let scoped = "/token?service=shelf&scope=repository%3Aclouds%2Fexample%3Apull";
    for (login, expected) in [
        (
            json!({"username": "robot", "password": PASSWORD}),
            (Method::GET, scoped, Some(BASIC)),
        ),
        (
            json!({"identitytoken": "kept"}),
            (Method::POST, "/token", None),
        ),
    ] {
        let mut sent = sent(|_| token()).await;
        sent.settings.credentials = credentials(&sent.registry.host, login);
        source(sent.settings).next().await.unwrap();
        let asked = sent.issuer.asked();
        let shown: Vec<_> = asked
            .iter()
            .map(|asked| {
                let authorization = asked.authorization.as_deref();
                (asked.method.clone(), asked.path.as_str(), authorization)
            })
            .collect();
        assert_eq!(shown, [expected]);
        let shows_login = |asked: &Asked| {
            let shown = asked.authorization.as_deref();
            shown.is_some_and(|shown| shown != "Bearer t0ken")
        };
        assert_eq!(sent.registry.count(shows_login), 0);
    }
}

/// Each further request to the registry would ask for a token again.
#[tokio::test]
async fn a_token_endpoint_at_another_host_that_wants_to_be_left_alone_holds_the_registry() {
    let sent = sent(|_| {
        let busy = Response::builder().status(429).header("retry-after", "60");
        busy.body(Body::empty()).unwrap()
    })
    .await;
    let release = Release {
        digest: sent.digest.clone(),
        version: String::new(),
        origin: format!("oci://{}/{REPOSITORY}@{}", sent.registry.host, sent.digest),
    };
    let mut source = source(sent.settings);
    for error in [source.next().await, source.again(&release).await] {
        let error = error.err().unwrap();
        assert_eq!(error.kind, SourceErrorKind::Unavailable, "{error}");
    }
    assert_eq!(sent.registry.asked().len(), 1);
    assert_eq!(sent.issuer.asked().len(), 1);
}
