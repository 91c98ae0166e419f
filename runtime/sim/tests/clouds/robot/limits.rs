//! Logins, lockouts, and the request limits.

use std::time::Duration;

use ccm_sim::robot::{Lockout, Options, RateLimit, RateLimits, ServerSpec};
use http::Method;
use serde_json::json;

use super::{ManualClock, PASSWORD, USER, ask_as, client, code, error, get, post, robot_with};

#[tokio::test]
async fn two_hundred_requests_an_hour_are_answered_and_then_one_more_when_one_is_forgotten() {
    let hands = ManualClock::new();
    let robot = robot_with(Options {
        clock: hands.clock(),
        ..Options::new(USER, PASSWORD)
    })
    .await;
    let number = robot.add_server(ServerSpec::named("bare-1"));
    assert_eq!(get(&robot, "/server").await.0, 200);
    hands.advance(600);
    for _ in 1..200 {
        assert_eq!(get(&robot, &format!("/server/{number}")).await.0, 200);
    }
    let mut spent = error(403, "RATE_LIMIT_EXCEEDED", "rate limit exceeded");
    spent.1["error"]["max_request"] = json!(200);
    spent.1["error"]["interval"] = json!(3600);
    assert_eq!(get(&robot, "/server").await, spent);
    // Other kinds of calls have limits of their own.
    assert_eq!(get(&robot, "/reset").await.0, 200);
    let path = format!("/server/{number}");
    assert_eq!(post(&robot, &path, "server_name=bare-1").await.0, 200);

    hands.advance(2999);
    assert_eq!(get(&robot, "/server").await, spent);
    hands.advance(1);
    let seen = [
        get(&robot, "/server").await.0,
        get(&robot, "/server").await.0,
    ];
    assert_eq!(seen, [200, 403], "only the first request is an hour old");
    assert_eq!(robot.count(&Method::GET, "/server"), 5);
}

#[tokio::test]
async fn limits_are_what_the_options_say() {
    let limit = RateLimit {
        max_request: 1,
        interval: Duration::from_secs(60),
    };
    for (rate_limits, expected) in [
        (None, [200, 200]),
        (Some(RateLimits::each(limit)), [200, 403]),
    ] {
        let robot = robot_with(Options {
            rate_limits,
            ..Options::new(USER, PASSWORD)
        })
        .await;
        robot.add_server(ServerSpec::named("bare-1"));
        let seen = [
            get(&robot, "/server").await.0,
            get(&robot, "/server").await.0,
        ];
        assert_eq!(seen, expected);
    }
}

#[tokio::test]
async fn only_the_right_login_opens_and_it_can_be_rotated() {
    let robot = robot_with(Options {
        lockout: None,
        rate_limits: Some(RateLimits::each(RateLimit::hourly(2))),
        ..Options::new(USER, PASSWORD)
    })
    .await;
    robot.add_server(ServerSpec::named("bare-1"));
    let refused = error(401, "UNAUTHORIZED", "Unauthorized");
    let url = format!("{}/server", robot.endpoint());
    for header in [
        "",
        "Basic",
        "Basic ",
        "Bearer pass:word",
        "Basic cGFzczp3b3Jk",
    ] {
        let answer = client().get(&url).header("authorization", header).send();
        assert_eq!(answer.await.unwrap().status().as_u16(), 401, "{header}");
    }
    assert_eq!(client().get(&url).send().await.unwrap().status(), 401);
    assert_eq!(ask_as(&robot, "pass", "/server").await.unwrap(), refused);
    assert_eq!(get(&robot, "/server").await.0, 200);
    robot.set_login(USER, "rotated");
    assert_eq!(get(&robot, "/server").await, refused);
    assert_eq!(ask_as(&robot, "rotated", "/server").await.unwrap().0, 200);
    let seen = robot.requests();
    let authorized = seen.iter().filter(|request| request.authorized).count();
    assert_eq!(
        (seen.len(), authorized),
        (10, 2),
        "refused logins cost nothing"
    );
    assert!(!format!("{seen:?}").contains("word"));
}

#[tokio::test]
async fn three_failed_logins_shut_everybody_out_for_ten_minutes() {
    let hands = ManualClock::new();
    let robot = robot_with(Options {
        clock: hands.clock(),
        ..Options::new(USER, PASSWORD)
    })
    .await;
    assert_eq!(
        Lockout::VENDOR,
        Lockout {
            failures: 3,
            duration: Duration::from_secs(600)
        }
    );
    robot.add_server(ServerSpec::named("bare-1"));
    for password in ["wrong", "wrong", PASSWORD, "wrong", "wrong"] {
        let answer = ask_as(&robot, password, "/server").await.unwrap();
        let expected = if password == PASSWORD { 200 } else { 401 };
        assert_eq!(answer.0, expected, "a right login in between forgives");
    }
    let third = ask_as(&robot, "wrong", "/server").await.unwrap();
    assert_eq!(code(&third), (401, Some("UNAUTHORIZED")));
    for _ in 0..3 {
        ask_as(&robot, PASSWORD, "/server").await.unwrap_err();
    }
    hands.advance(599);
    ask_as(&robot, PASSWORD, "/server").await.unwrap_err();
    hands.advance(1);
    assert_eq!(get(&robot, "/server").await.0, 200);
    let statuses: Vec<_> = robot.requests().iter().map(|seen| seen.status).collect();
    assert_eq!(statuses.iter().filter(|status| status.is_none()).count(), 4);
}
