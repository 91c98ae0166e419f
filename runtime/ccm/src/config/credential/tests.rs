//! Credentials in a configuration, and their meaning.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use super::super::{API_VERSION, ConfigContext, KIND, Mistakes, Written, parse};
use super::*;

/// A configuration with this credential.
fn configuration(credential: &str) -> String {
    format!(
        "apiVersion: {API_VERSION}\nkind: {KIND}\nproviders:\n- name: cloud\n  source: file:///cloud.wasm\n  grants:\n    targets:\n    - name: api\n      endpoint: https://api.example.com\n      credential: {credential}\n      rules: [{{ methods: [GET], path: /, access: read }}]\n"
    )
}

/// The value of each variable is its own name in small letters.
fn read(credential: &str) -> Result<Credential, Mistakes> {
    let context = ConfigContext {
        absent: None,
        variable: &|name| (!name.contains("UNSET")).then(|| name.to_ascii_lowercase()),
        file: &|path| match path.to_str() {
            Some("/token") => Ok("a-token".to_owned()),
            _ => Err("no such file".to_owned()),
        },
        secret: &|_| Err("there is no such Secret".to_owned()),
    };
    let mut providers = parse(&configuration(credential), &context)?;
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
    // The parser refuses unknown keys, with their line.
    for unknown in ["region: x, zone", "service: x, signature"] {
        let with = KEYS.replacen("region:", &format!("{unknown}: x, region:"), 1);
        assert_eq!(mistakes(&with).len(), 1);
    }
}

const OAUTH2: &str = "{ oauth2: { issuer: { endpoint: 'https://login.example.com/token', addresses: [10.0.0.0/8] }, client: { id: ccm, secret: { env: SECRET } }, parameters: { scope: cloud } } }";
const KEYSTONE: &str = "{ keystone: { issuer: { endpoint: 'https://keystone.example.com/v3' }, method: { applicationCredential: { id: x, secret: { env: SECRET } } } } }";

fn aws(source: &str) -> String {
    format!("{{ awsSigV4: {{ region: eu-central-1, service: ec2, source: {source} }} }}")
}

fn source(written: &str) -> AwsSource {
    match read(&aws(written)) {
        Ok(Credential::AwsSigV4(aws)) => aws.source,
        Ok(other) => panic!("{}", other.kind()),
        Err(mistakes) => panic!("{mistakes}"),
    }
}

#[test]
fn each_source_of_keys_has_its_usual_endpoint_and_a_file_is_read_later() {
    let issuer = |url: &str| Issuer::at(url.parse().unwrap());
    let role = "arn:aws:iam::123456789012:role/ccm";
    let identity = format!("{{ webIdentity: {{ roleArn: '{role}', token: {{ file: /token }} }} }}");
    let expected = AwsSource::WebIdentity(WebIdentity {
        issuer: issuer("https://sts.eu-central-1.amazonaws.com"),
        role_arn: role.to_owned(),
        session_name: "ccm".to_owned(),
        token: Presented::File("/token".into()),
    });
    assert!(source(&identity) == expected);
    let container = "{ container: { issuer: { endpoint: 'http://169.254.170.23/v1/credentials' }, authorization: { file: /token } } }";
    let expected = AwsSource::Container {
        issuer: issuer("http://169.254.170.23/v1/credentials"),
        authorization: Some(Presented::File("/token".into())),
    };
    assert!(source(container) == expected);
    let expected = AwsSource::InstanceMetadata {
        issuer: issuer("http://169.254.169.254"),
    };
    assert!(source("{ instanceMetadata: {} }") == expected);
    for (region, host) in [
        ("us-gov-west-1", "sts.us-gov-west-1.amazonaws.com"),
        ("cn-north-1", "sts.cn-north-1.amazonaws.com.cn"),
        ("eusc-de-east-1", "sts.eusc-de-east-1.amazonaws.eu"),
    ] {
        assert_eq!(sts(region), format!("https://{host}"));
    }
}

