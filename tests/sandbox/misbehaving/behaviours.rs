//! Every behaviour of the misbehaving guest, at the real host, each beside a call of an honest provider.

use std::time::Duration;

use ccm_core::cloud::{FindReply, Instance, Lookup, ProviderError};
use ccm_core::cloud_provider::CloudProvider as _;
use ccm_fixtures::objects::cloud_node;
use ccm_host::{Isolation, LoadError, LoadErrorKind, Module, Provider};
use ccm_tests::harness::trial;
use guest_misbehaving::behaviour::Behaviour;
use libtest_mimic::Trial;

use crate::host::isolation;
use crate::misbehaving::files::with;
use crate::misbehaving::law::{Call, End, Law, answers, answers_text, fails, not_loaded};
use crate::misbehaving::log_lines::{Line, Lines};
use crate::misbehaving::target::{Target, TargetMode};
use crate::misbehaving::world::{self, TIMEOUT, TOKEN, block_on};
use crate::permits;

/// The timeout of calls that end by their deadline only.
pub(crate) const SHORT: Duration = Duration::from_millis(300);
/// The longest error text, and the longest log line, of a guest in bytes (contract, interface `log`).
pub(crate) const KEPT_BYTES: usize = 4096;
/// The longest reason of `unknown` in bytes (contract, `instances.lookup`).
const REASON_BYTES: usize = 1024;

/// One test per behaviour.
pub(crate) fn trials() -> Vec<Trial> {
    let trial = |behaviour: &Behaviour| {
        let behaviour = *behaviour;
        trial(format!("behaviour::{}", behaviour.word()), move || {
            block_on(check(behaviour, law(behaviour)));
            Ok(())
        })
    };
    Behaviour::ALL.iter().map(trial).collect()
}

/// Whether a module with this behaviour can be loaded.
pub(crate) fn is_loaded(behaviour: Behaviour) -> bool {
    !matches!(law(behaviour).end, End::NotLoaded(_))
}

/// The mood of the cloud for this behaviour.
pub(crate) fn target_mode(behaviour: Behaviour) -> TargetMode {
    law(behaviour).cloud
}

