//! Requests that are signed for AWS: the signed request as received, and what a guest cannot change in it.

use std::sync::Arc;

use bytes::Bytes;
use ccm_fixtures::http_server::{Server, answer, ok};
use ccm_host::egress::{Egress, EgressError, EgressLimits, FetchError, FetchRequest};
use ccm_host::grant::{AwsKeys, AwsSigV4, AwsSource, Credential, Grants, Secret};
use ccm_host::manifest::{Granted, Manifest};
use http::Method;
use serde_json::json;

use crate::world::{CANARY, error, plain, post_form, rules, scope};

/// The session token, which must never be seen anywhere but in a request to its target.
const TOKEN: &str = "session-token-5f0a3c9e7d1f";

pub(crate) fn keys() -> AwsKeys {
    AwsKeys {
        access_key_id: "AKIDEXAMPLE".to_owned(),
        secret_access_key: Secret::new(CANARY.to_owned()),
        session_token: Some(Secret::new(TOKEN.to_owned())),
    }
}

pub(crate) fn sigv4(source: AwsSource) -> AwsSigV4 {
    AwsSigV4 {
        region: "eu-central-1".to_owned(),
        service: "ec2".to_owned(),
        source,
    }
}

/// A grant of one target `api` with signed requests.
pub(crate) fn granted(endpoint: &str, credential: AwsSigV4) -> Granted {
    let manifest = json!({
        "contract": "0.2.0", "name": "test", "version": "1",
        "targets": [{ "name": "api", "endpoint": "https://ec2.{region}.amazonaws.com", "auth": "aws-sigv4", "rules": rules() }],
    });
    let manifest = Manifest::parse(manifest.to_string().as_bytes()).unwrap();
    let mut grants: Grants = manifest.as_grants();
    grants.targets[0].endpoint = endpoint.parse().unwrap();
    grants.targets[0].credential = Credential::AwsSigV4(credential);
    manifest.narrow(grants).unwrap()
}

fn egress(endpoint: &str) -> Arc<Egress> {
    let granted = granted(endpoint, sigv4(AwsSource::Keys(keys())));
    Arc::new(Egress::new("test", &granted, EgressLimits::standard()).unwrap())
}

#[tokio::test]
async fn the_host_signs_for_its_own_region_and_service() {
    let server = Server::start(|_| ok("<ok/>")).await;
    let egress = egress(&format!("http://{}", server.address));
    let form = post_form("Action=List&Version=2016-11-15");
    scope(&egress).fetch(form).await.unwrap();
    let arrived = &server.arrived()[0];
    let authorization = arrived.header("authorization");
    let date = arrived.header("x-amz-date");
    let of_day = format!(
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/{}/eu-central-1/ec2/aws4_request, SignedHeaders=",
        &date[..8]
    );
    assert!(authorization.starts_with(&of_day), "{authorization}");
    for signed in ["content-type;", "host;", "x-amz-date;x-amz-security-token"] {
        assert!(authorization.contains(signed), "{signed}: {authorization}");
    }
    assert_eq!(arrived.header("x-amz-security-token"), TOKEN);
    assert!(!authorization.contains(CANARY));
}

#[tokio::test]
async fn d35_a_guest_can_neither_sign_nor_choose_what_is_signed_for() {
    let server = Server::start(|_| ok("")).await;
    let egress = egress(&format!("http://{}", server.address));
    let with_header = |name: &str, value: &str| FetchRequest {
        headers: vec![(name.to_owned(), value.to_owned())],
        ..plain(Method::GET, "/servers")
    };
    let with_query = |name: &str| FetchRequest {
        query: vec![(name.to_owned(), "x".to_owned())],
        ..plain(Method::GET, "/servers")
    };
    let requests = [
        with_header("authorization", "AWS4-HMAC-SHA256 Credential=OTHER/…"),
        with_header("host", "ec2.us-west-2.amazonaws.com"),
        with_header("X-Amz-Security-Token", "theirs"),
        with_header("x-amz-date", "20150830T123600Z"),
        with_header("x_amz_target", "TrentService.DescribeKey"),
        with_query("X-Amz-Signature"),
        with_query("x-amz-credential"),
        with_query("AWSAccessKeyId"),
        with_query("Signature"),
        post_form("Action=List&SignatureMethod=HmacSHA256"),
        post_form("Action=List&SignatureVersion=2"),
        post_form("Action=List&SecurityToken=theirs"),
    ];
    for request in requests {
        let shown = format!("{request:?}");
        let refused = error(scope(&egress).fetch(request).await);
        assert!(
            matches!(refused, FetchError::Invalid(_)),
            "{shown}: {refused}"
        );
        assert!(
            refused.to_string().contains("belongs to the host"),
            "{shown}: {refused}"
        );
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn an_answer_that_repeats_the_session_token_is_withheld() {
    let echo = format!("<Message>canonical: x-amz-security-token:{TOKEN}</Message>");
    for reply in [answer(403, &[], &echo), ok(CANARY)] {
        let server = Server::start(move |_| reply.clone()).await;
        let egress = egress(&format!("http://{}", server.address));
        let failed = error(scope(&egress).fetch(post_form("Action=List")).await);
        assert!(matches!(failed, FetchError::Unavailable(_)), "{failed}");
        assert!(!failed.to_string().contains(TOKEN));
    }
}

#[test]
fn keys_that_no_signature_can_hold_are_refused_without_being_shown() {
    let bad_id = AwsKeys {
        access_key_id: "AKID/canary, x=".to_owned(),
        ..keys()
    };
    let bad_token = AwsKeys {
        session_token: Some(Secret::new("canary\r\nx: y".to_owned())),
        ..keys()
    };
    let region = AwsSigV4 {
        region: "eu/canary".to_owned(),
        ..sigv4(AwsSource::Keys(keys()))
    };
    let s3 = AwsSigV4 {
        service: "s3".to_owned(),
        ..sigv4(AwsSource::Keys(keys()))
    };
    let bad_keys = [bad_id, bad_token].map(|keys| sigv4(AwsSource::Keys(keys)));
    for credential in bad_keys.into_iter().chain([region, s3]) {
        let granted = granted("http://127.0.0.1:1", credential);
        match Egress::new("test", &granted, EgressLimits::standard()) {
            Err(refused @ EgressError::Credential { .. }) => {
                assert!(!format!("{refused:?}").contains("canary"))
            }
            Err(other) => panic!("{other:?}"),
            Ok(_) => panic!("it was taken"),
        }
    }
}

#[tokio::test]
async fn the_body_is_a_part_of_the_signature() {
    let server = Server::start(|_| ok("")).await;
    let egress = egress(&format!("http://{}", server.address));
    for body in ["Action=List&a=1", "Action=List&a=2"] {
        scope(&egress).fetch(post_form(body)).await.unwrap();
    }
    let request = FetchRequest {
        body: Some(Bytes::from_static(b"{}")),
        ..plain(Method::POST, "/servers")
    };
    scope(&egress).fetch(request).await.unwrap();
    let arrived = server.arrived();
    let signatures: Vec<_> = arrived
        .iter()
        .map(|one| one.header("authorization").rsplit_once('=').unwrap().1)
        .collect();
    assert_ne!(signatures[0], signatures[1]);
    assert!(
        signatures.iter().all(|one| one.len() == 64),
        "{signatures:?}"
    );
}
