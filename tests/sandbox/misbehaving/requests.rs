//! Where a guest's requests may lead, and what its call's permit records: the parts of the egress that only show with a
//! guest before it and a real name behind it. Its own tests are in `runtime/host/tests/egress`.

use std::sync::Arc;
use std::time::Duration;

use ccm_core::cloud::{FindReply, Lookup};
use ccm_core::cloud_provider::CloudProvider as _;
use ccm_core::safety::audit::Author;
use ccm_core::safety::permit::{Mode, Permit};
use ccm_core::safety::tenure::Tenure;
use ccm_fixtures::audit::{AuditEntry, RecordingAudit};
use ccm_fixtures::objects::cloud_node;
use ccm_host::grant::{Grants, RequestBudget};
use ccm_host::{Loading, Provider};
use guest_misbehaving::behaviour::Behaviour;
use serde_json::json;

use crate::misbehaving::target::{Target, TargetMode};
use crate::misbehaving::world::{self, HOST, TIMEOUT, block_on};
use crate::permits;
use ccm_tests::harness::Test;

pub(crate) const TESTS: &[Test] = &[
    (
        "requests::a_change_is_audited_counted_and_refused_beyond_its_budget",
        a_change_is_audited_counted_and_refused_beyond_its_budget,
    ),
    (
        "requests::a_change_that_is_not_allowed_now_is_audited_and_not_sent",
        a_change_that_is_not_allowed_now_is_audited_and_not_sent,
    ),
    (
        "requests::a_call_goes_on_while_the_lease_is_renewed",
        a_call_goes_on_while_the_lease_is_renewed,
    ),
    (
        "requests::d25_a_flood_is_refused_here_and_nothing_of_it_is_sent_beyond_the_budget",
        d25_a_flood_is_refused_here_and_nothing_of_it_is_sent_beyond_the_budget,
    ),
    (
        "requests::a_redirect_leads_nowhere_and_proves_nothing",
        a_redirect_leads_nowhere_and_proves_nothing,
    ),
    (
        "requests::a_name_of_this_machine_has_to_be_granted_by_address",
        a_name_of_this_machine_has_to_be_granted_by_address,
    ),
];

/// The entries of an audit, with the guest's last log line before each.
fn entries(audit: &RecordingAudit) -> Vec<String> {
    let entries = audit.entries().into_iter();
    entries
        .map(|entry| match entry {
            AuditEntry::Before(request) => format!("before {} {}", request.method, request.path),
            AuditEntry::After(record) | AuditEntry::Deleted(record) => {
                let Author { provider, digest } = &record.author;
                format!("after {:?} by {provider} {digest}", record.end)
            }
            AuditEntry::Refused {
                request,
                refusal,
                log_line,
            } => {
                let log_line = log_line.unwrap_or_default();
                format!("{log_line}: refused {}: {refusal:?}", request.path)
            }
        })
        .collect()
}

/// A guest that sends one request per node.
async fn load(grants: Grants) -> Provider {
    let config = world::config(Behaviour::HonestRequests);
    HOST.load(world::module(), grants, config).await.unwrap()
}

/// Grants in which the operator declares the guest's request as a change.
fn changing(endpoint: &str) -> Grants {
    let mut grants = world::grants(endpoint);
    let rule = json!({ "methods": ["GET"], "path": "/machines/{name}", "access": "write" });
    let rules = &mut grants.targets[0].rules;
    let at = rules
        .iter()
        .position(|rule| rule.to_string().contains("/machines/"))
        .unwrap();
    rules[at] = serde_json::from_value(rule).unwrap();
    grants
}

fn permit(
    mode: Mode,
    changes: u32,
    is_revoked: bool,
    received: &Arc<RecordingAudit>,
) -> Arc<Permit> {
    let until = ccm_host::egress::now().after(TIMEOUT);
    let tenure = Arc::new(Tenure::unlimited());
    if is_revoked {
        tenure.end();
    }
    Arc::new(Permit::new(until, mode, changes, tenure, received.clone()))
}

async fn find(provider: &Provider, permit: Arc<Permit>) -> FindReply {
    let nodes = ["one", "two", "three"].map(cloud_node);
    provider.find(&nodes, permit).await.unwrap()
}

fn unknown(reply: &FindReply) -> usize {
    let is_unknown = |lookup: &&Lookup| matches!(lookup, Lookup::Unknown(_));
    reply.lookups.iter().filter(is_unknown).count()
}

/// The lease ends long before the cloud's answer, and is renewed meanwhile.
fn a_call_goes_on_while_the_lease_is_renewed() {
    block_on(async {
        let cloud = Target::start(TargetMode::Late).await;
        let provider = load(world::grants(&cloud.endpoint())).await;
        let tenure = Arc::new(Tenure::pending());
        let (now, lease) = (ccm_host::egress::now, Duration::from_millis(500));
        tenure.renewed(now(), lease, lease);
        let renewals = tokio::spawn({
            let tenure = tenure.clone();
            async move {
                loop {
                    tokio::time::sleep(lease / 10).await;
                    tenure.renewed(now(), lease, lease);
                }
            }
        });
        let audit = Arc::new(RecordingAudit::default());
        let permit = Permit::new(now().after(TIMEOUT), Mode::Enforce, 0, tenure, audit);
        let reply = find(&provider, Arc::new(permit)).await;
        assert_eq!(unknown(&reply), 0, "{reply:?}");
        renewals.abort();
    });
}