/// The required result of each behaviour. Every behaviour has a line: without one this does not compile.
pub(crate) fn law(behaviour: Behaviour) -> Law {
    match behaviour {
        Behaviour::Honest => answers(|replies| {
            assert_eq!(found(&replies[0]).len(), 2);
            assert!(!replies[0].complete, "nobody was asked");
        }),
        Behaviour::HonestRequests | Behaviour::GoneBesideOthers => answers(|replies| {
            assert_eq!(found(&replies[0]).len(), 2);
            assert!(replies[0].complete);
        })
        .asking(TargetMode::Well, 2),

        Behaviour::Spin => fails("timed-out", &["instances.find", "did not end"]).within(SHORT),
        Behaviour::SpinInInit => not_loaded(&["does not start", "timed out: init", "did not end"]),
        Behaviour::Sleep => fails("timed-out", &["instances.find", "did not end"]).within(SHORT),
        Behaviour::PollLoop => fails("timed-out", &["instances.find", "did not end"]).within(SHORT),
        Behaviour::ManyTimers => fails("trapped", &["resource table has no free keys"]),
        Behaviour::HoardHandles => fails("trapped", &["resource table has no free keys"]),
        Behaviour::Leak => answers_text("told: one MiB is lost").called(&[Call::Find, Call::Find]),
        Behaviour::MemoryBomb => fails("trapped", &["more than its 64 MiB of memory"]),
        Behaviour::Recursion => fails("trapped", &["stack overflow"]),
        Behaviour::Panic => fails(
            "trapped",
            &["last log lines: ", "panics because it was told to"],
        )
        .logging(|lines| {
            let error = guest_lines(lines)
                .find(|line| line.level == "ERROR")
                .unwrap();
            assert!(error.message.contains("panics because it was told to"));
        }),
        Behaviour::PanicInInit => not_loaded(&[
            "does not start",
            "trapped: init",
            "panics because it was told to",
        ]),
        Behaviour::Exit => fails("trapped", &["the guest ended itself with exit code"]),
        Behaviour::LogFlood => {
            answers_text("told: 10000 log lines were written").logging(|lines| {
                let lines: Vec<_> = guest_lines(lines).collect();
                assert_eq!(lines.len(), 101, "a hundred, and what became of the others");
                assert!(lines[100].message.contains("9900 more lines were not kept"));
            })
        }
        Behaviour::StderrFlood => answers_text("told: 10000 lines were written").logging(|lines| {
            assert_eq!(guest_lines(lines).count(), 101);
        }),
        Behaviour::LogForgery => answers_text("told: one line was written").logging(|lines| {
            let lines: Vec<_> = guest_lines(lines).collect();
            assert_eq!(lines.len(), 1, "{lines:?}");
            assert_eq!(
                (lines[0].level.as_str(), lines[0].target.as_str()),
                ("WARN", "guest")
            );
            for word in [
                "fine ",
                "\\u{1b}[31m",
                "\\u{202e}",
                "\\u{0}",
                "field name=value of two lines",
            ] {
                assert!(
                    lines[0].message.contains(word),
                    "{word}: {}",
                    lines[0].message
                );
            }
        }),
        // Without the keys a fourth value would fit.
        Behaviour::StateOverflow => answers_text("told: 3 values of 64 KiB were kept"),
        Behaviour::StateHugeValue => answers_text("refused: a value of 16 MiB"),
        Behaviour::HugeRandom => fails("trapped", &["random bytes asked for, at most 4096"]),

        Behaviour::FineClock => answers_text("told: no clock is finer than a millisecond"),

        Behaviour::UnknownCapability => not_loaded(&["enables routes", "does not export"]),
        Behaviour::RefusesConfig => {
            not_loaded(&["does not start: invalid: behaviour: it is refused"])
        }
        Behaviour::TooFewLookups => fails("internal", &["1 lookups for 2 nodes"]),
        Behaviour::TooManyLookups => fails("internal", &["3 lookups for 2 nodes"]),
        Behaviour::NoLookups => fails("internal", &["0 lookups for 2 nodes"]),
        Behaviour::LongAddress => fails("internal", &["lookup 0", "300 bytes of an address"]),
        Behaviour::LongLabel => fails("internal", &["lookup 0", "155 bytes of an instance type"]),
        // These have the right shape; core judges their meaning, and `cluster` shows the effect.
        Behaviour::BadAddresses => answers(|replies| {
            assert!(
                found(&replies[0])
                    .iter()
                    .all(|machine| machine.addresses.len() == 7)
            );
        }),
        Behaviour::BadLabels => answers(|replies| {
            assert!(
                found(&replies[0])
                    .iter()
                    .all(|machine| machine.labels.len() == 2)
            );
        }),
        Behaviour::ReservedLabels => answers(|replies| {
            assert!(
                found(&replies[0])
                    .iter()
                    .all(|machine| machine.labels.len() == 4)
            );
        }),
        Behaviour::ChangedProviderId => answers(|replies| {
            let ids = found(&replies[0])
                .into_iter()
                .map(|machine| machine.provider_id.as_str());
            assert!(ids.eq(["misbehaving://another-one", "misbehaving://another-two"]));
        }),
        Behaviour::ForeignScheme => answers(|replies| {
            assert!(
                found(&replies[0])
                    .iter()
                    .all(|machine| machine.provider_id.starts_with("aws://"))
            );
        }),
        Behaviour::ManyAddresses => fails("internal", &["10000 addresses, at most 64"]),
        Behaviour::HugeString => fails("internal", &["16777216 bytes of a reason, at most 1024"]),
        Behaviour::ManyEvents => fails("internal", &["100000 events, at most 256"]),
        Behaviour::EventOutOfRange => fails("internal", &["an event about node 4294967295 of 2"]),
        Behaviour::BadEvent => fails("internal", &["event about node 0", "not a CamelCase word"]),
        Behaviour::GarbageError | Behaviour::HugeGarbageError => {
            fails("internal", &["[redacted] ", "\\u{1b}[31mall is well", "…"])
        }
        Behaviour::GoneWithoutAsking => answers(|replies| {
            assert_eq!(replies[0].lookups, [Lookup::Gone, Lookup::Gone]);
            assert!(!replies[0].complete, "nobody was asked");
        }),
        // Its nodes are not known to be ready.
        Behaviour::GoneAfterFailure | Behaviour::GoneAfterFailureIfNotReady => answers(|replies| {
            assert_eq!(replies[0].lookups, [Lookup::Gone, Lookup::Gone]);
            assert!(!replies[0].complete, "the cloud answered 500");
        })
        .asking(TargetMode::Broken, 2),
        Behaviour::FromMemory => answers_text("told: call 1").called(&[Call::Find, Call::Find]),
        Behaviour::FromState => answers(|replies| {
            assert_eq!(found(&replies[0]).len(), 2);
            assert_eq!(
                replies[1].lookups,
                [Lookup::Gone, Lookup::Gone],
                "from its state"
            );
            assert!(!replies[1].complete, "nobody was asked");
            assert_eq!(found(&replies[2]).len(), 2, "a fresh look-up has no state");
        })
        .called(&[Call::Find, Call::Find, Call::FindFresh]),

        Behaviour::FailsSometimes => {
            answers(|replies| assert_eq!(found(&replies[0]).len(), 2)).asking(TargetMode::Well, 2)
        }
        Behaviour::OtherZone => answers(|replies| {
            let machines = found(&replies[0]);
            assert!(
                machines
                    .iter()
                    .all(|one| one.zone.as_deref() == Some("zone-2"))
            );
            assert!(replies[0].complete);
        })
        .asking(TargetMode::Well, 2),

        Behaviour::HttpInInit => {
            answers_text("refused: GET /machines/probe: no requests are sent during init")
        }
        Behaviour::OtherPath => answers_text("refused: GET /secrets"),
        Behaviour::OtherMethod => answers_text("refused: DELETE /machines/probe"),
        Behaviour::OtherTarget => answers_text(
            "refused: GET /machines/probe: GET on target metadata: the module's own manifest requests no such target",
        ),
        Behaviour::PathTricks => answers_text("refused: all 17"),
        Behaviour::HostHeaders => answers_text("refused: all 14"),
        Behaviour::HugeBody => {
            answers_text("refused: GET /machines/probe: not a request: a body has at most")
        }
        Behaviour::Metadata => answers_text("refused: ErrorCode::HttpRequestDenied"),
        Behaviour::OtherHost => answers_text("refused: ErrorCode::HttpRequestDenied"),
        Behaviour::Flood => answers_text("told: 2000 of 10048 requests were answered")
            .asking(TargetMode::Well, 2000),
        Behaviour::FloodAtOnce => answers_text("told: 0 of 10000 requests were answered"),
        Behaviour::HoardNames => answers_text("refused: a name of 1 MiB"),
        Behaviour::HoardBodies => answers_text("refused: "),
        Behaviour::SlowBody => fails("timed-out", &["instances.find", "did not end"]).within(SHORT),
        Behaviour::HoardFields => answers_text("refused: "),
        Behaviour::ManyFields => fails("trapped", &["fields"]),
        Behaviour::ManyFieldsAtOnce => fails("trapped", &["fields"]),
        // An answer that does not fit is not read: the requests are made, and only the first is answered.
        Behaviour::HoardAnswers => answers_text("refused: 1 of 100").asking(TargetMode::Large, 100),
        Behaviour::HoardKeptAnswers => {
            answers_text("refused: 1 of 100").asking(TargetMode::Large, 1)
        }
        Behaviour::FetchAllHuge => answers_text("refused: 1 of 64").asking(TargetMode::Large, 64),
        Behaviour::TellsToken => answers_text("told: the token is [redacted]").logging(|lines| {
            let lines: Vec<_> = guest_lines(lines).collect();
            assert_eq!(lines.len(), 1);
            assert!(lines[0].message.contains("[redacted]"), "{lines:?}");
            assert!(!lines[0].message.contains(TOKEN), "{lines:?}");
        }),
        Behaviour::TokenAsLabel => fails("internal", &["a credential where a name has to be"]),
        Behaviour::ReadHost => {
            answers_text("refused: no file, no variable, no argument, no socket")
        }
    }
}

