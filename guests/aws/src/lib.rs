//! The AWS provider: EC2 instances as nodes, load balancers, and routes to the nodes' pods in a VPC's route table.
//!
//! This file only exports. In reading order: [`config`], [`provider_id`], [`query`] (the only file that speaks HTTP),
//! [`ec2`], [`own_instance`] (the cluster's ID where the configuration lacks it), [`instances`] (which requests answer
//! which nodes), [`routes`], [`load_balancer`] and [`provider`].

pub mod config;
pub mod ec2;
#[cfg(test)]
mod fixtures;
pub mod instances;
pub mod load_balancer;
pub mod own_instance;
pub mod provider;
pub mod provider_id;
pub mod query;
pub mod routes;

use provider::Aws;

ccm_guest::export_provider! {
    provider: Aws,
    interfaces: [instances, load_balancer, routes, self_check],
    manifest: "manifest.json",
}
