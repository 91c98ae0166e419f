//! Issued credentials: fetched by the host, with the checks that targets have, and seen by no guest.
//!
//! The issuers here answer as a test needs. Real ones are tested in `tests/foreign`.

mod hostile;
mod renewed;

use std::sync::Arc;
use std::time::Duration;

use ccm_fixtures::http_server::{Arrived, Reply, Server, answer, ok};
use ccm_host::egress::{CallScope, Egress, EgressLimits, FetchError, instance_id, instance_region};
use ccm_host::grant::{
    AwsSource, Credential, Grants, Issuer, Keystone, KeystoneMethod, OAuth2, OAuth2Client,
    OAuth2Grant, Presented, Secret, WebIdentity,
};
use ccm_host::manifest::{Granted, Manifest};
use serde_json::json;
use tokio::sync::Semaphore;

use crate::aws::sigv4;
use crate::proxies::through;
use crate::proxy_server::{Answer, FakeProxy};
use crate::tls::{acceptor, authority};
use crate::world::{CANARY, error, get, rules, scope};

const HOUR: Duration = Duration::from_secs(3600);

/// Token in the answers of the issuers.
const ISSUED: &str = "issued-5f0a3c9e7d1f-token";

fn at(server: &Server, path: &str) -> Issuer {
    let url = format!("http://{}{path}", server.address);
    Issuer::at(url.parse().unwrap())
}

/// A grant of one target `api` with this credential.
fn granted(endpoint: &str, credential: Credential) -> Granted {
    let manifest = json!({
        "contract": "0.2.0", "name": "test", "version": "1",
        "targets": [{ "name": "api", "endpoint": "https://cloud.test", "auth": credential.kind(), "rules": rules() }],
    });
    let manifest = Manifest::parse(manifest.to_string().as_bytes()).unwrap();
    let mut grants: Grants = manifest.as_grants();
    grants.targets[0].endpoint = endpoint.parse().unwrap();
    grants.targets[0].credential = credential;
    manifest.narrow(grants).unwrap()
}

fn egress(cloud: &Server, credential: Credential) -> Arc<Egress> {
    let granted = granted(&format!("http://{}", cloud.address), credential);
    Arc::new(Egress::new("test", &granted, EgressLimits::standard()).unwrap())
}

fn web_identity(sts: &Server, token: Presented) -> Credential {
    Credential::AwsSigV4(sigv4(AwsSource::WebIdentity(WebIdentity {
        issuer: at(sts, ""),
        role_arn: "arn:aws:iam::123456789012:role/ccm".to_owned(),
        session_name: "ccm".to_owned(),
        token,
    })))
}

fn container(metadata: &Server) -> Credential {
    Credential::AwsSigV4(sigv4(AwsSource::Container {
        issuer: at(metadata, "/v1/credentials"),
        authorization: Some(Presented::Text(Secret::new(CANARY.to_owned()))),
    }))
}

fn instance(metadata: &Server) -> Credential {
    Credential::AwsSigV4(sigv4(AwsSource::InstanceMetadata {
        issuer: at(metadata, ""),
    }))
}

fn client(in_form: bool) -> OAuth2Client {
    OAuth2Client {
        id: "ccm client".to_owned(),
        secret: Some(Secret::new(CANARY.to_owned())),
        in_form,
    }
}

fn oauth2(endpoint: &Server, client: Option<OAuth2Client>, grant: OAuth2Grant) -> Credential {
    Credential::OAuth2(OAuth2 {
        issuer: at(endpoint, "/oauth/token"),
        client,
        grant,
        parameters: vec![("scope".to_owned(), "cloud:read cloud:write".to_owned())],
    })
}

fn keystone(server: &Server, method: KeystoneMethod) -> Credential {
    Credential::Keystone(Keystone {
        issuer: at(server, "/v3"),
        method,
    })
}

