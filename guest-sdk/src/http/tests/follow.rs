//! Lists whose pages name the next one: read to their end, or an error.

use super::*;

/// Reads a list from answers, each given as how the list goes on and its number of items. Returns the requests as the
/// cloud saw them.
fn read(pages: Vec<(Next, usize)>) -> (Result<usize, Error>, Vec<String>) {
    let host = TestHost::open(|_| json(200, "{}"));
    let mut pages = pages.into_iter();
    let first = Request::get("api", "/things")
        .query("per_page", 2)
        .query("page", 1);
    let all = follow(first, |_| {
        let (next, items) = pages
            .next()
            .ok_or_else(|| Error::internal("more pages were read than there are"))?;
        Ok((vec![(); items], next))
    });
    (all.map(|items| items.len()), host.requests())
}

fn url(url: &str) -> Next {
    Next::url(Some(url))
}

#[test]
fn every_form_of_next_page_is_followed() {
    let first = "GET /things?per_page=2&page=1";
    let nothing: Option<u32> = None;
    let table = [
        (Next::end(), vec![]),
        (Next::query("page", nothing), vec![]),
        (Next::query("cursor", Some("")), vec![]),
        (Next::url(None::<String>), vec![]),
        (Next::request(None), vec![]),
        (
            Next::query("page", Some(2)),
            vec!["GET /things?per_page=2&page=2"],
        ),
        (
            Next::query("cursor", Some("a b")),
            vec!["GET /things?per_page=2&page=1&cursor=a b"],
        ),
        (
            url("https://api.example/v2/things?page=2&x=a+b%3D"),
            vec!["GET /things?page=2&x=a b="],
        ),
        (url("/things?page=2"), vec!["GET /things?page=2"]),
        (url("?page=2"), vec!["GET /things?page=2"]),
        (
            Next::request(Some(Request::get("api", "/others"))),
            vec!["GET /others"],
        ),
    ];
    for (next, more) in table {
        let (items, requests) = read(vec![(next.clone(), 2), (Next::end(), 1)]);
        let count = if more.is_empty() { 2 } else { 3 };
        let expected = [first].into_iter().chain(more);
        let expected: Vec<String> = expected.map(str::to_owned).collect();
        assert_eq!((items, requests), (Ok(count), expected), "{next:?}");
    }
}

#[test]
fn a_field_of_the_form_and_a_header_name_the_next_page_too() {
    let host = TestHost::open(|seen| match String::from_utf8_lossy(&seen.body).as_ref() {
        "Action=List" => json(200, r#"{"items": [1], "token": "b+/="}"#),
        "Action=List&NextToken=b%2B%2F%3D" => json(200, r#"{"items": [2], "token": null}"#),
        other => panic!("{other}"),
    });
    #[derive(serde::Deserialize)]
    struct Page {
        items: Vec<u8>,
        token: Option<String>,
    }
    let items = follow(Request::post("api", "/").form("Action", "List"), |answer| {
        let page: Page = answer.json()?;
        Ok((page.items, Next::form("NextToken", page.token)))
    });
    assert_eq!(items, Ok(vec![1, 2]));
    drop(host);

    let _host = TestHost::open(|seen| {
        let next = match seen.query("after") {
            None => r#"</things?after=1>; rel="next""#,
            Some(_) => r#"</things>; rel="first""#,
        };
        let headers = vec![("link".to_owned(), next.to_owned())];
        Ok((200, headers, b"[1]".to_vec()))
    });
    let items = follow(Request::get("api", "/things"), |answer| {
        Ok((answer.json::<Vec<u8>>()?, Next::link(&answer)))
    });
    assert_eq!(items, Ok(vec![1, 1]));
}

#[test]
fn a_list_that_contradicts_itself_is_an_error() {
    let to = |page: u32| Next::query("page", Some(page));
    let table = [
        ("itself as the next page", vec![(to(1), 2)]),
        (
            "a page that was read",
            vec![(to(2), 2), (to(3), 2), (to(2), 2)],
        ),
        ("a URL of another list", vec![(url("/others?page=2"), 2)]),
        (
            "a URL that only ends alike",
            vec![(url("https://x.example/v2/somethings?page=2"), 2)],
        ),
        ("fewer items than announced", vec![(Next::end().of(3), 2)]),
        (
            "more items than announced",
            vec![(to(2).of(3), 2), (Next::end().of(3), 2)],
        ),
        (
            "another length",
            vec![(to(2).of(4), 2), (Next::end().of(3), 2)],
        ),
        (
            "no length any more",
            vec![(to(2).of(4), 2), (Next::end(), 2)],
        ),
        (
            "an endless list",
            (2..=MAX_PAGES + 2)
                .map(|page| (Next::query("page", Some(page)), 0))
                .collect(),
        ),
    ];
    for (what, pages) in table {
        match read(pages) {
            (Err(Error::Unavailable(message)), _) => {
                assert!(message.contains("inconsistent list"), "{message}");
            }
            (other, _) => panic!("{what}: {other:?}"),
        }
    }
    let (items, _) = read(vec![(to(2).of(3), 2), (Next::end().of(3), 1)]);
    assert_eq!(items, Ok(3), "a list that agrees with itself");
    let longer = vec![(to(2).of(6), 2), (to(3).of(7), 2), (Next::end().of(7), 3)];
    let (_, requests) = read(longer);
    assert_eq!(requests.len(), 2, "the rest of it would be of no use");
}

#[test]
fn a_page_that_cannot_be_read_ends_the_list() {
    let host = TestHost::open(|seen| match seen.query("page") {
        Some("3") => json(500, "oops"),
        _ => json(200, "{}"),
    });
    let mut page = 1;
    let all = follow(Request::get("api", "/things"), |_| {
        page += 1;
        Ok((vec![()], Next::query("page", Some(page))))
    });
    assert!(matches!(all, Err(Error::Unavailable(_))), "{all:?}");
    assert_eq!(host.requests().len(), 3);
}

#[test]
fn errors_that_only_the_body_tells_are_checked_by_the_caller() {
    let _host = TestHost::open(|_| json(400, r#"{"code": "RequestLimitExceeded"}"#));
    let check = |answer: Response| match answer.error() {
        Some(error) if answer.text()?.contains("RequestLimitExceeded") => {
            Err(Error::throttled(error.message(), None))
        }
        Some(error) => Err(error),
        None => Ok(answer),
    };
    let all = follow_with(Request::get("api", "/things"), check, |_| {
        Ok((vec![()], Next::end()))
    });
    assert!(matches!(all, Err(Error::Throttled(_))), "{all:?}");
}

#[test]
fn a_list_at_the_root_of_a_target_goes_on_at_a_url() {
    for (next, is_here) in [
        ("https://api.example/?page=2", true),
        ("https://api.example?page=2", true),
        ("https://api.example/v2/machines/?page=2", true),
        ("/?page=2", true),
        ("?page=2", true),
        ("/others?page=2", false),
    ] {
        let host = TestHost::open(|_| json(200, "{}"));
        let mut pages = [url(next), Next::end()].into_iter();
        let all = follow(Request::get("api", "/"), |_| {
            Ok((vec![()], pages.next().unwrap()))
        });
        assert_eq!(all.is_ok(), is_here, "{next}: {all:?}");
        if is_here {
            assert_eq!(host.requests(), ["GET /", "GET /?page=2"], "{next}");
        }
    }
}
