//! The holders of blocks: upstream's cases of the range allocator under their IDs in `tests/conformance.md`, and blocks
//! that two nodes want.

use super::world::*;
use crate::ipam::Memory;

/// Lets the memory see all nodes, as at the start, and returns their invalid pod CIDRs.
fn start(memory: &mut Memory, api: &Api) -> Vec<String> {
    let mut wrong = Vec::new();
    for node in api.nodes.values() {
        memory.see(node);
        let facts = memory.begin(node.clone());
        let invalid_pod_cidrs = facts
            .map(|facts| facts.invalid_pod_cidrs)
            .unwrap_or_default();
        wrong.extend(invalid_pod_cidrs.iter().map(ToString::to_string));
    }
    wrong
}

#[test]
fn ipam_022_what_existing_nodes_have_is_theirs_and_a_bad_one_stops_nobody() {
    let outside = "lies outside of --cluster-cidr";
    for (id, families, cidrs, wrong, used) in [
        (
            "TestOccupyPreExistingCIDR/01",
            "10.10.0.0/16 /24",
            "",
            "",
            0,
        ),
        (
            "TestOccupyPreExistingCIDR/02",
            "10.10.0.0/16 /24,ace:cab:deca::/48 /64",
            "",
            "",
            0,
        ),
        (
            "TestOccupyPreExistingCIDR/03",
            "10.10.0.0/16 /24",
            "10.10.0.1/24",
            "",
            1,
        ),
        (
            "TestOccupyPreExistingCIDR/04",
            "10.10.0.0/16 /24,ace:cab:deca::/48 /64",
            "10.10.0.1/24,ace:cab:deca::1/64",
            "",
            2,
        ),
        (
            "TestOccupyPreExistingCIDR/05",
            "10.10.0.0/16 /24",
            "10.0.0.1/24",
            outside,
            0,
        ),
        (
            "TestOccupyPreExistingCIDR/06",
            "10.10.0.0/16 /24",
            "10.10.0.1/24,ace:cab:deca::1/64",
            outside,
            1,
        ),
        (
            "TestOccupyPreExistingCIDR/07",
            "10.10.0.0/16 /24,ace:cab:deca::/48 /64",
            "172.10.0.1/24,ace:cab:deca::1/64",
            outside,
            1,
        ),
        (
            "TestOccupyPreExistingCIDR/08",
            "10.10.0.0/16 /24,ace:cab:deca::/48 /64",
            "10.10.0.1/24,cace:cab:deca::1/64",
            outside,
            1,
        ),
        (
            "65 letters, of which 64 are told",
            "10.10.0.0/16 /24",
            "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
            "\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\" is no CIDR",
            0,
        ),
    ] {
        let mut memory = memory(families, "");
        let mut api = Api::default();
        api.add(node("node0", "1", cidrs));
        api.add(node("other", "2", ""));
        let reported = start(&mut memory, &api);
        assert_eq!(
            reported.len(),
            usize::from(!wrong.is_empty()),
            "{id}: {reported:?}"
        );
        assert!(
            reported.iter().all(|reported| reported.ends_with(wrong)),
            "{id}: {reported:?}"
        );
        // For the other node a block of each range is reserved.
        let promised = families.split(',').count();
        let sets = memory.allocator().families().iter();
        let node0 = usize::from(cidrs.is_empty()) * promised;
        assert_eq!(
            sets.map(|set| set.used()).sum::<usize>(),
            used + promised + node0,
            "{id}"
        );
    }
}