/// In the form of RFC 3339.
fn rfc3339(time: jiff::Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn in_an_hour() -> String {
    rfc3339(jiff::Timestamp::now() + HOUR)
}

fn keys_json(expiration: &str) -> String {
    json!({
        "Code": "Success", "AccessKeyId": "ASIAISSUED", "SecretAccessKey": format!("{ISSUED}-secret"),
        "Token": ISSUED, "Expiration": expiration,
    })
    .to_string()
}

fn keys_xml(expiration: &str) -> String {
    format!(
        "<AssumeRoleWithWebIdentityResponse><Credentials><AccessKeyId>ASIAISSUED</AccessKeyId><SecretAccessKey>{ISSUED}-secret</SecretAccessKey><SessionToken>{ISSUED}</SessionToken><Expiration>{expiration}</Expiration></Credentials></AssumeRoleWithWebIdentityResponse>"
    )
}

fn bearer_json() -> String {
    json!({ "access_token": ISSUED, "token_type": "Bearer", "expires_in": 3600 }).to_string()
}

/// A metadata service in version 2, which knows one session.
fn metadata(request: &Arrived) -> Reply {
    match request.line.as_str() {
        "PUT /latest/api/token" => {
            assert!(
                !request
                    .header("x-aws-ec2-metadata-token-ttl-seconds")
                    .is_empty()
            );
            ok("session-of-the-metadata-service")
        }
        _ if request.header("x-aws-ec2-metadata-token") != "session-of-the-metadata-service" => {
            answer(401, &[], "")
        }
        "GET /latest/meta-data/iam/security-credentials/" => ok("node-role\n"),
        "GET /latest/meta-data/iam/security-credentials/node-role" => ok(&keys_json(&in_an_hour())),
        "GET /latest/meta-data/instance-id" => ok("i-1234567890abcdef0"),
        "GET /latest/meta-data/placement/region" => ok("eu-central-1"),
        _ => answer(404, &[], ""),
    }
}

async fn cloud() -> Server {
    Server::start(|_| ok("")).await
}

#[tokio::test]
async fn keys_are_issued_for_a_token_in_a_file_which_is_read_each_time() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, format!("{CANARY}-1\n")).unwrap();
    let sts = Server::start(|_| ok(&keys_xml(&in_an_hour()))).await;
    let cloud = cloud().await;
    for turn in ["1", "2"] {
        std::fs::write(&file, format!("{CANARY}-{turn}\n")).unwrap();
        // Each generation requests its own credential.
        let egress = egress(&cloud, web_identity(&sts, Presented::File(file.clone())));
        scope(&egress).fetch(get("/servers")).await.unwrap();
        scope(&egress).fetch(get("/servers")).await.unwrap();
    }
    let asked: Vec<String> = sts
        .arrived()
        .iter()
        .map(|one| String::from_utf8(one.body.clone()).unwrap())
        .collect();
    assert_eq!(asked.len(), 2, "{asked:?}");
    for (asked, turn) in asked.iter().zip(["1", "2"]) {
        assert!(asked.contains("Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%3A123456789012%3Arole%2Fccm&RoleSessionName=ccm"));
        assert!(
            asked.ends_with(&format!("WebIdentityToken={CANARY}-{turn}")),
            "{asked}"
        );
    }
    let arrived = &cloud.arrived()[0];
    assert!(
        arrived
            .header("authorization")
            .contains("Credential=ASIAISSUED/")
    );
    assert_eq!(arrived.header("x-amz-security-token"), ISSUED);
}

#[tokio::test]
async fn containers_and_instances_get_theirs_from_the_metadata_service() {
    let of_container = Server::start(|_| ok(&keys_json(&in_an_hour()))).await;
    let of_instance = Server::start(metadata).await;
    for credential in [container(&of_container), instance(&of_instance)] {
        let cloud = cloud().await;
        scope(&egress(&cloud, credential))
            .fetch(get("/servers"))
            .await
            .unwrap();
        assert_eq!(cloud.arrived()[0].header("x-amz-security-token"), ISSUED);
    }
    assert_eq!(of_container.arrived()[0].header("authorization"), CANARY);
    assert_eq!(of_instance.lines().len(), 3, "{:?}", of_instance.lines());
}

