//! Which budget withdrawals outlive a process, their requests to the API server, and the state after a failed write.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::time::Duration;

use ccm_core::safety::brake::{Allowances, Rise};
use ccm_core::well_known::{SPENT_LOAD_BALANCER_DELETIONS, SPENT_NODE_DELETIONS};
use ccm_sim::cluster::{Cluster, Fault, FaultEffect, Verb};
use futures::future::join_all;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;

use super::*;
use crate::clock::Pace;
use crate::executor::LeaseName;

/// Brakes of changes that cannot be undone.
const FOR_GOOD: [Brake; 3] = [
    Brake::NodeDeletion,
    Brake::LoadBalancerDeletion,
    Brake::RouteDeletion,
];
const FEW: Objects = Objects { own: 5, all: 5 };

fn budget_store(cluster: &Cluster) -> BudgetStore {
    let tenure = Arc::new(Tenure::unlimited());
    let lease = LeaseName {
        namespace: "kube-system".to_owned(),
        name: "cloud-controller-manager".to_owned(),
    };
    BudgetStore {
        balance: Arc::new(Mutex::new(Balance {
            budgets: ClusterBudgets::new(&Allowances::default()),
            taken: 0,
            attempts: BTreeMap::new(),
        })),
        budget_lease: AsyncMutex::new(BudgetLease::new(
            cluster.client_as("ccm"),
            Some(lease),
            tenure.clone(),
        )),
        is_restored: OnceCell::new(),
        allowances: Allowances::default(),
        clock: Clock::start(Pace::REAL),
        mode: Mode::Enforce,
        tenure,
        metrics: Metrics::default(),
    }
}

async fn take(budget_store: &BudgetStore, brake: Brake) -> BudgetOutcome {
    budget_store
        .take("sim", "it", (brake, Rise::NONE), || FEW)
        .await
}

/// Withdraws until no budget is left. Returns the number of withdrawals.
async fn spend(budget_store: &BudgetStore, brake: Brake) -> usize {
    for count in 0..1000 {
        match take(budget_store, brake).await {
            BudgetOutcome::Answered(Ok(())) => {}
            BudgetOutcome::Answered(Err(_)) => return count,
            other => panic!("{other}"),
        }
    }
    panic!("{brake} lets everything through")
}

fn writes(cluster: &Cluster) -> usize {
    let requests = cluster.requests();
    let writes = requests
        .iter()
        .filter(|one| one.resource == "leases" && matches!(one.verb, "create" | "update"));
    writes.count()
}

