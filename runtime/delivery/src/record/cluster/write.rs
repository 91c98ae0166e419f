//! Writes of the leader: the object's status, its annotations, and Events about it. Reads nothing but what a write needs.

use std::sync::atomic::Ordering;
use std::time::Duration;

use ccm_core::rollout::{MOST_REASON, Order, Orders, Record, RolloutEvent};
use ccm_core::well_known::{PROVIDER_GROUP, PROVIDER_KIND, PROVIDER_PLURAL, PROVIDER_VERSION};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::{DynamicObject, Patch, PostParams};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::request::{
    FOUND_WITHIN, in_time, in_time_or, params, provider_resource, remove_undeclared,
};
use super::{ClusterRecordStore, recorded};
use crate::record::{
    RecordStoreError, Report, Specification, StoredRecord, annotations, conditions, event,
};

/// Maximum number of attempts of a write that conflicts with other writers.
const MOST_CONFLICTS: usize = 4;
/// How often a cluster is asked again that has refused to show the record in memory. The ClusterRole of a Go manager lacks the
/// right to that for good, and an alert counts what is denied.
const SHOW_AGAIN: Duration = Duration::from_secs(3600);

impl ClusterRecordStore {
    /// Writes the report into the object. Creates a missing object, unless the provider exists because of it.
    pub(super) async fn write_now(&self, report: &Report) -> Result<(), RecordStoreError> {
        let api = self.api(self.writing()?);
        if self.stored.lock().is_unread() {
            self.read_now().await?;
        }
        for _ in 0..MOST_CONFLICTS {
            if self.stored.lock().is_absent {
                // The provider's object was deleted: the provider ends with it.
                if report.specification.is_source {
                    return Ok(());
                }
                self.create(&api).await?;
            }
            match self.apply(&api, self.patch(report)).await? {
                Ok(object) => {
                    self.wrote(&object);
                    return Ok(());
                }
                // Another writer was faster, most likely with an order.
                Err(409) => drop(self.read_now().await?),
                // Deleted meanwhile.
                Err(_) => self.stored.lock().is_absent = true,
            }
        }
        Err(RecordStoreError::Unavailable(
            "others keep changing the object Provider".to_owned(),
        ))
    }

    /// Applies the patch, without the fields that an earlier definition of the kind lacks. Each refusal names some of them.
    async fn apply(
        &self,
        api: &Api<DynamicObject>,
        mut patch: Value,
    ) -> Result<Result<DynamicObject, u16>, RecordStoreError> {
        loop {
            let (how, what) = (params().force(), Patch::Apply(&patch));
            let answer = in_time_or(api.patch_status(&self.name, &how, &what)).await;
            let removes = |error| remove_undeclared(&mut patch["status"], error);
            if !answer.as_ref().is_err_and(removes) {
                return answer;
            }
            self.tell_earlier_definition();
        }
    }

