//! A rate-limit hold of a target applies to every call of the provider.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ccm_fixtures::http_server::{Reply, Server, answer, ok};
use ccm_host::egress::{Egress, EgressLimits, FetchError, FetchRequest};
use ccm_host::grant::RequestBudget;
use futures::future::join_all;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use crate::world::{
    SOON, counted, egress, error, eventually, fresh, generous, get, granted, limited, scope,
    scraped,
};

#[tokio::test]
async fn a_target_that_asked_for_patience_is_left_alone_by_every_call() {
    for (status, headers) in [
        (429, vec![("retry-after", "30")]),
        (503, vec![("retry-after", "30")]),
        (
            200,
            vec![("ratelimit-remaining", "0"), ("ratelimit-reset", "30")],
        ),
    ] {
        let server = Server::start(move |_| answer(status, &headers, "")).await;
        let egress = egress(&format!("http://{}", server.address));
        assert_eq!(
            scope(&egress).fetch(get("/servers")).await.unwrap().status,
            status
        );
        for other in [scope(&egress), fresh(&egress)] {
            match error(other.fetch(get("/servers")).await) {
                FetchError::Throttled(ms) => assert!((1..=30_000).contains(&ms), "{ms}"),
                failed => panic!("{failed}"),
            }
            assert!(!other.complete());
        }
        assert_eq!(server.lines().len(), 1);
    }
}

#[tokio::test]
async fn a_short_hold_is_waited_out() {
    let busy = Arc::new(AtomicBool::new(true));
    let server = Server::start(move |_| {
        if busy.swap(false, Ordering::SeqCst) {
            answer(429, &[("retry-after", "1")], "")
        } else {
            ok("{}")
        }
    })
    .await;
    let egress = egress(&format!("http://{}", server.address));
    assert_eq!(
        scope(&egress).fetch(get("/servers")).await.unwrap().status,
        429
    );
    assert_eq!(
        scope(&egress).fetch(get("/servers")).await.unwrap().status,
        200
    );
}

#[tokio::test]
async fn a_hold_is_one_targets_own() {
    let server = Server::start(|_| answer(429, &[("retry-after", "30")], "")).await;
    let other = Server::start(|_| ok("{}")).await;
    let (first, second) = (
        format!("http://{}", server.address),
        format!("http://{}", other.address),
    );
    let granted = granted(&[("api", &first), ("other", &second)], |_| ());
    let egress = Arc::new(Egress::new("test", &granted, EgressLimits::standard()).unwrap());
    let scope = scope(&egress);
    scope.fetch(get("/servers")).await.unwrap();
    let request = FetchRequest {
        target: "other".to_owned(),
        ..get("/servers")
    };
    assert_eq!(scope.fetch(request).await.unwrap().status, 200);
    assert!(matches!(
        error(scope.fetch(get("/servers")).await),
        FetchError::Throttled(_)
    ));
}

#[tokio::test]
async fn requests_that_wait_for_one_target_keep_none_to_another_waiting() {
    let hour = Duration::from_secs(3600);
    let narrow = RequestBudget {
        requests: 16.try_into().unwrap(),
        per: 16 * hour,
    };
    // A hold of half an hour after the first request, or an hour for each request after the sixteenth.
    for (status, budget, sent) in [(429, RequestBudget::default(), 1), (200, narrow, 16)] {
        let server = Server::start(move |_| answer(status, &[("retry-after", "1800")], "")).await;
        let other = Server::start(|_| ok("{}")).await;
        let endpoints = [&server, &other].map(|server| format!("http://{}", server.address));
        let granted = granted(
            &[("api", &endpoints[0]), ("other", &endpoints[1])],
            |grants| grants.targets[0].requests = budget,
        );
        let limits = EgressLimits {
            longest_wait: 16 * hour,
            ..EgressLimits::standard()
        };
        let egress = Arc::new(Egress::new("test", &granted, limits).unwrap());
        let call = || egress.scope(generous(), Instant::now() + 24 * hour, false);
        for _ in 0..sent {
            call().fetch(get("/servers")).await.unwrap();
        }
        let calls = [call(), call()];
        let waiting = calls
            .iter()
            .map(|call| call.fetch_all(vec![get("/servers"); 8]));
        let request = FetchRequest {
            target: "other".to_owned(),
            ..get("/servers")
        };
        tokio::select! {
            // All of them wait before the other request begins.
            biased;
            ends = join_all(waiting) => panic!("they were not held back: {ends:?}"),
            answer = timeout(SOON, calls[0].fetch(request)) => {
                assert_eq!(answer.unwrap().unwrap().status, 200);
            }
        }
        assert_eq!((server.requests(), other.requests()), (sent, 1), "{status}");
    }
}

#[tokio::test]
async fn requests_that_wait_for_a_slot_are_held_by_an_answer_that_comes_meanwhile() {
    let places = Arc::new(Semaphore::new(0));
    let held = places.clone();
    let refusal = answer(429, &[("retry-after", "30")], "");
    let server = Server::start(move |_| Reply::Held(held.clone(), Box::new(refusal.clone()))).await;
    let limits = EgressLimits {
        in_flight_per_call: 16,
        in_flight: 8,
        ..EgressLimits::standard()
    };
    let call = scope(&limited(&format!("http://{}", server.address), limits));
    let release = async {
        eventually("all slots are used", || server.requests() == 8).await;
        places.add_permits(16);
    };
    let (ends, ()) = tokio::join!(call.fetch_all(vec![get("/servers"); 16]), release);
    let throttled = ends
        .iter()
        .filter(|end| matches!(end, Err(FetchError::Throttled(_))));
    assert_eq!((server.requests(), throttled.count()), (8, 8), "{ends:?}");
}

#[tokio::test]
async fn what_a_cloud_says_of_its_own_rate_limit_is_one_series_however_it_lies() {
    let reported = Arc::new(std::sync::Mutex::new(vec![
        ("-7", "-7"),
        ("3513", "12"),
        ("99999999999999999999", "99999999999999999999"),
        ("3512\",target=\"x", "3600"),
        ("3512", "3600"),
    ]));
    let left = reported.clone();
    let server = Server::start(move |_| {
        let (remaining, limit) = left.lock().unwrap().pop().unwrap_or_default();
        let headers = [
            ("RateLimit-Remaining", remaining),
            ("RateLimit-Limit", limit),
        ];
        answer(200, &headers, "{}")
    })
    .await;
    let (egress, registry) = counted(egress(&format!("http://{}", server.address)));
    let series = |text: &str| {
        let is_it = |line: &&str| line.starts_with("ccm_provider_cloud_requests_remaining{");
        text.lines()
            .filter(is_it)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(series(&scraped(&registry)), Vec::<String>::new());
    while !reported.lock().unwrap().is_empty() {
        scope(&egress).fetch(get("/servers")).await.unwrap();
        let expected =
            "ccm_provider_cloud_requests_remaining{provider=\"test\",target=\"api\"} 3512";
        assert_eq!(series(&scraped(&registry)), [expected]);
    }
    assert_eq!(server.lines().len(), 5);
}
