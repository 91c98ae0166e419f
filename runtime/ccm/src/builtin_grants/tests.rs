//! The grants, mistakes and warnings of variables.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use ccm_host::grant::AwsSource;

use super::*;

mod aws;
mod cloud_config;
mod digitalocean;
mod drop_in;
mod on_premises;

const TOKEN: &str = "jr5g7ZHpPptyhJzZyHw2Pqu4g9gTqDvEceYpngPf79jN_NOT_VALID_dzhepnahq";

#[test]
fn a_provider_that_this_build_leaves_out_is_told_from_one_that_there_is_not() {
    let cases = [
        (
            &["hcloud"][..],
            "aws",
            "are hcloud; a build with the Cargo feature aws has it (`cargo run --features aws`)",
        ),
        (&["hcloud", "static"], "nimbus", "are hcloud, static"),
        (&[], "nimbus", "are none"),
    ];
    for (embedded, name, expected) in cases {
        assert_eq!(others(embedded, name), expected);
    }
}

fn manifest() -> Manifest {
    manifest_of("hcloud")
}

fn manifest_of(guest: &str) -> Manifest {
    let wasm = module(guest).unwrap();
    ccm_host::inspect(guest, wasm).unwrap().manifest
}

fn read(variables: &[(&str, &str)]) -> BuiltinGrants {
    read_for("hcloud", variables)
}

/// Reads with these variables; the file `/secret` holds a secret.
fn read_for(guest: &str, variables: &[(&str, &str)]) -> BuiltinGrants {
    let context = ConfigContext {
        absent: None,
        variable: &|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        },
        file: &|path| match path.to_str() {
            Some("/secret") => Ok(format!("{TOKEN}\n")),
            _ => Err("no such file".to_owned()),
        },
        secret: &|_| Err("no cluster".to_owned()),
    };
    let manifest = manifest_of(guest);
    let values = values(&manifest, &context);
    grants(guest, &manifest, &values, None, &context)
}

/// The granted targets: name, endpoint, kind of credential.
fn targets(read: &BuiltinGrants) -> Vec<(&str, &str, &str)> {
    let targets = read.grants.targets.iter();
    targets
        .map(|target| {
            (
                target.name.as_str(),
                target.endpoint.as_str(),
                target.credential.kind().as_str(),
            )
        })
        .collect()
}

const API: (&str, &str, &str) = ("api", "https://api.hetzner.cloud/v1", "bearer");

#[test]
fn a_token_grants_the_api_and_nothing_else() {
    for (variables, origin) in [
        ([("HCLOUD_TOKEN", TOKEN)], "the variable HCLOUD_TOKEN"),
        (
            [("HCLOUD_TOKEN_FILE", "/secret")],
            "the file /secret (HCLOUD_TOKEN_FILE)",
        ),
    ] {
        let read = read(&variables);
        assert_eq!(targets(&read), [API]);
        let credential = &read.grants.targets[0].credential;
        assert_eq!(credential.origin().as_deref(), Some(origin));
        assert_eq!(read.mistakes, [] as [&str; 0]);
        assert_eq!(read.warnings, [] as [&str; 0]);
        assert!(manifest().narrow(read.grants).is_ok());
    }
}

#[test]
fn robot_is_granted_when_it_is_enabled() {
    let robot = |enabled| {
        read(&[
            ("HCLOUD_TOKEN", TOKEN),
            ("ROBOT_ENABLED", enabled),
            ("ROBOT_USER", "user"),
            ("ROBOT_PASSWORD_FILE", "/secret"),
        ])
    };
    for enabled in ["true", "1", "T"] {
        let read = robot(enabled);
        let expected = ("robot", "https://robot-ws.your-server.de/", "basic");
        assert_eq!(targets(&read), [API, expected]);
        assert!(read.mistakes.is_empty() && read.warnings.is_empty());
        assert!(manifest().narrow(read.grants).is_ok());
    }
    // The module refuses values that are not boolean: it knows its keys.
    for enabled in ["false", "0", "sometimes"] {
        let read = robot(enabled);
        assert_eq!(targets(&read), [API]);
        assert_eq!(read.mistakes, [] as [&str; 0]);
        assert_eq!(
            read.warnings,
            [
                "ROBOT_USER is set and not used, because ROBOT_ENABLED is not true",
                "ROBOT_PASSWORD is set and not used, because ROBOT_ENABLED is not true",
            ]
        );
    }
}

