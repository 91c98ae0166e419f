#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use ccm_host::Digest;
use tempfile::TempDir;

use super::{FolderError, ModuleStore};
use crate::artifact::{Artifact, SignatureEvidence};
use crate::record::{MemoryRecordStore, RecordStore as _, Report};

fn artifact(text: &str) -> Artifact {
    let wasm = [b"\0asm", text.as_bytes()].concat();
    Artifact {
        manifest_digest: Some(format!("sha256:{text}")),
        evidence: vec![
            SignatureEvidence::Bundle(b"{\"a\": 1}".to_vec()),
            SignatureEvidence::SimpleSigning {
                payload: vec![0, 255],
                signature: vec![1],
                certificate: Some("PEM".to_owned()),
                chain: None,
                log_entry: Some(Vec::new()),
                time_stamp: None,
            },
        ],
        ..Artifact::new(format!("oci://registry.example/{text}"), wasm)
    }
}

fn in_folder() -> (TempDir, PathBuf, ModuleStore) {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("modules").join("hcloud");
    let store = ModuleStore::open(Some(folder.clone())).unwrap();
    (parent, folder, store)
}

/// Sets the time of modification to yesterday.
fn age(path: &Path) {
    let file = File::options().append(true).open(path).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(86_400))
        .unwrap();
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_module_comes_back_with_its_evidence() {
    let (parent, folder, store) = in_folder();
    let memory = ModuleStore::open(None).unwrap();
    for store in [&store, &memory] {
        let kept = artifact("one");
        assert!(store.get(&kept.digest).await.is_none());
        store.put(&kept).await.unwrap();
        let found = store.get(&kept.digest).await.unwrap();
        assert_eq!((found.wasm, found.digest), (kept.wasm, kept.digest));
        assert_eq!(
            (found.origin, found.manifest_digest),
            (kept.origin, kept.manifest_digest)
        );
        assert_eq!(found.evidence, kept.evidence);
        assert!(store.get(&Digest::of(b"another")).await.is_none());
    }
    drop(store);
    // Another process, or the same one after a restart.
    let next = ModuleStore::open(Some(folder.clone())).unwrap();
    assert!(next.get(&artifact("one").digest).await.is_some());
    for path in [parent.path().join("modules"), folder] {
        assert_eq!(
            fs::metadata(path).unwrap().permissions().mode() & 0o777,
            0o700
        );
    }
}

#[tokio::test]
async fn newer_evidence_replaces_the_older() {
    let (_parent, _, store) = in_folder();
    let mut kept = artifact("one");
    store.put(&kept).await.unwrap();
    kept.evidence = vec![SignatureEvidence::Bundle(b"newer".to_vec())];
    store.put(&kept).await.unwrap();
    assert_eq!(
        store.get(&kept.digest).await.unwrap().evidence,
        kept.evidence
    );
}

