//! Statements that pages share with the code or with manifests, and that no page is made of.

use std::collections::BTreeSet;
use std::time::Duration;

use ccm_core::node::answer_check::{MAX_ADDRESSES, MAX_LABELS};
use ccm_core::reconciliation::effect::ObjectKind;
use ccm_core::rollout::RolloutRules;
use ccm_core::safety::audit::{
    Act, Attempt, AuditRecord, Author, BrakeState, End, Leader, Subject,
};
use ccm_core::safety::brake::{Allowance, Brake, BudgetLevel};
use ccm_core::well_known::RESERVED_DOMAINS;
use serde_json::{Value, json};

use crate::lists::{assert_none, files, root, text};

/// What the host lets through and core then leaves out would be an Event about every machine that has so many.
#[test]
fn as_much_of_an_instance_is_kept_as_the_contract_allows() {
    let contract = text("wit/v0.2/common.wit");
    let (_, record) = contract.split_once("record instance {").unwrap();
    for (field, most) in [
        ("addresses: list<address>", MAX_ADDRESSES),
        ("labels: list<tuple<string, string>>", MAX_LABELS),
    ] {
        let (documentation, _) = record.split_once(field).unwrap();
        let allowed = documentation.rsplit("At most ").next().unwrap();
        assert!(
            allowed.starts_with(&format!("{most}.")),
            "{field}: {most} are kept, and the contract allows {allowed}"
        );
    }
}

/// A guest cannot use this manager's code, and a label that it lets through would be an Event about each node.
#[test]
fn the_static_module_refuses_the_labels_that_no_provider_may_set() {
    let list = format!("= {RESERVED_DOMAINS:?};");
    assert!(
        text("guests/static/src/document.rs").contains(&list),
        "{list}"
    );
}

#[test]
fn the_rights_for_config_maps_and_secrets_are_those_that_the_variants_grant() {
    let page = text("deploy/docs/operations.md");
    for (what, variant) in [
        ("| `configmap://namespace/name/key` | ", "configmap"),
        (
            "| `secret: { namespace, name, key }` in the configuration | ",
            "registry",
        ),
    ] {
        let (_, rest) = page.split_once(what).unwrap();
        let right = rest.lines().next().unwrap();
        let verbs: Vec<&str> = right.split('`').skip(1).step_by(2).collect();
        let roles = text(&format!("deploy/kustomize/variants/{variant}/rbac.yaml"));
        let roles: Vec<Value> = serde_saphyr::from_multiple(&roles).unwrap();
        assert_eq!(json!(verbs), roles[0]["rules"][0]["verbs"], "{what}");
    }
}

/// Commands are run in the folder of the repository, as the tutorial says.
#[test]
fn folders_that_are_applied_exist() {
    let mut problems = Vec::new();
    let mut applied = 0;
    for page in files(&["deploy", "guests", "guest-sdk", "wit"], "md") {
        let text = std::fs::read_to_string(&page).unwrap();
        for verb in ["apply", "delete"] {
            for folder in text.split(&format!("kubectl {verb} -k ")).skip(1) {
                let folder = folder.split([' ', '`', '\n']).next().unwrap();
                applied += 1;
                // The reader's own, or a copy that the page makes.
                let is_copy = |line: &str| line.starts_with("cp -r ") && line.ends_with(folder);
                let is_own = folder == "my-cluster" || text.lines().any(is_copy);
                if !is_own && !root().join(folder).is_dir() {
                    problems.push(format!("{page}: there is no folder {folder}"));
                }
            }
        }
    }
    assert_none(&problems);
    assert!(applied > 5, "{applied}");
}

/// Other projects have a kind `Provider`, too, and kubectl takes the first one that it finds. An annotation that an earlier
/// order has left is an error without `--overwrite`.
#[test]
fn commands_about_objects_mean_no_other_projects_kind() {
    let mut problems = Vec::new();
    let mut orders = 0;
    let mut pages = files(&["deploy"], "md");
    pages.extend(files(&["deploy"], "yaml"));
    for page in pages {
        let text = std::fs::read_to_string(&page).unwrap();
        // One page says which name means what.
        let says_why = page.ends_with("deploy/README.md");
        for command in text.split("kubectl ").skip(1) {
            let command = command.split(['`', '#', '\n']).next().unwrap();
            let words: Vec<&str> = command.split_whitespace().collect();
            let is_ambiguous = |word: &&str| {
                ["provider", "providers"].contains(word) || word.starts_with("provider/")
            };
            if !says_why && words.iter().any(is_ambiguous) {
                problems.push(format!(
                    "{page}: ccmp is the name that means ours: {command}"
                ));
            }
            if words.first() == Some(&"annotate") && words.contains(&"ccmp") {
                orders += 1;
                if !words.contains(&"--overwrite") {
                    problems.push(format!("{page}: fails the second time: {command}"));
                }
            }
        }
    }
    assert_none(&problems);
    assert!(orders > 2, "{orders}");
}

