//! Which annotation values request certificates, and which request none.
#![allow(clippy::unwrap_used, reason = "tests")]

use ccm_guest::Error;

use super::super::fixtures::{Pairs, UID, service};
use super::*;

const TYPE: &str = CERTIFICATE_TYPE;
const NAMED: &str = HTTP_CERTIFICATES;
const DOMAINS: &str = HTTP_MANAGED_CERTIFICATE_DOMAINS;
const STAGING: &str = HTTP_MANAGED_CERTIFICATE_ACME_STAGING;

fn certificates(annotations: Pairs<'_>) -> Result<Certificates, Error> {
    let service = service(annotations);
    let mut annotations = service.values();
    let certificates = read(&service, &mut annotations, &mut Vec::new());
    annotations.finish()?;
    Ok(certificates)
}

fn name(name: &str) -> Certificate {
    Certificate::Name(name.to_owned())
}

#[test]
fn certificates_that_are_there_are_named_by_id_or_name() {
    let id = Certificate::Id;
    let table = [
        (vec![], Certificates::None),
        (vec![(TYPE, "uploaded")], Certificates::None),
        (vec![(TYPE, "")], Certificates::None),
        (
            vec![(NAMED, "3,5")],
            Certificates::Uploaded(vec![id(3), id(5)]),
        ),
        (
            vec![(NAMED, "cert-1,cert-2"), (TYPE, "Uploaded")],
            Certificates::Uploaded(vec![name("cert-1"), name("cert-2")]),
        ),
        (
            vec![(NAMED, "5,cert-1,5,cert-1,05")],
            Certificates::Uploaded(vec![id(5), name("cert-1")]),
        ),
        // Values are not trimmed, and a value that is no number of 64 bits is a name.
        (
            vec![(NAMED, "1, 2,9999999999999999999")],
            Certificates::Uploaded(vec![id(1), name(" 2"), name("9999999999999999999")]),
        ),
        (vec![(DOMAINS, "example.com")], Certificates::None),
    ];
    for (annotations, expected) in table {
        assert_eq!(certificates(&annotations), Ok(expected), "{annotations:?}");
    }
}

#[test]
fn a_managed_certificate_is_named_and_labelled_as_by_the_go_manager() {
    let own = format!("ccm-managed-certificate-{UID}");
    let table: [(Pairs<'_>, &str, bool); 9] = [
        (&[], &own, false),
        (&[(HTTP_MANAGED_CERTIFICATE_NAME, "mine")], "mine", false),
        (&[(HTTP_MANAGED_CERTIFICATE_NAME, "")], &own, false),
        (&[(NAMED, "7")], &own, false),
        (&[(STAGING, "true")], &own, true),
        (&[(STAGING, "1")], &own, true),
        (&[(STAGING, "false")], &own, false),
        // Only values that are plainly true request the staging CA.
        (&[(STAGING, "yes")], &own, false),
        (&[(STAGING, "")], &own, false),
    ];
    for (more, name, staging) in table {
        let mut annotations = vec![(TYPE, "managed"), (DOMAINS, "*.example.com,example.com")];
        annotations.extend(more);
        let mut labels = names::labels(UID);
        if staging {
            labels.insert("HC-Use-Staging-CA".to_owned(), "true".to_owned());
        }
        let expected = ManagedCertificate {
            name: name.to_owned(),
            domains: vec!["*.example.com".to_owned(), "example.com".to_owned()],
            labels,
        };
        let read = certificates(&annotations);
        assert_eq!(read, Ok(Certificates::Managed(expected)), "{more:?}");
    }
}

/// As in the Go manager; a person who wrote another word learns of it.
#[test]
fn only_the_exact_word_orders_a_certificate() {
    for (word, is_told) in [
        ("Managed", true),
        ("MANAGED", true),
        (" managed", true),
        ("Uploaded", true),
        ("unsupported type", true),
        ("uploaded", false),
        ("", false),
    ] {
        let service = service(&[(TYPE, word), (NAMED, "7"), (DOMAINS, "example.com")]);
        let mut annotations = service.values();
        let mut events = Vec::new();
        let read = read(&service, &mut annotations, &mut events);
        assert_eq!(annotations.finish(), Ok(()));
        let seven = vec![Certificate::Id(7)];
        assert_eq!(read, Certificates::Uploaded(seven), "{word}");
        assert_eq!(!events.is_empty(), is_told, "{word}: {events:?}");
    }
}

#[test]
fn what_names_no_certificate_is_a_mistake() {
    let table: [(Pairs<'_>, &str); 7] = [
        (&[(NAMED, "")], "neither the name nor the id"),
        (&[(NAMED, "cert,")], "neither the name nor the id"),
        (&[(NAMED, "0")], "neither the name nor the id"),
        (&[(NAMED, "-5")], "neither the name nor the id"),
        (&[(TYPE, "managed")], "needs domains"),
        (&[(TYPE, "managed"), (DOMAINS, "")], "empty domain"),
        (
            &[(TYPE, "managed"), (DOMAINS, "a.example,,b.example")],
            "empty domain",
        ),
    ];
    for (annotations, expected) in table {
        let error = certificates(annotations).unwrap_err();
        assert!(error.message().contains(expected), "{error:?}");
        assert!(
            error.message().contains(annotations.last().unwrap().0),
            "{error:?}"
        );
    }
}
