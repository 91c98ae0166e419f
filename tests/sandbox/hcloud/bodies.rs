//! Answers with status 200 whose body is not the API's: they prove neither that a server exists nor that it is gone,
//! and the next good answer counts.

use ccm_core::cloud::{CloudNode, Lookup};
use ccm_sim::hetzner::{Fault, ServerSpec, Trouble};

use crate::hcloud::world::{World, brief, node};

type Test = (&'static str, fn(&World));

pub(crate) const TESTS: &[Test] = &[
    ("e3_a_body_that_cannot_be_read_says_nothing", unreadable),
    ("e4_a_page_for_people_or_nothing_at_all_says_nothing", pages),
    ("e5_an_error_with_a_good_status_says_nothing", errors),
    ("e15_ids_of_another_kind_say_nothing", ids),
];

/// A list of these servers with a valid last page.
fn list(servers: &str) -> String {
    let pages = r#""page":1,"per_page":50,"previous_page":null,"next_page":null,"last_page":1"#;
    let total = usize::from(!servers.is_empty());
    format!(
        r#"{{"servers":[{servers}],"meta":{{"pagination":{{{pages},"total_entries":{total}}}}}}}"#
    )
}

/// Replaces every answer by each body, for nodes that are looked up one by one and for as many as are listed.
fn nothing_follows(world: &World, kind: &str, bodies: &[(&str, String)]) {
    let specs = (0..40).map(|number| ServerSpec::named(format!("node-{number}")));
    let ids = world.cloud.add_servers(specs);
    let provider = world.load(None, &[]).unwrap();
    let nodes: Vec<CloudNode> = ids
        .iter()
        .map(|id| node(&format!("node-{id}"), Some(format!("hcloud://{id}"))))
        .collect();
    for (what, body) in bodies {
        // The body replaces one answer, or a list and the requests that follow because the list cannot be read.
        let all = (body.len() < 1 << 20).then_some(&nodes[..]);
        for asked in [&nodes[..1]].into_iter().chain(all) {
            world.cloud.inject(Fault::new(Trouble::Foreign {
                status: 200,
                content_type: kind.to_owned(),
                body: body.clone().into_bytes(),
            }));
            let replies = [
                world.try_find(&provider, asked),
                world.try_find_fresh(&provider, asked),
            ];
            // An error counts as `unknown` for every node.
            for reply in replies.into_iter().flatten() {
                let is_unknown = |one: &Lookup| matches!(one, Lookup::Unknown(_));
                let all = reply.lookups.iter().all(is_unknown);
                assert!(all, "{what}, of {}: {:?}", asked.len(), brief(&reply));
            }
            world.cloud.clear_faults();
            let reply = world.find_fresh(&provider, asked);
            let expected: Vec<_> = asked
                .iter()
                .flat_map(|node| node.provider_id.clone())
                .collect();
            assert_eq!(brief(&reply), expected, "after {what}");
        }
    }
}

fn unreadable(world: &World) {
    const DEEP: usize = 100_000;
    let digits = "9".repeat(10 << 20);
    let numbers = list("").replace(r#"{"servers":"#, r#"{"servers":[],"servers":"#);
    let bodies = [
        ("no JSON", "servers: []".to_owned()),
        ("half of it", list("").split_at(20).0.to_owned()),
        ("more than it", format!("{}]", list(""))),
        ("lists without end", "[".repeat(DEEP)),
        ("objects without end", r#"{"servers":"#.repeat(DEEP)),
        (
            "lists within lists",
            format!("{}{}", "[".repeat(DEEP), "]".repeat(DEEP)),
        ),
        (
            "a deep place for a server",
            list(&format!("{}{}", "[".repeat(DEEP), "]".repeat(DEEP))),
        ),
        (
            "as many in the place of a number",
            list("").replace("\"page\":1", &format!("\"page\":{digits}")),
        ),
        ("a list twice", numbers),
        (
            "a text for the list",
            r#"{"servers":"none","meta":{}}"#.to_owned(),
        ),
        (
            "nothing for the list",
            r#"{"servers":null,"meta":null}"#.to_owned(),
        ),
        ("a list for the object", "[]".to_owned()),
        (
            "letters that are none",
            "{\"servers\":[\"\\ud800\"]}".to_owned(),
        ),
    ];
    nothing_follows(world, "application/json", &bodies);
}

fn pages(world: &World) {
    let html = "<!doctype html><title>Sign in</title><form action=/login>".to_owned();
    for kind in ["text/html", "application/json"] {
        let bodies = [
            ("a page to sign in", html.clone()),
            ("nothing", String::new()),
            ("blanks", " \r\n".repeat(9)),
        ];
        nothing_follows(world, kind, &bodies);
    }
}

fn errors(world: &World) {
    let error =
        |code: &str| format!(r#"{{"error":{{"code":"{code}","message":"no","details":null}}}}"#);
    let both = list("").replacen('{', r#"{"error":{"code":"not_found","message":"no"},"#, 1);
    let bodies = [
        ("not found", error("not_found")),
        ("unauthorized", error("unauthorized")),
        ("a limit", error("rate_limit_exceeded")),
        ("an error beside an empty list", both),
    ];
    nothing_follows(world, "application/json", &bodies);
}

fn ids(world: &World) {
    let server = |id: &str| {
        list(&format!(
            r#"{{"id":{id},"name":"node-1","status":"running","public_net":{{}},"private_net":[]}}"#
        ))
    };
    let bodies = [
        ("a text", server("\"1\"")),
        ("a fraction", server("1.5")),
        ("more than there are", server("1e300")),
        ("less than nothing", server("-1")),
        ("nothing", server("null")),
    ];
    nothing_follows(world, "application/json", &bodies);
}
