//! Nodes as a kubelet writes them: fifty images, five conditions, node info, capacity. With the field management that
//! the API server adds they are 10 to 15 KB of JSON each. Plain values.

use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};

/// The kubelet's own limit (`nodeStatusMaxImages`).
const IMAGES: usize = 50;

/// Names of nodes, in order; the cloud's server at the same place has the same name.
pub(crate) fn names(count: usize) -> Vec<String> {
    (0..count)
        .map(|number| format!("worker-{number:05}"))
        .collect()
}

/// A node that registers itself under `--cloud-provider=external`.
pub(crate) fn node(name: &str) -> Value {
    let labels = json!({
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "node-role.kubernetes.io/worker": "",
    });
    let resources = json!({
        "cpu": "4", "memory": "7901224Ki", "ephemeral-storage": "78430524Ki",
        "hugepages-1Gi": "0", "hugepages-2Mi": "0", "pods": "110",
    });
    json!({
        "metadata": {
            "name": name,
            "labels": labels,
            "annotations": {
                "node.alpha.kubernetes.io/ttl": "0",
                "volumes.kubernetes.io/controller-managed-attach-detach": "true",
                "csi.volume.kubernetes.io/nodeid": format!("{{\"csi.hetzner.cloud\":\"{name}\"}}"),
            },
        },
        "spec": {
            "podCIDR": "10.244.0.0/24",
            "podCIDRs": ["10.244.0.0/24"],
            "taints": [{
                "key": ccm_core::well_known::UNINITIALIZED_TAINT, "value": "true", "effect": "NoSchedule",
            }],
        },
        "status": {
            "addresses": [{"type": "Hostname", "address": name}],
            "capacity": resources,
            "allocatable": resources,
            "conditions": conditions("2026-01-01T00:00:10Z", "True"),
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "images": (0..IMAGES).map(image).collect::<Vec<_>>(),
            "nodeInfo": {
                "architecture": "amd64",
                "bootID": "6f2b2b38-3d17-4d0c-9c1e-6f0c2ba5a7b1",
                "containerRuntimeVersion": "containerd://2.1.4",
                "kernelVersion": "6.8.0-71-generic",
                "kubeProxyVersion": "",
                "kubeletVersion": "v1.36.3",
                "machineID": "a3d9be0cf58a4b9f8e6a1b0e3f1c2d44",
                "operatingSystem": "linux",
                "osImage": "Ubuntu 24.04.3 LTS",
                "systemUUID": "a3d9be0c-f58a-4b9f-8e6a-1b0e3f1c2d44",
            },
            "runtimeHandlers": [
                {"name": "", "features": {"recursiveReadOnlyMounts": true, "userNamespaces": true}},
                {"name": "runc", "features": {"recursiveReadOnlyMounts": true, "userNamespaces": true}},
            ],
        },
    })
}

/// The status that the kubelet reports from time to time.
pub(crate) fn heartbeat() -> Value {
    json!({"status": {"conditions": conditions("2026-01-01T00:05:10Z", "True")}})
}

/// One of many reports: only the times of the conditions differ.
pub(crate) fn report(number: usize) -> Value {
    let (minute, second) = (number / 60 % 60, number % 60);
    let at = format!("2026-01-01T01:{minute:02}:{second:02}Z");
    json!({"status": {"conditions": conditions(&at, "True")}})
}

/// The status that the node lifecycle controller writes when a kubelet has stopped reporting.
pub(crate) fn silence() -> Value {
    json!({"status": {"conditions": conditions("2026-01-01T00:09:10Z", "Unknown")}})
}

/// The average size of the nodes' JSON, in bytes.
pub(crate) fn average_size(nodes: &[Node]) -> Result<usize, serde_json::Error> {
    let mut bytes = 0;
    for node in nodes {
        bytes += serde_json::to_vec(node)?.len();
    }
    Ok(bytes / nodes.len().max(1))
}

fn conditions(at: &str, ready: &str) -> Value {
    let pressure = |kind: &str, reason: &str, message: &str| {
        json!({
            "type": kind, "status": "False", "reason": reason, "message": message,
            "lastHeartbeatTime": at, "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    json!([
        pressure("NetworkUnavailable", "CiliumIsUp", "Cilium is running on this node"),
        pressure("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        pressure("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        pressure("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        {
            "type": "Ready", "status": ready, "reason": "KubeletReady",
            "message": "kubelet is posting ready status",
            "lastHeartbeatTime": at, "lastTransitionTime": "2026-01-01T00:00:00Z",
        },
    ])
}

/// An image under its digest and its tag, as the kubelet lists them.
fn image(number: usize) -> Value {
    let repository = format!("registry.example.com/platform/component-{number:02}/server");
    // Not a real digest, but one that does not compress well.
    let digest: String = (0_u64..4)
        .map(|part| {
            let seed = (number as u64 * 4 + part).wrapping_add(0x9e37_79b9_7f4a_7c15);
            format!(
                "{:016x}",
                seed.wrapping_mul(0xbf58_476d_1ce4_e5b9).rotate_left(31)
            )
        })
        .collect();
    json!({
        "names": [format!("{repository}@sha256:{digest}"), format!("{repository}:v1.{number}.0")],
        "sizeBytes": 190_000_000 - number * 1_234_567,
    })
}
