//! Paths, links and bodies: values from outside stay in their segment, parameter or field.

use super::*;
use crate::http::path::{link, path_and_query};

#[test]
fn a_segment_stays_one_segment() {
    let table: [(&[&str], &str); 8] = [
        (&["machines", "7"], "/machines/7"),
        (&["machines", "i-0a.b_c~d"], "/machines/i-0a.b_c~d"),
        (&["a b", "ü", "50%"], "/a%20b/%C3%BC/50%25"),
        (&["a?b", "c#d", "e;f"], "/a%3Fb/c%23d/e%3Bf"),
        (&["a=b&c", "(d)", "e:f@g"], "/a=b&c/(d)/e:f@g"),
        (&["a/b", "c\\d"], "/a%2Fb/c%5Cd"),
        (&["{id}"], "/%7Bid%7D"),
        (&[], ""),
    ];
    for (segments, expected) in table {
        assert_eq!(path(segments.iter()), expected);
    }
}

#[test]
fn a_segment_that_could_mean_another_is_refused_when_it_is_sent() {
    let _host = TestHost::open(|_| json(200, "{}"));
    for segment in ["", ".", "..", "a/b", "a\\b"] {
        let answer = Request::get("api", path(["machines", segment])).send();
        assert!(
            matches!(answer, Err(Error::Internal(_))),
            "{segment:?}: {answer:?}"
        );
    }
}

#[test]
fn a_link_is_found_by_its_relation() {
    let pages = r#"<https://a.example/x?page=2>; rel="next", </x?page=9>; rel="last""#;
    let table = [
        (pages, "next", Some("https://a.example/x?page=2")),
        (pages, "last", Some("/x?page=9")),
        (pages, "prev", None),
        (r#"<a>; rel=next"#, "next", Some("a")),
        (
            r#"<a>;title="b, <c>; rel=x";REL="prev Next""#,
            "next",
            Some("a"),
        ),
        (
            r#"<a,b>; rel="prev" , <c,d>;rel="next""#,
            "next",
            Some("c,d"),
        ),
        (r#"<a>; rev="next""#, "next", None),
        ("<a", "next", None),
        ("", "next", None),
    ];
    for (header, rel, expected) in table {
        assert_eq!(link(header, rel), expected, "{header}");
    }
}

#[test]
fn a_reference_has_a_path_and_a_query() {
    let table = [
        ("https://a.example/v2/x?a=1&b=2", ("/v2/x", "a=1&b=2")),
        ("https://a.example?a=1", ("", "a=1")),
        ("/x?a=?#top", ("/x", "a=?")),
        ("?a=1", ("", "a=1")),
        ("/x", ("/x", "")),
        (
            "?next=https://a.example/y",
            ("", "next=https://a.example/y"),
        ),
    ];
    for (reference, expected) in table {
        assert_eq!(path_and_query(reference), expected, "{reference}");
    }
}

#[test]
fn a_form_is_the_body_and_a_body_replaces_it() {
    let host = TestHost::open(|_| json(200, "{}"));
    let form = Request::post("api", "/")
        .form("Action", "List")
        .form("Filter.1", "a b&c=ü");
    form.clone().send().unwrap();
    form.body("text/plain", "x").send().unwrap();
    let [form, body] = host.seen().try_into().unwrap();
    assert_eq!(
        String::from_utf8(form.body).unwrap(),
        "Action=List&Filter.1=a+b%26c%3D%C3%BC"
    );
    let content_type = |kind: &str| vec![("content-type".to_owned(), kind.to_owned())];
    assert_eq!(
        form.headers,
        content_type("application/x-www-form-urlencoded")
    );
    assert_eq!(
        (body.body.as_slice(), body.headers),
        (b"x".as_slice(), content_type("text/plain"))
    );
}

#[test]
fn json_is_read_only_from_a_good_answer() {
    let answers = [(200, "7"), (404, "7"), (500, "7"), (200, "x")];
    let read = answers.map(|(status, body)| {
        let _host = TestHost::open(move |_| json(status, body));
        let request = || Request::get("api", "/things/1");
        (
            request().fetch_json::<u8>().ok(),
            request().find_json::<u8>().ok(),
        )
    });
    let expected = [
        (Some(7), Some(Some(7))),
        (None, Some(None)),
        (None, None),
        (None, None),
    ];
    assert_eq!(read, expected);
}
