//! Only the mark and the host's permission decide who owns an object.

use super::*;
use crate::testing::service;

#[test]
fn an_object_is_ours_adoptable_or_a_conflict_that_names_its_owner() {
    let ours = || Ok(Claim::Ours);
    let adoptable = || Ok(Claim::Adoptable);
    let of = |uid: &str| Some(Owner::uid(uid));
    let named = |name: &str| Some(Owner::name("default", name));
    let elsewhere = || Some(Owner::name("other", "web"));
    let nobody = |namespace: &str, name: &str| Some(Owner::name(namespace, name));
    let by = |owner: Option<Owner>| owner.map(Adoption::Owned);
    let unowned = || Some(Adoption::Unowned);
    let table = [
        (of("uid"), None, ours()),
        (of("uid"), by(of("other")), ours()),
        (of("other"), None, Err(of("other"))),
        (of("other"), unowned(), Err(of("other"))),
        (of("other"), by(of("another")), Err(of("other"))),
        (of("other"), by(of("other")), adoptable()),
        (None, None, Err(None)),
        (None, by(of("other")), Err(None)),
        (None, unowned(), adoptable()),
        (of(""), None, Err(None)),
        (of(""), unowned(), adoptable()),
        (named("web"), None, ours()),
        (named("web"), by(named("other")), ours()),
        (elsewhere(), None, Err(elsewhere())),
        (named("other"), None, Err(named("other"))),
        (named("other"), unowned(), Err(named("other"))),
        (named("other"), by(elsewhere()), Err(named("other"))),
        (named("other"), by(named("other")), adoptable()),
        (named("other"), by(of("other")), Err(named("other"))),
        (of("other"), by(named("other")), Err(of("other"))),
        (None, by(named("other")), Err(None)),
        (named(""), unowned(), adoptable()),
        // No object can be called that: the host would refuse such an owner.
        (nobody("", "web"), None, Err(None)),
        (nobody("d", "A b"), None, Err(None)),
        (nobody("d", "A b"), unowned(), Err(None)),
        (of("a b"), None, Err(None)),
        (of(&"a".repeat(129)), None, Err(None)),
        (of("a b"), by(of("a b")), adoptable()),
    ];
    let service = Service {
        uid: "uid".to_owned(),
        ..service("web", &[])
    };
    for (owner, adopt, expected) in table {
        let claimed = claim(&service, adopt.as_ref(), "load balancer 7", owner.as_ref());
        let reported = claimed.map_err(|error| match error {
            Error::Conflict(conflict) => {
                assert!(conflict.message.starts_with("load balancer 7 "));
                conflict.owner
            }
            other => panic!("{other:?}"),
        });
        assert_eq!(reported, expected, "{owner:?} {adopt:?}");
    }
}

#[test]
fn one_object_has_the_mark_or_a_person_has_to_look() {
    let id = |id: &u64| id.to_string();
    assert_eq!(only_one(Vec::new(), "uid=1", id), Ok(None));
    assert_eq!(only_one(vec![7], "uid=1", id), Ok(Some(7)));
    let Err(Error::Invalid(message)) = only_one(vec![7, 8], "uid=1", id) else {
        panic!("two are not one")
    };
    assert!(message.contains("uid=1: 7 and 8"), "{message}");
}

#[test]
fn a_uid_is_a_label_only_if_it_means_nothing_else_there() {
    let long = "a".repeat(64);
    for wrong in ["", "a,b", "a=b", "!a", "a b", "(a)", "ü", long.as_str()] {
        assert!(label_value(wrong).is_err(), "{wrong:?}");
    }
    let uid = "0b1f6d5e-7a3c-4c55-9e0a-2f1d3b4c5a69";
    assert_eq!(label_value(uid), Ok(uid));
}
