//! Number of requests of one call, in total and at a time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ccm_core::safety::permit::Mode;
use ccm_fixtures::audit::RecordingAudit;
use ccm_fixtures::http_server::{Reply, Server, ok};
use ccm_host::egress::{CallScope, Egress, EgressLimits, FetchError};
use ccm_host::grant::RequestBudget;
use http::Method;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::world::{
    SOON, counted, counts, egress, error, eventually, generous, get, get_kept, granted, limited,
    permit, plain, scope,
};

/// A server that holds each request until there is a place for its answer.
async fn holding() -> (Arc<Semaphore>, Server) {
    let places = Arc::new(Semaphore::new(0));
    let server = Server::start({
        let places = places.clone();
        move |_| Reply::Held(places.clone(), Box::new(ok("{}")))
    })
    .await;
    (places, server)
}

#[tokio::test]
async fn at_most_eight_requests_of_a_call_and_sixteen_of_a_provider_are_on_the_wire() {
    let (places, server) = holding().await;
    let egress = egress(&format!("http://{}", server.address));
    let start = || {
        let scope = scope(&egress);
        let requests = (0..32)
            .map(|number| get(&format!("/servers/{number}")))
            .collect();
        tokio::spawn(async move { scope.fetch_all(requests).await })
    };
    let mut calls = vec![start()];
    for most in [8, 16] {
        eventually("every slot is used", || server.lines().len() == most).await;
        // Gives a surplus request time to arrive; its absence cannot be waited for.
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(server.lines().len(), most);
        calls.extend([start(), start()]);
    }
    places.add_permits(1000);
    for call in calls {
        assert!(call.await.unwrap().iter().all(Result::is_ok));
    }
    assert_eq!((server.lines().len(), server.connections()), (5 * 32, 16));
}

#[tokio::test]
async fn of_the_requests_on_the_wire_four_are_left_to_calls_about_nodes() {
    let (places, server) = holding().await;
    let egress = egress(&format!("http://{}", server.address));
    let start = |scope: CallScope, request| {
        tokio::spawn(async move { scope.fetch_all(vec![request; 8]).await })
    };
    let mut calls: Vec<_> = (0..5)
        .map(|_| egress.scope_beside_nodes(generous(), Instant::now() + SOON, false))
        .map(|scope| start(scope, get("/servers/7")))
        .collect();
    eventually("the narrower share is used up", || server.requests() == 12).await;
    calls.push(start(scope(&egress), get("/servers")));
    eventually("every slot is used", || server.requests() == 16).await;
    assert_eq!(server.lines()[12..], ["GET /servers"; 4]);
    places.add_permits(1000);
    for call in calls {
        assert!(call.await.unwrap().iter().all(Result::is_ok));
    }
}

#[tokio::test]
async fn answers_come_in_the_order_of_the_requests() {
    let server = Server::start(|request| {
        let number: u64 = request.line.rsplit('/').next().unwrap().parse().unwrap();
        Reply::After(
            Duration::from_millis((7 - number % 8) * 10),
            Box::new(ok(&number.to_string())),
        )
    })
    .await;
    let egress = egress(&format!("http://{}", server.address));
    let answers = scope(&egress)
        .fetch_all(
            (0..24)
                .map(|number| get(&format!("/servers/{number}")))
                .collect(),
        )
        .await;
    for (number, answer) in answers.into_iter().enumerate() {
        assert_eq!(answer.unwrap().body, number.to_string());
    }
}

#[tokio::test]
async fn more_than_64_at_once_are_refused_whole() {
    let server = Server::start(|_| ok("{}")).await;
    let egress = egress(&format!("http://{}", server.address));
    let scope = scope(&egress);
    let answers = scope.fetch_all(vec![get("/servers"); 65]).await;
    assert_eq!(answers.len(), 65);
    assert!(
        answers
            .iter()
            .all(|answer| matches!(answer, Err(FetchError::Invalid(_))))
    );
    assert_eq!(server.connections(), 0);
    assert!(!scope.complete());
    assert!(scope.fetch_all(Vec::new()).await.is_empty());
}

#[tokio::test]
async fn a_call_that_asks_for_too_much_is_cut_off_and_not_complete() {
    let server = Server::start(|_| ok("{}")).await;
    let limits = EgressLimits {
        requests_per_call: 3,
        ..EgressLimits::standard()
    };
    let egress = limited(&format!("http://{}", server.address), limits);
    let scope = scope(&egress);
    for _ in 0..3 {
        scope.fetch(get("/servers")).await.unwrap();
    }
    assert!(scope.complete());
    for _ in 0..100 {
        assert!(matches!(
            error(scope.fetch(get("/servers")).await),
            FetchError::Denied(_)
        ));
    }
    assert_eq!(
        (
            server.lines().len(),
            scope.exchanges().len(),
            scope.complete()
        ),
        (3, 3, false)
    );
}

