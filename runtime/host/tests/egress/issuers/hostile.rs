//! Issuers that answer with nonsense, secrets or nothing, and targets that repeat an issued credential.

use std::io::ErrorKind;

use ccm_host::egress::EgressError;
use tokio::net::TcpListener;
use tokio::time::Instant;

use super::*;
use crate::lease_gate::{Slow, call, everything, held};
use crate::world::{SOON, generous};

/// Answers of an issuer, and the error of each.
fn useless() -> Vec<(Reply, &'static str)> {
    let token = |fields: serde_json::Value| ok(&fields.to_string());
    vec![
        (
            answer(302, &[("location", "http://127.0.0.1:1/")], ""),
            "redirects are not followed",
        ),
        (ok("<html>"), "no JSON of the expected form"),
        (
            token(json!({ "access_token": ISSUED })),
            "no JSON of the expected form",
        ),
        (ok(&"x".repeat(100_000)), "more than 65536 bytes"),
        (Reply::Endless(b"x".repeat(4096)), ""),
        (
            token(json!({ "access_token": "a\r\nx: y", "token_type": "bearer" })),
            "no header can carry",
        ),
        (
            token(json!({ "access_token": "", "token_type": "bearer" })),
            "empty",
        ),
        (
            token(json!({ "access_token": ISSUED, "token_type": "mac" })),
            "no bearer token",
        ),
        (
            token(json!({ "access_token": ISSUED, "token_type": "bearer", "expires_in": 2 })),
            "expires in",
        ),
        (
            answer(401, &[], r#"{"error":"invalid_client"}"#),
            "answered 401 invalid_client",
        ),
        (
            answer(400, &[], &json!({ "error": CANARY }).to_string()),
            "answered 400 [redacted]",
        ),
        (
            answer(
                400,
                &[],
                &json!({ "error": "x", "error_description": CANARY }).to_string(),
            ),
            "answered 400 x",
        ),
        (answer(500, &[], "\u{1b}[31m"), "answered 500"),
        (Reply::Close(Vec::new()), ""),
    ]
}

#[tokio::test]
async fn e25_an_issuer_that_answers_nonsense_is_named_and_nothing_of_it_is_shown() {
    for (reply, reported) in useless() {
        let endpoint = Server::start(move |_| reply.clone()).await;
        let cloud = cloud().await;
        let egress = egress(
            &cloud,
            oauth2(
                &endpoint,
                Some(client(false)),
                OAuth2Grant::ClientCredentials,
            ),
        );
        let failed = error(scope(&egress).fetch(get("/servers")).await);
        assert!(matches!(failed, FetchError::Unavailable(_)), "{failed}");
        let text = failed.to_string();
        let place = format!(
            "no credential for target api: OAuth 2.0 token endpoint http://{}/oauth/token",
            endpoint.address
        );
        assert!(
            text.contains(&place) && text.contains(reported),
            "{reported:?}: {text}"
        );
        assert!(!text.contains(ISSUED) && !text.contains('\u{1b}'), "{text}");
        // No exchange is made for a while, and the reason stays the same.
        let again = error(scope(&egress).fetch(get("/servers")).await);
        assert_eq!(again, failed);
        assert_eq!(endpoint.lines().len(), 1);
        assert_eq!(cloud.connections(), 0);
    }
}

#[tokio::test]
async fn e26_keys_that_have_expired_or_cannot_be_used_are_none() {
    let past = "2015-08-30T12:36:00Z";
    let bad_id = keys_json(&in_an_hour()).replace("ASIAISSUED", "ASIA/ISSUED");
    let table = [
        (
            keys_json(past),
            "expired already: the clock of this machine is wrong, or the issuer is impaired",
        ),
        (keys_json("tomorrow"), "time of expiry"),
        (bad_id, "access key ID"),
        (
            keys_json(&in_an_hour()).replace("Success", "Failed"),
            "without success",
        ),
        (
            json!({ "Code": "Success" }).to_string(),
            "no JSON of the expected form",
        ),
    ];
    for (body, reported) in table {
        let metadata = Server::start(move |_| ok(&body)).await;
        let cloud = cloud().await;
        let failed = error(
            scope(&egress(&cloud, container(&metadata)))
                .fetch(get("/servers"))
                .await,
        );
        let text = failed.to_string();
        assert!(
            text.contains(reported) && text.contains("/v1/credentials"),
            "{reported:?}: {text}"
        );
        assert!(!text.contains(ISSUED), "{text}");
        assert_eq!(cloud.connections(), 0);
    }
}

#[tokio::test]
async fn h11_errors_of_sts_lose_everything_but_their_code() {
    let token = Presented::Text(Secret::new(format!("{CANARY}-jwt")));
    let longer_than_any = "x".repeat(65);
    for (code, reported) in [
        ("InvalidIdentityToken", "answered 403 InvalidIdentityToken"),
        (longer_than_any.as_str(), "answered 403"),
        ("canary-7d1f0a3c9e-jwt", "answered 403 [redacted]"),
        ("a b\r\nc", "answered 403"),
    ] {
        let body = format!(
            "<ErrorResponse><Error><Code>{code}</Code><Message>WebIdentityToken={CANARY}-jwt</Message></Error></ErrorResponse>"
        );
        let sts = Server::start(move |_| answer(403, &[], &body)).await;
        let cloud = cloud().await;
        let egress = egress(&cloud, web_identity(&sts, token.clone()));
        let text = error(scope(&egress).fetch(get("/servers")).await).to_string();
        assert!(text.ends_with(reported), "{text}");
        assert!(text.contains("role/ccm"), "{text}");
    }
}

#[tokio::test]
async fn the_login_of_a_client_that_an_issuer_echoes_is_in_no_text() {
    // Its login has only characters that an error code may have.
    let client = OAuth2Client {
        secret: Some(Secret::new("p@ss w/01234567".to_owned())),
        ..client(false)
    };
    let endpoint = Server::start(|request| {
        let login = request.header("authorization").trim_start_matches("Basic ");
        answer(401, &[], &json!({ "error": login }).to_string())
    })
    .await;
    let cloud = cloud().await;
    let credential = oauth2(&endpoint, Some(client), OAuth2Grant::ClientCredentials);
    let failed = error(
        scope(&egress(&cloud, credential))
            .fetch(get("/servers"))
            .await,
    );
    let text = failed.to_string();
    assert!(text.ends_with("answered 401 [redacted]"), "{text}");
    let asked = &endpoint.arrived()[0];
    let login = "Basic Y2NtK2NsaWVudDpwJTQwc3MrdyUyRjAxMjM0NTY3";
    assert_eq!(asked.header("authorization"), login);
}

#[tokio::test]
async fn a_token_file_that_is_missing_is_named_and_other_targets_go_on() {
    let sts = Server::start(|_| ok("")).await;
    let cloud = cloud().await;
    let file = Presented::File("/nowhere/token".into());
    let mut with_other = granted(
        &format!("http://{}", cloud.address),
        web_identity(&sts, file),
    );
    let mut other = with_other.targets[0].clone();
    other.grant.name = "other".to_owned();
    other.grant.credential = Credential::Bearer(Secret::new(CANARY.to_owned()));
    with_other.targets.push(other);
    let egress = Arc::new(Egress::new("test", &with_other, EgressLimits::standard()).unwrap());
    let text = error(scope(&egress).fetch(get("/servers")).await).to_string();
    assert!(text.contains("/nowhere/token: No such file"), "{text}");
    let mut request = get("/servers");
    request.target = "other".to_owned();
    scope(&egress).fetch(request).await.unwrap();
    assert_eq!((sts.connections(), cloud.connections()), (0, 1));
}

#[tokio::test]
async fn requests_that_wait_for_a_slow_issuer_keep_no_other_target_waiting() {
    let never = Arc::new(Semaphore::new(0));
    let endpoint =
        Server::start(move |_| Reply::Held(never.clone(), Box::new(ok(&bearer_json())))).await;
    let cloud = cloud().await;
    let mut with_other = granted(
        &format!("http://{}", cloud.address),
        oauth2(
            &endpoint,
            Some(client(false)),
            OAuth2Grant::ClientCredentials,
        ),
    );
    let mut other = with_other.targets[0].clone();
    other.grant.name = "other".to_owned();
    other.grant.credential = Credential::Bearer(Secret::new(CANARY.to_owned()));
    with_other.targets.push(other);
    let egress = Arc::new(Egress::new("test", &with_other, EgressLimits::standard()).unwrap());
    // As many as the provider may send at once.
    let scopes: Vec<CallScope> = (0..16).map(|_| scope(&egress)).collect();
    let waiting = scopes.iter().map(|scope| scope.fetch(get("/servers")));
    let mut waiting = Box::pin(futures::future::join_all(waiting));
    assert!(futures::poll!(waiting.as_mut()).is_pending());
    let mut request = get("/servers");
    request.target = "other".to_owned();
    let one = scope(&egress);
    tokio::select! {
        answer = one.fetch(request) => assert!(answer.is_ok(), "{answer:?}"),
        ended = waiting.as_mut() => panic!("the others end first: {ended:?}"),
    }
}

#[tokio::test]
async fn h11_an_answer_that_repeats_what_was_issued_or_presented_is_withheld() {
    let presented = format!("{CANARY}-jwt");
    for echo in [
        ISSUED.to_owned(),
        format!("{ISSUED}-secret"),
        presented.clone(),
    ] {
        let sts = Server::start(|_| ok(&keys_xml(&in_an_hour()))).await;
        let cloud = Server::start(move |_| ok(&format!("you sent {echo}"))).await;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        std::fs::write(&file, &presented).unwrap();
        let egress = egress(&cloud, web_identity(&sts, Presented::File(file)));
        let failed = error(scope(&egress).fetch(get("/servers")).await);
        assert!(failed.to_string().contains("withheld"), "{failed}");
        // A guest that knows the credential does not get it into an error, either.
        let recorded = error(scope(&egress).fetch(get(&format!("/{ISSUED}"))).await);
        assert!(!recorded.to_string().contains(ISSUED), "{recorded}");
    }
}

#[tokio::test]
async fn e27_what_the_target_refuses_is_not_asked_for_again_while_it_is_new() {
    let endpoint = Server::start(|_| ok(&bearer_json())).await;
    let cloud = Server::start(|_| answer(401, &[], "")).await;
    let egress = egress(
        &cloud,
        oauth2(
            &endpoint,
            Some(client(false)),
            OAuth2Grant::ClientCredentials,
        ),
    );
    for _ in 0..20 {
        scope(&egress).fetch(get("/servers")).await.unwrap();
    }
    assert_eq!((endpoint.lines().len(), cloud.lines().len()), (1, 20));
}

#[tokio::test]
async fn a_clock_that_is_off_is_told_in_place_of_the_echo_of_aws() {
    let body = format!(
        "<Error><Code>SignatureDoesNotMatch</Code><Message>canonical: x-amz-security-token:{ISSUED}</Message></Error>"
    );
    let dated = [("date", "Sun, 30 Aug 2015 12:36:00 GMT")];
    let reply = answer(403, &dated, &body);
    let cloud = Server::start(move |_| reply.clone()).await;
    let metadata = Server::start(|_| ok(&keys_json(&in_an_hour()))).await;
    let failed = error(
        scope(&egress(&cloud, container(&metadata)))
            .fetch(get("/servers"))
            .await,
    );
    let text = failed.to_string();
    assert!(
        text.contains("SignatureDoesNotMatch") && text.contains("the clock of this machine is"),
        "{text}"
    );
    assert!(text.contains("ahead of AWS's"), "{text}");
}

#[tokio::test]
async fn an_issuer_that_is_silent_ends_with_the_call() {
    let endpoint = Server::start(|_| Reply::Silence).await;
    let cloud = cloud().await;
    let egress = egress(
        &cloud,
        oauth2(
            &endpoint,
            Some(client(false)),
            OAuth2Grant::ClientCredentials,
        ),
    );
    let soon = Instant::now() + Duration::from_millis(300);
    let scope = egress.scope(generous(), soon, false);
    let failed = error(scope.fetch(get("/servers")).await);
    assert!(matches!(failed, FetchError::TimedOut(_)), "{failed}");
    assert!(Instant::now() < soon + SOON);
    assert_eq!(cloud.connections(), 0);
}

#[tokio::test]
async fn an_exchange_with_a_silent_issuer_ends_by_itself() {
    let endpoint = Server::start(|_| Reply::Silence).await;
    let cloud = cloud().await;
    let client = Some(client(false));
    let egress = egress(
        &cloud,
        oauth2(&endpoint, client, OAuth2Grant::ClientCredentials),
    );
    let waiting = scope(&egress);
    let fetch = tokio::spawn(async move { waiting.fetch(get("/servers")).await });
    crate::world::eventually("it is asked", || endpoint.requests() == 1).await;
    tokio::time::pause();
    let failed = error(fetch.await.unwrap());
    assert!(
        matches!(&failed, FetchError::Unavailable(text) if text.ends_with("no whole answer in 10s")),
        "{failed}"
    );
}

#[tokio::test]
async fn an_issuer_gets_not_one_byte_after_the_lease_was_lost() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let url = format!("http://issuer.test:{port}/oauth/token");
    let credential = Credential::OAuth2(OAuth2 {
        issuer: Issuer {
            addresses: vec!["127.0.0.1/32".parse().unwrap()],
            ..Issuer::at(url.parse().unwrap())
        },
        client: Some(client(false)),
        grant: OAuth2Grant::ClientCredentials,
        parameters: Vec::new(),
    });
    let granted = granted("http://127.0.0.1:1", credential);
    let found = Arc::new(Semaphore::new(0));
    let lookup = Arc::new(Slow(found.clone()));
    let limits = EgressLimits::standard();
    let egress = Arc::new(Egress::with_lookup("test", &granted, limits, lookup).unwrap());
    let tenure = held();
    let scope = call(&egress, &tenure, &Arc::default());
    let mut fetch = Box::pin(scope.fetch(get("/servers")));
    assert!(futures::poll!(fetch.as_mut()).is_pending());
    // The tenure ends between dialling and writing.
    tenure.close();
    found.add_permits(1);
    let (stream, _) = listener.accept().await.unwrap();
    let end = Err(ErrorKind::ConnectionReset);
    assert_eq!(everything(stream).await, (Vec::new(), end));
    let text = error(fetch.await).to_string();
    assert!(text.contains("does not hold the lease"), "{text}");
}

