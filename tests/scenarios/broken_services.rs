//! Tests of the laws about Services: clients and clouds with a defect, each of which must be noticed, and records that
//! no sound manager leaves behind.

use std::sync::Arc;
use std::time::Duration;

use ccm_core::cloud::load_balancer::Pending;
use ccm_core::cloud::{Owner, ProviderError};
use ccm_core::settings::{Adoption, ServiceRules};
use ccm_core::well_known::{LOAD_BALANCER_FINALIZER, SERVICE_OWNER};
use ccm_sim::cluster::{Request, Write};
use ccm_tests::harness::trial;
use libtest_mimic::{Failed, Trial};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::broken_clients::Tamper;
use crate::ingress_laws;
use crate::load_balancers::{Called, Changed, Operation, Recorded, Told};
use crate::script;
use crate::service_laws::{self, ServiceRecord};
use crate::world::{self, Run};

/// One Service of the provider and one of another controller; later ours is deleted.
const SCRIPT: &str = "\
# A Service has a load balancer, and later it has none.
controllers service
calm 100s 100s
node a provider-id=sim://a addr=InternalIP:10.1.0.1
service web port=80:30080 finalizer=other.example/hold condition=other.example/Seen:True
service theirs class=theirs port=81:30081 finalizer=service.kubernetes.io/load-balancer-cleanup
wait 10s
change service/web port=82:30082
wait 10s
delete service/web
wait 10s
";

/// The line before which a script's first lines are inserted.
const BEFORE: &str = "node a";

/// The name of the test, the first lines of the script, the defect, and the expected message.
const DEFECTS: [(&str, &str, Tamper, &str); 16] = [
    (
        "a_create_without_a_finalizer",
        "",
        Tamper::ForgetsFinalizer,
        "without finalizer and owner (S5)",
    ),
    (
        "a_finalizer_removed_before_the_load_balancer",
        "",
        Tamper::LeavesEarly,
        "removes the finalizer while there is",
    ),
    (
        "a_finalizer_removed_on_an_incomplete_answer",
        "balancer web incomplete\n",
        Tamper::BelievesIncomplete,
        "removes the finalizer before absence is proven (S5)",
    ),
    (
        "a_service_patch_without_a_uid",
        "",
        Tamper::DropsUid,
        "no UID precondition",
    ),
    (
        "a_written_spec",
        "",
        Tamper::WritesSpec,
        "writes a spec (S10)",
    ),
    (
        "an_annotation_on_a_service_that_nobody_owns",
        "",
        Tamper::Overreaches,
        "(S10)",
    ),
    (
        "others_conditions_that_are_forgotten",
        "",
        Tamper::ForgetsConditions,
        "(S10)",
    ),
    (
        "others_finalizers_that_are_forgotten",
        "",
        Tamper::ForgetsFinalizers,
        "(S10)",
    ),
    (
        "a_finalizer_of_another_class_that_is_removed",
        "",
        Tamper::TouchesOthers,
        "not ours (SVC-011)",
    ),
    (
        "an_address_of_the_cluster_in_a_status",
        "",
        Tamper::StealsAddresses,
        "(F18)",
    ),
    (
        "a_second_load_balancer_for_one_service",
        "",
        Tamper::MakesTwice,
        "at the same time (S6)",
    ),
    (
        "a_load_balancer_taken_from_somebody_else",
        "balancer web exists somebody\n",
        Tamper::TakesOver,
        "belongs to somebody else (S7)",
    ),
    (
        "a_deleted_load_balancer_of_somebody_else",
        "balancer web exists somebody\n",
        Tamper::DeletesByName,
        "belongs to somebody else (S7)",
    ),
    (
        "a_change_without_its_record",
        "",
        Tamper::ChangesUnasked,
        "has no record (S12)",
    ),
    (
        "a_change_in_plan_mode",
        "plan\n",
        Tamper::ChangesUnasked,
        "nothing may be changed",
    ),
    (
        "a_cloud_that_is_asked_again_too_soon",
        "balancer web fails throttled 120\n",
        Tamper::Impatient,
        "too soon: throttled",
    ),
];

type Test = fn() -> Result<(), Failed>;

pub(crate) fn trials() -> Vec<Trial> {
    let defects = DEFECTS.map(|(name, before, tamper, words)| {
        trial(format!("broken::{name}_is_noticed"), move || {
            is_noticed(before, tamper, words)
        })
    });
    let laws: [(&str, Test); 7] = [
        (
            "broken::svc_071_two_calls_at_a_time_are_noticed",
            two_at_a_time,
        ),
        (
            "broken::s7_the_load_balancer_of_a_living_service_is_not_taken_over",
            the_living,
        ),
        (
            "broken::s11_more_deletions_than_the_brake_lets_through_are_noticed",
            the_brake,
        ),
        (
            "broken::a_deletion_of_what_is_wanted_is_noticed",
            what_is_wanted,
        ),
        ("broken::a_hint_of_somebody_else_is_noticed", hints),
        (
            "broken::patience_that_a_restart_forgets_is_no_defect",
            patience,
        ),
        (
            "broken::f18_f19_every_kind_of_refused_address_is_noticed",
            addresses,
        ),
    ];
    let laws = laws.map(|(name, test)| trial(name, test));
    defects.into_iter().chain(laws).collect()
}

