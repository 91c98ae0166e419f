#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use super::*;
use bytes::Bytes;

const AGE: Duration = Duration::from_secs(10);

/// A budget that is large enough for every answer here.
fn room() -> Arc<Budget> {
    Budget::of_provider(usize::MAX)
}

fn key(target: usize, path: &str) -> Key {
    Key::new(target, &Method::GET, path, &HeaderMap::new(), None)
}

fn answer(status: u16, bytes: usize) -> Shared {
    Ok(FetchResponse {
        status,
        headers: Vec::new(),
        body: Bytes::from(vec![b'x'; bytes]).into(),
    })
}

fn lead(kept: &Arc<ResponseCache>, key: &Key, now: Instant) -> Lead {
    match kept.turn(key, AGE, now, &room()) {
        Lookup::Lead(lead) => lead,
        Lookup::Answer(_) | Lookup::Follow(_) => panic!("expected to lead"),
    }
}

/// Name of the caller's next step; a lead that begins here is dropped again.
fn step_name(kept: &Arc<ResponseCache>, key: &Key, age: Duration, now: Instant) -> &'static str {
    match kept.turn(key, age, now, &room()) {
        Lookup::Answer(_) => "answer",
        Lookup::Follow(_) => "follow",
        Lookup::Lead(_) => "lead",
    }
}

#[test]
fn only_status_200_is_kept_and_only_as_long_as_asked() {
    let kept = ResponseCache::new(1 << 20);
    let now = Instant::now();
    for (status, expected) in [
        (200, "answer"),
        (201, "lead"),
        (204, "lead"),
        (206, "lead"),
        (301, "lead"),
        (404, "lead"),
        (500, "lead"),
    ] {
        let key = key(0, &format!("/{status}"));
        lead(&kept, &key, now).done(&answer(status, 1));
        assert_eq!(step_name(&kept, &key, AGE, now + AGE), expected, "{status}");
        assert_eq!(
            step_name(&kept, &key, AGE, now + AGE + Duration::from_millis(1)),
            "lead",
            "{status}"
        );
    }
    let old = key(0, "/old");
    lead(&kept, &old, now).done(&answer(200, 1));
    assert_eq!(
        step_name(
            &kept,
            &old,
            Duration::MAX,
            now + OLDEST + Duration::from_secs(1)
        ),
        "lead"
    );
}

#[test]
fn a_request_that_began_too_long_ago_is_not_followed() {
    let kept = ResponseCache::new(1 << 20);
    let (key, now) = (key(0, "/a"), Instant::now());
    let first = lead(&kept, &key, now);
    assert_eq!(step_name(&kept, &key, AGE, now + AGE), "follow");
    let later = now + AGE + Duration::from_millis(1);
    let second = lead(&kept, &key, later);
    // The end of the first one leaves the second one in its place.
    drop(first);
    assert_eq!(step_name(&kept, &key, AGE, later), "follow");
    drop(second);
    assert_eq!(step_name(&kept, &key, AGE, later), "lead");
}

#[test]
fn requests_differ_by_target_path_and_headers() {
    let kept = ResponseCache::new(1 << 20);
    let now = Instant::now();
    lead(&kept, &key(0, "/a?x=1"), now).done(&answer(200, 1));
    let none = HeaderMap::new();
    let accept = HeaderMap::from_iter([(
        http::header::ACCEPT,
        http::HeaderValue::from_static("text/plain"),
    )]);
    for (other, expected) in [
        (key(0, "/a?x=1"), "answer"),
        (key(1, "/a?x=1"), "lead"),
        (key(0, "/a?x=2"), "lead"),
        (key(0, "/a"), "lead"),
        (Key::new(0, &Method::GET, "/a?x=1", &accept, None), "lead"),
        (Key::new(0, &Method::POST, "/a?x=1", &none, None), "lead"),
        (
            Key::new(0, &Method::POST, "/a?x=1", &none, Some(b"")),
            "lead",
        ),
        (
            Key::new(0, &Method::POST, "/a?x=1", &none, Some(b"Action=A")),
            "lead",
        ),
        (
            Key::new(0, &Method::POST, "/a?x=1", &none, Some(b"Action=B")),
            "lead",
        ),
    ] {
        assert_eq!(step_name(&kept, &other, AGE, now), expected, "{other:?}");
    }
}

#[test]
fn a_change_drops_what_is_kept_and_what_is_under_way_for_its_target_only() {
    let kept = ResponseCache::new(1 << 20);
    let now = Instant::now();
    let (mine, other) = (key(0, "/a"), key(1, "/a"));
    lead(&kept, &mine, now).done(&answer(200, 1));
    lead(&kept, &other, now).done(&answer(200, 1));
    let before = lead(&kept, &key(0, "/b"), now);
    let change = kept.changing(0);
    assert_eq!(step_name(&kept, &mine, AGE, now), "lead");
    assert_eq!(step_name(&kept, &other, AGE, now), "answer");
    assert_eq!(
        step_name(&kept, &key(0, "/b"), AGE, now),
        "lead",
        "joined a request from before the change"
    );
    let during = lead(&kept, &mine, now);
    drop(change);
    before.done(&answer(200, 1));
    during.done(&answer(200, 1));
    assert_eq!(
        step_name(&kept, &key(0, "/b"), AGE, now),
        "lead",
        "kept an answer from before the change"
    );
    assert_eq!(
        step_name(&kept, &mine, AGE, now),
        "lead",
        "kept an answer from during the change"
    );
}

