//! Owners of the addresses in the private network, from the lists of all objects that can have one.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use ccm_guest::Error;

use crate::api::{self, PrivateNet, networks::Network};

/// The owner of an address in the network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Member {
    /// A server, with its id and its name.
    Server(u64, String),
    /// A load balancer, with its id and its name.
    LoadBalancer(u64, String),
}

/// The members of one network by their addresses.
#[derive(Debug)]
pub struct Members {
    by_address: BTreeMap<Ipv4Addr, Member>,
}

impl Members {
    /// Reads all members, without the cache.
    ///
    /// # Errors
    /// The reason why they are not known. A list is incomplete if it lacks a member that the network names itself,
    /// whatever its metadata says.
    pub fn ask(network: &Network) -> Result<Members, Error> {
        let mut reading = Reading {
            network: network.id,
            by_address: BTreeMap::new(),
            unread: None,
        };
        let mut missing: BTreeSet<u64> = network.servers.iter().copied().collect();
        api::servers(|server| reading.server(server, &mut missing))?;
        check_complete("server", network, &missing)?;
        if !network.load_balancers.is_empty() {
            let mut missing: BTreeSet<u64> = network.load_balancers.iter().copied().collect();
            api::load_balancers(|found| {
                let member = Member::LoadBalancer(found.id, found.name);
                if reading.add(&found.private_net, &member) {
                    missing.remove(&found.id);
                }
            })?;
            check_complete("load balancer", network, &missing)?;
        }
        match reading.unread {
            None => Ok(Members {
                by_address: reading.by_address,
            }),
            Some(text) => Err(Error::unavailable(format!(
                "network {}: {text:?} is no address",
                network.id
            ))),
        }
    }

    /// The member with this address; `None` if no member has it.
    pub fn at(&self, address: Ipv4Addr) -> Option<&Member> {
        self.by_address.get(&address)
    }
}

struct Reading {
    network: u64,
    by_address: BTreeMap<Ipv4Addr, Member>,
    /// The first text found that is not an address.
    unread: Option<String>,
}

impl Reading {
    fn server(&mut self, server: api::Server, missing: &mut BTreeSet<u64>) {
        let member = Member::Server(server.id, server.name);
        if self.add(&server.private_net, &member) {
            missing.remove(&server.id);
        }
    }

    /// Adds the addresses; returns whether the object is a member.
    fn add(&mut self, nets: &[PrivateNet], member: &Member) -> bool {
        let mut is_member = false;
        for net in nets.iter().filter(|net| net.network == self.network) {
            is_member = true;
            for text in std::iter::once(&net.ip).chain(&net.alias_ips) {
                match text.parse() {
                    Ok(address) => drop(self.by_address.insert(address, member.clone())),
                    Err(_) => self.unread = Some(text.clone()),
                }
            }
        }
        is_member
    }
}

fn check_complete(what: &str, network: &Network, missing: &BTreeSet<u64>) -> Result<(), Error> {
    match missing.first() {
        None => Ok(()),
        Some(id) => Err(Error::unavailable(format!(
            "{what} {id} is in network {}, and no list shows it there",
            network.id
        ))),
    }
}
