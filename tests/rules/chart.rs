//! `deploy/chart` without Helm: its page, its schema and its values agree, and so do texts that are written twice.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::lists::{files, root, text};

fn values() -> Value {
    serde_saphyr::from_str(&text("deploy/chart/values.yaml")).unwrap()
}

/// Every path to a value, except to non-empty objects.
fn leaves(path: &str, value: &Value, found: &mut Vec<String>) {
    match value.as_object() {
        Some(object) if !object.is_empty() => {
            for (key, value) in object {
                // A dot inside a key does not separate two keys.
                let key = key.replace(['.', '/'], "_");
                let path = if path.is_empty() {
                    key
                } else {
                    format!("{path}.{key}")
                };
                leaves(&path, value, found);
            }
        }
        _ => found.push(path.to_owned()),
    }
}

/// Value and default of each row of the page's table.
fn rows(page: &str) -> Vec<(String, String)> {
    let (_, table) = page
        .split_once("| Value | Default | Meaning |\n|---|---|---|\n")
        .unwrap();
    let lines = table.lines().take_while(|line| line.starts_with('|'));
    let cells = lines.map(|line| {
        let mut cells = line.trim_matches('|').splitn(3, " | ");
        let mut next = || cells.next().unwrap().trim().to_owned();
        (next().replace('`', ""), next())
    });
    cells.collect()
}

#[test]
fn the_page_has_every_value_with_its_default() {
    let (values, page) = (values(), text("deploy/chart/README.md"));
    let rows = rows(&page);
    assert!(rows.len() > 40, "{}", rows.len());
    for (path, default) in &rows {
        let pointer = format!("/{}", path.replace('.', "/"));
        let value = values.pointer(&pointer);
        let value = value.unwrap_or_else(|| panic!("{path} is no value"));
        if default != "see `values.yaml`" {
            assert_eq!(*default, format!("`{value}`"), "{path}");
        }
    }
    let mut all = Vec::new();
    leaves("", &values, &mut all);
    for leaf in all {
        let is_told = |path: &String| leaf == *path || leaf.starts_with(&format!("{path}."));
        assert!(
            rows.iter().any(|(path, _)| is_told(path)),
            "{leaf} has no row"
        );
    }
}

/// Objects of the schema that refuse unknown keys have exactly the keys of the values, apart from Helm's own.
fn compare(path: &str, schema: &Value, values: &Value, compared: &mut usize) {
    let Some(properties) = schema["properties"].as_object() else {
        return;
    };
    let Some(values) = values.as_object() else {
        return;
    };
    // Variables without a default may be set, too.
    if path == "/env" {
        return;
    }
    assert_eq!(
        schema["additionalProperties"], false,
        "{path} takes anything"
    );
    let of = |object: &serde_json::Map<String, Value>| -> BTreeSet<String> {
        let keys = object.keys().filter(|key| *key != "global");
        keys.cloned().collect()
    };
    assert_eq!(of(properties), of(values), "{path}");
    *compared += 1;
    for (key, schema) in properties {
        let value = values.get(key).unwrap_or(&Value::Null);
        compare(&format!("{path}/{key}"), schema, value, compared);
    }
}

#[test]
fn the_schema_has_every_value_and_no_other() {
    let schema: Value = serde_json::from_str(&text("deploy/chart/values.schema.json")).unwrap();
    let mut compared = 0;
    compare("", &schema, &values(), &mut compared);
    assert!(compared >= 9, "{compared}");
}

#[test]
fn the_charts_definition_of_provider_is_that_of_the_base() {
    let base = text("deploy/kustomize/base/crd.yaml");
    if std::env::var_os("CCM_BLESS").is_some() {
        std::fs::write(root().join("deploy/chart/files/crd.yaml"), &base).unwrap();
    }
    let same = text("deploy/chart/files/crd.yaml") == base;
    assert!(
        same,
        "deploy/chart/files/crd.yaml is not kustomize/base/crd.yaml: CCM_BLESS=1 copies it"
    );
}

/// Flux and Argo CD delete the policy of `keep-records.yaml` before a definition, and Helm has an annotation of its own.
#[test]
fn no_tool_that_prunes_deletes_the_definition_of_provider() {
    let definition: Value =
        serde_saphyr::from_str(&text("deploy/kustomize/base/crd.yaml")).unwrap();
    assert_is_left(&definition);
}

/// kube-controller-manager uses the account `node-controller`, too.
#[test]
fn no_tool_that_prunes_deletes_the_accounts_of_the_controllers() {
    let rights = text("deploy/kustomize/components/identities/rbac.yaml");
    let mut accounts: Vec<Value> = serde_saphyr::from_multiple(&rights).unwrap();
    accounts.retain(|one| one["kind"] == "ServiceAccount");
    assert_eq!(accounts.len(), 3, "{accounts:?}");
    accounts.iter().for_each(assert_is_left);
}

/// Flux and Argo CD delete no object with these annotations.
fn assert_is_left(object: &Value) {
    let metadata = &object["metadata"];
    for (key, expected) in [
        ("kustomize.toolkit.fluxcd.io/prune", "disabled"),
        (
            "argocd.argoproj.io/sync-options",
            "Prune=false,Delete=false",
        ),
    ] {
        let found = &metadata["annotations"][key];
        assert_eq!(found, expected, "{}: {key}", metadata["name"]);
    }
}

/// The version of the program that the chart starts.
fn app_version() -> String {
    let chart: Value = serde_saphyr::from_str(&text("deploy/chart/Chart.yaml")).unwrap();
    chart["appVersion"].as_str().unwrap().to_owned()
}

/// A tag that no manifest names would be published for nobody, and one that is not published has no image.
#[test]
fn pages_and_examples_name_the_image_that_the_chart_starts() {
    let version = app_version();
    let mut files = [
        files(&["deploy"], "md"),
        files(&["deploy/kustomize/examples"], "yaml"),
    ]
    .concat();
    files.push(root().join("CONTRIBUTING.md").display().to_string());
    for mark in ["target/release-", "/ccm:", "newTag: "] {
        let mut named = 0;
        for file in &files {
            let text = std::fs::read_to_string(file).unwrap();
            let after = text.split(mark).skip(1);
            for after in after.filter(|after| after.starts_with(|it: char| it.is_ascii_digit())) {
                let is_other = |it: char| !it.is_ascii_alphanumeric() && !".-".contains(it);
                let found = after.split(is_other).next();
                assert_eq!(found, Some(version.as_str()), "{file}: {mark}");
                named += 1;
            }
        }
        assert!(named >= 3, "{mark}: {named}");
    }
}

#[test]
fn the_chart_starts_the_image_of_the_base() {
    let app_version = app_version();
    let image = format!(
        "{}:{app_version}",
        values()["image"]["repository"].as_str().unwrap(),
    );
    let base: Value =
        serde_saphyr::from_str(&text("deploy/kustomize/base/daemonset.yaml")).unwrap();
    assert_eq!(
        base["spec"]["template"]["spec"]["containers"][0]["image"],
        image
    );
    let manifest = text("Cargo.toml");
    let version = format!("version = \"{app_version}\"");
    assert!(
        manifest.contains(&version),
        "the workspace has another version"
    );
}
