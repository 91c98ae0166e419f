//! Texts that the first pages for operators must have, because the program says nothing about them in time.

use ccm_core::rollout::RolloutRules;
use serde_json::Value;

use crate::lists::{assert_none, files, root, shipped, text};

/// The text between the heading and the next one of the same level.
fn section(page: &str, heading: &str) -> String {
    let text = std::fs::read_to_string(root().join(page)).unwrap();
    let rest = match heading {
        "" => text.as_str(),
        heading => {
            let at = text.find(&format!("\n## {heading}\n"));
            &text[at.unwrap_or_else(|| panic!("{page} has no {heading}")) + 1..]
        }
    };
    let end = rest[1..].find("\n## ").map_or(rest.len(), |at| at + 1);
    rest[..end].to_owned()
}

#[test]
fn the_first_pages_say_what_the_first_service_the_first_module_and_the_last_command_need() {
    for (page, heading, reported) in [
        // Without a location the first Service of type LoadBalancer fails. Without nodes of the control plane no pod starts.
        (
            "deploy/README.md",
            "",
            &[
                "HCLOUD_LOAD_BALANCERS_LOCATION",
                "configuration.yaml",
                "node-role.kubernetes.io/control-plane",
                "Or remove the affinity",
            ][..],
        ),
        (
            "deploy/README.md",
            "Another module",
            &[
                "ccm provider pack embedded:hcloud --to provider.wasm",
                "ccm config check",
            ],
        ),
        (
            "deploy/docs/providers.md",
            "Without a file",
            &["ccm provider pack", "embedded:hcloud"],
        ),
        (
            "deploy/docs/providers.md",
            "Two digests",
            &["manifest", "annotations"],
        ),
        // The definition of Provider stays, and with it all pins.
        (
            "deploy/README.md",
            "Remove it",
            &["delete -k", "pins", "daemonset/ccm", "kubectl get ccmp"],
        ),
    ] {
        let text = section(page, heading);
        for part in reported {
            assert!(text.contains(part), "{page}, {heading}: {part}");
        }
    }
    let base = root().join("deploy/kustomize/base/configuration.yaml");
    let base = std::fs::read_to_string(base).unwrap();
    assert!(base.contains("HCLOUD_LOAD_BALANCERS_LOCATION"), "{base}");
}

/// The text on one line, as far as it is prose.
fn unwrapped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn authors_are_told_how_long_a_swap_takes() {
    let rules = RolloutRules::default();
    let [shadow, canary] = [rules.shadow_time, rules.canary_time].map(|time| time.as_secs());
    let reported = format!(
        "up to {} s by default: {shadow} s of comparison (`shadowTime`) and {canary} s of answering a part of the calls \
         (`canaryTime`)",
        shadow + canary
    );
    let page = unwrapped(&section("deploy/docs/providers.md", "For authors"));
    assert!(page.contains(&reported), "{reported}");
}

/// The cells of the row that starts like this.
fn cells<'a>(page: &'a str, start: &str) -> Vec<&'a str> {
    let row = page.lines().find(|line| line.starts_with(start));
    let row = row.unwrap_or_else(|| panic!("no row begins {start}"));
    row.split('|').map(str::trim).collect()
}

#[test]
fn each_provider_is_listed_with_what_it_does_not_do() {
    let first_page = text("README.md");
    let list = text("guests/README.md");
    for provider in &shipped() {
        let library = text(&format!("guests/{provider}/src/lib.rs"));
        let (_, exports) = library.split_once("interfaces: [").unwrap();
        let exports = exports.split(']').next().unwrap().replace('_', "-");
        let row = cells(&first_page, &format!("| `{provider}` |"));
        let ["", _, serves, lacks, ""] = row.as_slice() else {
            panic!("{row:?}");
        };
        let row = cells(&list, &format!("| [`{provider}`]({provider}/README.md) |"));
        let ["", _, _, all, interfaces, ""] = row.as_slice() else {
            panic!("{row:?}");
        };
        assert_eq!(*interfaces, exports.as_str(), "{provider}");
        for (interface, objects) in [("load-balancer", "load balancers"), ("routes", "routes")] {
            let is_served = exports.contains(interface);
            assert_eq!(serves.contains(objects), is_served, "{provider}: {serves}");
            let is_denied = lacks.contains(objects) && all.contains(objects);
            assert!(is_served || is_denied, "{provider}: {objects}");
        }
        // The first page has some of the list, in its words.
        let all = all.trim_start_matches('[');
        for lack in lacks.split("; ") {
            let is_listed = all.split("; ").any(|one| one.starts_with(lack));
            assert!(is_listed && !lack.is_empty(), "{provider}: {lack:?}");
        }
        let page = format!("guests/{provider}/README.md");
        assert!(text(&page).contains("does not do"), "{page}");
    }
}

/// Load balancers of Services that still exist are removed by nobody afterwards.
#[test]
fn what_has_to_come_before_the_removal_is_said_before_its_command() {
    let text = section("deploy/README.md", "Remove it");
    let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part}: {text}"));
    assert!(at("Services of type LoadBalancer") < at("kubectl delete -k"));
}

/// A module is not loaded if one of its lines is not granted. So an example has all lines, or says that some are missing.
#[test]
fn an_example_of_grants_has_all_lines_or_says_that_some_are_missing() {
    let mut problems = Vec::new();
    let mut examples = 0;
    for page in files(&["deploy", "guests", "guest-sdk"], "md") {
        let text = std::fs::read_to_string(&page).unwrap();
        for block in text.split("```yaml\n").skip(1) {
            let block = block.split("```").next().unwrap();
            if !block.contains("kind: Provider") || !block.contains("      rules:\n") {
                continue;
            }
            examples += 1;
            let names = block.split("name: ").nth(1).unwrap();
            let name = names.split_whitespace().next().unwrap();
            let lines = block.matches("- { methods: ").count();
            if !block.contains("      # …") && lines < required_lines(name) {
                problems.push(format!("{page}: grants of {name} with {lines} lines"));
            }
        }
    }
    assert_none(&problems);
    assert!(examples >= 3, "{examples}");
}

/// The number of lines that the provider's manifest requests of its required targets.
fn required_lines(provider: &str) -> usize {
    let path = root().join(format!("guests/{provider}/manifest.json"));
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let manifest: Value = serde_json::from_str(&text).unwrap();
    let targets = manifest["targets"].as_array().unwrap().iter();
    let required = targets.filter(|target| target["required"] != false);
    required
        .map(|target| target["rules"].as_array().unwrap().len())
        .sum()
}

/// The manager writes these labels when it initialises a node, and a selector decides before that.
#[test]
fn no_selector_of_the_documents_names_a_label_that_the_manager_writes() {
    let mut problems = Vec::new();
    let mut selectors = 0;
    for page in files(&["deploy", "guests"], "md") {
        let text = std::fs::read_to_string(&page).unwrap();
        for line in text
            .lines()
            .filter(|line| line.contains("nodes: { selector: "))
        {
            selectors += 1;
            let labels = [
                "topology.kubernetes.io/",
                "node.kubernetes.io/instance-type",
            ];
            if labels.iter().any(|label| line.contains(label)) {
                problems.push(format!("{page}: {line}"));
            }
        }
    }
    assert_none(&problems);
    assert!(selectors >= 3, "{selectors}");
}
