//! Tests of the crash points of cloud mutations: a cloud that changes objects under a permit, and two controllers for
//! it. One finds its own objects again, and must reach the same end wherever it is killed. The other does not, which
//! must be noticed.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ccm_core::moment::Moment;
use ccm_core::safety::audit::{AuditSink, Author, End, NoAudit};
use ccm_core::safety::permit::{Access, CloudRequest, Mode, Permit, Refusal};
use ccm_tests::harness::trial;
use libtest_mimic::{Failed, Trial};

use crate::crash::{Death, Life};
use crate::disturbance::{self, Disturbance};

pub(crate) fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 3] = [
        (
            "mutations::whoever_finds_its_own_things_again_may_be_killed_at_any_mutation",
            whoever_looks,
        ),
        (
            "mutations::whoever_makes_things_without_looking_is_noticed",
            whoever_does_not_look,
        ),
        (
            "mutations::a_refused_mutation_is_no_crash_point",
            a_refused_mutation,
        ),
    ];
    tests.map(|(name, test)| trial(name, test)).into()
}

type Test = fn() -> Result<(), Failed>;

/// The nodes that are to be behind the load balancer.
const TARGETS: [&str; 2] = ["worker-1", "worker-2"];
/// One creation and one addition per target.
const MUTATIONS: usize = 1 + TARGETS.len();

/// A cloud with load balancers. Clones are the same cloud.
#[derive(Clone, Default)]
struct Cloud {
    balancers: Arc<Mutex<Vec<Balancer>>>,
}

#[derive(Clone)]
struct Balancer {
    owner: String,
    targets: BTreeSet<String>,
}

impl Cloud {
    /// A change, as the egress makes it: permitted, carried out, reported.
    fn mutate<T>(
        &self,
        permit: &Permit,
        path: &str,
        change: impl FnOnce(&mut Vec<Balancer>) -> T,
    ) -> Result<T, Refusal> {
        let request = CloudRequest {
            author: Author {
                provider: "sim".to_owned(),
                digest: String::new(),
            },
            target: "api".to_owned(),
            host: "cloud.test".to_owned(),
            method: "POST".to_owned(),
            path: path.to_owned(),
            template: path.to_owned(),
            rule: format!("POST {path} (write)"),
            sha256: String::new(),
            access: Access::Write,
        };
        let now = Moment(Duration::ZERO);
        permit.ask(now, &request)?;
        let changed = change(&mut self.balancers.lock().unwrap());
        permit.ended(now, now, &request, End::Done);
        Ok(changed)
    }

    fn find(&self, owner: &str) -> Option<usize> {
        let balancers = self.balancers.lock().unwrap();
        balancers.iter().position(|one| one.owner == owner)
    }

    fn state(&self) -> String {
        let mut text = String::new();
        for one in self.balancers.lock().unwrap().iter() {
            let _ = writeln!(text, "{}: {:?}", one.owner, one.targets);
        }
        text
    }
}

/// A process that wants one load balancer with all targets, under a permit for `mutations` changes.
async fn process(
    cloud: Cloud,
    life: Option<Life>,
    looks: bool,
    budget: u32,
) -> Result<(), Refusal> {
    let audit: Arc<dyn AuditSink> = match life {
        Some(life) => Arc::new(life),
        None => Arc::new(NoAudit),
    };
    let end = Moment(Duration::MAX);
    let tenure = Arc::new(ccm_core::safety::tenure::Tenure::unlimited());
    let permit = Permit::new(end, Mode::Enforce, budget, tenure, audit);
    let found = if looks { cloud.find("service-1") } else { None };
    let index = match found {
        Some(index) => index,
        None => cloud.mutate(&permit, "/load_balancers", |balancers| {
            balancers.push(Balancer {
                owner: "service-1".to_owned(),
                targets: BTreeSet::new(),
            });
            balancers.len() - 1
        })?,
    };
    let there = cloud.balancers.lock().unwrap()[index].targets.clone();
    for target in TARGETS
        .into_iter()
        .filter(|target| !there.contains(*target))
    {
        cloud.mutate(
            &permit,
            "/load_balancers/1/actions/add_target",
            |balancers| balancers[index].targets.insert(target.to_owned()),
        )?;
    }
    Ok(())
}

/// The state of the cloud after a process died this way, if at all, and was started again; and the first process's
/// life.
fn play(death: Option<Death>, looks: bool) -> Result<(String, Life), Failed> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let (cloud, life) = (Cloud::default(), Life::new(death));
    let budget = 10;
    let first = process(cloud.clone(), Some(life.clone()), looks, budget);
    let second = process(cloud.clone(), None, looks, budget);
    runtime.block_on(life.then(first, second))?;
    Ok((cloud.state(), life))
}

/// The deaths after which the state of the cloud differs from that without one.
fn differing(looks: bool) -> Result<Vec<String>, Failed> {
    let (undisturbed, life) = play(None, looks)?;
    assert_eq!(
        life.mutations(),
        (MUTATIONS, MUTATIONS),
        "announced and ended"
    );
    let deaths = disturbance::deaths(&[], MUTATIONS);
    assert_eq!(deaths.len(), 2 * MUTATIONS);
    let mut found = Vec::new();
    for planned in deaths {
        let Disturbance::Death(death) = planned else {
            return Err(format!("{planned} is no death").into());
        };
        let (state, life) = play(Some(death), looks)?;
        assert!(life.is_over(), "{planned} did not happen");
        if state != undisturbed {
            found.push(planned.to_string());
        }
    }
    Ok(found)
}

fn whoever_looks() -> Result<(), Failed> {
    assert_eq!(differing(true)?, Vec::<String>::new());
    Ok(())
}

/// Only a death before the first creation does no harm.
fn whoever_does_not_look() -> Result<(), Failed> {
    let expected = [
        "killed-before-mutation:2",
        "killed-before-mutation:3",
        "killed-after-mutation:1",
        "killed-after-mutation:2",
        "killed-after-mutation:3",
    ];
    assert_eq!(differing(false)?, expected);
    Ok(())
}

fn a_refused_mutation() -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let (cloud, life) = (Cloud::default(), Life::new(None));
    let ended = process(cloud.clone(), Some(life.clone()), true, 2);
    assert_eq!(runtime.block_on(ended), Err(Refusal::Budget(2)));
    assert_eq!(life.mutations(), (2, 2), "the third was never announced");
    assert_eq!(cloud.state(), "service-1: {\"worker-1\"}\n");
    Ok(())
}
