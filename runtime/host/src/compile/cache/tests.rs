//! Entries that are intact, damaged, foreign or too many.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::os::unix::fs::{PermissionsExt as _, symlink};

use tempfile::TempDir;

use super::*;
use crate::compile::{CompilePipeline, Compiler};
use crate::fixtures;

struct Place {
    folder: TempDir,
    engine: Engine,
    digest: Digest,
    code: Compiled,
}

impl Place {
    fn new() -> Place {
        let engine = crate::engine::new().unwrap();
        let wasm = fixtures::component(&[], &[], &[]);
        let code = Compiled::for_tests(engine.precompile_component(&wasm).unwrap());
        Place {
            folder: TempDir::new().unwrap(),
            engine,
            digest: Digest::of(&wasm),
            code,
        }
    }

    fn open(&self) -> Cache {
        Cache::open(self.folder.path(), &self.engine).unwrap()
    }

    fn stored(&self) -> Cache {
        let cache = self.open();
        cache.store(self.digest, &self.code).unwrap();
        cache
    }
}

#[test]
fn what_is_stored_is_loaded_also_by_the_next_process() {
    let place = Place::new();
    assert!(
        place.open().load(&place.engine, place.digest).is_none(),
        "nothing yet"
    );
    assert!(place.stored().load(&place.engine, place.digest).is_some());
    assert!(
        place.open().load(&place.engine, place.digest).is_some(),
        "same key"
    );
}

/// As kubelet opens the folders of a volume to the group of a pod.
#[test]
fn a_folder_that_was_open_to_others_is_closed_and_what_is_in_it_is_not_believed() {
    let place = Place::new();
    let folder = place.stored().folder;
    let key = || fs::read(folder.join("key")).unwrap();
    for mode in [0o2770, 0o755] {
        let before = key();
        fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
        let cache = place.open();
        let closed = fs::metadata(&folder).unwrap().permissions().mode();
        assert_eq!(closed & 0o777, 0o700, "{mode:o}");
        assert_ne!(key(), before, "{mode:o}");
        assert!(
            cache.load(&place.engine, place.digest).is_none(),
            "{mode:o}"
        );
        cache.store(place.digest, &place.code).unwrap();
        let next = place.open();
        assert!(next.load(&place.engine, place.digest).is_some(), "{mode:o}");
    }
}

/// A change, and what it does to an entry.
type Change = (&'static str, fn(&mut Vec<u8>));

#[test]
fn a_changed_entry_is_never_loaded_and_goes() {
    let place = Place::new();
    let changes: &[Change] = &[
        ("a bit of the code", |entry| *entry.last_mut().unwrap() ^= 1),
        ("a bit of the MAC", |entry| entry[MAGIC.len()] ^= 1),
        ("another layout", |entry| entry[MAGIC.len() - 1] = b'2'),
        ("one byte less", |entry| _ = entry.pop()),
        ("one byte more", |entry| entry.push(0)),
        ("the header only", |entry| {
            entry.truncate(MAGIC.len() + MAC_BYTES)
        }),
        ("half a header", |entry| entry.truncate(MAGIC.len() + 3)),
        ("nothing", Vec::clear),
        ("bare code", |entry| {
            _ = entry.drain(..MAGIC.len() + MAC_BYTES)
        }),
    ];
    for (name, change) in changes {
        let cache = place.stored();
        let path = cache.path(place.digest);
        let mut entry = fs::read(&path).unwrap();
        change(&mut entry);
        fs::write(&path, entry).unwrap();
        assert!(cache.load(&place.engine, place.digest).is_none(), "{name}");
        assert!(!path.exists(), "{name}");
    }
}

#[test]
fn an_entry_counts_for_its_module_settings_and_installation_only() {
    let place = Place::new();
    let cache = place.stored();
    let entry = fs::read(cache.path(place.digest)).unwrap();

    let other_module = Digest::of(b"another module");
    fs::write(cache.path(other_module), &entry).unwrap();
    assert!(cache.load(&place.engine, other_module).is_none());

    let mut other_settings = place.open();
    other_settings.compatibility = "0123456789abcdef".to_owned();
    fs::write(other_settings.path(place.digest), &entry).unwrap();
    assert!(other_settings.load(&place.engine, place.digest).is_none());

    let elsewhere = TempDir::new().unwrap();
    let other_installation = Cache::open(elsewhere.path(), &place.engine).unwrap();
    fs::write(other_installation.path(place.digest), &entry).unwrap();
    assert!(
        other_installation
            .load(&place.engine, place.digest)
            .is_none()
    );
}

#[test]
fn code_for_another_engine_is_not_loaded_even_with_our_signature() {
    let place = Place::new();
    let cache = place.open();
    let other = Engine::new(wasmtime::Config::new().epoch_interruption(false)).unwrap();
    let code = Compiled::for_tests(
        other
            .precompile_component(&fixtures::component(&[], &[], &[]))
            .unwrap(),
    );
    cache.store(place.digest, &code).unwrap();
    assert!(cache.load(&place.engine, place.digest).is_none());
    assert_ne!(compatibility(&other), cache.compatibility);
}

#[test]
fn only_this_user_can_read_the_key_and_write_the_folder() {
    let place = Place::new();
    let cache = place.stored();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&cache.folder), 0o700);
    assert_eq!(mode(&cache.folder.join("key")), 0o600);
    assert_eq!(mode(&cache.path(place.digest)), 0o600);
}

