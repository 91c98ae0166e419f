//! One table of requests and the cloud's answers, for the real egress and for the `TestHost`.

use std::sync::Arc;

use ccm_guest::bindings::host::ccm::provider::http as guest;
use ccm_guest::http::Request;
use ccm_guest::testing::TestHost;
use ccm_host::egress::{CallScope, Egress, EgressLimits, FetchError, FetchRequest};
use ccm_host::grant::{Credential, Secret};
use ccm_host::manifest::Manifest;
use ccm_tests::harness::Test;

use super::cloud::{self, Cloud};
use crate::misbehaving::world::{TIMEOUT, TOKEN, block_on};
use crate::permits;

pub(crate) const TESTS: &[Test] = &[(
    "requests::each_is_sent_or_refused_alike",
    each_is_sent_or_refused_alike,
)];

/// A manifest of this version of the contract. `absence` exists in the later one alone.
pub(super) fn manifest(contract: &str) -> String {
    let absence = match contract {
        FIRST => "",
        _ => r#", "absence": [{ "status": 400, "contains": "NoSuchThing" }]"#,
    };
    MANIFEST
        .replace("CONTRACT", contract)
        .replace("/*absence*/", absence)
}

const FIRST: &str = "0.1.0";
pub(super) const SECOND: &str = "0.2.0";

const MANIFEST: &str = r#"{
    "contract": "CONTRACT", "name": "test", "version": "1",
    "targets": [{
        "name": "api", "endpoint": "https://api.test.example", "auth": "bearer", "why": "a test",
        "rules": [
            { "methods": ["GET"], "path": "/things/{id}", "access": "read"/*absence*/ },
            { "methods": ["POST", "PATCH"], "path": "/things", "access": "write" },
            { "methods": ["POST"], "path": "/", "form": { "Action": ["List", "Get"] }, "access": "read" },
            { "methods": ["POST"], "path": "/", "form": { "Action": ["Create"] }, "access": "write" },
            { "methods": ["GET", "POST"], "path": "/query", "query": { "Action": ["List"] }, "access": "read" }
        ]
    }, {
        "name": "optional", "endpoint": "https://optional.test.example", "auth": "bearer", "why": "a test", "required": false,
        "rules": [{ "methods": ["GET"], "path": "/things/{id}", "access": "read" }]
    }]
}"#;

const FORM: &str = "application/x-www-form-urlencoded";

/// The result of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    Sent,
    /// Nothing was sent; the reason contains this text.
    Denied(String),
    Invalid(String),
    /// The answer was refused; the reason contains this text.
    Unavailable(String),
    TooLarge(String),
}

impl End {
    /// Whether this is the same end, for a reason that contains the expected text.
    pub(super) fn is_as(&self, expected: &End) -> bool {
        match (expected, self) {
            (End::Sent, End::Sent) => true,
            (End::Denied(part), End::Denied(text))
            | (End::Invalid(part), End::Invalid(text))
            | (End::Unavailable(part), End::Unavailable(text))
            | (End::TooLarge(part), End::TooLarge(text)) => text.contains(part),
            _ => false,
        }
    }
}

fn sent() -> End {
    End::Sent
}

fn denied(why: &str) -> End {
    End::Denied(why.to_owned())
}

fn invalid(why: &str) -> End {
    End::Invalid(why.to_owned())
}

fn unavailable(why: &str) -> End {
    End::Unavailable(why.to_owned())
}

pub(super) fn large(why: &str) -> End {
    End::TooLarge(why.to_owned())
}

pub(super) fn get(path: &str) -> Request {
    Request::get("api", path)
}

pub(super) fn thing() -> Request {
    get("/things/1")
}

fn form(body: &str) -> Request {
    Request::post("api", "/").body(FORM, body)
}

fn json(path: &str, body: &str) -> Request {
    Request::post("api", path).body("application/json", body)
}

fn query(body: &str) -> Request {
    json("/query", body).query("Action", "List")
}

