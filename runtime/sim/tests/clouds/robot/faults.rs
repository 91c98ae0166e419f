//! Injected faults, and the record of requests.

use std::time::Duration;

use ccm_sim::robot::{Fault, Robot, ServerSpec, Trouble};
use http::Method;
use serde_json::{Value, json};

use super::{PASSWORD, USER, ask_as, client, code, get, post, robot};

async fn with_four_servers() -> (Robot, u32) {
    let robot = robot().await;
    let numbers = [1, 2, 3, 4].map(|n| robot.add_server(ServerSpec::named(format!("bare-{n}"))));
    (robot, numbers[0])
}

#[tokio::test]
async fn a_fault_meets_only_the_requests_it_is_for() {
    let (robot, number) = with_four_servers().await;
    let refuse = || {
        Fault::new(Trouble::Refuse {
            status: 500,
            code: "INTERNAL_ERROR".to_owned(),
        })
    };
    let detail = format!("/server/{number}");
    let cases = [
        (refuse().times(2), [500, 500, 200, 200, 200, 200]),
        (refuse().every(2), [200, 500, 200, 500, 200, 500]),
        (refuse().after(1).every(3), [200, 200, 200, 500, 200, 200]),
        (refuse().after(4).times(1), [200, 200, 200, 200, 500, 200]),
        (refuse().method(Method::POST), [200; 6]),
        (refuse().path("/reset"), [200; 6]),
        (refuse().path("/server/"), [200, 500, 200, 500, 200, 500]),
    ];
    for (fault, expected) in cases {
        let name = format!("{fault:?}");
        robot.inject(fault);
        let mut seen = Vec::new();
        for path in ["/server", &detail, "/server", &detail, "/server", &detail] {
            seen.push(get(&robot, path).await.0);
        }
        assert_eq!(seen, expected, "{name}");
        robot.clear_faults();
    }
}

#[tokio::test]
async fn answers_that_stand_in_for_the_real_one_carry_nothing_out() {
    let text = str::to_owned;
    let cases = [
        (
            Trouble::TooManyRequests { retry_after: None },
            403,
            Some("RATE_LIMIT_EXCEEDED"),
            Value::Null,
        ),
        (
            Trouble::Refuse {
                status: 403,
                code: text("FORBIDDEN"),
            },
            403,
            Some("FORBIDDEN"),
            Value::Null,
        ),
        (
            Trouble::Foreign {
                status: 503,
                content_type: text("text/html"),
                body: b"<html>maintenance</html>".to_vec(),
            },
            503,
            None,
            json!("<html>maintenance</html>"),
        ),
        (
            Trouble::Foreign {
                status: 200,
                content_type: text("application/json"),
                body: b"[{\"server\":".to_vec(),
            },
            200,
            None,
            json!("[{\"server\":"),
        ),
    ];
    for (trouble, status, error, body) in cases {
        let (robot, number) = with_four_servers().await;
        let name = format!("{trouble:?}");
        robot.inject(Fault::new(trouble));
        let answer = post(&robot, &format!("/server/{number}"), "server_name=x").await;
        assert_eq!(code(&answer), (status, error), "{name}");
        if error.is_none() {
            assert_eq!(answer.1, body, "{name}");
        }
        assert_eq!(
            robot.server(number).unwrap()["server_name"],
            "bare-1",
            "{name}"
        );
    }
    let (robot, _) = with_four_servers().await;
    robot.inject(Fault::new(Trouble::Redirect {
        status: 307,
        location: text("http://169.254.169.254/"),
    }));
    let policy = reqwest::redirect::Policy::none();
    let client = reqwest::Client::builder().no_proxy().redirect(policy);
    let url = format!("{}/server", robot.endpoint());
    let answer = client.build().unwrap().get(url).send().await.unwrap();
    assert_eq!(answer.status(), 307);
    assert_eq!(answer.headers()["location"], "http://169.254.169.254/");
}

#[tokio::test]
async fn a_connection_is_lost_before_or_after_the_request_is_carried_out() {
    for (trouble, name) in [
        (Trouble::ResetBefore, "bare-1"),
        (Trouble::ResetAfter, "x"),
        (Trouble::SlowBefore(Duration::from_secs(3600)), "bare-1"),
        (Trouble::SlowAfter(Duration::from_secs(3600)), "x"),
    ] {
        let (robot, number) = with_four_servers().await;
        let shown = format!("{trouble:?}");
        robot.inject(Fault::new(trouble));
        let url = format!("{}/server/{number}", robot.endpoint());
        let request = client()
            .post(url)
            .basic_auth(USER, Some(PASSWORD))
            .timeout(Duration::from_secs(1))
            .body("server_name=x");
        let error = request.send().await.unwrap_err();
        assert_eq!(error.is_timeout(), shown.starts_with("Slow"), "{shown}");
        assert_eq!(
            robot.server(number).unwrap()["server_name"],
            name,
            "{shown}"
        );
        assert_eq!(robot.requests()[0].status, None, "{shown}");
    }
}

#[tokio::test]
async fn bodies_and_lists_come_in_part() {
    let (robot, _) = with_four_servers().await;
    let whole = get(&robot, "/server").await.1;
    assert_eq!(whole.as_array().unwrap().len(), 4);
    for (trouble, left) in [(Trouble::EmptyList, 0), (Trouble::PartialPage, 2)] {
        robot.inject(Fault::new(trouble).times(1));
        let (status, list) = get(&robot, "/server").await;
        let entries = list.as_array().unwrap();
        assert_eq!(
            (status, entries.as_slice()),
            (200, &whole.as_array().unwrap()[..left])
        );
    }
    robot.inject(Fault::new(Trouble::Truncated).times(1));
    let (status, half) = get(&robot, "/server").await;
    let text = format!("{whole:#}");
    assert_eq!(
        (status, half.as_str()),
        (200, Some(&text[..text.len() / 2]))
    );
    robot.inject(Fault::new(Trouble::Truncated).times(1));
    let (status, half) = get(&robot, "/server/1").await;
    assert_eq!((status, half.is_string()), (404, true), "a refusal, too");
    robot.inject(Fault::new(Trouble::Cut).times(1));
    let error = ask_as(&robot, PASSWORD, "/server").await.unwrap_err();
    assert!(error.is_body() || error.is_decode(), "{error:?}");
    assert_eq!(get(&robot, "/server").await, (200, whole));
}

#[tokio::test]
async fn every_request_is_recorded_and_counted() {
    let (robot, number) = with_four_servers().await;
    get(&robot, "/server").await;
    get(&robot, "/server?x=1").await;
    post(&robot, &format!("/reset/{number}"), "type=hw").await;
    let seen = robot.requests();
    let facts: Vec<_> = seen
        .iter()
        .map(|seen| (seen.sequence, seen.path.as_str(), seen.status, seen.write))
        .collect();
    let reset = format!("/reset/{number}");
    let expected = [
        (1, "/server", Some(200), false),
        (2, "/server?x=1", Some(200), false),
        (3, reset.as_str(), Some(200), true),
    ];
    assert_eq!(facts, expected);
    assert_eq!(robot.count(&Method::GET, "/server"), 1);
    assert_eq!(robot.count(&Method::POST, &reset), 1);
    assert_eq!(robot.count(&Method::GET, &reset), 0);
    assert_eq!(robot.connections(), 3);
    robot.clear_requests();
    assert_eq!(robot.requests(), []);
}
