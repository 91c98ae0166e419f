//! A record in memory, and its file.

use std::os::unix::fs::PermissionsExt as _;

use ccm_core::rollout::{Order, Orders, Record};
use ccm_host::Digest;

use super::{digest, full};
use crate::record::{MemoryRecordStore, RecordStore as _, Report, StoredRecord};

fn record(record_store: &MemoryRecordStore) -> Option<Record> {
    match &*record_store.seen().borrow() {
        StoredRecord::Known { record, .. } => record.as_deref().cloned(),
        StoredRecord::Unknown(_) => None,
    }
}

fn report() -> Report {
    Report {
        record: full(),
        ..Report::default()
    }
}

#[tokio::test]
async fn a_record_outlives_its_process_where_there_is_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let record_store = MemoryRecordStore::kept_in(folder.path(), "hcloud");
    assert_eq!(record(&record_store), None);
    record_store.write(&report()).await.unwrap();
    let next = MemoryRecordStore::kept_in(folder.path(), "hcloud");
    assert_eq!(record(&next), Some(full()));
    assert_eq!(
        record(&MemoryRecordStore::kept_in(folder.path(), "other")),
        None
    );
    let files: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(files.len(), 1, "nothing is left beside it");
    let mode = files[0].metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn a_file_that_cannot_be_read_begins_anew_and_can_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hcloud.record.json");
    for text in ["", "{", "[]", "\0\0\0", "{\"active\": 7}"] {
        std::fs::write(&file, text).unwrap();
        let record_store = MemoryRecordStore::kept_in(folder.path(), "hcloud");
        assert!(
            matches!(
                record(&record_store),
                None | Some(Record { active: None, .. })
            ),
            "{text}"
        );
        record_store.write(&report()).await.unwrap();
        assert_eq!(
            record(&MemoryRecordStore::kept_in(folder.path(), "hcloud")),
            Some(full())
        );
    }
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    let record_store = MemoryRecordStore::kept_in(folder.path(), "hcloud");
    record_store.write(&report()).await.unwrap_err();
    assert_eq!(
        record(&record_store),
        Some(full()),
        "this process goes by it all the same"
    );
}

#[tokio::test]
async fn versions_of_other_bytes_can_be_forgotten_and_the_verdicts_stay() {
    let folder = tempfile::tempdir().unwrap();
    let record_store = MemoryRecordStore::kept_in(folder.path(), "hcloud");
    record_store.write(&report()).await.unwrap();
    for (number, expected) in [
        (
            1,
            Record {
                previous: None,
                trial: None,
                ..full()
            },
        ),
        (
            9,
            Record {
                active: None,
                previous: None,
                trial: None,
                ..full()
            },
        ),
    ] {
        let record_store = MemoryRecordStore::kept_in(folder.path(), "hcloud");
        let record_store = record_store.with_only(&Digest::parse(&digest(number)).unwrap());
        assert_eq!(record(&record_store), Some(expected));
    }
    let record_store = MemoryRecordStore::kept_in(folder.path(), "hcloud");
    let rejected = Digest::parse(&full().rejected[0].digest).unwrap();
    let left = record(&record_store.with_only(&rejected)).unwrap();
    assert!(
        left.rejected
            .iter()
            .all(|it| it.digest != rejected.to_string())
    );
    let empty = MemoryRecordStore::new().with_only(&Digest::of(b"module"));
    assert_eq!(record(&empty), None);
}

#[tokio::test]
async fn an_order_that_is_done_is_taken_away_and_no_other() {
    let record_store = MemoryRecordStore::new();
    let orders = Orders {
        pin: Some(digest(1)),
        roll_back: true,
        retry: Some(digest(2)),
        ..Orders::default()
    };
    record_store.order(orders.clone());
    record_store.clear(&Order::Retry(digest(3))).await.unwrap();
    record_store.clear(&Order::RollBack).await.unwrap();
    let expected = Orders {
        roll_back: false,
        ..orders
    };
    let StoredRecord::Known { orders, .. } = record_store.read().await.unwrap() else {
        panic!("a book in memory is known");
    };
    assert_eq!(orders, expected);
}