#[test]
fn ipam_021_and_025_the_next_free_block_of_each_range_is_written() {
    let small = "127.123.234.0/24 /30";
    for (id, families, services, taken, expected) in [
        (
            "TestAllocateOrOccupyCIDRSuccess/01",
            small,
            "",
            "",
            "127.123.234.0/30",
        ),
        (
            "TestAllocateOrOccupyCIDRSuccess/02",
            small,
            "127.123.234.0/26",
            "",
            "127.123.234.64/30",
        ),
        (
            "TestAllocateOrOccupyCIDRSuccess/03",
            small,
            "127.123.234.0/26",
            "127.123.234.64/30 127.123.234.68/30 127.123.234.72/30",
            "127.123.234.76/30",
        ),
        (
            "TestAllocateOrOccupyCIDRSuccess/04",
            "127.123.234.0/8 /24,ace:cab:deca::/84 /98",
            "",
            "",
            "127.0.0.0/24,ace:cab:deca::/98",
        ),
        (
            "TestAllocateOrOccupyCIDRSuccess/05",
            "ace:cab:deca::/84 /98,127.123.234.0/8 /24",
            "",
            "",
            "ace:cab:deca::/98,127.0.0.0/24",
        ),
        (
            "TestAllocateOrOccupyCIDRSuccess/06",
            "127.123.234.0/8 /24,ace:cab:deca::/84 /98,10.0.0.0/24 /24",
            "",
            "",
            "127.0.0.0/24,ace:cab:deca::/98,10.0.0.0/24",
        ),
        (
            "TestAllocateOrOccupyCIDRSuccess/07",
            "10.10.0.0/22 /24",
            "",
            "10.10.0.0/24 10.10.2.0/24",
            "10.10.1.0/24",
        ),
    ] {
        let mut memory = memory(families, services);
        let mut api = Api::default();
        for (index, cidr) in taken.split_whitespace().enumerate() {
            api.add(node(&format!("node{index}"), &index.to_string(), cidr));
        }
        assert_eq!(start(&mut memory, &api), [""; 0], "{id}");
        api.add(node("new", "new", ""));
        let (done, _) = reconcile(&mut memory, &mut api, "new", Fate::Made);
        assert_eq!(
            done,
            [format!("patch node/new podCIDRs={expected}")],
            "{id}"
        );
    }
}

#[test]
fn ipam_025_without_a_free_block_nothing_is_written() {
    let id = "TestAllocateOrOccupyCIDRFailure/01";
    let mut memory = memory("127.123.234.0/28 /30", "");
    let mut api = Api::default();
    for last in [0, 4, 8, 12] {
        let name = format!("node{last}");
        api.add(node(&name, &name, &format!("127.123.234.{last}/30")));
    }
    start(&mut memory, &api);
    api.add(node("new", "new", ""));
    let (done, when) = reconcile(&mut memory, &mut api, "new", Fate::Made);
    assert_eq!(done, ["event node/new Warning CIDRNotAvailable"], "{id}");
    let why = "CIDR allocation failed; there are no remaining CIDRs left to allocate in the accepted range 127.123.234.0/28";
    assert!(when.to_string().ends_with(why), "{id}: {when}");
}

#[test]
fn ipam_024_the_block_of_a_deleted_node_is_free() {
    for (id, taken, freed, expected) in [
        (
            "TestReleaseCIDRSuccess/01",
            [0, 4, 8, 12].as_slice(),
            [8].as_slice(),
            ["127.123.234.8/30"].as_slice(),
        ),
        (
            "TestReleaseCIDRSuccess/02",
            &[0, 4, 8, 12],
            &[4, 8, 12],
            &["127.123.234.4/30", "127.123.234.8/30", "127.123.234.12/30"],
        ),
    ] {
        let mut memory = memory("127.123.234.0/28 /30", "");
        let mut api = Api::default();
        for last in taken {
            let name = format!("node{last}");
            api.add(node(&name, &name, &format!("127.123.234.{last}/30")));
        }
        start(&mut memory, &api);
        for last in freed {
            let name = format!("node{last}");
            api.nodes.remove(&name);
            memory.forget(&name);
            memory.forget(&name);
        }
        for (index, block) in expected.iter().enumerate() {
            let name = format!("new{index}");
            api.add(node(&name, &name, ""));
            let (done, _) = reconcile(&mut memory, &mut api, &name, Fate::Made);
            assert_eq!(
                done,
                [format!("patch node/{name} podCIDRs={block}")],
                "{id}"
            );
        }
    }
}

