#![allow(clippy::unwrap_used, reason = "tests")]

use ccm_guest::Error;

use super::*;
use crate::fixtures::{THROTTLED, forms, host, xml};

fn refused(status: u16, body: &'static str) -> Refusal {
    let _host = host(move |_, _| Some(xml(status, body)));
    Query::ec2("DescribeInstances").act().unwrap_err()
}

#[test]
fn a_request_is_a_form_and_its_values_are_encoded() {
    let host = host(|_, _| None);
    let filters = [
        filter("tag:a&b", ["x y", "=1"]),
        filter("vpc-id", [Some("vpc-1"), None]),
    ];
    let query = Query::ec2("DescribeSubnets")
        .set("Filter", filters)
        .set("Tag", pairs(&[("k", 1)]))
        .set("Nothing", [""; 0]);
    query.act().unwrap();
    let sent = host.seen().remove(0);
    assert_eq!(sent.line(), "POST /");
    let form: Vec<(String, String)> = forms(&host).remove(0).into_iter().collect();
    let expected = [
        ("Action", "DescribeSubnets"),
        ("Filter.1.Name", "tag:a&b"),
        ("Filter.1.Value.1", "x y"),
        ("Filter.1.Value.2", "=1"),
        ("Filter.2.Name", "vpc-id"),
        ("Filter.2.Value.1", "vpc-1"),
        ("Tag.1.Key", "k"),
        ("Tag.1.Value", "1"),
        ("Version", "2016-11-15"),
    ];
    assert_eq!(
        form,
        expected.map(|(key, value)| (key.to_owned(), value.to_owned()))
    );
}

#[test]
fn the_error_code_decides_and_not_the_status() {
    let elb = |code: &str| {
        format!(
            "<ErrorResponse><Error><Code>{code}</Code><Message>m</Message></Error></ErrorResponse>"
        )
    };
    assert!(matches!(refused(503, THROTTLED).error, Error::Throttled(_)));
    for (code, status, expected) in [
        ("Throttling", 400, "throttled"),
        ("UnauthorizedOperation", 403, "denied"),
        ("AuthFailure", 401, "denied"),
        ("AccessDenied", 403, "denied"),
        ("LoadBalancerNotFound", 400, "unavailable"),
        ("DependencyViolation", 400, "unavailable"),
        ("DuplicateLoadBalancerName", 400, "unavailable"),
        ("InvalidGroup.Duplicate", 400, "unavailable"),
        ("InternalError", 500, "unavailable"),
        ("RequestLimitExceeded", 503, "throttled"),
        ("TooManyRequestsException", 400, "throttled"),
        ("RequestThrottled", 400, "throttled"),
        ("EC2ThrottledException", 400, "throttled"),
        ("RequestTimeout", 400, "unavailable"),
        ("TooManyLoadBalancers", 400, "unavailable"),
        ("TooManyTags", 400, "invalid"),
        ("TagLimitExceeded", 400, "invalid"),
        ("RouteLimitExceeded", 400, "unavailable"),
        // Objects that an annotation names: a person has to correct it.
        ("CertificateNotFound", 400, "invalid"),
        ("AllocationIdNotFound", 400, "invalid"),
        ("InvalidParameterValue", 400, "invalid"),
    ] {
        let refusal = refused(status, elb(code).leak());
        let told = match &refusal.error {
            Error::Throttled(_) => "throttled",
            Error::Denied(_) => "denied",
            Error::Unavailable(_) => "unavailable",
            Error::Invalid(_) => "invalid",
            other => panic!("{code}: {other:?}"),
        };
        assert_eq!((told, refusal.code.as_str()), (expected, code));
        assert!(
            refusal.error.message().contains(code),
            "{:?}",
            refusal.error
        );
    }
    // A page of a proxy in between.
    assert!(matches!(
        refused(502, "<html>Bad Gateway</html>").error,
        Error::Unavailable(_)
    ));
    assert!(matches!(refused(403, "no XML").error, Error::Denied(_)));
}

#[test]
fn hostile_xml_is_an_error_and_no_absence() {
    let bomb = "<!DOCTYPE DescribeSubnetsResponse [<!ENTITY b \"bbbb\"><!ENTITY c \"&b;&b;&b;\">]><DescribeSubnetsResponse><subnetSet><item>&c;</item></subnetSet></DescribeSubnetsResponse>";
    let outside = "<!DOCTYPE DescribeSubnetsResponse [<!ENTITY x SYSTEM \"file:///etc/passwd\">]><DescribeSubnetsResponse><subnetSet><item>&x;</item></subnetSet></DescribeSubnetsResponse>";
    let deep = format!(
        "<DescribeSubnetsResponse><other>{}</other></DescribeSubnetsResponse>",
        "<b>".repeat(100_000)
    );
    for body in [
        "",
        "<DescribeSubnetsResponse>",
        "<DescribeSubnetsResponse><subnetSet><item>1</subnetSet></DescribeSubnetsResponse>",
        "{}",
        "<html><body>DescribeSubnetsResponse</body></html>",
        "<Response><Errors><Error><Code>InternalError</Code></Error></Errors></Response>",
        "<p>See <DescribeSubnetsResponse/></p>",
        "<DescribeSubnetsResponse/>",
        "<DescribeSubnetsResponse>text<subnetSet/></DescribeSubnetsResponse>",
        "<DescribeSubnetsResponse><subnetSet>text</subnetSet></DescribeSubnetsResponse>",
        bomb,
        outside,
        &deep,
        "\u{fffe}<DescribeSubnetsResponse/>",
    ] {
        let text = body.to_owned();
        let _host = host(move |_, _| Some(xml(200, &text)));
        let answer = Query::ec2("DescribeSubnets").read::<Vec<String>>("subnetSet.*");
        let error = answer.map(|page| format!("{page:?}")).unwrap_err().error;
        assert!(
            matches!(error, Error::Unavailable(_)),
            "{body:.60}: {error:?}"
        );
    }
    let _host = host(|_, _| Some(Ok((200, Vec::new(), vec![b'<', 0xff, b'/', b'>']))));
    assert!(
        Query::ec2("DescribeSubnets")
            .read::<Vec<String>>("subnetSet.*")
            .is_err()
    );
}

#[test]
fn a_list_is_read_to_its_end_or_is_an_error() {
    let told = |next: &str| {
        let next = next.to_owned();
        let host = host(move |_, form| {
            let page = form.get("NextToken").map_or("", String::as_str);
            let next = match page {
                "" => "<nextToken>2</nextToken>".to_owned(),
                _ => format!("<nextToken>{next}</nextToken>"),
            };
            Some(xml(
                200,
                format!(
                    "<DescribeSubnetsResponse><subnetSet><item>of {page}</item></subnetSet>{next}</DescribeSubnetsResponse>"
                ),
            ))
        });
        let answer = Query::ec2("DescribeSubnets").pages("subnetSet.*");
        (answer, forms(&host).len())
    };
    let (list, requests) = told("");
    assert_eq!(
        (list.unwrap(), requests),
        (vec!["of ".to_owned(), "of 2".to_owned()], 2)
    );
    assert!(
        matches!(told("2").0, Err(Error::Unavailable(_))),
        "a page that names itself"
    );
}
