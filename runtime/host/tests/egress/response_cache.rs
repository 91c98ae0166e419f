//! Cached answers: one request for a burst, dropped by every change, not used by fresh calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ccm_core::safety::permit::Permit;
use ccm_fixtures::http_server::{Reply, Server, answer, ok};
use ccm_host::egress::{Egress, EgressLimits, now};
use ccm_host::manifest::Contract;
use http::Method;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::world::{
    SOON, counted, counts, egress, error, eventually, fresh, generous, get, get_kept, granted,
    limited, plain, post_form, scope,
};

#[tokio::test]
async fn a_burst_of_equal_requests_is_one_request() {
    let server =
        Server::start(|_| Reply::After(Duration::from_millis(100), Box::new(ok("{}")))).await;
    let egress = egress(&format!("http://{}", server.address));
    let calls = (0..20).map(|_| {
        let scope = scope(&egress);
        async move {
            (
                scope.fetch(get_kept("/servers")).await.unwrap().body,
                scope.complete(),
            )
        }
    });
    let answers = futures::future::join_all(calls).await;
    assert!(answers.iter().all(|(body, _)| body.as_ref() == b"{}"));
    assert_eq!(server.lines(), ["GET /servers"]);
    assert_eq!(
        server.arrived()[0].header("cache-control"),
        "",
        "the host has answered this itself"
    );
    // Only the call that sent the request has a complete answer of its own.
    assert_eq!(answers.iter().filter(|(_, complete)| *complete).count(), 1);
}

/// Clouds that read by `POST`: only requests with equal bodies share an answer.
#[tokio::test]
async fn a_read_by_post_is_kept_by_its_body() {
    let server = Server::start(|request| ok(&String::from_utf8_lossy(&request.body))).await;
    let egress = egress(&format!("http://{}", server.address));
    let kept = |form: &str| {
        let mut request = post_form(form);
        let age = ("cache-control".to_owned(), "max-age=600".to_owned());
        request.headers.push(age);
        request
    };
    let scope = scope(&egress);
    for (form, sent) in [
        ("Action=List&Id=1", 1),
        ("Action=List&Id=1", 1),
        ("Action=List&Id=2", 2),
        ("Action=List&Id=1", 2),
        ("Action=List", 3),
    ] {
        let answer = scope.fetch(kept(form)).await.unwrap();
        assert_eq!(answer.body.as_ref(), form.as_bytes());
        assert_eq!(server.lines().len(), sent, "{form}");
    }
    // A read without `max-age` is sent, and drops no cached answer.
    scope.fetch(post_form("Action=List&Id=1")).await.unwrap();
    scope.fetch(kept("Action=List&Id=1")).await.unwrap();
    assert_eq!(server.lines().len(), 4);
    // A change is never cached, and drops all cached answers.
    scope.fetch(kept("Action=Create")).await.unwrap();
    scope.fetch(kept("Action=Create")).await.unwrap();
    assert_eq!(server.lines().len(), 6);
    scope.fetch(kept("Action=List&Id=1")).await.unwrap();
    assert_eq!(server.lines().len(), 7);
    // A fresh call uses no cached answer.
    fresh(&egress)
        .fetch(kept("Action=List&Id=1"))
        .await
        .unwrap();
    assert_eq!(server.lines().len(), 8);
}

#[tokio::test]
async fn contract_0_1_keeps_no_read_by_post_and_drops_what_was_kept() {
    for (contract, sent) in [(Contract::V0_1, 4), (Contract::V0_2, 2)] {
        let server = Server::start(|_| ok("{}")).await;
        let granted = granted(&[("api", &format!("http://{}", server.address))], |_| ());
        let egress = Egress::new("test", &granted, EgressLimits::standard()).unwrap();
        let egress = egress.of_module("sha256:77".to_owned(), "1.2.3", contract);
        let scope = scope(&Arc::new(egress));
        for _ in 0..2 {
            let mut read = post_form("Action=List");
            read.headers.extend(get_kept("/servers").headers);
            scope.fetch(get_kept("/servers")).await.unwrap();
            scope.fetch(read).await.unwrap();
        }
        assert_eq!(server.lines().len(), sent, "{contract:?}");
    }
}

