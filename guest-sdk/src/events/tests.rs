//! The host takes what is left within the limits.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::testing::{TestHost, json, node};
use crate::{Config, Error, FindReply, Instances, Lookup, Node, Provider};

/// Adds this many events about each node.
struct ManyEvents(usize);

impl Provider for ManyEvents {
    fn init(_: &Config) -> Result<ManyEvents, Error> {
        Ok(ManyEvents(0))
    }
}

impl Instances for ManyEvents {
    fn find(&self, nodes: Vec<Node>) -> Result<FindReply, Error> {
        let mut events = Events::default();
        for index in 0..nodes.len() {
            (0..self.0).for_each(|_| events.add(index, Event::warning("Twin", "two of a name")));
        }
        let lookups = nodes.iter().map(|_| Lookup::NotMine).collect();
        Ok(FindReply::new(lookups).with_events(events.into_vec()))
    }
}

#[test]
fn events_beyond_the_limits_are_dropped() {
    let host = TestHost::open(|_| json(200, "{}"));
    // Nodes, events added about each, and those left.
    for (nodes, each, left) in [
        (1, 3, 3),
        (1, 9, 8),
        (3, 9, 24),
        (300, 1, 256),
        (40, 8, 256),
    ] {
        let nodes = (0..nodes).map(|index| node(&format!("node-{index}"), None));
        let reply = host.find(&ManyEvents(each), nodes.collect()).unwrap();
        assert_eq!(reply.events.len(), left, "{each} of each");
    }
}

#[test]
fn events_are_counted_for_each_node_in_any_order() {
    let mut events = Events::default();
    for _ in 0..9 {
        for node in [0, 1] {
            events.add(node, Event::warning("Twin", "two of a name"));
        }
    }
    assert_eq!(events.into_vec().len(), 16, "eight about each node");
}

#[test]
fn a_reply_has_the_first_events_about_each_node() {
    for (nodes, left) in [(1, 8), (2, 16), (40, 256)] {
        let event = |index: u32| NodeEvent {
            node: index / 9,
            event: Event::warning("Twin", "two of a name"),
        };
        let events = (0..nodes * 9).map(event).collect();
        let reply = FindReply::new(Vec::new()).with_events(events);
        assert_eq!(
            reply.events.len(),
            left,
            "nine events about each of {nodes}"
        );
    }
}
