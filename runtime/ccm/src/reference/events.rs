//! The page of Events, from the table of this program's reasons and from one of the shipped providers' reasons, which a
//! test compares with their sources.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use ccm_core::reconciliation::event::reasons::{Kind as About, REASONS};

use super::{cell, hold, root, source};

/// Reason, providers, meaning, and what a person can do. Reasons that this program has, too, are not here.
const OF_PROVIDERS: &[(&str, &[&str], &str, &str)] = &[
    (
        "AnnotationIgnored",
        &["aws"],
        "Annotations of the Service have no effect; the text names each, and why.",
        "Remove them, or follow the text. The page of annotations lists what each provider reads.",
    ),
    (
        "CertificateKept",
        &["hcloud"],
        "The Service is gone, and its managed certificate stays, because something else uses it.",
        "Delete it at Hetzner when nothing uses it any more.",
    ),
    (
        "CertificateNotIssued",
        &["hcloud"],
        "Hetzner could not issue the managed certificate; the text has Hetzner's reason.",
        "Do its domains resolve to the load balancer?",
    ),
    (
        "CertificateRenewed",
        &["digitalocean"],
        "Let's Encrypt's certificate has a new id, which is used; the annotation has the old one.",
        "Name the certificate with `do-loadbalancer-certificate-name`, which stays the same.",
    ),
    (
        "InstanceNotTagged",
        &["aws"],
        "Nodes are not targets: their instances lack the cluster's tag.",
        "Tag the instances, unless these nodes are to get no traffic.",
    ),
    (
        "InternalIPNotConfigured",
        &["hcloud"],
        "The load balancer is to use private addresses, and these nodes have no InternalIP.",
        "Configure their network (`HCLOUD_NETWORK`, or `--node-ip` of a dedicated server's kubelet).",
    ),
    (
        "LoadBalancerKept",
        &["digitalocean", "hcloud"],
        "The load balancer stays and is billed, and no Service uses it: it is protected from deletion, or shows no owner.",
        "Delete it at the cloud if it is not needed.",
    ),
    (
        "LoadBalancerNotChanged",
        &["aws"],
        "AWS cannot change this about an existing load balancer.",
        "Delete the Service and create it again, or take the change back.",
    ),
    (
        "LoadBalancerTypeDeprecated",
        &["hcloud"],
        "New load balancers cannot have this type before long.",
        "Choose another type.",
    ),
    (
        "LoadBalancerTypeUnconfigured",
        &["hcloud"],
        "Nobody chose the type of a new load balancer.",
        "Set `HCLOUD_LOAD_BALANCERS_TYPE`, or the annotation `load-balancer.hetzner.cloud/type`.",
    ),
    (
        "MaxTargetsReached",
        &["hcloud"],
        "Nodes are not targets, because the load balancer has as many as its type allows.",
        "Choose a larger type, or fewer nodes with `load-balancer.hetzner.cloud/node-selector`.",
    ),
    (
        "MisconfiguredInternalIP",
        &["hcloud"],
        "About a dedicated server: an InternalIP of its kubelet is left out.",
        "See the text, and correct the kubelet's `--node-ip`.",
    ),
    (
        "PossibleNodeDeletion",
        &["hcloud"],
        "About a dedicated server: Robot names it otherwise than the node, so that the node's machine counts as gone.",
        "If the node still runs on it, give the server the node's name at Robot.",
    ),
    (
        "RobotNameDiffersInCase",
        &["hcloud"],
        "About a dedicated server: its name at Robot differs from the node's only in upper and lower case.",
        "Nothing, unless Hetzner's Go manager is to serve the cluster again: it would call the machine gone.",
    ),
    (
        "SecurityGroupKept",
        &["aws"],
        "The Service is gone, and the security group of its classic load balancer stays, because it lacks the cluster's tag with the value `owned`, and the older one.",
        "Delete it at AWS if nothing uses it.",
    ),
    (
        "SecurityGroupUnclear",
        &["aws"],
        "Traffic is not let in to these nodes: not exactly one of their security groups has the cluster's tag.",
        "Tag one security group of each of them.",
    ),
    (
        "ServerNotFound",
        &["hcloud"],
        "Nodes are not targets: their servers do not exist, or no address of these dedicated servers is known.",
        "Delete nodes whose servers are gone; otherwise see the text.",
    ),
    (
        "UnknownProviderIDPrefix",
        &["digitalocean", "hcloud"],
        "Nodes are not targets: their provider IDs have no form that the provider knows, or are missing.",
        "Do these nodes belong to another provider, or were they never initialised?",
    ),
    (
        "UnsupportedFieldConfigured",
        &["aws", "digitalocean", "hcloud"],
        "A field or an annotation of the Service has no effect.",
        "Remove it; the text names an alternative if there is one.",
    ),
    (
        "UnsupportedProtocolConfigured",
        &["hcloud"],
        "Ports are left out: Hetzner's load balancers do not forward their protocol.",
        "Expose these ports in another way.",
    ),
];

