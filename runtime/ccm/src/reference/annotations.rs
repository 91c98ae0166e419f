//! The page of labels, annotations and taints, from the constants of the runtime and of the shipped providers.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use super::{cell, hold, read, root, source};

const HCLOUD: &str = "load-balancer.hetzner.cloud/";

/// Labels that the shipped providers give to nodes: the file in which a label is named, its name there and the rest of
/// it, and the meaning.
const OF_NODES: &[(&str, &str, &str, &str)] = &[
    (
        "guests/aws/src/instances.rs",
        "topology.k8s.aws/zone-id",
        "",
        "Given by `aws`: the ID of the zone.",
    ),
    (
        "guests/aws/src/instances.rs",
        "topology.k8s.aws/network-node-layer-",
        "N",
        "Given by `aws`: the network nodes above the instance, from 1 for the outermost.",
    ),
    (
        "guests/hcloud/src/instances.rs",
        "instance.hetzner.cloud/provided-by",
        "",
        "Given by `hcloud`: `cloud` or `robot`.",
    ),
    (
        "guests/proxmox/src/machine.rs",
        "topology.proxmox.sinextra.dev/region",
        "",
        "Given by `proxmox`: the region.",
    ),
    (
        "guests/proxmox/src/machine.rs",
        "topology.proxmox.sinextra.dev/zone",
        "",
        "Given by `proxmox`: the zone.",
    ),
];

#[test]
fn the_page_of_annotations_is_what_the_constants_say() {
    let shared = source::constants(&read("runtime/core/src/well_known.rs"));
    let (ours, theirs): (Vec<_>, Vec<_>) = shared
        .into_iter()
        .filter(|one| one.value.contains('/') || one.value == "ToBeDeletedByClusterAutoscaler")
        .filter(|one| !one.value.starts_with(HCLOUD))
        .partition(|one| one.value.starts_with("wasm-ccm.dev/"));
    let hcloud = read("guests/hcloud/src/load_balancer/annotations.rs");
    let (_, unused) = hcloud.split_once("pub const UNUSED: ").unwrap();
    let (unused, _) = unused.split_once("];").unwrap();
    let unused = unused.split('"').skip(1).step_by(2);
    let unused = unused.map(|value| source::Constant {
        value: value.to_owned(),
        documentation: "Ignored: Hetzner's manager reserves it, and does not read or write it."
            .to_owned(),
    });
    let hcloud = source::constants(&hcloud);
    let hcloud = hcloud
        .into_iter()
        .filter(|one| one.value.starts_with(HCLOUD))
        .chain(unused);
    let of_nodes = OF_NODES.iter().map(|(path, name, rest, meaning)| {
        assert!(
            read(path).contains(&format!("\"{name}\"")),
            "{path}: {name}"
        );
        source::Constant {
            value: format!("{name}{rest}"),
            documentation: (*meaning).to_owned(),
        }
    });
    let aws = read("guests/aws/src/load_balancer/annotations.rs");
    let prefix = &source::constants(&aws)[0].value;
    let aws = source::declarations(&aws).into_iter();
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
            "Of nodes, by the shipped providers",
            "Labels beside those of Kubernetes.",
            of_nodes.collect(),
            5,
        ),
        (
            "Of the provider hcloud",
            "Annotations of Services, with the meaning that they have for Hetzner's own manager.",
            hcloud.collect(),
            39,
        ),
        (
            "Of the provider aws",
            "Annotations of Services of the Go provider. [The page about \
             aws](../../../guests/aws/README.md#network-load-balancers) says for each whether network and classic load \
             balancers have it.",
            aws.map(full).collect(),
            30,
        ),
        (
            "Of the provider digitalocean",
            "Annotations of Services of the Go manager. [The page about \
             digitalocean](../../../guests/digitalocean/README.md#annotations-of-digitalocean) says which have no effect, or \
             none after creation.",
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
        "The names in objects of the cluster that `ccm` and the shipped providers share with other programs. They never change, \
         because other programs match on them. Labels that a document of `static` gives to nodes are not listed: you choose \
         them.",
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

#[test]
fn the_page_has_every_label_that_the_shipped_providers_give_to_nodes_and_no_other() {
    for guest in embedded_guests::SHIPPED {
        let folder = format!("guests/{guest}/src");
        let listed = OF_NODES.iter();
        let listed = listed.filter(|(path, ..)| path.starts_with(&folder));
        let listed: BTreeSet<String> = listed.map(|(_, name, ..)| (*name).to_owned()).collect();
        let folder = root().join(folder);
        let mut named = BTreeSet::new();
        source::files(&folder, &mut |path, text| {
            let path = path.strip_prefix(&folder).unwrap().display().to_string();
            // Those of load balancers are annotations of Services, or tags at the cloud.
            if path.contains("tests") || path.contains("load_balancer") {
                return;
            }
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
            let labels = code.split('"').filter(|word| is_label(word));
            named.extend(labels.map(str::to_owned));
        });
        assert_eq!(named, listed, "{guest}");
    }
}

/// Whether a literal is a label, or the beginning of one, under a domain that is not one of Kubernetes.
fn is_label(word: &str) -> bool {
    let Some((domain, _)) = word.split_once('/') else {
        return false;
    };
    // An address with a prefix length ends in a number before the slash.
    let last = domain.rsplit_once('.').map(|(_, last)| last);
    last.is_some_and(|last| last.starts_with(|first: char| first.is_ascii_lowercase()))
        && domain
            .chars()
            .all(|one| one.is_ascii_lowercase() || one.is_ascii_digit() || ".-".contains(one))
        && !domain.ends_with("kubernetes.io")
        && !word.contains(char::is_whitespace)
}
