//! Only the mark and the host's permission decide who owns an object.

use super::*;

#[test]
fn an_object_is_ours_adoptable_or_a_conflict_that_names_its_owner() {
    type Expected = Result<Claim, Option<&'static str>>;
    let ours: Expected = Ok(Claim::Ours);
    let adoptable: Expected = Ok(Claim::Adoptable);
    let table = [
        (Some("uid"), None, ours),
        (Some("uid"), Some("other"), ours),
        (Some("other"), None, Err(Some("other"))),
        (Some("other"), Some(""), Err(Some("other"))),
        (Some("other"), Some("another"), Err(Some("other"))),
        (Some("other"), Some("other"), adoptable),
        (None, None, Err(None)),
        (None, Some("other"), Err(None)),
        (None, Some(""), adoptable),
        (Some(""), None, Err(None)),
        (Some(""), Some(""), adoptable),
    ];
    for (owner, adopt, expected) in table {
        let allowed = adopt.map(|uid| match uid {
            "" => Adoption::Unowned,
            uid => Adoption::of(uid),
        });
        let reported =
            claim("uid", allowed.as_ref(), "load balancer 7", owner).map_err(|error| match error {
                Error::Conflict(conflict) => {
                    assert!(conflict.message.starts_with("load balancer 7 "));
                    conflict.owner
                }
                other => panic!("{other:?}"),
            });
        let expected = expected.map_err(|owner| owner.map(Owner::uid));
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
