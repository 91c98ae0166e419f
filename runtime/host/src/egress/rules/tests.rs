#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use proptest::prelude::*;

use super::*;
use crate::egress::path::canonical;

fn rule(json: &str) -> Rule {
    serde_json::from_str(json).unwrap_or_else(|error| panic!("{json}: {error}"))
}

fn lines(rules: &[&str]) -> Vec<Line> {
    rules.iter().flat_map(|json| rule(json).lines()).collect()
}

fn pairs(text: &str) -> Vec<(String, String)> {
    url::form_urlencoded::parse(text.as_bytes())
        .into_owned()
        .collect()
}

/// Matches `METHOD /path?query` and, after a space, a form; returns the access, or `None` if it is denied.
fn ask(lines: &[Line], text: &str) -> Option<Access> {
    let mut words = text.split(' ');
    let method: Method = words.next().unwrap().parse().unwrap();
    let (path, query) = words
        .next()
        .unwrap()
        .split_once('?')
        .unwrap_or((text.split(' ').nth(1).unwrap(), ""));
    let path = canonical(path).unwrap();
    let form = words.next().map(pairs);
    let asked = Asked {
        method: &method,
        path: &path,
        query: &pairs(query),
        form: form.as_deref(),
    };
    first(lines, &asked).map(|line| line.access)
}

#[test]
fn a_rule_admits_its_methods_on_its_path_only() {
    let lines = lines(&[
        r#"{"methods":["GET"],"path":"/servers","access":"read"}"#,
        r#"{"methods":["GET"],"path":"/servers/{id}","access":"read"}"#,
        r#"{"methods":["GET","PUT","DELETE"],"path":"/load_balancers/{id}","access":"write"}"#,
        r#"{"methods":["POST"],"path":"/load_balancers","access":"write"}"#,
        r#"{"methods":["POST"],"path":"/load_balancers/{id}/actions/add_service","access":"write"}"#,
    ]);
    for (text, expected) in [
        ("GET /servers", Some(Access::Read)),
        ("GET /servers?page=2", Some(Access::Read)),
        ("GET /servers/1", Some(Access::Read)),
        ("DELETE /load_balancers/1", Some(Access::Write)),
        ("GET /load_balancers/1", Some(Access::Write)),
        (
            "POST /load_balancers/1/actions/add_service",
            Some(Access::Write),
        ),
        // The same path in another spelling: it is sent as it was matched.
        (
            "POST /load_balancers/1/actions/add%5Fservice",
            Some(Access::Write),
        ),
        // A placeholder matches one segment with any content.
        (
            "POST /load_balancers/actions/actions/add_service",
            Some(Access::Write),
        ),
        ("POST /load_balancers/1/actions/delete_service", None),
        ("POST /load_balancers/1/actions/add_service/2", None),
        ("POST /load_balancers/1/2/actions/add_service", None),
        ("POST /load_balancers/actions/add_service", None),
        ("POST /load_balancers/1/actions", None),
        ("POST /load_balancers/1/actions/{id}", None),
        ("POST /servers/1/actions/add_service", None),
        ("PUT /load_balancers/1/actions/add_service", None),
        ("GET /load_balancers/1/actions/add_service", None),
        ("DELETE /servers/1", None),
        ("POST /servers", None),
        ("DELETE /load_balancers", None),
        ("HEAD /servers", None),
        ("GET /ssh_keys", None),
        ("GET /", None),
        ("TRACE /servers", None),
        ("CONNECT /servers", None),
    ] {
        assert_eq!(ask(&lines, text), expected, "{text}");
    }
}

#[test]
fn a_field_has_to_be_there_once_with_a_listed_value_and_nowhere_else() {
    let lines = lines(&[
        r#"{"methods":["POST"],"path":"/","form":{"Action":["DescribeInstances","DescribeVpcs"]},"access":"read"}"#,
        r#"{"methods":["POST"],"path":"/","form":{"Action":["CreateRoute"]},"access":"write"}"#,
        r#"{"methods":["GET"],"path":"/","query":{"Action":["DescribeInstances"]},"access":"read"}"#,
    ]);
    for (text, expected) in [
        ("POST / Action=DescribeInstances", Some(Access::Read)),
        (
            "POST / Action=DescribeVpcs&Version=2016",
            Some(Access::Read),
        ),
        ("POST / Action=CreateRoute", Some(Access::Write)),
        ("POST / Action=TerminateInstances", None),
        (
            "POST / Action=DescribeInstances&Action=TerminateInstances",
            None,
        ),
        (
            "POST / Action=DescribeInstances&Action=DescribeInstances",
            None,
        ),
        (
            "POST /?Action=TerminateInstances Action=DescribeInstances",
            None,
        ),
        (
            "POST /?Version=1 Action=DescribeInstances",
            Some(Access::Read),
        ),
        ("POST / action=DescribeInstances", None),
        ("POST / Version=1", None),
        ("POST /", None),
        ("GET /?Action=DescribeInstances", Some(Access::Read)),
        ("GET /?Action=DescribeInstances&Action=x", None),
        ("GET /?Action=DescribeInstances Action=x", None),
        ("GET /", None),
    ] {
        assert_eq!(ask(&lines, text), expected, "{text}");
    }
}

