//! `ccm run` as a process, on a real kube-apiserver, with the shipped guest in its sandbox before a simulated Hetzner
//! API. It always acts as the service account of `deploy/`, with the rights that `deploy/` grants.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests"
)]

#[path = "cluster/bootstrap.rs"]
mod bootstrap;
#[path = "cluster/chart.rs"]
mod chart;
#[path = "cluster/chart_and_kustomize.rs"]
mod chart_and_kustomize;
#[path = "cluster/chart_mistakes.rs"]
mod chart_mistakes;
#[path = "cluster/chart_of_hcloud.rs"]
mod chart_of_hcloud;
#[path = "cluster/chart_release.rs"]
mod chart_release;
#[path = "cluster/chart_rights.rs"]
mod chart_rights;
#[path = "cluster/conflicts.rs"]
mod conflicts;
#[path = "cluster/container.rs"]
mod container;
#[path = "cluster/delivered.rs"]
mod delivered;
#[path = "cluster/deploy.rs"]
mod deploy;
#[path = "cluster/documents.rs"]
mod documents;
#[path = "cluster/drop_in.rs"]
mod drop_in;
#[path = "cluster/drop_in_traps.rs"]
mod drop_in_traps;
#[path = "cluster/endpoints.rs"]
mod endpoints;
#[path = "cluster/go_managers.rs"]
mod go_managers;
#[path = "cluster/hybrid.rs"]
mod hybrid;
#[path = "cluster/identities.rs"]
mod identities;
#[path = "cluster/initialise.rs"]
mod initialise;
#[path = "cluster/kubelet.rs"]
mod kubelet;
#[path = "cluster/lifecycle.rs"]
mod lifecycle;
#[path = "cluster/lifecycle_held.rs"]
mod lifecycle_held;
#[path = "cluster/machines.rs"]
mod machines;
#[path = "cluster/many.rs"]
mod many;
#[path = "cluster/migration.rs"]
mod migration;
#[path = "cluster/modes.rs"]
mod modes;
#[path = "foreign/aws/moto.rs"]
mod moto;
#[path = "cluster/namespaces.rs"]
mod namespaces;
#[path = "cluster/node_ip.rs"]
mod node_ip;
#[path = "cluster/outage.rs"]
mod outage;
#[path = "cluster/pod_cidrs.rs"]
mod pod_cidrs;
#[path = "cluster/pod_network.rs"]
mod pod_network;
#[path = "cluster/policy.rs"]
mod policy;
#[path = "cluster/prometheus.rs"]
mod prometheus;
#[path = "cluster/prometheus_operator.rs"]
mod prometheus_operator;
#[path = "cluster/provider_objects.rs"]
mod provider_objects;
#[path = "cluster/provider_objects_rights.rs"]
mod provider_objects_rights;
#[path = "cluster/provider_replicas.rs"]
mod provider_replicas;
#[path = "cluster/provider_schema.rs"]
mod provider_schema;
#[path = "cluster/providers.rs"]
mod providers;
#[path = "cluster/proxied.rs"]
mod proxied;
#[path = "foreign/proxmox/pve.rs"]
mod pve;
#[path = "foreign/python.rs"]
mod python;
#[path = "cluster/record.rs"]
mod record;
#[path = "cluster/refused.rs"]
mod refused;
#[path = "cluster/remade.rs"]
mod remade;
#[path = "cluster/rights.rs"]
mod rights;
#[path = "cluster/routes.rs"]
mod routes;
#[path = "cluster/routes_flags.rs"]
mod routes_flags;
#[path = "cluster/routes_trouble.rs"]
mod routes_trouble;
#[path = "cluster/secrets.rs"]
mod secrets;
#[path = "cluster/services.rs"]
mod services;
#[path = "cluster/slow_store.rs"]
mod slow_store;
#[path = "cluster/start.rs"]
mod start;
#[path = "cluster/two_allocators.rs"]
mod two_allocators;
#[path = "cluster/unserved.rs"]
mod unserved;
#[path = "cluster/world.rs"]
mod world;

use std::path::PathBuf;

fn checkout() -> PathBuf {
    world::root()
}
