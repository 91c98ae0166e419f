//! The misbehaving guest, called natively through the `TestHost`: its invalid answers fail with the messages of the
//! real host's laws, and its requests have the same results.

use ccm_guest::load_balancer::{DeleteRequest, EnsureRequest, UpdateRequest};
use ccm_guest::testing::{TestHost, config, node, service, status};
use ccm_guest::{Error, FindReply, Lookup, Node, routes};
use ccm_tests::harness::Test;
use guest_misbehaving::behaviour::{Balancing, Behaviour, Routing};
use guest_misbehaving::provider::Misbehaving;

use crate::misbehaving::law::End;
use crate::misbehaving::load_balancers::steps::Function as Balancer;
use crate::misbehaving::routes::replies::Function as Router;
use crate::misbehaving::{behaviours, load_balancers, routes as routing_laws, steps};

pub(crate) const TESTS: &[Test] = &[
    ("answers::about_nodes_fail_alike", about_nodes_fail_alike),
    (
        "answers::about_load_balancers_fail_alike",
        about_load_balancers_fail_alike,
    ),
    ("answers::about_routes_fail_alike", about_routes_fail_alike),
    ("answers::of_doors_are_alike", of_doors_are_alike),
];

const MANIFEST: &str = include_str!("../../guests/misbehaving/manifest.json");

/// The laws of these behaviours are about secrets and control characters in the operator's log.
const ABOUT_LOGS: [Behaviour; 3] = [
    Behaviour::GarbageError,
    Behaviour::HugeGarbageError,
    Behaviour::TokenAsLabel,
];

/// Behaviours at interfaces that the SDK's host has, too.
const SHARED_INTERFACES: [Behaviour; 9] = [
    Behaviour::HttpInInit,
    Behaviour::OtherPath,
    Behaviour::OtherMethod,
    Behaviour::OtherTarget,
    Behaviour::PathTricks,
    Behaviour::HostHeaders,
    Behaviour::HugeBody,
    Behaviour::StateOverflow,
    Behaviour::StateHugeValue,
];

fn nodes() -> Vec<Node> {
    ["one", "two"].map(|name| node(name, None)).to_vec()
}

/// Runs `call` with the guest and its host.
fn natively<T>(words: &[(&str, &str)], call: impl FnOnce(&TestHost, &Misbehaving) -> T) -> T {
    let host = TestHost::new(MANIFEST, |_| status(200));
    let provider = host.init(&config(words)).unwrap();
    call(&host, &provider)
}

fn find(behaviour: Behaviour) -> Result<FindReply, Error> {
    let words = [("behaviour", behaviour.word())];
    natively(&words, |host, provider| host.find(provider, nodes()))
}

/// Checks that the call failed with these texts.
fn assert_fails<T>(what: &str, end: Result<T, Error>, words: &[&str]) {
    match end {
        Err(Error::Internal(text)) => {
            let all = words.iter().all(|word| text.contains(word));
            assert!(all, "{what}: {text:?} lacks one of {words:?}");
        }
        Err(other) => panic!("{what}: {other:?}"),
        Ok(_) => panic!("{what}: the answer was taken"),
    }
}

fn about_nodes_fail_alike() {
    let mut checked = 0;
    for behaviour in Behaviour::ALL {
        if let End::Fails("internal", words) = behaviours::law(*behaviour).end
            && !ABOUT_LOGS.contains(behaviour)
        {
            assert_fails(behaviour.word(), find(*behaviour), words);
            checked += 1;
        }
    }
    assert!(checked >= 10, "{checked} laws");
    assert!(find(Behaviour::Honest).is_ok());
}

fn of_doors_are_alike() {
    for behaviour in SHARED_INTERFACES {
        let End::AnswersText(beginning) = behaviours::law(behaviour).end else {
            panic!("{behaviour:?} says something")
        };
        for lookup in find(behaviour).unwrap().lookups {
            match lookup {
                Lookup::Unknown(text) => {
                    assert!(text.starts_with(beginning), "{behaviour:?}: {text}");
                }
                other => panic!("{behaviour:?}: {other:?}"),
            }
        }
    }
}

fn about_load_balancers_fail_alike() {
    let mut checked = 0;
    for balancing in Balancing::ALL {
        for step in load_balancers::law(*balancing).steps {
            let steps::End::Fails("internal", words) = step.end else {
                continue;
            };
            let chosen = [("behaviour", "honest"), ("balancing", balancing.word())];
            let end = natively(&chosen, |host, provider| {
                let service = service("web", &[(80, 30_080)]);
                match step.function {
                    Balancer::Ensure => {
                        let request = EnsureRequest::new(service, nodes());
                        host.ensure(provider, request).map(drop)
                    }
                    Balancer::UpdateTargets => {
                        let request = UpdateRequest::new(service, nodes());
                        host.update_targets(provider, request).map(drop)
                    }
                    Balancer::Delete => {
                        let request = DeleteRequest::new(service);
                        host.delete(provider, request).map(drop)
                    }
                    Balancer::Get => host.get(provider, service).map(drop),
                }
            });
            assert_fails(
                balancing.word(),
                end.map_err(|failure| failure.error),
                words,
            );
            checked += 1;
        }
    }
    assert!(checked >= 15, "{checked} laws");
}

fn about_routes_fail_alike() {
    let mut checked = 0;
    for routing in Routing::ALL {
        for step in routing_laws::law(*routing).steps {
            let steps::End::Fails("internal", words) = step.end else {
                continue;
            };
            let chosen = [("behaviour", "honest"), ("routing", routing.word())];
            let end = natively(&chosen, |host, provider| {
                let cidr = "10.0.1.0/24";
                match step.function {
                    Router::List => host.list_routes(provider, nodes()).map(drop),
                    Router::Create => {
                        let request = routes::CreateRequest::new(node("one", None), cidr);
                        host.create_route(provider, request).map(drop)
                    }
                    Router::Delete => {
                        let route = routes::Route::new(1, cidr, routes::Target::Blackhole);
                        let request = routes::DeleteRequest::new(route);
                        host.delete_route(provider, request).map(drop)
                    }
                }
            });
            assert_fails(routing.word(), end.map_err(|failure| failure.error), words);
            checked += 1;
        }
    }
    assert!(checked >= 15, "{checked} laws");
}
