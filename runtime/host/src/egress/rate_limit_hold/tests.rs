#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use super::*;
use http::{HeaderName, HeaderValue};

fn wait(status: u16, headers: &[(&str, &str)]) -> Option<u64> {
    let wall = httpdate::parse_http_date("Fri, 06 Nov 2026 08:00:00 GMT").unwrap();
    let headers = headers.iter().map(|(name, value)| {
        (
            name.parse::<HeaderName>().unwrap(),
            HeaderValue::from_str(value).unwrap(),
        )
    });
    asked_for(status, &headers.collect(), wall).map(|wait| wait.as_secs())
}

#[test]
fn an_answer_is_understood_and_never_beyond_an_hour() {
    let now = httpdate::parse_http_date("Fri, 06 Nov 2026 08:00:00 GMT").unwrap();
    let now = now
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap()
        .as_secs();
    let soon = (now + 30).to_string();
    let late = (now + 3000).to_string();
    let past = (now - 30).to_string();
    for (status, headers, expected) in [
        (200, vec![], None),
        (429, vec![], Some(1)),
        (503, vec![], None),
        (500, vec![("retry-after", "9")], None),
        (429, vec![("retry-after", "7")], Some(7)),
        (503, vec![("retry-after", "7")], Some(7)),
        (429, vec![("retry-after", "0")], Some(1)),
        (429, vec![("retry-after", "7200")], Some(3600)),
        (429, vec![("retry-after", "1000000000000")], Some(3600)),
        (
            429,
            vec![("retry-after", "99999999999999999999999999")],
            Some(3600),
        ),
        (429, vec![("retry-after", "-5")], Some(1)),
        (429, vec![("retry-after", "soon")], Some(1)),
        (429, vec![("retry-after", "1.5")], Some(1)),
        (
            429,
            vec![("retry-after", "Fri, 06 Nov 2026 08:02:00 GMT")],
            Some(120),
        ),
        // By the clock of the cloud, where the answer tells it.
        (
            429,
            vec![
                ("date", "Fri, 06 Nov 2026 09:00:00 GMT"),
                ("retry-after", "Fri, 06 Nov 2026 09:02:00 GMT"),
            ],
            Some(120),
        ),
        (
            429,
            vec![
                ("date", "today"),
                ("retry-after", "Fri, 06 Nov 2026 08:02:00 GMT"),
            ],
            Some(120),
        ),
        (
            429,
            vec![
                ("date", "Fri, 06 Nov 2026 08:00:10 GMT"),
                ("ratelimit-reset", &soon),
            ],
            Some(20),
        ),
        (
            429,
            vec![("retry-after", "Fri, 06 Nov 2026 07:00:00 GMT")],
            Some(1),
        ),
        (
            429,
            vec![("retry-after", "Thu, 06 Nov 2036 07:00:00 GMT")],
            Some(3600),
        ),
        (
            200,
            vec![("ratelimit-remaining", "0"), ("ratelimit-reset", "20")],
            Some(20),
        ),
        (
            200,
            vec![("ratelimit-remaining", "0"), ("ratelimit-reset", &soon)],
            Some(30),
        ),
        (
            200,
            vec![("ratelimit-remaining", "0"), ("ratelimit-reset", &late)],
            Some(60),
        ),
        (
            200,
            vec![("ratelimit-remaining", "0"), ("ratelimit-reset", &past)],
            Some(1),
        ),
        (
            200,
            vec![("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "5")],
            Some(5),
        ),
        (
            200,
            vec![("x-rate-limit-remaining", "0"), ("x-rate-limit-reset", "5")],
            Some(5),
        ),
        (429, vec![("x-rate-limit-reset", &soon)], Some(30)),
        (
            200,
            vec![("ratelimit-remaining", "1"), ("ratelimit-reset", "20")],
            None,
        ),
        (200, vec![("ratelimit-remaining", "0")], None),
        (
            200,
            vec![
                ("ratelimit-remaining", "0"),
                ("ratelimit-reset", "18446744073709551615"),
            ],
            Some(60),
        ),
        (429, vec![("ratelimit-reset", "20")], Some(20)),
        (
            429,
            vec![("ratelimit-reset", "20"), ("retry-after", "3")],
            Some(3),
        ),
    ] {
        assert_eq!(wait(status, &headers), expected, "{status} {headers:?}");
    }
}

#[test]
fn a_hold_ends_by_itself_and_is_never_shortened() {
    let rate_limit_hold = RateLimitHold::default();
    let now = Instant::now();
    assert_eq!(rate_limit_hold.remaining(now), None);
    let after = |seconds: &'static str| {
        HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static(seconds))])
    };
    rate_limit_hold.observe(429, &after("30"), now, SystemTime::now());
    rate_limit_hold.observe(429, &after("5"), now, SystemTime::now());
    rate_limit_hold.observe(200, &HeaderMap::new(), now, SystemTime::now());
    assert_eq!(
        rate_limit_hold.remaining(now),
        Some(Duration::from_secs(30))
    );
    assert_eq!(
        rate_limit_hold.remaining(now + Duration::from_secs(30)),
        None
    );
}
