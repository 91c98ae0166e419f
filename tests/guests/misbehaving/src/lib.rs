//! A provider that misbehaves on request: the configuration key `behaviour` says how, `balancing` how it makes load
//! balancers, and `routing` how it makes routes. Without the latter two it makes none.
//!
//! [`behaviour`] is the list, each entry with what a host has to do about it. The other files carry it out:
//! [`resources`] takes more than its share, [`answers`] says what must not be believed, [`reach`] tries the doors,
//! [`balancers`] does all of that with load balancers, and [`routes`] with routes.
//!
//! A behaviour that is not about answers *tells* how far it came, as `unknown` with a text for every node: `refused: …` and
//! `allowed: …` of a door, `told: …` of an amount. So a test sees the difference between a closed door and one that nobody
//! tried.
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
