//! Routes: the generation that answers, the hints, and the comparison of lists.

use std::sync::Arc;

use ccm_core::cloud::ProviderError;
use ccm_core::cloud::load_balancer::Progress;
use ccm_core::cloud::route::{CloudRoute, CreateRouteRequest, DeleteRouteRequest, RouteTarget};
use ccm_core::cloud_provider::CloudProvider as _;
use ccm_core::safety::permit::Access;

use super::scripted::{Play, Scripted, node, permit, route};
use super::shadow::{may, settle};

impl Play {
    async fn list(&self) -> Result<usize, ProviderError> {
        let listed = self.active.list_routes(&[node()], permit()).await;
        settle().await;
        listed.map(|listed| listed.routes.len())
    }

    /// The hints in the answers of both changes, create and delete.
    async fn change(&self, hint: Option<Arc<[u8]>>) -> [Option<Arc<[u8]>>; 2] {
        let create = CreateRouteRequest {
            node: Arc::new(node()),
            destination_cidr: "10.0.1.0/24".to_owned(),
            hint: hint.clone(),
        };
        let delete = DeleteRouteRequest {
            route: Arc::new(to_node("10.0.1.0/24")),
            hint,
        };
        let created = self.active.create_route(&create, permit()).await.unwrap();
        let deleted = self.active.delete_route(&delete, permit()).await.unwrap();
        [created, deleted].map(|reply| match reply.progress {
            Progress::Pending(pending) => pending.hint,
            Progress::Done => None,
        })
    }
}

fn to_node(destination: &str) -> CloudRoute {
    route(destination, RouteTarget::Node("worker-1".to_owned()))
}

fn lists(provider: &Scripted, lists: Vec<Result<Vec<CloudRoute>, ProviderError>>) {
    *provider.lists.lock().unwrap() = lists;
}

#[tokio::test]
async fn changes_of_routes_are_the_serving_ones_in_every_trial() {
    let play = Play::new();
    for begin in [Play::shadow, Play::canary] {
        begin(&play);
        for _ in 0..20 {
            play.change(None).await;
        }
    }
    assert_eq!(play.new.asked().len(), 0);
    assert_eq!(
        (play.old.times("create"), play.old.times("remove")),
        (40, 40)
    );
    assert_eq!(play.active.tally().serving.calls, 40, "of the second trial");
}

#[tokio::test]
async fn a_hint_about_a_route_goes_back_to_the_version_that_wrote_it_and_to_no_other() {
    let play = Play::new();
    let [hint, other] = play.change(None).await;
    assert!(hint.is_some() && hint == other, "{hint:?} {other:?}");
    play.change(hint.clone()).await;
    play.swaps();
    play.change(hint).await;
    let said = |provider: &Scripted| provider.hints.lock().unwrap().clone();
    let own: Arc<[u8]> = b"old"[..].into();
    assert_eq!(said(&play.old), [None, None, Some(own.clone()), Some(own)]);
    assert_eq!(said(&play.new), [None, None]);
}

/// The first list of a trial is compared, and then one in ten. The candidate may read, whatever the permit of the call
/// allowed.
#[tokio::test]
async fn one_list_in_ten_is_asked_of_the_candidate_once_more() {
    for (begin, compared) in [(Play::shadow as fn(&Play), 3), (Play::canary, 0)] {
        let play = Play::new();
        lists(&play.old, vec![Ok(vec![to_node("10.0.1.0/24")])]);
        lists(&play.new, vec![Ok(vec![to_node("10.0.1.0/24")])]);
        assert_eq!(play.list().await, Ok(1), "before the trial");
        begin(&play);
        let mut asked = Vec::new();
        for _ in 0..21 {
            assert_eq!(play.list().await, Ok(1));
            asked.push(play.new.asked().len());
        }
        assert_eq!((asked[0], asked[9], asked[10], asked[20]), (1, 1, 2, 3));
        let tally = play.active.tally();
        assert_eq!((tally.serving.calls, tally.candidate.calls), (21, 3));
        assert_eq!((tally.compared, tally.differences.len()), (compared, 0));
        for permit in play.new.permits.lock().unwrap().iter() {
            assert_eq!(may(permit, Access::Read), Ok(()));
            assert!(may(permit, Access::Write).is_err());
        }
    }
}

