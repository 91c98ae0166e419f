//! Upstream's own timings: how long a fail-over and a hand-over take, and what is waited for before.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use tokio::time::sleep;

use crate::oracle::Timings;
use crate::rig::{Load, Rig};

/// Two processes, one of which leads, and nothing to do.
async fn pair() -> (Rig, u32, u32) {
    let mut rig = Rig::start(Timings::UPSTREAM, Load::None).await;
    let first = rig.start_replica();
    let leader = rig.leader().await;
    assert_eq!(leader, first);
    let standby = rig.start_replica();
    rig.stands_by(standby).await;
    rig.work.make_one().await;
    rig.converge().await;
    (rig, leader, standby)
}

fn since(then: Timestamp, now: Timestamp) -> Duration {
    now.duration_since(then).unsigned_abs()
}

fn assert_clean(rig: &mut Rig) {
    let judgement = rig.judge();
    assert!(judgement.judged > 0, "nothing happened");
    let findings = judgement.findings;
    assert!(findings.is_empty(), "{findings:?}\n{}", rig.story());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_is_followed_by_the_other_process_within_twenty_seconds_and_a_slow_api_server_by_nobody()
 {
    let (mut rig, leader, standby) = pair().await;

    // Renewals come in time although each answer takes two seconds.
    rig.replica(leader)
        .api
        .delay_answers(Duration::from_secs(2));
    let node = rig.work.make_one().await;
    sleep(rig.timings.lease + rig.timings.retry).await;
    rig.all_run();
    assert_eq!(rig.recorder.taken(standby), None);
    rig.converge().await;
    assert!(rig.recorder.node_writes(&node).initialised == 1);
    rig.replica(leader).api.delay_answers(Duration::ZERO);
    assert_clean(&mut rig);

    let now = Timestamp::now();
    rig.replica(leader).process.kill();
    rig.forget(leader);
    rig.work.make_one().await;
    let (successor, taken) = rig.successor(leader).await;
    assert_eq!(successor, standby);
    let took = since(now, taken);
    println!(
        "fail-over after a kill, default timings: {:.2} s",
        took.as_secs_f64()
    );
    assert!(took <= Duration::from_secs(20), "{took:?}\n{}", rig.story());
    rig.converge().await;
    assert_clean(&mut rig);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_is_told_to_stop_hands_over_within_three_seconds_but_waits_for_what_is_on_the_wire()
 {
    let (mut rig, leader, standby) = pair().await;

    let now = Timestamp::now();
    rig.replica(leader).process.terminate().unwrap();
    let (ended, status) = rig.ended(leader).await;
    assert!(status.success(), "{status}\n{}", rig.story());
    let (successor, taken) = rig.successor(leader).await;
    assert_eq!(successor, standby);
    assert!(rig.recorder.released(leader), "{}", rig.story());
    let took = since(now, taken);
    println!(
        "hand-over with nothing on the wire, default timings: {:.2} s (ended after {:.2} s)",
        took.as_secs_f64(),
        since(now, ended).as_secs_f64()
    );
    assert!(took <= Duration::from_secs(3), "{took:?}\n{}", rig.story());
    assert_clean(&mut rig);

    // The cloud answers after two seconds: that is waited for, and then the lease is given back.
    let third = rig.start_replica();
    rig.stands_by(third).await;
    rig.replica(successor)
        .cloud
        .hold_for(Duration::from_secs(2));
    let (ended, _) = told_while_asking(&mut rig, successor).await;
    println!(
        "told to stop with two seconds on the wire: ended after {:.2} s",
        ended.as_secs_f64()
    );
    assert!(
        ended <= Duration::from_millis(3500),
        "{ended:?}\n{}",
        rig.story()
    );
    assert!(rig.recorder.released(successor), "{}", rig.story());
    assert_eq!(rig.successor(successor).await.0, third);
    rig.converge().await;

    // It does not answer: ten seconds are given to it, and the lease is kept, because nobody knows what the request
    // still does.
    let fourth = rig.start_replica();
    rig.stands_by(fourth).await;
    rig.replica(third).cloud.hold();
    let (ended, now) = told_while_asking(&mut rig, third).await;
    println!(
        "told to stop with more on the wire: ended after {:.2} s",
        ended.as_secs_f64()
    );
    let is_right = (Duration::from_secs(9)..Duration::from_millis(11_500)).contains(&ended);
    assert!(is_right, "{ended:?}\n{}", rig.story());
    assert!(!rig.recorder.released(third), "{}", rig.story());
    let (last, taken) = rig.successor(third).await;
    assert_eq!(last, fourth);
    println!(
        "and was followed after {:.2} s",
        since(now, taken).as_secs_f64()
    );
    rig.converge().await;
    assert_clean(&mut rig);
}

/// Tells a leader to stop while a question of its is with the cloud. How long it took to end, and since when.
async fn told_while_asking(rig: &mut Rig, leader: u32) -> (Duration, Timestamp) {
    let asked = rig.cloud.requests().len();
    rig.work.make_one().await;
    rig.until("a question to the cloud", |rig| {
        (rig.cloud.requests().len() > asked).then_some(())
    })
    .await;
    let now = Timestamp::now();
    rig.replica(leader).process.terminate().unwrap();
    let (ended, status) = rig.ended(leader).await;
    rig.recorder.refresh(&rig.api, &rig.cloud);
    assert!(status.success(), "{status}\n{}", rig.story());
    (since(now, ended), now)
}