/// The machines of an answer in which every node was found.
fn found(reply: &FindReply) -> Vec<&Instance> {
    let machines = reply.lookups.iter().map(|lookup| match lookup {
        Lookup::Found(machine) => machine.as_ref(),
        other => panic!("not found: {other:?}"),
    });
    machines.collect()
}

/// The log lines of the guest.
fn guest_lines(lines: &[Line]) -> impl Iterator<Item = &Line> {
    lines.iter().filter(|line| line.target == "guest")
}

async fn check(behaviour: Behaviour, law: Law) {
    let cloud = Target::start(law.cloud).await;
    let neighbour = world::load(Behaviour::Honest, &cloud.endpoint())
        .await
        .unwrap();
    let lines = Lines::listen();
    match (&law.end, load(behaviour, &cloud.endpoint()).await) {
        (End::NotLoaded(words), Err(error)) => {
            let text = world::chain(&error);
            let is_its_own = matches!(
                error.kind,
                LoadErrorKind::Init(_) | LoadErrorKind::NotExported(_)
            );
            assert!(is_its_own, "{text}");
            words
                .iter()
                .for_each(|word| assert!(text.contains(word), "{text:?} lacks {word:?}"));
            assert_harmless(&text, KEPT_BYTES + 200);
        }
        (End::NotLoaded(_), Ok(_)) => panic!("it was loaded"),
        (_, Err(error)) => panic!("{}", world::chain(&error)),
        (_, Ok(provider)) => {
            let ends = call(&provider, &neighbour, &law).await;
            check_ends(&law.end, &ends, &provider.digest().short());
        }
    }
    assert_eq!(
        cloud.requests(),
        law.requests,
        "requests that reached the cloud"
    );
    assert_eq!(
        cloud.connections() > 0,
        law.requests > 0,
        "connections to the cloud"
    );
    let lines = lines.so_far();
    lines
        .iter()
        .for_each(|line| assert_harmless(&line.message, KEPT_BYTES));
    (law.log)(&lines);
    assert_works(&neighbour).await;
}

