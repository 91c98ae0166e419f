//! Rules that inspect fields: a request is refused if a server could find another value in it than the rule did.

use bytes::Bytes;
use ccm_fixtures::http_server::{Server, ok};
use ccm_host::egress::{FetchError, FetchRequest};
use http::Method;

use crate::world::{egress, error, plain, scope};

const FORM: &str = "application/x-www-form-urlencoded";
const JSON: &str = "application/json";

/// A POST of `/path?query` with a body of this type; without a type, there is no such header.
fn post(place: &str, kind: &str, body: &str) -> FetchRequest {
    let (path, query) = place.split_once('?').unwrap_or((place, ""));
    let header = ("content-type".to_owned(), kind.to_owned());
    FetchRequest {
        query: url::form_urlencoded::parse(query.as_bytes())
            .into_owned()
            .collect(),
        headers: Some(header)
            .filter(|_| !kind.is_empty())
            .into_iter()
            .collect(),
        body: Some(Bytes::from(body.to_owned())),
        ..plain(Method::POST, path)
    }
}

#[tokio::test]
async fn a_body_that_could_contradict_the_rule_is_not_sent() {
    let server = Server::start(|_| ok("")).await;
    let scope = scope(&egress(&format!("http://{}", server.address)));
    let part = "--b\r\ncontent-disposition: form-data; name=\"Action\"\r\n\r\nDelete\r\n--b--\r\n";
    for (place, kind, body) in [
        // Bodies that the rules cannot read.
        (
            "/query?Action=List",
            "multipart/form-data; boundary=b",
            part,
        ),
        ("/query?Action=List", "multipart/mixed; boundary=b", part),
        ("/query?Action=List", "text/plain", "Action=Delete"),
        ("/query?Action=List", "", "Action=Delete"),
        (
            "/query?Action=List",
            "application/xml",
            "<Action>Delete</Action>",
        ),
        ("/query?Action=List", "application/jsonx", "{}"),
        ("/query?Action=List", "application/json, text/plain", "{}"),
        ("/query?Action=List", "x/y+json", "{}"),
        (
            "/query?Action=List",
            "application/x-www-form-urlencoded; charset=iso-8859-1",
            "Action=Delete",
        ),
        (
            "/query?Action=List",
            "application/x-www-form-urlencoded; charset=\"utf-7\"",
            "Action=Delete",
        ),
        (
            "/query?Action=List",
            "application/x-www-form-urlencoded; charset=utf-8; charset=utf-7",
            "Action=Delete",
        ),
        (
            "/query?Action=List",
            "application/json; charset=utf-16",
            "{}",
        ),
        // Bodies with another value.
        ("/query?Action=List", FORM, "Action=Delete"),
        ("/query?Action=List", FORM, "a=b&%41ction=Delete"),
        ("/query?Action=List", JSON, r#"{"Action":"Delete"}"#),
        ("/query?Action=List", JSON, r#"{"\u0041ction":"Delete"}"#),
        ("/query?Action=List", JSON, r#"{"Action":["List"]}"#),
        (
            "/query?Action=List",
            JSON,
            r#"{"Action":"List","Action":"Delete"}"#,
        ),
        (
            "/query?Action=List",
            JSON,
            r#"{"Action":"Delete","Action":"List"}"#,
        ),
        (
            "/query?Action=List",
            "application/merge-patch+json",
            r#"{"Action":"Delete"}"#,
        ),
        ("/query?Action=List", JSON, r#"[{"Action":"Delete"}]"#),
        ("/query?Action=List", JSON, "Action=Delete"),
        ("/query?Action=List", JSON, "{} Action=Delete"),
        // Names that a lenient server takes for the same one.
        ("/query?Action=List", FORM, "action=Delete"),
        ("/query?Action=List&action=Delete", "", ""),
        ("/query?Action=List&ACTION=List", "", ""),
        ("/query?Action=List&Action[]=Delete", "", ""),
        ("/query?Action=List&Action%00=Delete", "", ""),
        ("/query?Action=List&+Action=Delete", "", ""),
        ("/query?Action=List&%01Action=Delete", "", ""),
        ("/query?Action=List", JSON, r#"{"ACTION":"List"}"#),
        ("/?action=Delete", FORM, "Action=List"),
        ("/", FORM, "Action=List&action=Delete"),
        ("/", FORM, "Action=List&Action[x]=Delete"),
        // Fields that override the matched method.
        ("/query?Action=List&_method=DELETE", "", ""),
        ("/query?Action=List&_METHOD=DELETE", "", ""),
        // As PHP reads them.
        ("/query?Action=List&.method=DELETE", "", ""),
        ("/query?Action=List&_method[]=DELETE", "", ""),
        ("/query?Action=List&$method=DELETE", "", ""),
        ("/query?Action=List&X-HTTP-Method=DELETE", "", ""),
        ("/query?Action=List&X-HTTP-Method-Override=DELETE", "", ""),
        ("/query?Action=List&X-Method-Override=DELETE", "", ""),
        ("/query?Action=List&x_http_method=DELETE", "", ""),
        ("/query?Action=List&x_http_method_override=DELETE", "", ""),
        ("/query?Action=List&x_method_override=DELETE", "", ""),
        ("/query?Action=List", FORM, "_method=DELETE"),
        ("/query?Action=List", JSON, r#"{"_Method":"DELETE"}"#),
        ("/", FORM, "Action=List&_method=DELETE"),
        ("/servers?_method=DELETE", "", ""),
        ("/servers", FORM, "_method=DELETE"),
        // A wide rule that reads, and a narrow one beside it that is a change.
        ("/wide?action=Create", "", ""),
        ("/wide", FORM, "action=Create"),
        ("/wide", FORM, "Action=Create&Action=Create"),
        ("/wide", FORM, "Action=List&Action=Create"),
        ("/wide?Action=Create", "", ""),
        ("/wide", JSON, r#"{"Action":"Create"}"#),
        ("/wide", "multipart/form-data; boundary=b", part),
        ("/wide", "", "Action=Create"),
    ] {
        let refused = error(scope.fetch(post(place, kind, body)).await);
        assert!(
            matches!(refused, FetchError::Denied(_) | FetchError::Invalid(_)),
            "{place} {kind} {body}: {refused}"
        );
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn a_body_that_agrees_with_the_rule_is_sent() {
    let server = Server::start(|_| ok("")).await;
    let scope = scope(&egress(&format!("http://{}", server.address)));
    for (place, kind, body, sent) in [
        ("/query?Action=List", "", "", ""),
        ("/query?Action=List", "text/plain", "", ""),
        (
            "/query?Action=List&Version=1",
            JSON,
            r#"{"name": "x"}"#,
            r#"{"name": "x"}"#,
        ),
        (
            "/query?Action=List",
            "Application/JSON; charset=UTF-8",
            "{}",
            "{}",
        ),
        (
            "/query?Action=List",
            "application/merge-patch+json",
            "{}",
            "{}",
        ),
        (
            "/query?Action=List",
            JSON,
            r#"{"Action":"List","in":{"action":1}}"#,
            r#"{"Action":"List","in":{"action":1}}"#,
        ),
        (
            "/query?Action=List",
            FORM,
            "%6eame=a+b%20c&x",
            "name=a+b+c&x=",
        ),
        (
            "/?Version=1",
            FORM,
            "Action=List&Actions=x",
            "Action=List&Actions=x",
        ),
        ("/wide", FORM, "Action=Create", "Action=Create"),
        ("/wide", FORM, "name=%78", "name=x"),
        ("/wide", JSON, r#"{"name":"x"}"#, r#"{"name":"x"}"#),
        // On this path no rule inspects a field.
        (
            "/servers?Action=x&action=y",
            "text/plain",
            "%6eame",
            "%6eame",
        ),
        ("/servers", FORM, "%6eame=x&method=y", "%6eame=x&method=y"),
        (
            "/servers",
            "multipart/form-data; boundary=b",
            "--b--",
            "--b--",
        ),
    ] {
        let answer = scope.fetch(post(place, kind, body)).await;
        assert_eq!(answer.unwrap().status, 200, "{place} {kind} {body}");
        let arrived = server.arrived().pop().unwrap();
        assert_eq!(String::from_utf8(arrived.body.clone()).unwrap(), sent);
    }
}

#[tokio::test]
async fn what_is_wrong_with_a_body_is_said() {
    let server = Server::start(|_| ok("")).await;
    let scope = scope(&egress(&format!("http://{}", server.address)));
    for (kind, body, words) in [
        ("text/plain", "x", "application/json"),
        ("", "x", "application/x-www-form-urlencoded"),
        (JSON, "[1]", "one JSON object"),
        (JSON, r#"{"Action":"Delete"}"#, "Action"),
        (FORM, "action=List", "\"action\""),
        (FORM, "_method=GET", "\"_method\""),
    ] {
        let refused = error(scope.fetch(post("/query?Action=List", kind, body)).await);
        assert!(refused.to_string().contains(words), "{words}: {refused}");
    }
}
