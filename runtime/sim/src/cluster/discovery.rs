//! Documents about the server itself: version, health and available resources. Independent of the stored objects.

use serde_json::{Value, json};

use super::kinds::{self, Kind};

/// The response to a path outside the resources.
pub(super) enum Document {
    /// A document in JSON.
    Json(Value),
    /// A document in plain text.
    Text(&'static str),
}

/// The document at a path, if any; `custom` includes the custom kinds.
pub(super) fn document(path: &str, custom: bool) -> Option<Document> {
    let json = match path.trim_end_matches('/') {
        "/readyz" | "/livez" | "/healthz" => return Some(Document::Text("ok")),
        "/version" => json!({
            "major": "1", "minor": "36", "gitVersion": "v1.36.3", "gitCommit": "", "gitTreeState": "",
            "buildDate": "", "goVersion": "", "compiler": "", "platform": "linux/amd64",
        }),
        "/api" => {
            json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})
        }
        "/apis" => json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups(custom)}),
        "/api/v1" => resources("", "v1", custom),
        path => {
            let mut parts = path.strip_prefix("/apis/")?.split('/');
            let (group, version) = (parts.next()?, parts.next());
            if parts.next().is_some() {
                return None;
            }
            match version {
                None => groups(custom)
                    .into_iter()
                    .find(|one| one["name"] == group)?,
                Some(version)
                    if kinds::all(custom)
                        .any(|kind| kind.group == group && kind.version == version) =>
                {
                    resources(group, version, custom)
                }
                Some(_) => return None,
            }
        }
    };
    Some(Document::Json(json))
}

fn groups(custom: bool) -> Vec<Value> {
    let mut groups: Vec<Value> = Vec::new();
    for kind in kinds::all(custom).filter(|kind| !kind.group.is_empty()) {
        let version = json!({"groupVersion": kind.api_version(), "version": kind.version});
        if !groups.iter().any(|group| group["name"] == kind.group) {
            groups.push(json!({
                "name": kind.group, "versions": [version], "preferredVersion": version,
            }));
        }
    }
    groups
}

fn resources(group: &str, version: &str, custom: bool) -> Value {
    let of_group = |kind: &&'static Kind| kind.group == group && kind.version == version;
    let mut list = Vec::new();
    for kind in kinds::all(custom).filter(of_group) {
        list.push(json!({
            "name": kind.plural, "singularName": kind.kind.to_lowercase(), "namespaced": kind.namespaced,
            "kind": kind.kind,
            "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        }));
        if kind.status {
            list.push(json!({
                "name": format!("{}/status", kind.plural), "singularName": "", "namespaced": kind.namespaced,
                "kind": kind.kind, "verbs": ["get", "patch", "update"],
            }));
        }
    }
    let group_version = if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    };
    json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": list,
    })
}
