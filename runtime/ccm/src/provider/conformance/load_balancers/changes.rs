//! How the laws about changes of a load balancer that was made are tested: by `ensure`, and by `update-targets`.

use std::sync::Arc;

use anyhow::{Context as _, ensure};
use ccm_core::cloud::load_balancer::{CloudService, TargetNodes};
use ccm_core::safety::permit::LOAD_BALANCER_CHANGES;

use super::sequence::{Hints, made, targets_set};
use super::{MadeLoadBalancer, all_targets, ensure, settled};
use crate::provider::conformance::law::Verdict;
use crate::provider::conformance::module_under_test::ModuleUnderTest;

/// The Service with another port; `None` if it has none. Not with another node port: a cloud that keeps the destination of
/// packets does not use node ports.
fn with_other_port(service: &CloudService) -> Option<CloudService> {
    let mut other = service.clone();
    let free = service.ports.iter().map(|port| port.port).max()?;
    other.ports.first_mut()?.port = free.checked_add(1)?;
    Some(other)
}

pub(super) async fn changed(
    tested: &ModuleUnderTest,
    shared: &MadeLoadBalancer,
) -> anyhow::Result<Verdict> {
    let Some(other) = with_other_port(&shared.service) else {
        let why = "the Service has no port that could change";
        return Ok(Verdict::NotApplicable(why.to_owned()));
    };
    let other = Arc::new(other);
    let there = async {
        let there = made(&tested.load().await?, &other, Hints::Kept).await?;
        settled(tested, &other, &there.status).await?;
        anyhow::Ok(there.changes())
    };
    let there = there.await;
    // The next laws begin with the usual load balancer, whatever this one has found.
    let back = made(&tested.load().await?, &shared.service, Hints::Kept).await;
    let (there, back) = (there.context("with another port")?, back?.changes());
    ensure!(there > 0, "ensure with another port changes nothing");
    ensure!(back > 0, "ensure does not bring the port back");
    settled(tested, &shared.service, &shared.made.status).await?;
    Ok(Verdict::Pass(format!("{there} change(s), and {back} back")))
}

pub(super) async fn targets(
    tested: &ModuleUnderTest,
    shared: &MadeLoadBalancer,
) -> anyhow::Result<Verdict> {
    let all = all_targets(tested);
    let Some((_, fewer)) = all.split_last().filter(|(_, fewer)| !fewer.is_empty()) else {
        let why = "it needs two machines: --node NAME=PROVIDER_ID, twice";
        return Ok(Verdict::NotApplicable(why.to_owned()));
    };
    let fewer: TargetNodes = fewer.into();
    let (service, loaded) = (&shared.service, tested.load().await?);
    let mark = loaded.mark();
    targets_set(&loaded, service, &fewer).await?;
    let removing = loaded.changes_since(mark);
    let again = tested.load().await?;
    targets_set(&again, service, &fewer).await?;
    let repeated = again.changes_since(0);
    // It repairs what update-targets has changed beside the targets.
    let same = tested.load().await?;
    let permit = same.changing(LOAD_BALANCER_CHANGES);
    let ensured = ensure(&same, service, fewer, permit).await;
    let ensuring = same.changes_since(0);
    let back = tested.load().await?;
    made(&back, service, Hints::Kept).await?;
    let adding = back.changes_since(0);
    ensured.context("ensure with one node less")?;
    let verdict = verdict_on_targets([removing, repeated, ensuring, adding])?;
    settled(tested, service, &shared.made.status).await?;
    Ok(verdict)
}

/// Judges the numbers of changes: of update-targets with one node less, of the same again, of ensure with the same nodes,
/// and of ensure with all nodes.
fn verdict_on_targets(
    [removing, repeated, ensuring, adding]: [usize; 4],
) -> anyhow::Result<Verdict> {
    ensure!(
        removing > 0,
        "update-targets with one node less changes nothing"
    );
    ensure!(
        repeated == 0,
        "update-targets with the same nodes makes {repeated} change(s)"
    );
    ensure!(
        ensuring == 0,
        "after update-targets, ensure with the same nodes makes {ensuring} change(s)"
    );
    ensure!(adding > 0, "ensure does not bring the node back");
    Ok(Verdict::Pass(format!(
        "{removing} change(s), and {adding} back"
    )))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::{Verdict, verdict_on_targets};

    #[test]
    fn update_targets_changes_the_targets_once_and_nothing_else() {
        for (changes, why) in [
            (
                [0, 0, 1, 1],
                "update-targets with one node less changes nothing",
            ),
            (
                [1, 2, 0, 1],
                "update-targets with the same nodes makes 2 change(s)",
            ),
            (
                [1, 0, 1, 1],
                "after update-targets, ensure with the same nodes makes 1 change(s)",
            ),
            ([1, 0, 0, 0], "ensure does not bring the node back"),
        ] {
            assert_eq!(verdict_on_targets(changes).unwrap_err().to_string(), why);
        }
        let kept = Verdict::Pass("1 change(s), and 2 back".to_owned());
        assert_eq!(verdict_on_targets([1, 0, 0, 2]).unwrap(), kept);
    }
}
