//! Kubeconfig files, read as client-go reads them: a field that is empty is not set. kube takes an empty one for a value,
//! and an empty path for the folder of the file.

use std::path::Path;

use anyhow::Context as _;
use kube::config::Kubeconfig;
use serde_json::Value;

/// Reads the kubeconfig in this file.
///
/// # Errors
/// It cannot be read, or is no kubeconfig.
pub(crate) fn read_kubeconfig(path: &Path) -> anyhow::Result<Kubeconfig> {
    let unreadable = || format!("cannot read kubeconfig {}", path.display());
    let kubeconfig = Kubeconfig::read_from(path).with_context(unreadable)?;
    let folder = path.parent().map(|folder| folder.join(""));
    let folder = folder.as_deref().and_then(Path::to_str);
    // As JSON, its fields can be looked at without naming them all, and so can those that kube keeps secret.
    let mut written = serde_json::to_value(kubeconfig).with_context(unreadable)?;
    for (list, object) in [("clusters", "cluster"), ("users", "user")] {
        let entries = written.get_mut(list).and_then(Value::as_array_mut);
        let entries = entries.into_iter().flatten();
        let objects = entries.filter_map(|entry| entry.get_mut(object));
        for fields in objects.filter_map(Value::as_object_mut) {
            fields.retain(|key, value| {
                let text = value.as_str();
                let is_empty = text.is_some_and(|text| text.is_empty() || Some(text) == folder);
                // The password of a user may be empty; without a user's name it does not count.
                !is_empty || key == "password"
            });
        }
    }
    serde_json::from_value(written).with_context(unreadable)
}