#[tokio::test]
async fn the_metadata_service_tells_the_region_and_the_id_of_the_instance() {
    let service = Server::start(metadata).await;
    let issuer = at(&service, "");
    assert_eq!(
        instance_region(&issuer).await.as_deref(),
        Ok("eu-central-1")
    );
    let id = instance_id(&issuer).await;
    assert_eq!(id.as_deref(), Ok("i-1234567890abcdef0"));

    let other = Server::start(|_| ok("<html>")).await;
    let why = instance_id(&at(&other, "")).await.unwrap_err();
    assert!(
        why.ends_with("answered something else than a name"),
        "{why}"
    );
}

#[tokio::test]
async fn tokens_of_oauth2_are_bearer_tokens() {
    let jwt = || Presented::Text(Secret::new(format!("{CANARY}-jwt")));
    let exchange = OAuth2Grant::TokenExchange {
        subject_token: jwt(),
        subject_token_type: "urn:ietf:params:oauth:token-type:jwt".to_owned(),
    };
    let table = [
        (
            Some(client(false)),
            OAuth2Grant::ClientCredentials,
            "grant_type=client_credentials&scope=cloud%3Aread+cloud%3Awrite".to_owned(),
        ),
        (
            Some(client(true)),
            OAuth2Grant::ClientCredentials,
            format!(
                "grant_type=client_credentials&scope=cloud%3Aread+cloud%3Awrite&client_id=ccm+client&client_secret={CANARY}"
            ),
        ),
        (
            None,
            OAuth2Grant::JwtBearer { assertion: jwt() },
            format!(
                "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion={CANARY}-jwt&scope=cloud%3Aread+cloud%3Awrite"
            ),
        ),
        (
            None,
            exchange,
            format!(
                "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange&subject_token={CANARY}-jwt&subject_token_type=urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Ajwt&scope=cloud%3Aread+cloud%3Awrite"
            ),
        ),
    ];
    for (client, grant, body) in table {
        let by_header = client.as_ref().is_some_and(|client| !client.in_form);
        let endpoint = Server::start(|_| ok(&bearer_json())).await;
        let cloud = cloud().await;
        let egress = egress(&cloud, oauth2(&endpoint, client, grant));
        scope(&egress).fetch(get("/servers")).await.unwrap();
        let asked = &endpoint.arrived()[0];
        assert_eq!(asked.line, "POST /oauth/token");
        assert_eq!(String::from_utf8(asked.body.clone()).unwrap(), body);
        // RFC 6749, 2.3.1: both parts as in a form, then joined.
        let login = match by_header {
            true => "Basic Y2NtK2NsaWVudDpjYW5hcnktN2QxZjBhM2M5ZQ==",
            false => "",
        };
        assert_eq!(asked.header("authorization"), login);
        let authorization = format!("Bearer {ISSUED}");
        assert_eq!(cloud.arrived()[0].header("authorization"), authorization);
    }
}

