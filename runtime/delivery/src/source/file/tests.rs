#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod kept;

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;

use super::{FileSource, poll};
use crate::artifact::{EVIDENCE_BYTES, MODULE_BYTES, SignatureEvidence};
use crate::source::{FilePlace, Source as _, SourceError, SourceErrorKind};

/// A source and the folder it is in.
struct Setup {
    folder: TempDir,
    source: FileSource,
}

/// The source of `name` in an empty folder, for the entry `hcloud`; without a name of the folder itself.
fn setup(name: &str) -> Setup {
    let folder = tempfile::tempdir().unwrap();
    let at = FilePlace {
        path: folder.path().join(name),
        is_folder: name.is_empty(),
    };
    Setup {
        source: FileSource::new("file:///place".to_owned(), at, "hcloud".to_owned()),
        folder,
    }
}

/// Bytes that begin like a module.
fn wasm(text: &str) -> Vec<u8> {
    [b"\0asm", text.as_bytes()].concat()
}

/// Writes a file with an old time of modification.
fn put(path: &Path, content: &[u8]) {
    let next = path.with_file_name("on-its-way");
    fs::write(&next, content).unwrap();
    let long_ago = SystemTime::now() - Duration::from_secs(60);
    File::options()
        .append(true)
        .open(&next)
        .unwrap()
        .set_modified(long_ago)
        .unwrap();
    fs::rename(next, path).unwrap();
}

impl Setup {
    fn put(&self, name: &str, content: &[u8]) {
        put(&self.folder.path().join(name), content);
    }

    async fn offers(&mut self, text: &str) -> Vec<SignatureEvidence> {
        let artifact = self.source.next().await.unwrap();
        assert_eq!(
            String::from_utf8_lossy(&artifact.wasm),
            String::from_utf8_lossy(&wasm(text))
        );
        assert_eq!(artifact.origin, "file:///place");
        artifact.evidence
    }

    async fn refuses(&mut self) -> SourceError {
        match self.source.next().await {
            Ok(artifact) => panic!("{:?}", artifact.digest),
            Err(error) => error,
        }
    }