fn is_noticed(before: &str, tamper: Tamper, words: &str) -> Result<(), Failed> {
    let text = SCRIPT.replace(BEFORE, &format!("{before}{BEFORE}"));
    let script = script::read(&text)?;
    let honest = world::play(&script, Run::with(None))?;
    if !honest.broken.is_empty() {
        return Err(format!(
            "a sound client is blamed: {}\n{}",
            honest.broken.join("\n"),
            honest.text
        )
        .into());
    }
    let run = Run {
        tamper: Some(tamper),
        ..Run::with(None)
    };
    let played = world::play(&script, run)?;
    match played
        .broken
        .iter()
        .any(|reported| reported.contains(words))
    {
        true => Ok(()),
        false => Err(format!(
            "nobody says {words:?}, but: {:?}\n{}",
            played.broken, played.text
        )
        .into()),
    }
}

fn service(uid: &str) -> Value {
    json!({
        "metadata": {
            "uid": uid, "name": uid, "namespace": "default",
            "finalizers": [LOAD_BALANCER_FINALIZER], "annotations": { SERVICE_OWNER: "sim" },
        },
        "spec": { "type": "LoadBalancer" }, "status": { "loadBalancer": {} },
    })
}

fn write(resource: &'static str, name: &str, after: Value) -> Write {
    Write {
        request: Request {
            sequence: 1,
            identity: "ccm".to_owned(),
            verb: "patch",
            resource,
            subresource: "status".to_owned(),
            namespace: "default".to_owned(),
            name: name.to_owned(),
            content_type: String::new(),
            code: Some(200),
        },
        body: Value::Null,
        before: Some(Arc::new(after.clone())),
        after: Some(Arc::new(after)),
        at: Instant::now(),
    }
}

fn call(operation: Operation, uid: &str, at: Instant, lasts: u64) -> Called {
    Called {
        operation,
        uid: uid.to_owned(),
        adopt: None,
        hint: None,
        process: 1,
        at,
        after: 1,
        ended: Some((at + Duration::from_secs(lasts), 1)),
        answer: None,
    }
}

/// A record of the existing Services `a` and `b`, with these calls.
fn record(calls: Vec<Called>) -> ServiceRecord {
    ServiceRecord {
        history: vec![
            write("services", "a", service("a")),
            write("services", "b", service("b")),
        ],
        identity: "ccm",
        starts: vec![(Instant::now(), ServiceRules::default())],
        cloud: Recorded {
            calls,
            ..Recorded::default()
        },
        ..ServiceRecord::default()
    }
}

/// Asserts that the record breaks no law, or exactly one, whose message contains these words.
fn expect(record: &ServiceRecord, words: Option<&str>) -> Result<(), Failed> {
    crate::broken::expect(&service_laws::broken(record), words)
}

fn two_at_a_time() -> Result<(), Failed> {
    let now = Instant::now();
    let second = |uid, after| call(Operation::Update, uid, now + Duration::from_secs(after), 1);
    for (second, words) in [
        (second("a", 5), None),
        (second("b", 4), None),
        (second("a", 4), Some("twice at a time")),
    ] {
        expect(
            &record(vec![call(Operation::Ensure, "a", now, 5), second]),
            words,
        )?;
    }
    Ok(())
}

fn the_living() -> Result<(), Failed> {
    let now = Instant::now();
    let conflict = |owner: Option<&str>| ProviderError::Conflict {
        message: String::new(),
        owner: owner.map(|uid| Owner::Uid(uid.to_owned())),
    };
    let rows = [
        (Some("gone"), "gone", Adoption::Orphaned, None),
        (None, "", Adoption::Orphaned, None),
        (None, "", Adoption::Unowned, None),
        (
            Some("b"),
            "b",
            Adoption::Orphaned,
            Some("Service that is there"),
        ),
        (
            Some("gone"),
            "gone",
            Adoption::Unowned,
            Some("nobody allowed"),
        ),
        (
            Some("gone"),
            "gone",
            Adoption::Never,
            Some("nobody allowed"),
        ),
        (None, "", Adoption::Never, Some("nobody allowed")),
        (Some("gone"), "", Adoption::Orphaned, Some("nobody said")),
    ];
    for (reported, adopt, adoption, words) in rows {
        let mut first = call(Operation::Ensure, "a", now, 0);
        first.answer = Some(Err(conflict(reported)));
        let mut second = call(Operation::Ensure, "a", now + Duration::from_secs(1), 0);
        second.adopt = Some(adopt.to_owned());
        let mut record = record(vec![first, second]);
        record.starts[0].1.adoption = adoption;
        expect(&record, words)?;
    }
    Ok(())
}