#[test]
fn tokens_of_oauth2_and_keystone_are_read() {
    let Ok(Credential::OAuth2(oauth2)) = read(OAUTH2) else {
        panic!("no OAuth 2.0")
    };
    assert!(oauth2.grant == OAuth2Grant::ClientCredentials);
    assert_eq!(oauth2.issuer.addresses.len(), 1);
    assert_eq!(
        oauth2.parameters,
        [("scope".to_owned(), "cloud".to_owned())]
    );
    let exchange = OAUTH2.replace(
        "parameters:",
        "grant: { tokenExchange: { subjectToken: { file: /token }, subjectTokenType: jwt } }, parameters:",
    );
    assert!(read(&exchange).is_ok());
    assert!(read(KEYSTONE).is_ok_and(|read| read.kind().as_str() == "keystone"));
    let password = KEYSTONE.replace(
        "applicationCredential: { id: x, secret: { env: SECRET } }",
        "password: { user: u, userDomain: d, password: { env: SECRET }, project: p, projectDomain: d }",
    );
    assert!(read(&password).is_ok());
}

#[test]
fn issuers_are_checked_as_endpoints_are() {
    for (credential, reported) in [
        (
            aws("{ instanceMetadata: { issuer: { endpoint: 'http://10.0.0.1' } } }"),
            "instanceMetadata: issuer: http goes to loopback only",
        ),
        (
            aws("{ container: { issuer: { endpoint: 'http://169.254.0.1/x' } } }"),
            "container: issuer: ",
        ),
        (
            aws(
                "{ webIdentity: { roleArn: 'arn:aws:iam::123456789012:role/ccm', token: { file: /nowhere } } }",
            ),
            "webIdentity: token: /nowhere: no such file",
        ),
        (
            aws(
                "{ webIdentity: { roleArn: 'arn:aws:iam::123456789012:role/ccm', token: { env: T }, issuer: { endpoint: 'http://169.254.169.254' } } }",
            ),
            "webIdentity: issuer: ",
        ),
        (
            aws(
                "{ webIdentity: { roleArn: 'arn:aws-iso:iam::123456789012:role/ccm', token: { env: T } } }",
            )
            .replace("eu-central-1", "us-iso-east-1"),
            "webIdentity: issuer: expected for a region of an isolated partition",
        ),
        (
            OAUTH2.replace(
                "https://login.example.com/token",
                "https://u:s3cret@login.example.com",
            ),
            "oauth2: issuer: a credential does not belong into a URL",
        ),
        (
            OAUTH2.replace("10.0.0.0/8", "ten"),
            "oauth2: issuer: address \"ten\"",
        ),
        (
            OAUTH2.replace("client: { id: ccm, secret: { env: SECRET } },", ""),
            "oauth2: without a grant it takes a client",
        ),
        (
            OAUTH2.replace("scope:", "client_secret:"),
            "oauth2: parameters: \"client_secret\"",
        ),
        (
            KEYSTONE.replace("env: SECRET", "env: UNSET"),
            "keystone: applicationCredential: secret: variable UNSET is not set",
        ),
    ] {
        let mistakes = mistakes(&credential);
        assert!(
            mistakes.iter().any(|mistake| mistake.contains(reported)),
            "{reported}: {mistakes:?}"
        );
        assert!(!mistakes.join("").contains("s3cret"), "{mistakes:?}");
    }
}

#[test]
fn the_issuer_has_the_proxy_of_its_target_unless_it_says_otherwise() {
    let with_proxy = |credential: &str| {
        let text = configuration(credential).replace(
            "      rules:",
            "      proxy: { url: 'http://proxy.example.com:3128' }\n      rules:",
        );
        let context = ConfigContext {
            absent: None,
            variable: &|name| Some(name.to_ascii_lowercase()),
            file: &|_| Err("no such file".to_owned()),
            secret: &|_| Err("there is no such Secret".to_owned()),
        };
        let mut provider = parse(&text, &context).unwrap().remove(0);
        let mut target = provider.grants.take().unwrap().targets.remove(0);
        target.credential.issuer_mut().unwrap().proxy.is_some()
    };
    assert!(with_proxy(OAUTH2));
    assert!(!with_proxy(
        &OAUTH2.replace("addresses:", "proxy: direct, addresses:")
    ));
}
