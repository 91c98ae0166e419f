//! The host's signatures for AWS, checked by moto: it recomputes each with botocore, AWS's own library for Python, and
//! checks the rights of the keys. And the exchanges for temporary keys, which moto answers as AWS does.
//!
//! moto does not check the signature's date, the token of a web identity, or the session with the metadata service; its
//! instance's keys belong to no user, so the tests only show that they arrive. It encodes a form anew before it checks
//! the signature, so that only forms pass which Python would encode in the same way, and no query does: botocore's own
//! fail, too.

use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ccm_core::moment::Moment;
use ccm_core::safety::permit::Permit;
use ccm_host::egress::{
    Egress, EgressLimits, FetchError, FetchRequest, FetchResponse, instance_id, instance_region,
};
use ccm_host::grant::{
    AwsKeys, AwsSigV4, AwsSource, Credential, Issuer, Presented, Secret, WebIdentity,
};
use ccm_host::manifest::Manifest;
use ccm_tests::ports;
use http::Method;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::python::Client;

/// Longer than a busy machine takes to start a server that is written in Python.
const SOON: Duration = Duration::from_secs(120);

/// moto on a port of its own.
struct Moto {
    client: Client,
    child: Child,
    endpoint: String,
}

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Moto {
    fn start() -> Moto {
        let client = Client::with_packages_of("aws", "moto");
        let port = ports::keep().unwrap();
        let child = Command::new("python3")
            .args([
                "-B",
                "-c",
                "import sys; from moto.server import main; main(sys.argv[1:])",
            ])
            .args(["-H", "127.0.0.1", "-p", &port.to_string()])
            .env("PYTHONPATH", client.packages())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let moto = Moto {
            client,
            child,
            endpoint: format!("http://127.0.0.1:{port}"),
        };
        let end = std::time::Instant::now() + SOON;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(std::time::Instant::now() < end, "moto does not listen");
            std::thread::sleep(Duration::from_millis(100));
        }
        moto
    }

    /// A user with keys, and a role.
    fn prepare(&self) -> Value {
        let task = json!({ "endpoint": self.endpoint, "step": "prepare" });
        self.client.drive(&task, &[]).remove(0)
    }

    /// From now on moto checks each signature and each right.
    fn check(&self) {
        let task = json!({ "endpoint": self.endpoint, "step": "check" });
        self.client.drive(&task, &[]);
    }

    fn issuer(&self) -> Issuer {
        Issuer::at(self.endpoint.parse().unwrap())
    }

    /// Two targets, the requests to both signed with these keys.
    fn egress(&self, source: &AwsSource) -> Arc<Egress> {
        let rule = json!({ "methods": ["GET", "POST"], "path": "/", "access": "read" });
        let target = |name: &str, host: &str| json!({ "name": name, "endpoint": format!("https://{host}.{{region}}.amazonaws.com"), "auth": "aws-sigv4", "rules": [rule] });
        let manifest = json!({
            "contract": "0.1.0", "name": "aws", "version": "1",
            "targets": [target("ec2", "ec2"), target("elasticloadbalancing", "elasticloadbalancing")],
        });
        let manifest = Manifest::parse(manifest.to_string().as_bytes()).unwrap();
        let mut grants = manifest.as_grants();
        for target in &mut grants.targets {
            target.endpoint = self.endpoint.parse().unwrap();
            target.credential = Credential::AwsSigV4(AwsSigV4 {
                region: "eu-central-1".to_owned(),
                service: target.name.clone(),
                source: source.clone(),
            });
        }
        let granted = manifest.narrow(grants).unwrap();
        Arc::new(Egress::new("aws", &granted, EgressLimits::standard()).unwrap())
    }
}

fn keys(id: &str, secret: &str) -> AwsSource {
    AwsSource::Keys(AwsKeys {
        access_key_id: id.to_owned(),
        secret_access_key: Secret::new(secret.to_owned()),
        session_token: None,
    })
}

