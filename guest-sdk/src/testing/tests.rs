//! The scripted host is as strict as the real one.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::http::{Request, send_in_windows};
use crate::load_balancer::{
    DeleteRequest, EnsureReply, EnsureRequest, Found, LoadBalancer, ProgressReply, Service,
    UpdateRequest,
};
use crate::{
    Config, Error, Failure, FindReply, Instances, Node, Provider, clock, log, random, state,
};

const MANIFEST: &str = r#"{
    "name": "test",
    "config": [{ "key": "REGION", "why": "where", "required": true }, { "key": "ZONES", "why": "which" }],
    "targets": [{ "name": "api", "endpoint": "https://api.example", "auth": "none", "why": "test", "rules": [
        { "methods": ["GET"], "path": "/things/{id}", "access": "read" },
        { "methods": ["GET", "POST"], "path": "/", "query": { "Action": ["List", "Get"] }, "access": "read" },
        { "methods": ["PUT"], "path": "/", "form": { "Action": ["Set"] }, "access": "write" }
    ]}]
}"#;

#[test]
fn what_the_manifest_does_not_ask_for_is_denied() {
    let table = [
        (Request::get("api", "/things/1"), true),
        (Request::get("api", "/things/1").query("any", "thing"), true),
        (Request::get("other", "/things/1"), false),
        (Request::delete("api", "/things/1"), false),
        (Request::get("api", "/things"), false),
        (Request::get("api", "/things/1/2"), false),
        (Request::get("api", "/"), false),
        (Request::get("api", "/").query("Action", "List"), true),
        (Request::post("api", "/").query("Action", "Get"), true),
        (Request::post("api", "/").query("Action", "Delete"), false),
        (
            Request::post("api", "/")
                .query("Action", "Get")
                .query("Action", "Delete"),
            false,
        ),
    ];
    for (request, allowed) in table {
        let host = TestHost::new(MANIFEST, |_| json(200, "{}"));
        let answer = request.clone().send();
        assert_eq!(
            !matches!(answer, Err(Error::Denied(_))),
            allowed,
            "{request:?}: {answer:?}"
        );
        assert_eq!(host.requests().len(), 1);
    }
}

#[test]
fn a_form_is_matched_by_its_fields() {
    let _host = TestHost::new(MANIFEST, |_| json(200, "{}"));
    let allowed = |body: &str| {
        let request =
            Request::put("api", "/").body("application/x-www-form-urlencoded", body.as_bytes());
        request.send().is_ok()
    };
    assert!(allowed("Action=Set&Other=1"));
    assert!(!allowed("Action=Delete"));
    assert!(!allowed("Action=Set&Action=Delete"));
    assert!(!allowed(""));
}

#[test]
fn a_path_that_could_mean_another_is_none() {
    let host = TestHost::open(|_| json(200, "{}"));
    let table = [
        "",
        "things",
        "//things",
        "/things/",
        "/things/..",
        "/./things",
        "/things/%2e%2e",
        "/a%2Fb",
        "/a\\b",
        "/a?b",
        "/a#b",
        "/a\nb",
    ];
    for path in table {
        let answer = Request::get("api", path).send();
        assert!(
            matches!(answer, Err(Error::Internal(_))),
            "{path:?}: {answer:?}"
        );
    }
    assert_eq!(host.requests().len(), table.len());
    assert!(Request::get("api", "/").send().is_ok());
}

#[test]
fn latency_moves_both_clocks_once_for_requests_side_by_side() {
    let host = TestHost::open(|_| json(200, "{}"));
    let latency = Duration::from_millis(200);
    host.set_latency(latency);
    let send = |count: usize| {
        let requests = (0..count).map(|_| Request::get("api", "/"));
        send_in_windows(requests, |answer| answer.map(drop)).unwrap();
        assert_eq!(clock::now(), clock::monotonic());
        clock::now()
    };
    assert_eq!(send(1), latency);
    assert_eq!(send(8), 2 * latency);
    assert_eq!(send(9), 4 * latency, "eight, and the ninth after them");
    host.set_latency(Duration::ZERO);
    assert_eq!(send(9), 4 * latency);
}

