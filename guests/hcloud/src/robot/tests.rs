//! The meaning of Robot's answers, and when no requests are sent to it.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::cell::RefCell;
use std::rc::Rc;

use ccm_guest::http::FetchError;
use ccm_guest::testing::{Answer, TestHost, json};

use super::*;

const MANIFEST: &str = include_str!("../../manifest.json");
const SERVERS: &str = include_str!("../../fixtures/robot-servers.json");
const RATE_LIMIT: &str = include_str!("../../fixtures/robot-error-rate-limit-exceeded.json");
const UNAUTHORIZED: &str = include_str!("../../fixtures/robot-error-unauthorized.json");
const NOT_FOUND: &str = include_str!("../../fixtures/robot-error-server-not-found.json");

const MINUTE: Duration = Duration::from_secs(60);

fn settings() -> RobotSettings {
    RobotSettings {
        list_age: 5 * MINUTE,
        hold: 5 * MINUTE,
        forward_internal_ips: true,
    }
}

/// A host that answers every request with the cell's content.
fn answering(answer: Answer) -> (TestHost, Rc<RefCell<Answer>>) {
    let answer = Rc::new(RefCell::new(answer));
    let given = Rc::clone(&answer);
    let host = TestHost::new(MANIFEST, move |_| given.borrow().clone());
    (host, answer)
}

#[test]
fn the_list_is_read_as_it_is_documented_and_may_be_a_kept_one() {
    let (host, _) = answering(json(200, SERVERS));
    let servers = list(&settings(), 5 * MINUTE).unwrap();
    let brief: Vec<_> = servers
        .iter()
        .map(|server| (server.number, server.name.as_str(), server.ipv4.as_deref()))
        .collect();
    assert_eq!(
        brief,
        [
            (321, "robot-server1", Some("233.252.0.123")),
            (421, "", None)
        ]
    );
    let [seen] = host.seen().try_into().unwrap();
    assert_eq!(
        (seen.target.as_str(), seen.line()),
        ("robot", "GET /server".to_owned())
    );
    assert_eq!(
        seen.headers,
        [("cache-control".to_owned(), "max-age=300".to_owned())]
    );
}