    fn tell_earlier_definition(&self) {
        if !self.is_definition_told.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                target: "rollout",
                provider = %self.name,
                "the CRD {PROVIDER_PLURAL}.{PROVIDER_GROUP} is of an earlier version, and lacks fields of the record, which are left out: apply that of this version"
            );
        }
    }

    /// Writes that the spec of an object is not used, or that its provider is no longer configured, and that nothing
    /// serves because of it. The recorded versions stay. An object that does not exist is not created.
    ///
    /// # Errors
    /// As for `RecordStore::write`.
    pub async fn refuse(&self, specification: &Specification) -> Result<(), RecordStoreError> {
        let StoredRecord::Known { record, .. } = self.read_now().await? else {
            return Ok(());
        };
        if self.stored.lock().is_absent {
            return Ok(());
        }
        let mut record = record.map(|record| *record).unwrap_or_default();
        record.trial = None;
        record.trouble = match &specification.refusal {
            Some(refusal) => ccm_host::clean(&refusal.message, MOST_REASON),
            None => String::new(),
        };
        let report = Report {
            record,
            specification: specification.clone(),
            ..Report::default()
        };
        self.write_now(&report).await
    }

    /// Writes the record in memory into the object, where people see it. It is no failure if the cluster does not know
    /// the kind or does not allow the write: no replica obeys what is shown, and it is asked again later. A record that
    /// replicas have obeyed stays beside it: it counts again as soon as a module comes from another source.
    pub(super) async fn show(&self, report: &Report) -> Result<(), RecordStoreError> {
        let from = *self.shows_from.lock();
        if from.is_some_and(|from| Instant::now() < from) {
            return Ok(());
        }
        match self.show_beside(report).await {
            Ok(()) => {
                *self.shows_from.lock() = None;
                Ok(())
            }
            Err(RecordStoreError::Refused(why)) => {
                *self.shows_from.lock() = Some(Instant::now() + SHOW_AGAIN);
                if from.is_none() {
                    tracing::debug!(target: "rollout", provider = %self.name, why, "what serves is not shown in the object Provider");
                }
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    async fn show_beside(&self, report: &Report) -> Result<(), RecordStoreError> {
        let api = self.api(self.reading.clone());
        let object = in_time(api.get_opt(&self.name)).await?;
        let status = object.and_then(|object| object.data.get("status").cloned());
        let record = status.as_ref().map(recorded);
        let kept = record.filter(|record| record.active.is_some() || record.previous.is_some());
        let report = Report {
            is_informational: true,
            // Nothing is on its way, and the trouble is today's.
            kept: kept.map(|record| Record {
                trial: None,
                trouble: report.record.trouble.clone(),
                ..record
            }),
            ..report.clone()
        };
        self.write_now(&report).await
    }

    /// Removes the annotation of a completed order, unless another order was given meanwhile.
    pub(super) async fn clear_now(&self, order: &Order) -> Result<(), RecordStoreError> {
        let api = self.api(self.writing()?);
        let key = annotations::key(order);
        for _ in 0..MOST_CONFLICTS {
            // A deleted object has no orders, and an order given since then is not completed.
            let Some(object) = in_time(api.get_opt(&self.name)).await? else {
                return Ok(());
            };
            let orders = annotations::orders(object.metadata.annotations.as_ref());
            if !orders.has(order) {
                return Ok(());
            }
            let version = object.metadata.resource_version;
            let patch = json!({
                "metadata": { "resourceVersion": version, "annotations": { key: null } }
            });
            let (how, what) = (params(), Patch::Merge(&patch));
            match in_time_or(api.patch(&self.name, &how, &what)).await? {
                Err(409) => {}
                // The annotation was removed, or the object deleted.
                Ok(_) | Err(_) => return Ok(()),
            }
        }
        Err(RecordStoreError::Unavailable(
            "others keep changing the object Provider".to_owned(),
        ))
    }

    /// Publishes an Event about the object.
    pub(super) async fn record_event_now(
        &self,
        event: &RolloutEvent,
    ) -> Result<(), RecordStoreError> {
        let client = self.writing()?;
        // The first Event may precede the object's creation; without the UID it would not be shown for the object.
        let mut uids = self.uid.subscribe();
        let uid = match tokio::time::timeout(FOUND_WITHIN, uids.wait_for(Option::is_some)).await {
            Ok(Ok(uid)) => uid.clone(),
            Ok(Err(_)) | Err(_) => None,
        };
        let event = event::event(&self.name, uid.as_deref(), event, Timestamp::now());
        let home = event.metadata.namespace.as_deref().unwrap_or_default();
        let api: Api<Event> = Api::namespaced(client, home);
        in_time(api.create(&PostParams::default(), &event))
            .await
            .map(drop)
    }

    async fn create(&self, api: &Api<DynamicObject>) -> Result<(), RecordStoreError> {
        let object = DynamicObject::new(&self.name, &provider_resource());
        let how = PostParams::default();
        match in_time_or(api.create(&how, &object)).await? {
            Ok(object) => {
                self.wrote(&object);
                Ok(())
            }
            // The object exists but was not seen yet.
            Err(409) => self.read_now().await.map(drop),
            Err(_) => Err(RecordStoreError::Refused(
                "the cluster no longer has the kind Provider".to_owned(),
            )),
        }
    }

    /// The object to apply. `resourceVersion` and `uid` restrict the write to the object that was read.
    fn patch(&self, report: &Report) -> Value {
        let stored = self.stored.lock();
        let before = stored.conditions.as_ref();
        let unheeded = Orders::default();
        let orders = match report.is_informational {
            true => &unheeded,
            false => &stored.orders,
        };
        let status = conditions::status(report, orders, before, Timestamp::now());
        let uid = self.uid.borrow().clone();
        let known = [("resourceVersion", &stored.version), ("uid", &uid)];
        let known = known
            .into_iter()
            .filter_map(|(name, it)| Some((name, it.as_ref()?)));
        let metadata: serde_json::Map<_, _> = known
            .map(|(name, it)| (name.to_owned(), json!(it)))
            .collect();
        json!({
            "apiVersion": format!("{PROVIDER_GROUP}/{PROVIDER_VERSION}"),
            "kind": PROVIDER_KIND,
            "metadata": metadata,
            "status": status,
        })
    }

    /// Stores the version that was written. The watch will report the same change, and only its report is published.
    fn wrote(&self, object: &DynamicObject) {
        self.uid.send_replace(object.metadata.uid.clone());
        let mut stored = self.stored.lock();
        stored.version.clone_from(&object.metadata.resource_version);
        let status = object.data.get("status");
        stored.conditions = status.and_then(|status| status.get("conditions")).cloned();
        stored.is_absent = false;
    }
}
