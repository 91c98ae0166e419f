//! The credential becomes another account's for a while, as after an operator's mistake: nothing of the cluster exists
//! there, and unwanted load balancers are made in it. Until the mistake is corrected no Service replaces its address by
//! one of that account, and none loses its finalizer while its load balancer exists.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};

use ccm_sim::hetzner::Hetzner;
use kube::api::ListParams;
use serde_json::{Value, json};
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::load_balancers::inventory::{FINALIZER, ingress, ips, owner};
use crate::load_balancers::world::{TOKEN, World};

/// A token that opens no project.
const UNKNOWN_TOKEN: &str = "a-token-of-nobody";

/// The credential with which the provider is called. As in the product a call ends with the one that it began with, and
/// a generation number identifies it.
#[derive(Default)]
pub(crate) struct CredentialInUse {
    calls: RwLock<()>,
    generation: AtomicU64,
}

impl CredentialInUse {
    /// The number of the current credential.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    /// Begins a call; the credential stays the same until the guard is dropped.
    pub(crate) async fn call(&self) -> RwLockReadGuard<'_, ()> {
        self.calls.read().await
    }

    /// Waits for all calls, and begins the next generation; calls wait until the guard is dropped.
    async fn change(&self) -> RwLockWriteGuard<'_, ()> {
        let changing = self.calls.write().await;
        self.generation.fetch_add(1, Ordering::SeqCst);
        changing
    }
}

/// Another account, which requests reach for a while.
pub(crate) struct OtherAccount {
    project: Hetzner,
    /// While requests go there: the Services as they were before, by UID.
    before: Option<BTreeMap<String, Value>>,
}

impl OtherAccount {
    /// An empty account, whose token no manager has.
    pub(crate) fn beside(world: &World) -> OtherAccount {
        OtherAccount {
            project: world.cloud.project(UNKNOWN_TOKEN),
            before: None,
        }
    }

    /// Whether requests go there.
    pub(crate) fn is_asked(&self) -> bool {
        self.before.is_some()
    }

    /// From now on requests go to this account.
    pub(crate) async fn begin(&mut self, world: &World) {
        let _changing = world.credential.change().await;
        self.before = Some(services(world).await);
        world.cloud.set_token("revoked");
        self.project.set_token(TOKEN);
    }

    /// Requests go to the cluster's own account again. Returns what was lost meanwhile.
    pub(crate) async fn end(&mut self, world: &World) -> Vec<String> {
        if self.before.is_none() {
            return Vec::new();
        }
        let _changing = world.credential.change().await;
        let before = self.before.take().unwrap_or_default();
        self.project.set_token(UNKNOWN_TOKEN);
        let now = services(world).await;
        let all = self.project.load_balancers();
        let theirs: BTreeSet<String> = all.iter().flat_map(ips).map(str::to_owned).collect();
        let mut lost = Vec::new();
        for (uid, service) in &before {
            let is_theirs = |service: &Value| shown(service).iter().any(|ip| theirs.contains(ip));
            // A Service may still show a load balancer that was made there the time before.
            let had_own = !shown(service).is_empty() && !is_theirs(service);
            if had_own && now.get(uid).is_some_and(is_theirs) {
                lost.push(format!("{uid} shows an address of another account"));
            }
        }
        for balancer in world.cloud.load_balancers() {
            let Some((uid, _)) = owner(&balancer)
                .and_then(|uid| before.get_key_value(uid))
                .filter(|(_, service)| is_kept(service))
            else {
                continue;
            };
            if !now.get(uid).is_some_and(is_kept) {
                lost.push(format!(
                    "{uid} is let go of, and its load balancer lives on"
                ));
            }
        }
        world.cloud.set_token(TOKEN);
        lost
    }
}

async fn services(world: &World) -> BTreeMap<String, Value> {
    let all = world.services.list(&ListParams::default()).await.unwrap();
    let all = all.into_iter().map(|one| json!(one));
    let uid = |one: &Value| one["metadata"]["uid"].as_str().unwrap().to_owned();
    all.map(|one| (uid(&one), one)).collect()
}

fn is_kept(service: &Value) -> bool {
    let finalizers = service["metadata"]["finalizers"].as_array();
    finalizers.is_some_and(|all| all.contains(&json!(FINALIZER)))
}

/// The IPs of a Service's status.
fn shown(service: &Value) -> Vec<String> {
    let shown = ingress(service).as_array().cloned().unwrap_or_default();
    let ips = shown.iter().filter_map(|one| one["ip"].as_str());
    ips.map(str::to_owned).collect()
}
