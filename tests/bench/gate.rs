//! The correctness gate: a run whose end state is wrong has no figures.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use ccm_core::well_known::{self, OWNER_LABEL};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use serde_json::Value;

use crate::audit::Entry;

/// The labels of every initialised node.
const LABELS: [&str; 6] = [
    well_known::INSTANCE_TYPE,
    well_known::INSTANCE_TYPE_BETA,
    well_known::ZONE,
    well_known::ZONE_BETA,
    well_known::REGION,
    well_known::REGION_BETA,
];

/// Number of writes that one node needs: its addresses, and the rest.
const WRITES: usize = 2;

/// Checks every node against the server of its name.
///
/// # Errors
/// The first node that is not as it must be.
pub(crate) fn end_state(
    nodes: &[Node],
    ids: &BTreeMap<String, u64>,
    owner: Option<&str>,
) -> Result<()> {
    ensure!(
        nodes.len() == ids.len(),
        "{} nodes for {} servers",
        nodes.len(),
        ids.len()
    );
    for node in nodes {
        let name = node.name_any();
        let spec = node.spec.clone().unwrap_or_default();
        let expected = ids.get(&name).map(|id| format!("hcloud://{id}"));
        ensure!(
            spec.provider_id == expected,
            "{name} has the provider ID {:?} in place of {expected:?}",
            spec.provider_id
        );
        let mut taints = spec.taints.iter().flatten();
        ensure!(
            taints.all(|taint| taint.key != well_known::UNINITIALIZED_TAINT),
            "{name} is still tainted"
        );
        let addresses = node
            .status
            .as_ref()
            .and_then(|status| status.addresses.as_ref());
        let types: Vec<&str> = addresses
            .into_iter()
            .flatten()
            .map(|one| one.type_.as_str())
            .collect();
        ensure!(
            types == ["Hostname", "ExternalIP"],
            "{name} has the addresses {types:?}"
        );
        for label in LABELS {
            ensure!(
                node.labels().contains_key(label),
                "{name} lacks the label {label}"
            );
        }
        let stored = node.labels().get(OWNER_LABEL).map(String::as_str);
        ensure!(
            stored == owner,
            "{name} belongs to {stored:?} in place of {owner:?}"
        );
    }
    Ok(())
}

/// Checks that ccm wrote each node twice, recorded at most one Event about it, and had no refused request.
///
/// # Errors
/// The first node for which that is not true.
pub(crate) fn writes(entries: &[Entry], ids: &BTreeMap<String, u64>) -> Result<()> {
    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| entry.is_write()) {
        let Entry {
            verb,
            resource,
            name,
            code,
            ..
        } = entry;
        ensure!(
            (200..300).contains(code),
            "{verb} {resource} of {name} was answered with {code}"
        );
        let count = counts.entry(name).or_default();
        if entry.is_event() {
            count.1 += 1;
        } else {
            count.0 += 1;
        }
    }
    for name in ids.keys() {
        let (writes, events) = counts.get(name.as_str()).copied().unwrap_or_default();
        ensure!(
            writes == WRITES,
            "{name} was written {writes} times in place of {WRITES}"
        );
        ensure!(events <= 1, "{events} Events were written about {name}");
    }
    Ok(())
}

/// Checks that the bare client sent the same bodies as ccm for every node: otherwise their times cannot be compared.
///
/// # Errors
/// The first body that differs.
pub(crate) fn same_bodies(bare: &[Entry], ccm: &[Entry]) -> Result<()> {
    let (bare, ccm) = (bodies(bare), bodies(ccm));
    for (key, body) in &ccm {
        let expected = bare.get(key);
        ensure!(
            expected == Some(body),
            "ccm and the bare client differ in {key:?}:\n{body}\n{}",
            expected.unwrap_or(&Value::Null)
        );
    }
    ensure!(
        bare.len() == ccm.len(),
        "the bare client wrote {}, ccm wrote {}",
        bare.len(),
        ccm.len()
    );
    Ok(())
}

/// The body of every write by resource and node, without values that differ in every cluster.
fn bodies(entries: &[Entry]) -> BTreeMap<(String, String), Value> {
    let writes = entries.iter().filter(|entry| entry.is_write());
    writes
        .map(|entry| {
            let mut body = entry.body.clone();
            for identity in [
                "/metadata/uid",
                "/metadata/resourceVersion",
                "/involvedObject/uid",
                "/firstTimestamp",
                "/lastTimestamp",
            ] {
                if let Some(value) = body.pointer_mut(identity) {
                    *value = Value::Null;
                }
            }
            if entry.is_event()
                && let Some(name) = body.pointer_mut("/metadata/name")
            {
                *name = Value::Null;
            }
            ((entry.resource.clone(), entry.name.clone()), body)
        })
        .collect()
}
