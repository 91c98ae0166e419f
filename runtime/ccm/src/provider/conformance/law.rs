//! Every law that a module is tested against, and the findings. Tests nothing.

use indicatif::ProgressBar;
use serde::Serialize;
use tokio::time::Instant;

use super::module_under_test::ModuleUnderTest;
use crate::provider::arguments::Suite;
use crate::provider::terminal::Screen;

/// A law. Its ID never changes, so that reports can be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Law {
    pub(super) id: &'static str,
    pub(super) suite: Suite,
    /// The law in one sentence.
    pub(super) says: &'static str,
}

/// The result of testing a law that is not broken. An error says how a law is broken, or which failure of the module
/// prevents the test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It holds; the text says how much was tried.
    Pass(String),
    /// It cannot be tested; the text says what is missing.
    NotApplicable(String),
}

/// A law with its verdict. Its fields are those of the report.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Finding {
    pub(super) law: &'static str,
    pub(super) suite: Suite,
    pub(super) says: &'static str,
    /// `pass`, `fail` or `not-applicable`.
    pub(super) result: &'static str,
    pub(super) why: String,
    pub(super) calls: usize,
    pub(super) requests: usize,
    pub(super) took_ms: u64,
}

/// Tests the laws one by one, and collects the findings.
pub(super) struct Findings<'a> {
    tested: &'a ModuleUnderTest,
    screen: Screen,
    bar: ProgressBar,
    pub(super) findings: Vec<Finding>,
}

