//! The shipped guest's answers about a server that is gone, and about servers that only seem to be: another project's
//! credential, false lists, failing pages. A node is only deleted by complete answers without `unknown` that find
//! known-good nodes.

use ccm_core::cloud::{CloudNode, FindReply, Lookup, ProviderError};
use ccm_host::Provider;
use ccm_sim::hetzner::{Fault, ServerSpec, ServerStatus, Trouble};
use ccm_sim::robot;

use crate::hcloud::world::{PASSWORD, TOKEN, World, brief, node, silent};

const OTHER_TOKEN: &str = "a-token-of-another-project";
const READ_TOKEN: &str = "a-token-that-may-only-read";

type Test = (&'static str, fn(&World));

pub(crate) const TESTS: &[Test] = &[
    (
        "a_server_that_is_gone_is_gone_beside_known_good_ones_in_every_answer",
        gone,
    ),
    (
        "each_status_of_a_server_exists_and_only_off_is_shut_down",
        statuses,
    ),
    (
        "e13_another_projects_token_finds_no_known_good_node",
        of_another_project,
    ),
    (
        "e13_another_large_projects_token_finds_no_known_good_node_either",
        of_another_large_project,
    ),
    ("a_node_without_neighbours_gets_complete_answers", lone),
    ("e12_a_revoked_token_says_nothing_about_any_node", revoked),
    ("e12_a_token_that_may_only_read_is_enough", read_only),
    (
        "e10_an_empty_list_makes_few_nodes_exist_and_many_unvouched_for",
        empty_list,
    ),
    (
        "e9_a_page_that_fails_makes_the_answer_incomplete",
        failing_page,
    ),
    (
        "e9_a_page_that_names_itself_as_the_next_one_proves_nothing",
        circular_page,
    ),
    (
        "e11_a_list_without_half_of_its_servers_makes_none_gone",
        half_a_list,
    ),
    ("e14_servers_that_no_list_shows_yet_exist", unlisted),
    ("a_404_that_is_not_the_apis_proves_nothing", foreign_404),
    ("a_check_costs_one_request_or_one_for_each_node", counts),
    ("neither_cloud_is_asked_about_the_other_ones_nodes", apart),
];

/// A node whose kubelet does not report, on the server `id`, and three known-good ones.
fn check(id: u64, known_good: &[u64]) -> Vec<CloudNode> {
    let on = |id: u64| node(&format!("node-{id}"), Some(format!("hcloud://{id}")));
    let mut nodes = vec![silent(on(id))];
    nodes.extend(known_good.iter().take(3).map(|id| on(*id)));
    nodes
}

fn servers(world: &World, count: usize) -> Vec<u64> {
    let specs = (1..=count).map(|number| ServerSpec::named(format!("node-{number}")));
    world.cloud.add_servers(specs)
}

/// Whether an answer may prove absence, by core's rules.
fn is_proof(reply: &FindReply) -> bool {
    let is_unknown = |lookup: &Lookup| matches!(lookup, Lookup::Unknown(_));
    reply.complete && !reply.lookups.iter().any(is_unknown)
}

/// An ordinary answer, one that may use cached data of the first, and a fresh one.
fn answers(world: &World, provider: &Provider, nodes: &[CloudNode]) -> [FindReply; 3] {
    [
        world.find(provider, nodes),
        world.find(provider, nodes),
        world.find_fresh(provider, nodes),
    ]
}

fn gone(world: &World) {
    let ids = servers(world, 300);
    let provider = world.load(None, &[]).unwrap();
    // The whole project is looked up and cached before.
    let all: Vec<CloudNode> = ids.iter().flat_map(|id| check(*id, &[])).collect();
    world.find(&provider, &all);
    for (victim, known_good) in [(299, [0, 100, 200]), (0, [298, 297, 296]), (50, [1, 2, 3])] {
        let known_good = known_good.map(|index: usize| ids[index]);
        world.cloud.remove_server(ids[victim]);
        for reply in answers(world, &provider, &check(ids[victim], &known_good)) {
            let mut expected = vec!["gone".to_owned()];
            expected.extend(known_good.map(|id| format!("hcloud://{id}")));
            assert_eq!(brief(&reply), expected);
            assert!(is_proof(&reply), "{reply:?}");
        }
    }
}

fn statuses(world: &World) {
    let ids = servers(world, 4);
    let provider = world.load(None, &[]).unwrap();
    let nodes = check(ids[0], &ids[1..]);
    for status in [
        ServerStatus::Running,
        ServerStatus::Initializing,
        ServerStatus::Starting,
        ServerStatus::Stopping,
        ServerStatus::Off,
        ServerStatus::Deleting,
        ServerStatus::Rebuilding,
        ServerStatus::Migrating,
        ServerStatus::Unknown,
    ] {
        world.cloud.set_status(ids[0], status);
        for reply in answers(world, &provider, &nodes) {
            let Lookup::Found(instance) = &reply.lookups[0] else {
                panic!("{status:?}: {reply:?}");
            };
            assert_eq!(
                instance.shutdown,
                Some(status == ServerStatus::Off),
                "{status:?}"
            );
        }
    }
}

fn of_another_project(world: &World) {
    let ids = servers(world, 4);
    let other = world.cloud.project(OTHER_TOKEN);
    let provider = world.load_with(OTHER_TOKEN, None, &[]).unwrap();
    let nodes = check(ids[0], &ids[1..]);
    for _ in 0..2 {
        for reply in answers(world, &provider, &nodes) {
            // The answers are true and complete, and about the other project.
            assert_eq!(brief(&reply), ["gone"; 4]);
            assert!(is_proof(&reply), "{reply:?}");
        }
        // A project with servers of its own gives the same answers.
        other.add_server(ServerSpec::named("of-somebody-else"));
    }
    assert!(world.cloud.requests().is_empty());
}

fn of_another_large_project(world: &World) {
    let ids = servers(world, 4);
    let other = world.cloud.project(OTHER_TOKEN);
    other.add_servers((0..300).map(|number| ServerSpec::named(format!("other-{number}"))));
    let provider = world.load_with(OTHER_TOKEN, None, &[]).unwrap();
    let nodes = check(ids[0], &ids[1..]);
    for reply in answers(world, &provider, &nodes) {
        assert_eq!(brief(&reply), ["gone"; 4]);
        assert!(is_proof(&reply), "{reply:?}");
    }
    // Nothing is proven about Ready nodes: no decision needs it.
    let [_, then, _] = answers(world, &provider, &nodes[1..]);
    assert!(!is_proof(&then), "{then:?}");
}

fn lone(world: &World) {
    let ids = servers(world, 2);
    let provider = world.load(None, &[]).unwrap();
    let nodes = check(ids[0], &[]);
    for expected in [format!("hcloud://{}", ids[0]), "gone".to_owned()] {
        for reply in answers(world, &provider, &nodes) {
            assert_eq!(brief(&reply), [expected.as_str()]);
            assert!(is_proof(&reply), "{reply:?}");
        }
        world.cloud.remove_server(ids[0]);
    }
}

fn revoked(world: &World) {
    let ids = servers(world, 4);
    let provider = world.load(None, &[]).unwrap();
    let nodes = check(ids[0], &ids[1..]);
    world.find(&provider, &nodes);
    world.cloud.set_token("another-one");
    world.cloud.clear_requests();
    let is_denied = |answer: Result<FindReply, ProviderError>| {
        assert!(
            matches!(answer, Err(ProviderError::Denied(_))),
            "{answer:?}"
        );
    };
    is_denied(world.try_find(&provider, &nodes));
    is_denied(world.try_find_fresh(&provider, &nodes));
    assert_eq!(world.cloud.requests().len(), 2, "one each");
    // As soon as the token is valid again, the answers are right again.
    world.cloud.set_token(TOKEN);
    assert!(is_proof(&world.find(&provider, &nodes)));
}

fn read_only(world: &World) {
    let ids = servers(world, 5);
    world.cloud.set_read_token(READ_TOKEN);
    let provider = world.load_with(READ_TOKEN, None, &[]).unwrap();
    world.cloud.remove_server(ids[0]);
    for reply in answers(world, &provider, &check(ids[0], &ids[1..])) {
        assert_eq!(brief(&reply)[0], "gone");
        assert!(is_proof(&reply), "{reply:?}");
    }
}

fn empty_list(world: &World) {
    let ids = servers(world, 40);
    let provider = world.load(None, &[]).unwrap();
    world.cloud.inject(Fault::new(Trouble::EmptyList));
    for reply in answers(world, &provider, &check(ids[0], &ids[1..])) {
        assert!(brief(&reply).iter().all(|one| one.starts_with("hcloud://")));
    }
    let mut many = check(ids[0], &ids[1..]);
    many.extend(ids[4..].iter().flat_map(|id| check(*id, &[])));
    for reply in answers(world, &provider, &many) {
        assert!(
            brief(&reply).iter().all(|one| one == "gone"),
            "known-good ones too"
        );
    }
}

fn failing_page(world: &World) {
    let ids = servers(world, 250);
    let provider = world.load(None, &[]).unwrap();
    let failure = Trouble::Foreign {
        status: 500,
        content_type: "text/plain".to_owned(),
        body: b"oops".to_vec(),
    };
    world
        .cloud
        .inject(Fault::new(failure).path("/servers?").page(2));
    let mut all: Vec<CloudNode> = ids.iter().flat_map(|id| check(*id, &[])).collect();
    all.extend(check(99_999, &[]));
    for reply in answers(world, &provider, &all) {
        assert!(!reply.complete);
        assert!(!reply.lookups.contains(&Lookup::Gone));
        let reported = brief(&reply);
        assert!(
            reported[..50]
                .iter()
                .all(|one| one.starts_with("hcloud://")),
            "{reported:?}"
        );
        assert_eq!(reported[250], "unknown");
    }
    // A look-up of few nodes does not need that page.
    for reply in answers(world, &provider, &check(99_999, &ids[60..])) {
        assert_eq!(brief(&reply)[0], "gone");
        assert!(is_proof(&reply), "{reply:?}");
    }
}

fn circular_page(world: &World) {
    let ids = servers(world, 250);
    let mut all: Vec<CloudNode> = ids.iter().flat_map(|id| check(*id, &[])).collect();
    all.extend(check(99_999, &[]));
    // Few enough servers are beyond the last page to be asked for one by one.
    for (page, expected) in [(1, "unknown"), (2, "unknown"), (5, "gone")] {
        let provider = world.load(None, &[]).unwrap();
        let fault = Fault::new(Trouble::NextPageIsThisPage).path("/servers?");
        world.cloud.inject(fault.page(page));
        for reply in [
            world.find_fresh(&provider, &all),
            world.find(&provider, &all),
        ] {
            let reported = brief(&reply);
            assert_eq!(reported[250], expected, "{page}");
            assert_eq!(is_proof(&reply), expected == "gone", "{page}");
            assert!(reported[..250].iter().all(|one| one != "gone"), "{page}");
        }
        world.cloud.clear_faults();
        let reply = world.find_fresh(&provider, &all);
        assert_eq!(brief(&reply)[250], "gone", "{page}");
    }
}

fn half_a_list(world: &World) {
    let ids = servers(world, 40);
    let provider = world.load(None, &[]).unwrap();
    world.cloud.inject(Fault::new(Trouble::PartialPage));
    for reply in answers(world, &provider, &check(ids[39], &ids[..3])) {
        assert!(brief(&reply).iter().all(|one| one.starts_with("hcloud://")));
    }
}

fn unlisted(world: &World) {
    let ids = servers(world, 4);
    let provider = world.load(None, &[]).unwrap();
    world
        .cloud
        .set_listing_delay(std::time::Duration::from_secs(3600));
    for reply in answers(world, &provider, &check(ids[0], &ids[1..])) {
        assert!(brief(&reply).iter().all(|one| one.starts_with("hcloud://")));
    }
}

fn foreign_404(world: &World) {
    let ids = servers(world, 300);
    let provider = world.load(None, &[]).unwrap();
    let html = Trouble::Foreign {
        status: 404,
        content_type: "text/html".to_owned(),
        body: b"<html>nothing here</html>".to_vec(),
    };
    world.cloud.inject(Fault::new(html).path("/servers/"));
    let nodes = check(99_999, &ids[200..]);
    for reply in answers(world, &provider, &nodes) {
        assert_eq!(brief(&reply), ["unknown"; 4]);
        assert!(!is_proof(&reply));
    }
}

fn counts(world: &World) {
    let mut ids = servers(world, 5);
    let provider = world.load(None, &[]).unwrap();
    // Servers, requests of a look-up, requests of a confirming one, and both when the server is gone.
    for (count, there, there_fresh, gone, gone_fresh) in
        [(5, 1, 1, 2, 2), (100, 2, 2, 2, 2), (1000, 4, 4, 4, 2)]
    {
        let more = (ids.len()..count).map(|number| ServerSpec::named(format!("more-{number}")));
        ids.extend(world.cloud.add_servers(more));
        // The look-up is about half of them, so that the list's length is known.
        let half: Vec<CloudNode> = ids
            .iter()
            .step_by(2)
            .flat_map(|id| check(*id, &[]))
            .collect();
        world.find(&provider, &half);
        let requests = |fresh: bool, nodes: &[CloudNode]| {
            world.cloud.clear_requests();
            let reply = match fresh {
                true => world.find_fresh(&provider, nodes),
                false => world.find(&provider, nodes),
            };
            assert!(is_proof(&reply));
            world.cloud.requests().len()
        };
        let nodes = check(ids[0], &ids[count - 3..]);
        for _ in 0..3 {
            assert_eq!(requests(false, &nodes), there, "{count}");
        }
        assert_eq!(requests(true, &nodes), there_fresh, "{count}");
        let nodes = check(99_999, &ids);
        assert_eq!(requests(false, &nodes), gone, "{count}");
        assert_eq!(requests(true, &nodes), gone_fresh, "{count}");
    }
}

fn apart(world: &World) {
    let ids = servers(world, 4);
    let numbers: Vec<u32> = (1..=4)
        .map(|number| {
            world
                .robot
                .add_server(robot::ServerSpec::named(format!("bare-{number}")))
        })
        .collect();
    let on = [("ROBOT_ENABLED", "true")];
    let provider = world.load(Some(PASSWORD), &on).unwrap();
    let in_cloud = check(99_999, &ids);
    let mut dedicated = vec![silent(node("bare-9", Some("hrobot://99999".to_owned())))];
    dedicated.extend(
        (1..)
            .zip(&numbers)
            .map(|(number, id)| node(&format!("bare-{number}"), Some(format!("hrobot://{id}")))),
    );

    let refusal = Trouble::TooManyRequests { retry_after: None };
    world.robot.inject(Fault::new(refusal));
    for reply in answers(world, &provider, &in_cloud) {
        assert_eq!(brief(&reply)[0], "gone");
        assert!(is_proof(&reply), "{reply:?}");
    }
    assert!(world.robot.requests().is_empty());

    world.robot.clear_faults();
    world.cloud.set_token("revoked");
    world.cloud.clear_requests();
    for reply in [
        world.find(&provider, &dedicated),
        world.find_fresh(&provider, &dedicated),
        world.find_fresh(&provider, &dedicated),
    ] {
        assert_eq!(brief(&reply)[0], "gone");
        assert!(
            brief(&reply)[1..]
                .iter()
                .all(|one| one.starts_with("hrobot://"))
        );
        assert!(is_proof(&reply), "{reply:?}");
    }
    assert!(world.cloud.requests().is_empty());

    // A power state that cannot be had proves nothing about others.
    dedicated[1] = silent(dedicated[1].clone());
    let refusal = Trouble::Refuse {
        status: 503,
        code: "UNAVAILABLE".to_owned(),
    };
    let refusal = Fault::new(refusal).path("/reset");
    world.robot.inject(refusal);
    world.robot.clear_requests();
    let reply = world.find_fresh(&provider, &dedicated);
    let requests = world.robot.requests();
    assert!(requests.iter().any(|one| one.path.contains("/reset")));
    assert_eq!(brief(&reply)[0], "gone");
    assert!(is_proof(&reply), "{reply:?}");
}
