//! Name resolution for the connections of guests and for those to registries.
//!
//! A name is resolved once per connection, every address of the answer has to pass, and exactly those are dialled:
//! no second look-up could return another answer. Opens no connection.

use std::error::Error as StdError;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use futures::future::BoxFuture;
use ipnet::IpNet;
use thiserror::Error;

use super::address_policy::{self, AddressRefused};

/// Maximum number of addresses of a name: more than any working name has, and few enough to check.
const MAX_ADDRESSES: usize = 64;

/// Resolves names to addresses. Injected, so that tests can replace it.
pub trait NameLookup: Send + Sync {
    /// All addresses of `name`. A guest never chooses the name: it comes from a grant, from the operator, or from a
    /// redirect of a registry.
    fn lookup(&self, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;
}

/// Resolver of the operating system.
#[derive(Debug, Clone, Copy)]
pub struct SystemLookup;

impl NameLookup for SystemLookup {
    fn lookup(&self, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

/// Refusal to dial a name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{name}: {why}")]
pub struct NameRefused {
    /// The refused name.
    pub name: String,
    /// Why it is refused.
    pub why: WhyRefused,
}

/// Why a name is not dialled.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WhyRefused {
    /// More addresses than `MAX_ADDRESSES`.
    #[error("it has {0} addresses, more than {MAX_ADDRESSES}")]
    TooMany(usize),
    /// The resolver's answer is empty.
    #[error("it has no address")]
    NoAddress,
    /// One of its addresses may not be dialled.
    #[error(transparent)]
    Address(AddressRefused),
    /// One of its addresses is on another machine, and the connection would be unencrypted.
    #[error("it is {0}, and http goes to loopback only")]
    NotLoopback(IpAddr),
}

/// Resolver that returns either all addresses of a name or an error.
#[derive(Clone)]
pub struct Resolver {
    lookup: Arc<dyn NameLookup>,
    granted: Arc<[IpNet]>,
    only_loopback: bool,
}

impl Resolver {
    /// Checks answers with [`address_policy::check`] and the ranges `granted`; without TLS only loopback passes.
    pub fn new(
        lookup: Arc<dyn NameLookup>,
        granted: impl Into<Arc<[IpNet]>>,
        only_loopback: bool,
    ) -> Resolver {
        Resolver {
            lookup,
            granted: granted.into(),
            only_loopback,
        }
    }

    /// Addresses to dial, with port 0, which connectors replace by the URL's.
    ///
    /// # Errors
    /// [`NameRefused`], or the [`io::Error`] of the look-up. Boxed, as connectors return it; find the former in the
    /// chain of causes.
    pub fn resolve(
        &self,
        name: String,
    ) -> BoxFuture<'static, Result<std::vec::IntoIter<SocketAddr>, Box<dyn StdError + Send + Sync>>>
    {
        let found = self.lookup.lookup(name.clone());
        let (granted, only_loopback) = (self.granted.clone(), self.only_loopback);
        Box::pin(async move {
            let found = found.await?;
            pass(&found, &granted, only_loopback).map_err(|why| NameRefused { name, why })?;
            let dialled: Vec<_> = found
                .into_iter()
                .map(|address| SocketAddr::new(address, 0))
                .collect();
            Ok(dialled.into_iter())
        })
    }
}

/// Passes only if every address does.
fn pass(found: &[IpAddr], granted: &[IpNet], only_loopback: bool) -> Result<(), WhyRefused> {
    if found.is_empty() {
        return Err(WhyRefused::NoAddress);
    }
    if found.len() > MAX_ADDRESSES {
        return Err(WhyRefused::TooMany(found.len()));
    }
    for address in found {
        address_policy::check(*address, granted).map_err(WhyRefused::Address)?;
        if only_loopback && !address_policy::is_loopback(*address) {
            return Err(WhyRefused::NotLoopback(*address));
        }
    }
    Ok(())
}
