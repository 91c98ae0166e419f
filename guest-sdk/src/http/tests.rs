//! Which error each status becomes, and which lists are believed.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::testing::{Answer, TestHost, json};
use std::time::Duration;

mod counted_listing;
mod follow;
mod paths;

fn answer_to(answer: Answer) -> Result<Response, Error> {
    let _host = TestHost::open(move |_| answer.clone());
    Request::get("api", "/things/1").send()
}

fn status(status: u16, headers: &[(&str, &str)]) -> Response {
    let headers = headers
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    answer_to(Ok((status, headers, b"why\n\x1b[31mnot".to_vec()))).unwrap()
}

#[test]
fn a_status_means_one_case_of_the_contract() {
    let unavailable = |code: u16| Error::unavailable(format!("GET /things/1: {code} why [31mnot"));
    let message = |code: u16| format!("GET /things/1: {code} why [31mnot");
    let table = [
        (301, unavailable(301)),
        (400, Error::invalid(message(400))),
        (401, Error::denied(message(401))),
        (403, Error::denied(message(403))),
        (404, unavailable(404)),
        (408, unavailable(408)),
        (409, unavailable(409)),
        (412, unavailable(412)),
        (422, Error::invalid(message(422))),
        (423, unavailable(423)),
        (425, unavailable(425)),
        (429, Error::throttled(message(429), None)),
        (451, Error::invalid(message(451))),
        (500, unavailable(500)),
        (501, Error::unsupported(message(501))),
        (502, unavailable(502)),
        (503, unavailable(503)),
        (504, unavailable(504)),
        (599, unavailable(599)),
    ];
    for (code, expected) in table {
        assert_eq!(status(code, &[]).ok(), Err(expected), "{code}");
    }
    for code in [200, 201, 202, 204, 299] {
        assert_eq!(status(code, &[]).ok().unwrap().status(), code);
    }
}

#[test]
fn patience_is_asked_for_in_whole_seconds() {
    let table = [
        (429, "7", Some(7_000)),
        (429, "0", Some(0)),
        (429, "-1", None),
        (429, "soon", None),
        (429, "Wed, 21 Oct 2026 07:28:00 GMT", None),
        (429, "18446744073709551615", Some(u64::MAX)),
        (503, "120", Some(120_000)),
        (503, "Fri, 27 Nov 2026 12:00:00 GMT", None),
    ];
    for (code, header, expected) in table {
        match status(code, &[("Retry-After", header)]).ok() {
            Err(Error::Throttled(throttled)) => {
                assert_eq!(throttled.retry_after_ms, expected, "{header}")
            }
            other => panic!("{code} {header}: {other:?}"),
        }
    }
}

#[test]
fn a_404_is_absence_only_where_it_is_asked_for() {
    assert_eq!(status(404, &[]).found(), Ok(None));
    assert!(matches!(status(404, &[]).ok(), Err(Error::Unavailable(_))));
    assert!(status(200, &[]).found().unwrap().is_some());
    for code in [301, 400, 401, 403, 409, 410, 429, 500, 503] {
        assert!(status(code, &[]).found().is_err(), "{code}");
    }
}

#[test]
fn a_missing_answer_means_one_case_of_the_contract() {
    let why = || "why".to_owned();
    let table = [
        (
            FetchError::Denied(why()),
            Error::denied("GET /things/1: why"),
        ),
        (
            FetchError::Invalid(why()),
            Error::internal("GET /things/1: not a request: why"),
        ),
        (
            FetchError::Throttled(5),
            Error::throttled("GET /things/1: held back", Some(Duration::from_millis(5))),
        ),
        (
            FetchError::TimedOut(why()),
            Error::unavailable("GET /things/1: no answer in time: why"),
        ),
        (
            FetchError::TooLarge(why()),
            Error::unavailable("GET /things/1: the answer is too large: why"),
        ),
        (
            FetchError::Unavailable(why()),
            Error::unavailable("GET /things/1: why"),
        ),
    ];
    for (given, expected) in table {
        assert_eq!(answer_to(Err(given.clone())), Err(expected), "{given:?}");
    }
}