#[test]
fn without_a_test_host_nothing_answers() {
    assert!(matches!(
        Request::get("api", "/").send(),
        Err(Error::Unavailable(_))
    ));
    assert_eq!(state::get("key"), None);
}

#[test]
fn state_is_kept_for_its_time_and_within_its_room() {
    let host = TestHost::open(|_| json(200, "{}"));
    let minute = Duration::from_secs(60);
    assert!(state::set("key", b"one", minute));
    assert!(state::set("key", b"two", minute));
    assert_eq!(state::get("key").as_deref(), Some(b"two".as_slice()));
    assert!(!state::set("big", &vec![0; 256 * 1024], minute));
    assert_eq!(state::get("big"), None);
    host.advance(minute);
    assert_eq!(state::get("key"), None);
    assert!(state::set("key", b"three", Duration::from_secs(86_400)));
    host.advance(Duration::from_secs(3_600));
    assert_eq!(
        state::get("key"),
        None,
        "nothing is kept for more than an hour"
    );
    state::set("key", b"four", minute);
    state::delete("key");
    assert_eq!(state::get("key"), None);
    assert!(state::set_json("key", &(7, "seven"), minute));
    assert_eq!(state::get_json("key"), Some((7, "seven".to_owned())));
    assert_eq!(state::get_json::<Vec<u8>>("key"), None);
    state::set("key", b"five", minute);
    assert_eq!(state::get_json::<String>("key"), None);
    host.forget_state();
    assert_eq!(state::get("key"), None);
}

#[test]
fn lines_time_and_randomness_are_those_of_the_test() {
    let host = TestHost::open(|_| json(200, "{}"));
    log::warn("slow", &[("ms", "7"), ("what", "list")]);
    assert_eq!(
        host.lines(),
        [(Level::Warn, "slow ms=7 what=list".to_owned())]
    );
    let (name, size) = ("web", 7);
    log::info!("{name} is made");
    log::debug!(name, size = size + 1; "made {}", "it");
    log::error!(why = "it failed"; "no");
    assert_eq!(
        host.lines()[1..],
        [
            (Level::Info, "web is made".to_owned()),
            (Level::Debug, "made it name=web size=8".to_owned()),
            (Level::Error, "no why=it failed".to_owned()),
        ]
    );
    host.advance(Duration::from_millis(1500));
    assert_eq!(
        (clock::now(), clock::monotonic()),
        (Duration::from_millis(1500), Duration::from_millis(1500))
    );
    assert_eq!(random::bytes(3), [1, 2, 3]);
}

/// Sends as many requests in a call as it is told.
struct Busy(usize);

impl Provider for Busy {
    fn init(_: &Config) -> Result<Busy, Error> {
        Ok(Busy(1))
    }
}

impl Instances for Busy {
    fn find(&self, _: Vec<Node>) -> Result<FindReply, Error> {
        (0..self.0).try_for_each(|_| Request::get("api", "/").send().map(drop))?;
        Ok(FindReply::new(Vec::new()))
    }
}

#[test]
fn a_configuration_has_the_manifests_keys_and_no_others() {
    let table = [
        (config(&[("REGION", "")]), Ok(())),
        (config(&[("REGION", "a"), ("ZONES", "b")]), Ok(())),
        (config(&[]), Err("REGION is required: where")),
        (
            config(&[("REGION", "a"), ("ZONE", "b")]),
            Err("test has no key ZONE; did you mean ZONES?"),
        ),
        (
            config(&[("OTHER", "a")]),
            Err("test has no key OTHER; REGION is required: where"),
        ),
    ];
    for (config, expected) in table {
        let host = TestHost::new(MANIFEST, |_| json(200, "{}"));
        let end = host.init::<Busy>(&config).map(drop);
        let expected = expected.map_err(Error::invalid);
        assert_eq!(format!("{end:?}"), format!("{expected:?}"), "{config:?}");
    }
    let host = TestHost::open(|_| json(200, "{}"));
    assert!(host.init::<Busy>(&config(&[("OTHER", "a")])).is_ok());
}

