//! A record that is in memory while it is not needed in the cluster, as that of an embedded module.

use ccm_core::rollout::{Noted, Placed};

use super::super::release;
use super::*;

#[tokio::test]
async fn a_record_that_is_not_needed_in_the_cluster_is_in_memory_until_it_is() {
    // An earlier process of this provider has written a record there.
    let before = World::without_record().await;
    before.record_store.write(&report()).await.unwrap();
    let client = before.cluster.client();
    let memory = MemoryRecordStore::new();
    let record_store =
        ClusterRecordStore::new("hcloud", client, before.leader.subscribe(), memory).waiting();
    let record_store = Arc::new(record_store);
    let watched = record_store.clone();
    let watching = tokio::spawn(async move { watched.run().await });
    let mine = Report {
        record: Record {
            active: Some(Placed {
                release: release(9),
                since: 1_700_000_200,
                noted: Noted::default(),
                untried: None,
            }),
            ..Record::default()
        },
        source: "embedded:hcloud".to_owned(),
        is_serving: true,
        ..Report::default()
    };
    record_store.write(&mine).await.unwrap();
    let seen = record_store.read().await.unwrap();
    assert!(
        matches!(seen, StoredRecord::Known { record: Some(record), .. } if *record == mine.record)
    );
    assert_eq!(record_store.inherited(), None);
    // The earlier record stays, and the rest tells of the module that serves.
    let kept = Record {
        trial: None,
        trouble: String::new(),
        ..full()
    };
    before
        .seen("the earlier record", |record, _| record == Some(&kept))
        .await;
    let object = before.api().get("hcloud").await.unwrap();
    let status = &object.data["status"];
    assert_eq!(status["state"], "Active");
    assert_eq!(status["shortDigest"], "090909090909");
    assert_eq!(status["observedSource"], "embedded:hcloud");
    let conditions = status["conditions"].as_array().unwrap();
    let ready = conditions.iter().find(|one| one["type"] == "Ready");
    assert_eq!(
        ready.unwrap()["message"],
        "version 1.0.9 serves, which is part of the program; version 1.0.1 stays recorded for a module from another source"
    );

    record_store.need();
    let mut seen = record_store.seen();
    let read = seen.wait_for(
        |seen| matches!(seen, StoredRecord::Known { record: Some(record), .. } if **record == kept),
    );
    tokio::time::timeout(TIMEOUT, read).await.unwrap().unwrap();
    let inherited = Inherited {
        record: Box::new(kept),
        prevails: false,
    };
    assert_eq!(record_store.inherited(), Some(inherited));
    assert_eq!(record_store.inherited(), None, "once");
    record_store.write(&Report::default()).await.unwrap();
    before
        .seen("what is written now", |record, _| {
            record == Some(&Record::default())
        })
        .await;
    watching.abort();
}

/// The right to read one object by its name, with which the record was shown before, is not the right to watch it.
#[tokio::test(start_paused = true)]
async fn a_record_that_the_cluster_denies_when_it_is_needed_there_stays_in_memory() {
    for denied in [&[Verb::Get, Verb::List][..], &[Verb::List]] {
        let cluster = Cluster::new();
        cluster.define_providers(true);
        for verb in denied {
            let refused = FaultEffect::Refused {
                code: 403,
                retry_after: None,
            };
            cluster.inject(Fault::next(*verb, "providers", refused).times(1000));
        }
        let leader = watch::Sender::new(Some(cluster.client()));
        let record_store = ClusterRecordStore::new(
            "hcloud",
            cluster.client(),
            leader.subscribe(),
            MemoryRecordStore::new(),
        );
        let record_store = Arc::new(record_store.waiting());
        let watched = record_store.clone();
        let watching = tokio::spawn(async move { watched.run().await });
        record_store.write(&report()).await.unwrap();
        let writes = || {
            let requests = cluster.requests().into_iter();
            let writes = requests.filter(|one| !["get", "list", "watch"].contains(&one.verb));
            writes.count()
        };
        let is_shown = !denied.contains(&Verb::Get);
        assert_eq!(writes() > 0, is_shown, "{denied:?}");

        record_store.need();
        // Before it turns out where the record is.
        let written = record_store.write(&report()).await;
        assert_eq!(written.is_ok(), is_shown, "{denied:?}");
        tokio::time::sleep(Duration::from_secs(600)).await;
        let read = record_store.read().await.unwrap();
        assert!(
            matches!(&read, StoredRecord::Known { record: Some(record), .. } if **record == full()),
            "{denied:?}: {read:?}"
        );
        let before = writes();
        for report in [report(), Report::default()] {
            record_store.write(&report).await.unwrap();
            let StoredRecord::Known { record, .. } = record_store.read().await.unwrap() else {
                panic!("a new leader begins with what was written");
            };
            assert_eq!(record.as_deref(), Some(&report.record), "{denied:?}");
        }
        assert_eq!(writes(), before, "{denied:?}: nobody watches the object");
        watching.abort();
    }
}