fn cases() -> Vec<(Request, End)> {
    let segments = "no empty segment";
    let dots = "no segment of dots";
    let separator = "none of ? # \\";
    let owned = |name: &str| invalid(&format!("header {name} belongs to the host"));
    let unrequested = "the module's own manifest does not request it";
    let many = |count: usize| (0..count).fold(thing(), |one, index| one.query("q", index));
    let mut cases = vec![
        (thing(), sent()),
        (thing().query("any", "thing"), sent()),
        (get("/things/a%20b"), sent()),
        (get("/things/a b"), sent()),
        (
            Request::get("other", "/things/1"),
            denied("requests no such target"),
        ),
        (
            Request::get("other", "nonsense"),
            denied("requests no such target"),
        ),
        (Request::delete("api", "/things/1"), denied(unrequested)),
        (get("/things"), denied(unrequested)),
        (get("/things/1/2"), denied(unrequested)),
        (get("/"), denied(unrequested)),
        // Paths.
        (get(""), invalid("begins with /")),
        (get("things/1"), invalid("begins with /")),
        (
            get("http://169.254.169.254/latest"),
            invalid("begins with /"),
        ),
        (get("/things/"), invalid(segments)),
        (get("//things"), invalid(segments)),
        (get("/things/.."), invalid(dots)),
        (get("/things/%2e%2e"), invalid(dots)),
        (get("/things/..;x"), invalid(dots)),
        (get("/things/. "), invalid(dots)),
        (get("/things/a%2Fb"), invalid(separator)),
        (get("/things/a\\b"), invalid(separator)),
        (get("/things/1?x=1"), invalid(separator)),
        (get("/things/1#x"), invalid(separator)),
        (get("/things/a\nb"), invalid("control characters")),
        (get("/things/a%00b"), invalid("control characters")),
        (
            get("/things/%zz"),
            invalid("percent-encoding of the path is broken"),
        ),
        (
            get("/things/%ff"),
            invalid("percent-encoding of the path is broken"),
        ),
        (get("/things/%2541"), invalid("encoded once, not twice")),
        (
            get(&format!("/things/{}", "a".repeat(2048))),
            invalid("at most 2048 bytes"),
        ),
        // Queries.
        (many(64), sent()),
        (many(65), invalid("at most 64 pairs")),
        (thing().query("q", "x".repeat(8192)), invalid("8192 bytes")),
        (
            thing().query("_method", "DELETE"),
            denied("can stand for another method"),
        ),
        (
            thing().query("_Method[]", "DELETE"),
            denied("can stand for another method"),
        ),
        // Headers.
        (thing().header("x-request", "1"), sent()),
        (thing().header("Accept", "text/xml"), sent()),
        (thing().header("cache-control", "max-age=5"), sent()),
        (
            thing().header("x one", "1"),
            invalid("is not a header name"),
        ),
        (thing().header("", "1"), invalid("is not a header name")),
        (
            thing().header("x-split", "a\r\nb"),
            invalid("characters that no header can carry"),
        ),
        (thing().header("x-name", "ü"), sent()),
        (
            thing().header("x-name", "a\u{7f}"),
            invalid("characters that no header can carry"),
        ),
        (
            (0..33).fold(thing(), |one, _| one.header("x", "1")),
            invalid("33 headers, at most 32"),
        ),
        (
            thing().header("x", "v".repeat(16 << 10)),
            invalid("bytes of headers, at most 16384"),
        ),
        // Bodies.
        (
            Request::patch("api", "/things").body("text/plain", "x"),
            sent(),
        ),
        (
            Request::post("api", "/things").body("text/plain", "x"),
            sent(),
        ),
        (json("/things", &"x".repeat(1 << 20)), sent()),
        (
            json("/things", &"x".repeat((1 << 20) + 1)),
            invalid("at most 1048576 bytes"),
        ),
        (
            thing().body("text/plain", "x"),
            invalid("GET carries no body"),
        ),
        (thing().body("text/plain", ""), sent()),
        (
            json("/things", "{}").header("Content-Type", FORM),
            invalid("content-type is there twice"),
        ),
        (
            json("/things", "{}").header("content_type", FORM),
            owned("content_type"),
        ),
        // Fields of forms.
        (form("Action=List&Other=1"), sent()),
        (
            Request::post("api", "/")
                .form("Action", "Create")
                .form("Name", "a b&c"),
            sent(),
        ),
        (form("Action=%4cist"), sent()),
        (form("Action=Delete"), denied(unrequested)),
        (form(""), denied(unrequested)),
        (form("Action=List&Action=Create"), denied(unrequested)),
        (
            form("Action=List").query("Action", "Create"),
            denied(unrequested),
        ),
        (
            form("Action=List&action=Create"),
            denied("could be taken for it"),
        ),
        (
            form("Action=List&Action[]=Create"),
            denied("could be taken for it"),
        ),
        (
            form("Action=List").query("x-http-method-override", "PUT"),
            denied("another method"),
        ),
        (json("/", r#"{"Action": "List"}"#), denied(unrequested)),
        (
            Request::post("api", "/").body("text/plain", "Action=List"),
            denied(unrequested),
        ),
        // Fields of queries.
        (get("/query").query("Action", "List"), sent()),
        (get("/query").query("Action", "Create"), denied(unrequested)),
        (get("/query"), denied(unrequested)),
        (query("{}"), sent()),
        (query(r#"{"Action": "List", "a": 1}"#), sent()),
        (
            query(r#"{"Action": "Create"}"#),
            denied("which the body contradicts"),
        ),
        (
            query(r#"{"Action": "List", "Action": "Create"}"#),
            denied("which the body contradicts"),
        ),
        (
            query(r#"{"ACTION": "Create"}"#),
            denied("could be taken for it"),
        ),
        (query("[1]"), denied("JSON is one JSON object")),
        (
            Request::post("api", "/query")
                .query("Action", "List")
                .body("text/plain", "x"),
            denied("a body is application/json or"),
        ),
        (
            Request::post("api", "/query")
                .query("Action", "List")
                .body("application/json; charset=latin1", "{}"),
            denied("a body is application/json or"),
        ),
        // Answers of the cloud.
        (get(cloud::PARTIAL), unavailable("a partial response")),
        (
            get(cloud::NO_STATUS),
            unavailable("status 600 is no answer"),
        ),
        (get(cloud::COMPRESSED), unavailable("is compressed")),
        (get(cloud::IDENTITY), sent()),
        (get(cloud::MANY_HEADERS), large("bytes of headers")),
        (
            get(cloud::TOO_MANY_HEADERS),
            unavailable("client error (SendRequest): message head is too large"),
        ),
        (get(cloud::LARGEST), sent()),
        (get(cloud::TOO_LARGE), large("more than 16777216 bytes")),
    ];
    let headers = "accept-encoding authorization AUTHORIZATION connection content-encoding content-length cookie cookie2 \
                   expect forwarded host http2-settings if-range keep-alive range request-range set-cookie te trailer \
                   transfer-encoding upgrade user-agent via x-http-method x-http-method-override x-method-override \
                   x-original-url x-real-ip x-rewrite-url proxy-authorization x-forwarded-for x_forwarded_for \
                   x-amz-security-token sec-fetch-mode";
    for name in headers.split_whitespace() {
        cases.push((thing().header(name, "1"), owned(&name.to_ascii_lowercase())));
    }
    let fields = "$method x-http-method x-http-method-override x-method-override x_http_method \
                  x_http_method_override x_method_override";
    for name in fields.split_whitespace() {
        let overridden = thing().query(name, "DELETE");
        cases.push((overridden, denied("can stand for another method")));
    }
    cases
}

/// Requests of contract 0.2 alone. Whether an answer may be cached concerns the cloud and the real host alone: the
/// `TestHost` treats such requests like all others.
fn later_cases() -> Vec<(Request, End)> {
    let second = std::time::Duration::from_secs(1);
    let list = || form("Action=List").max_age(second);
    vec![
        (thing().supplementary(), sent()),
        (list(), sent()),
        (list(), sent()),
        (list().supplementary(), sent()),
        (query("{}").max_age(second), sent()),
        (form("Action=Create").max_age(second), sent()),
        (
            form("Action=Delete").max_age(second).supplementary(),
            denied("the module's own manifest does not request it"),
        ),
        (
            thing().supplementary().header("authorization", "1"),
            invalid("header authorization belongs to the host"),
        ),
    ]
}

fn each_is_sent_or_refused_alike() {
    alike(FIRST, &cases());
    let all = [cases(), later_cases()].concat();
    alike(SECOND, &all);
}

fn alike(contract: &str, cases: &[(Request, End)]) {
    let manifest = manifest(contract);
    let real = block_on(really(&manifest, cases));
    let test_host = TestHost::new(&manifest, cloud::answer);
    let mut wrong = Vec::new();
    for ((request, expected), real) in cases.iter().zip(real) {
        let answer = guest_fetch(request);
        if answer != real || !real.is_as(expected) {
            let shown: String = format!("{request:?}").chars().take(300).collect();
            wrong.push(format!(
                "{contract}: {shown}: TestHost {answer:?}, real {real:?}, expected {expected:?}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(test_host.requests().len(), cases.len());
}

/// The `TestHost`'s result of a request.
pub(super) fn guest_fetch(request: &Request) -> End {
    guest_end(ccm_guest::testing::fetch(&request.to_raw()))
}

/// An end that a guest sees.
pub(super) fn guest_end<T>(end: Result<T, guest::FetchError>) -> End {
    match end {
        Ok(_) => End::Sent,
        Err(guest::FetchError::Denied(why)) => End::Denied(why),
        Err(guest::FetchError::Invalid(why)) => End::Invalid(why),
        Err(guest::FetchError::Unavailable(why)) => End::Unavailable(why),
        Err(guest::FetchError::TooLarge(why)) => End::TooLarge(why),
        Err(other) => panic!("{other:?}"),
    }
}

/// The real host's result of each request.
async fn really(manifest: &str, cases: &[(Request, End)]) -> Vec<End> {
    let cloud = Cloud::start().await;
    let scope = scope(manifest, &cloud);
    let mut ends = Vec::new();
    for (request, _) in cases {
        ends.push(host_fetch(&scope, request).await);
    }
    let is_refused = |end: &&End| matches!(end, End::Denied(_) | End::Invalid(_));
    let reached = ends.len() - ends.iter().filter(is_refused).count();
    assert!(
        cloud.requests() <= reached && cloud.requests() > 10,
        "kept answers may be shared"
    );
    ends
}

/// The egress of one call of the real host, which may make many changes.
pub(super) fn scope(manifest: &str, cloud: &Cloud) -> CallScope {
    scope_of(manifest, cloud, 1000)
}

/// The egress of one call of the real host, which makes at most `changes`.
pub(super) fn scope_of(manifest: &str, cloud: &Cloud, changes: u32) -> CallScope {
    let manifest = Manifest::parse(manifest.as_bytes()).unwrap();
    let mut grants = manifest.as_grants();
    grants.targets[0].endpoint = cloud.endpoint().parse().unwrap();
    grants.targets[0].credential = Credential::Bearer(Secret::new(TOKEN.to_owned()));
    let granted = manifest.narrow(grants).unwrap();
    let egress = Arc::new(Egress::new("test", &granted, EgressLimits::standard()).unwrap());
    let permit = permits::permit(TIMEOUT, ccm_core::safety::permit::Mode::Enforce, changes);
    let deadline = tokio::time::Instant::now() + TIMEOUT;
    egress.scope(permit, deadline, false)
}

/// The real host's result of a request.
pub(super) async fn host_fetch(scope: &CallScope, request: &Request) -> End {
    let end = scope.fetch(translated(request)).await;
    if let Ok(answer) = &end {
        assert_eq!(answer.status, 200);
    }
    host_end(end)
}

/// An end of the real host.
pub(super) fn host_end<T>(end: Result<T, FetchError>) -> End {
    match end {
        Ok(_) => End::Sent,
        Err(FetchError::Denied(why)) => End::Denied(why),
        Err(FetchError::Invalid(why)) => End::Invalid(why),
        Err(FetchError::Unavailable(why)) => End::Unavailable(why),
        Err(FetchError::TooLarge(why)) => End::TooLarge(why),
        Err(other) => panic!("{other:?}"),
    }
}

/// The request as the real host gets it from a guest.
pub(super) fn translated(request: &Request) -> FetchRequest {
    let raw = request.to_raw();
    FetchRequest {
        supplementary: raw.supplementary,
        target: raw.target,
        method: ccm_guest::http::method_name(raw.method).parse().unwrap(),
        path: raw.path,
        query: raw.query,
        headers: raw.headers,
        body: raw.body.map(Into::into),
    }
}
