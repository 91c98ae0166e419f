//! The meaning of the API's answers, in the vendor's documented form.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::cell::Cell;
use std::rc::Rc;

use ccm_guest::testing::{Answer, TestHost, json};

use super::*;

const MANIFEST: &str = include_str!("../../manifest.json");
const SERVER: &str = include_str!("../../fixtures/server.json");
const NETWORK: &str = include_str!("../../fixtures/network.json");
const NOT_FOUND: &str = include_str!("../../fixtures/error-not-found.json");

fn answering(answer: impl Fn() -> Answer + 'static) -> TestHost {
    TestHost::new(MANIFEST, move |_| answer())
}

fn look_up_one(ask: Ask) -> Result<Vec<Server>, Error> {
    let answer = Servers.request(&ask).unwrap().send();
    answer.and_then(|answer| Servers.answer(&ask, answer))
}

fn list_of(servers: &str) -> String {
    format!(
        r#"{{"servers": [{servers}], "meta": {{"pagination": {{
            "page": 1, "per_page": 25, "previous_page": null, "next_page": null, "last_page": 1, "total_entries": 1 }}}}}}"#
    )
}

fn server_itself() -> String {
    let fixture: Value = serde_json::from_str(SERVER).unwrap();
    fixture["server"].to_string()
}