#[test]
fn what_is_no_folder_is_refused() {
    let place = Place::new();
    let folder = place.folder.path().join("compiled");
    let open = || {
        Cache::open(place.folder.path(), &place.engine)
            .err()
            .map(|error| error.to_string())
    };

    let target = place.folder.path().join("target");
    fs::create_dir(&target).unwrap();
    symlink(&target, &folder).unwrap();
    assert!(open().is_some_and(|error| error.contains("not a folder")));
    fs::remove_file(&folder).unwrap();

    fs::write(&folder, b"a file").unwrap();
    assert!(open().is_some_and(|error| error.contains("not a folder")));
}

#[test]
fn a_key_that_is_not_a_key_is_an_error_and_not_a_weaker_key() {
    let place = Place::new();
    let cache = place.stored();
    fs::write(cache.folder.join("key"), b"short").unwrap();
    let error = Cache::open(place.folder.path(), &place.engine)
        .err()
        .unwrap();
    assert!(matches!(error, CacheError::Key { .. }), "{error}");
}

#[test]
fn the_longest_unused_entries_go_first() {
    let place = Place::new();
    let mut cache = place.open();
    let entry = (MAGIC.len() + MAC_BYTES + place.code.as_bytes().len()) as u64;
    cache.cap = 2 * entry;
    let digests: Vec<_> = (0..3_u8).map(|number| Digest::of(&[number])).collect();
    let age = |digest: Digest, seconds: u64| {
        let time = SystemTime::now() - Duration::from_secs(seconds);
        File::options()
            .append(true)
            .open(cache.path(digest))
            .unwrap()
            .set_modified(time)
            .unwrap();
    };
    cache.store(digests[0], &place.code).unwrap();
    cache.store(digests[1], &place.code).unwrap();
    age(digests[0], 200);
    age(digests[1], 100);
    assert!(
        cache.load(&place.engine, digests[0]).is_some(),
        "used, so young again"
    );
    cache.store(digests[2], &place.code).unwrap();
    let kept: Vec<_> = digests
        .iter()
        .map(|digest| cache.path(*digest).exists())
        .collect();
    assert_eq!(kept, [true, false, true]);
}

#[test]
fn leftovers_of_a_crashed_writer_go_after_a_while() {
    let place = Place::new();
    let cache = place.open();
    let (old, young) = (cache.folder.join("old.tmp"), cache.folder.join("young.tmp"));
    for path in [&old, &young] {
        fs::write(path, b"half").unwrap();
    }
    let time = SystemTime::now() - 2 * STALE;
    File::options()
        .append(true)
        .open(&old)
        .unwrap()
        .set_modified(time)
        .unwrap();
    cache.sweep();
    assert_eq!((old.exists(), young.exists()), (false, true));
}

/// A full disk is no reason to serve nothing; a folder that is another's is.
#[test]
fn without_a_folder_that_can_be_written_everything_is_compiled_anew() {
    let open = |folder: &Path| {
        let compiler = Compiler {
            program: "/bin/false".into(),
            arguments: Vec::new(),
        };
        let engine = crate::engine::new().unwrap();
        CompilePipeline::open(engine, compiler, Some(folder))
    };
    let parent = TempDir::new().unwrap();
    let file = parent.path().join("file");
    fs::write(&file, b"").unwrap();
    open(&file).unwrap();
    let elsewhere = TempDir::new().unwrap();
    symlink(elsewhere.path(), parent.path().join("compiled")).unwrap();
    let refused = open(parent.path()).err().unwrap();
    let is_not_ours = matches!(refused, CacheError::Folder(FolderError::NotOurs { .. }));
    assert!(is_not_ours, "{refused}");
}