#[tokio::test(start_paused = true)]
async fn what_is_deleted_for_good_is_counted_over_a_restart_and_nothing_else_is() {
    for brake in Brake::ALL {
        let cluster = Cluster::new();
        let spent = spend(&budget_store(&cluster), brake).await;
        assert_eq!(spent, Allowances::default().of(brake).of(5), "{brake}");
        let expected = match FOR_GOOD.contains(&brake) {
            true => 0,
            false => spent,
        };
        assert_eq!(
            spend(&budget_store(&cluster), brake).await,
            expected,
            "{brake}"
        );
        assert_eq!(
            !cluster.requests().is_empty(),
            FOR_GOOD.contains(&brake),
            "{brake}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn deletions_that_come_together_are_written_down_together() {
    let cluster = Cluster::new();
    let one = budget_store(&cluster);
    let (balancers, routes) = (Brake::LoadBalancerDeletion, Brake::RouteDeletion);
    let all = (0..15).map(|_| take(&one, balancers));
    let all = all.chain((0..2).map(|_| take(&one, routes)));
    for outcome in join_all(all).await {
        assert!(
            matches!(outcome, BudgetOutcome::Answered(Ok(()))),
            "{outcome}"
        );
    }
    assert!(writes(&cluster) <= 2, "{}", writes(&cluster));
    let next = budget_store(&cluster);
    assert_eq!(
        spend(&next, balancers).await,
        5,
        "none of the fifteen is lost"
    );
    assert_eq!(spend(&next, routes).await, 0);
}

/// Nothing else would remove it before the next withdrawal from the same budget, which may never come.
#[tokio::test(start_paused = true)]
async fn a_withdrawal_that_counts_no_longer_is_not_written_down_again() {
    let cluster = Cluster::new();
    let one = budget_store(&cluster);
    let leases: Api<Lease> = Api::namespaced(cluster.client_as("test"), "kube-system");
    let dates = async || {
        let lease = leases.get("cloud-controller-manager").await.unwrap();
        let annotations = lease.metadata.annotations.unwrap();
        let keys = [SPENT_LOAD_BALANCER_DELETIONS, SPENT_NODE_DELETIONS];
        keys.map(|key| annotations[key].matches("=sim").count())
    };
    let (balancers, nodes) = (Brake::LoadBalancerDeletion, Brake::NodeDeletion);
    let window = one.allowances.of(balancers).window;
    for (brake, wait, expected) in [
        (balancers, Duration::ZERO, [1, 0]),
        (nodes, window - Duration::from_secs(1), [1, 1]),
        (nodes, Duration::from_secs(1), [0, 2]),
    ] {
        tokio::time::sleep(wait).await;
        let taken = take(&one, brake).await;
        assert!(matches!(taken, BudgetOutcome::Answered(Ok(()))), "{taken}");
        assert_eq!(dates().await, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn who_deletes_nothing_and_who_may_delete_nothing_writes_nothing() {
    let cluster = Cluster::new();
    let one = budget_store(&cluster);
    let _ = one.state("sim", Brake::RouteDeletion, 5);
    assert_eq!(cluster.requests().len(), 0);
    spend(&one, Brake::RouteDeletion).await;
    let spent = writes(&cluster);
    assert_eq!(spend(&one, Brake::RouteDeletion).await, 0);
    assert_eq!(writes(&cluster), spent);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_written_down_may_not_be_done_and_is_not_spent() {
    let cluster = Cluster::new();
    let one = budget_store(&cluster);
    let brake = Brake::RouteDeletion;
    assert!(matches!(
        take(&one, brake).await,
        BudgetOutcome::Answered(Ok(()))
    ));
    cluster.inject(Fault::next(
        Verb::Update,
        "leases",
        FaultEffect::LostBeforeCommit,
    ));
    let failed = take(&one, brake).await;
    let is_refused = matches!(failed, BudgetOutcome::Failed(ClusterError::Unavailable(_)));
    assert!(is_refused, "{failed}");
    assert_eq!(spend(&one, brake).await, 1, "one was spent of two");
    assert_eq!(spend(&budget_store(&cluster), brake).await, 0);
}

/// The election writes the Lease every two seconds, too.
#[tokio::test(start_paused = true)]
async fn a_withdrawal_is_stored_although_others_write_the_lease_in_between() {
    let cluster = Cluster::new();
    let one = budget_store(&cluster);
    let brake = Brake::RouteDeletion;
    for conflicts in [0, 9] {
        let conflict = FaultEffect::Refused {
            code: 409,
            retry_after: None,
        };
        for _ in 0..conflicts {
            cluster.inject(Fault::next(Verb::Update, "leases", conflict.clone()));
        }
        let taken = take(&one, brake).await;
        assert!(matches!(taken, BudgetOutcome::Answered(Ok(()))), "{taken}");
    }
    assert_eq!(spend(&budget_store(&cluster), brake).await, 0);
}

/// Such as an API server that has just started: it refuses every token for a moment, and no right is missing.
#[tokio::test(start_paused = true)]
async fn whoever_is_not_known_for_a_moment_forgets_no_withdrawal() {
    let brake = Brake::RouteDeletion;
    for verb in [Verb::Get, Verb::Update] {
        let cluster = Cluster::new();
        let earlier = take(&budget_store(&cluster), brake).await;
        assert!(matches!(earlier, BudgetOutcome::Answered(Ok(()))));
        let one = budget_store(&cluster);
        let refused = FaultEffect::Refused {
            code: 401,
            retry_after: None,
        };
        cluster.inject(Fault::next(verb, "leases", refused));
        let failed = take(&one, brake).await;
        assert!(matches!(failed, BudgetOutcome::Failed(_)), "{failed}");
        assert_eq!(spend(&one, brake).await, 1, "one of two was spent before");
        assert_eq!(spend(&budget_store(&cluster), brake).await, 0);
    }
}

/// Such as an API server that has not read the rights yet. Without an election the right may be missing for good, which stops
/// no deletion.
#[tokio::test(start_paused = true)]
async fn a_lease_that_may_not_be_read_for_a_moment_counts_all_withdrawals_afterwards() {
    let brake = Brake::RouteDeletion;
    for (verb, refusals, left) in [
        (Verb::Get, 1, 0),
        (Verb::Update, 1, 0),
        (Verb::Get, 1000, 1),
    ] {
        let cluster = Cluster::new();
        let earlier = take(&budget_store(&cluster), brake).await;
        assert!(matches!(earlier, BudgetOutcome::Answered(Ok(()))));
        let one = budget_store(&cluster);
        let refused = FaultEffect::Refused {
            code: 403,
            retry_after: None,
        };
        cluster.inject(Fault::next(verb, "leases", refused).times(refusals));
        let unsaved = take(&one, brake).await;
        assert!(
            matches!(unsaved, BudgetOutcome::Answered(Ok(()))),
            "{unsaved}"
        );
        assert_eq!(spend(&one, brake).await, left, "{verb:?}, {refusals}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_that_the_budget_of_all_providers_holds_is_shown_as_such() {
    let one = budget_store(&Cluster::new());
    let brake = Brake::NodeDeletion;
    assert_eq!(spend(&one, brake).await, 3);
    let other = one.take("other", "it", (brake, Rise::NONE), || FEW).await;
    assert!(matches!(other, BudgetOutcome::Answered(Err(_))), "{other}");
    let shown = || {
        let levels = one.balance.lock().levels(&one.allowances, one.clock);
        let level = |level: BrakeReport| {
            let is_held = level.held.is_some();
            (level.provider, level.taken, is_held, level.is_spent_by_all)
        };
        levels.into_iter().map(level).collect::<Vec<_>>()
    };
    let (sim, other) = (|| "sim".to_owned(), || "other".to_owned());
    let spent = [(other(), 0, true, true), (sim(), 3, true, true)];
    assert_eq!(shown(), spent);
    one.give_back("sim", brake);
    let room = [(other(), 0, true, false), (sim(), 2, true, false)];
    assert_eq!(shown(), room);
}
