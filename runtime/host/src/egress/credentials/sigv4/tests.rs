//! AWS's own test vectors (`vectors.json`, which names their source), and cases that they do not have.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::time::Duration;

use serde::Deserialize;

use super::*;
use crate::egress::path;
use crate::grant::Secret;

#[derive(Deserialize)]
struct Vectors {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Case {
    name: String,
    /// The request as text; the body follows an empty line.
    request: String,
    canonical_request: String,
    /// Missing where the suite has only the canonical request.
    signature: Option<String>,
    token: Option<String>,
    #[serde(default)]
    signs_body_hash: bool,
}

/// Cases that do not apply, with the reason.
const NOT_APPLICABLE: [(&str, &str); 2] = [
    (
        "get-header-value-multiline",
        "RFC 9112 forbids folded header lines, and no header value here can hold one",
    ),
    (
        "post-sts-header-after",
        "the session token is signed always, never added afterwards",
    ),
];

/// Cases whose paths are resolved before they are signed: the egress refuses such paths.
const NEVER_SENT: [&str; 6] = [
    "get-relative-normalized",
    "get-relative-relative-normalized",
    "get-slash-dot-slash-normalized",
    "get-slash-normalized",
    "get-slash-pointless-dot-normalized",
    "get-slashes-normalized",
];

/// Cases that show the path on the wire; all others show it before it is encoded for the wire.
const ON_THE_WIRE: [&str; 2] = ["double-encode-path", "double-url-encode"];

fn vectors() -> Vec<Case> {
    let vectors: Vectors = serde_json::from_str(include_str!("vectors.json")).unwrap();
    vectors.cases
}

fn keys(token: Option<&str>) -> AwsKeys {
    AwsKeys {
        access_key_id: "AKIDEXAMPLE".to_owned(),
        secret_access_key: Secret::new("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".to_owned()),
        session_token: token.map(|token| Secret::new(token.to_owned())),
    }
}

fn scope() -> SigningScope {
    SigningScope {
        region: "us-east-1".to_owned(),
        service: "service".to_owned(),
    }
}

/// 2015-08-30T12:36:00Z.
fn suite_time() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_440_938_160)
}

/// Method, path, query, headers and body of a request written as text.
fn parsed(case: &Case) -> (Method, String, String, HeaderMap, String) {
    let (head, body) = case
        .request
        .split_once("\n\n")
        .unwrap_or((&case.request, ""));
    let mut lines = head.lines();
    let line = lines.next().unwrap();
    let (method, rest) = line.split_once(' ').unwrap();
    let url = rest.strip_suffix(" HTTP/1.1").unwrap();
    let (path, query) = url.split_once('?').unwrap_or((url, ""));
    let path = match ON_THE_WIRE.contains(&case.name.as_str()) {
        true => path.to_owned(),
        false => percent_decode_str(path).decode_utf8().unwrap().into_owned(),
    };
    let mut headers = HeaderMap::new();
    for line in lines {
        let (name, value) = line.split_once(':').unwrap();
        let name: HeaderName = name.parse().unwrap();
        headers.append(name, value.trim().parse().unwrap());
    }
    let method = method.parse().unwrap();
    (method, path, query.to_owned(), headers, body.to_owned())
}

/// The canonical request and the signature, with all headers that the suite signs, even those that the egress does not
/// sign.
fn signed(case: &Case) -> (String, String) {
    let (method, path, query, mut headers, body) = parsed(case);
    let host = headers.remove("host").unwrap();
    headers
        .entry(X_AMZ_DATE)
        .or_insert("20150830T123600Z".parse().unwrap());
    let keys = keys(case.token.as_deref());
    if let Some(token) = &case.token {
        headers.insert(X_AMZ_SECURITY_TOKEN, token.parse().unwrap());
    }
    if case.signs_body_hash {
        let hash = hex::encode(Sha256::digest(body.as_bytes()));
        headers.insert("x-amz-content-sha256", hash.parse().unwrap());
    }
    let message = Message {
        method: &method,
        host: host.to_str().unwrap(),
        path: &path,
        query: &query,
        headers: &headers,
        body: body.as_bytes(),
    };
    let mut signed = signed_headers(&message);
    if let Some(length) = headers.get("content-length") {
        let length = Zeroizing::new(length.to_str().unwrap().to_owned());
        signed.insert(0, ("content-length".to_owned(), length));
    }
    let canonical = canonical_request(&message, &signed);
    let hash = hex::encode(Sha256::digest(canonical.as_bytes()));
    let to_sign =
        format!("{ALGORITHM}\n20150830T123600Z\n20150830/us-east-1/service/aws4_request\n{hash}");
    let key = signing_key(&keys, "20150830", &scope());
    let signature = hex::encode(hmac(key.as_slice(), &to_sign).as_slice());
    (canonical.as_str().to_owned(), signature)
}

