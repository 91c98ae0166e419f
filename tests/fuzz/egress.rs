//! `METHOD URL`, or `METHOD /path` for a target by its name: a guest's possible request. Everything is granted as a
//! change and the permit is one of plan mode, so that requests are recorded and never sent.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use ccm_core::moment::Moment;
use ccm_core::safety::permit::{CloudRequest, Mode};
use ccm_fixtures::audit::RecordingAudit;
use ccm_fixtures::permits::audited;
use ccm_host::Digest;
use ccm_host::egress::path::{PathPattern, canonical};
use ccm_host::egress::rules::Rule;
use ccm_host::egress::{Egress, EgressLimits, FetchError, FetchRequest};
use ccm_host::grant::{Credential, RequestBudget, TargetGrant};
use ccm_host::manifest::{Granted, GrantedTarget};
use ccm_tests::fuzz::{Target, Verdict};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde_json::json;
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;
use url::{Url, form_urlencoded};

use crate::hold;

pub(crate) const TARGET: Target = Target {
    name: "egress",
    words: &[
        "https://api.example.com/v1/",
        "https://api.example.com/v1/deep/",
        "http://127.0.0.1:8443/",
        "servers/1",
        "/../",
        "/./",
        "%2e%2e",
        "%2f",
        "%5c",
        "%25",
        "%00",
        "\\",
        "//",
        "..;",
        "@",
        ":443",
        ":80",
        "#",
        "?",
        "?a=b&c=d",
        ".evil.example",
        "169.254.169.254",
        "0x7f.1",
        "2130706433",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "GET ",
        "POST ",
        "DELETE ",
        "CONNECT ",
        "\u{ff0e}",
        "\u{3002}",
    ],
    longest: 4096,
    check,
};

/// The operator's targets: name, endpoint, and paths.
const GRANTED: [(&str, &str, &[&str]); 3] = [
    (
        "api",
        "https://api.example.com/v1",
        &["/servers", "/servers/{id}", "/a/{b}/c"],
    ),
    ("deep", "https://api.example.com/v1/deep", &["/", "/{any}"]),
    (
        "local",
        "http://127.0.0.1:8443/",
        &["/{any}", "/{any}/{more}"],
    ),
];
/// The characters that stay as they are in a query.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');
const METHODS: [&str; 3] = ["GET", "POST", "DELETE"];

static WORLD: LazyLock<(Runtime, Arc<Egress>)> = LazyLock::new(|| {
    let target = |(name, endpoint, paths): (&str, &str, &[&str])| {
        let rule = |path: &&str| {
            let rule = json!({ "methods": METHODS, "path": path, "access": "write" });
            serde_json::from_value::<Rule>(rule).unwrap()
        };
        let rules: Vec<Rule> = paths.iter().map(rule).collect();
        let lines: Vec<_> = rules.iter().flat_map(Rule::lines).collect();
        GrantedTarget {
            changes: lines.clone(),
            lines,
            grant: TargetGrant {
                requests: RequestBudget::default(),
                name: name.to_owned(),
                endpoint: endpoint.parse().unwrap(),
                rules,
                credential: Credential::None,
                addresses: Vec::new(),
                ca_pem: None,
                fingerprints: Vec::new(),
                proxy: None,
            },
        }
    };
    let granted = Granted {
        targets: GRANTED.into_iter().map(target).collect(),
        annotation_prefixes: Vec::new(),
        withheld: Vec::new(),
        warnings: Vec::new(),
    };
    let egress = Egress::new("sample", &granted, EgressLimits::standard()).unwrap();
    let runtime = Builder::new_current_thread().enable_time().build();
    (runtime.unwrap(), Arc::new(egress))
});