#[tokio::test]
async fn what_is_not_intact_is_not_there_and_is_removed() {
    let other = artifact("other");
    type Damage = fn(&Path, &Path);
    let damages: &[(&str, Damage)] = &[
        ("a changed byte", |wasm, _| {
            fs::write(wasm, b"\0asmOne").unwrap()
        }),
        ("a cut file", |wasm, _| {
            File::options()
                .write(true)
                .open(wasm)
                .unwrap()
                .set_len(3)
                .unwrap()
        }),
        ("an empty file", |wasm, _| fs::write(wasm, b"").unwrap()),
        ("a huge file", |wasm, _| {
            File::options()
                .write(true)
                .open(wasm)
                .unwrap()
                .set_len(1 << 40)
                .unwrap()
        }),
        ("a link", |wasm, _| {
            fs::rename(wasm, wasm.with_extension("moved")).unwrap();
            symlink(wasm.with_extension("moved"), wasm).unwrap();
        }),
        ("no description", |_, json| fs::remove_file(json).unwrap()),
        ("a cut description", |_, json| {
            File::options()
                .write(true)
                .open(json)
                .unwrap()
                .set_len(20)
                .unwrap()
        }),
        ("a description without a version", |_, json| {
            fs::write(json, r#"{"origin":"","evidence":[]}"#).unwrap()
        }),
        ("an extended description", |_, json| {
            fs::write(
                json,
                r#"{"version":1,"origin":"","evidence":[],"isPinned":true}"#,
            )
            .unwrap();
        }),
    ];
    for (name, harm) in damages {
        let (_parent, folder, store) = in_folder();
        let kept = artifact("one");
        store.put(&kept).await.unwrap();
        store.put(&other).await.unwrap();
        let path = |kind: &str| folder.join(format!("{}.{kind}", kept.digest.hex()));
        harm(&path("wasm"), &path("json"));
        assert!(store.get(&kept.digest).await.is_none(), "{name}");
        assert!(!path("wasm").exists() && !path("json").exists(), "{name}");
        assert!(store.get(&other.digest).await.is_some(), "{name}");
        store.put(&kept).await.unwrap();
        assert!(store.get(&kept.digest).await.is_some(), "{name}");
    }
}

/// That version may come back while the source is away.
#[tokio::test]
async fn a_module_that_another_version_of_the_program_kept_is_not_used_and_stays() {
    let (_parent, folder, store) = in_folder();
    let kept = artifact("one");
    store.put(&kept).await.unwrap();
    let json = folder.join(format!("{}.json", kept.digest.hex()));
    let own = fs::read_to_string(&json).unwrap();
    let other = own.replacen("\"version\":1", "\"version\":2,\"isPinned\":true", 1);
    assert_ne!(other, own);
    fs::write(&json, &other).unwrap();
    let before = names(&folder);
    assert!(store.get(&kept.digest).await.is_none());
    assert_eq!(names(&folder), before);
    assert_eq!(fs::read_to_string(&json).unwrap(), other);
    fs::write(&json, &own).unwrap();
    assert!(store.get(&kept.digest).await.is_some());
    // Fetched again meanwhile.
    fs::write(&json, &other).unwrap();
    store.put(&kept).await.unwrap();
    assert!(store.get(&kept.digest).await.is_some());
}

#[tokio::test]
async fn what_is_not_kept_goes_unless_it_came_just_now() {
    let (_parent, folder, store) = in_folder();
    let all = ["one", "two", "three"].map(artifact);
    for kept in &all {
        store.put(kept).await.unwrap();
    }
    let [one, two, three] = all.map(|artifact| artifact.digest);
    fs::write(folder.join(".tmpAbCd.tmp"), b"\0asm").unwrap();
    for name in names(&folder)
        .iter()
        .filter(|name| !name.starts_with(&three.hex()))
    {
        age(&folder.join(name));
    }
    store.keep(&[one]).await;
    let mut expected = Vec::new();
    for digest in [one, three] {
        expected.extend([
            format!("{}.json", digest.hex()),
            format!("{}.wasm", digest.hex()),
        ]);
    }
    expected.sort();
    assert_eq!(names(&folder), expected);
    assert!(store.get(&one).await.is_some() && store.get(&two).await.is_none());
}

#[tokio::test]
async fn beyond_its_size_the_oldest_go_although_they_came_just_now() {
    let (_parent, folder, store) = in_folder();
    let digests: Vec<Digest> = (0..20_u8).map(|number| Digest::of(&[number])).collect();
    let path = |digest: &Digest| folder.join(format!("{}.wasm", digest.hex()));
    for (minutes, digest) in (0..20_u64).zip(digests.iter().rev()) {
        let file = File::create(path(digest)).unwrap();
        // A sparse file, which takes no room.
        file.set_len(32 << 20).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(minutes * 60))
            .unwrap();
    }
    // The first one is the oldest.
    store.keep(&digests[..1]).await;
    let there: Vec<usize> = (0..20).filter(|at| path(&digests[*at]).exists()).collect();
    let expected: Vec<usize> = std::iter::once(0).chain(5..20).collect();
    assert_eq!(there, expected);
}

#[tokio::test]
async fn the_record_beside_the_modules_stays() {
    let (_parent, folder, store) = in_folder();
    let record = MemoryRecordStore::kept_in(&folder, "hcloud");
    record.write(&Report::default()).await.unwrap();
    let kept = names(&folder);
    age(&folder.join(&kept[0]));
    store.keep(&[]).await;
    assert_eq!(names(&folder), kept);
}