#[test]
fn requests_are_signed_as_in_the_test_vectors_of_aws() {
    let mut checked = 0;
    for case in vectors() {
        let name = case.name.as_str();
        if NOT_APPLICABLE.iter().any(|(known, _)| *known == name) || NEVER_SENT.contains(&name) {
            continue;
        }
        let (canonical, signature) = signed(&case);
        if !ON_THE_WIRE.contains(&name) {
            assert_eq!(canonical, case.canonical_request, "{name}");
            assert_eq!(Some(signature), case.signature, "{name}");
        } else {
            // The suite has no key and no signature for these two.
            let path = |text: &str| text.lines().nth(1).unwrap().to_owned();
            assert_eq!(path(&canonical), path(&case.canonical_request), "{name}");
        }
        checked += 1;
    }
    assert_eq!(checked, 32);
}

#[test]
fn paths_that_the_vectors_resolve_before_signing_are_never_sent() {
    let cases = vectors();
    for name in NEVER_SENT {
        let case = cases.iter().find(|case| case.name == name).expect(name);
        let (_, path, ..) = parsed(case);
        assert!(path::canonical(&path).is_err(), "{name}: {path}");
    }
    for (name, why) in NOT_APPLICABLE {
        assert!(cases.iter().any(|case| case.name == name), "{name}: {why}");
    }
}

fn request() -> Request<()> {
    let mut request = Request::post("https://ec2.us-east-1.amazonaws.com/?b=2&a=1")
        .body(())
        .unwrap();
    let headers = request.headers_mut();
    headers.insert("content-type", "application/json".parse().unwrap());
    headers.insert("user-agent", "ccm".parse().unwrap());
    request
}

fn authorization(request: &Request<()>) -> String {
    let value = &request.headers()["authorization"];
    assert!(value.is_sensitive());
    value.to_str().unwrap().to_owned()
}

#[test]
fn the_token_the_body_and_every_header_but_those_that_change_on_the_way_are_signed() {
    let sign_with = |keys: &AwsKeys, body: &[u8], adjust: fn(&mut Request<()>)| {
        let mut request = request();
        adjust(&mut request);
        sign(&mut request, body, &scope(), keys, suite_time()).unwrap();
        authorization(&request)
    };
    let plain = sign_with(&keys(None), b"", |_| ());
    assert!(
        plain.starts_with(
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders=content-type;host;x-amz-date, Signature="
        ),
        "{plain}"
    );
    let agent: fn(&mut Request<()>) = |request| {
        let headers = request.headers_mut();
        headers.insert("user-agent", "another".parse().unwrap());
    };
    assert_eq!(sign_with(&keys(None), b"", agent), plain);
    let kind: fn(&mut Request<()>) = |request| {
        let headers = request.headers_mut();
        headers.insert("content-type", "text/plain".parse().unwrap());
    };
    let host: fn(&mut Request<()>) = |request| {
        *request.uri_mut() = "https://ec2.eu-west-1.amazonaws.com/?a=1&b=2"
            .parse()
            .unwrap();
    };
    let others = [
        sign_with(&keys(None), b"x", |_| ()),
        sign_with(&keys(None), b"", kind),
        sign_with(&keys(None), b"", host),
        sign_with(&keys(Some("token")), b"", |_| ()),
    ];
    assert!(others.iter().all(|other| *other != plain), "{others:?}");
    assert!(others[3].contains("SignedHeaders=content-type;host;x-amz-date;x-amz-security-token"));
}

#[test]
fn what_no_header_can_carry_is_an_error_without_a_value() {
    let bad = AwsKeys {
        session_token: Some(Secret::new("a\r\nb-canary".to_owned())),
        ..keys(None)
    };
    let failed = sign(&mut request(), b"", &scope(), &bad, suite_time()).unwrap_err();
    assert_eq!(failed, CredentialError::Value);
    assert!(!failed.to_string().contains("canary"));
}