#[test]
fn a_line_covers_only_what_it_would_admit() {
    let line = |json: &str| lines(&[json]).remove(0);
    for (granted, requested, expected) in [
        (
            r#"{"methods":["GET"],"path":"/a/{x}","access":"read"}"#,
            r#"{"methods":["GET"],"path":"/a/b","access":"read"}"#,
            true,
        ),
        (
            r#"{"methods":["GET"],"path":"/a","access":"read"}"#,
            r#"{"methods":["POST"],"path":"/a","access":"read"}"#,
            false,
        ),
        (
            r#"{"methods":["POST"],"path":"/a","access":"read"}"#,
            r#"{"methods":["POST"],"path":"/a","access":"write"}"#,
            false,
        ),
        (
            r#"{"methods":["POST"],"path":"/a","access":"write"}"#,
            r#"{"methods":["POST"],"path":"/a","access":"read"}"#,
            true,
        ),
        (
            r#"{"methods":["POST"],"path":"/","access":"read"}"#,
            r#"{"methods":["POST"],"path":"/","form":{"A":["x"]},"access":"read"}"#,
            true,
        ),
        (
            r#"{"methods":["POST"],"path":"/","form":{"A":["x"]},"access":"read"}"#,
            r#"{"methods":["POST"],"path":"/","access":"read"}"#,
            false,
        ),
        (
            r#"{"methods":["POST"],"path":"/","form":{"A":["x"]},"access":"read"}"#,
            r#"{"methods":["POST"],"path":"/","form":{"A":["y"]},"access":"read"}"#,
            false,
        ),
        (
            r#"{"methods":["GET"],"path":"/","query":{"A":["x"]},"access":"read"}"#,
            r#"{"methods":["GET"],"path":"/","query":{"A":["x"],"B":["y"]},"access":"read"}"#,
            true,
        ),
    ] {
        assert_eq!(
            line(granted).covers(&line(requested)),
            expected,
            "{granted} {requested}"
        );
    }
}

#[test]
fn a_rule_is_read_strictly_and_all_its_mistakes_are_named() {
    let raw: RawRule = serde_json::from_str(
        r#"{"methods":["get","GET","GET"],"path":"a","form":{"x":[]},"access":"maybe"}"#,
    )
    .unwrap();
    let mistakes = raw.read().unwrap_err().join("\n");
    for word in [
        "\"get\"",
        "GET is there twice",
        "begin with /",
        "\"x\"",
        "maybe",
        "no form",
    ] {
        assert!(mistakes.contains(word), "{word} is not in {mistakes}");
    }
    for json in [
        r#"{"methods":[],"path":"/a","access":"read"}"#,
        r#"{"methods":["TRACE"],"path":"/a","access":"read"}"#,
        r#"{"methods":["CONNECT"],"path":"/a","access":"write"}"#,
        r#"{"methods":["PUT"],"path":"/a","access":"read"}"#,
        r#"{"methods":["PATCH"],"path":"/a","access":"read"}"#,
        r#"{"methods":["DELETE"],"path":"/a","access":"read"}"#,
        r#"{"methods":["GET"],"path":"/a","access":"read","host":"evil"}"#,
        r#"{"methods":["GET"],"path":"/a"}"#,
        r#"{"methods":["POST"],"path":"/a","query":{"A":["x"]},"form":{"A":["x"]},"access":"read"}"#,
    ] {
        assert!(serde_json::from_str::<Rule>(json).is_err(), "{json}");
    }
}

#[test]
fn a_rule_is_written_as_it_is_read() {
    let json = r#"{"methods":["POST"],"path":"/","form":{"Action":["A","B"]},"access":"read"}"#;
    assert_eq!(serde_json::to_string(&rule(json)).unwrap(), json);
    assert_eq!(rule(json).to_string(), "POST / form Action=A|B (read)");
    let lines: Vec<_> = rule(json).lines().iter().map(Line::to_string).collect();
    assert_eq!(
        lines,
        ["POST / form Action=A (read)", "POST / form Action=B (read)"]
    );
}

/// Lines of few methods, segments and fields, so that rules and requests match often.
fn some_line() -> impl Strategy<Value = Line> {
    let fields = || prop::collection::btree_map("[ab]", "[xy]", 0..2);
    let method = prop::sample::select(vec![Method::GET, Method::POST]);
    let access = prop::sample::select(vec![Access::Read, Access::Write]);
    let path = prop::collection::vec(prop::sample::select(vec!["p", "q", "{id}"]), 0..3);
    (method, path, fields(), fields(), access).prop_map(|(method, path, query, form, access)| {
        Line {
            method,
            path: PathPattern::parse(&format!("/{}", path.join("/"))).unwrap(),
            query: query.into_iter().collect(),
            form: form.into_iter().collect(),
            access,
            absence: Vec::new(),
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn whatever_a_covered_line_admits_is_admitted_by_the_covering_one(
        granted in some_line(),
        requested in some_line(),
        path in prop::collection::vec(prop::sample::select(vec!["p", "q", "r"]), 0..3),
        query in prop::collection::vec(("[ab]", "[xy]"), 0..3),
        form in prop::collection::vec(("[ab]", "[xy]"), 0..3),
    ) {
        let path = canonical(&format!("/{}", path.join("/"))).unwrap();
        let asked = Asked { method: &requested.method, path: &path, query: &query, form: Some(&form) };
        if granted.covers(&requested) && requested.admits(&asked) {
            prop_assert!(granted.admits(&asked));
            prop_assert!(granted.access == Access::Write || requested.access == Access::Read);
        }
    }
}