#[tokio::test]
async fn what_did_not_ask_for_it_is_sent() {
    let server = Server::start(|_| ok("{}")).await;
    let egress = egress(&format!("http://{}", server.address));
    let scope = scope(&egress);
    scope.fetch(get_kept("/servers")).await.unwrap();
    for value in [
        "max-age=0",
        "no-cache",
        "max-age=10, no-store",
        "max-age=",
        "max-age=-1",
    ] {
        let before = server.lines().len();
        let mut request = get_kept("/servers");
        request.headers[0].1 = value.to_owned();
        scope.fetch(request).await.unwrap();
        assert_eq!(server.lines().len(), before + 1, "{value}");
    }
    let before = server.lines().len();
    scope.fetch(get("/servers")).await.unwrap();
    scope.fetch(get_kept("/servers")).await.unwrap();
    assert_eq!(
        server.lines().len(),
        before + 1,
        "the kept answer is still there"
    );
}

#[tokio::test]
async fn whatever_may_change_something_drops_what_was_kept() {
    let server = Server::start(|_| ok("{}")).await;
    let egress = egress(&format!("http://{}", server.address));
    for change in [
        plain(Method::DELETE, "/load_balancers/1"),
        plain(Method::POST, "/servers"),
        post_form("Action=Create"),
        plain(Method::HEAD, "/servers"),
        // The line of this request is a change.
        plain(Method::GET, "/load_balancers/1"),
    ] {
        let scope = scope(&egress);
        scope.fetch(get_kept("/servers")).await.unwrap();
        let before = server.lines().len();
        scope.fetch(get_kept("/servers")).await.unwrap();
        assert_eq!(server.lines().len(), before, "not kept");
        scope.fetch(change).await.unwrap();
        scope.fetch(get_kept("/servers")).await.unwrap();
        assert_eq!(server.lines().len(), before + 2, "kept over a change");
        // Lets the next round begin without a cached answer, too.
        let _ = scope.fetch(plain(Method::HEAD, "/servers")).await;
    }
}

#[tokio::test]
async fn what_is_read_while_a_change_is_under_way_is_not_kept() {
    let places = Arc::new(Semaphore::new(0));
    let held = places.clone();
    let server = Server::start(move |request| match request.line.as_str() {
        "POST /servers" => Reply::Held(held.clone(), Box::new(ok("{}"))),
        _ => ok("{}"),
    })
    .await;
    let egress = egress(&format!("http://{}", server.address));
    let changing = scope(&egress);
    let change = tokio::spawn(async move { changing.fetch(plain(Method::POST, "/servers")).await });
    eventually("the change arrives", || server.requests() == 1).await;
    scope(&egress).fetch(get_kept("/servers")).await.unwrap();
    places.add_permits(1);
    change.await.unwrap().unwrap();
    scope(&egress).fetch(get_kept("/servers")).await.unwrap();
    assert_eq!(
        server.lines(),
        ["POST /servers", "GET /servers", "GET /servers"]
    );
}

#[tokio::test]
async fn a_get_that_changes_something_is_not_kept() {
    let server = Server::start(|_| ok("{}")).await;
    let egress = egress(&format!("http://{}", server.address));
    for _ in 0..2 {
        scope(&egress)
            .fetch(get_kept("/load_balancers/1"))
            .await
            .unwrap();
    }
    assert_eq!(server.lines().len(), 2);
}

#[tokio::test]
async fn a_fresh_call_neither_takes_nor_leaves_a_kept_answer() {
    let server = Server::start(|_| ok("{}")).await;
    let egress = egress(&format!("http://{}", server.address));
    fresh(&egress).fetch(get_kept("/servers")).await.unwrap();
    assert_eq!(server.arrived()[0].header("cache-control"), "no-cache");
    scope(&egress).fetch(get_kept("/servers")).await.unwrap();
    assert_eq!(server.lines().len(), 2, "a fresh call left its answer");
    let confirming = fresh(&egress);
    confirming.fetch(get_kept("/servers")).await.unwrap();
    assert_eq!(server.lines().len(), 3, "a fresh call took a kept answer");
    assert!(confirming.complete());
}

#[tokio::test]
async fn only_whole_successes_are_kept() {
    for status in [201, 204, 301, 404, 429, 500] {
        let server = Server::start(move |_| answer(status, &[("retry-after", "0")], "")).await;
        let egress = egress(&format!("http://{}", server.address));
        for _ in 0..2 {
            assert_eq!(
                scope(&egress)
                    .fetch(get_kept("/servers"))
                    .await
                    .unwrap()
                    .status,
                status
            );
        }
        assert_eq!(server.lines().len(), 2, "{status}");
    }
}

