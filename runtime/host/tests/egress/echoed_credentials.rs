//! A cloud that repeats a received credential, in pieces or in another spelling. The guest never sees it.

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use ccm_fixtures::http_server::{Arrived, Server, answer, ok};
use ccm_host::egress::{FetchError, FetchRequest};

use crate::world::{CANARY, egress, error, get, scope};

type Spelling = fn(&str) -> String;

/// The text with each letter written by `spell`.
fn each(text: &str, spell: impl Fn(char) -> String) -> String {
    text.chars().map(spell).collect()
}

#[tokio::test]
async fn a_credential_in_another_spelling_is_withheld_too() {
    let spellings: &[(&str, Spelling)] = &[
        ("plain", |text| text.to_owned()),
        ("all of it escaped", |text| {
            each(text, |letter| format!("\\u{:04x}", u32::from(letter)))
        }),
        ("some of it escaped, in capitals", |text| {
            each(text, |letter| match letter {
                '-' | 'a'..='c' => format!("\\u{:04X}", u32::from(letter)),
                _ => letter.to_string(),
            })
        }),
        ("escaped twice", |text| text.replace('-', "\\\\u002d")),
        ("lower percent", |text| {
            each(text, |letter| format!("%{:02x}", u32::from(letter)))
        }),
        ("upper percent, of some", |text| {
            text.replace('-', "%2D").replace('c', "%63")
        }),
        ("percent twice", |text| text.replace('-', "%252d")),
        ("percent, then escaped", |text| {
            text.replace('-', "\\u00252d")
        }),
        ("references of XML", |text| {
            each(text, |letter| format!("&#{};", u32::from(letter)))
        }),
        ("base64", |text| BASE64_STANDARD.encode(text)),
        ("base64 behind one byte", |text| {
            BASE64_STANDARD.encode(format!("{{{text}}}"))
        }),
        ("base64 behind two bytes", |text| {
            BASE64_STANDARD.encode(format!("??{text}>>>"))
        }),
        ("base64 for URLs", |text| {
            BASE64_URL_SAFE_NO_PAD.encode(format!("?{text}"))
        }),
        ("base64, escaped", |text| {
            each(&BASE64_STANDARD.encode(text), |letter| {
                format!("%{:02X}", u32::from(letter))
            })
        }),
    ];
    for (name, spell) in spellings {
        let repeat = move |request: &Arrived| {
            let text = spell(request.header("authorization"));
            match request.line.as_str() {
                "GET /servers" => ok(&format!("{{\"you sent\":\"{text}\"}}")),
                _ => answer(200, &[("x-echo", &text)], ""),
            }
        };
        let server = Server::start(repeat).await;
        let scope = scope(&egress(&format!("http://{}", server.address)));
        for place in ["/servers", "/servers/header"] {
            let failed = error(scope.fetch(get(place)).await);
            assert!(
                matches!(&failed, FetchError::Unavailable(text) if text.contains("withheld")),
                "{name} at {place}: {failed}"
            );
        }
        assert_eq!(server.lines().len(), 2);
    }
}

#[tokio::test]
async fn an_answer_that_only_looks_escaped_passes() {
    for body in [
        "{\"path\":\"C:\\\\u00\",\"rate\":\"100%\",\"odd\":\"\\ud83d\\u12\"}",
        "\\",
        "\\u",
        "%",
        "%4",
        "<a href=\"https://cloud.test/?page=2&amp;x&#62;\">AT&T</a>",
        "{\"next\":\"https:\\/\\/cloud.test\\/?page=2%26x\"}",
    ] {
        let server = Server::start(move |_| ok(body)).await;
        let answer = scope(&egress(&format!("http://{}", server.address)))
            .fetch(get("/servers"))
            .await
            .unwrap();
        assert_eq!(answer.body, body);
    }
}

#[tokio::test]
async fn no_guest_reads_an_answer_in_pieces() {
    let server = Server::start(|request| {
        let echo = request.header("authorization").to_owned();
        let range = ["range", "request-range"].map(|name| request.header(name).to_owned());
        let piece = |range: &str| {
            let (from, to) = range.strip_prefix("bytes=")?.split_once('-')?;
            echo.get(from.parse().ok()?..to.parse().ok()?)
                .map(str::to_owned)
        };
        match range.iter().find_map(|range| piece(range)) {
            Some(piece) => answer(206, &[("content-range", "bytes 0-9/25")], &piece),
            None => ok(&echo),
        }
    })
    .await;
    let scope = scope(&egress(&format!("http://{}", server.address)));
    for name in ["Range", "range", "If-Range", "Request-Range", "if_range"] {
        let request = FetchRequest {
            headers: vec![(name.to_owned(), "bytes=7-17".to_owned())],
            ..get("/servers")
        };
        let refused = error(scope.fetch(request).await);
        assert!(
            matches!(refused, FetchError::Invalid(_)),
            "{name}: {refused}"
        );
        let mut request = http::Request::get(format!("http://{}/servers", server.address));
        request = request.header(name, "bytes=7-17");
        let refused = scope
            .fetch_url(request.body(bytes::Bytes::new()).unwrap())
            .await;
        assert!(
            matches!(refused, Err(FetchError::Invalid(_))),
            "{name}: {refused:?}"
        );
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn a_part_that_nobody_asked_for_is_no_answer() {
    let part = CANARY.get(..10).unwrap();
    let server = Server::start(move |request| match request.line.as_str() {
        "GET /servers" => answer(206, &[("content-range", "bytes 0-9/25")], part),
        _ => answer(206, &[], part),
    })
    .await;
    let scope = scope(&egress(&format!("http://{}", server.address)));
    for place in ["/servers", "/servers/1"] {
        let failed = error(scope.fetch(get(place)).await);
        assert!(
            matches!(&failed, FetchError::Unavailable(text) if text.contains("206")),
            "{failed}"
        );
    }
}