#[tokio::test]
async fn tokens_of_keystone_stand_in_their_own_header() {
    let secret = || Secret::new(CANARY.to_owned());
    let password = KeystoneMethod::Password {
        user: "ccm".to_owned(),
        user_domain: "users".to_owned(),
        password: secret(),
        project: "cluster".to_owned(),
        project_domain: "projects".to_owned(),
    };
    let application = KeystoneMethod::ApplicationCredential {
        id: "21dced0fd20347869b93710d2b98aae0".to_owned(),
        secret: secret(),
    };
    let by_password = json!({
        "identity": { "methods": ["password"], "password": { "user": {
            "name": "ccm", "domain": { "name": "users" }, "password": CANARY,
        } } },
        "scope": { "project": { "name": "cluster", "domain": { "name": "projects" } } },
    });
    let by_application = json!({
        "identity": { "methods": ["application_credential"], "application_credential": {
            "id": "21dced0fd20347869b93710d2b98aae0", "secret": CANARY,
        } },
    });
    for (method, auth) in [(password, by_password), (application, by_application)] {
        let body = json!({ "token": { "expires_at": in_an_hour() } }).to_string();
        let server =
            Server::start(move |_| answer(201, &[("x-subject-token", ISSUED)], &body)).await;
        let cloud = cloud().await;
        let egress = egress(&cloud, keystone(&server, method));
        scope(&egress).fetch(get("/servers")).await.unwrap();
        let asked = &server.arrived()[0];
        assert_eq!(asked.line, "POST /v3/auth/tokens?nocatalog");
        let sent: serde_json::Value = serde_json::from_slice(&asked.body).unwrap();
        assert_eq!(sent, json!({ "auth": auth }));
        assert_eq!(cloud.arrived()[0].header("x-auth-token"), ISSUED);
        // A guest cannot set the header.
        let mut own = get("/servers");
        own.headers = vec![("X-Auth-Token".to_owned(), "theirs".to_owned())];
        assert!(matches!(
            error(scope(&egress).fetch(own).await),
            FetchError::Invalid(_)
        ));
    }
}

#[tokio::test]
async fn an_issuer_has_an_authority_and_a_proxy_of_its_own() {
    let authority = authority();
    let tls = acceptor(&authority, &["login.test"], false, &["http/1.1"]);
    let endpoint = Server::with_tls(tls, |_| ok(&bearer_json())).await;
    let proxy = FakeProxy::start(Answer::Tunnel).await;
    let host = format!("login.test:{}", endpoint.address.port());
    let url = format!("https://{host}/oauth/token");
    let credential = Credential::OAuth2(OAuth2 {
        issuer: Issuer {
            ca_pem: Some(authority.pem()),
            proxy: Some(through(&format!("http://{}", proxy.address), "", &[], None)),
            ..Issuer::at(url.parse().unwrap())
        },
        client: Some(client(false)),
        grant: OAuth2Grant::ClientCredentials,
        parameters: Vec::new(),
    });
    let cloud = cloud().await;
    let egress = egress(&cloud, credential);
    scope(&egress).fetch(get("/servers")).await.unwrap();
    let asked = proxy.asked().concat();
    assert!(asked.starts_with(&format!("CONNECT {host} ")), "{asked}");
    assert_eq!(endpoint.lines(), ["POST /oauth/token"]);
    // The target's own requests go another way.
    assert_eq!((proxy.connections(), cloud.connections()), (1, 1));
}

#[tokio::test]
async fn many_calls_at_once_make_one_exchange() {
    let place = Arc::new(Semaphore::new(0));
    let held = place.clone();
    let endpoint =
        Server::start(move |_| Reply::Held(held.clone(), Box::new(ok(&bearer_json())))).await;
    let cloud = cloud().await;
    let egress = egress(
        &cloud,
        oauth2(
            &endpoint,
            Some(client(false)),
            OAuth2Grant::ClientCredentials,
        ),
    );
    // A cancelled call does not end the exchange for other calls.
    let given_up = scope(&egress);
    let mut abandoned = Box::pin(given_up.fetch(get("/servers")));
    assert!(futures::poll!(abandoned.as_mut()).is_pending());
    drop(abandoned);
    let scopes: Vec<CallScope> = (0..5).map(|_| scope(&egress)).collect();
    let calls = scopes.iter().map(|scope| scope.fetch(get("/servers")));
    let release = async {
        crate::world::eventually("it is asked", || endpoint.connections() > 0).await;
        place.add_permits(10);
    };
    let (answers, ()) = tokio::join!(futures::future::join_all(calls), release);
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    assert_eq!(endpoint.lines().len(), 1);
}
