#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use super::*;

fn one(name: &str, value: &str, source: Source) -> Result<HeaderMap, String> {
    let credential = HeaderName::from_static("x-auth-token");
    request(
        &[(name.to_owned(), value.to_owned())],
        Some(&credential),
        source,
    )
}

#[test]
fn headers_of_the_host_and_broken_ones_are_refused() {
    for (name, value) in [
        ("Host", "evil"),
        ("host", "evil"),
        (":authority", "evil"),
        ("Connection", "close"),
        ("Content-Length", "0"),
        ("Transfer-Encoding", "chunked"),
        ("TE", "trailers"),
        ("Trailer", "x"),
        ("Upgrade", "h2c"),
        ("HTTP2-Settings", "x"),
        ("Keep-Alive", "x"),
        ("Expect", "100-continue"),
        ("Authorization", "Bearer x"),
        ("Cookie", "a=b"),
        ("Cookie2", "a=b"),
        ("Set-Cookie", "a=b"),
        ("Content-Encoding", "gzip"),
        ("Proxy-Authorization", "x"),
        ("Proxy-Connection", "x"),
        ("Forwarded", "for=x"),
        ("X-Forwarded-For", "x"),
        ("X-Forwarded-Host", "x"),
        ("Via", "x"),
        ("X-HTTP-Method-Override", "DELETE"),
        ("X-Original-URL", "/admin"),
        ("X-Rewrite-URL", "/admin"),
        ("X-Real-IP", "x"),
        ("Sec-Fetch-Mode", "x"),
        ("X-HTTP-Method", "DELETE"),
        ("X-Method-Override", "DELETE"),
        ("User-Agent", "x"),
        ("Accept-Encoding", "gzip"),
        ("Range", "bytes=0-9"),
        ("If-Range", "\"x\""),
        ("Request_Range", "bytes=0-9"),
        ("X-Amz-Target", "x"),
        ("X-Auth-Token", "mine"),
        // Names that become one of the above on servers that pass headers on as variables.
        ("Content_Length", "0"),
        ("transfer_encoding", "chunked"),
        ("X_Forwarded_For", "x"),
        ("X.Forwarded.Host", "x"),
        ("x_http_method_override", "DELETE"),
        ("X-Original_URL", "/admin"),
        ("x_amz_target", "x"),
        ("X_Auth_Token", "mine"),
        ("content_type", "application/x-www-form-urlencoded"),
        ("", "x"),
        ("a b", "x"),
        ("a:", "x"),
        ("a\r\nb", "x"),
        ("x", "a\r\nHost: evil"),
        ("x", "a\nb"),
        ("x", "a\r\n b"),
        ("x", "a\0b"),
        ("ünicode", "x"),
    ] {
        assert!(
            one(name, value, Source::Fetch).is_err(),
            "{name:?}: {value:?}"
        );
    }
}

#[test]
fn what_libraries_set_by_themselves_is_left_out_and_the_rest_still_refused() {
    for name in ["Host", "User-Agent", "Accept-Encoding", "Content-Length"] {
        assert!(one(name, "1", Source::Wasi).unwrap().is_empty(), "{name}");
    }
    for name in [
        "Authorization",
        "Cookie",
        "X-Forwarded-For",
        "Transfer-Encoding",
        "X-Auth-Token",
    ] {
        assert!(one(name, "1", Source::Wasi).is_err(), "{name}");
    }
}

#[test]
fn ordinary_headers_pass_within_the_caps() {
    for (name, value) in [
        ("Accept", "application/json"),
        ("content-type", "text/plain"),
        ("If-None-Match", "\"x\""),
        ("X-Request-Id", "1"),
        ("x_custom.header", "1"),
    ] {
        assert_eq!(
            one(name, value, Source::Fetch).unwrap().get(name).unwrap(),
            value
        );
    }
    let many = |count: usize, length: usize| {
        let headers: Vec<_> = (0..count)
            .map(|number| (format!("x-{number}"), "v".repeat(length)))
            .collect();
        request(&headers, None, Source::Fetch)
    };
    assert!(many(32, 10).is_ok());
    assert!(many(33, 1).is_err());
    assert!(many(2, 9000).is_err());
}

#[test]
fn an_answer_shows_neither_cookies_nor_the_connection() {
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("Set-Cookie", "a=b"),
        ("Set-Cookie2", "a=b"),
        ("Connection", "close"),
        ("HTTP2-Settings", "x"),
        ("Keep-Alive", "x"),
        ("Proxy-Authenticate", "x"),
        ("Proxy-Connection", "x"),
        ("TE", "trailers"),
        ("Trailer", "x"),
        ("Transfer-Encoding", "chunked"),
        ("Upgrade", "h2c"),
        ("X-Page", "2"),
        ("x-page", "3"),
    ] {
        headers.append(
            HeaderName::from_bytes(name.as_bytes()).unwrap(),
            HeaderValue::from_static(value),
        );
    }
    headers.append("x-odd", HeaderValue::from_bytes(b"\xff").unwrap());
    let seen = answer(&headers);
    assert_eq!(
        seen,
        [
            ("x-page".to_owned(), "2".to_owned()),
            ("x-page".to_owned(), "3".to_owned())
        ]
    );
}
