//! The log at its default level: one line for what goes well, and a warning for what fails. The levels shown without a
//! flag are in `runtime/ccm/src/telemetry/verbosity.rs`.

use ccm_tests::harness::trial;
use libtest_mimic::{Failed, Trial};

use crate::script;
use crate::world::{self, Run};

/// Every play goes on for half a minute after its script. Name, script with its first comment, and the lines at INFO
/// and above: level, logger, object, and the first words of the message.
type Case = (&'static str, &'static str, &'static [&'static str]);

const CASES: [Case; 6] = [
    (
        "log::a_healthy_node_has_one_line",
        "It is found at once.\n\
         cloud worker-1 id=sim://42 addr=InternalIP:10.0.0.2\n\
         node worker-1 taint=uninitialized\n\
         wait 600s",
        &["INFO initialised node/worker-1"],
    ),
    (
        "log::a_machine_that_is_not_known_yet_is_no_failure",
        "It is not found at once.\n\
         node worker-1 taint=uninitialized\n\
         wait 1s\n\
         cloud worker-1 id=sim://42 addr=InternalIP:10.0.0.2\n\
         wait 2s",
        &[
            "INFO waiting node/worker-1 the provider sim knows no instance with the name worker-1",
            "INFO initialised node/worker-1",
        ],
    ),
    (
        "log::a_failure_is_a_warning_with_its_reason_once",
        "It is not found at once.\n\
         node worker-1 taint=uninitialized\n\
         cloud fails denied 401 Unauthorized\n\
         wait 1s",
        &[
            "WARN waiting node/worker-1 failed to look up the instance: denied: 401 Unauthorized",
            "WARN waiting node/worker-1 failed to look up the instance: denied: 401 Unauthorized",
            "WARN waiting node/worker-1 failed to look up the instance: denied: 401 Unauthorized",
        ],
    ),
    (
        "log::a_machine_that_stays_unknown_is_a_warning",
        "It is not found at once.\n\
         node worker-1 taint=uninitialized\n\
         wait 40s",
        &[
            "INFO waiting node/worker-1",
            "WARN waiting node/worker-1 the provider sim knows no instance with the name worker-1",
            "WARN waiting node/worker-1 the provider sim knows no instance with the name worker-1",
        ],
    ),
    (
        "log::polls_of_a_load_balancer_are_silent",
        "It is made in five seconds.\n\
         controllers service\n\
         cloud worker-1 id=sim://42 addr=InternalIP:10.0.0.2\n\
         node worker-1 provider-id=sim://42 ready=True\n\
         balancer web takes 5s\n\
         service web port=80:30080\n\
         wait 30s",
        &["INFO waiting service/default/web"],
    ),
    (
        "log::a_load_balancer_that_is_made_at_once_is_silent",
        "It is made, and removed.\n\
         controllers service\n\
         cloud worker-1 id=sim://42 addr=InternalIP:10.0.0.2\n\
         node worker-1 provider-id=sim://42 ready=True\n\
         service web port=80:30080\n\
         wait 10s\n\
         delete service/web\n\
         wait 60s",
        &[],
    ),
];

pub(crate) fn trials() -> Vec<Trial> {
    CASES.map(|case| trial(case.0, move || check(&case))).into()
}

fn check((_, script, expected): &Case) -> Result<(), Failed> {
    let script = script::read(&format!("# {script}"))?;
    let played = world::play(&script, Run::default())?;
    let loud = &played.loud;
    let is_said = |(line, start): (&String, &&str)| line.starts_with(start);
    if loud.len() == expected.len() && loud.iter().zip(*expected).all(is_said) {
        return Ok(());
    }
    Err(format!("{loud:#?}\n\n{}", played.text).into())
}