#[test]
fn the_bytes_are_bounded_and_the_oldest_goes_first() {
    let kept = ResponseCache::new(1000);
    let now = Instant::now();
    for number in 0..5 {
        lead(
            &kept,
            &key(0, &format!("/{number}")),
            now + Duration::from_millis(number),
        )
        .done(&answer(200, 300));
    }
    let words: Vec<_> = (0..5)
        .map(|number| step_name(&kept, &key(0, &format!("/{number}")), AGE, now))
        .collect();
    assert_eq!(words, ["lead", "lead", "answer", "answer", "answer"]);
    lead(&kept, &key(0, "/big"), now + AGE).done(&answer(200, 2000));
    assert_eq!(step_name(&kept, &key(0, "/big"), AGE, now + AGE), "lead");
}

#[tokio::test]
async fn followers_get_the_answer_and_outlive_a_cancelled_leader() {
    let kept = ResponseCache::new(1 << 20);
    let now = Instant::now();
    let key = key(0, "/a");
    let first = lead(&kept, &key, now);
    let Lookup::Follow(mut follower) = kept.turn(&key, AGE, now, &room()) else {
        panic!("expected to follow")
    };
    drop(first);
    assert!(
        follower.wait_for(Option::is_some).await.is_err(),
        "a cancelled leader has no answer"
    );
    let second = lead(&kept, &key, now);
    let Lookup::Follow(mut follower) = kept.turn(&key, AGE, now, &room()) else {
        panic!("expected to follow")
    };
    second.done(&answer(404, 1));
    let shared = follower.wait_for(Option::is_some).await.unwrap().clone();
    assert_eq!(shared, Some(answer(404, 1)));
}

#[tokio::test]
async fn a_leaders_own_trouble_is_not_its_followers() {
    let text = String::new;
    for (end, shared) in [
        (FetchError::Denied(text()), false),
        (FetchError::TimedOut(text()), true),
        (FetchError::Throttled(1), false),
        (FetchError::Invalid(text()), false),
        (FetchError::Unavailable(text()), true),
        (FetchError::TooLarge(text()), false),
    ] {
        let kept = ResponseCache::new(1 << 20);
        let now = Instant::now();
        let leader = lead(&kept, &key(0, "/a"), now);
        let Lookup::Follow(mut follower) = kept.turn(&key(0, "/a"), AGE, now, &room()) else {
            panic!("expected to follow")
        };
        leader.done(&Err(end.clone()));
        assert_eq!(
            follower.wait_for(Option::is_some).await.is_ok(),
            shared,
            "{end:?}"
        );
    }
}

#[test]
fn long_answers_are_kept_small_and_come_back_as_they_were() {
    let kept = ResponseCache::new(64 << 10);
    let now = Instant::now();
    let listing: String = (0..5_000)
        .map(|id| format!(r#"{{"id":{id},"name":"worker-{id}","status":"running"}},"#))
        .collect();
    for page in 0..2 {
        let page = key(0, &format!("/{page}"));
        let answer = Ok(FetchResponse {
            status: 200,
            headers: vec![("etag".to_owned(), "x".to_owned())],
            body: Bytes::from(listing.clone()).into(),
        });
        lead(&kept, &page, now).done(&answer);
        match kept.turn(&page, AGE, now, &room()) {
            Lookup::Answer(same) => assert_eq!(same, answer),
            Lookup::Follow(_) | Lookup::Lead(_) => panic!("{} bytes were not kept", listing.len()),
        }
    }
}

#[test]
fn what_nobody_may_be_given_any_more_goes_with_the_next_answer() {
    let kept = ResponseCache::new(1 << 20);
    let now = Instant::now();
    for second in 0..20 {
        let at = now + Duration::from_secs(second);
        let page = key(0, &format!("/{second}"));
        lead(&kept, &page, at).done(&answer(200, 100));
    }
    // The answers of the current second and of the ten seconds before it are kept.
    let state = kept.state.lock();
    assert_eq!(state.stored.len(), 11);
    let bytes: usize = state.stored.values().map(|stored| stored.bytes).sum();
    assert_eq!(state.bytes, bytes);
}

#[tokio::test(start_paused = true)]
async fn what_nobody_may_be_given_any_more_goes_by_itself_too() {
    let kept = ResponseCache::new(1 << 20);
    for round in 0..2 {
        lead(&kept, &key(0, "/a"), Instant::now()).done(&answer(200, 100));
        tokio::time::sleep(AGE / 2).await;
        assert_eq!(kept.state.lock().stored.len(), 1, "round {round}");
        tokio::time::sleep(AGE * 2).await;
        let state = kept.state.lock();
        assert_eq!((state.stored.len(), state.bytes), (0, 0), "round {round}");
    }
}