fn a_change_is_audited_counted_and_refused_beyond_its_budget() {
    block_on(async {
        let cloud = Target::start(TargetMode::Well).await;
        let provider = load(changing(&cloud.endpoint())).await;
        let received = Arc::new(RecordingAudit::default());
        let permit = permit(Mode::Enforce, 2, false, &received);
        let reply = find(&provider, permit.clone()).await;
        let by = format!("by {} {}", provider.name(), provider.digest());
        let after = format!("after Answered {{ status: 200, request_id: None }} {by}");
        assert_eq!(
            entries(&received),
            [
                "before GET /machines/one",
                after.as_str(),
                "before GET /machines/two",
                after.as_str(),
                "asking about a machine name=three: refused /machines/three: Budget(2)",
            ]
        );
        assert_eq!((permit.mutations_made(), cloud.requests()), (2, 2));
        assert_eq!((unknown(&reply), reply.complete), (1, false));
    });
}

fn a_change_that_is_not_allowed_now_is_audited_and_not_sent() {
    block_on(async {
        for (mode, is_revoked, refusal) in [
            (Mode::Plan, false, "Mode(\"plan\")"),
            (Mode::Observe, false, "Mode(\"observe\")"),
            (Mode::Enforce, true, "Revoked"),
        ] {
            let cloud = Target::start(TargetMode::Well).await;
            let provider = load(changing(&cloud.endpoint())).await;
            let received = Arc::new(RecordingAudit::default());
            let reply = find(&provider, permit(mode, 10, is_revoked, &received)).await;
            let expected = ["one", "two", "three"].map(|name| {
                format!("asking about a machine name={name}: refused /machines/{name}: {refusal}")
            });
            assert_eq!(entries(&received), expected);
            assert_eq!(cloud.connections(), 0, "{refusal}");
            assert_eq!((unknown(&reply), reply.complete), (3, false), "{refusal}");
        }
    });
}

fn d25_a_flood_is_refused_here_and_nothing_of_it_is_sent_beyond_the_budget() {
    block_on(async {
        for (is_on_trial, budget) in [(false, 100), (true, 10)] {
            let cloud = Target::start(TargetMode::Well).await;
            let mut grants = world::grants(&cloud.endpoint());
            grants.targets[0].requests = RequestBudget {
                requests: 100.try_into().unwrap(),
                per: Duration::from_secs(24 * 3600),
            };
            let loading = Loading {
                grants,
                config: world::config(Behaviour::Flood),
                is_on_trial,
                ..Loading::default()
            };
            let provider = HOST.load_as(world::module(), loading).await.unwrap();
            let answers = async || {
                let nodes = [cloud_node("one")];
                let reply = provider.find(&nodes, permits::reads_for(TIMEOUT)).await;
                let lookups = reply.unwrap().lookups;
                let [Lookup::Unknown(recorded)] = &lookups[..] else {
                    panic!("{lookups:?}")
                };
                recorded.clone()
            };
            // The number of requests that a call may make is 2000.
            let rest = 2000 - budget;
            let expected =
                format!("told: {budget} of 10048 requests were answered, {rest} throttled");
            assert_eq!(answers().await, expected);
            let expected = "told: 0 of 10048 requests were answered, 2000 throttled";
            assert_eq!(answers().await, expected, "in another call, too");
            assert_eq!(cloud.requests(), budget, "requests that reached the cloud");
            // As the active version it has the whole quota.
            provider.serves();
            answers().await;
            assert_eq!(cloud.requests(), 100);
        }
    });
}

fn a_redirect_leads_nowhere_and_proves_nothing() {
    block_on(async {
        let elsewhere = Target::start(TargetMode::Well).await;
        let cloud = Target::start(TargetMode::Elsewhere(elsewhere.address)).await;
        let provider = load(world::grants(&cloud.endpoint())).await;
        let reply = find(&provider, permits::reads_for(TIMEOUT)).await;
        assert_eq!((unknown(&reply), reply.complete), (3, false), "{reply:?}");
        assert_eq!((cloud.requests(), elsewhere.connections()), (3, 0));
    });
}

fn a_name_of_this_machine_has_to_be_granted_by_address() {
    block_on(async {
        let cloud = Target::start(TargetMode::Well).await;
        let mut grants = world::grants(&format!("http://localhost:{}/v1", cloud.address.port()));
        let reply = find(&load(grants.clone()).await, permits::reads_for(TIMEOUT)).await;
        assert_eq!((unknown(&reply), reply.complete), (3, false), "{reply:?}");
        assert_eq!(cloud.connections(), 0);

        // The same name with its addresses granted, as proof that the name itself was right.
        grants.targets[0].addresses = ["127.0.0.0/8", "::1/128"]
            .map(|range| range.parse().unwrap())
            .to_vec();
        let reply = find(&load(grants).await, permits::reads_for(TIMEOUT)).await;
        assert_eq!((unknown(&reply), cloud.requests()), (0, 3), "{reply:?}");
    });
}