    /// Checks that nothing is offered, however long the test waits.
    async fn is_quiet(&mut self) {
        let quiet = tokio::time::timeout(Duration::from_secs(60), self.source.next()).await;
        assert!(quiet.is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn a_file_is_offered_when_it_is_there_and_whenever_another_is_put_in_its_place() {
    let mut setup = setup("a.wasm");
    let error = setup.refuses().await;
    assert_eq!(
        error.to_string(),
        "file:///place: there is nothing: a.wasm does not exist"
    );
    setup.is_quiet().await;
    for text in ["one", "two", "one"] {
        setup.put("a.wasm", &wasm(text));
        assert_eq!(setup.offers(text).await, []);
    }
    // The same bytes in another file are no new offer.
    setup.put("a.wasm", &wasm("one"));
    setup.is_quiet().await;
    fs::remove_file(setup.folder.path().join("a.wasm")).unwrap();
    assert_eq!(setup.refuses().await.kind, SourceErrorKind::Absent);
    setup.put("a.wasm", &wasm("one"));
    setup.offers("one").await;
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_being_written_is_left_alone_until_it_is_done() {
    let mut setup = setup("a.wasm");
    let mut file = File::create(setup.folder.path().join("a.wasm")).unwrap();
    file.write_all(&wasm("")).unwrap();
    for letter in ["w", "h", "o", "l", "e"] {
        let waited = tokio::time::timeout(Duration::from_millis(700), setup.source.next()).await;
        assert!(waited.is_err(), "taken before {letter}");
        file.write_all(letter.as_bytes()).unwrap();
        // The time of files passes while the time of this test is paused.
        file.set_modified(SystemTime::now()).unwrap();
    }
    setup.offers("whole").await;
}

#[tokio::test(start_paused = true)]
async fn the_link_of_a_mounted_config_map_may_be_switched_at_any_time() {
    let mut setup = setup("a.wasm");
    let root = setup.folder.path().to_owned();
    let version = |name: &str, text: &str| {
        fs::create_dir(root.join(name)).unwrap();
        put(&root.join(name).join("a.wasm"), &wasm(text));
        symlink(name, root.join("..data_tmp")).unwrap();
        fs::rename(root.join("..data_tmp"), root.join("..data")).unwrap();
    };
    version("..2026_01", "one");
    symlink("..data/a.wasm", root.join("a.wasm")).unwrap();
    setup.offers("one").await;
    version("..2026_02", "two");
    fs::remove_dir_all(root.join("..2026_01")).unwrap();
    setup.offers("two").await;
}

#[test]
fn what_is_opened_is_read_even_if_the_link_points_elsewhere_by_then() {
    let setup = setup("a.wasm");
    let root = setup.folder.path();
    put(&root.join("one"), &wasm("one"));
    put(&root.join("two"), &wasm("two"));
    symlink("one", root.join("a.wasm")).unwrap();
    let at = FilePlace {
        path: root.join("a.wasm"),
        is_folder: false,
    };
    let seen = poll::open("p", &at, "hcloud").unwrap();
    symlink("two", root.join("next")).unwrap();
    fs::rename(root.join("next"), root.join("a.wasm")).unwrap();
    assert_eq!(*seen.read("p").unwrap().unwrap().wasm, *wasm("one"));
    // A file that changes between opening and reading is not used.
    let seen = poll::open("p", &at, "hcloud").unwrap();
    File::options()
        .append(true)
        .open(root.join("two"))
        .unwrap()
        .write_all(b"more")
        .unwrap();
    assert!(seen.read("p").unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn only_regular_files_are_read_and_nothing_is_waited_for() {
    for kind in ["a pipe", "a socket", "a folder", "a device"] {
        let setup = setup("");
        let path = setup.folder.path().join("hcloud.wasm");
        match kind {
            "a pipe" => mknodat(CWD, &path, FileType::Fifo, Mode::RWXU, 0).unwrap(),
            "a socket" => drop(UnixListener::bind(&path).unwrap()),
            "a folder" => fs::create_dir(&path).unwrap(),
            _ => symlink("/dev/zero", &path).unwrap(),
        }
        let mut setup = setup;
        let error = setup.refuses().await;
        let why = format!("hcloud.wasm is {kind}, and only regular files are read");
        assert!(
            matches!(error.kind, SourceErrorKind::Refused(_)) && error.why == why,
            "{error}"
        );
        setup.is_quiet().await;
        fs::remove_dir(&path)
            .or_else(|_| fs::remove_file(&path))
            .unwrap();
        setup.put("hcloud.wasm", &wasm("one"));
        setup.offers("one").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_folder_offers_the_file_that_is_called_like_the_entry_or_the_only_one() {
    let missing = "the folder has no file hcloud.wasm or hcloud.wasm.gz, and no other module";
    let several = "no module is called hcloud.wasm, and there are several: a.wasm, b.wasm.gz";
    let cases: &[(&[&str], Result<&str, &str>)] = &[
        (&[], Err(missing)),
        (
            &[
                "README.md",
                ".a.wasm",
                "..data",
                "hcloud",
                "a.wasm.sigstore.json",
                "a.wat",
            ],
            Err(missing),
        ),
        (&["hcloud.wasm"], Ok("hcloud.wasm")),
        (&["hcloud.wasm.zst", "a.wasm"], Ok("hcloud.wasm.zst")),
        (
            &[
                "hcloud.wasm.gz",
                "hcloud2.wasm",
                "xhcloud.wasm",
                "README.md",
            ],
            Ok("hcloud.wasm.gz"),
        ),
        (&["only.wasm", "README.md"], Ok("only.wasm")),
        (&["b.wasm.gz", "a.wasm"], Err(several)),
        (
            &["hcloud.wasm.gz", "hcloud.wasm", "a.wasm"],
            Err("which one is meant? hcloud.wasm, hcloud.wasm.gz"),
        ),
        (
            &["a\u{1b}[31m.wasm", "b.wasm"],
            Err("a\\u{1b}[31m.wasm, b.wasm"),
        ),
    ];
    for (names, expected) in cases {
        let mut setup = setup("");
        for name in *names {
            setup.put(name, &wasm(name));
        }
        match expected {
            Ok(name) => drop(setup.offers(name).await),
            Err(why) => {
                let error = setup.refuses().await.to_string();
                assert!(error.contains(why), "{names:?}: {error}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn another_file_of_a_folder_is_offered_when_it_becomes_the_right_one() {
    let mut setup = setup("");
    setup.put("v1.wasm", &wasm("v1"));
    setup.offers("v1").await;
    setup.put("v2.wasm", &wasm("v2"));
    assert!(matches!(
        setup.refuses().await.kind,
        SourceErrorKind::Refused(_)
    ));
    setup.put("hcloud.wasm", &wasm("v3"));
    setup.offers("v3").await;
}

#[tokio::test(start_paused = true)]
async fn a_signature_beside_the_file_comes_with_it_and_a_later_one_is_told() {
    let mut setup = setup("a.wasm.gz");
    setup.put("a.wasm.gz", &wasm("one"));
    assert_eq!(setup.offers("one").await, []);
    setup.put("a.wasm.sigstore.json", b"{1}");
    assert_eq!(
        setup.offers("one").await,
        [SignatureEvidence::Bundle(b"{1}".to_vec())]
    );
    setup.put("a.wasm.gz.sigstore.json", b"{2}");
    let both = [
        SignatureEvidence::Bundle(b"{2}".to_vec()),
        SignatureEvidence::Bundle(b"{1}".to_vec()),
    ];
    assert_eq!(setup.offers("one").await, both);
    setup.put("a.wasm.sigstore.json", &vec![b' '; EVIDENCE_BYTES + 1]);
    let error = setup.refuses().await.to_string();
    assert!(
        error.contains("a.wasm.sigstore.json has 262145 bytes"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_no_module_is_told_once() {
    let mut setup = setup("a.wasm");
    for (content, why) in [
        (&b"\x7fELF"[..], "compiled code"),
        (b"(component)", "not WebAssembly"),
        (b"", "it is empty"),
    ] {
        setup.put("a.wasm", content);
        let error = setup.refuses().await.to_string();
        assert!(error.contains(why), "{error}");
        // Also where another file has the same.
        setup.put("a.wasm", content);
        setup.is_quiet().await;
    }
    let file = File::create(setup.folder.path().join("a.wasm")).unwrap();
    file.set_len(MODULE_BYTES as u64 + 1).unwrap();
    let error = setup.refuses().await.to_string();
    assert!(
        error.contains("a.wasm has 33554433 bytes, and at most 33554432 are read"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_file_that_could_not_be_read_is_read_again_although_it_has_not_changed() {
    let mut setup = setup("a.wasm");
    setup.put("a.wasm", &wasm("one"));
    // What a read from a volume that is away for a moment fails with (EIO); the file stays as it was.
    let error = poll::failed("p", Path::new("/a.wasm"), &io::Error::from_raw_os_error(5));
    let seen = setup.source.open().await.unwrap();
    let answer = setup.source.answer(seen.identity(), Err(error.clone()));
    assert_eq!(answer.ok().and_then(Result::err), Some(error.clone()));
    let again = tokio::time::timeout(Duration::from_secs(60), setup.source.next()).await;
    assert!(again.is_ok_and(|again| again.is_ok()), "it is read again");
    // The same error twice is told once, and what comes after it counts although it was offered before.
    for is_new in [true, false] {
        let seen = setup.source.open().await.unwrap();
        let answer = setup.source.answer(seen.identity(), Err(error.clone()));
        assert_eq!(answer.is_ok(), is_new);
    }
    setup.offers("one").await;
}

#[tokio::test(start_paused = true)]
async fn a_place_that_is_said_to_be_a_folder_is_one() {
    let mut setup = setup("a");
    setup.source = FileSource::new(
        "file:///place/".to_owned(),
        FilePlace {
            path: setup.folder.path().join("a"),
            is_folder: true,
        },
        "hcloud".to_owned(),
    );
    setup.put("a", &wasm("one"));
    let error = setup.refuses().await.to_string();
    assert!(error.contains("not a folder"), "{error}");
}

#[test]
fn what_the_operating_system_says_is_told_as_what_it_means() {
    let told =
        |kind: io::ErrorKind| poll::failed("p", Path::new("/a/b.wasm"), &io::Error::from(kind));
    for (kind, expected) in [
        (io::ErrorKind::NotFound, SourceErrorKind::Absent),
        (io::ErrorKind::NotADirectory, SourceErrorKind::Absent),
        (io::ErrorKind::TimedOut, SourceErrorKind::Unavailable),
    ] {
        assert_eq!(told(kind).kind, expected, "{kind}");
    }
    let denied = told(io::ErrorKind::PermissionDenied);
    assert!(
        denied.kind == SourceErrorKind::Denied && denied.why.ends_with("may not read b.wasm"),
        "{denied}"
    );
}
