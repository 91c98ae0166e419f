#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod handshake;
mod slow_clients;
pub(crate) mod world;

use std::fs::Permissions;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Instant;

use ccm_core::status_report::StatusReport;
use reqwest::Client as Browser;
use serde_json::{Value, json};

use super::*;
use crate::runtime_heartbeat::RuntimeHeartbeat;
use crate::settings::SniCertificate;
use world::{Authority, VERBOSITY, World, get, report};

#[tokio::test]
async fn h5_health_is_open_and_all_else_needs_a_right() {
    let world = World::new();
    let server = world.start().await;
    let anybody = world.client(None);
    assert_eq!(
        get(&anybody, &server, "/healthz").await,
        (200, "ok".to_owned())
    );
    assert_eq!(get(&anybody, &server, "/livez").await.0, 200);
    let (code, text) = get(&anybody, &server, "/metrics").await;
    let status: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(code, 403);
    assert_eq!(status["reason"], "Forbidden");
    let message = "forbidden: User \"system:anonymous\" cannot get path \"/metrics\"";
    assert_eq!(status["message"], message);
    // The names of checks are no secret, but all other paths need a known user.
    assert_eq!(get(&anybody, &server, "/healthz/ping").await.0, 403);
    assert_eq!(get(&anybody, &server, "/nothing").await.0, 403);
    let long = format!("/{}", "x".repeat(8_000));
    let (code, text) = get(&anybody, &server, &long).await;
    assert!(code == 403 && text.len() < 2_000, "{code} {text}");
}

#[tokio::test]
async fn a_client_certificate_names_a_user_and_its_groups() {
    let world = World::new();
    let server = world.start().await;
    let (code, text) = get(&world.master(), &server, "/metrics").await;
    assert_eq!(code, 200);
    assert!(
        text.contains("# TYPE things_total counter\nthings_total 1\n"),
        "{text}"
    );
    let user = world.client(Some(world.clients.issue("jane", &["developers"], &[])));
    let (code, text) = get(&user, &server, "/metrics").await;
    assert!(
        code == 403 && text.contains("User \\\"jane\\\""),
        "{code} {text}"
    );
    let stranger = world.client(Some(Authority::new().issue(
        "admin",
        &["system:masters"],
        &[],
    )));
    assert_eq!(get(&stranger, &server, "/metrics").await.0, 401);
    assert_eq!(get(&stranger, &server, "/healthz").await.0, 401);
}

#[tokio::test]
async fn only_a_front_proxy_names_users_in_headers() {
    let world = World::new();
    let server = world.start().await;
    for (issuer, name, expected) in [
        (&world.proxies, "front-proxy", 200),
        (&world.proxies, "another", 401),
        (&world.clients, "front-proxy", 403),
    ] {
        let client = world.client(Some(issuer.issue(name, &[], &[])));
        let answer = client
            .get(format!("https://{}/metrics", server.address()))
            .header("X-Remote-User", "jane")
            .header("X-Remote-Group", "system:masters")
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status(), expected, "{name}");
    }
}

#[tokio::test]
async fn proc_070_a_check_that_fails_is_named_and_its_reason_is_not() {
    let world = World::new();
    let server = world.start().await;
    world
        .checks
        .add("runtime", || Err("the secret reason".to_owned()));
    let (code, text) = get(&world.client(None), &server, "/livez").await;
    let expected = "[+]ping ok\n[-]runtime failed: reason withheld\nlivez check failed\n";
    assert_eq!((code, text.as_str()), (500, expected));
    assert_eq!(
        get(&world.client(None), &server, "/livez?exclude=runtime")
            .await
            .0,
        200
    );
    assert_eq!(get(&world.master(), &server, "/livez/ping").await.0, 200);
    assert_eq!(get(&world.master(), &server, "/livez/runtime").await.0, 500);
    assert_eq!(get(&world.master(), &server, "/livez/nothing").await.0, 404);
}