#[tokio::test]
async fn nobody_waits_for_a_candidates_list_and_it_ends_with_the_trial() {
    let play = Play::new();
    play.new.close();
    play.canary();
    for _ in 0..30 {
        play.list().await.unwrap();
    }
    assert_eq!(play.new.asked(), ["list"]);
    play.ends_trial();
    settle().await;
    assert_eq!(Arc::strong_count(&play.new), 1);
}

/// The candidate's list, where the serving one lists a route to the node, and the reported difference.
#[tokio::test]
async fn lists_are_compared_by_where_each_network_leads() {
    let outdated = RouteTarget::Outdated("worker-1".to_owned());
    let other = |text: &str| route("10.9.0.0/24", RouteTarget::Other(text.to_owned()));
    let mine = || vec![to_node("10.0.1.0/24"), to_node("2001:db8::/64"), other("a")];
    let rows = [
        (mine(), None),
        // Order, spelling, IDs and descriptions are the version's own.
        (
            vec![
                other("b"),
                CloudRoute {
                    id: "2".to_owned(),
                    ..to_node("2001:db8:0::/64")
                },
                to_node("10.0.1.7/24"),
            ],
            None,
        ),
        (
            [mine(), vec![to_node("10.0.2.0/24")]].concat(),
            Some("route 10.0.2.0/24: leads to none, and node/worker-1 by the candidate"),
        ),
        (
            vec![to_node("10.0.1.0/24"), other("a")],
            Some("route 2001:db8::/64: leads to node/worker-1, and none by the candidate"),
        ),
        (
            vec![
                route("10.0.1.0/24", outdated),
                to_node("2001:db8::/64"),
                other("a"),
            ],
            Some(
                "route 10.0.1.0/24: leads to node/worker-1, and outdated node/worker-1 by the candidate",
            ),
        ),
        (
            vec![
                to_node("10.0.1.0/24"),
                to_node("2001:db8::/64"),
                route("10.9.0.0/24", RouteTarget::Blackhole),
            ],
            Some("route 10.9.0.0/24: leads to other, and blackhole by the candidate"),
        ),
        (
            [mine(), vec![to_node("10.0.1.0/24")]].concat(),
            Some(
                "route 10.0.1.0/24: leads to node/worker-1, and node/worker-1, node/worker-1 by the candidate",
            ),
        ),
        (
            [
                mine(),
                vec![route("no\u{1b}[2Jwhere", RouteTarget::Blackhole)],
            ]
            .concat(),
            Some("route no\\u{1b}[2Jwhere: leads to none, and blackhole by the candidate"),
        ),
    ];
    for (theirs, told) in rows {
        let play = Play::new();
        lists(&play.old, vec![Ok(mine())]);
        lists(&play.new, vec![Ok(theirs)]);
        play.shadow();
        play.list().await.unwrap();
        let tally = play.active.tally();
        assert_eq!(tally.compared, 1, "{told:?}");
        assert_eq!(tally.differences, Vec::from_iter(told));
        // With a difference, both are asked twice.
        let asked = 1 + usize::from(told.is_some());
        assert_eq!(
            (play.old.asked().len(), play.new.asked().len()),
            (asked, asked)
        );
    }
}

#[tokio::test]
async fn a_difference_of_lists_that_is_gone_at_the_second_look_is_none() {
    let play = Play::new();
    let route = || Ok(vec![to_node("10.0.1.0/24")]);
    lists(&play.old, vec![Ok(Vec::new()), route()]);
    lists(&play.new, vec![route()]);
    play.shadow();
    play.list().await.unwrap();
    let tally = play.active.tally();
    assert_eq!((tally.compared, tally.differences.len()), (1, 0));
    // The further list counts: twenty pass before the next one.
    for (more, expected) in [(19, 2), (1, 3)] {
        for _ in 0..more {
            play.list().await.unwrap();
        }
        assert_eq!(play.new.times("list"), expected);
    }
}

#[tokio::test]
async fn a_candidate_whose_list_ends_in_a_trap_has_failed_in_every_trial() {
    for begin in [Play::shadow, Play::canary] {
        let play = Play::new();
        let trapped = ProviderError::Trapped("unreachable".to_owned());
        lists(&play.new, vec![Err(trapped)]);
        begin(&play);
        assert_eq!(play.list().await, Ok(0), "the other one's");
        let tally = play.active.tally();
        let expected = "routes.list: trapped: unreachable";
        assert_eq!(tally.fatal.as_deref(), Some(expected));
        assert_eq!(tally.compared, 0);
    }
}
