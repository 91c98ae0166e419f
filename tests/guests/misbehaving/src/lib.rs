//! A provider that misbehaves on request: the configuration key `behaviour` says how, `balancing` how it makes load
//! balancers, and `routing` how it makes routes. Without the latter two it makes none.
//!
//! [`behaviour`] is the list, each entry with the required reaction of a host. The other files carry it out:
//! [`resources`] takes more than its share, [`answers`] gives false answers, [`reach`] tries to get access,
//! [`balancers`] does all of that with load balancers, and [`routes`] with routes.
//!
//! A behaviour that is not about answers reports its result as `unknown` with a text for every node: `refused: …` or
//! `allowed: …` for an attempt at access, `told: …` for an amount. So a test distinguishes a refused attempt from one
//! that was never made.
//!
//! Only for tests. It is never embedded in a binary.

pub mod answers;
pub mod balancers;
pub mod behaviour;
pub mod provider;
pub mod reach;
pub mod resources;
pub mod routes;

use provider::Misbehaving;

ccm_guest::export_provider! {
    provider: Misbehaving,
    interfaces: [instances, load_balancer, routes],
    manifest: "manifest.json",
}