#[test]
fn endpoints_are_replaced_and_lose_their_last_slash() {
    let read = read(&[
        ("HCLOUD_TOKEN", TOKEN),
        ("HCLOUD_ENDPOINT", "https://127.0.0.1:8443/v1/"),
        ("ROBOT_ENABLED", "true"),
        ("ROBOT_USER", "user"),
        ("ROBOT_PASSWORD", "password"),
        ("ROBOT_ENDPOINT", "https://robot.example.com"),
    ]);
    assert_eq!(
        targets(&read),
        [
            ("api", "https://127.0.0.1:8443/v1", "bearer"),
            ("robot", "https://robot.example.com/", "basic"),
        ]
    );
}

#[test]
fn all_mistakes_are_reported_at_once_and_no_secret_is_repeated() {
    let read = read(&[
        ("HCLOUD_TOKEN_FILE", "/nowhere"),
        ("HCLOUD_ENDPOINT", "here"),
        ("ROBOT_ENABLED", "true"),
        ("ROBOT_USER_FILE", "/nowhere"),
        ("ROBOT_ENDPOINT", "https://"),
    ]);
    let expected = [
        "HCLOUD_ENDPOINT: expected a URL such as https://api.example.com",
        "HCLOUD_TOKEN_FILE /nowhere: no such file",
        "ROBOT_ENDPOINT: ",
        "ROBOT_USER_FILE /nowhere: no such file",
        "neither ROBOT_PASSWORD nor ROBOT_PASSWORD_FILE is set",
    ];
    assert_eq!(read.mistakes.len(), expected.len(), "{:?}", read.mistakes);
    for (mistake, expected) in read.mistakes.iter().zip(expected) {
        assert!(mistake.starts_with(expected), "{mistake}");
        assert!(!mistake.contains(TOKEN), "{mistake}");
    }
    assert!(
        manifest().narrow(read.grants).is_ok(),
        "the module can still be asked what it finds wrong"
    );
}

#[test]
fn an_endpoint_that_cannot_be_read_is_not_shown_because_it_may_have_a_password() {
    let read = read(&[
        ("HCLOUD_TOKEN", TOKEN),
        (
            "HCLOUD_ENDPOINT",
            "https://me:s3cret@api.example.com:port/v1",
        ),
    ]);
    assert_eq!(read.mistakes, ["HCLOUD_ENDPOINT: invalid port number"]);
}

#[test]
fn a_token_of_another_length_is_a_warning_that_does_not_show_it() {
    let read = read(&[("HCLOUD_TOKEN", "s3cret")]);
    assert_eq!(read.mistakes, [] as [&str; 0]);
    assert_eq!(
        read.warnings,
        ["HCLOUD_TOKEN has 6 characters, and the vendor's tokens have 64: tried all the same"]
    );
}

#[test]
fn what_has_no_effect_is_said_in_one_line_for_each_reason() {
    let read = read(&[("HCLOUD_TOKEN", TOKEN), ("HCLOUD_SERVER_CACHE_TTL", "10s")]);
    let expected = "without effect, because the vendor's manager has called it HCLOUD_SERVER_CACHE_MAX_AGE since 1.33: HCLOUD_SERVER_CACHE_TTL";
    assert_eq!(read.warnings, [expected]);
}

#[test]
fn every_variable_of_a_profile_has_one_meaning() {
    for profile in PROFILES {
        let manifest = manifest_of(profile.guest);
        let unserved = profile.unserved.iter().flat_map(|one| one.variables);
        for variable in unserved {
            assert!(
                manifest.config.iter().all(|key| key.key != *variable),
                "{variable} is a key of the module and has an effect"
            );
        }
        let optional = manifest.targets.iter().filter(|target| !target.required);
        for target in optional {
            let profile = profile.targets.iter().find(|one| one.name == target.name);
            let switch = profile.expect(&target.name).switch.as_ref();
            let keys: Vec<&str> = match switch.expect(&target.name) {
                Switch::True(key) => vec![key],
                Switch::AnySet(keys) => keys.to_vec(),
            };
            for wanted in keys {
                assert!(manifest.config.iter().any(|key| key.key == wanted));
            }
        }
    }
}
