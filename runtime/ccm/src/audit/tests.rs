#![allow(clippy::unwrap_used, reason = "tests")]

use ccm_core::reconciliation::effect::ObjectKind;
use ccm_fixtures::permits::change;
use serde_json::Value;

use super::*;

fn record(name: &str) -> AuditRecord {
    AuditRecord {
        author: Author {
            provider: "hcloud".to_owned(),
            digest: "sha256:0".to_owned(),
        },
        subject: Subject {
            kind: Some(ObjectKind::Node),
            namespace: None,
            name: name.to_owned(),
            uid: "u".to_owned(),
            reason: "gone".to_owned(),
        },
        act: Act::NodeDeletion,
        end: End::Done,
        took: None,
        brake: None,
    }
}

fn request() -> CloudRequest {
    change("POST", "/servers")
}

fn open(path: &Path) -> anyhow::Result<AuditWriter> {
    AuditWriter::open(&AuditLog::File(path.to_owned()))
}

fn names(path: &Path) -> Vec<String> {
    texts(path, "/object/name")
}

/// The value at this place of each record.
fn texts(path: &Path, pointer: &str) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines().map(serde_json::from_str::<Value>);
    let text = |value: Value| value.pointer(pointer).unwrap().as_str().unwrap().to_owned();
    lines.map(|value| text(value.unwrap())).collect()
}

#[test]
fn each_record_is_a_line_at_the_end_of_the_file_with_the_time_and_the_leader_of_then() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    std::fs::write(&path, "{\"from\":\"before\"}\n").unwrap();
    let writer = open(&path).unwrap();
    writer.after(&record("hostile\n{\"a\":1}\u{2028}name"));
    writer.led_by("pod-1_x", 7).after(&record("b"));
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert_eq!(lines[0]["from"], "before");
    assert_eq!(lines[1]["leader"]["identity"], "");
    assert_eq!(lines[2]["leader"]["identity"], "pod-1_x");
    assert_eq!(lines[2]["leader"]["transitions"], 7);
    for line in &lines[1..] {
        let time = line["time"].as_str().unwrap();
        assert!(time.parse::<Timestamp>().is_ok(), "{time}");
    }
}

#[test]
fn what_is_written_is_for_the_operator_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    open(&path).unwrap();
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "{mode:o}");
}

#[test]
fn a_file_that_was_moved_away_is_begun_anew() {
    let folder = tempfile::tempdir().unwrap();
    let (path, old) = (folder.path().join("a"), folder.path().join("a.1"));
    let writer = open(&path).unwrap();
    writer.after(&record("one"));
    std::fs::rename(&path, &old).unwrap();
    writer.after(&record("two"));
    assert_eq!(
        (names(&old), names(&path)),
        (vec!["one".to_owned()], vec!["two".to_owned()])
    );
}

#[test]
fn while_it_cannot_be_written_nothing_is_changed_and_no_record_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("inner");
    std::fs::create_dir(&inner).unwrap();
    let path = inner.join("audit.jsonl");
    let writer = open(&path).unwrap();
    let before = || writer.before(&Subject::default(), &request());
    assert_eq!(before(), Ok(()));
    std::fs::rename(&inner, folder.path().join("away")).unwrap();
    // Two changes were on the wire when the folder was removed.
    writer.after(&record("one"));
    writer.led_by("pod-1_x", 7).after(&record("two"));
    assert_eq!(before(), Err(Unrecordable));
    assert_eq!(
        writer.before_deletion(&Author::default(), &Subject::default()),
        Err(Unrecordable)
    );
    std::fs::create_dir(&inner).unwrap();
    assert_eq!(before(), Ok(()));
    writer.after(&record("three"));
    assert_eq!(names(&path), ["one", "two", "three"]);
}

#[test]
fn what_is_under_way_when_the_process_ends_has_one_record_and_nothing_else_begins() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let writer = open(&path).unwrap();
    let led = writer.led_by("pod-1_x", 7);
    let change = |name: &str| AuditRecord {
        author: request().author,
        act: Act::of(&request()),
        ..record(name)
    };
    let begin = |name: &str| led.before(&record(name).subject, &request());
    let deletion = record("node");
    assert_eq!((begin("one"), begin("two")), (Ok(()), Ok(())));
    led.before_deletion(&deletion.author, &deletion.subject)
        .unwrap();
    led.after(&change("one"));
    writer.end();
    assert_eq!(names(&path), ["one", "two", "node"]);
    assert_eq!(texts(&path, "/outcome"), ["done", "unknown", "unknown"]);
    assert_eq!(texts(&path, "/leader/identity"), ["pod-1_x"; 3]);

    // The process still runs for a moment.
    led.after(&change("two"));
    led.after(&deletion);
    assert_eq!(begin("three"), Err(Unrecordable));
    writer.end();
    assert_eq!(names(&path).len(), 3);
}

#[test]
fn what_cannot_be_opened_or_would_block_is_refused_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    for path in [
        folder.path().to_owned(),
        folder.path().join("no/such/folder"),
    ] {
        assert!(open(&path).is_err());
    }
}

/// Takes a few bytes at a time, and none beyond a total.
struct Full {
    left: usize,
    written: Vec<u8>,
}

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = bytes.len().min(7).min(self.left);
        if count == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.left -= count;
        self.written.extend_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_line_that_was_torn_by_a_full_disk_is_written_again_on_a_line_of_its_own() {
    let (mut out, mut is_torn) = (
        Full {
            left: 10,
            written: Vec::new(),
        },
        false,
    );
    assert!(put(&mut out, "{\"number\":1}", &mut is_torn).is_err());
    out.left = 1_000;
    put(&mut out, "{\"number\":1}", &mut is_torn).unwrap();
    put(&mut out, "{\"number\":2}", &mut is_torn).unwrap();
    let text = String::from_utf8(out.written).unwrap();
    assert_eq!(text, "{\"number\":\n{\"number\":1}\n{\"number\":2}\n");
}

#[test]
fn what_a_module_tries_in_vain_is_written_ten_times_a_minute_and_then_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    let writer = open(&path).unwrap();
    let subject = Subject::default();
    let attempt = |provider: &str| Attempt {
        author: Author {
            provider: provider.to_owned(),
            digest: String::new(),
        },
        subject: &subject,
        target: "api",
        method: "GET",
        outcome: "denied",
        refusal: "GET /ssh_keys on target api is not granted",
    };
    for _ in 0..500 {
        writer.attempted(&attempt("one"));
    }
    // Another holder of the lease writes to the same file.
    writer.led_by("me", 1).attempted(&attempt("one"));
    writer.attempted(&attempt("two"));
    let text = std::fs::read_to_string(&path).unwrap();
    let count = |word: &str| text.lines().filter(|line| line.contains(word)).count();
    assert_eq!((count("\"one\""), count("\"two\"")), (10, 1));
    assert_eq!(count("\"kind\":\"refused\""), 11);

    let mut refusals = Refusals::default();
    let begin = Instant::now();
    let at = |seconds: u64| begin + std::time::Duration::from_secs(seconds);
    for (seconds, times, expected) in [
        (0, 10, Some(0)),
        (30, 5, None),
        (59, 1, None),
        (60, 1, Some(6)),
        (61, 9, Some(0)),
        (62, 1, None),
        (500, 1, Some(1)),
    ] {
        for _ in 0..times {
            assert_eq!(refusals.next("one", at(seconds)), expected, "{seconds} s");
        }
    }
    // Those that could not be written count with the next one.
    for before in 0..3 {
        assert_eq!(refusals.next("one", at(600)), Some(before));
        refusals.lost("one", before);
    }
}