#[tokio::test]
async fn e24_a_cloud_that_becomes_slower_is_asked_no_more_at_a_time_and_given_up_in_time() {
    let pause = Arc::new(Mutex::new(Duration::ZERO));
    let server = Server::start({
        let pause = pause.clone();
        move |_| Reply::After(*pause.lock().unwrap(), Box::new(ok("{}")))
    })
    .await;
    let limits = EgressLimits {
        first_byte: Duration::from_secs(2),
        ..EgressLimits::standard()
    };
    let egress = limited(&format!("http://{}", server.address), limits);
    let ask = async |count| scope(&egress).fetch_all(vec![get("/servers"); count]).await;
    for milliseconds in [0, 5, 20, 80, 0] {
        *pause.lock().unwrap() = Duration::from_millis(milliseconds);
        assert!(ask(32).await.iter().all(Result::is_ok), "{milliseconds} ms");
        // Concurrent requests have a connection each, which later ones reuse.
        assert!(server.connections() <= 8, "{milliseconds} ms");
    }
    let before = server.lines().len();
    *pause.lock().unwrap() = Duration::from_secs(600);
    let ends = ask(8).await;
    assert!(
        ends.into_iter()
            .all(|end| error(end).reason() == "timed-out")
    );
    assert_eq!(server.lines().len(), before + 8, "none is sent again");
    *pause.lock().unwrap() = Duration::ZERO;
    assert!(ask(32).await.iter().all(Result::is_ok), "it is well again");
}

/// An egress whose target has a budget of so many requests in so many seconds.
fn budgeted(server: &Server, requests: u32, seconds: u64) -> Arc<Egress> {
    let endpoint = format!("http://{}", server.address);
    let granted = granted(&[("api", &endpoint)], |grants| {
        grants.targets[0].requests = RequestBudget {
            requests: requests.try_into().unwrap(),
            per: Duration::from_secs(seconds),
        };
    });
    Arc::new(Egress::new("test", &granted, EgressLimits::standard()).unwrap())
}

#[tokio::test]
async fn d25_nothing_is_sent_beyond_the_budget_and_the_guest_hears_for_how_long() {
    let server = Server::start(|_| ok("{}")).await;
    let (egress, registry) = counted(budgeted(&server, 3, 3600));
    let audit = Arc::<RecordingAudit>::default();
    let call = || {
        let permit = permit(Mode::Enforce, 10, &audit);
        egress.scope(permit, Instant::now() + SOON, false)
    };
    call().fetch(get_kept("/servers")).await.unwrap();
    for _ in 0..2 {
        call().fetch(get("/servers")).await.unwrap();
    }
    // A cached answer costs nothing.
    call().fetch(get_kept("/servers")).await.unwrap();
    let late = call();
    for request in [get("/servers/1"), plain(Method::POST, "/servers")] {
        match error(late.fetch(request).await) {
            FetchError::Throttled(ms) => assert!((1_000_000..=1_200_000).contains(&ms), "{ms}"),
            failed => panic!("{failed}"),
        }
    }
    assert!(!late.complete());
    // The permit was not even asked.
    assert_eq!(audit.lines(), Vec::<String>::new());
    assert_eq!((server.lines().len(), server.connections()), (3, 1));
    assert_eq!(
        counts(&registry),
        [
            "api GET 200 3",
            "api GET kept 1",
            "api GET throttled 1",
            "api POST throttled 1",
        ]
    );
}

#[tokio::test]
async fn what_was_not_sent_is_not_taken_from_the_budget() {
    let server = Server::start(|_| ok("{}")).await;
    let egress = budgeted(&server, 3, 3600);
    let audit = Arc::<RecordingAudit>::default();
    let planned = egress.scope(permit(Mode::Plan, 10, &audit), Instant::now() + SOON, false);
    for _ in 0..10 {
        let refused = planned.fetch(plain(Method::POST, "/servers")).await;
        assert!(matches!(error(refused), FetchError::Denied(_)));
    }
    for _ in 0..3 {
        scope(&egress).fetch(get("/servers")).await.unwrap();
    }
    assert_eq!(server.lines().len(), 3);
}

#[tokio::test]
async fn a_short_wait_for_the_budget_is_waited_out() {
    let server = Server::start(|_| ok("{}")).await;
    let egress = budgeted(&server, 1, 1);
    for number in 1..=3 {
        scope(&egress).fetch(get("/servers")).await.unwrap();
        assert_eq!(server.lines().len(), number);
    }
}