fn check(input: &[u8]) -> Result<Verdict, String> {
    let text = String::from_utf8_lossy(input);
    let Some((method, place)) = text.trim_end_matches('\n').split_once(' ') else {
        return Ok(Verdict::Refused("no request".to_owned()));
    };
    let Ok(method) = http::Method::from_bytes(method.as_bytes()) else {
        return Ok(Verdict::Refused("no method".to_owned()));
    };
    let (runtime, egress) = &*WORLD;
    let (audit, never) = (Arc::<RecordingAudit>::default(), Moment(Duration::MAX));
    let permit = audited(never, Mode::Plan, 1, audit.clone());
    let request = match place.starts_with('/') {
        true => None,
        false => match http::Request::builder()
            .method(method.clone())
            .uri(place)
            .body(bytes::Bytes::new())
        {
            Ok(request) => Some(request),
            Err(_) => return Ok(Verdict::Refused("no URI".to_owned())),
        },
    };
    let query = request
        .as_ref()
        .and_then(|request| request.uri().query())
        .unwrap_or_default()
        .to_owned();
    let by_url = request.is_some();
    let end = runtime.block_on(async {
        let scope = egress.scope(permit, Instant::now() + Duration::from_secs(60), false);
        match request {
            Some(request) => scope.fetch_url(request).await.map(drop),
            None => {
                let request = FetchRequest {
                    supplementary: false,
                    target: "api".to_owned(),
                    method: method.clone(),
                    path: place.to_owned(),
                    query: Vec::new(),
                    headers: Vec::new(),
                    body: None,
                };
                scope.fetch(request).await.map(drop)
            }
        }
    });
    assert!(audit.requests().is_empty(), "nothing is sent in plan mode");
    let received = audit.refused().pop();
    match (end, received) {
        (Err(FetchError::Denied(_)), Some(sent)) => {
            may_be_sent(&sent, method.as_str(), &query)?;
            if by_url {
                is_what_was_asked_for(&sent, place)?;
            }
            Ok(Verdict::Taken)
        }
        (Err(FetchError::Denied(why) | FetchError::Invalid(why)), None) => {
            Ok(Verdict::Refused(why))
        }
        (end, received) => Err(format!(
            "it went on to {received:?}, and ended with {end:?}"
        )),
    }
}

/// The recorded request is granted, and has exactly the path that was matched.
fn may_be_sent(sent: &CloudRequest, method: &str, query: &str) -> Result<(), String> {
    let granted = GRANTED.into_iter().find(|(name, ..)| *name == sent.target);
    let (_, endpoint, paths) = granted.ok_or_else(|| format!("no target: {sent:?}"))?;
    let endpoint: Url = endpoint.parse().unwrap();
    let path = canonical(&sent.path).map_err(|error| format!("{error}: {sent:?}"))?;
    hold(path.as_str() == sent.path, || {
        format!("{path:?} is another form of {sent:?}")
    })?;
    let matches = |pattern: &&str| PathPattern::parse(pattern).unwrap().matches(&path);
    hold(
        METHODS.contains(&method) && sent.method == method && paths.iter().any(matches),
        || format!("no rule admits it: {sent:?}"),
    )?;
    for segment in path.segments() {
        let is_plain = !segment.is_empty()
            && segment != "."
            && segment != ".."
            && !segment.contains(['/', '\\', '\0']);
        hold(is_plain, || {
            format!("a segment that servers read in two ways: {sent:?}")
        })?;
    }
    // The fingerprint is of the URL that is sent: it has to be that of the granted endpoint and the matched path.
    let mut url = format!(
        "{}{}{}",
        endpoint.origin().ascii_serialization(),
        endpoint.path().trim_end_matches('/'),
        sent.path
    );
    let encoded = |text: &str| utf8_percent_encode(text, PLAIN).to_string();
    let pairs: Vec<_> = form_urlencoded::parse(query.as_bytes())
        .map(|(name, value)| format!("{}={}", encoded(&name), encoded(&value)))
        .collect();
    if !pairs.is_empty() {
        url = format!("{url}?{}", pairs.join("&"));
    }
    let mut parts = Vec::new();
    for part in [method, url.as_str(), ""] {
        parts.extend((part.len() as u64).to_be_bytes());
        parts.extend(part.as_bytes());
    }
    hold(Digest::of(&parts).hex() == sent.sha256, || {
        format!("not {url} is sent: {sent:?}")
    })
}

/// Browsers' parser of URLs reads the same place in the guest's input.
fn is_what_was_asked_for(sent: &CloudRequest, place: &str) -> Result<(), String> {
    let asked = Url::parse(place).map_err(|error| format!("{error}: {sent:?}"))?;
    let (_, endpoint, _) = GRANTED
        .into_iter()
        .find(|(name, ..)| *name == sent.target)
        .unwrap();
    let endpoint: Url = endpoint.parse().unwrap();
    hold(asked.origin() == endpoint.origin(), || {
        format!("{asked} is elsewhere: {sent:?}")
    })?;
    hold(
        asked.username().is_empty() && asked.password().is_none(),
        || format!("{asked} names a user"),
    )?;
    let decoded = |path: &str| percent_decode_str(path).collect::<Vec<u8>>();
    let base = endpoint.path().trim_end_matches('/');
    let is_same = decoded(asked.path()) == decoded(&format!("{base}{}", sent.path));
    // An endpoint without a trailing slash is the same place.
    let is_base = asked.path() == base && sent.path == "/";
    hold(is_same || is_base, || {
        format!("{asked} is another path: {sent:?}")
    })
}
