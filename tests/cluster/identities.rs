//! Controllers that act as ServiceAccounts of their own (PROC-030), on an API server whose audit log names the user of
//! each request.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ccm_tests::apiserver::{ApiServer, AuditEntry};
use ccm_tests::documents::Page;
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::json;
use tokio::time::sleep;

use crate::pod_network::{DOCUMENTED, Network, names, setup};
use crate::provider_objects::{kubectl, output_of};
use crate::record::{granted_to, used};
use crate::rights::{LISTS, assert_every_right_is_used, use_every_right};
use crate::services::{Services, load_balancer};
use crate::world::{Setup, World, root};

const PREFIX: &str = "system:serviceaccount:kube-system:";

/// The overlay whose component gives the rights of the base to the accounts.
const OVERLAY: &str = "examples/identities";

/// The page with the way back.
const PAGE: &str = "deploy/docs/operations.md";

/// For each verb and resource, the ServiceAccounts that used it.
fn who(log: &[AuditEntry]) -> BTreeMap<String, BTreeSet<&str>> {
    let mut who: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for entry in log {
        let Some(account) = entry.user.strip_prefix(PREFIX) else {
            continue;
        };
        let act = match entry.subresource.as_str() {
            "" => format!("{} {}", entry.verb, entry.resource),
            subresource => format!("{} {}/{subresource}", entry.verb, entry.resource),
        };
        who.entry(act).or_default().insert(account);
    }
    who
}

#[tokio::test]
async fn proc_031_controllers_act_as_their_service_accounts_and_watches_and_elections_do_not() {
    let world = World::start(Setup {
        overlay: Some(OVERLAY),
        ..setup()
    })
    .await;
    let network = Network::documented(&world);
    network.populate(&world, &names("worker", 2)).await;
    let flags = [DOCUMENTED, &["--use-service-account-credentials"]].concat();
    let mut ccm = world.ccm(&network.configuration(&world), &flags);
    network.all_routed(&world, &mut ccm, 2).await;
    let services = Services::of(&world).await;
    services.create("web", load_balancer(&[80])).await;
    services.has_address(&mut ccm, "web").await;
    // Its Event is the last write.
    services.event(&mut ccm, "web", "EnsuredLoadBalancer").await;
    world.stop(ccm).await;

    let log = world.api.audit_log().unwrap();
    let who = who(&log);
    for (act, expected) in [
        ("watch nodes", &["ccm"][..]),
        ("watch services", &["ccm"]),
        ("update leases", &["ccm"]),
        ("create serviceaccounts/token", &["ccm"]),
        ("patch nodes", &["node-controller"]),
        (
            "patch nodes/status",
            &["node-controller", "route-controller"],
        ),
        ("patch services/status", &["service-controller"]),
    ] {
        let expected: BTreeSet<&str> = expected.iter().copied().collect();
        assert_eq!(who.get(act), Some(&expected), "{act}: {who:?}");
    }
    for account in ["node-controller", "service-controller"] {
        assert!(who["create events"].contains(account), "{who:?}");
    }
    // One token for each account: the node controllers share theirs.
    let tokens = log.iter().filter(|entry| entry.subresource == "token");
    let tokens = tokens.filter(|entry| entry.user.ends_with(":ccm"));
    let mut accounts: Vec<&str> = tokens.map(|entry| entry.name.as_str()).collect();
    accounts.sort_unstable();
    assert_eq!(
        accounts,
        ["node-controller", "route-controller", "service-controller"]
    );
    let refused = log.iter().filter(|entry| entry.code == 403);
    let refused: Vec<_> = refused.filter(|one| one.user.starts_with(PREFIX)).collect();
    assert!(refused.is_empty(), "{refused:?}");
}