#[test]
fn a_server_is_absent_only_if_the_api_itself_says_so() {
    type Expectation = fn(&Result<Vec<Server>, Error>) -> bool;
    let unavailable: Expectation = |answer| matches!(answer, Err(Error::Unavailable(_)));
    let absent: Expectation = |answer| answer.as_ref().is_ok_and(Vec::is_empty);
    let table: [(u16, &str, Expectation); 14] = [
        (200, SERVER, |answer| {
            answer.as_ref().is_ok_and(|servers| servers.len() == 1)
        }),
        (404, NOT_FOUND, absent),
        (404, r#"{"error": {"code": "not_found"}}"#, absent),
        (
            404,
            r#"{"error": {"code": "not_found", "message": null}}"#,
            absent,
        ),
        (404, "<html>no such page</html>", unavailable),
        (404, "", unavailable),
        (
            404,
            r#"{"error": {"code": "no_such_route", "message": ""}}"#,
            unavailable,
        ),
        (200, NOT_FOUND, |answer| {
            matches!(answer, Err(Error::Internal(_)))
        }),
        (200, "{}", |answer| {
            matches!(answer, Err(Error::Internal(_)))
        }),
        (200, r#"{"server": {"id": 42, "#, unavailable),
        (
            401,
            include_str!("../../fixtures/error-unauthorized.json"),
            |answer| matches!(answer, Err(Error::Denied(_))),
        ),
        (
            429,
            include_str!("../../fixtures/error-rate-limit-exceeded.json"),
            |answer| matches!(answer, Err(Error::Throttled(_))),
        ),
        (
            423,
            include_str!("../../fixtures/error-locked.json"),
            unavailable,
        ),
        (
            409,
            include_str!("../../fixtures/error-conflict.json"),
            unavailable,
        ),
    ];
    for (status, body, expectation) in table {
        let _host = answering(move || json(status, body));
        let answer = look_up_one(Ask::Id(42));
        assert!(expectation(&answer), "{status} {body}: {answer:?}");
    }
}

#[test]
fn another_server_than_the_one_asked_for_is_no_answer() {
    let _host = answering(|| json(200, SERVER));
    assert!(matches!(
        look_up_one(Ask::Id(43)),
        Err(Error::Unavailable(_))
    ));
}

#[test]
fn a_list_by_name_holds_that_name_only() {
    let _host = answering(|| json(200, &list_of(&server_itself())));
    assert_eq!(
        look_up_one(Ask::Name("worker-1".to_owned())).unwrap().len(),
        1
    );
    assert!(matches!(
        look_up_one(Ask::Name("worker-2".to_owned())),
        Err(Error::Unavailable(_))
    ));
}

#[test]
fn a_network_is_found_by_id_first_and_then_by_name() {
    let serve = |seen: &ccm_guest::testing::Seen| match seen.path.as_str() {
        "/networks/4711" => json(200, NETWORK),
        "/networks?name=cluster" | "/networks?name=2024" => {
            let network: Value = serde_json::from_str(NETWORK).unwrap();
            json(
                200,
                &serde_json::json!({"networks": [network["network"]]}).to_string(),
            )
        }
        "/networks?name=missing" => json(200, r#"{"networks": []}"#),
        _ => json(404, NOT_FOUND),
    };
    let table = [
        ("4711", Some(4711), vec!["GET /networks/4711"]),
        ("cluster", Some(4711), vec!["GET /networks?name=cluster"]),
        (
            "2024",
            Some(4711),
            vec!["GET /networks/2024", "GET /networks?name=2024"],
        ),
        ("missing", None, vec!["GET /networks?name=missing"]),
    ];
    for (name_or_id, expected, requests) in table {
        let host = TestHost::new(MANIFEST, serve);
        match expected {
            Some(id) => assert_eq!(network_id(name_or_id), Ok(id)),
            None => assert!(matches!(network_id(name_or_id), Err(Error::Invalid(_)))),
        }
        assert_eq!(host.requests(), requests, "{name_or_id}");
    }
}

#[test]
fn a_network_is_asked_for_once_in_ten_minutes() {
    let host = answering(|| json(200, NETWORK));
    for _ in 0..3 {
        assert_eq!(network_id("4711"), Ok(4711));
    }
    assert_eq!(host.requests().len(), 1);
    host.advance(networks::NETWORK_KNOWN);
    assert_eq!(network_id("4711"), Ok(4711));
    assert_eq!(host.requests().len(), 2);
}

#[test]
fn a_network_stays_the_same_when_its_name_becomes_that_of_another() {
    let is_gone = Rc::new(Cell::new(false));
    let mut named = 4710;
    let host = TestHost::new(MANIFEST, {
        let is_gone = Rc::clone(&is_gone);
        move |seen: &ccm_guest::testing::Seen| match seen.path.as_str() {
            "/networks/4711" if !is_gone.get() => json(200, NETWORK),
            "/networks?name=cluster" => {
                named += 1;
                let networks = serde_json::json!({"networks": [{"id": named}]});
                json(200, &networks.to_string())
            }
            _ => json(404, NOT_FOUND),
        }
    });
    let (by_name, by_id) = ("GET /networks?name=cluster", "GET /networks/4711");
    for _ in 0..3 {
        assert_eq!(network_id("cluster"), Ok(4711));
        host.advance(Duration::from_secs(3599));
    }
    assert_eq!(host.requests(), [by_name, by_id, by_id]);
    is_gone.set(true);
    assert_eq!(network_id("cluster"), Ok(4712));
    assert_eq!(host.requests()[3..], [by_id, by_name]);
}

#[test]
fn the_check_tells_a_refused_token_from_a_cloud_that_is_away() {
    let locations = include_str!("../../fixtures/locations.json");
    let unauthorized = include_str!("../../fixtures/error-unauthorized.json");
    let answer_to = |status, body: &'static str| {
        let _host = answering(move || json(status, body));
        check()
    };
    assert_eq!(answer_to(200, locations), Ok(()));
    // In the vendor's words, as with load balancers.
    let refused = "GET /locations: unable to authenticate (unauthorized)";
    assert_eq!(answer_to(401, unauthorized), Err(Error::denied(refused)));
    assert!(matches!(
        answer_to(502, "bad gateway"),
        Err(Error::Unavailable(_))
    ));
    assert!(matches!(
        answer_to(200, r#"{"locations": []}"#),
        Err(Error::Unavailable(_))
    ));
}
