//! Explains why nothing serves.

use super::facts::{Cause, RolloutFacts};
use super::orders::held_back;

/// Why nothing serves, and whether a person has to change something first. `None` while the recorded active version may
/// still serve, even if an offer was rejected, and while a source that has not answered yet may offer another version in
/// place of one that a person would have to change something for. A failed version is reported without waiting for the
/// decision on a pending offer, which only the leader makes.
pub fn not_serving(facts: &RolloutFacts) -> Option<(String, bool)> {
    let record = facts.record.as_ref()?;
    let active = record.active_release();
    let offered = facts.offered_release();
    let other = offered.filter(|it| active.is_none_or(|active| active.digest != it.digest));
    let mut reasons = Vec::new();
    let mut is_final = true;
    for release in active.into_iter().chain(other) {
        let digest = &release.digest;
        let is_wanted = active == Some(release);
        // The active version may serve, whatever was decided about it earlier.
        if !is_wanted && let Some(rejected) = record.rejection(digest) {
            reasons.push(rejected.offered());
        } else if let Some(failure) = facts.failures.get(digest) {
            reasons.push(match is_wanted {
                true => format!("{} must serve, but {}", release.shown(), failure.why),
                false => failure.why.clone(),
            });
            is_final &= matches!(failure.cause, Cause::Module | Cause::Policy | Cause::Trust);
        } else if let Some(why) = held_back(&facts.orders, digest).filter(|_| active.is_none()) {
            reasons.push(format!("{} is offered, but {why}", release.shown()));
            // Orders are followed while the process runs: it need not end because of one.
            is_final = false;
        } else if reasons.is_empty() {
            return None;
        } else {
            reasons.push(format!("the leader has not decided about {digest} yet"));
            is_final = false;
        }
    }
    if reasons.is_empty() {
        let why = Some(&facts.source_trouble).filter(|why| !why.is_empty())?;
        return Some((why.clone(), false));
    }
    let has_answered = offered.is_some() || !facts.source_trouble.is_empty();
    (has_answered || !is_final).then(|| (reasons.join("; "), is_final))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::facts::{RolloutTime, VersionFailure};
    use super::super::record::{Noted, Orders, Placed, Record, Rejected, Release};
    use super::*;
    use crate::moment::Moment;

    fn release(name: &str) -> Release {
        Release {
            digest: name.to_owned(),
            version: String::new(),
            origin: String::new(),
        }
    }

    fn failure(cause: Cause) -> VersionFailure {
        VersionFailure {
            cause,
            failures: 1,
            again: None,
            why: format!("{cause:?}"),
        }
    }

    /// Active version, its failure, offered version, whether that is rejected, its failure, expected result.
    type Case = (
        Option<&'static str>,
        Option<Cause>,
        Option<&'static str>,
        bool,
        Option<Cause>,
        Option<(&'static str, bool)>,
    );

    #[test]
    fn nothing_has_failed_while_what_is_written_down_may_still_serve() {
        let cases: &[Case] = &[
            (None, None, None, false, None, Some(("it is down", false))),
            (Some("v3"), None, None, false, None, None),
            (Some("v3"), None, Some("v4"), true, None, None),
            (
                Some("v3"),
                Some(Cause::Gone),
                Some("v4"),
                true,
                None,
                Some((
                    "v3 must serve, but Gone; v4 is offered, but rejected: bad",
                    false,
                )),
            ),
            (
                Some("v3"),
                Some(Cause::Policy),
                Some("v4"),
                true,
                None,
                Some((
                    "v3 must serve, but Policy; v4 is offered, but rejected: bad",
                    true,
                )),
            ),
            (
                Some("v3"),
                Some(Cause::Gone),
                Some("v4"),
                false,
                None,
                Some((
                    "v3 must serve, but Gone; the leader has not decided about v4 yet",
                    false,
                )),
            ),
            (
                Some("v3"),
                Some(Cause::Policy),
                Some("v3"),
                false,
                None,
                Some(("v3 must serve, but Policy", true)),
            ),
            (Some("v3"), None, Some("v3"), true, None, None),
            (
                Some("v3"),
                Some(Cause::Module),
                Some("v3"),
                true,
                None,
                Some(("v3 must serve, but Module", true)),
            ),
            (None, None, Some("v1"), false, None, None),
            (
                None,
                None,
                Some("v1"),
                true,
                None,
                Some(("v1 is offered, but rejected: bad", true)),
            ),
            (
                None,
                None,
                Some("v1"),
                false,
                Some(Cause::Trust),
                Some(("Trust", true)),
            ),
            (
                None,
                None,
                Some("v1"),
                false,
                Some(Cause::Circumstances),
                Some(("Circumstances", false)),
            ),
        ];
        for (active, of_active, offered, is_rejected, of_offered, expected) in cases {
            let mut record = Record {
                active: active.map(|name| Placed {
                    release: release(name),
                    since: 0,
                    noted: Noted::default(),
                    untried: None,
                }),
                ..Record::default()
            };
            if *is_rejected {
                record.rejected.extend(offered.map(|name| Rejected {
                    digest: name.to_owned(),
                    version: String::new(),
                    reason: "bad".to_owned(),
                    has_answered: false,
                    at: 0,
                }));
            }
            let mut facts = RolloutFacts {
                record: Some(record),
                source_trouble: "it is down".to_owned(),
                ..RolloutFacts::default()
            };
            let now = RolloutTime {
                moment: Moment(Duration::ZERO),
                wall: 0,
            };
            if let Some(name) = offered {
                facts.offered(release(name), now);
            }
            for (name, cause) in [(active, of_active), (offered, of_offered)] {
                if let (Some(name), Some(cause)) = (name, cause) {
                    facts.failures.insert((*name).to_owned(), failure(*cause));
                }
            }
            let found = not_serving(&facts);
            let found = found
                .as_ref()
                .map(|(why, is_final)| (why.as_str(), *is_final));
            assert_eq!(found, *expected, "{active:?} {offered:?}");
        }
    }

    /// Whoever trusts only the next version any more starts the program with it at the source: the start must not end before.
    #[test]
    fn no_failure_is_final_before_the_source_has_answered() {
        type Answer = fn(&mut RolloutFacts);
        let answers: [(Answer, Cause, Option<bool>); 4] = [
            (|_| {}, Cause::Trust, None),
            (|_| {}, Cause::Circumstances, Some(false)),
            (
                |facts| facts.unoffered("it is down", false),
                Cause::Trust,
                Some(true),
            ),
            (
                |facts| {
                    let now = RolloutTime {
                        moment: Moment(Duration::ZERO),
                        wall: 0,
                    };
                    facts.offered(release("v4"), now);
                },
                Cause::Trust,
                Some(false),
            ),
        ];
        for (answer, cause, expected) in answers {
            let mut record = Record::default();
            record.activate(release("v3"), 0, None);
            let mut facts = RolloutFacts {
                record: Some(record),
                ..RolloutFacts::default()
            };
            facts.failures.insert("v3".to_owned(), failure(cause));
            answer(&mut facts);
            let found = not_serving(&facts).map(|(_, is_final)| is_final);
            assert_eq!(found, expected, "{:?}", facts.offer);
        }
    }

    #[test]
    fn an_order_that_holds_back_the_first_version_is_a_reason() {
        let now = RolloutTime {
            moment: Moment(Duration::ZERO),
            wall: 0,
        };
        let pause = Orders {
            pause: true,
            ..Orders::default()
        };
        let pin = |name: &str| Orders {
            pin: Some(name.to_owned()),
            ..Orders::default()
        };
        for (orders, expected) in [
            (Orders::default(), None),
            (pin("v1"), None),
            (
                pause,
                Some("v1 is offered, but no version may begin while wasm-ccm.dev/pause is set"),
            ),
            (
                pin("v0"),
                Some("v1 is offered, but wasm-ccm.dev/pin names v0"),
            ),
        ] {
            let mut facts = RolloutFacts {
                record: Some(Record::default()),
                orders,
                ..RolloutFacts::default()
            };
            facts.offered(release("v1"), now);
            let expected = expected.map(|why| (why.to_owned(), false));
            assert_eq!(not_serving(&facts), expected, "{:?}", facts.orders);
        }
    }
}
