//! The credential goes to its target and nowhere else.

use std::io::Write;
use std::sync::{Arc, LazyLock, Mutex};

use bytes::Bytes;
use ccm_core::safety::permit::Mode;
use ccm_fixtures::http_server::{Reply, Server, answer, ok};
use ccm_host::egress::{Egress, EgressError, EgressLimits, FetchError, FetchRequest};
use ccm_host::grant::{Credential, Secret};
use http::{Method, Request};
use tokio::time::Instant;
use tracing::subscriber::{DefaultGuard, NoSubscriber};
use tracing::{Dispatch, Subscriber};
use tracing_subscriber::fmt::MakeWriter;

use crate::world::{CANARY, SOON, egress, error, get, get_kept, granted, permit, plain, scope};

#[tokio::test]
async fn an_answer_that_repeats_the_credential_is_withheld() {
    for reply in [
        ok(&format!("{{\"you sent\":\"Bearer {CANARY}\"}}")),
        answer(400, &[("x-echo", CANARY)], ""),
        answer(
            302,
            &[("location", &format!("https://evil.test/?token={CANARY}"))],
            "",
        ),
    ] {
        let server = Server::start(move |_| reply.clone()).await;
        let failed = error(
            scope(&egress(&format!("http://{}", server.address)))
                .fetch(get("/servers"))
                .await,
        );
        assert!(matches!(failed, FetchError::Unavailable(_)), "{failed}");
    }
}

#[tokio::test]
async fn each_target_gets_its_own_credential() {
    let (one, two) = (
        Server::start(|_| ok("")).await,
        Server::start(|_| ok("")).await,
    );
    let (first, second) = (
        format!("http://{}", one.address),
        format!("http://{}", two.address),
    );
    let granted = granted(&[("api", &first), ("other", &second)], |grants| {
        grants.targets[1].credential = Credential::Bearer(Secret::new("another-token".to_owned()));
    });
    let egress = Arc::new(Egress::new("test", &granted, EgressLimits::standard()).unwrap());
    scope(&egress).fetch(get("/servers")).await.unwrap();
    scope(&egress)
        .fetch(FetchRequest {
            target: "other".to_owned(),
            ..get("/servers")
        })
        .await
        .unwrap();
    assert_eq!(
        one.arrived()[0].header("authorization"),
        format!("Bearer {CANARY}")
    );
    assert_eq!(
        two.arrived()[0].header("authorization"),
        "Bearer another-token"
    );
}

#[tokio::test]
async fn an_answer_that_is_kept_for_one_credential_is_none_for_another() {
    let server = Server::start(|request| ok(request.header("authorization"))).await;
    let endpoint = format!("http://{}", server.address);
    // The answers repeat the credentials, so these are too short to be redacted.
    let granted = granted(&[("api", &endpoint), ("other", &endpoint)], |grants| {
        for (target, token) in grants.targets.iter_mut().zip(["one", "two"]) {
            target.credential = Credential::Bearer(Secret::new(token.to_owned()));
        }
    });
    let egress = Arc::new(Egress::new("test", &granted, EgressLimits::standard()).unwrap());
    for (target, expected) in [
        ("api", "one"),
        ("other", "two"),
        ("api", "one"),
        ("other", "two"),
    ] {
        let request = FetchRequest {
            target: target.to_owned(),
            ..get_kept("/servers")
        };
        let answer = scope(&egress).fetch(request).await.unwrap();
        assert_eq!(&answer.body[..], format!("Bearer {expected}").as_bytes());
    }
    assert_eq!(
        server.lines().len(),
        2,
        "the second round is answered from the cache"
    );
}