#[test]
fn an_answer_that_the_host_would_not_take_is_an_error() {
    const MOST: usize = 16 << 20;
    let _host = TestHost::open(|seen| match seen.path.as_str() {
        "/partial" => status(206),
        "/largest" => Ok((200, Vec::new(), vec![0; MOST])),
        "/larger" => Ok((200, Vec::new(), vec![0; MOST + 1])),
        _ => panic!("{}", seen.path),
    });
    let ask = |path| Request::get("api", path).send();
    assert!(matches!(ask("/partial"), Err(Error::Unavailable(why)) if why.contains("206")));
    assert!(ask("/largest").is_ok());
    assert!(
        matches!(ask("/larger"), Err(Error::Unavailable(why)) if why.contains("more than 16777216 bytes"))
    );
}

#[test]
fn a_call_makes_a_limited_number_of_requests() {
    let host = TestHost::open(|_| json(200, "{}"));
    for (count, is_allowed) in [(2000, true), (2001, false), (2000, true)] {
        let end = host.find(&Busy(count), Vec::new());
        assert_eq!(end.is_ok(), is_allowed, "{count}: {end:?}");
    }
    // Outside of a call, nothing says where the next one begins.
    assert!(Busy(2001).find(Vec::new()).is_ok());
}

#[test]
fn what_carries_the_credential_belongs_to_the_host() {
    let token = || Request::get("api", "/things/1").header("X-Auth-Token", "mine");
    let signed = |name: &str| {
        let post = Request::post("api", "/").query("Action", "List");
        [post.clone().query(name, 1), post.form(name, 1)]
    };
    let refused = |auth: &str, request: Request| {
        let manifest = MANIFEST.replace(r#""auth": "none""#, &format!(r#""auth": "{auth}""#));
        let _host = TestHost::new(&manifest, |_| json(200, "{}"));
        request.send().err().map(|error| error.message().to_owned())
    };
    for auth in ["none", "bearer", "basic", "oauth2", "aws-sigv4"] {
        assert_eq!(refused(auth, token()), None, "{auth}");
    }
    let why = refused("keystone", token()).unwrap();
    assert!(
        why.contains("header x-auth-token belongs to the host"),
        "{why}"
    );
    for name in [
        "X-Amz-Algorithm",
        "x-amz-date",
        "AWSAccessKeyId",
        "Signature",
    ] {
        for request in signed(name) {
            assert_eq!(refused("bearer", request.clone()), None, "{name}");
            let why = refused("aws-sigv4", request).unwrap();
            let expected =
                format!("field {name} belongs to the host, which signs requests to target api");
            assert!(why.contains(&expected), "{why}");
        }
    }
}

#[test]
fn values_of_headers_that_are_not_visible_ascii_are_left_out() {
    let _host = TestHost::open(|_| {
        let header = |value: &str| ("X-Name".to_owned(), value.to_owned());
        Ok((200, vec![header("ü"), header("plain\ttext")], Vec::new()))
    });
    let answer = Request::get("api", "/").send().unwrap();
    assert_eq!(answer.header("x-name"), Some("plain\ttext"));
}

/// A load balancer is absent unless the state store has something.
impl LoadBalancer for Busy {
    fn ensure(&self, _: EnsureRequest) -> Result<EnsureReply, Failure> {
        Err(Error::internal("only `get` is called").into())
    }

    fn update_targets(&self, _: UpdateRequest) -> Result<ProgressReply, Failure> {
        Err(Error::internal("only `get` is called").into())
    }

    fn delete(&self, _: DeleteRequest) -> Result<ProgressReply, Failure> {
        Err(Error::internal("only `get` is called").into())
    }

    fn get(&self, _: Service) -> Result<Found, Failure> {
        match state::get("key") {
            None => Ok(Found::Absent),
            Some(_) => Err(Error::internal("the state store is not empty").into()),
        }
    }
}

#[test]
fn get_finds_an_empty_state_store_and_leaves_it_as_it_was() {
    let host = TestHost::open(|_| json(200, "{}"));
    assert!(state::set("key", b"kept", Duration::from_secs(60)));
    let found = host.get(&Busy(0), service("web", &[]));
    assert_eq!(found, Ok(Found::Absent));
    assert_eq!(state::get("key").as_deref(), Some(b"kept".as_slice()));
}
