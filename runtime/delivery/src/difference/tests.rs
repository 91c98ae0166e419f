//! Pairs of manifests, and the lines of their difference.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use ccm_core::cloud::Capabilities;
use ccm_core::rollout::MOST_REQUESTS;
use ccm_host::manifest::{Contract, Manifest};
use ccm_host::{Digest, Inspection};
use serde_json::{Value, json};

use super::{Difference, Requests};

/// A module with a usual manifest, changed by this patch.
fn module(patch: Value, imports: &[&str], exports: &[&str]) -> Requests {
    let mut manifest = json!({
        "contract": "0.1.0",
        "name": "sample",
        "version": "1.0.0",
        "description": "",
        "schemes": ["sample"],
        "targets": [api(&[rule(&["GET"], "/servers/{id}", "read")])],
        "annotationPrefixes": ["sample.example/"],
    });
    for (key, value) in patch.as_object().unwrap() {
        manifest[key] = value.clone();
    }
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    Requests::of(&Inspection {
        digest: Digest::of(manifest.to_string().as_bytes()),
        size: 1,
        manifest: Manifest::parse(manifest.to_string().as_bytes()).unwrap(),
        contract: Contract::V0_1,
        capabilities: Capabilities::default(),
        self_check: false,
        imports: names(imports),
        exports: names(exports),
    })
}

fn target(name: &str, endpoint: &str, auth: &str, rules: &[Value]) -> Value {
    json!({"name": name, "endpoint": endpoint, "auth": auth, "why": "", "rules": rules})
}

fn api(rules: &[Value]) -> Value {
    target("api", "https://api.sample.example/v1", "bearer", rules)
}

fn rule(methods: &[&str], path: &str, access: &str) -> Value {
    json!({"methods": methods, "path": path, "access": access})
}