#[tokio::test]
async fn proc_074_pages_answer_in_their_forms() {
    let world = World::new();
    let server = world.start().await;
    let master = world.master();
    let (_, text) = get(&master, &server, "/flagz").await;
    assert!(
        text.starts_with("\ncloud-controller-manager flagz\nWarning: ")
            && text.ends_with("\nv=2\n"),
        "{text}"
    );
    let (_, text) = get(&master, &server, "/statusz").await;
    assert!(text.contains("\nBinary version: 1.2.3\n"), "{text}");
    assert_eq!(
        get(&master, &server, "/configz").await.1,
        "{\"cloudcontrollermanager.config.k8s.io\":{}}"
    );
    let ask = async |path: &str, accept: String| {
        let url = format!("https://{}/{path}", server.address());
        let answer = master.get(url).header("Accept", accept).send().await;
        let answer = answer.unwrap();
        let (code, headers) = (answer.status().as_u16(), answer.headers().clone());
        (code, headers, answer.text().await.unwrap())
    };
    for (kind, path, pointer, expected) in [
        ("Flagz", "flagz", "/flags/v", "2"),
        ("Statusz", "statusz", "/binaryVersion", "1.2.3"),
    ] {
        let object = |version| format!("v={version};g=config.k8s.io;as={kind}");
        for version in ["v1beta1", "v1alpha1"] {
            let accept = format!("application/json;{}", object(version));
            let (code, headers, text) = ask(path, accept).await;
            assert_eq!(
                (code, &headers["content-type"]),
                (200, &"application/json".parse().unwrap())
            );
            assert_eq!(headers.contains_key("warning"), version == "v1alpha1");
            let shown: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(shown["kind"], kind);
            assert_eq!(shown["apiVersion"], format!("config.k8s.io/{version}"));
            assert_eq!(shown["metadata"]["name"], "cloud-controller-manager");
            assert_eq!(shown.pointer(pointer), Some(&json!(expected)));
        }
        let accept = format!("application/yaml;{}", object("v1beta1"));
        let (code, headers, text) = ask(path, accept).await;
        assert_eq!(
            (code, &headers["content-type"]),
            (200, &"application/yaml".parse().unwrap())
        );
        assert!(text.contains(&format!("kind: \"{kind}\"\n")), "{text}");
        for accept in ["application/json", "text/html"] {
            let (code, _, text) = ask(path, accept.to_owned()).await;
            let status: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(
                (code, &status["reason"]),
                (406, &json!("NotAcceptable")),
                "{accept}"
            );
        }
        assert_eq!(ask(path, "text/plain".to_owned()).await.0, 200);
    }
    let accept = "application/json;v=v1beta1;g=config.k8s.io;as=Statusz".to_owned();
    let (_, _, text) = ask("statusz", accept).await;
    let shown: Value = serde_json::from_str(&text).unwrap();
    let paths = [
        "/configz", "/debug", "/flagz", "/healthz", "/livez", "/metrics", "/readyz", "/statusz",
    ];
    assert_eq!(shown["paths"], json!(paths));
}

#[tokio::test]
async fn proc_074_a_put_sets_the_verbosity_for_those_who_may() {
    let world = World::new();
    let server = world.start().await;
    let url = format!("https://{}/debug/flags/v", server.address());
    let put = async |client: &Browser, text: &'static str| {
        let answer = client.put(&url).body(text).send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    };
    let master = world.master();
    let set = "successfully set klog.logging.verbosity to 6";
    assert_eq!(put(&master, "6").await, (200, set.to_owned()));
    assert_eq!(VERBOSITY.load(Ordering::SeqCst), 6);
    for text in ["", "-1", "6\n", "six", "2147483648", "99999999999"] {
        let (code, why) = put(&master, text).await;
        assert!(
            code == 400 && why.contains("expected a number"),
            "{text}: {why}"
        );
    }
    assert_eq!(put(&world.client(None), "2").await.0, 403);
    let (code, why) = get(&master, &server, "/debug/flags/v").await;
    assert_eq!((code, why.as_str()), (406, "unsupported http method"));
    let (_, text) = get(&master, &server, "/debug/flags").await;
    assert!(text.ends_with("flags:\nv\n"), "{text}");
    assert_eq!(VERBOSITY.load(Ordering::SeqCst), 6);
}

#[tokio::test]
async fn http2_is_spoken_unless_it_is_switched_off() {
    let world = World::new();
    for (streams, expected) in [
        (Some(0), reqwest::Version::HTTP_2),
        (None, reqwest::Version::HTTP_11),
    ] {
        let server = world
            .start_with(SecureServing {
                http2_streams: streams,
                ..world.settings()
            })
            .await
            .unwrap();
        let url = format!("https://{}/healthz", server.address());
        let answer = world.client(None).get(url).send().await.unwrap();
        assert_eq!(answer.version(), expected);
        assert_eq!(answer.headers()["cache-control"], "no-cache, private");
    }
}

