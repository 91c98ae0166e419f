//! Upstream's own timings: the duration of a fail-over and a hand-over, and of the waits before them.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use tokio::time::sleep;

use crate::oracle::Timings;
use crate::world::{Load, World};

/// Two processes, one of which leads, without work.
async fn pair() -> (World, u32, u32) {
    let mut world = World::start(Timings::UPSTREAM, Load::None).await;
    let first = world.start_replica();
    let leader = world.leader().await;
    assert_eq!(leader, first);
    let standby = world.start_replica();
    world.stands_by(standby).await;
    world.work.make_one().await;
    world.converge().await;
    (world, leader, standby)
}

fn since(then: Timestamp, now: Timestamp) -> Duration {
    now.duration_since(then).unsigned_abs()
}

/// The maximum of a time that was measured since the stalls were taken last: a machine that stood still made it longer.
pub(crate) fn with_stall(world: &World, most: Duration) -> Duration {
    most + world.stalls.take().unwrap_or_default()
}

fn assert_clean(world: &mut World) {
    let judgement = world.judge();
    assert!(judgement.judged > 0, "nothing happened");
    let findings = judgement.findings;
    assert!(findings.is_empty(), "{findings:?}\n{}", world.report());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_is_followed_by_the_other_process_within_twenty_seconds_and_a_slow_api_server_by_nobody()
 {
    let (mut world, leader, standby) = pair().await;

    // Renewals come in time although each answer takes two seconds.
    world
        .replica(leader)
        .api
        .delay_answers(Duration::from_secs(2));
    let node = world.work.make_one().await;
    sleep(world.timings.lease + world.timings.retry).await;
    world.all_run();
    assert_eq!(world.recorder.taken(standby), None);
    world.converge().await;
    assert!(world.recorder.node_writes(&node).initialised == 1);
    world.replica(leader).api.delay_answers(Duration::ZERO);
    assert_clean(&mut world);

    world.stalls.take();
    let now = Timestamp::now();
    world.replica(leader).process.kill();
    world.forget(leader);
    world.work.make_one().await;
    let (successor, taken) = world.successor(leader).await;
    assert_eq!(successor, standby);
    let took = since(now, taken);
    println!(
        "fail-over after a kill, default timings: {:.2} s",
        took.as_secs_f64()
    );
    assert!(
        took <= with_stall(&world, Duration::from_secs(20)),
        "{took:?}\n{}",
        world.report()
    );
    world.converge().await;
    assert_clean(&mut world);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_is_told_to_stop_hands_over_within_three_seconds_but_waits_for_what_is_on_the_wire()
 {
    let (mut world, leader, standby) = pair().await;

    world.stalls.take();
    let now = Timestamp::now();
    world.replica(leader).process.terminate().unwrap();
    let (ended, status) = world.ended(leader).await;
    assert!(status.success(), "{status}\n{}", world.report());
    let (successor, taken) = world.successor(leader).await;
    assert_eq!(successor, standby);
    assert!(world.recorder.released(leader), "{}", world.report());
    let took = since(now, taken);
    println!(
        "hand-over with nothing on the wire, default timings: {:.2} s (ended after {:.2} s)",
        took.as_secs_f64(),
        since(now, ended).as_secs_f64()
    );
    assert!(
        took <= with_stall(&world, Duration::from_secs(3)),
        "{took:?}\n{}",
        world.report()
    );
    assert_clean(&mut world);

    // The cloud answers after two seconds: the process waits for that, and then releases the Lease.
    let third = world.start_replica();
    world.stands_by(third).await;
    world
        .replica(successor)
        .cloud
        .hold_for(Duration::from_secs(2));
    let (ended, _) = stop_while_asking(&mut world, successor).await;
    println!(
        "told to stop with two seconds on the wire: ended after {:.2} s",
        ended.as_secs_f64()
    );
    assert!(
        ended <= with_stall(&world, Duration::from_millis(3500)),
        "{ended:?}\n{}",
        world.report()
    );
    assert!(world.recorder.released(successor), "{}", world.report());
    assert_eq!(world.successor(successor).await.0, third);
    world.converge().await;

    // The cloud does not answer: the process waits ten seconds, and keeps the Lease, because the effect of the request
    // is unknown.
    let fourth = world.start_replica();
    world.stands_by(fourth).await;
    world.replica(third).cloud.hold();
    let (ended, now) = stop_while_asking(&mut world, third).await;
    println!(
        "told to stop with more on the wire: ended after {:.2} s",
        ended.as_secs_f64()
    );
    let most = with_stall(&world, Duration::from_millis(11_500));
    let is_right = (Duration::from_secs(9)..most).contains(&ended);
    assert!(is_right, "{ended:?}\n{}", world.report());
    assert!(!world.recorder.released(third), "{}", world.report());
    let (last, taken) = world.successor(third).await;
    assert_eq!(last, fourth);
    println!(
        "and was followed after {:.2} s",
        since(now, taken).as_secs_f64()
    );
    world.converge().await;
    assert_clean(&mut world);

    // Told a second time, the process does not wait, and keeps the Lease.
    world.replica(last).cloud.hold();
    asks(&mut world).await;
    world.stalls.take();
    let now = Timestamp::now();
    for _ in 0..2 {
        world.replica(last).process.terminate().unwrap();
        // Two signals that are there at the same time are one.
        sleep(Duration::from_millis(500)).await;
    }
    let (ended, status) = world.ended(last).await;
    let ended = since(now, ended);
    println!(
        "told to stop twice: ended after {:.2} s",
        ended.as_secs_f64()
    );
    world.recorder.refresh(&world.api, &world.cloud);
    assert_eq!(status.code(), Some(1), "{}", world.report());
    let most = with_stall(&world, Duration::from_secs(5));
    assert!(ended < most, "{ended:?}");
    assert!(!world.recorder.released(last), "{}", world.report());
}

/// Waits until the leader waits for an answer of the cloud.
pub(crate) async fn asks(world: &mut World) {
    let asked = world.cloud.requests().len();
    world.work.make_one().await;
    world
        .until("a question to the cloud", |world| {
            (world.cloud.requests().len() > asked).then_some(())
        })
        .await;
}

/// Sends SIGINT to a leader that waits for an answer of the cloud: it ends as after SIGTERM, in order and with code 0.
/// Returns how long it took to end, and since when.
async fn stop_while_asking(world: &mut World, leader: u32) -> (Duration, Timestamp) {
    asks(world).await;
    world.stalls.take();
    let now = Timestamp::now();
    world.replica(leader).process.interrupt().unwrap();
    let (ended, status) = world.ended(leader).await;
    world.recorder.refresh(&world.api, &world.cloud);
    assert!(status.success(), "{status}\n{}", world.report());
    (since(now, ended), now)
}