#[test]
fn half_an_answer_is_not_another_shape() {
    let read = |body: &str| answer_to(json(200, body)).unwrap().json::<Vec<u8>>();
    assert_eq!(read("[1, 2]"), Ok(vec![1, 2]));
    assert!(matches!(read("[1, "), Err(Error::Unavailable(_))));
    assert!(matches!(read(""), Err(Error::Unavailable(_))));
    assert!(matches!(read("<html>"), Err(Error::Unavailable(_))));
    assert!(matches!(read("{}"), Err(Error::Internal(_))));
    assert!(matches!(read("[300]"), Err(Error::Internal(_))));
}

#[test]
fn a_quoted_body_is_short_and_one_line() {
    let long = "é\n".repeat(10_000);
    let error = answer_to(json(500, &long)).unwrap().ok().unwrap_err();
    assert!(
        error.message().chars().count() < 400,
        "{}",
        error.message().len()
    );
    assert!(!error.message().contains('\n'));
}

#[test]
fn a_request_says_what_it_was_told() {
    let host = TestHost::open(|_| json(200, "{}"));
    Request::put("api", "/things/1")
        .query("page", 2)
        .query("name", "a b")
        .header("x-one", "1")
        .max_age(Duration::from_millis(1500))
        .json(&[1, 2])
        .unwrap()
        .send()
        .unwrap();
    Request::delete("api", "/things/1")
        .max_age(Duration::from_millis(999))
        .send()
        .unwrap();
    let [put, delete] = host.seen().try_into().unwrap();
    assert_eq!(put.line(), "PUT /things/1?page=2&name=a b");
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(
        put.headers,
        [
            header("x-one", "1"),
            header("cache-control", "max-age=1"),
            header("content-type", "application/json")
        ]
    );
    assert_eq!(put.body, b"[1,2]");
    assert_eq!(
        (delete.line().as_str(), delete.headers.len()),
        ("DELETE /things/1", 0)
    );
}

#[test]
fn many_requests_go_in_windows_and_stop_at_the_first_refusal() {
    let host = TestHost::open(|_| json(200, "{}"));
    let requests = || (0..20).map(|index| Request::get("api", format!("/things/{index}")));
    let mut read = 0;
    let outcome = send_in_windows(requests(), |answer| {
        answer?;
        read += 1;
        if read == 10 {
            Err(Error::denied("enough"))
        } else {
            Ok(())
        }
    });
    assert_eq!(outcome, Err(Error::denied("enough")));
    assert_eq!(host.requests().len(), 16, "the third window was not sent");
    assert_eq!(
        host.seen().iter().map(|seen| seen.side_by_side).max(),
        Some(WINDOW)
    );
}

#[test]
fn a_body_replaces_the_one_before_together_with_its_type() {
    let form = "application/x-www-form-urlencoded";
    let post = || Request::post("api", "/things").header("x-one", "1");
    let with_json = || post().json(&[1, 2]).unwrap();
    let table = [
        (with_json(), "application/json", "[1,2]"),
        (with_json().json(&[3]).unwrap(), "application/json", "[3]"),
        (with_json().body("text/plain", "x"), "text/plain", "x"),
        (with_json().form("a", "b c"), form, "a=b+c"),
        (with_json().form("a", 1).form("b", 2), form, "a=1&b=2"),
        (
            post().form("a", 1).body("text/plain", "x"),
            "text/plain",
            "x",
        ),
        (
            post().form("a", 1).json(&[1, 2]).unwrap().form("b", 2),
            form,
            "b=2",
        ),
    ];
    for (request, kind, body) in table {
        let host = TestHost::open(|_| json(200, "{}"));
        request.clone().send().unwrap();
        let [seen] = host.seen().try_into().unwrap();
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let expected = [header("x-one", "1"), header("content-type", kind)];
        assert_eq!(seen.headers, expected, "{request:?}");
        assert_eq!(seen.body, body.as_bytes(), "{request:?}");
    }
}