#[tokio::test]
async fn a_credential_that_no_header_can_carry_is_refused_without_being_shown() {
    for bad in ["", "a\r\nx: y", "tök-canary"] {
        let granted = granted(&[("api", "http://127.0.0.1:1")], |grants| {
            grants.targets[0].credential = Credential::Bearer(Secret::new(bad.to_owned()));
        });
        match Egress::new("test", &granted, EgressLimits::standard()) {
            Err(refused @ EgressError::Credential { .. }) => {
                assert!(!format!("{refused:?}").contains("canary"))
            }
            Err(other) => panic!("{other:?}"),
            Ok(_) => panic!("{bad:?} was taken"),
        }
    }
}

#[tokio::test]
async fn a_name_that_reads_like_the_credential_once_it_is_shown_is_redacted() {
    let granted = granted(&[("api", "http://127.0.0.1:1")], |grants| {
        let secret = Secret::new("open sesame now".to_owned());
        grants.targets[0].credential = Credential::Bearer(secret);
    });
    let egress = Arc::new(Egress::new("test", &granted, EgressLimits::standard()).unwrap());
    let scope = scope(&egress);
    let request = FetchRequest {
        target: "open\tsesame\nnow".to_owned(),
        ..get("/servers")
    };
    let text = error(scope.fetch(request).await).to_string();
    let is_redacted = text.contains("[redacted]") && !text.contains("sesame");
    assert!(is_redacted, "{text}");
    assert_eq!(scope.exchanges()[0].target, "[redacted]");
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Lines;

    fn make_writer(&'a self) -> Lines {
        self.clone()
    }
}

/// Sends this thread's logs to `subscriber`. A second dispatcher exists all the time: while a program has only one,
/// tracing asks that of the thread which reaches a log statement first, and keeps its answer for all threads.
fn listen(subscriber: impl Subscriber + Send + Sync) -> DefaultGuard {
    static ANOTHER: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::new()));
    LazyLock::force(&ANOTHER);
    tracing::subscriber::set_default(subscriber)
}

#[tokio::test]
async fn changes_that_are_refused_again_and_again_fill_no_log() {
    let lines = Lines::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::INFO)
        .with_ansi(false)
        .with_writer(lines.clone());
    let _guard = listen(subscriber.finish());
    let server = Server::start(|_| ok("")).await;
    let egress = egress(&format!("http://{}", server.address));
    let one_change = permit(Mode::Enforce, 1, &Arc::default());
    let scope = egress.scope(one_change, Instant::now() + SOON, false);
    scope.fetch(plain(Method::POST, "/servers")).await.unwrap();
    for _ in 0..500 {
        error(scope.fetch(plain(Method::POST, "/servers")).await);
    }
    let log = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    let count = |word: &str| log.lines().filter(|line| line.contains(word)).count();
    assert!(count("status=200") == 1 && count("refused") > 0, "{log}");
    assert!(log.lines().count() <= 12, "{log}");
    assert_eq!(server.lines().len(), 1);
}

#[tokio::test]
async fn a_credential_that_a_cloud_refuses_is_told_once_with_where_it_was_read() {
    let lines = Lines::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::WARN)
        .with_ansi(false)
        .with_writer(lines.clone());
    let _guard = listen(subscriber.finish());
    let server = Server::start(|request| match request.line.rsplit('/').next().unwrap() {
        "401" => answer(401, &[], ""),
        "403" => answer(403, &[], ""),
        _ => ok("{}"),
    })
    .await;
    let endpoint = format!("http://{}", server.address);
    let granted = granted(&[("api", &endpoint)], |grants| {
        let secret = Secret::new(CANARY.to_owned()).read_from("the file /etc/token");
        grants.targets[0].credential = Credential::Bearer(secret);
    });
    let egress = Arc::new(Egress::new("test", &granted, EgressLimits::standard()).unwrap());
    let scope = scope(&egress);
    for path in ["403", "401", "403", "401", "200"] {
        let path = format!("/servers/{path}");
        scope.fetch(get(&path)).await.unwrap();
    }
    let log = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    let reported: Vec<&str> = log.lines().collect();
    assert_eq!(reported.len(), 2, "{log}");
    for (line, parts) in reported.iter().zip([
        ["WARN", "a limit of the account", "(403)"],
        ["ERROR", "refuses the credential", "(401)"],
    ]) {
        for part in parts
            .into_iter()
            .chain(["target api from the file /etc/token"])
        {
            assert!(line.contains(part), "{part}: {line}");
        }
        assert!(!line.contains(CANARY), "{line}");
    }
}