/// The place and the fields of the example in both forms of the log.
#[test]
fn the_log_line_of_the_page_is_one_that_the_program_writes() {
    let page = text("deploy/docs/operations.md");
    let line = |start: &str| page.lines().find(|line| line.starts_with(start)).unwrap();
    let klog = line("I1122 ");
    let (head, fields) = klog.split_once("] ").unwrap();
    let place = head.rsplit(' ').next().unwrap();
    let (file, _) = place.split_once(':').unwrap();
    let mut names: Vec<&str> = fields
        .split(' ')
        .filter_map(|word| word.split_once("=").map(|(name, _)| name))
        .collect();
    assert_eq!(names.remove(0), "logger");

    let mut sources = files(&["runtime/controllers/src"], "rs").into_iter();
    let written = sources.find_map(|path| {
        let is_it = path.ends_with(&format!("/{file}"));
        let text = is_it.then(|| std::fs::read_to_string(path).unwrap())?;
        let (_, rest) = text.split_once("target: \"initialised\", ")?;
        Some(rest.split_once(");").unwrap().0.to_owned())
    });
    let written = written.unwrap_or_else(|| panic!("no {file} writes such a line"));
    let written: Vec<&str> = written
        .split(", ")
        .map(|field| field.split(" = ").next().unwrap())
        .map(|field| field.trim_start_matches(['?', '%']))
        .collect();
    assert_eq!(names, written);

    let json: Value = serde_json::from_str(line("{\"ts\":")).unwrap();
    assert!(json["caller"].as_str().unwrap().ends_with(place), "{json}");
    for name in written {
        assert!(json.get(name).is_some(), "{name}: {json}");
    }
}

/// The number as pages write it: up to ten as a word.
fn written(number: u64) -> String {
    let words = [
        "no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
    ];
    let word = usize::try_from(number).ok().and_then(|at| words.get(at));
    word.map_or_else(|| number.to_string(), |word| (*word).to_owned())
}

