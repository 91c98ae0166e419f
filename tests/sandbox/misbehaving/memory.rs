//! The growth of the host, and of its sandbox process if there is one, while a guest leaves as much with it as it can:
//! each behaviour in a process of its own, where nothing else takes memory.

use std::process::{Command, ExitCode, Stdio};

use ccm_core::cloud_provider::CloudProvider as _;
use ccm_fixtures::objects::cloud_node;
use ccm_tests::harness::{figure, trial};
use guest_misbehaving::behaviour::Behaviour;
use libtest_mimic::{Failed, Trial};

use crate::artifacts::{memory, memory_of};
use crate::host::sandboxes;
use crate::misbehaving::target::{Target, TargetMode};
use crate::misbehaving::world::{self, TIMEOUT, block_on};
use crate::permits;

/// The argument with which this program measures instead of testing; a behaviour's word and a number of calls follow.
pub(crate) const MEASURE: &str = "measure-misbehaviour";

/// Maximum memory of the host for one call, beside the guest's own memory (`SECURITY.md`), plus that memory.
const MOST_KIB: u64 = (32 + 64) << 10;

const HOARDS: [Behaviour; 9] = [
    Behaviour::MemoryBomb,
    Behaviour::ManyEvents,
    Behaviour::HoardNames,
    Behaviour::HoardBodies,
    Behaviour::HoardFields,
    Behaviour::HoardAnswers,
    Behaviour::HoardKeptAnswers,
    Behaviour::FetchAllHuge,
    Behaviour::HugeString,
];

pub(crate) fn trials() -> Vec<Trial> {
    vec![trial(
        "memory::the_host_grows_by_no_more_than_the_guests_memory_and_its_own_budget",
        grows_little,
    )]
}

fn grows_little() -> Result<(), Failed> {
    let mut shown = Vec::new();
    for behaviour in HOARDS {
        let (word, grown) = (behaviour.word(), grown(behaviour, 1));
        shown.push(format!("{word} {}", grown >> 10));
        if grown > MOST_KIB {
            return Err(format!("{word}: the host grew by {grown} KiB, at most {MOST_KIB}").into());
        }
    }
    figure(format!(
        "the host grew by MiB, at most {}: {}",
        MOST_KIB >> 10,
        shown.join(", ")
    ));
    Ok(())
}

/// A field of `/proc/PID/status` of this process and of those that run its guests, summed up, in KiB.
fn with_sandboxes(name: &str) -> u64 {
    let sandboxes = sandboxes().into_iter().map(|pid| memory_of(pid, name));
    memory(name) + sandboxes.sum::<u64>()
}

/// By how many KiB a process grows during this many calls of the guest.
pub(crate) fn grown(behaviour: Behaviour, calls: u64) -> u64 {
    let output = Command::new(std::env::current_exe().unwrap())
        .args([MEASURE, behaviour.word(), &calls.to_string()])
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    let grown = String::from_utf8(output.stdout).unwrap();
    grown.trim().parse().unwrap()
}

/// The process of [`grown`]: prints its maximum growth in KiB while the guest was called.
pub(crate) fn measure() -> ExitCode {
    let mut arguments = std::env::args().skip(2);
    let behaviour = arguments.next().and_then(|word| Behaviour::parse(&word));
    let calls: Option<u64> = arguments.next().and_then(|calls| calls.parse().ok());
    let (Some(behaviour), Some(calls)) = (behaviour, calls) else {
        return ExitCode::FAILURE;
    };
    let grown = block_on(async {
        let cloud = Target::start(TargetMode::Large).await;
        let nodes = [cloud_node("one")];
        let load = async |behaviour| world::load(behaviour, &cloud.endpoint()).await.unwrap();
        // The cost of a first call and a first answer is not counted.
        let honest = load(Behaviour::HonestRequests).await;
        honest
            .find(&nodes, permits::reads_for(TIMEOUT))
            .await
            .unwrap();
        let provider = load(behaviour).await;
        // Resets the peak of the resident set.
        std::fs::write("/proc/self/clear_refs", "5").unwrap();
        for sandbox in sandboxes() {
            // Without the right to it, the memory of its start counts as well.
            let _ = std::fs::write(
                format!("/proc/{}/clear_refs", sandbox.as_raw_nonzero()),
                "5",
            );
        }
        let before = with_sandboxes("VmRSS:");
        for _ in 0..calls {
            // `behaviours` judges the result.
            let _ = provider.find(&nodes, permits::reads_for(TIMEOUT)).await;
        }
        with_sandboxes("VmHWM:").saturating_sub(before)
    });
    #[allow(
        clippy::print_stdout,
        reason = "it is read by the test that began this process"
    )]
    {
        println!("{grown}");
    }
    ExitCode::SUCCESS
}