/// Does what needs every right of the base, and compares what each account used with what is granted to it.
#[tokio::test]
async fn the_rights_of_the_accounts_are_exactly_what_is_used() {
    let world = World::start(Setup {
        server_flags: LISTS.map(str::to_owned).into(),
        overlay: Some(OVERLAY),
        ..Setup::default()
    })
    .await;
    let ccm = use_every_right(&world, &["--use-service-account-credentials"]).await;
    world.stop(ccm).await;

    let mut log = world.api.audit_log().unwrap();
    log.retain(|entry| entry.user.starts_with(PREFIX));
    let own = |account: &str| {
        let user = format!("{PREFIX}{account}");
        let own = log.iter().filter(|entry| entry.user == user);
        used(&own.cloned().collect::<Vec<_>>())
    };
    assert_eq!(own("ccm"), granted_to("ccm", &world.rights));
    let right = |resource: &str, verb: &str| (String::new(), resource.to_owned(), verb.to_owned());
    // The account of the pod watches for all: the same roles are for a pod without other accounts.
    for (account, watched) in [
        (
            "node-controller",
            &[("nodes", "list"), ("nodes", "watch")][..],
        ),
        (
            "service-controller",
            &[("nodes", "list"), ("nodes", "watch"), ("services", "watch")],
        ),
    ] {
        let mut used = own(account);
        used.extend(watched.iter().map(|(resource, verb)| right(resource, verb)));
        // Counting up an Event, which all controllers do.
        used.insert(right("events", "patch"));
        assert_eq!(used, granted_to(account, &world.rights), "{account}");
    }
    assert_every_right_is_used(&world, log);
}

/// Whether the account of the pod may delete nodes, an account of a controller has the base's rights, and the account of
/// the pod may request its tokens. Kubernetes' own role for `service-controller` does not know namespaces.
async fn rights(admin: &Client) -> [bool; 3] {
    let mut allowed = [false; 3];
    let token = json!({
        "verb": "create", "resource": "serviceaccounts", "subresource": "token",
        "namespace": "kube-system", "name": "node-controller",
    });
    for (allowed, (account, attributes)) in allowed.iter_mut().zip([
        ("ccm", json!({"verb": "delete", "resource": "nodes"})),
        (
            "service-controller",
            json!({"verb": "get", "resource": "namespaces"}),
        ),
        ("ccm", token),
    ]) {
        let user = format!("{PREFIX}{account}");
        let review = json!({"spec": {"user": user, "resourceAttributes": attributes}});
        let review: SubjectAccessReview = serde_json::from_value(review).unwrap();
        let reviews: Api<SubjectAccessReview> = Api::all(admin.clone());
        let reviewed = reviews.create(&PostParams::default(), &review).await;
        *allowed = reviewed.unwrap().status.unwrap().allowed;
    }
    allowed
}

/// Waits until the API server has seen the latest bindings, which takes it moments.
async fn has_rights(admin: &Client, expected: [bool; 3]) {
    for _ in 0..1000 {
        if rights(admin).await == expected {
            return;
        }
        sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(rights(admin).await, expected);
}

/// `kubectl apply` deletes no binding, so that each has to change its subject.
#[tokio::test]
async fn the_component_moves_the_rights_of_an_installation_and_the_way_back_returns_them() {
    let server = ApiServer::start().await.unwrap();
    let admin = server.client_for("admin").await.unwrap();
    let kubeconfig = server.kubeconfig("admin").unwrap();
    for (folder, expected) in [
        ("base", [true, false, false]),
        (OVERLAY, [false, true, true]),
        ("base", [true, false, true]),
    ] {
        let folder = root().join("deploy/kustomize").join(folder);
        let command = ["apply", "-k", folder.to_str().unwrap()];
        output_of(kubectl(&kubeconfig, &command)).await;
        has_rights(&admin, expected).await;
    }
    let page = Page::read(&root(), PAGE).unwrap();
    let mut texts = page.blocks.iter().map(|block| &block.text);
    let text = texts.find(|text| text.contains("ccm:identities")).unwrap();
    let command = text.strip_prefix("kubectl ").unwrap();
    let words: Vec<&str> = command.split_whitespace().collect();
    output_of(kubectl(&kubeconfig, &words)).await;
    has_rights(&admin, [true, false, false]).await;
}
