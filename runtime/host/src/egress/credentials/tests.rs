#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use super::*;
use crate::grant::{
    AwsSigV4, AwsSource, Issuer, Keystone, KeystoneMethod, OAuth2, OAuth2Client, OAuth2Grant,
    Presented, WebIdentity,
};

fn secret(text: &str) -> Secret {
    Secret::new(text.to_owned())
}

fn own(name: &str, value: &str) -> Credential {
    Credential::Header {
        name: name.to_owned(),
        value: secret(value),
    }
}

fn issuer() -> Issuer {
    Issuer::at("https://login.test/token".parse().unwrap())
}

fn oauth2(client: Option<OAuth2Client>, grant: OAuth2Grant) -> Credential {
    Credential::OAuth2(OAuth2 {
        issuer: issuer(),
        client,
        grant,
        parameters: Vec::new(),
    })
}

fn client(id: &str, of_client: &str) -> Credential {
    let client = OAuth2Client {
        id: id.to_owned(),
        secret: Some(secret(of_client)),
        in_form: false,
    };
    oauth2(Some(client), OAuth2Grant::ClientCredentials)
}

/// Credentials of each kind that has an issuer or signs, with the same secret in each of their places.
fn with_secret(text: &str) -> [Credential; 8] {
    let token = || Presented::Text(secret(text));
    let word = |word: &str| word.to_owned();
    let aws = |source| {
        Credential::AwsSigV4(AwsSigV4 {
            region: word("eu-central-1"),
            service: word("ec2"),
            source,
        })
    };
    let keys = |key: &str, token: &str| {
        AwsSource::Keys(AwsKeys {
            access_key_id: word("AKIDEXAMPLE"),
            secret_access_key: secret(key),
            session_token: Some(secret(token)),
        })
    };
    let keystone = |method| {
        Credential::Keystone(Keystone {
            issuer: issuer(),
            method,
        })
    };
    [
        aws(keys(text, "another-token")),
        aws(keys("another-key", text)),
        aws(AwsSource::WebIdentity(WebIdentity {
            issuer: issuer(),
            role_arn: word("arn:aws:iam::123456789012:role/ccm"),
            session_name: word("ccm"),
            token: token(),
        })),
        aws(AwsSource::Container {
            issuer: issuer(),
            authorization: Some(token()),
        }),
        oauth2(None, OAuth2Grant::JwtBearer { assertion: token() }),
        oauth2(
            None,
            OAuth2Grant::TokenExchange {
                subject_token: token(),
                subject_token_type: word("urn:ietf:params:oauth:token-type:jwt"),
            },
        ),
        keystone(KeystoneMethod::Password {
            user: word("ccm"),
            user_domain: word("Default"),
            password: secret(text),
            project: word("cluster"),
            project_domain: word("Default"),
        }),
        keystone(KeystoneMethod::ApplicationCredential {
            id: word("21dced0f"),
            secret: secret(text),
        }),
    ]
}

#[test]
fn a_credential_becomes_one_sensitive_header() {
    let basic = Credential::Basic {
        user: "Aladdin".to_owned(),
        password: secret("open sesame"),
    };
    for (credential, name, value) in [
        (
            Credential::Bearer(secret("t0ken")),
            "authorization",
            "Bearer t0ken",
        ),
        (basic, "authorization", "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="),
        (own("X-Auth-Token", "abc"), "x-auth-token", "abc"),
        (
            own("Authorization", "PVEAPIToken=root@pam!x=y"),
            "authorization",
            "PVEAPIToken=root@pam!x=y",
        ),
    ] {
        let (found_name, found_value) = header(&credential).unwrap().unwrap();
        assert_eq!(
            (found_name.as_str(), found_value.to_str().unwrap()),
            (name, value)
        );
        assert!(found_value.is_sensitive());
        assert_eq!(format!("{found_value:?}"), "Sensitive");
    }
    assert!(header(&Credential::None).unwrap().is_none());
}

#[test]
fn a_credential_that_would_change_the_request_is_refused() {
    use CredentialError::*;
    let colon = Credential::Basic {
        user: "a:b".to_owned(),
        password: secret("x"),
    };
    for (credential, expected) in [
        (Credential::Bearer(secret("")), Value),
        (Credential::Bearer(secret("a\r\nX: y")), Value),
        (Credential::Bearer(secret("a\n")), Value),
        (Credential::Bearer(secret("tök")), Value),
        (colon, User),
        (own("Host", "evil"), Name),
        (own("content-length", "1"), Name),
        (own("x y", "1"), Name),
        (own("", "1"), Name),
    ] {
        assert_eq!(header(&credential).unwrap_err(), expected);
    }
}