#[tokio::test]
async fn of_providers_that_are_not_configured_only_young_and_foreign_files_stay() {
    let parent = tempfile::tempdir().unwrap();
    let all = ["configured", "departed", "young", "foreign"];
    for name in all {
        let folder = parent.path().join(name);
        let store = ModuleStore::open(Some(folder.clone())).unwrap();
        store.put(&artifact("one")).await.unwrap();
        let record = MemoryRecordStore::kept_in(&folder, name);
        record.write(&Report::default()).await.unwrap();
        fs::write(folder.join("left.tmp"), b"").unwrap();
        fs::write(folder.join(format!("{name}.record.json.new")), b"").unwrap();
        if name == "foreign" {
            fs::write(folder.join("other.record.json"), b"").unwrap();
        }
        for file in names(&folder) {
            age(&folder.join(file));
        }
    }
    let young = ModuleStore::open(Some(parent.path().join("young"))).unwrap();
    young.put(&artifact("two")).await.unwrap();
    fs::write(parent.path().join("file"), b"").unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    fs::write(elsewhere.path().join("link.record.json"), b"").unwrap();
    age(&elsewhere.path().join("link.record.json"));
    symlink(elsewhere.path(), parent.path().join("link")).unwrap();

    let configured = BTreeSet::from(["configured".to_owned()]);
    ModuleStore::remove_departed(parent.path().to_owned(), configured).await;
    let expected = ["configured", "file", "foreign", "link", "young"];
    assert_eq!(names(parent.path()), expected);
    assert_eq!(names(&parent.path().join("configured")).len(), 5);
    assert_eq!(names(&parent.path().join("young")).len(), 7);
    assert_eq!(names(&parent.path().join("foreign")), ["other.record.json"]);
    assert_eq!(names(elsewhere.path()), ["link.record.json"]);
    let nowhere = parent.path().join("nowhere");
    ModuleStore::remove_departed(nowhere, BTreeSet::new()).await;
}

#[tokio::test]
async fn memory_keeps_the_last_few() {
    let store = ModuleStore::open(None).unwrap();
    let all = ["one", "two", "three", "four", "five"].map(artifact);
    for kept in &all[..4] {
        store.put(kept).await.unwrap();
    }
    // Modules in use stay.
    assert!(store.get(&all[0].digest).await.is_some());
    store.put(&all[4]).await.unwrap();
    assert!(store.get(&all[1].digest).await.is_none());
    store.keep(&[all[0].digest, all[4].digest]).await;
    let mut there = Vec::new();
    for kept in &all {
        there.push(store.get(&kept.digest).await.is_some());
    }
    assert_eq!(there, [true, false, false, false, true]);
}

#[tokio::test]
async fn two_processes_that_write_the_same_module_at_once_leave_an_intact_one() {
    let (_parent, folder, _) = in_folder();
    let stores = [(); 4].map(|()| ModuleStore::open(Some(folder.clone())).unwrap());
    let (one, two) = (artifact("one"), artifact("two"));
    let writes = stores.iter().map(async |store| {
        for _ in 0..10 {
            store.put(&one).await.unwrap();
            store.put(&two).await.unwrap();
            assert!(store.get(&one.digest).await.is_some());
            assert!(store.get(&two.digest).await.is_some());
            store.keep(&[]).await;
        }
    });
    futures::future::join_all(writes).await;
    assert_eq!(names(&folder).len(), 4);
}

/// As kubelet opens the folders of a volume to the group of a pod.
#[tokio::test]
async fn a_folder_that_was_open_to_others_is_closed_and_its_modules_stay() {
    let (_parent, folder, store) = in_folder();
    let kept = artifact("one");
    store.put(&kept).await.unwrap();
    fs::set_permissions(&folder, Permissions::from_mode(0o2770)).unwrap();
    let next = ModuleStore::open(Some(folder.clone())).unwrap();
    assert!(next.get(&kept.digest).await.is_some());
    let mode = fs::metadata(&folder).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn what_is_no_folder_of_its_own_is_refused() {
    let parent = tempfile::tempdir().unwrap();
    fs::create_dir(parent.path().join("own")).unwrap();
    fs::set_permissions(parent.path().join("own"), Permissions::from_mode(0o700)).unwrap();
    symlink("own", parent.path().join("link")).unwrap();
    let error = ModuleStore::open(Some(parent.path().join("link")))
        .err()
        .unwrap();
    assert!(matches!(error, FolderError::NotOurs { .. }), "{error}");
    assert!(error.to_string().contains("not a folder"), "{error}");
    assert!(ModuleStore::open(Some(parent.path().join("own"))).is_ok());
}

/// As where the disk is full: what cannot be kept for the next start serves nevertheless.
#[tokio::test]
async fn without_a_folder_that_can_be_written_modules_are_kept_in_memory() {
    let parent = tempfile::tempdir().unwrap();
    let file = parent.path().join("file");
    fs::write(&file, b"").unwrap();
    let store = ModuleStore::open(Some(file)).unwrap();
    let one = artifact("one");
    store.put(&one).await.unwrap();
    assert!(store.get(&one.digest).await.is_some());
}
