//! The metadata that tells who wrote which fields of an object.

use ccm_core::moment::StoredTime;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry, ObjectMeta};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Managed fields without their times, and the time of the creation. Whoever may write an object may write the times of
/// its managed fields, which may then be none that can be represented.
pub(crate) struct ManagedFields(pub(crate) ObjectMeta);

#[derive(Deserialize)]
struct Wire {
    metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    creation_timestamp: Option<StoredTime>,
    managed_fields: Option<Vec<Entry>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    manager: Option<String>,
    fields_v1: Option<Value>,
}

impl<'de> Deserialize<'de> for ManagedFields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Wire { metadata } = Wire::deserialize(deserializer)?;
        let entries = metadata.managed_fields.unwrap_or_default().into_iter();
        let entries = entries.map(|entry| ManagedFieldsEntry {
            manager: entry.manager,
            fields_v1: entry.fields_v1.map(FieldsV1),
            ..ManagedFieldsEntry::default()
        });
        Ok(ManagedFields(ObjectMeta {
            creation_timestamp: metadata.creation_timestamp.and_then(StoredTime::time),
            managed_fields: Some(entries.collect()),
            ..ObjectMeta::default()
        }))
    }
}
