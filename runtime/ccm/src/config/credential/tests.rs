//! Credentials as written.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use super::super::{API_VERSION, KIND, Mistakes, Surroundings, Written, parse};
use super::*;

/// A configuration with this credential.
fn configuration(credential: &str) -> String {
    format!(
        "apiVersion: {API_VERSION}\nkind: {KIND}\nproviders:\n- name: cloud\n  source: file:///cloud.wasm\n  grants:\n    targets:\n    - name: api\n      endpoint: https://api.example.com\n      credential: {credential}\n      rules: [{{ methods: [GET], path: /, access: read }}]\n"
    )
}

/// Variables have their own names, in small letters, as values.
fn read(credential: &str) -> Result<Credential, Mistakes> {
    let surroundings = Surroundings {
        absent: None,
        variable: &|name| (!name.contains("UNSET")).then(|| name.to_ascii_lowercase()),
        file: &|_| Err("no such file".to_owned()),
        secret: &|_| Err("there is no such Secret".to_owned()),
    };
    let mut providers = parse(&configuration(credential), &surroundings)?;
    let mut grants = providers.remove(0).grants.unwrap();
    Ok(grants.targets.remove(0).credential)
}

fn mistakes(credential: &str) -> Vec<String> {
    let Mistakes(mistakes) = read(credential).err().expect(credential);
    mistakes
}

const KEYS: &str = "{ awsSigV4: { region: eu-central-1, service: ec2, source: { keys: { accessKeyId: { env: ID }, secretAccessKey: { env: SECRET }, sessionToken: { env: TOKEN } } } } }";

#[test]
fn keys_of_aws_are_references() {
    let secret = |text: &str| Secret::new(text.to_owned());
    let expected = Credential::AwsSigV4(AwsSigV4 {
        region: "eu-central-1".to_owned(),
        service: "ec2".to_owned(),
        source: AwsSource::Keys(AwsKeys {
            access_key_id: "id".to_owned(),
            secret_access_key: secret("secret"),
            session_token: Some(secret("token")),
        }),
    });
    assert!(read(KEYS).unwrap() == expected);
    let without = KEYS.replace(", sessionToken: { env: TOKEN }", "");
    assert!(read(&without).is_ok_and(|read| read != expected));
}

#[test]
fn every_secret_of_the_cluster_in_it_is_listed() {
    let named = |key: &str| format!("secret: {{ namespace: kube-system, name: aws, key: {key} }}");
    let text = KEYS
        .replace("env: ID", &named("id"))
        .replace("env: SECRET", &named("secret"))
        .replace("env: TOKEN", &named("token"));
    let listed = Written::read(&configuration(&text)).unwrap().secrets();
    let keys: Vec<&str> = listed.iter().map(|secret| secret.key.as_str()).collect();
    assert_eq!(keys, ["id", "secret", "token"]);
}

#[test]
fn all_mistakes_are_reported_and_no_value_is_repeated() {
    let place = "provider \"cloud\": target \"api\": credential: awsSigV4: ";
    let many = KEYS
        .replace("env: ID", "env: UNSET_ID")
        .replace("env: SECRET", "file: /nowhere")
        .replace("eu-central-1", "Frankfurt");
    let expected = [
        "keys: accessKeyId: variable UNSET_ID is not set",
        "keys: secretAccessKey: /nowhere: no such file",
        "region \"Frankfurt\": expected lower-case letters, digits and dashes",
    ];
    assert_eq!(mistakes(&many), expected.map(|why| format!("{place}{why}")));
    let s3 = mistakes(&KEYS.replace("service: ec2", "service: s3"));
    assert!(s3[0].contains("it signs in another way"), "{s3:?}");
    // What is not in the form is refused by the reader, with its line.
    for unknown in ["region: x, zone", "service: x, signature"] {
        let with = KEYS.replacen("region:", &format!("{unknown}: x, region:"), 1);
        assert_eq!(mistakes(&with).len(), 1);
    }
}
