//! Credentials that expire: each request carries the one that is valid at its time.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use ccm_host::egress::{FetchRequest, SystemLookup, WallClock};

use super::*;

/// Time of day, set by a test.
#[derive(Clone)]
struct Day(Arc<Mutex<SystemTime>>);

impl Day {
    fn begin() -> Day {
        Day(Arc::new(Mutex::new(SystemTime::now())))
    }

    fn now(&self) -> SystemTime {
        *self.0.lock().unwrap()
    }

    fn pass(&self, time: Duration) {
        *self.0.lock().unwrap() += time;
    }

    fn clock(&self) -> WallClock {
        let day = self.clone();
        Arc::new(move || day.now())
    }
}

/// An issuer whose answers are valid for an hour. The number of each answer replaces the word `ISSUED`.
async fn issuer(day: &Day, answer: fn(&str) -> String) -> Server {
    let (day, issued) = (day.clone(), AtomicUsize::new(0));
    Server::start(move |_| {
        let number = issued.fetch_add(1, Ordering::SeqCst) + 1;
        let end = jiff::Timestamp::try_from(day.now() + HOUR).unwrap();
        ok(&answer(&rfc3339(end)).replace("ISSUED", &number.to_string()))
    })
    .await
}

fn keys(end: &str) -> String {
    keys_xml(end).replace(ISSUED, "session-token-ISSUED")
}

fn bearer(_: &str) -> String {
    bearer_json().replace(ISSUED, "bearer-token-ISSUED")
}

/// An egress to this cloud that takes the time of day from the test.
fn egress_at(day: &Day, cloud: &Server, credential: Credential) -> Arc<Egress> {
    let granted = granted(&format!("http://{}", cloud.address), credential);
    let (limits, names) = (EgressLimits::standard(), Arc::new(SystemLookup));
    let egress = Egress::with_clock("test", &granted, limits, names, day.clock());
    Arc::new(egress.unwrap())
}

/// Uses three credentials of an hour each, with two requests in the lifetime of each.
async fn renewed_twice(
    day: &Day,
    issuer: &Server,
    credential: Credential,
    of_turn: impl Fn(&Arrived, usize),
) {
    let cloud = cloud().await;
    let egress = egress_at(day, &cloud, credential);
    for turn in 1..=3 {
        for _ in 0..2 {
            scope(&egress).fetch(get("/servers")).await.unwrap();
            // Within its first three quarters it is not renewed.
            day.pass(HOUR / 3);
        }
        assert_eq!(issuer.lines().len(), turn);
        day.pass(HOUR / 3);
    }
    let arrived = cloud.arrived();
    assert_eq!(arrived.len(), 6);
    for (index, request) in arrived.iter().enumerate() {
        of_turn(request, index / 2 + 1);
    }
}

#[tokio::test]
async fn keys_of_a_role_are_renewed_and_sign_while_they_are_valid() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, CANARY).unwrap();
    let day = Day::begin();
    let sts = issuer(&day, keys).await;
    let credential = web_identity(&sts, Presented::File(file));
    renewed_twice(&day, &sts, credential, |request, turn| {
        let key = format!("Credential=ASIA{turn}/");
        assert!(request.header("authorization").contains(&key), "{turn}");
        let token = format!("session-token-{turn}");
        assert_eq!(request.header("x-amz-security-token"), token);
    })
    .await;
}

/// So that another instance profile is noticed.
#[tokio::test]
async fn keys_of_an_instance_are_used_for_an_hour_although_they_are_valid_for_six() {
    let day = Day::begin();
    let (clock, issued) = (day.clone(), AtomicUsize::new(0));
    let service = Server::start(move |request| {
        if !request.line.ends_with("/node-role") {
            return metadata(request);
        }
        let number = issued.fetch_add(1, Ordering::SeqCst) + 1;
        let end = jiff::Timestamp::try_from(clock.now() + HOUR * 6).unwrap();
        ok(&keys_json(&rfc3339(end)).replace("ISSUED", &number.to_string()))
    })
    .await;
    let cloud = cloud().await;
    let egress = egress_at(&day, &cloud, instance(&service));
    for number in [1, 2] {
        scope(&egress).fetch(get("/servers")).await.unwrap();
        let arrived = cloud.arrived();
        let authorization = arrived.last().unwrap().header("authorization");
        let key = format!("Credential=ASIA{number}/");
        assert!(authorization.contains(&key), "{authorization}");
        day.pass(Duration::from_secs(61 * 60));
    }
}