#[tokio::test]
async fn followers_of_a_cancelled_leader_get_their_answer() {
    let server =
        Server::start(|_| Reply::After(Duration::from_millis(200), Box::new(ok("{}")))).await;
    let egress = egress(&format!("http://{}", server.address));
    let fetch = || {
        let scope = scope(&egress);
        tokio::spawn(async move {
            scope
                .fetch(get_kept("/servers"))
                .await
                .map(|answer| answer.status)
        })
    };
    let leader = fetch();
    eventually("the leader's request arrives", || server.lines().len() == 1).await;
    let followers = [fetch(), fetch(), fetch()];
    // The followers join before the leader is dropped.
    tokio::task::yield_now().await;
    leader.abort();
    for follower in followers {
        assert_eq!(follower.await.unwrap(), Ok(200));
    }
    assert_eq!(server.lines().len(), 2);
}

#[tokio::test]
async fn e21_what_a_cloud_says_of_dates_and_ages_decides_nothing() {
    for headers in [
        [("date", "Thu, 01 Jan 1970 00:00:00 GMT"), ("age", "0")],
        [
            ("date", "Fri, 31 Dec 2100 23:59:59 GMT"),
            ("age", "99999999999"),
        ],
        [("expires", "0"), ("cache-control", "no-store, max-age=0")],
        [
            ("pragma", "no-cache"),
            ("warning", "110 - \"Response is Stale\""),
        ],
        [
            ("cache-control", "immutable, max-age=31536000"),
            ("vary", "*"),
        ],
    ] {
        let server = Server::start(move |_| answer(200, &headers, "{}")).await;
        let egress = egress(&format!("http://{}", server.address));
        for _ in 0..2 {
            scope(&egress).fetch(get_kept("/servers")).await.unwrap();
        }
        assert_eq!(
            server.lines().len(),
            1,
            "{headers:?}: kept as the guest asked"
        );
        let confirming = fresh(&egress);
        confirming.fetch(get_kept("/servers")).await.unwrap();
        assert_eq!(server.lines().len(), 2, "{headers:?}: asked all the same");
        assert!(confirming.complete(), "{headers:?}");
    }
}

#[tokio::test]
async fn what_failed_for_several_is_not_counted_as_kept() {
    let broken = Reply::Close(Vec::new());
    let pause = Duration::from_millis(200);
    for (reply, why) in [
        (Reply::After(pause, Box::new(broken)), "unavailable"),
        (Reply::Silence, "timed-out"),
    ] {
        let server = Server::start(move |_| reply.clone()).await;
        let limits = EgressLimits {
            first_byte: Duration::from_secs(1),
            ..EgressLimits::standard()
        };
        let (egress, registry) = counted(limited(&format!("http://{}", server.address), limits));
        let calls = (0..4).map(|_| {
            let scope = scope(&egress);
            async move { scope.fetch(get_kept("/servers")).await }
        });
        let ends = futures::future::join_all(calls).await;
        assert!(ends.iter().all(Result::is_err), "{ends:?}");
        assert_eq!(server.lines().len(), 1, "they share the error");
        assert_eq!(counts(&registry), [format!("api GET {why} 4")]);
    }
}

#[tokio::test]
async fn a_leader_whose_own_time_is_over_is_not_the_end_of_its_followers() {
    let short = Duration::from_secs(1);
    for ends_with_its_permit in [false, true] {
        let is_first = AtomicBool::new(true);
        let server = Server::start(move |_| match is_first.swap(false, Ordering::SeqCst) {
            true => Reply::Silence,
            false => ok("{}"),
        })
        .await;
        let egress = egress(&format!("http://{}", server.address));
        let (permit, time) = match ends_with_its_permit {
            true => (Arc::new(Permit::read_only(now().after(short))), SOON),
            false => (generous(), short),
        };
        let leader = egress.scope(permit, Instant::now() + time, false);
        let follower = scope(&egress);
        let [led, followed] = [&leader, &follower].map(|scope| scope.fetch(get_kept("/servers")));
        let (led, followed) = futures::future::join(led, followed).await;
        assert_eq!(error(led).reason(), "timed-out");
        assert_eq!(followed.unwrap().status, 200);
        assert_eq!(server.lines().len(), 2);
    }
}
