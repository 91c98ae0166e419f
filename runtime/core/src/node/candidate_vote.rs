//! Claim resolution for a new node with several candidate providers: all are asked, and the one that finds the machine
//! proceeds when every other one has voted [`Vote::NotMine`]. Decides on votes and waiting; knows the other providers
//! only by their votes.

use crate::cloud::instance::Lookup;
use crate::moment::Moment;
use crate::node::ownership::{OtherVote, Verdict, Vote};
use crate::reconciliation::effect::Decision;
use crate::reconciliation::event::{message, reasons};

use super::Facts;
use super::effect::{CandidateVote, NodeEffect};
use super::waiting::{self, Obstacle};

/// The effect or the wait that comes before the provider's answer may be used. `None` when it may be used now, or when
/// there is no usable answer.
pub(super) fn decide(
    facts: &Facts,
    now: Moment,
    others: Vec<String>,
) -> Option<Decision<NodeEffect>> {
    let looked = facts.state.looked.as_ref().filter(|_| !others.is_empty())?;
    let Some((verdict, report)) = facts.state.claimed.as_ref() else {
        let vote = match looked.as_ref().map(|looked| &looked.lookup) {
            Ok(Lookup::Found(_)) => Vote::Found,
            Ok(Lookup::Gone | Lookup::NotMine) => Vote::NotMine,
            Ok(Lookup::Unknown(why)) => Vote::Silent(message(why)),
            Err(error) => Vote::Silent(message(&error.to_string())),
        };
        let cast = CandidateVote {
            vote,
            others,
            is_quiet: !waiting::is_report_due(facts, now),
        };
        return Some(Decision::Do(vec![NodeEffect::CastVote(
            facts.node.node_ref(),
            cast,
        )]));
    };
    let is_an_answer = looked
        .as_ref()
        .is_ok_and(|looked| !matches!(looked.lookup, Lookup::Unknown(_)));
    let obstacle = match verdict {
        Verdict::Ours => return None,
        // The provider gave no answer: the caller reports the reason.
        Verdict::Open if !is_an_answer => return None,
        Verdict::Open => Obstacle::Candidates {
            why: format!(
                "{}; another provider may",
                waiting::no_instance(&facts.ownership.claim.name, &facts.node)
            ),
            reason: reasons::INSTANCE_NOT_FOUND,
            report: false,
        },
        Verdict::NotFound(names) => Obstacle::Candidates {
            why: format!(
                "none of the providers {} knows an instance for this node",
                quoted(names)
            ),
            reason: reasons::INSTANCE_NOT_FOUND,
            report: *report,
        },
        Verdict::FoundBy(names) => Obstacle::Candidates {
            why: format!(
                "the providers {} all know an instance for this node: nothing is written until only one of them does, or until the label is set: {}",
                quoted(names),
                crate::well_known::OWNER_LABEL
            ),
            reason: reasons::PROVIDER_AMBIGUOUS,
            report: *report,
        },
        Verdict::WaitsFor(open) => Obstacle::Candidates {
            why: format!(
                "the provider {:?} knows an instance for this node; it is not known yet whether others do, too: {}",
                facts.ownership.claim.name,
                missing_votes(open)
            ),
            reason: reasons::PROVIDER_UNDECIDED,
            report: *report,
        },
    };
    Some(waiting::wait(facts, now, &obstacle))
}

fn quoted(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
    names.join(", ")
}

fn missing_votes(open: &[OtherVote]) -> String {
    let words = open.iter().map(|one| match &one.vote {
        Some(Vote::Silent(why)) => format!("{:?} could not say ({why})", one.provider),
        _ => format!("{:?} has not said", one.provider),
    });
    let words: Vec<String> = words.collect();
    words.join(", ")
}