#[tokio::test]
async fn tokens_of_oauth2_are_renewed_and_sent_while_they_are_valid() {
    let day = Day::begin();
    let endpoint = issuer(&day, bearer).await;
    let grant = OAuth2Grant::TokenExchange {
        subject_token: Presented::Text(Secret::new(CANARY.to_owned())),
        subject_token_type: "urn:ietf:params:oauth:token-type:jwt".to_owned(),
    };
    let credential = oauth2(&endpoint, None, grant);
    renewed_twice(&day, &endpoint, credential, |request, turn| {
        let bearer = format!("Bearer bearer-token-{turn}");
        assert_eq!(request.header("authorization"), bearer);
    })
    .await;
}

#[tokio::test]
async fn a_token_that_has_ended_is_sent_to_nobody_when_no_other_is_issued() {
    let day = Day::begin();
    let first = AtomicUsize::new(1);
    let endpoint = Server::start(move |_| match first.swap(0, Ordering::SeqCst) {
        1 => ok(&bearer_json()),
        _ => answer(503, &[], ""),
    })
    .await;
    let credential = oauth2(
        &endpoint,
        Some(client(false)),
        OAuth2Grant::ClientCredentials,
    );
    let cloud = cloud().await;
    let egress = egress_at(&day, &cloud, credential);
    scope(&egress).fetch(get("/servers")).await.unwrap();
    day.pass(HOUR);
    let failed = error(scope(&egress).fetch(get("/servers")).await);
    assert!(failed.to_string().contains("answered 503"), "{failed}");
    assert_eq!((cloud.lines().len(), endpoint.lines().len()), (1, 2));
}

#[tokio::test]
async fn a_lifetime_may_be_written_as_a_text() {
    let day = Day::begin();
    let endpoint = issuer(&day, |end| bearer(end).replace("3600", "\"3600\"")).await;
    let grant = OAuth2Grant::ClientCredentials;
    let credential = oauth2(&endpoint, Some(client(true)), grant);
    renewed_twice(&day, &endpoint, credential, |request, turn| {
        let bearer = format!("Bearer bearer-token-{turn}");
        assert_eq!(request.header("authorization"), bearer);
    })
    .await;
}

/// So that a token that was revoked ends some time, whatever its issuer says of it.
#[tokio::test]
async fn a_token_is_used_for_a_day_at_most_and_one_without_a_lifetime_for_five_minutes() {
    let (day_long, minute) = (HOUR * 24, Duration::from_secs(60));
    let year = day_long * 365;
    let bearer = |seconds: Option<u64>| {
        let token =
            json!({ "access_token": ISSUED, "token_type": "bearer", "expires_in": seconds });
        ok(&token.to_string())
    };
    let end = rfc3339(jiff::Timestamp::now() + year);
    let token = json!({ "token": { "expires_at": end } }).to_string();
    let of_keystone = answer(201, &[("x-subject-token", ISSUED)], &token);
    for (reply, is_keystone, used_for) in [
        (bearer(Some(year.as_secs())), false, day_long),
        (bearer(None), false, 5 * minute),
        (of_keystone, true, day_long),
    ] {
        let endpoint = Server::start(move |_| reply.clone()).await;
        let method = KeystoneMethod::ApplicationCredential {
            id: "21dced0fd20347869b93710d2b98aae0".to_owned(),
            secret: Secret::new(CANARY.to_owned()),
        };
        let grant = OAuth2Grant::ClientCredentials;
        let credential = match is_keystone {
            true => keystone(&endpoint, method),
            false => oauth2(&endpoint, Some(client(true)), grant),
        };
        let (day, cloud) = (Day::begin(), cloud().await);
        let egress = egress_at(&day, &cloud, credential);
        for exchanges in [1, 1, 2] {
            scope(&egress).fetch(get("/servers")).await.unwrap();
            assert_eq!(endpoint.lines().len(), exchanges, "{used_for:?}");
            day.pass(used_for / 2);
        }
    }
}

#[tokio::test]
async fn a_token_that_was_refused_is_not_sent_again_once_there_is_another() {
    let statuses = after_revocation(false, |_| answer(401, &[], "")).await;
    assert_eq!(statuses, [Some(200), Some(401), Some(200), Some(200)]);
    // AWS says it with a code.
    let expired = |_: &str| answer(400, &[], "<Error><Code>ExpiredToken</Code></Error>");
    let statuses = after_revocation(true, expired).await;
    assert_eq!(statuses, [Some(200), Some(400), Some(200), Some(200)]);
}

#[tokio::test]
async fn a_refusal_that_is_withheld_from_the_guest_renews_the_token_too() {
    let echo = after_revocation(false, |token| answer(401, &[], token)).await;
    let packed = |_: &str| answer(401, &[("content-encoding", "gzip")], "");
    let packed = after_revocation(false, packed).await;
    for statuses in [echo, packed] {
        assert_eq!(statuses, [Some(200), None, Some(200), Some(200)]);
    }
}

