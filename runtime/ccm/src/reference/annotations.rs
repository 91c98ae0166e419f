//! The page of labels, annotations and taints, from the constants of the runtime and of the shipped providers.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use super::{cell, hold, read, root, source};

const HCLOUD: &str = "load-balancer.hetzner.cloud/";

#[test]
fn the_page_of_annotations_is_what_the_constants_say() {
    let shared = source::constants(&read("runtime/core/src/well_known.rs"));
    let (ours, theirs): (Vec<_>, Vec<_>) = shared
        .into_iter()
        .filter(|one| one.value.contains('/') || one.value == "ToBeDeletedByClusterAutoscaler")
        .filter(|one| !one.value.starts_with(HCLOUD))
        .partition(|one| one.value.starts_with("wasm-ccm.dev/"));
    let hcloud = source::constants(&read("guests/hcloud/src/load_balancer/annotations.rs"));
    let hcloud = hcloud
        .into_iter()
        .filter(|one| one.value.starts_with(HCLOUD));
    let aws = read("guests/aws/src/load_balancer/annotations.rs");
    let prefix = &source::constants(&aws)[0].value;
    let aws = source::constants(&aws).into_iter().skip(1);
    let digitalocean = source::declarations(&read(
        "guests/digitalocean/src/load_balancer/annotations.rs",
    ));
    let full = |mut constant: source::Constant| {
        constant.value.insert_str(0, prefix);
        constant
    };
    let tables = [
        (
            "Of this project",
            "Labels, annotations and conditions under `wasm-ccm.dev/`. No provider may write under it.",
            ours,
            10,
        ),
        (
            "Of Kubernetes, and of autoscalers",
            "Labels, annotations, taints and finalizers that others define, and that `ccm` reads or writes.",
            theirs,
            15,
        ),
        (
            "Of the provider hcloud",
            "Annotations of Services, with the meaning that they have for Hetzner's own manager.",
            hcloud.collect(),
            36,
        ),
        (
            "Of the provider aws",
            "Annotations of Services of the Go provider. `guests/README.md` says for each whether network and classic load \
             balancers have it.",
            aws.map(full).collect(),
            30,
        ),
        (
            "Of the provider digitalocean",
            "Annotations of Services of the Go manager. `guests/README.md` says which have no effect, or none after creation.",
            digitalocean,
            39,
        ),
    ];
    let mut body = String::new();
    for (heading, about, constants, at_least) in tables {
        write!(
            body,
            "## {heading}\n\n{about}\n\n| Name | Meaning |\n|---|---|\n"
        )
        .unwrap();
        let mut seen = BTreeSet::new();
        for source::Constant {
            value,
            documentation,
        } in &constants
        {
            if seen.insert(value) {
                assert!(!documentation.is_empty(), "{value} is not explained");
                let meaning = cell(&source::without_statements(documentation));
                writeln!(body, "| `{value}` | {meaning} |").unwrap();
            }
        }
        assert!(seen.len() >= at_least, "{heading}: {}", seen.len());
        body.push('\n');
    }
    hold(
        "annotations.md",
        "Labels, annotations and taints",
        "All names that `ccm` shares with other programs and people. None of them changes, because other programs match on them.",
        &body,
    );
}

#[test]
fn the_page_of_annotations_has_every_name_of_this_project() {
    let mut used = BTreeSet::new();
    let mut look = |path: &Path, text: &str| {
        let mut parts = path.components();
        if parts.any(|part| part.as_os_str().to_string_lossy().starts_with("tests")) {
            return;
        }
        for rest in text.split("wasm-ccm.dev/").skip(1) {
            let is_of_name = |letter: &char| letter.is_ascii_alphanumeric() || *letter == '-';
            let name: String = rest.chars().take_while(is_of_name).collect();
            used.insert(format!("wasm-ccm.dev/{name}"));
        }
    };
    for name in ["core", "controllers", "delivery", "host", "serving", "ccm"] {
        source::files(&root().join(format!("runtime/{name}/src")), &mut look);
    }
    let policy = "deploy/kustomize/base/keep-records.yaml";
    look(Path::new(policy), &read(policy));
    // The domain alone, and the API version.
    used.retain(|name| !["wasm-ccm.dev/", "wasm-ccm.dev/v1alpha1"].contains(&&**name));
    let page = read("deploy/docs/reference/annotations.md");
    used.retain(|name| !page.contains(&format!("| `{name}` |")));
    assert!(used.is_empty(), "{used:?}");
}
