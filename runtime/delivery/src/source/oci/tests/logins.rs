//! Logins as docker and Kubernetes write them.

use crate::source::oci::login::{CredentialsError, Login, RegistryCredentials};

/// `user:password`, a token with its kind, or nothing.
fn login(text: &str, host: &str, repository: &str) -> String {
    let all = RegistryCredentials::parse_docker_config(text).unwrap();
    match all.login(host, repository) {
        Some(Login::Password { user, password }) => format!("{user}:{}", password.as_str()),
        Some(Login::IdentityToken(token)) => format!("identity {}", token.as_str()),
        Some(Login::RegistryToken(token)) => format!("registry {}", token.as_str()),
        None => "nobody".to_owned(),
    }
}

#[test]
fn the_narrowest_login_counts() {
    // dTpw is `u:p`, dTpwOnE= is `u:p:q`.
    let text = r#"{"auths": {
        "reg.example": {"auth": "dTpw"},
        "reg.example/team": {"username": "team", "password": "t"},
        "https://index.docker.io/v1/": {"auth": "dTpwOnE="},
        "*.dkr.example": {"identitytoken": "it", "auth": "dTpw"},
        "one.dkr.example": {"registrytoken": "rt"},
        "127.0.0.1:5000": {"username": "local", "password": "l", "email": "x@example.com"},
        "Upper.Example": {"username": "up", "password": "per"},
        "both.example": {"auth": "dTpw", "username": "old", "password": "o"},
        "no-auth.example": {"auth": "", "username": "user", "password": "pass"},
        "raw.example": {"auth": "dTpwOnE"},
        "wrapped.example": {"auth": "dTpw\nOnE=\n"},
        "https://v2.example/v2/team": {"auth": "dTpw"},
        "empty.example": {},
        "null.example": {"auth": null}
    }, "credsStore": "desktop", "HttpHeaders": {"User-Agent": "x"}}"#;
    let cases = [
        ("reg.example", "x", "u:p"),
        ("reg.example", "team", "team:t"),
        ("reg.example", "team/x", "team:t"),
        ("reg.example", "teams", "u:p"),
        ("reg.example:5000", "x", "nobody"),
        ("Reg.Example", "team", "team:t"),
        ("Docker.io", "library/x", "u:p:q"),
        ("upper.example", "x", "up:per"),
        ("Upper.Example", "x", "up:per"),
        ("docker.io", "library/x", "u:p:q"),
        ("index.docker.io", "library/x", "u:p:q"),
        ("Registry-1.docker.io", "library/x", "u:p:q"),
        ("both.example", "x", "u:p"),
        ("no-auth.example", "x", "user:pass"),
        ("two.dkr.example", "x", "identity it"),
        ("one.dkr.example", "x", "registry rt"),
        ("a.b.dkr.example", "x", "nobody"),
        ("127.0.0.1:5000", "x", "local:l"),
        ("raw.example", "x", "u:p:q"),
        ("wrapped.example", "x", "u:p:q"),
        ("v2.example", "team/x", "u:p"),
        ("v2.example", "x", "nobody"),
        ("empty.example", "x", "nobody"),
        ("null.example", "x", "nobody"),
        ("other.example", "x", "nobody"),
    ];
    for (host, repository, expected) in cases {
        assert_eq!(
            login(text, host, repository),
            expected,
            "{host}/{repository}"
        );
    }
    let older = r#"{"reg.example": {"auth": "dTpw"}, "credsStore": "desktop"}"#;
    assert_eq!(login(older, "reg.example", "x"), "u:p");
    let helped = r#"{"credHelpers": {"reg.example": "ecr-login", "docker.io": "pass"}}"#;
    assert_eq!(login(helped, "reg.example", "x"), "nobody");
    let all = RegistryCredentials::parse_docker_config(helped).unwrap();
    assert!(all.is_helped("reg.example") && !all.is_helped("other.example"));
    assert!(all.is_helped("index.docker.io"));
}

#[test]
fn a_text_that_holds_no_logins_is_refused_without_showing_it() {
    let wrong = |why| CredentialsError::Login {
        registry: "r".to_owned(),
        why,
    };
    let cases = [
        ("canary", None),
        (
            r#"{"auths": {"r": {"auth": "canary%"}}}"#,
            Some(wrong("`auth` is not base64")),
        ),
        (
            r#"{"auths": {"r": {"auth": "Y2FuYXJ5"}}}"#,
            Some(wrong("`auth` holds no user and password")),
        ),
        (
            r#"{"auths": {"r": {"auth": "/w=="}}}"#,
            Some(wrong("`auth` is not text")),
        ),
        (r#"{"auths": "canary"}"#, None),
        (r#"{"auths": {"r": {"password": ["canary"]}}}"#, None),
    ];
    for (text, expected) in cases {
        let error = RegistryCredentials::parse_docker_config(text)
            .err()
            .unwrap();
        assert!(!format!("{error} {error:?}").contains("canary"), "{error}");
        match expected {
            Some(expected) => assert_eq!(error, expected),
            None => assert!(
                matches!(error, CredentialsError::Unreadable { .. }),
                "{error}"
            ),
        }
    }
    let long = " ".repeat((1 << 20) + 1);
    assert_eq!(
        RegistryCredentials::parse_docker_config(&long).err(),
        Some(CredentialsError::TooLong)
    );
}