/// Name, patches of the old and the new manifest, whether the new one is wider, and the lines.
type Row = (&'static str, Value, Value, bool, &'static [&'static str]);

fn rows() -> Vec<Row> {
    let rules = |rules: &[Value]| json!({"targets": [api(rules)]});
    let read = rule(&["GET"], "/servers/{id}", "read");
    let actions = |values: &[&str]| {
        let mut rule = rule(&["POST"], "/", "write");
        rule["form"] = json!({"Action": values});
        rules(&[rule])
    };
    let optional = |required: bool| {
        let mut target = api(std::slice::from_ref(&read));
        target["required"] = required.into();
        json!({"targets": [target]})
    };
    let mut absent = read.clone();
    absent["absence"] = json!([{"status": 400, "contains": "NotFound"}]);
    vec![
        ("the same", json!({}), json!({}), false, &[]),
        (
            "another version and description",
            json!({}),
            json!({"version": "2", "description": "new"}),
            false,
            &[],
        ),
        (
            "what proves absence is asked for, too: nodes are deleted for it",
            json!({"contract": "0.2.0", "targets": [api(std::slice::from_ref(&read))]}),
            json!({"contract": "0.2.0", "targets": [api(&[absent.clone()])]}),
            true,
            &[
                "+ https GET api.sample.example/v1/servers/{id}  read, 400 with \"NotFound\" proves absence",
            ],
        ),
        (
            "one proof less",
            json!({"contract": "0.2.0", "targets": [api(&[absent])]}),
            json!({"contract": "0.2.0", "targets": [api(std::slice::from_ref(&read))]}),
            false,
            &[
                "~ https GET api.sample.example/v1/servers/{id}  read",
                "- https GET api.sample.example/v1/servers/{id}  read, 400 with \"NotFound\" proves absence",
            ],
        ),
        (
            "one more request",
            rules(std::slice::from_ref(&read)),
            rules(&[read.clone(), rule(&["DELETE"], "/volumes/{id}", "write")]),
            true,
            &["+ https DELETE api.sample.example/v1/volumes/{id}  write"],
        ),
        (
            "one method more in the same rule",
            rules(&[rule(&["PUT"], "/volumes/{id}", "write")]),
            rules(&[rule(&["PUT", "DELETE"], "/volumes/{id}", "write")]),
            true,
            &["+ https DELETE api.sample.example/v1/volumes/{id}  write"],
        ),
        (
            "one request less",
            rules(&[read.clone(), rule(&["GET"], "/volumes", "read")]),
            rules(std::slice::from_ref(&read)),
            false,
            &["- https GET api.sample.example/v1/volumes  read"],
        ),
        (
            "what an old wider rule covers is not wider",
            rules(&[rule(&["GET"], "/{kind}/{id}", "read")]),
            rules(std::slice::from_ref(&read)),
            false,
            &[
                "~ https GET api.sample.example/v1/servers/{id}  read",
                "- https GET api.sample.example/v1/{kind}/{id}  read",
            ],
        ),
        (
            "what covers the old rule and more is wider, and the old one is not gone",
            rules(std::slice::from_ref(&read)),
            rules(&[rule(&["GET"], "/{kind}/{id}", "read")]),
            true,
            &["+ https GET api.sample.example/v1/{kind}/{id}  read"],
        ),
        (
            "another placeholder is no change",
            rules(std::slice::from_ref(&read)),
            rules(&[rule(&["GET"], "/servers/{server}", "read")]),
            false,
            &[],
        ),
        (
            "another order and another grouping are no change",
            rules(&[rule(&["PUT", "DELETE"], "/a", "write"), read.clone()]),
            rules(&[
                read.clone(),
                rule(&["DELETE"], "/a", "write"),
                rule(&["PUT"], "/a", "write"),
            ]),
            false,
            &[],
        ),
        (
            "to write where there was only read is wider",
            rules(&[rule(&["POST"], "/search", "read")]),
            rules(&[rule(&["POST"], "/search", "write")]),
            true,
            &["+ https POST api.sample.example/v1/search  write"],
        ),
        (
            "to read where there was write is within",
            rules(&[rule(&["POST"], "/search", "write")]),
            rules(&[rule(&["POST"], "/search", "read")]),
            false,
            &[
                "~ https POST api.sample.example/v1/search  read",
                "- https POST api.sample.example/v1/search  write",
            ],
        ),
        (
            "one value of a form more is wider",
            actions(&["DescribeInstances"]),
            actions(&["DescribeInstances", "TerminateInstances"]),
            true,
            &["+ https POST api.sample.example/v1/ form Action=TerminateInstances  write"],
        ),
        (
            "to drop the condition on the form is wider",
            actions(&["DescribeInstances"]),
            rules(&[rule(&["POST"], "/", "write")]),
            true,
            &["+ https POST api.sample.example/v1/  write"],
        ),
        (
            "a condition on the form is within",
            rules(&[rule(&["POST"], "/", "write")]),
            actions(&["DescribeInstances"]),
            false,
            &[
                "~ https POST api.sample.example/v1/ form Action=DescribeInstances  write",
                "- https POST api.sample.example/v1/  write",
            ],
        ),
        (
            "the same requests to another host are wider",
            json!({}),
            json!({"targets": [target("api", "https://api.else.example/v1", "bearer", std::slice::from_ref(&read))]}),
            true,
            &[
                "+ target api at https://api.else.example/v1, credential: bearer",
                "+ https GET api.else.example/v1/servers/{id}  read",
                "- target api at https://api.sample.example/v1, credential: bearer",
                "- https GET api.sample.example/v1/servers/{id}  read",
            ],
        ),
        (
            "with another credential they are wider",
            json!({"targets": [target("api", "https://a.example:8443", "none", std::slice::from_ref(&read))]}),
            json!({"targets": [target("api", "https://a.example:8443", "basic", std::slice::from_ref(&read))]}),
            true,
            &[
                "+ target api at https://a.example:8443/, credential: basic",
                "+ https GET a.example:8443/servers/{id}  read",
                "- target api at https://a.example:8443/, credential: none",
            ],
        ),
        (
            "without one they are not",
            json!({"targets": [target("api", "https://a.example", "basic", std::slice::from_ref(&read))]}),
            json!({"targets": [target("api", "https://a.example", "none", std::slice::from_ref(&read))]}),
            false,
            &[
                "~ target api at https://a.example/, credential: none",
                "- target api at https://a.example/, credential: basic",
                "- https GET a.example/servers/{id}  read",
            ],
        ),
        (
            "a second target with the same place is a target of its own",
            json!({}),
            json!({"targets": [
                api(std::slice::from_ref(&read)),
                target("more", "https://api.sample.example/v1", "bearer", std::slice::from_ref(&read)),
            ]}),
            true,
            &[
                "+ target more at https://api.sample.example/v1, credential: bearer",
                "+ https GET api.sample.example/v1/servers/{id}  read",
            ],
        ),
        (
            "what it could do without",
            optional(false),
            optional(true),
            true,
            &["+ cannot do without target api"],
        ),
        (
            "what it can do without",
            optional(true),
            optional(false),
            false,
            &["~ can do without target api"],
        ),
        (
            "prefixes",
            json!({"annotationPrefixes": ["a.example/", "b.example/x"]}),
            json!({"annotationPrefixes": ["a.example/x", "b.example/"]}),
            true,
            &[
                "~ annotation prefix a.example/x",
                "+ annotation prefix b.example/",
                "- annotation prefix a.example/",
                "- annotation prefix b.example/x",
            ],
        ),
        (
            "schemes",
            json!({"schemes": ["sample", "old"]}),
            json!({"schemes": ["sample", "new"]}),
            true,
            &["+ provider ID scheme new", "- provider ID scheme old"],
        ),
        (
            "another name",
            json!({}),
            json!({"name": "other"}),
            false,
            &["~ name in the manifest: other (before: sample)"],
        ),
        (
            "more of the usual limits",
            json!({}),
            json!({"limits": {"memoryMiB": 128, "callSeconds": 61}}),
            true,
            &[
                "+ memory of a call: 128 MiB (before: 64 MiB)",
                "+ time of a call: 61 s (before: 60 s)",
            ],
        ),
        (
            "less",
            json!({"limits": {"memoryMiB": 128, "callSeconds": 61}}),
            json!({}),
            false,
            &[
                "~ memory of a call: 64 MiB (before: 128 MiB)",
                "~ time of a call: 60 s (before: 61 s)",
            ],
        ),
        (
            "above the host's ceiling everything is the same",
            json!({"limits": {"memoryMiB": 256}}),
            json!({"limits": {"memoryMiB": 1024}}),
            false,
            &[],
        ),
        (
            "configuration: only what is required counts",
            json!({"config": [{"key": "A", "why": "", "required": true}, {"key": "B", "why": "", "required": false}]}),
            json!({"config": [{"key": "B", "why": "", "required": true}, {"key": "C", "why": "", "required": false}]}),
            true,
            &[
                "+ required configuration key B",
                "- required configuration key A",
            ],
        ),
    ]
}

#[test]
fn what_is_asked_for_is_compared_line_by_line() {
    for (name, old, new, is_wider, lines) in rows() {
        let difference = Difference::between(&module(old, &[], &[]), &module(new, &[], &[]));
        assert_eq!(difference.lines(), lines, "{name}");
        assert_eq!(difference.is_wider(), is_wider, "{name}");
        assert_eq!(difference.is_empty(), lines.is_empty(), "{name}");
        let mut wider = lines.to_vec();
        wider.retain(|line| line.starts_with('+'));
        assert_eq!(difference.wider_lines(), wider, "{name}");
    }
}

#[test]
fn what_was_written_down_is_compared_as_the_module_itself() {
    let (import, export) = ("ccm:provider/http@0.1.0", "ccm:provider/instances@0.1.0");
    for (name, old, new, ..) in rows() {
        let [old, new] = [old, new].map(|patch| module(patch, &[import], &[export]));
        let read = Requests::read(old.write().as_deref());
        let difference = Difference::between(&read, &new);
        assert_eq!(difference, Difference::between(&old, &new), "{name}");
    }
}

#[test]
fn compared_with_what_is_not_known_everything_is_more() {
    let any = module(json!({}), &[], &["ccm:provider/lifecycle@0.1.0"]);
    let written = any.write().unwrap();
    let of_another_form = written.replace("0.1.0", "next");
    for known in [None, Some(""), Some("{}"), Some(of_another_form.as_str())] {
        let difference = Difference::between(&Requests::read(known), &any);
        let mut lines = difference.lines();
        assert_eq!(difference.wider_lines(), lines, "{known:?}");
        lines.retain(|line| line.contains("export ") || line.contains("GET"));
        assert_eq!(lines.len(), 2, "{known:?}");
    }
    // Longer than a record stores.
    let long = "x".repeat(MOST_REQUESTS);
    assert_eq!(module(json!({}), &[&long], &[]).write(), None);
}

#[test]
fn interfaces_are_compared_without_their_versions() {
    let old = module(
        json!({}),
        &["ccm:provider/log@0.1.0", "wasi:clocks/wall-clock@0.2.0"],
        &["ccm:provider/instances@0.1.0", "wasi:cli/run@0.2.0"],
    );
    let new = module(
        json!({}),
        &["ccm:provider/log@0.1.1", "wasi:http/outgoing-handler@0.2.0"],
        &[
            "ccm:provider/instances@0.1.0",
            "ccm:provider/load-balancer@0.1.0",
            "cm32p2:tool/init@1.0.0",
        ],
    );
    let difference = Difference::between(&old, &new);
    let lines = "\
+ import wasi:http/outgoing-handler
- import wasi:clocks/wall-clock
+ export ccm:provider/load-balancer";
    assert_eq!(difference.to_string(), lines);
    assert!(difference.is_wider());
    assert!(!Difference::between(&new, &new).is_wider());
}

#[test]
fn a_hostile_manifest_writes_no_terminal_codes_into_a_plan() {
    let mut rule = rule(&["POST"], "/", "write");
    rule["query"] = json!({"\u{202e}": ["\u{feff}x"]});
    let new = module(json!({"targets": [api(&[rule])]}), &[], &[]);
    let difference = Difference::between(&module(json!({}), &[], &[]), &new);
    let plus = difference.wider_lines().join("");
    assert_eq!(
        plus,
        "+ https POST api.sample.example/v1/ ?\\u{202e}=\\u{feff}x  write"
    );
}