fn the_brake() -> Result<(), Failed> {
    // Long after the start of the process.
    let now = Instant::now() + Duration::from_secs(3600);
    // As many as the default budget, and one more; then the same over a longer time.
    for (count, apart, is_noticed) in [(20, 1, false), (21, 1, true), (21, 60, false)] {
        let mut record = record(Vec::new());
        // A restart does not renew the budget.
        for seconds in [0, 5, 10] {
            let start = now + Duration::from_secs(seconds);
            record.starts.push((start, ServiceRules::default()));
        }
        for index in 0..count {
            record.cloud.changes.push(Changed {
                what: "delete",
                uid: "a".to_owned(),
                owner: Some("a".to_owned()),
                at: now + Duration::from_secs(index * apart),
            });
            let recorded = ("/load_balancers/delete".to_owned(), "a".to_owned());
            record.audited.push(recorded);
        }
        expect(&record, is_noticed.then_some("(S11)"))?;
    }
    Ok(())
}

fn what_is_wanted() -> Result<(), Failed> {
    let now = Instant::now();
    let mut sound = record(vec![call(Operation::Delete, "a", now, 0)]);
    expect(&sound, Some("is wanted"))?;
    let mut going = service("a");
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    sound.history = vec![write("services", "a", going)];
    expect(&sound, None)
}

fn pending(hint: &str) -> Told {
    Told {
        pending: Some(Pending {
            retry_after: Duration::from_secs(2),
            hint: Some(hint.as_bytes().into()),
        }),
        status: None,
        complete: true,
    }
}

fn hints() -> Result<(), Failed> {
    let now = Instant::now();
    for (hint, words) in [
        (None, None),
        (Some("mine"), None),
        (Some("yours"), Some("not its own")),
    ] {
        let mut first = call(Operation::Ensure, "a", now, 0);
        first.answer = Some(Ok(pending("mine")));
        let mut second = call(Operation::Ensure, "a", now + Duration::from_secs(2), 0);
        second.hint = hint.map(|hint| hint.as_bytes().into());
        expect(&record(vec![first, second]), words)?;
    }
    Ok(())
}

fn patience() -> Result<(), Failed> {
    let now = Instant::now();
    for (after, process, words) in [(9, 1, Some("too soon")), (10, 1, None), (9, 2, None)] {
        let mut first = call(Operation::Ensure, "a", now, 0);
        first.answer = Some(Err(ProviderError::Throttled {
            message: String::new(),
            retry_after: Some(Duration::from_secs(10)),
        }));
        let mut second = call(Operation::Ensure, "a", now + Duration::from_secs(after), 0);
        second.process = process;
        expect(&record(vec![first, second]), words)?;
    }
    Ok(())
}

fn addresses() -> Result<(), Failed> {
    let mut record = record(Vec::new());
    let node = json!({ "metadata": { "uid": "n" }, "status": { "addresses": [{ "address": "10.1.0.1" }] } });
    record.history.push(write("nodes", "n", node));
    let mut other = service("b");
    other["status"]["loadBalancer"] = json!({ "ingress": [{ "ip": "192.0.2.2" }] });
    record.history[1].after = Some(Arc::new(other));
    let rules = &mut record.starts[0].1.ingress;
    rules.refused = vec!["10.0.0.0/16".parse()?];
    rules.api_server = vec!["198.51.100.1".parse()?];
    let many: Vec<Value> = (0..17)
        .map(|last| json!({ "ip": format!("192.0.3.{last}") }))
        .collect();
    let rows = [
        (
            json!([{ "ip": "192.0.2.1", "ipMode": "VIP" }, { "hostname": "lb.example" }]),
            None,
        ),
        (json!([{ "ip": "10.2.0.1" }]), None),
        (json!([{ "ip": "10.0.0.10" }]), Some("(F18)")),
        (json!([{ "ip": "::ffff:10.0.0.10" }]), Some("(F18)")),
        (json!([{ "ip": "198.51.100.1" }]), Some("(F18)")),
        (json!([{ "ip": "169.254.169.254" }]), Some("(F18)")),
        (json!([{ "ip": "127.0.0.1" }]), Some("(F18)")),
        (json!([{ "ip": "10.1.0.1" }]), Some("(F18)")),
        (json!([{ "ip": "192.0.2.2" }]), Some("(F18)")),
        (json!([{ "ip": "no address" }]), Some("(F19)")),
        (json!([{ "hostname": "-.example" }]), Some("(F19)")),
        (
            json!([{ "hostname": "lb.example", "ipMode": "VIP" }]),
            Some("(F19)"),
        ),
        (json!(many), Some("(F19)")),
    ];
    let mut ours = write("services", "a", service("a"));
    ours.request.sequence = 2;
    for (ingress, words) in rows {
        let reported = ingress_laws::refused(&ingress, "a", &ours, &record);
        crate::broken::expect(&reported, words)?;
    }
    record.starts[0].1.ingress.allowed = vec!["203.0.113.0/24".parse()?];
    for (ip, words) in [("203.0.113.7", None), ("192.0.2.1", Some("(F18)"))] {
        let reported = ingress_laws::refused(&json!([{ "ip": ip }]), "a", &ours, &record);
        crate::broken::expect(&reported, words)?;
    }
    Ok(())
}