#[test]
fn no_form_of_a_credential_passes_the_redactor() {
    let basic = Credential::Basic {
        user: "Aladdin".to_owned(),
        password: secret("open sesame"),
    };
    let kinds = with_secret("canary-token").map(|credential| (credential, "got canary-token back"));
    let rows = [
        (
            Credential::Bearer(secret("canary-token")),
            "got canary-token back",
        ),
        // The shortest that is searched for.
        (Credential::Bearer(secret("8letters")), "got 8letters back"),
        (basic.clone(), "open sesame"),
        (basic, "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="),
        (own("x-token", "canary-header"), "[canary-header]"),
        (
            own("authorization", "PVEAPIToken=root@pam!x=0123456789abcdef"),
            "0123456789abcdef",
        ),
    ];
    for (credential, text) in rows.into_iter().chain(kinds) {
        let redactor = SecretRedactor::new(&credential);
        assert!(redactor.finds(text.as_bytes()), "{text}");
        let redacted = redactor.redact(text);
        assert!(
            redacted.contains("[redacted]") && !redactor.finds(redacted.as_bytes()),
            "{redacted}"
        );
    }
    let short = SecretRedactor::new(&Credential::Bearer(secret("ab")));
    assert!(!short.finds(b"about"), "a short value is there by chance");
    assert_eq!(
        short.redact("about"),
        "about",
        "what is missing tells what it is"
    );
    assert_eq!(
        SecretRedactor::new(&Credential::None).redact("text"),
        "text"
    );
}

#[test]
fn a_credential_is_found_in_base64_wherever_it_begins() {
    use base64::prelude::{BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE};
    let basic = |password: &str| Credential::Basic {
        user: "Aladdin".to_owned(),
        password: secret(password),
    };
    for (credential, text) in [
        (Credential::Bearer(secret("~~~???>>>")), "~~~???>>>"),
        (Credential::Bearer(secret("canary-token")), "canary-token"),
        (basic("open sesame"), "Aladdin:open sesame"),
        (basic("open sesame"), "open sesame"),
        // A password that is too short to be searched for by itself.
        (basic("sesame"), "Aladdin:sesame"),
        (basic("sesame"), "Basic QWxhZGRpbjpzZXNhbWU="),
        (own("x-token", "canary-header"), "canary-header"),
        // The login of an OAuth 2.0 client, with both parts as in a form, and each secret by itself.
        (client("a b", "p@ss w/d"), "a+b:p%40ss+w%2Fd"),
        (client("a b", "p@ss w/d"), "p%40ss+w%2Fd"),
        (client("a b", "p@ss w/d"), "p@ss w/d"),
        (client("a client", "p@ss"), "a+client:p%40ss"),
    ] {
        let redactor = SecretRedactor::new(&credential);
        for ahead in ["", "{", "??", "~~~", "x-to"] {
            for behind in ["", "}", "??", "~~~"] {
                let whole = format!("{ahead}{text}{behind}");
                for spelled in [
                    BASE64_STANDARD.encode(&whole),
                    BASE64_STANDARD_NO_PAD.encode(&whole),
                    BASE64_URL_SAFE.encode(&whole),
                ] {
                    assert!(redactor.finds(spelled.as_bytes()), "{whole}: {spelled}");
                    let redacted = redactor.redact(&spelled);
                    assert!(redacted.contains("[redacted]"), "{redacted}");
                }
            }
        }
        assert!(!redactor.finds(BASE64_STANDARD.encode("an ordinary text").as_bytes()));
    }
}

#[test]
fn an_escaped_credential_is_taken_out_of_texts() {
    let redactor = SecretRedactor::new(&Credential::Bearer(secret("open/sesame now")));
    for text in [
        "open/sesame now",
        "open\\/sesame now",
        "open%2fsesame%20now",
        "open%2Fsesame+now",
        "\\u006fpen/sesame now",
        "open&#47;sesame now",
        "open&#x2F;sesame&#32;now",
        "open&amp;#47;sesame now",
    ] {
        let redacted = redactor.redact(&format!("sent: {text}"));
        assert!(redacted.contains("[redacted]"), "{text}");
        assert!(!redacted.contains("sesame"), "{text}");
    }
    for text in [
        "100%2f \\/ \\u00e9",
        "AT&T &amp; &nbsp; &#; &#x; &#x110000; &amp",
    ] {
        assert_eq!(redactor.redact(text), text);
    }
}