#[tokio::test]
async fn a_certificate_that_changes_is_served_and_a_half_one_is_not() {
    let world = World::new();
    let settings = world.settings();
    let certificates = Certificates::load(&settings).await.unwrap();
    let before = certificates.served();
    let (certificate, key) = world.servers.issue("server", &[], &["127.0.0.1"]);
    world.file("server.crt", &certificate);
    certificates.look().await;
    assert_eq!(certificates.served(), before, "the key does not fit yet");
    world.file("server.key", &key);
    certificates.look().await;
    assert_ne!(certificates.served(), before);
}

/// As on a volume whose server is away: this thread would answer no probe meanwhile.
#[tokio::test]
async fn while_the_file_of_a_certificate_is_read_its_thread_goes_on() {
    let world = World::new();
    let certificates = Certificates::load(&world.settings()).await.unwrap();
    let before = certificates.served();
    let (certificate, key) = world.servers.issue("server", &[], &["127.0.0.1"]);
    world.file("server.key", &key);
    // Whoever reads it waits for somebody who writes.
    let path = world.folder.path().join("server.crt");
    std::fs::remove_file(&path).unwrap();
    let mut mkfifo = std::process::Command::new("mkfifo");
    assert!(mkfifo.arg(&path).status().unwrap().success());
    let (goes_on, gone_on) = std::sync::mpsc::channel();
    let writing = thread::spawn(move || {
        // Otherwise a thread that waits would wait for ever.
        let _ = gone_on.recv_timeout(Duration::from_secs(10));
        std::fs::write(path, certificate)
    });
    let looking = certificates.clone();
    let looking = tokio::spawn(async move { looking.look().await });
    tokio::task::yield_now().await;
    let is_reading = !looking.is_finished();
    let _ = goes_on.send(());
    looking.await.unwrap();
    writing.join().unwrap().unwrap();
    assert!(is_reading);
    assert_ne!(certificates.served(), before);
}

#[tokio::test]
async fn a_name_of_its_own_gets_its_own_certificate() {
    let world = World::new();
    let other = Authority::new();
    let (certificate, key) = other.issue("other", &[], &["localhost"]);
    let sni = SniCertificate {
        certificate: world.file("other.crt", &certificate),
        key: world.file("other.key", &key),
        names: Vec::new(),
    };
    let server = world
        .start_with(SecureServing {
            sni: vec![sni],
            ..world.settings()
        })
        .await
        .unwrap();
    assert_eq!(get(&world.client(None), &server, "/healthz").await.0, 200);
    // For this name the server shows the other authority's certificate, which this client does not trust.
    let url = format!("https://localhost:{}/healthz", server.address().port());
    assert!(world.client(None).get(url).send().await.is_err());
}

/// As in Go, whatever the order of the flags.
#[tokio::test]
async fn a_certificate_for_a_name_comes_before_one_for_a_pattern() {
    let world = World::new();
    let (of_all, key_of_all) = Authority::new().issue("all", &[], &["*.example.com"]);
    let all = SniCertificate {
        certificate: world.file("all.crt", &of_all),
        key: world.file("all.key", &key_of_all),
        names: Vec::new(),
    };
    let (certificate, key) = world.pair("one", &["ccm.example.com"]);
    let one = SniCertificate {
        certificate,
        key,
        names: vec!["ccm.example.com".to_owned()],
    };
    for sni in [vec![all.clone(), one.clone()], vec![one, all]] {
        let settings = SecureServing {
            sni,
            ..world.settings()
        };
        let server = world.start_with(settings).await.unwrap();
        // It trusts the issuer of the certificate for the name, and not that of the other one.
        let tls = ccm_tests::tls_client::config(world.servers.certificate(), None).unwrap();
        let client = Browser::builder()
            .tls_backend_preconfigured(tls)
            .resolve("ccm.example.com", server.address())
            .build()
            .unwrap();
        let port = server.address().port();
        let url = format!("https://ccm.example.com:{port}/healthz");
        assert_eq!(client.get(url).send().await.unwrap().status(), 200);
    }
}

