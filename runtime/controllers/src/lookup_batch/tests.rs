//! Look-ups share calls, and one that crashes the provider does not hold the others.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Mutex;

use ccm_core::cloud::{CloudEvent, EventType, Lookup};
use futures::future::join_all;

use super::*;

fn node(name: &str) -> Arc<PrunedNode> {
    Arc::new(ccm_fixtures::kubernetes::node(name).build())
}

type Calls = Arc<Mutex<Vec<usize>>>;

/// A provider that answers every node with its own name, crashes on `poison` and on more than this many nodes, and takes
/// a second.
fn batch(calls: &Calls, most: usize) -> (Batch, impl Future<Output = ()> + use<>) {
    let calls = calls.clone();
    Batch::new(move |nodes: Vec<CloudNode>| {
        calls.lock().unwrap().push(nodes.len());
        async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            if nodes.len() > most || nodes.iter().any(|node| node.name == "poison") {
                return Err(ProviderError::Trapped("unreachable".to_owned()));
            }
            Ok(FindReply {
                lookups: nodes
                    .iter()
                    .map(|node| Lookup::Unknown(node.name.clone()))
                    .collect(),
                events: Vec::new(),
                complete: true,
            })
        }
    })
}

#[tokio::test(start_paused = true)]
async fn look_ups_gather_while_a_call_is_under_way_at_most_5000_and_at_first_2500() {
    let calls = Calls::default();
    let (batch, serving) = batch(&calls, MOST);
    let serving = tokio::spawn(serving);
    let names: Vec<String> = (0..9_000).map(|number| format!("n{number}")).collect();
    let ask =
        async |names: &[String]| join_all(names.iter().map(|name| batch.find(node(name)))).await;
    let (first, rest) = tokio::join!(ask(&names[..3_000]), async {
        tokio::time::sleep(GATHER * 2).await;
        ask(&names[3_000..]).await
    });
    for (name, answer) in names.iter().zip(first.into_iter().chain(rest)) {
        assert_eq!(answer.unwrap().lookup, Lookup::Unknown(name.clone()));
    }
    assert_eq!(*calls.lock().unwrap(), [2500, 5000, 1500]);
    serving.abort();
}

#[tokio::test(start_paused = true)]
async fn one_node_that_crashes_the_provider_does_not_hold_the_others_for_ever() {
    let calls = Calls::default();
    let (batch, serving) = batch(&calls, MOST);
    let serving = tokio::spawn(serving);
    let ask_until_answered = async |name: String| {
        while batch.find(node(&name)).await.is_err() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    let poison = async {
        loop {
            let _ = batch.find(node("poison")).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    let others = join_all((0..64).map(|number| ask_until_answered(format!("n{number}"))));
    tokio::select! {
        () = poison => unreachable!("it never ends"),
        _ = others => {}
    }
    assert!(
        calls.lock().unwrap().len() < 60,
        "{:?}",
        calls.lock().unwrap()
    );
    serving.abort();
}

#[tokio::test(start_paused = true)]
async fn a_size_that_crashed_the_provider_twice_is_tried_again_after_an_hour_and_not_before() {
    let calls = Calls::default();
    let (batch, serving) = batch(&calls, 4_000);
    let serving = tokio::spawn(serving);
    let ask = async |nodes: usize| {
        join_all((0..nodes).map(|number| batch.find(node(&format!("n{number}"))))).await;
        std::mem::take(&mut *calls.lock().unwrap())
    };
    let expected = [2500, 5000, 2500, 5000, 2500, 2500];
    assert_eq!(ask(20_000).await, expected);
    tokio::time::sleep(TOO_LARGE).await;
    assert_eq!(ask(10_000).await, [2500, 5000, 2500]);
    serving.abort();
}

/// A cloud that does not answer in time says nothing about sizes, nor does a node that crashes the provider.
#[test]
fn after_crashes_for_another_cause_the_size_grows_as_before() {
    let crash = ProviderError::TimedOut("on purpose".to_owned());
    let now = timer_now();
    let mut size = BatchSize::first();
    // The first nodes, before the list of all is complete.
    size.ended(4, None, now);
    for _ in 0..4 {
        size.ended(size.most, Some(&crash), now);
    }
    assert_eq!(size.most, FIRST / 16);
    let grow = |size: &mut BatchSize| {
        for _ in 0..13 {
            size.ended(size.most, None, now);
        }
        assert_eq!(size.most, MOST);
    };
    grow(&mut size);
    size.ended(3, Some(&crash), now);
    assert_eq!(size.most, 1);
    grow(&mut size);
}

#[tokio::test(start_paused = true)]
async fn nobody_asks_about_a_node_that_waits_no_longer() {
    let calls = Calls::default();
    let (batch, serving) = batch(&calls, MOST);
    let serving = tokio::spawn(serving);
    let gone = tokio::time::timeout(GATHER / 2, batch.find(node("gone"))).await;
    assert!(gone.is_err());
    batch.find(node("a")).await.unwrap();
    assert_eq!(*calls.lock().unwrap(), [1]);
    serving.abort();
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_the_wrong_length_is_an_error_for_every_node() {
    let (batch, serving) = Batch::new(|_| async { Ok(FindReply::default()) });
    let serving = tokio::spawn(serving);
    let (left, right) = tokio::join!(batch.find(node("a")), batch.find(node("b")));
    for answer in [left, right] {
        assert!(
            matches!(answer, Err(ProviderError::Internal(_))),
            "{answer:?}"
        );
    }
    serving.abort();
    let _ = serving.await;
    assert!(matches!(
        batch.find(node("a")).await,
        Err(ProviderError::Unavailable(_))
    ));
}

#[test]
fn events_go_to_the_node_they_are_about_and_others_nowhere() {
    let event = |reason: &str| CloudEvent::new(EventType::Normal, reason, String::new());
    let parts = split(FindReply {
        lookups: vec![Lookup::Gone, Lookup::NotMine],
        events: vec![(1, event("A")), (7, event("B")), (1, event("C"))],
        complete: false,
    });
    assert_eq!(parts[0].events, []);
    assert_eq!(parts[1].events, [event("A"), event("C")]);
    assert!(!parts[0].complete);
}
