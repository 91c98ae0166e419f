#![allow(clippy::unwrap_used, reason = "tests")]
use std::time::Duration;

use super::*;

/// The proxy's URL for this server in this environment, or `-`.
fn through(server: &str, environment: &[(&str, &str)]) -> String {
    let variable = |name: &str| {
        let mut found = environment.iter().filter(|(one, _)| *one == name);
        found.next().map(|(_, value)| (*value).to_owned())
    };
    match proxy(None, &server.parse().unwrap(), variable) {
        Ok(None) => "-".to_owned(),
        Ok(Some(proxy)) => proxy.to_string(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn the_scheme_of_the_api_server_says_which_variable_counts() {
    let all = [("HTTPS_PROXY", "http://a:1"), ("HTTP_PROXY", "http://b:2")];
    for (server, environment, expected) in [
        ("https://api.test:6443", &all[..], "http://a:1/"),
        ("http://api.test:6443", &all[..], "http://b:2/"),
        ("https://api.test", &all[1..], "-"),
        (
            "https://api.test",
            &[("https_proxy", "c:3")][..],
            "http://c:3/",
        ),
        (
            "https://api.test",
            &[("HTTPS_PROXY", ""), ("https_proxy", "c:3")][..],
            "http://c:3/",
        ),
        ("https://api.test", &[("ALL_PROXY", "c:3")][..], "-"),
        (
            "https://api.test",
            &[("HTTPS_PROXY", "socks5://c:3")][..],
            "socks5://c:3/",
        ),
        (
            "https://api.test",
            &[("HTTPS_PROXY", "http://me:secret@ x")][..],
            "HTTPS_PROXY is not the URL of a proxy",
        ),
        (
            "https://api.test",
            &[("HTTPS_PROXY", "http://me:secret@p.test:3128/a b")][..],
            "HTTPS_PROXY is not the URL of a proxy: http://p.test:3128",
        ),
        ("https://localhost:6443", &all[..], "-"),
        ("https://127.0.0.9:6443", &all[..], "-"),
        ("https://[::1]:6443", &all[..], "-"),
    ] {
        assert_eq!(
            through(server, environment),
            expected,
            "{server} {environment:?}"
        );
    }
}

#[test]
fn no_proxy_excludes_the_api_server() {
    for (exceptions, expected) in [
        ("other.test", "http://p:1/"),
        ("other.test,.test", "-"),
        ("api.test:443", "http://p:1/"),
        ("api.test:6443", "-"),
    ] {
        let environment = [("HTTPS_PROXY", "http://p:1"), ("NO_PROXY", exceptions)];
        let found = through("https://api.test:6443", &environment);
        assert_eq!(found, expected, "{exceptions}");
    }
}

#[test]
fn the_kubeconfigs_proxy_counts_before_the_environment_and_whatever_no_proxy_says() {
    let kubeconfig: Kubeconfig = serde_json::from_value(serde_json::json!({
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "c"}}, {"name": "y", "context": {"cluster": "d"}}],
        "clusters": [
            {"name": "c", "cluster": {"server": "https://127.0.0.1", "proxy-url": "http://named:1"}},
            {"name": "d", "cluster": {"server": "https://127.0.0.1", "proxy-url": ""}},
        ],
    }))
    .unwrap();
    assert_eq!(named(&kubeconfig, Some("y")), None);
    let named = named(&kubeconfig, None);
    let server = "https://127.0.0.1".parse().unwrap();
    let found = proxy(named, &server, |_| Some("*".to_owned())).unwrap();
    assert_eq!(found.unwrap().to_string(), "http://named:1/");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_takes_a_request_and_does_not_answer_is_an_error() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}", silent.local_addr().unwrap());
    let client = unbound_client(&Config::new(server.parse().unwrap())).unwrap();
    let request = http::Request::get("/").body(Vec::new()).unwrap();
    let answer = tokio::time::timeout(Duration::from_secs(60), client.request_text(request));
    assert!(answer.await.unwrap().is_err());
}
