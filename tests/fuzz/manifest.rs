//! The section in which a module requests rights, narrowed to one operator's grants: whatever it contains, every
//! resulting request, credential and annotation was granted.

use ccm_core::safety::permit::Access;
use ccm_host::egress::path::canonical;
use ccm_host::egress::rules::{Asked, Line, Rule, first};
use ccm_host::grant::{Credential, Grants, RequestBudget, Secret, TargetGrant};
use ccm_host::manifest::{Granted, Manifest};
use ccm_tests::fuzz::{Target, Verdict};
use serde_json::json;

use crate::{hold, is_one_line};

pub(crate) const TARGET: Target = Target {
    name: "manifest",
    words: &[
        "\"targets\":[",
        "\"rules\":[",
        "\"methods\":[\"GET\"]",
        "\"POST\"",
        "\"DELETE\"",
        "\"/servers\"",
        "\"/servers/{id}\"",
        "\"/{any}\"",
        "/../",
        "%2f",
        "\"access\":\"read\"",
        "\"access\":\"write\"",
        "\"query\":{\"status\":[\"running\"]}",
        "\"form\":{}",
        "\"required\":false",
        "\"auth\":\"bearer\"",
        "\"auth\":\"none\"",
        "\"name\":\"plain\"",
        "\"annotationPrefixes\":[\"lb.example.com/\"]",
        "kubernetes.io/",
        "https://169.254.169.254/",
        "null",
        "1e999",
        "\\u001b",
        "\\u202e",
        "[[[[",
        "{},",
    ],
    longest: 16 << 10,
    check,
};

fn operator() -> Grants {
    let rule = |methods: &[&str], path: &str, access: &str| {
        let rule = json!({ "methods": methods, "path": path, "access": access });
        serde_json::from_value::<Rule>(rule).unwrap()
    };
    let running = json!({ "methods": ["GET"], "path": "/actions", "query": { "status": ["running"] }, "access": "read" });
    let target = |name: &str, rules, credential| TargetGrant {
        requests: RequestBudget::default(),
        name: name.to_owned(),
        endpoint: "https://api.example.com/v1".parse().unwrap(),
        rules,
        credential,
        addresses: Vec::new(),
        ca_pem: None,
        fingerprints: Vec::new(),
        proxy: None,
    };
    let api = vec![
        rule(&["GET"], "/servers", "read"),
        rule(&["GET", "DELETE"], "/servers/{id}", "write"),
        rule(&["POST"], "/servers/{id}/actions", "write"),
        serde_json::from_value(running).unwrap(),
    ];
    Grants {
        targets: vec![
            target(
                "api",
                api,
                Credential::Bearer(Secret::new("s3cret".to_owned())),
            ),
            target(
                "plain",
                vec![rule(&["GET"], "/{any}", "read")],
                Credential::None,
            ),
        ],
        annotation_prefixes: vec!["lb.example.com/".to_owned()],
    }
}

fn check(input: &[u8]) -> Result<Verdict, String> {
    let manifest = match Manifest::parse(input) {
        Ok(manifest) => manifest,
        Err(error) => return refused(error.to_string()),
    };
    if let Ok(granted) = manifest.narrow(Grants::default()) {
        let nothing = granted.targets.is_empty() && granted.annotation_prefixes.is_empty();
        hold(nothing, || "something was granted by nobody".to_owned())?;
    }
    match manifest.narrow(operator()) {
        Err(missing) => refused(missing.to_string()),
        Ok(granted) => {
            is_within(&granted)?;
            Ok(Verdict::Taken)
        }
    }
}

/// A refusal, whose reason people read.
fn refused(why: String) -> Result<Verdict, String> {
    hold(is_one_line(&why), || format!("people are shown {why:?}"))?;
    Ok(Verdict::Refused(why))
}

fn is_within(granted: &Granted) -> Result<(), String> {
    let operator = operator();
    for prefix in &granted.annotation_prefixes {
        hold(prefix.starts_with("lb.example.com/"), || {
            format!("annotations under {prefix}")
        })?;
    }
    let names: Vec<_> = granted
        .targets
        .iter()
        .map(|target| &target.grant.name)
        .collect();
    for target in &granted.targets {
        let grant = &target.grant;
        let given = operator
            .targets
            .iter()
            .find(|given| given.name == grant.name);
        let given = given.ok_or_else(|| format!("nobody granted the target {}", grant.name))?;
        let is_same = grant.endpoint == given.endpoint
            && grant.addresses.is_empty()
            && grant.ca_pem.is_none()
            && grant.fingerprints.is_empty()
            && (grant.credential == given.credential || grant.credential == Credential::None);
        hold(is_same, || {
            format!("the target {} is another one", grant.name)
        })?;
        hold(
            names.iter().filter(|name| ***name == grant.name).count() == 1,
            || format!("{names:?}"),
        )?;
        let lines: Vec<Line> = given.rules.iter().flat_map(Rule::lines).collect();
        for line in &target.lines {
            is_given(line, &lines)?;
        }
        let changes = lines.iter().filter(|line| line.access == Access::Write);
        hold(changes.eq(&target.changes), || {
            "changes are forgotten".to_owned()
        })?;
    }
    Ok(())
}

/// A request on `line`, and whether the operator's own lines admit it.
fn is_given(line: &Line, given: &[Line]) -> Result<(), String> {
    let segments: Vec<_> = line
        .path
        .as_str()
        .split('/')
        .map(|one| if one.starts_with('{') { "any" } else { one })
        .collect();
    let path = canonical(&segments.join("/")).map_err(|error| format!("{line}: {error}"))?;
    let asked = Asked {
        method: &line.method,
        path: &path,
        query: &line.query,
        form: (!line.form.is_empty()).then_some(line.form.as_slice()),
    };
    hold(line.admits(&asked), || {
        format!("{line} does not admit {asked:?}")
    })?;
    let found = first(given, &asked).ok_or_else(|| format!("{line} is more than was granted"))?;
    hold(
        found.access == Access::Read || line.access == Access::Write,
        || format!("{line} hides a change"),
    )
}
