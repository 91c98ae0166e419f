#![allow(clippy::unwrap_used, reason = "tests")]
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

/// The table of golang.org/x/net/http/httpproxy in this project's words.
#[test]
fn no_proxy_is_read_as_go_reads_it() {
    for (exceptions, server, is_excepted) in [
        ("", "https://api.test", false),
        ("*", "https://api.test", true),
        ("other, *", "https://api.test", true),
        ("api.test", "https://api.test:6443", true),
        ("API.test", "https://api.TEST:6443", true),
        ("api.test:6443", "https://api.test:6443", true),
        ("api.test:443", "https://api.test", true),
        ("api.test:443", "https://api.test:6443", false),
        ("test", "https://api.test", true),
        (".test", "https://api.test", true),
        ("*.test", "https://api.test", true),
        ("*.test:6443", "https://api.test:6443", true),
        (".api.test", "https://api.test", false),
        ("*.api.test", "https://api.test", false),
        ("i.test", "https://api.test", false),
        ("a,, ,api.test,", "https://api.test", true),
        (" , ,", "https://api.test", false),
        ("10.0.0.0/8", "https://10.1.2.3:6443", true),
        ("10.0.0.0/8", "https://11.1.2.3:6443", false),
        ("10.1.2.3", "https://10.1.2.3:6443", true),
        ("10.1.2.3:443", "https://10.1.2.3:6443", false),
        ("10.1.2.3:6443", "https://10.1.2.3:6443", true),
        ("fd00::/8", "https://[fd00::1]:6443", true),
        ("fd00::1", "https://[fd00::1]:6443", true),
        ("[fd00::1]:6443", "https://[fd00::1]:6443", true),
        ("[fd00::1]:443", "https://[fd00::1]:6443", false),
        ("10.96.0.1", "https://api.test", false),
        (":443", "https://api.test", false),
    ] {
        let environment = [("HTTPS_PROXY", "http://p:1"), ("NO_PROXY", exceptions)];
        let expected = if is_excepted { "-" } else { "http://p:1/" };
        assert_eq!(
            through(server, &environment),
            expected,
            "{exceptions} {server}"
        );
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