/// The statuses of four requests, one a minute; `None`: the answer is withheld. The cloud revokes the first token after its
/// first use, and answers it with `refusal` from then on.
async fn after_revocation(is_aws: bool, refusal: fn(&str) -> Reply) -> Vec<Option<u16>> {
    let day = Day::begin();
    let issued: fn(&str) -> String = match is_aws {
        true => keys,
        false => bearer,
    };
    let endpoint = issuer(&day, issued).await;
    let token = Presented::Text(Secret::new(CANARY.to_owned()));
    let grant = OAuth2Grant::ClientCredentials;
    let credential = match is_aws {
        true => web_identity(&endpoint, token),
        false => oauth2(&endpoint, Some(client(true)), grant),
    };
    let revoked = Arc::new(AtomicUsize::new(0));
    let cloud = Server::start({
        let revoked = revoked.clone();
        move |request| {
            let headers = ["authorization", "x-amz-security-token"];
            let shown = headers.map(|name| request.header(name)).concat();
            let former = format!("-token-{}", revoked.load(Ordering::SeqCst));
            match shown.ends_with(&former) {
                true => refusal(&shown),
                false => ok("{}"),
            }
        }
    })
    .await;
    let egress = egress_at(&day, &cloud, credential);
    let mut statuses = Vec::new();
    for step in 0..4 {
        revoked.store(step.min(1), Ordering::SeqCst);
        let answer = scope(&egress).fetch(get("/servers")).await;
        statuses.push(answer.ok().map(|answer| answer.status));
        day.pass(Duration::from_secs(60));
    }
    assert_eq!(endpoint.lines().len(), 2);
    statuses
}

#[tokio::test]
async fn a_request_whose_token_was_refused_waits_for_another_without_a_slot() {
    let (refusal, token) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let (day, issued, held) = (Day::begin(), AtomicUsize::new(0), token.clone());
    let endpoint = Server::start(move |_| {
        let number = issued.fetch_add(1, Ordering::SeqCst) + 1;
        let issued = ok(&bearer("").replace("ISSUED", &number.to_string()));
        match number {
            1 => issued,
            _ => Reply::Held(held.clone(), Box::new(issued)),
        }
    })
    .await;
    let held = refusal.clone();
    let cloud = Server::start(move |request| match request.line.as_str() {
        "GET /servers/1" => Reply::Held(held.clone(), Box::new(answer(401, &[], ""))),
        _ => ok("{}"),
    })
    .await;
    let manifest = json!({
        "contract": "0.2.0", "name": "test", "version": "1",
        "targets": [
            { "name": "api", "endpoint": "https://cloud.test", "auth": "oauth2", "rules": rules() },
            { "name": "open", "endpoint": "https://cloud.test", "auth": "none", "rules": rules() },
        ],
    });
    let manifest = Manifest::parse(manifest.to_string().as_bytes()).unwrap();
    let mut grants = manifest.as_grants();
    for target in &mut grants.targets {
        target.endpoint = format!("http://{}", cloud.address).parse().unwrap();
    }
    let grant = OAuth2Grant::ClientCredentials;
    grants.targets[0].credential = oauth2(&endpoint, Some(client(true)), grant);
    let granted = manifest.narrow(grants).unwrap();
    let limits = EgressLimits {
        in_flight: 1,
        ..EgressLimits::standard()
    };
    let names = Arc::new(SystemLookup);
    let egress = Egress::with_clock("test", &granted, limits, names, day.clock());
    let egress = Arc::new(egress.unwrap());
    scope(&egress).fetch(get("/servers")).await.unwrap();
    // A token that is refused is replaced unless it is new.
    day.pass(Duration::from_secs(60));

    let first = scope(&egress);
    let first = tokio::spawn(async move { first.fetch(get("/servers/1")).await });
    crate::world::eventually("the slot is used", || cloud.lines().len() == 2).await;
    let second = scope(&egress);
    let mut second = Box::pin(second.fetch(get("/servers/2")));
    assert!(futures::poll!(second.as_mut()).is_pending());
    refusal.add_permits(1);
    assert_eq!(first.await.unwrap().unwrap().status, 401);

    let open = async {
        let request = FetchRequest {
            target: "open".to_owned(),
            ..get("/servers")
        };
        let answer = scope(&egress).fetch(request).await;
        token.add_permits(1);
        answer
    };
    let (second, open) = tokio::join!(second, open);
    assert_eq!((open.unwrap().status, second.unwrap().status), (200, 200));
    let arrived = cloud.arrived();
    let authorization = arrived.last().unwrap().header("authorization");
    assert_eq!(authorization, "Bearer bearer-token-2");
}
