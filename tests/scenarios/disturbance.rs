//! The disturbance of a replay at one place, and its word: `conflict:3` is a conflict at the third request. Knows which
//! disturbance makes sense where; carries none out.

use std::fmt;
use std::str::FromStr;

use crate::crash::{Act, Death, Moment};

/// One disturbance of one replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disturbance {
    /// The process is killed and started again.
    Death(Death),
    /// A fault of the request to the API server with this number.
    Request(RequestFault, usize),
    /// A fault of the cloud call with this number.
    Call(CallFault, usize),
}

/// A fault of a request to the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestFault {
    /// Another client writes to the object, and the request is answered 409.
    Conflict,
    /// The same for this and the next requests of its kind, more often than one reconciliation reads again.
    Conflicts,
    /// Another client writes to the object just before the request is carried out.
    Meddling,
    /// Not carried out, and never answered.
    HangsBefore,
    /// Carried out, and never answered.
    HangsAfter,
    /// The connection breaks before it is carried out.
    ResetBefore,
    /// It is carried out, and the connection breaks before the answer.
    ResetAfter,
    /// Refused with 429 or 503 and a `Retry-After`.
    Refused(u16),
    /// Refused with 410: the resource version is too old.
    TooOld,
    /// The watch has a fault after this many events.
    Watch(WatchFault, usize),
}

/// A fault of a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WatchFault {
    /// An event reports that its resource version is too old.
    Expired,
    /// It ends as servers' timeouts end it.
    Ended,
    /// The connection breaks without an end of the response.
    Reset,
    /// It ends in the middle of an event.
    Truncated,
    /// No event comes any more, and the connection stays open.
    Silent,
    /// Every further event comes a minute late.
    Slow,
}

/// A fault of a cloud call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallFault {
    /// Throttled, with half a minute to wait.
    Throttled,
    /// Answered as unavailable.
    Unavailable,
    /// The credential is refused.
    Denied,
    /// The guest traps.
    Trapped,
    /// The right answer, after 20 s.
    Slow,
    /// No answer at all.
    Endless,
    /// No machine is known: the effect of an empty list, or of another project's token.
    NobodyMine,
    /// Every machine is reported as gone.
    AllGone,
    /// Every other node's answer is unknown.
    Partial,
    /// One answer is missing.
    Short,
    /// The right answers, from an exchange that was not complete.
    Incomplete,
    /// It is carried out, and its answer is lost.
    Lost,
}

/// The words of all deaths, with their meaning.
const DEATHS: [(&str, bool, Moment); 5] = [
    ("killed-before-effect", false, Moment::Before),
    ("killed-after-effect", false, Moment::After),
    ("killed-with-effect-on-its-way", false, Moment::Late),
    ("killed-before-mutation", true, Moment::Before),
    ("killed-after-mutation", true, Moment::After),
];

/// The words of all faults of requests.
const REQUEST_FAULTS: [(&str, RequestFault); 24] = [
    ("conflict", RequestFault::Conflict),
    ("conflicts", RequestFault::Conflicts),
    ("meddling", RequestFault::Meddling),
    ("hangs-before-commit", RequestFault::HangsBefore),
    ("hangs-after-commit", RequestFault::HangsAfter),
    ("reset-before-commit", RequestFault::ResetBefore),
    ("reset-after-commit", RequestFault::ResetAfter),
    ("429", RequestFault::Refused(429)),
    ("503", RequestFault::Refused(503)),
    ("410", RequestFault::TooOld),
    (
        "watch-expired-at-once",
        RequestFault::Watch(WatchFault::Expired, 0),
    ),
    (
        "watch-expired-after-1",
        RequestFault::Watch(WatchFault::Expired, 1),
    ),
    (
        "watch-expired-after-3",
        RequestFault::Watch(WatchFault::Expired, 3),
    ),
    (
        "watch-ended-at-once",
        RequestFault::Watch(WatchFault::Ended, 0),
    ),
    (
        "watch-ended-after-1",
        RequestFault::Watch(WatchFault::Ended, 1),
    ),
    (
        "watch-ended-after-3",
        RequestFault::Watch(WatchFault::Ended, 3),
    ),
    (
        "watch-reset-after-1",
        RequestFault::Watch(WatchFault::Reset, 1),
    ),
    (
        "watch-reset-after-3",
        RequestFault::Watch(WatchFault::Reset, 3),
    ),
    (
        "watch-truncated-at-once",
        RequestFault::Watch(WatchFault::Truncated, 0),
    ),
    (
        "watch-truncated-after-2",
        RequestFault::Watch(WatchFault::Truncated, 2),
    ),
    (
        "watch-silent-at-once",
        RequestFault::Watch(WatchFault::Silent, 0),
    ),
    (
        "watch-silent-after-2",
        RequestFault::Watch(WatchFault::Silent, 2),
    ),
    ("watch-slow", RequestFault::Watch(WatchFault::Slow, 0)),
    (
        "watch-slow-after-2",
        RequestFault::Watch(WatchFault::Slow, 2),
    ),
];