/// The words of the page, with a space between two.
fn words(page: &str) -> String {
    let page = text(page);
    page.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_trial_ends_at_once_after_as_many_errors_as_the_page_says() {
    let number = written(u64::from(RolloutRules::default().errors_at_once));
    let expected = format!("so do {number} errors of a kind that the active version does not show");
    let page = words("deploy/docs/providers.md");
    assert!(page.contains(&expected), "{expected}");
}

/// The number that follows this text of a source, which has it once.
fn number_after(start: &str, source: &str) -> u64 {
    let text = text(source);
    let parts: Vec<&str> = text.split(start).collect();
    assert_eq!(parts.len(), 2, "{source}: {start}");
    let number = parts[1].split([';', ')']).next().unwrap();
    number.parse().unwrap()
}

/// Each sentence of a page has the number of a constant, divided by the unit, in place of the `…`.
#[test]
fn numbers_that_a_page_repeats_are_those_of_the_code() {
    let history = "runtime/core/src/node_lifecycle/not_ready_history.rs";
    let survey = "runtime/core/src/node_lifecycle/survey.rs";
    let polls = "guests/digitalocean/src/load_balancer/ensure.rs";
    let safety = "deploy/docs/safety.md";
    let step = (
        "runtime/core/src/safety/brake/rise.rs",
        "const STEP: Duration = Duration::from_secs(",
        60,
    );
    let rises = "the allowance rises for them every … minutes";
    for ((source, start, unit), page, sentence) in [
        (
            (history, "const MOST_CHANGES: u32 = ", 1),
            safety,
            "has changed its answer about this node: … times at most",
        ),
        (
            (history, "most: Duration::from_secs(", 1),
            safety,
            "at intervals that grow to … s while its machine is found",
        ),
        (
            (survey, "const FIRST_WITNESSES: usize = ", 1),
            safety,
            "up to … nodes that should exist",
        ),
        (
            (survey, "const WITNESSES: usize = ", 1),
            safety,
            "or … once one is called gone",
        ),
        (step, "deploy/docs/pod-networks.md", rises),
        (step, "deploy/docs/load-balancers.md", rises),
        (
            (
                "runtime/ccm/src/builtin_grants/unknown.rs",
                "const SHOWN: usize = ",
                1,
            ),
            "deploy/docs/hcloud.md",
            "(the first …, and how many more)",
        ),
        (
            (polls, "const LATER: Duration = Duration::from_secs(", 1),
            "guests/README.md",
            "and then every … |",
        ),
    ] {
        let number = written(number_after(start, source) / unit);
        let expected = sentence.replace('…', &number);
        assert!(words(page).contains(&expected), "{page}: {expected}");
    }
}

#[test]
fn the_page_has_the_default_of_each_brake() {
    let page = text("deploy/docs/safety.md");
    let flags = Brake::ALL.map(|brake| {
        let allowance = Allowance::default_of(brake);
        let (least, percent, most) = (allowance.least, allowance.percent, allowance.most);
        format!("`--brake={brake}={least}:{percent}:{most}`")
    });
    let missing: Vec<_> = flags
        .into_iter()
        .filter(|flag| !page.contains(flag))
        .collect();
    assert_none(&missing);
}

/// People look up the reasons that they see. The words are those of the code that writes conditions.
#[test]
fn every_reason_of_a_condition_is_explained() {
    let page = text("deploy/docs/troubleshooting.md");
    let (_, page) = page.split_once("\n## Conditions\n").unwrap();
    let page = page.split("\n## ").next().unwrap();
    let (of_providers, of_services) = page.split_once("`wasm-ccm.dev/LoadBalancer`").unwrap();
    // The columns with the condition and its reasons, of which several have commas between them, not the explanations.
    let explained = |tables: &str| -> BTreeSet<String> {
        let columns = tables.lines().flat_map(|line| line.split('|').take(3));
        let words = columns.flat_map(|column| column.split('`').skip(1).step_by(2));
        words.map(str::to_owned).collect()
    };
    let (of_providers, of_services) = (explained(of_providers), explained(of_services));
    let mut problems = Vec::new();
    let mut reasons = 0;
    for (table, path, begin, end) in [
        (
            &of_providers,
            "runtime/delivery/src/record/conditions.rs",
            "//! ",
            "#[cfg(test)]",
        ),
        (
            &of_providers,
            "runtime/delivery/src/record.rs",
            "pub enum RefusalReason {",
            "\n    }",
        ),
        (
            &of_providers,
            "runtime/core/src/rollout/record.rs",
            "pub enum Phase {",
            "\n    }",
        ),
        (
            &of_services,
            "runtime/core/src/service/conditions.rs",
            "//! ",
            "#[cfg(test)]",
        ),
        (
            &of_services,
            "runtime/core/src/cloud/error.rs",
            "fn names(",
            "\n    }",
        ),
        (
            &of_services,
            "runtime/core/src/service/waiting.rs",
            "fn condition(",
            "\n    }",
        ),
    ] {
        let source = text(path);
        let (_, source) = source.split_once(begin).unwrap();
        let source = source.split(end).next().unwrap();
        for word in source.split('"').skip(1).step_by(2) {
            let is_reason = word.starts_with(char::is_uppercase)
                && word.chars().all(char::is_alphabetic)
                && !["True", "False"].contains(&word);
            if is_reason {
                reasons += 1;
                if !table.contains(word) {
                    problems.push(format!("{path}: {word}"));
                }
            }
        }
    }
    assert_none(&problems);
    assert!(reasons > 40, "{reasons}");
}

/// Why the executor deletes a load balancer.
fn reason_of_a_deletion() -> String {
    let source = text("runtime/controllers/src/executor/service.rs");
    let (_, deletion) = source.split_once("async fn remove(").unwrap();
    let (_, reason) = deletion.split_once("let why = \"").unwrap();
    reason.split('"').next().unwrap().to_owned()
}

/// That each change at a cloud counts for this brake is a law of the scenarios (S12).
#[test]
fn the_audit_record_of_the_page_is_one_that_the_program_writes_and_every_key_is_explained() {
    let brake = Brake::CloudMutations;
    let record = AuditRecord {
        author: Author {
            provider: "hcloud".to_owned(),
            digest: "sha256:6f1c…".to_owned(),
        },
        subject: Subject {
            kind: Some(ObjectKind::Service),
            namespace: Some("default".to_owned()),
            name: "web".to_owned(),
            uid: "7d3e5c1a".to_owned(),
            reason: reason_of_a_deletion(),
        },
        act: Act::CloudMutation {
            method: "DELETE".to_owned(),
            host: "api.hetzner.cloud".to_owned(),
            path: "/load_balancers/{id}".to_owned(),
            sha256: "9b74c9…".to_owned(),
        },
        end: End::Answered {
            status: 204,
            request_id: Some("a1b2c3".to_owned()),
        },
        took: Some(Duration::from_millis(84)),
        brake: Some(BrakeState {
            brake,
            level: BudgetLevel {
                taken: 1,
                allowed: Allowance::default_of(brake).of(0),
            },
        }),
    };
    let leader = Leader {
        identity: "control-1_8b1f".to_owned(),
        transitions: 7,
    };
    let time = "2026-01-02T03:04:05.000Z";
    let written = record.to_json(time, &leader);
    let page = text("deploy/docs/safety.md");
    let (_, rest) = page.split_once("```json\n").unwrap();
    let shown = rest.split("```").next().unwrap();
    let shown: Value = serde_json::from_str(shown).unwrap();
    assert_eq!(shown, written);

    let refused = Attempt {
        author: record.author.clone(),
        subject: &record.subject,
        target: "api",
        method: "DELETE",
        outcome: "denied",
        refusal: "not granted",
    };
    let mut keys = Vec::new();
    for value in [&written, &refused.to_json(time, &leader, 0)] {
        paths("", value, &mut keys);
    }
    assert!(keys.len() > 25, "{keys:?}");
    keys.retain(|key| !page.contains(&format!("`{key}`")));
    assert!(keys.is_empty(), "{keys:?}");
}

/// The keys of all values that are no objects, with those of the objects around them.
fn paths(around: &str, value: &Value, found: &mut Vec<String>) {
    match value.as_object() {
        Some(object) => {
            for (key, value) in object {
                let path = match around {
                    "" => key.clone(),
                    around => format!("{around}.{key}"),
                };
                paths(&path, value, found);
            }
        }
        None => found.push(around.to_owned()),
    }
}