#[test]
fn d36_issuers_are_where_targets_may_be_and_metadata_services_are_for_keys_of_aws_only() {
    let issuer = |url: &str| Issuer::at(url.parse().unwrap());
    let of_container = |url: &str| {
        Credential::AwsSigV4(sigv4(AwsSource::Container {
            issuer: issuer(url),
            authorization: None,
        }))
    };
    let of_instance = |url: &str| {
        Credential::AwsSigV4(sigv4(AwsSource::InstanceMetadata {
            issuer: issuer(url),
        }))
    };
    let of_oauth2 = |url: &str| {
        Credential::OAuth2(OAuth2 {
            issuer: issuer(url),
            client: Some(client(false)),
            grant: OAuth2Grant::ClientCredentials,
            parameters: Vec::new(),
        })
    };
    let is_taken = |credential| {
        let granted = granted("http://127.0.0.1:1", credential);
        match Egress::new("test", &granted, EgressLimits::standard()) {
            Ok(_) => true,
            Err(EgressError::Issuer { .. }) => false,
            Err(other) => panic!("{other:?}"),
        }
    };
    let of_aws = [
        "http://169.254.169.254",
        "http://[fd00:ec2::254]",
        "http://169.254.170.2/v2/credentials/3f",
        "http://169.254.170.23/v1/credentials",
        "http://[fd00:ec2::23]/v1/credentials",
    ];
    for url in of_aws {
        assert!(
            is_taken(of_container(url)) && is_taken(of_instance(url)),
            "{url}"
        );
        assert!(!is_taken(of_oauth2(url)), "{url}");
    }
    for url in [
        "https://169.254.169.254",
        "http://169.254.169.253",
        "http://169.254.170.24",
        "http://10.0.0.1",
        "https://user:secret@example.com",
    ] {
        for credential in [of_container(url), of_instance(url), of_oauth2(url)] {
            assert!(!is_taken(credential), "{url}");
        }
    }
    for url in ["http://127.0.0.1:51679/x", "https://example.com/token"] {
        assert!(
            is_taken(of_container(url)) && is_taken(of_oauth2(url)),
            "{url}"
        );
    }
}