/// The words of all faults of calls.
const CALL_FAULTS: [(&str, CallFault); 12] = [
    ("cloud-throttled", CallFault::Throttled),
    ("cloud-unavailable", CallFault::Unavailable),
    ("cloud-denied", CallFault::Denied),
    ("cloud-trapped", CallFault::Trapped),
    ("cloud-slow", CallFault::Slow),
    ("cloud-endless", CallFault::Endless),
    ("cloud-nobody-mine", CallFault::NobodyMine),
    ("cloud-all-gone", CallFault::AllGone),
    ("cloud-partial", CallFault::Partial),
    ("cloud-short", CallFault::Short),
    ("cloud-incomplete", CallFault::Incomplete),
    ("cloud-lost", CallFault::Lost),
];

/// The properties of a request that decide which faults make sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Asked {
    /// Whether it is a watch of a collection.
    pub(crate) is_watch: bool,
    /// Whether it may change something.
    pub(crate) is_write: bool,
    /// Whether it names a node or a Service.
    pub(crate) is_about_an_object: bool,
}

impl RequestFault {
    /// Whether such a request can have this fault.
    pub(crate) fn can_meet(self, asked: Asked) -> bool {
        match self {
            RequestFault::Conflict | RequestFault::Conflicts | RequestFault::Meddling => {
                asked.is_write && asked.is_about_an_object
            }
            RequestFault::HangsBefore
            | RequestFault::HangsAfter
            | RequestFault::ResetBefore
            | RequestFault::Refused(_) => true,
            RequestFault::ResetAfter => !asked.is_watch,
            RequestFault::TooOld | RequestFault::Watch(..) => asked.is_watch,
        }
    }
}

/// Every death of a process with these effects and this many mutations.
pub(crate) fn deaths(effects: &[Act], mutations: usize) -> Vec<Disturbance> {
    let mut found = Vec::new();
    for (_, at_mutation, moment) in DEATHS {
        let count = if at_mutation {
            mutations
        } else {
            effects.len()
        };
        let numbers = (1..=count)
            // A late call of the cloud is the same as one whose answer is never read.
            .filter(|number| moment != Moment::Late || effects[number - 1] == Act::Write);
        found.extend(numbers.map(|number| {
            Disturbance::Death(Death {
                at_mutation,
                number,
                moment,
            })
        }));
    }
    found
}

/// Every fault of these requests.
pub(crate) fn request_faults(asked: &[Asked]) -> Vec<Disturbance> {
    let every = REQUEST_FAULTS.iter().flat_map(|(_, fault)| {
        let hit = (1..=asked.len()).filter(|number| fault.can_meet(asked[number - 1]));
        hit.map(|number| Disturbance::Request(*fault, number))
    });
    every.collect()
}

/// Every fault of this many calls.
pub(crate) fn call_faults(calls: usize) -> Vec<Disturbance> {
    let every = CALL_FAULTS
        .iter()
        .flat_map(|(_, fault)| (1..=calls).map(|number| Disturbance::Call(*fault, number)));
    every.collect()
}

impl Disturbance {
    /// Whether the cloud falsely reports machines as another's, or as gone.
    pub(crate) fn is_a_lie(self) -> bool {
        matches!(
            self,
            Disturbance::Call(CallFault::NobodyMine | CallFault::AllGone, _)
        )
    }

    /// The word, and the number.
    pub(crate) fn parts(self) -> (&'static str, usize) {
        match self {
            Disturbance::Death(death) => {
                let is_it = |(_, at_mutation, moment): &&(&str, bool, Moment)| {
                    (*at_mutation, *moment) == (death.at_mutation, death.moment)
                };
                let (word, ..) = DEATHS.iter().find(is_it).expect("every death has a word");
                (word, death.number)
            }
            Disturbance::Request(fault, number) => {
                let found = REQUEST_FAULTS.iter().find(|(_, one)| *one == fault);
                (found.expect("every fault has a word").0, number)
            }
            Disturbance::Call(fault, number) => {
                let found = CALL_FAULTS.iter().find(|(_, one)| *one == fault);
                (found.expect("every fault has a word").0, number)
            }
        }
    }
}

impl fmt::Display for Disturbance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, number) = self.parts();
        write!(f, "{word}:{number}")
    }
}

impl FromStr for Disturbance {
    type Err = String;

    fn from_str(text: &str) -> Result<Disturbance, String> {
        let (word, number) = text
            .split_once(':')
            .ok_or_else(|| format!("{text:?} is not WORD:NUMBER"))?;
        let number = number
            .parse()
            .map_err(|_| format!("{number:?} is not a number"))?;
        let death = DEATHS.iter().find(|(one, ..)| *one == word);
        let death = death.map(|(_, at_mutation, moment)| {
            Disturbance::Death(Death {
                at_mutation: *at_mutation,
                number,
                moment: *moment,
            })
        });
        let request = REQUEST_FAULTS.iter().find(|(one, _)| *one == word);
        let request = request.map(|(_, fault)| Disturbance::Request(*fault, number));
        let call = CALL_FAULTS.iter().find(|(one, _)| *one == word);
        let call = call.map(|(_, fault)| Disturbance::Call(*fault, number));
        death
            .or(request)
            .or(call)
            .ok_or_else(|| format!("no disturbance is called {word:?}"))
    }
}