#[test]
fn a_credential_is_found_with_the_letters_that_xml_escapes() {
    let redactor = SecretRedactor::new(&Credential::Bearer(secret("open&'<se\"same>")));
    for text in [
        "open&amp;&apos;&lt;se&quot;same&gt;",
        "open&amp;&#39;&lt;se&#34;same&gt;",
        "open&#38;&#x27;&#60;se&#x0022;same&#X3e;",
        "open&amp;'&lt;se\"same>",
    ] {
        let echo = format!("<Message>sent: {text}</Message>");
        assert!(redactor.finds(echo.as_bytes()), "{text}");
        assert_eq!(redactor.redact(&echo), "[redacted]", "{text}");
    }
}

#[test]
fn a_part_of_a_credential_that_a_cut_left_is_taken_out_of_texts() {
    let redactor = SecretRedactor::new(&Credential::Bearer(secret("open/sesame now")));
    for (text, expected) in [
        ("sent: open/sesam", "sent: [redacted]"),
        ("sent: open/sesame…", "sent: [redacted]…"),
        (
            "sent: open/ses… (version 1)",
            "sent: [redacted]… (version 1)",
        ),
        ("/sesame now was sent", "[redacted] was sent"),
        ("sent: open%2fsesa", "[redacted]"),
        ("sent: open\\/sesa…", "[redacted]"),
        ("%2fsesame+now was sent", "[redacted]"),
        // Shorter ones occur by chance.
        ("it is open", "it is open"),
        ("now it is…", "now it is…"),
        // In the middle of a text nothing was cut.
        ("open/sesam and more", "open/sesam and more"),
    ] {
        assert_eq!(redactor.redact(text), expected, "{text}");
    }
    // Every cut of a text, as `clean` makes it.
    let text = "the cloud has refused open/sesame now and everything else";
    for cap in 0..text.len() {
        let shown = redactor.redact(&crate::sanitize::clean(text, cap));
        assert!(!shown.contains("open/ses"), "{cap}: {shown}");
    }
}

/// Parts of values whose beginnings and ends repeat, against the definition: the longest that a text ends, or begins, with.
#[test]
fn the_longest_part_is_taken_out() {
    for value in [
        "aaaaaaaaaaaaaaaa",
        "abababababababab",
        "xabcdefghxabcdefghij",
    ] {
        let redactor = SecretRedactor::new(&Credential::Bearer(secret(value)));
        for part in 8..value.len() {
            let begin = format!(". {}", &value[..part]);
            assert_eq!(redactor.redact(&begin), ". [redacted]", "{begin}");
            let end = format!("{} .", &value[value.len() - part..]);
            assert_eq!(redactor.redact(&end), "[redacted] .", "{end}");
        }
    }
}

/// A guest chooses the text: with a comparison for each cut and each length of the value this took minutes.
#[test]
fn a_text_of_nothing_but_cuts_is_searched_in_linear_time() {
    let redactor =
        SecretRedactor::new(&Credential::Bearer(secret(&"0123456789abcdef".repeat(128))));
    for text in ["…".repeat(1 << 18), "01234567…".repeat(1 << 16)] {
        let mut redacted = redactor.redact(&text);
        redacted.retain(|letter| letter == '…');
        assert_eq!(redacted.len(), text.matches('…').count() * '…'.len_utf8());
    }
}

#[test]
fn what_failed_exchanges_present_displaces_nothing_that_was_issued_or_granted() {
    let redactor = SecretRedactor::new(&client("ccm", "secret-of-the-grant"));
    redactor.learn(vec![
        secret("issued-session-token"),
        secret("issued-secret-key"),
    ]);
    // Each exchange with a metadata service begins with a session of its own.
    for attempt in 0..100 {
        redactor.learn_presented(vec![secret(&format!("metadata-session-{attempt}"))]);
    }
    for text in [
        "secret-of-the-grant",
        "issued-session-token",
        "issued-secret-key",
        "metadata-session-99",
    ] {
        assert!(redactor.finds(text.as_bytes()), "{text}");
    }
    assert!(!redactor.finds(b"metadata-session-10"), "a bounded number");
}
