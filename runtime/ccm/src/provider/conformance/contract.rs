//! The laws that hold for every module, whatever it does.

use std::future::ready;

use anyhow::{bail, ensure};
use ccm_core::cloud_provider::CloudProvider as _;
use ccm_host::InjectedFault;

use super::law::{self, Findings, Verdict};
use super::module_under_test::ModuleUnderTest;

/// Tests the laws that come first.
pub(super) async fn begin(tested: &ModuleUnderTest, findings: &mut Findings<'_>) {
    findings.judge(law::STEADY_INIT, steady_init(tested)).await;
    match tested.has_self_check() {
        true => findings.judge(law::SELF_CHECK, self_check(tested)).await,
        false => findings.skip(&[law::SELF_CHECK], "the module exports no self-check"),
    }
    // Failures here are found by the laws about look-ups.
    let _ = tested.learn().await;
}

/// Tests the laws about everything that was observed while the other laws were tested.
pub(super) async fn end(tested: &ModuleUnderTest, findings: &mut Findings<'_>) {
    let silent = ready(init_silent(tested));
    findings.judge(law::INIT_SILENT, silent).await;
    findings.judge(law::GRANTED, ready(granted(tested))).await;
    findings.judge(law::NO_TRAP, ready(no_trap(tested))).await;
    if tested.subjects.allow_changes {
        let cleaned = ready(cleaned_up(tested));
        findings.judge(law::CLEANED_UP, cleaned).await;
    }
}

async fn steady_init(tested: &ModuleUnderTest) -> anyhow::Result<Verdict> {
    let first = tested.load().await?.provider.capabilities();
    for _ in 0..2 {
        let again = tested.load().await?.provider.capabilities();
        ensure!(again == first, "{first:?}, and then {again:?}");
    }
    Ok(Verdict::Pass("3 times".to_owned()))
}

async fn self_check(tested: &ModuleUnderTest) -> anyhow::Result<Verdict> {
    let loaded = tested.load().await?;
    let mark = loaded.mark();
    loaded.recorded(loaded.provider.self_check(loaded.reading()).await)?;
    loaded.changes_nothing_since(mark)?;
    if loaded
        .since(mark)
        .iter()
        .all(|call| call.requests.is_empty())
    {
        ensure!(!tested.needs_a_target(), "it sends no request");
        return Ok(Verdict::Pass("once, without a request".to_owned()));
    }
    let refused = tested.load().await?;
    refused.disturb_all(InjectedFault::Answer(401));
    let answer = refused.provider.self_check(refused.reading()).await;
    match refused.recorded(answer) {
        Err(_) => Ok(Verdict::Pass(
            "once, and once with the answer 401".to_owned(),
        )),
        Ok(()) => bail!("it succeeds although the cloud answers 401"),
    }
}

fn init_silent(tested: &ModuleUnderTest) -> anyhow::Result<Verdict> {
    let calls = tested.calls();
    let tried = calls.iter().filter(|call| call.requests_in_init > 0);
    match tried.count() {
        0 => Ok(Verdict::Pass(format!("{} call(s)", calls.len()))),
        count => bail!("{count} call(s) tried to send requests from init"),
    }
}

fn granted(tested: &ModuleUnderTest) -> anyhow::Result<Verdict> {
    let calls = tested.calls();
    let requests: usize = calls.iter().map(|call| call.requests.len()).sum();
    let refused = calls.iter().flat_map(|call| &call.refused);
    let mut beyond = refused.filter(|refused| !refused.is_granted);
    match beyond.next() {
        None => Ok(Verdict::Pass(format!("{requests} request(s)"))),
        Some(first) => bail!(
            "{} request(s) are not granted, the first: {}",
            1 + beyond.count(),
            first.why
        ),
    }
}

fn no_trap(tested: &ModuleUnderTest) -> anyhow::Result<Verdict> {
    match tested.failures().as_slice() {
        [] => Ok(Verdict::Pass(format!("{} call(s)", tested.calls().len()))),
        [first, more @ ..] => bail!("{} call(s), the first: {first}", 1 + more.len()),
    }
}

fn cleaned_up(tested: &ModuleUnderTest) -> anyhow::Result<Verdict> {
    match tested.left().as_slice() {
        [] => Ok(Verdict::Pass("nothing is left".to_owned())),
        left => bail!("left at the cloud: {}", left.join(", ")),
    }
}