#[tokio::test]
async fn no_log_line_at_any_level_holds_a_credential_a_header_a_query_or_a_body() {
    let lines = Lines::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
        .with_writer(lines.clone());
    let _guard = listen(subscriber.finish());
    let server = Server::start(|request| match request.line.rsplit('/').next().unwrap() {
        "1" => Reply::Close(Vec::new()),
        "2" => answer(401, &[], &format!("bad token {CANARY}")),
        _ => answer(
            200,
            &[("x-private", "private-answer-header")],
            "private-answer-body",
        ),
    })
    .await;
    let egress = egress(&format!("http://{}", server.address));
    let scope = scope(&egress);
    let private = FetchRequest {
        query: vec![("q".to_owned(), "private-query".to_owned())],
        headers: vec![("x-private".to_owned(), "private-header".to_owned())],
        ..get("/servers")
    };
    scope.fetch(private).await.unwrap();
    scope
        .fetch(FetchRequest {
            body: Some(Bytes::from_static(b"private-body")),
            ..plain(Method::POST, "/servers")
        })
        .await
        .unwrap();
    for path in ["/servers/1", "/servers/2", "/forbidden"] {
        error(scope.fetch(get(path)).await);
    }
    // A guest that knows the credential and puts it into a request does not get it into an error.
    error(scope.fetch(get(&format!("/{CANARY}"))).await);
    error(
        scope
            .fetch(FetchRequest {
                target: CANARY.to_owned(),
                ..get("/servers")
            })
            .await,
    );
    let url = Request::get(format!("http://{CANARY}.test/"))
        .body(Bytes::new())
        .unwrap();
    assert!(
        !scope
            .fetch_url(url)
            .await
            .unwrap_err()
            .to_string()
            .contains(CANARY)
    );
    assert!(!format!("{:?}", scope.exchanges()).contains(CANARY));
    let log = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    for line in ["/servers", "refused", "forbidden", "change", "api"] {
        assert!(log.contains(line), "{line} is not in the log:\n{log}");
    }
    for secret in [CANARY, "private-"] {
        assert!(!log.contains(secret), "{secret} is in the log:\n{log}");
    }
}

#[tokio::test]
async fn no_name_turns_the_writing_of_an_error_or_a_log_line() {
    let server = Server::start(|_| ok("")).await;
    let egress = egress(&format!("http://{}", server.address));
    let scope = scope(&egress);
    let turning = "api\u{202e}gpj\u{2066}x\u{2028}line\u{1b}[31m";
    let name = FetchRequest {
        target: turning.to_owned(),
        ..get("/servers")
    };
    let header = FetchRequest {
        headers: vec![(turning.to_owned(), "x".to_owned())],
        ..get("/servers")
    };
    for request in [name, header, get(turning), get(&format!("/{turning}"))] {
        let text = error(scope.fetch(request).await).to_string();
        let is_plain =
            |letter: char| !letter.is_control() && !('\u{2000}'..'\u{2070}').contains(&letter);
        assert!(text.chars().all(is_plain), "{text:?}");
        assert!(text.len() <= 600, "{text}");
    }
    let shown = scope.exchanges()[0].target.clone();
    assert_eq!(shown, "api\\u{202e}gpj\\u{2066}x\\u{2028}line\\u{1b}[31m");
    // As much as a guest can pass. Without a cut before everything else this took minutes.
    for name in ["x".repeat(2000), "…".repeat(10 << 20)] {
        let long = FetchRequest {
            target: name,
            ..get("/servers")
        };
        assert!(error(scope.fetch(long).await).to_string().contains('…'));
    }
}