#[test]
fn edge_096_of_two_ranges_nothing_is_taken_when_one_is_full() {
    let mut memory = memory("10.0.0.0/16 /24,fd00::/64 /64", "");
    let mut api = Api::default();
    for name in ["a", "b"] {
        api.add(node(name, name, ""));
        reconcile(&mut memory, &mut api, name, Fate::Made);
    }
    for _ in 0..5 {
        reconcile(&mut memory, &mut api, "b", Fate::Made);
    }
    let used: Vec<usize> = memory
        .allocator()
        .families()
        .iter()
        .map(|set| set.used())
        .collect();
    assert_eq!(used, [1, 1], "only a's");
    assert_eq!(memory.woken(), [""; 0], "and nobody is woken by it");
    api.nodes.remove("a");
    memory.forget("a");
    assert_eq!(memory.woken(), ["b"]);
    let (done, _) = reconcile(&mut memory, &mut api, "b", Fate::Made);
    assert_eq!(done, ["patch node/b podCIDRs=10.0.1.0/24,fd00::/64"]);
}

#[test]
fn a_promise_is_broken_when_the_api_server_has_the_block_for_somebody_else() {
    let mut memory = memory("10.0.0.0/22 /24", "");
    let mut api = Api::default();
    api.add(node("a", "a", ""));
    api.add(node("b", "b", ""));
    start(&mut memory, &api);
    // Blocks are reserved for both; a's write has no answer, and an earlier leader has given a's block to b.
    reconcile(&mut memory, &mut api, "a", Fate::Lost);
    let late = node("b", "b", "10.0.0.0/24");
    api.add(late.clone());
    assert!(memory.see(&late));
    let (done, _) = reconcile(&mut memory, &mut api, "a", Fate::Made);
    assert_eq!(done, ["patch node/a podCIDRs=10.0.2.0/24"]);
    assert_eq!(
        memory.allocator().families()[0].used(),
        2,
        "what b was promised before is free"
    );
}

#[test]
fn a_node_that_gets_a_part_of_what_was_promised_to_it_keeps_the_whole_block_from_others() {
    let mut memory = memory("10.0.0.0/24 /24", "");
    let mut api = Api::default();
    api.add(node("a", "a", ""));
    api.add(node("b", "b", ""));
    assert!(memory.begin(api.get("a").unwrap()).is_some());
    api.add(node("a", "a", "10.0.0.0/25"));
    memory.see(&api.get("a").unwrap());
    let (done, _) = reconcile(&mut memory, &mut api, "b", Fate::Made);
    assert_eq!(done, ["event node/b Warning CIDRNotAvailable"]);
}

#[test]
fn two_nodes_with_the_same_block_are_told_and_it_is_free_when_both_are_gone() {
    let mut memory = memory("10.0.0.0/22 /24", "10.0.3.0/24");
    let mut api = Api::default();
    api.add(node("a", "a", "10.0.0.0/24"));
    api.add(node("b", "b", "10.0.0.128/25"));
    api.add(node("c", "c", "10.0.3.0/24"));
    api.add(node("d", "d", "what?"));
    let reported = start(&mut memory, &api);
    let expected = [
        "10.0.0.128/25 overlaps what belongs to node/a",
        "10.0.3.0/24 overlaps what belongs to the Services",
        "\"what?\" is no CIDR",
    ];
    assert_eq!(reported, expected);
    let used = |memory: &Memory| memory.allocator().families()[0].used();
    memory.forget("a");
    assert_eq!(used(&memory), 2);
    memory.forget("b");
    memory.forget("c");
    assert_eq!(used(&memory), 1, "the Services keep theirs");
}

#[test]
fn ipam_022_pod_cidrs_in_another_order_than_the_ranges_are_found() {
    let mut memory = memory("10.0.0.0/16 /24,fd00::/56 /64", "");
    let mut api = Api::default();
    api.add(node("a", "a", "fd00::/64,10.0.0.0/24"));
    assert_eq!(start(&mut memory, &api), [""; 0]);
    let used: Vec<usize> = memory
        .allocator()
        .families()
        .iter()
        .map(|set| set.used())
        .collect();
    assert_eq!(used, [1, 1]);
}
