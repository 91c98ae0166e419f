//! What is left of a provider that goes while its calls are under way.

use ccm_core::cloud::ProviderError;

use super::*;

/// Time for the calls that are under way when their provider goes.
const CALL: Duration = Duration::from_secs(3);

/// Enough time for them to end by themselves.
fn patient() -> Settings {
    Settings {
        drain: Duration::from_secs(30),
        ..settings()
    }
}

/// Nobody would correct the answer.
#[tokio::test(start_paused = true)]
async fn what_a_provider_says_after_it_was_removed_holds_no_machine() {
    let cluster = cluster::Cluster::new();
    let east = cloud("east", CloudMode::Good);
    // It calls every node the first machine of the other one.
    let west = ScriptedProvider::new("west").finding(|_| found(instance("east://1", "10.1.0.1")));
    let west = Arc::new(west.scripted(|_| late(CALL)));
    let ended = run_while(&cluster, &[&east, &west], patient(), async |told| {
        // Without a provider ID, so that both are candidates.
        post(&cluster, node("stray").uninitialized()).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!west.calls().is_empty());
        told.send_replace(list(&[&east]));
        tokio::time::sleep(Duration::from_secs(30)).await;
        post(&cluster, node("east-1").uninitialized()).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(waiting(&cluster).await, ["stray"], "it is of no cloud");
    })
    .await;
    assert_eq!(ended.unwrap(), Stopped::Drained);
}

#[tokio::test(start_paused = true)]
async fn what_fails_after_its_provider_was_removed_is_not_shown_as_waiting() {
    let cluster = cluster::Cluster::new();
    let west = scripted("west", CloudMode::Good).scripted(|_| {
        Box::pin(async {
            tokio::time::sleep(CALL).await;
            Err(ProviderError::Unavailable("overloaded".to_owned()))
        })
    });
    let west = Arc::new(west);
    let settings = patient();
    let activity = settings.reports.activity.clone();
    let ended = run_while(&cluster, &[&west], settings, async |told| {
        create(&cluster, "west", 1).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!west.calls().is_empty());
        told.send_replace(list(&[]));
        tokio::time::sleep(CALL + Duration::from_secs(2)).await;
        let waiting = activity.snapshot().waiting;
        assert!(waiting.is_empty(), "{waiting:?}");
    })
    .await;
    assert_eq!(ended.unwrap(), Stopped::Drained);
}