/// Loads the guest. Spinning in `init` takes ten seconds, which pass at once here: the host has compiled it before, so
/// that nothing else waits.
async fn load(behaviour: Behaviour, endpoint: &str) -> Result<Provider, LoadError> {
    if behaviour == Behaviour::UnknownCapability {
        // The real guest exports all three.
        let module = Module {
            wasm: with("ccm:provider/routes@", "ccm:provider/routez@").into(),
            ..world::module()
        };
        let (grants, config) = (world::grants(endpoint), world::config(behaviour));
        return world::HOST.load(module, grants, config).await;
    }
    // Simulated time does not wait for another process.
    if behaviour != Behaviour::SpinInInit || isolation() != Isolation::InProcess {
        return world::load(behaviour, endpoint).await;
    }
    tokio::time::pause();
    let seconds = async {
        loop {
            tokio::time::advance(Duration::from_secs(1)).await;
            tokio::task::yield_now().await;
        }
    };
    let loaded = tokio::select! {
        loaded = world::load(behaviour, endpoint) => loaded,
        () = seconds => unreachable!("they go on for ever"),
    };
    tokio::time::resume();
    loaded
}

/// Calls the guest as the law says, each time together with its neighbour, on one thread: a guest that does not yield
/// would be noticed.
async fn call(
    provider: &Provider,
    neighbour: &Provider,
    law: &Law,
) -> Vec<Result<FindReply, ProviderError>> {
    let nodes = [cloud_node("one"), cloud_node("two")];
    let mut ends = Vec::new();
    for call in law.calls {
        let permit = permits::reads_for(law.time);
        let call = match call {
            Call::Find => provider.find(&nodes, permit),
            Call::FindFresh => provider.find_fresh(&nodes, permit),
        };
        let (end, ()) = tokio::join!(call, assert_works(neighbour));
        ends.push(end);
    }
    ends
}

/// The provider answers, and the answer is right.
pub(crate) async fn assert_works(neighbour: &Provider) {
    let reply = neighbour
        .find(&[cloud_node("neighbour")], permits::reads_for(TIMEOUT))
        .await
        .unwrap();
    assert_eq!(found(&reply)[0].provider_id, "misbehaving://neighbour");
}

fn check_ends(expected: &End, ends: &[Result<FindReply, ProviderError>], digest: &str) {
    match expected {
        End::Fails(case, words) => {
            for end in ends {
                let error = end.as_ref().expect_err("it has to fail");
                let text = error.to_string();
                assert_eq!(error.reason(), *case, "{text}");
                words
                    .iter()
                    .for_each(|word| assert!(text.contains(word), "{text:?} lacks {word:?}"));
                assert_harmless(&text, KEPT_BYTES + 200);
                // A call without a result names what it was doing.
                if matches!(
                    error,
                    ProviderError::Trapped(_) | ProviderError::TimedOut(_)
                ) {
                    assert!(
                        text.contains("instances.find in module") && text.contains(digest),
                        "{text}"
                    );
                }
            }
        }
        End::AnswersText(beginning) => {
            for lookup in ends.iter().flat_map(|end| &end.as_ref().unwrap().lookups) {
                let Lookup::Unknown(reason) = lookup else {
                    panic!("{lookup:?}")
                };
                assert!(reason.starts_with(beginning), "{reason}");
                assert_harmless(reason, REASON_BYTES);
            }
        }
        End::Answers(check) => {
            let replies: Vec<_> = ends
                .iter()
                .map(|end| end.as_ref().unwrap().clone())
                .collect();
            check(&replies);
        }
        End::NotLoaded(_) => unreachable!("nothing was called"),
    }
}

/// A guest's text for people: one line, bounded, without control characters and credentials.
pub(crate) fn assert_harmless(text: &str, bytes: usize) {
    assert!(text.len() <= bytes, "{} bytes", text.len());
    let hidden = |letter: char| letter.is_control() || matches!(letter, '\u{202a}'..='\u{202e}');
    assert!(!text.contains(hidden), "{text:?}");
    assert!(!text.contains(TOKEN), "{text}");
}