#[tokio::test]
async fn a_self_signed_certificate_is_made_once_in_its_folder() {
    let world = World::new();
    let folder = world.folder.path().join("certificates");
    let settings = SecureServing {
        certificate: None,
        certificate_folder: Some(folder.clone()),
        ..world.settings()
    };
    let certificate = folder.join("cloud-controller-manager.crt");
    let key = folder.join("cloud-controller-manager.key");
    let mode = || std::fs::metadata(&key).unwrap().permissions().mode() & 0o777;
    drop(world.start_with(settings.clone()).await.unwrap());
    assert_eq!(mode(), 0o600);
    let first = std::fs::read(&certificate).unwrap();
    drop(world.start_with(settings.clone()).await.unwrap());
    assert_eq!(std::fs::read(&certificate).unwrap(), first);
    // A key that everybody may read, and that somebody reads, is in the place of the new one.
    std::fs::remove_file(&certificate).unwrap();
    std::fs::set_permissions(&key, Permissions::from_mode(0o644)).unwrap();
    let former = std::fs::read_to_string(&key).unwrap();
    let opened = std::fs::File::open(&key).unwrap();
    drop(world.start_with(settings).await.unwrap());
    assert_eq!(mode(), 0o600);
    assert_eq!(std::io::read_to_string(opened).unwrap(), former);
    assert_ne!(std::fs::read_to_string(&key).unwrap(), former);
    let in_memory = SecureServing {
        certificate: None,
        ..world.settings()
    };
    assert!(world.start_with(in_memory).await.is_ok());
}

#[tokio::test]
async fn what_cannot_be_served_is_said_at_the_start() {
    let world = World::new();
    let server = world.start().await;
    let taken = SecureServing {
        port: server.address().port(),
        ..world.settings()
    };
    let error = world.start_with(taken).await.err().unwrap().to_string();
    assert!(
        error.starts_with("failed to listen on 127.0.0.1:"),
        "{error}"
    );
    let missing = SecureServing {
        certificate: Some((
            Path::new("/nowhere.crt").to_owned(),
            Path::new("/nowhere.key").to_owned(),
        )),
        ..world.settings()
    };
    let error = world.start_with(missing).await.err().unwrap().to_string();
    assert!(error.starts_with("/nowhere.crt: "), "{error}");
}

#[tokio::test]
async fn a_plain_port_has_metrics_and_nothing_else() {
    let world = World::new();
    let server = Server::plain(([127, 0, 0, 1], 0).into(), world.endpoints())
        .await
        .unwrap();
    let get = |path: &str| {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    assert!(get("/metrics").contains("things_total 1"));
    assert!(get("/configz").starts_with("HTTP/1.1 404"));
}

#[tokio::test]
async fn proc_072_a_stalled_runtime_fails_its_check() {
    let world = World::new();
    let server = world.start().await;
    let stalling = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let (interval, limit) = (Duration::from_millis(20), Duration::from_millis(400));
    let begin = async move { RuntimeHeartbeat::with(interval, limit) };
    let heartbeat = stalling.spawn(begin).await.unwrap();
    world.checks.add("runtime", move || heartbeat.health());
    let client = world.client(None);
    let becomes = async |code| {
        let begun = Instant::now();
        while get(&client, &server, "/livez").await.0 != code {
            assert!(begun.elapsed() < Duration::from_secs(10), "not {code}");
            tokio::time::sleep(interval).await;
        }
    };
    tokio::time::sleep(2 * limit).await;
    becomes(200).await;
    // Both threads wait for a message that is sent later.
    let blocked: Vec<_> = (0..2).map(|_| std::sync::mpsc::channel::<()>()).collect();
    let (releases, waits): (Vec<_>, Vec<_>) = blocked.into_iter().unzip();
    for wait in waits {
        stalling.spawn(async move { wait.recv().is_ok() });
    }
    becomes(500).await;
    let (code, text) = get(&client, &server, "/livez?verbose").await;
    assert!(code == 500 && text.contains("[-]runtime failed"), "{text}");
    drop(releases);
    becomes(200).await;
    stalling.shutdown_background();
}

#[tokio::test]
async fn the_status_page_needs_the_right_to_read_it_and_allows_nothing_of_others() {
    let world = World::new();
    let server = world.start().await;
    let (code, _) = get(&world.client(None), &server, "/").await;
    assert_eq!(code, 403);
    let ask = |accept| {
        let asked = world.master().get(format!("https://{}/", server.address()));
        asked.header("accept", accept).send()
    };
    let page = ask("text/html,application/xhtml+xml,*/*;q=0.8")
        .await
        .unwrap();
    let policy = page.headers()["content-security-policy"].to_str().unwrap();
    assert!(
        policy.starts_with("default-src 'none'; style-src 'sha256-"),
        "{policy}"
    );
    assert_eq!(page.headers()["content-type"], "text/html; charset=utf-8");
    assert_eq!(page.headers()["x-content-type-options"], "nosniff");
    assert!(page.text().await.unwrap().starts_with("<!doctype html>"));
    let json = ask("application/json").await.unwrap().text().await.unwrap();
    assert_eq!(
        serde_json::from_str::<StatusReport>(&json).unwrap(),
        report()
    );
}