impl<'a> Findings<'a> {
    pub(super) fn new(tested: &'a ModuleUnderTest, screen: Screen) -> Findings<'a> {
        Findings {
            tested,
            screen,
            bar: screen.busy("testing"),
            findings: Vec::new(),
        }
    }

    /// Tests one law. With an error it counts as broken.
    pub(super) async fn judge(
        &mut self,
        law: Law,
        test: impl Future<Output = anyhow::Result<Verdict>>,
    ) {
        let step = format!("testing {}", law.id);
        self.screen.step(&step);
        self.bar.set_message(step);
        let (began, before) = (Instant::now(), self.tested.calls().len());
        let tested = test.await;
        let calls = self.tested.calls().split_off(before);
        let (result, why) = match tested {
            Ok(Verdict::Pass(why)) => ("pass", why),
            Ok(Verdict::NotApplicable(why)) => ("not-applicable", why),
            Err(error) => ("fail", format!("{error:#}")),
        };
        self.findings.push(Finding {
            law: law.id,
            suite: law.suite,
            says: law.says,
            result,
            why,
            calls: calls.len(),
            requests: calls.iter().map(|call| call.requests.len()).sum(),
            took_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        });
    }

    /// Adds findings that these laws cannot be tested.
    pub(super) fn skip(&mut self, laws: &[Law], why: &str) {
        self.findings.extend(laws.iter().map(|law| Finding {
            law: law.id,
            suite: law.suite,
            says: law.says,
            result: "not-applicable",
            why: why.to_owned(),
            calls: 0,
            requests: 0,
            took_ms: 0,
        }));
    }
}

const fn law(id: &'static str, suite: Suite, says: &'static str) -> Law {
    Law { id, suite, says }
}

macro_rules! laws {
    ($($name:ident = $id:literal, $suite:ident: $says:literal;)*) => {
        $(pub(super) const $name: Law = law($id, Suite::$suite, $says);)*
        /// All laws, in the order in which they are tested.
        #[cfg(test)]
        pub(super) const ALL: &[Law] = &[$($name),*];
    };
}

laws! {
    STEADY_INIT = "contract/steady-init", Contract: "init enables the same interfaces every time";
    SELF_CHECK = "contract/self-check", Contract: "the self-check succeeds, changes nothing, and fails where the cloud answers 401";
    FOUND = "instances/found", Instances: "each node is found under its provider ID";
    BY_NAME = "instances/by-name", Instances: "a node without a provider ID is found by its name, as the same machine";
    ORDER = "instances/order", Instances: "there is one look-up for each node, in the order of the nodes";
    REPEATED = "instances/repeated", Instances: "the same question has the same answer";
    BATCH = "instances/batch", Instances: "many nodes in one call have the answers that each has alone; a machine that is gone is asked about beside the first node";
    READ_ONLY = "instances/read-only", Instances: "a look-up sends no change";
    NOT_MINE = "instances/not-mine", Instances: "a node of another cloud is not-mine";
    GONE = "instances/gone", Instances: "a machine that does not exist is gone, by a complete answer, and leaves other answers as they are";
    NOT_GONE_BY_FAILING = "instances/not-gone-by-failing", Instances: "no failure of a request makes a machine gone, not-mine or another one";
    THROTTLED = "instances/throttled", Instances: "an answer with Retry-After is an error `throttled`";
    IN_TIME = "instances/in-time", Instances: "a cloud that does not answer ends the call in time, and makes nothing gone";
    PLANNED = "load-balancer/planned", LoadBalancer: "where changes are refused, ensure makes none and get finds none";
    MADE = "load-balancer/made", LoadBalancer: "ensure makes a load balancer, and get finds it with the same status";
    IDEMPOTENT = "load-balancer/idempotent", LoadBalancer: "a second ensure changes nothing and answers the same";
    CHANGED = "load-balancer/changed", LoadBalancer: "ensure with another port changes the load balancer once, and back";
    TARGETS = "load-balancer/targets", LoadBalancer: "update-targets changes the targets once, and nothing else; ensure changes them back";
    APART = "load-balancer/apart", LoadBalancer: "what is done for one Service leaves another one's load balancer as it is, and update-targets fails where there is none";
    DELETED = "load-balancer/deleted", LoadBalancer: "delete removes it, get proves that, and a second delete changes nothing";
    HINTS_DROPPED = "load-balancer/hints-dropped", LoadBalancer: "without the hints of pending the same end is reached by the same changes";
    ANSWERS_LOST = "load-balancer/answers-lost", LoadBalancer: "after a lost answer to any change the next ensure converges, and nothing is made twice";
    REFUSED = "load-balancer/refused", LoadBalancer: "after any request that fails the next ensure converges, and nothing is made twice";
    DELETE_LOST = "load-balancer/delete-answers-lost", LoadBalancer: "after a lost answer to any change of delete the next delete converges";
    LB_THROTTLED = "load-balancer/throttled", LoadBalancer: "an answer with Retry-After is an error `throttled`, and ensure converges after it";
    ROUTE_MADE = "routes/made", Routes: "create makes a route that list shows once, leading to its node";
    ROUTE_IDEMPOTENT = "routes/idempotent", Routes: "a second create changes nothing";
    ROUTE_REPEATED = "routes/repeated", Routes: "list answers the same, completely, and sends no change";
    ROUTE_DELETED = "routes/deleted", Routes: "delete removes exactly this route, and a second delete changes nothing";
    ROUTE_HINTS_DROPPED = "routes/hints-dropped", Routes: "without the hints of pending the same end is reached by the same changes";
    ROUTE_ANSWERS_LOST = "routes/answers-lost", Routes: "after a lost answer to any change the next create or delete converges, and nothing is made twice";
    ROUTE_INCOMPLETE = "routes/incomplete", Routes: "a list that cannot be read to its end is an error, never a shorter list";
    INIT_SILENT = "contract/init-silent", Contract: "init sends no request";
    GRANTED = "contract/granted", Contract: "every request is within the manifest";
    NO_TRAP = "contract/no-trap", Contract: "no call traps, and none runs into its time limit by itself";
    CLEANED_UP = "contract/cleaned-up", Contract: "everything that the test has made could be removed again";
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::ALL;

    #[test]
    fn every_law_has_an_id_of_its_own_in_its_suite() {
        let ids: BTreeSet<_> = ALL.iter().map(|law| law.id).collect();
        assert_eq!(ids.len(), ALL.len());
        for law in ALL {
            let suite = law.id.split('/').next();
            assert_eq!(json!(suite), json!(law.suite), "{}", law.id);
        }
    }
}
