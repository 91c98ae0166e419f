//! The laws that hold for every module, whatever it does.

use super::law::{self, Book, Verdict};
use super::rig::Rig;
use ccm_core::cloud::CloudProvider as _;

/// The laws that are tested first.
pub(super) async fn begin(rig: &Rig, book: &mut Book<'_>) {
    book.judge(law::STEADY_INIT, steady_init(rig)).await;
    match rig.has_self_check() {
        true => book.judge(law::SELF_CHECK, self_check(rig)).await,
        false => book.skip(&[law::SELF_CHECK], "the module exports no self-check"),
    }
    // What goes wrong here is found by the laws about look-ups.
    let _ = rig.learn().await;
}

/// The laws about everything that the others have seen.
pub(super) async fn end(rig: &Rig, book: &mut Book<'_>) {
    book.judge(law::INIT_SILENT, async { Ok(init_silent(rig)) })
        .await;
    book.judge(law::GRANTED, async { Ok(granted(rig)) }).await;
    book.judge(law::NO_TRAP, async { Ok(no_trap(rig)) }).await;
    if rig.subjects.allow_changes {
        book.judge(law::CLEANED_UP, async { Ok(cleaned_up(rig)) })
            .await;
    }
}

async fn steady_init(rig: &Rig) -> anyhow::Result<Verdict> {
    let first = rig.load().await?.provider.capabilities();
    for _ in 0..2 {
        let again = rig.load().await?.provider.capabilities();
        if again != first {
            return Ok(Verdict::Fail(format!("{first:?}, and then {again:?}")));
        }
    }
    Ok(Verdict::Pass("3 times".to_owned()))
}

async fn self_check(rig: &Rig) -> anyhow::Result<Verdict> {
    let seat = rig.load().await?;
    let mark = seat.mark();
    if let Err(error) = seat.heard(seat.provider.self_check(seat.reading()).await) {
        return Ok(Verdict::Fail(error.to_string()));
    }
    Ok(match seat.changes_since(mark) {
        0 => Verdict::Pass("once".to_owned()),
        changes => Verdict::Fail(format!("{changes} change(s) were tried")),
    })
}

fn init_silent(rig: &Rig) -> Verdict {
    let calls = rig.calls();
    let tried = calls.iter().filter(|call| call.requests_in_init > 0);
    match tried.count() {
        0 => Verdict::Pass(format!("{} call(s)", calls.len())),
        count => Verdict::Fail(format!("{count} call(s) tried to send requests from init")),
    }
}

fn granted(rig: &Rig) -> Verdict {
    let calls = rig.calls();
    let requests: usize = calls.iter().map(|call| call.requests.len()).sum();
    let refused = calls.iter().flat_map(|call| &call.refused);
    let mut beyond = refused.filter(|refused| !refused.is_granted);
    match beyond.next() {
        None => Verdict::Pass(format!("{requests} request(s)")),
        Some(first) => Verdict::Fail(format!(
            "{} request(s) are not granted, the first: {}",
            1 + beyond.count(),
            first.why
        )),
    }
}

fn no_trap(rig: &Rig) -> Verdict {
    match rig.failures().as_slice() {
        [] => Verdict::Pass(format!("{} call(s)", rig.calls().len())),
        [first, more @ ..] => {
            Verdict::Fail(format!("{} call(s), the first: {first}", 1 + more.len()))
        }
    }
}

fn cleaned_up(rig: &Rig) -> Verdict {
    match rig.left().as_slice() {
        [] => Verdict::Pass("nothing is left".to_owned()),
        left => Verdict::Fail(format!("left at the cloud: {}", left.join(", "))),
    }
}