#[test]
fn an_account_without_servers_is_told_from_a_wrong_address() {
    let table = [
        (200, "[]", true),
        (404, NOT_FOUND, true),
        (404, "<html>not here</html>", false),
        (404, r#"{"error": {"code": "NOT_FOUND"}}"#, false),
        (200, r#"{"servers": []}"#, false),
        (200, "", false),
        (503, "maintenance", false),
        (301, "", false),
    ];
    for (status, body, is_empty) in table {
        let _host = answering(json(status, body));
        let answer = list(&settings(), MINUTE);
        assert_eq!(
            answer == Ok(Vec::new()),
            is_empty,
            "{status} {body}: {answer:?}"
        );
        assert_eq!(answer.is_err(), !is_empty, "{status} {body}");
    }
}

#[test]
fn after_a_refusal_robot_is_left_alone() {
    let lower = r#"{"error": {"status": 400, "code": "rate_limit_exceeded", "message": ""}}"#;
    let table: [(Answer, Duration); 6] = [
        (json(403, RATE_LIMIT), 5 * MINUTE),
        (json(403, "Forbidden"), 5 * MINUTE),
        (json(429, ""), 5 * MINUTE),
        (json(400, lower), 5 * MINUTE),
        (json(401, UNAUTHORIZED), 10 * MINUTE),
        (
            Err(FetchError::TimedOut("no answer".to_owned())),
            AFTER_SILENCE,
        ),
    ];
    for (refusal, wait) in table {
        let (host, answer) = answering(json(200, SERVERS));
        assert!(list(&settings(), MINUTE).is_ok());
        *answer.borrow_mut() = refusal.clone();
        let first = list(&settings(), MINUTE).unwrap_err();
        assert_eq!(host.requests().len(), 2);

        *answer.borrow_mut() = json(200, SERVERS);
        host.advance(wait - Duration::from_millis(1));
        let second = list(&settings(), MINUTE).unwrap_err();
        assert!(matches!(second, Error::Throttled(_)), "{second:?}");
        assert!(
            second.message().contains(first.message()),
            "{second:?} says why: {first:?}"
        );
        assert_eq!(is_shut_off(&settings(), 321, MINUTE), None);
        assert_eq!(host.requests().len(), 2, "nothing was sent: {refusal:?}");

        host.advance(Duration::from_millis(1));
        assert!(list(&settings(), MINUTE).is_ok(), "{refusal:?}");
    }
}

#[test]
fn what_is_no_refusal_stops_nothing() {
    for answer in [
        json(503, "maintenance"),
        json(404, NOT_FOUND),
        json(200, "[{}]"),
        Err(FetchError::Denied("not granted".to_owned())),
    ] {
        let (host, _) = answering(answer);
        let _ = list(&settings(), MINUTE);
        let _ = list(&settings(), MINUTE);
        assert_eq!(host.requests().len(), 2);
    }
}

#[test]
fn a_refused_log_in_is_told_from_a_spent_limit() {
    for (status, body, is_denied) in [(401, UNAUTHORIZED, true), (403, RATE_LIMIT, false)] {
        let _host = answering(json(status, body));
        let error = list(&settings(), MINUTE).unwrap_err();
        assert_eq!(matches!(error, Error::Denied(_)), is_denied, "{error:?}");
    }
}

#[test]
fn a_server_is_absent_only_if_robot_itself_says_so() {
    let server = r#"{"server": {"server_number": 321, "server_name": "a"}}"#;
    let table = [
        (200, server, Ok(true)),
        (404, NOT_FOUND, Ok(false)),
        (404, "<html>not here</html>", Err(())),
        (404, r#"{"error": {"code": "NOT_FOUND"}}"#, Err(())),
        (200, r#"{"server": {"server_number": 322}}"#, Err(())),
        (200, "[]", Err(())),
        (503, "", Err(())),
        (403, RATE_LIMIT, Err(())),
    ];
    for (status, body, expected) in table {
        let (host, _) = answering(json(status, body));
        for _ in 0..2 {
            let answer = look_up(&settings(), 321);
            let brief = answer.as_ref().map(Option::is_some).map_err(drop);
            assert_eq!(brief, expected, "{status} {body}: {answer:?}");
        }
        // An absence is cached, and so is a refusal.
        let requests = if expected == Ok(false) || status == 403 {
            1
        } else {
            2
        };
        assert_eq!(host.requests().len(), requests, "{status} {body}");
    }
}

#[test]
fn names_are_remembered_for_an_hour() {
    let (host, _) = answering(json(200, SERVERS));
    assert_eq!(had_name("robot-server1"), None);
    list(&settings(), MINUTE).unwrap();
    assert_eq!(had_name("robot-server1"), Some(true));
    assert_eq!(had_name("robot-server2"), Some(false));
    host.advance(60 * MINUTE);
    assert_eq!(had_name("robot-server1"), None);
}

#[test]
fn the_power_state_is_that_of_the_reset_page() {
    let page = |status: &str| format!(r#"{{"reset": {{"operating_status": "{status}"}}}}"#);
    let not_available = r#"{"error": {"status": 404, "code": "RESET_NOT_AVAILABLE"}}"#;
    let table = [
        (200, page("running"), Some(false)),
        (200, page("shut off"), Some(true)),
        (200, page("shut down"), Some(false)),
        (200, page("not supported"), None),
        (
            200,
            r#"{"reset": {"operating_status": null}}"#.to_owned(),
            None,
        ),
        (200, r#"{"reset": {}}"#.to_owned(), None),
        (404, not_available.to_owned(), None),
        (500, String::new(), None),
        (200, "[]".to_owned(), None),
    ];
    for (status, body, expected) in table {
        let shown = body.clone();
        let (host, _) = answering(json(status, &body));
        let reported = is_shut_off(&settings(), 321, MINUTE);
        assert_eq!(reported, expected, "{status} {shown}");
        assert_eq!(host.requests(), ["GET /reset/321"]);
    }
}

#[test]
fn power_states_of_many_servers_are_older_and_stay_within_half_of_the_limit() {
    for (servers, seconds) in [(0, 30), (1, 30), (2, 30), (3, 45), (40, 600), (1000, 600)] {
        let age = power_age(servers);
        assert_eq!(age, Duration::from_secs(seconds), "{servers}");
        let asked = servers.min(MAX_POWER) as u64;
        assert!(asked * 3600 / age.as_secs() <= 250, "{servers}");
    }
}
