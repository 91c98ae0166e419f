//! A cluster that has the kind late.

use std::sync::Arc;
use std::time::Duration;

use ccm_sim::cluster::{Cluster, Fault, FaultEffect, Verb};
use tokio::sync::watch;

use crate::record::{
    ClusterRecordStore, MemoryRecordStore, RecordStore as _, Report, StoredRecord,
};

/// The definition, or the right to read it, may be applied after the first process has started.
#[tokio::test(start_paused = true)]
async fn a_record_in_memory_moves_to_the_cluster_once_that_takes_it() {
    for code in [403, 404] {
        let cluster = Cluster::new();
        cluster.define_providers(true);
        let refused = FaultEffect::Refused {
            code,
            retry_after: None,
        };
        cluster.inject(Fault::next(Verb::List, "providers", refused).times(2));
        let leader = watch::Sender::new(Some(cluster.client()));
        let store = ClusterRecordStore::new(
            "hcloud",
            cluster.client(),
            leader.subscribe(),
            MemoryRecordStore::new(),
        );
        let store = Arc::new(store);
        let watched = store.clone();
        let watching = tokio::spawn(async move { watched.run().await });
        let report = Report {
            record: super::full(),
            ..Report::default()
        };
        tokio::time::sleep(Duration::from_secs(1)).await;
        store.write(&report).await.unwrap();
        tokio::time::sleep(Duration::from_secs(3600)).await;
        // The leader is told that the cluster has no record, and writes it again.
        let seen = store.seen().borrow().clone();
        assert!(
            matches!(seen, StoredRecord::Known { record: None, .. }),
            "{code}: {seen:?}"
        );
        store.write(&report).await.unwrap();
        let mut seen = store.seen();
        let shown = |seen: &StoredRecord| match seen {
            StoredRecord::Known { record, .. } => record.as_deref() == Some(&report.record),
            StoredRecord::Unknown(_) => false,
        };
        let read = seen.wait_for(shown);
        tokio::time::timeout(Duration::from_secs(30), read)
            .await
            .unwrap()
            .unwrap();
        let writes = cluster.requests().into_iter();
        let mut writes = writes.filter(|one| !["get", "list", "watch"].contains(&one.verb));
        assert!(writes.next().is_some(), "{code}");
        watching.abort();
    }
}
