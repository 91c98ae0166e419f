//! Finding a version again, in the file that is offered and beside it.

use std::fs::{self, File};
use std::os::unix::fs::symlink;

use ccm_core::rollout::Release;
use ccm_host::Digest;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::{put, setup, wasm};
use crate::artifact::{MODULE_BYTES, SignatureEvidence};
use crate::source::{Source as _, SourceErrorKind};

/// The release of such bytes, as a record names it.
fn release(text: &str) -> Release {
    Release {
        digest: Digest::of(&wasm(text)).to_string(),
        version: String::new(),
        origin: String::new(),
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_bytes_can_be_had_again_while_they_are_there() {
    let mut setup = setup("a.wasm");
    setup.put("a.wasm", &wasm("one"));
    let first = setup.source.next().await.unwrap();
    let one = release("one");
    assert_eq!(setup.source.again(&one).await.unwrap().digest, first.digest);
    setup.put("a.wasm", &wasm("two"));
    let error = setup.source.again(&one).await.err().unwrap();
    assert!(
        error.kind == SourceErrorKind::Absent && error.why.contains("put it back there"),
        "{error}"
    );
    // An earlier module may be kept beside the offered one, with its signature.
    setup.put("before.wasm", &wasm("one"));
    setup.put("before.wasm.sigstore.json", b"{1}");
    let kept = setup.source.again(&one).await.unwrap();
    assert_eq!(
        (kept.digest, kept.evidence),
        (
            first.digest,
            vec![SignatureEvidence::Bundle(b"{1}".to_vec())]
        )
    );
    setup.offers("two").await;
    setup.is_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn a_module_can_be_had_again_from_a_folder_that_does_not_say_which_one_it_offers() {
    let mut setup = setup("");
    for text in ["one", "two"] {
        setup.put(&format!("{text}.wasm"), &wasm(text));
    }
    assert!(matches!(
        setup.refuses().await.kind,
        SourceErrorKind::Refused(_)
    ));
    for text in ["one", "two"] {
        let kept = setup.source.again(&release(text)).await.unwrap();
        assert_eq!(*kept.wasm, *wasm(text));
    }
}

#[tokio::test(start_paused = true)]
async fn an_earlier_module_is_found_through_the_links_of_a_volume_and_beside_hostile_files() {
    let setup = setup("provider.wasm");
    let at = |name: &str| setup.folder.path().join(name);
    mknodat(CWD, at("a.wasm"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    symlink("/dev/zero", at("b.wasm")).unwrap();
    fs::create_dir(at("c.wasm")).unwrap();
    symlink("nowhere", at("d.wasm")).unwrap();
    let large = File::create(at("e.wasm")).unwrap();
    large.set_len(MODULE_BYTES as u64 + 1).unwrap();
    setup.put("f.wasm", b"\x7fELF");
    fs::create_dir(at("..2026_01")).unwrap();
    symlink("..2026_01", at("..data")).unwrap();
    for (name, text) in [("provider.wasm", "two"), ("before.wasm", "one")] {
        put(&at("..2026_01").join(name), &wasm(text));
        symlink(format!("..data/{name}"), at(name)).unwrap();
    }
    let again = async |text: &str| {
        let found = setup.source.again(&release(text)).await;
        found.map(|found| assert_eq!(*found.wasm, *wasm(text)))
    };
    again("one").await.unwrap();
    again("two").await.unwrap();
    // Without the file that is offered, too.
    fs::remove_file(at("provider.wasm")).unwrap();
    again("one").await.unwrap();
    fs::remove_file(at("before.wasm")).unwrap();
    let absent = again("one").await.unwrap_err();
    assert_eq!(absent.kind, SourceErrorKind::Absent, "{absent}");
    // A file whose content cannot be had now (EIO) may be the one: the version is not lost.
    symlink("/proc/self/mem", at("before.wasm")).unwrap();
    let unread = again("one").await.unwrap_err();
    assert_eq!(unread.kind, SourceErrorKind::Unavailable, "{unread}");
}

/// One beside it may be anybody's, and stay as it is for ever: the offered version would never take over.
#[tokio::test(start_paused = true)]
async fn only_the_offered_file_keeps_a_version_from_being_lost_when_it_may_not_be_read() {
    // Not even root may read this one.
    const WRITE_ONLY: &str = "/proc/sys/net/ipv4/route/flush";
    for (name, target, is_lost) in [
        ("z.wasm", "z.wasm", true),
        ("z.wasm", WRITE_ONLY, true),
        ("provider.wasm", WRITE_ONLY, false),
    ] {
        let setup = setup("provider.wasm");
        setup.put("provider.wasm", &wasm("two"));
        let at = |name: &str| setup.folder.path().join(name);
        symlink(target, at("link")).unwrap();
        fs::rename(at("link"), at(name)).unwrap();
        let error = setup.source.again(&release("one")).await.err().unwrap();
        let says_lost = error.kind == SourceErrorKind::Absent;
        assert_eq!(says_lost, is_lost, "{name} -> {target}: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_offered_module_is_found_behind_any_number_of_others() {
    let setup = setup("");
    for number in 10..42 {
        setup.put(&format!("{number}.wasm"), &wasm("another"));
    }
    setup.put("hcloud.wasm", &wasm("one"));
    assert!(setup.source.again(&release("one")).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn of_many_other_modules_in_a_folder_only_the_first_are_read() {
    let setup = setup("");
    for number in 10..42 {
        setup.put(&format!("{number}.wasm"), &wasm("another"));
    }
    setup.put("99.wasm", &wasm("one"));
    let absent = setup.source.again(&release("one")).await.err().unwrap();
    assert!(
        absent.to_string().contains("one of the first 32 others"),
        "{absent}"
    );
    fs::rename(
        setup.folder.path().join("99.wasm"),
        setup.folder.path().join("0.wasm"),
    )
    .unwrap();
    assert!(setup.source.again(&release("one")).await.is_ok());
}
