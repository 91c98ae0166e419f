//! An answer that the contract does not allow concerns its node and no other.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::testing::{TestHost, json, node};
use crate::{Address, Config, Instance};

/// Answers with these look-ups, whatever the nodes.
struct Scripted(Vec<Lookup>);

impl Provider for Scripted {
    fn init(_: &Config) -> Result<Scripted, Error> {
        Ok(Scripted(Vec::new()))
    }
}

impl Instances for Scripted {
    fn find(&self, _: Vec<Node>) -> Result<FindReply, Error> {
        Ok(FindReply::new(self.0.clone()))
    }
}

#[test]
fn a_reply_collects_the_answers_with_the_events_about_their_nodes() {
    let unclear = Lookup::unclear("two of a name".to_owned());
    let reply: FindReply = [(Lookup::Gone, None), unclear].into_iter().collect();
    let why = Lookup::Unknown("two of a name".to_owned());
    assert_eq!(reply.lookups, [Lookup::Gone, why]);
    let event = Event::warning("InstanceLookupFailed", "two of a name");
    assert_eq!(reply.events, [NodeEvent { node: 1, event }]);
    let long = (Lookup::Unknown("a".repeat(1 << 20)), None::<Event>);
    let reply: FindReply = [long].into_iter().collect();
    let held = |one: &Lookup| matches!(one, Lookup::Unknown(why) if why.capacity() < 2048);
    assert!(reply.lookups.iter().all(held), "memory is given back");
}

#[test]
fn a_new_node_is_found_only_with_an_ip_address() {
    let (ip, name) = (Address::internal("10.0.7.3"), Address::hostname("a"));
    let key = "alpha.kubernetes.io/provided-node-ip";
    // The node's addresses, its --node-ip, the answered addresses.
    let table = [
        (vec![], "", vec![], false),
        (vec![name.clone()], "0.0.0.0", vec![], false),
        (vec![ip.clone()], "", vec![], true),
        (vec![name.clone()], "10.0.7.3", vec![], true),
        (vec![], "", vec![name.clone(), ip.clone()], true),
        // The answered ones replace those of the node.
        (vec![ip], "", vec![name], false),
    ];
    for (addresses, provided, answered, expected) in table {
        let described = format!("{addresses:?} {provided:?} {answered:?}");
        for initialized in [false, true] {
            let node = Node {
                addresses: addresses.clone(),
                annotations: vec![(key.to_owned(), provided.to_owned())],
                initialized,
                ..node("a", None)
            };
            let instance = Instance {
                addresses: answered.clone(),
                ..Instance::new("acme://1")
            };
            match Lookup::found_with_ip(&node, instance, "buy one") {
                Lookup::Found(_) => assert!(expected || initialized, "{described}"),
                Lookup::Unknown(why) => {
                    assert!(!expected && !initialized, "{described}: {why}");
                    assert!(why.ends_with("with --node-ip, or buy one"), "{why}");
                }
                other => panic!("{described}: {other:?}"),
            }
        }
    }
}

#[test]
fn an_answer_beyond_a_limit_costs_no_other_node_its_answer() {
    let found = |change: fn(&mut Instance)| {
        let mut instance = Instance::new("acme://1");
        change(&mut instance);
        Lookup::Found(instance)
    };
    let label = || ("key".to_owned(), "value".to_owned());
    let table = [
        (Lookup::Unknown("a".repeat(1024)), "a"),
        (Lookup::Unknown("a".repeat(1025)), "a"),
        (Lookup::Unknown("€".repeat(1025)), "€"),
        (found(|one| one.zone = Some("z".repeat(63))), "found"),
        (
            found(|one| one.zone = Some("z".repeat(64))),
            "64 bytes of a zone, at most 63",
        ),
        (
            found(|one| one.region = Some("z".repeat(64))),
            "of a region",
        ),
        (
            found(|one| one.instance_type = Some("z".repeat(64))),
            "of an instance type",
        ),
        (
            found(|one| one.addresses = vec![Address::internal("::1"); 65]),
            "65 addresses, at most 64",
        ),
        (
            found(|one| one.addresses = vec![Address::hostname("z".repeat(254))]),
            "254 bytes of an address",
        ),
        (
            found(|one| one.provider_id = format!("acme://{}", "1".repeat(512))),
            "519 bytes of a provider ID",
        ),
    ];
    let labels = vec![label(); 65];
    let too_many = Lookup::Found(Instance {
        labels,
        ..Instance::new("acme://1")
    });
    let table = table.into_iter().chain([(too_many, "65 labels")]);
    for (lookup, expected) in table {
        let host = TestHost::open(|_| json(200, "{}"));
        let provider = Scripted(vec![lookup, Lookup::Found(Instance::new("acme://2"))]);
        let nodes = vec![node("a", None), node("b", None)];
        let reply = host.find(&provider, nodes).unwrap();
        match &reply.lookups[0] {
            Lookup::Found(_) => assert_eq!(expected, "found"),
            Lookup::Unknown(reason) => {
                assert!(reason.contains(expected), "{reason}");
                assert!(reason.len() <= 1024);
            }
            other => panic!("{other:?}"),
        }
        assert!(matches!(reply.lookups[1], Lookup::Found(_)), "{expected}");
    }
}

#[test]
fn each_subject_of_the_questions_is_asked_about_once() {
    let questions = [
        Question::Id(8),
        Question::Name("b"),
        Question::Answered(Lookup::NotMine),
        Question::Id(7),
        Question::Id(8),
        Question::Name("b"),
    ];
    let (ids, names) = Question::subjects(&questions);
    assert!(ids.into_iter().eq([7, 8]) && names.into_iter().eq(["b"]));
}