#[test]
fn the_page_of_events_is_what_the_table_says() {
    let mut body = String::new();
    let no_orders = "An embedded module has no Events, and annotations of its object have no effect: the object's conditions and the log have the reason.\n\n";
    for (about, heading, note) in [
        (About::Node, "Nodes", ""),
        (About::Service, "Services", ""),
        (About::Provider, "`Provider` objects", no_orders),
        (About::Lease, "The Lease", ""),
    ] {
        write!(
            body,
            "## {heading}\n\n{note}| Reason | What it means | What to do |\n|---|---|---|\n"
        )
        .unwrap();
        for reason in REASONS
            .iter()
            .filter(|reason| reason.about.contains(&about))
        {
            let action = cell(reason.action).replace("`safety.md`", "[safety](../safety.md)");
            let action = action.replace("`pod-networks.md`", "[pod networks](../pod-networks.md)");
            let action = action.replace(
                "`load-balancers.md`",
                "[load balancers](../load-balancers.md)",
            );
            writeln!(
                body,
                "| `{}` | {} | {action} |",
                reason.reason,
                cell(reason.meaning)
            )
            .unwrap();
        }
        body.push('\n');
    }
    body.push_str(
        "## Of the shipped providers\n\nEvents of Services, unless they are about a machine.\n\n| Reason | Provider | What it means | What to do |\n|---|---|---|---|\n",
    );
    for (reason, providers, meaning, action) in OF_PROVIDERS {
        let providers: Vec<_> = providers.iter().map(|name| format!("`{name}`")).collect();
        let providers = providers.join(", ");
        writeln!(
            body,
            "| `{reason}` | {providers} | {} | {} |",
            cell(meaning),
            cell(action)
        )
        .unwrap();
    }
    hold(
        "events.md",
        "Events",
        "Every Event that `ccm` records. `kubectl describe` of the object shows them; their text includes the cloud's error \
         messages. Providers report Events about nodes and Services, too, with reasons of their own choice, which may also be \
         among these; the last table has those of the shipped ones.",
        &body,
    );
}

#[test]
fn every_event_reason_is_defined_in_one_place() {
    let mut seen = BTreeSet::new();
    for reason in REASONS {
        assert!(
            seen.insert(reason.reason),
            "{} stands there twice",
            reason.reason
        );
    }
    let mut elsewhere = Vec::new();
    for folder in [
        "runtime/core/src",
        "runtime/controllers/src",
        "runtime/delivery/src",
    ] {
        source::files(&root().join(folder), &mut |path, text| {
            let name = path.display().to_string();
            if name.contains("tests") || name.ends_with("reasons.rs") {
                return;
            }
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
            for reason in &seen {
                // This one is also the type of a condition.
                if *reason != "PermissionsPending" && code.contains(&format!("\"{reason}\"")) {
                    elsewhere.push(format!("{name}: {reason}"));
                }
            }
        });
    }
    assert!(elsewhere.is_empty(), "{}", elsewhere.join("\n"));
}

#[test]
fn the_page_has_every_event_of_the_shipped_providers_and_no_other() {
    for guest in embedded_guests::SHIPPED {
        let mut recorded = recorded_by(guest);
        recorded.retain(|reason| REASONS.iter().all(|known| known.reason != reason));
        let listed = OF_PROVIDERS.iter();
        let listed = listed.filter(|(_, providers, ..)| providers.contains(guest));
        let listed: BTreeSet<String> = listed.map(|(reason, ..)| (*reason).to_owned()).collect();
        assert_eq!(recorded, listed, "{guest}");
    }
}

/// The reasons of the Events that a provider's sources record: literals, constants, and in a file that computes one
/// the literals that stand alone on a line.
fn recorded_by(guest: &str) -> BTreeSet<String> {
    let folder = root().join(format!("guests/{guest}/src"));
    let mut sources: Vec<String> = Vec::new();
    source::files(&folder, &mut |path, text| {
        let path = path.strip_prefix(&folder).unwrap();
        if !path.display().to_string().contains("tests") {
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
            sources.push(code.to_owned());
        }
    });
    let calls = ["Event::warning(", "Event::normal(", ".event(", ".events("];
    let mut found = BTreeSet::new();
    for text in &sources {
        for rest in calls.iter().flat_map(|call| text.split(call).skip(1)) {
            let first = rest.trim_start().split([',', ')']).next().unwrap().trim();
            let name = first.rsplit("::").next().unwrap();
            if let Some(literal) = first.strip_prefix('"') {
                found.insert(literal.trim_end_matches('"').to_owned());
            } else if name == "reason" {
                let lines = text.lines().map(str::trim);
                let words = lines.filter_map(|line| line.strip_prefix('"')?.strip_suffix("\","));
                let words = words.filter(|word| word.chars().all(char::is_alphabetic));
                found.extend(words.map(str::to_owned));
            } else {
                let declared = format!("const {name}: &str = \"");
                let values = sources.iter().filter_map(|text| text.split_once(&declared));
                let values = values.filter_map(|(_, value)| value.split('"').next());
                found.extend(values.map(str::to_owned));
            }
        }
    }
    found
}