fn form(target: &str, fields: &str) -> FetchRequest {
    FetchRequest {
        supplementary: false,
        target: target.to_owned(),
        method: Method::POST,
        path: "/".to_owned(),
        query: Vec::new(),
        headers: vec![(
            "content-type".to_owned(),
            "application/x-www-form-urlencoded".to_owned(),
        )],
        body: Some(Bytes::from(fields.to_owned())),
    }
}

const INSTANCES: &str = "Action=DescribeInstances&Version=2016-11-15";
const BALANCERS: &str = "Action=DescribeLoadBalancers&Version=2015-12-01";

async fn fetch(egress: &Arc<Egress>, request: FetchRequest) -> Result<FetchResponse, FetchError> {
    let permit = Arc::new(Permit::read_only(Moment(Duration::MAX)));
    let scope = egress.scope(permit, Instant::now() + SOON, false);
    scope.fetch(request).await
}

async fn status(egress: &Arc<Egress>, request: FetchRequest) -> (u16, String) {
    let answer = fetch(egress, request).await.unwrap();
    let text = String::from_utf8(answer.body.to_vec()).unwrap();
    (answer.status, text)
}

#[tokio::test]
async fn moto_recomputes_our_signatures_and_finds_them_right() {
    let moto = Moto::start();
    let account = moto.prepare();
    let text = |key: &str| account[key].as_str().unwrap().to_owned();
    let web_identity = AwsSource::WebIdentity(WebIdentity {
        issuer: moto.issuer(),
        role_arn: text("role"),
        session_name: "ccm".to_owned(),
        token: Presented::Text(Secret::new("a-token-of-a-workload".to_owned())),
    });
    // moto issues no keys any more once it checks.
    let of_role = moto.egress(&web_identity);
    assert_eq!(status(&of_role, form("ec2", INSTANCES)).await.0, 200);
    assert_eq!(
        status(&of_role, form("elasticloadbalancing", BALANCERS))
            .await
            .0,
        200
    );
    let of_instance = moto.egress(&AwsSource::InstanceMetadata {
        issuer: moto.issuer(),
    });
    assert_eq!(status(&of_instance, form("ec2", INSTANCES)).await.0, 200);
    moto.check();

    let of_user = moto.egress(&keys(&text("id"), &text("secret")));
    for egress in [&of_user, &of_role] {
        let fields = format!("{INSTANCES}&Filter.1.Name=tag%3Aa%2Fb&Filter.1.Value.1=%C3%A9+x");
        assert_eq!(status(egress, form("ec2", &fields)).await.0, 200);
        let balancers = form("elasticloadbalancing", BALANCERS);
        assert_eq!(status(egress, balancers).await.0, 200);
        // The keys are right, and lack the right.
        let (code, reported) = status(
            egress,
            form("ec2", "Action=DescribeVpcs&Version=2016-11-15"),
        )
        .await;
        assert_eq!(code, 403, "{reported}");
    }
    // One changed letter of the secret, or keys of no user.
    for wrong in [
        keys(&text("id"), &format!("{}x", text("secret"))),
        keys("AKIANOBODY", "secret-of-nobody"),
    ] {
        let (code, reported) = status(&moto.egress(&wrong), form("ec2", INSTANCES)).await;
        assert!(
            code == 401 && reported.contains("AuthFailure"),
            "{code} {reported}"
        );
    }
    let (code, reported) = status(&of_instance, form("ec2", INSTANCES)).await;
    assert!(
        code == 401 && reported.contains("AuthFailure"),
        "{code} {reported}"
    );
}

#[tokio::test]
async fn the_region_and_the_id_are_those_of_motos_instance() {
    let moto = Moto::start();
    let region = instance_region(&moto.issuer()).await;
    assert_eq!(region.as_deref(), Ok("us-east-1"));
    let id = instance_id(&moto.issuer()).await;
    assert_eq!(id.as_deref(), Ok("i-fake"));
}
