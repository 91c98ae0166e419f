//! Client for the Hetzner Cloud API, limited to the calls that the provider uses (<https://docs.hetzner.cloud/>). Only
//! this file and [`crate::robot`] speak HTTP.
//!
//! Responses are parsed only as far as needed, so that new fields of the vendor do no harm. This file decides nothing
//! about nodes.

use std::time::Duration;

use ccm_guest::Error;
use ccm_guest::http::{CountedListing, Page, Request, Response};
use ccm_guest::machines::{self, List, Machines};
use serde::de::{DeserializeOwned, Error as _, IgnoredAny};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use refusal::Refusal;

pub use networks::network_id;

pub mod actions;
pub mod networks;
pub mod refusal;
#[cfg(test)]
mod tests;

/// Name of the manifest's target.
pub const API: &str = "api";

/// The vendor's maximum page size.
pub const PER_PAGE: usize = 50;

/// A server of Hetzner Cloud.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Server {
    /// Unique; never reused.
    pub id: u64,
    /// Unique in the project at any one time; an RFC 1123 name.
    pub name: String,
    /// `running`, `off` or one of seven other states.
    pub status: String,
    /// Public addresses of the server.
    pub public_net: PublicNet,
    /// The private networks that the server is attached to.
    #[serde(default)]
    pub private_net: Vec<PrivateNet>,
    /// The server type, such as `cx22`.
    pub server_type: Named,
    /// The location, such as `fsn1`.
    pub location: Named,
}

/// Public addresses of a server.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct PublicNet {
    /// The public IPv4 address; `None` without one.
    pub ipv4: Option<Ip>,
    /// The public IPv6 range, such as `2001:db8::/64`; `None` without one.
    pub ipv6: Option<Ip>,
}

/// An address or a range.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Ip {
    /// The address or range as text.
    pub ip: String,
}

/// A network attachment of a server or load balancer.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct PrivateNet {
    /// The network's id.
    pub network: u64,
    /// The member's address in the network.
    pub ip: String,
    /// Additional addresses in the network that lead to the server.
    #[serde(default)]
    pub alias_ips: Vec<String>,
}

/// A load balancer, limited to its network attachments.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct PrivateLoadBalancer {
    /// Unique; never reused.
    pub id: u64,
    /// Unique in the project at any one time.
    pub name: String,
    /// The private networks that the load balancer is attached to.
    #[serde(default)]
    pub private_net: Vec<PrivateNet>,
}

/// An object, limited to its name.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Named {
    /// The object's name.
    pub name: String,
}

/// A query for one server.
pub type Ask = machines::Ask<u64>;

/// The servers of the project.
#[derive(Debug, Clone, Copy)]
pub struct Servers;

impl Machines for Servers {
    type Id = u64;
    type Machine = Server;

    const UNIQUE_NAMES: bool = true;

    fn id(server: &Server) -> u64 {
        server.id
    }

    fn name(server: &Server) -> &str {
        &server.name
    }

    fn list(&self, max_age: Duration, list: &mut List<'_, Servers>) -> Result<(), Error> {
        // Sorted by id, so that a new server appears at the end and moves no other.
        let request = list_request("id:asc", max_age);
        let (listing, first) = first_page(&request)?;
        list.add(first);
        if list.is_enough(listing.pages_left()) {
            return Ok(());
        }
        listing.read_on(request, list_reader(|servers| list.add(servers)))
    }

    fn request(&self, ask: &Ask) -> Option<Request> {
        Some(match ask {
            Ask::Id(id) => Request::get(API, format!("/servers/{id}")),
            Ask::Name(name) => Request::get(API, "/servers").query("name", name),
        })
    }

    fn answer(&self, ask: &Ask, answer: Response) -> Result<Vec<Server>, Error> {
        matching(ask, answer)
    }

    fn newest(&self) -> Option<Result<Vec<Server>, Error>> {
        let page = first_page(&list_request("id:desc", Duration::ZERO));
        Some(page.map(|(_, servers)| servers))
    }
}

fn matching(ask: &Ask, response: Response) -> Result<Vec<Server>, Error> {
    match ask {
        Ask::Id(id) => {
            let Some(response) = refusal::found(response)? else {
                return Ok(Vec::new());
            };
            let ServerAnswer { server } = response.json()?;
            if server.id != *id {
                return Err(Error::unavailable(format!(
                    "server {id} was asked for and server {} came",
                    server.id
                )));
            }
            Ok(vec![server])
        }
        Ask::Name(name) => {
            let answer: ServersAnswer = refusal::ok(response)?.json()?;
            let is_other = |server: &Server| server.name != *name;
            if !answer.meta.is_whole() || answer.servers.iter().any(is_other) {
                return Err(Error::unavailable(format!(
                    "the servers named {name:?} were asked for and others came"
                )));
            }
            Ok(answer.servers)
        }
    }
}

/// Lists every server, without the cache. On success `read` has seen them all.
///
/// # Errors
/// The reason why the list is not known.
pub fn servers(mut read: impl FnMut(Server)) -> Result<(), Error> {
    let mut read = list_reader(|servers| servers.into_iter().for_each(&mut read));
    let request = list_request("id:asc", Duration::ZERO);
    CountedListing::begin(&request, &mut read)?.read_on(&request, &mut read)
}

fn list_request(sort: &'static str, max_age: Duration) -> impl Fn(usize) -> Request {
    move |page| {
        Request::get(API, "/servers")
            .query("page", page)
            .query("per_page", PER_PAGE)
            .query("sort", sort)
            .max_age(max_age)
    }
}

/// The first page of a list. A page that contradicts itself is an error.
fn first_page(request: &dyn Fn(usize) -> Request) -> Result<(CountedListing, Vec<Server>), Error> {
    let mut first = Vec::new();
    let listing = CountedListing::begin(request, list_reader(|servers| first = servers))?;
    Ok((listing, first))
}

fn list_reader(mut read: impl FnMut(Vec<Server>)) -> impl FnMut(Response) -> Result<Page, Error> {
    move |response| {
        let (servers, page) = read_list(&response)?;
        read(servers);
        Ok(page)
    }
}

/// Compiled once for all readers and not inlined, because the module has to fit into a ConfigMap.
#[inline(never)]
fn read_list(response: &Response) -> Result<(Vec<Server>, Page), Error> {
    let answer: ServersAnswer = response.json()?;
    let page = answer.meta.page("servers", answer.servers.len())?;
    Ok((answer.servers, page))
}

/// Lists every load balancer's name and addresses, without the cache. On success `read` has seen them all.
///
/// # Errors
/// The reason why the list is not known.
pub fn load_balancers(mut read: impl FnMut(PrivateLoadBalancer)) -> Result<(), Error> {
    let request = |page| {
        Request::get(API, "/load_balancers")
            .query("page", page)
            .query("per_page", PER_PAGE)
            .query("sort", "id:asc")
    };
    let mut read = |response: Response| {
        let answer: LoadBalancersAnswer = response.json()?;
        let items = answer.load_balancers.len();
        let page = answer.meta.page("load balancers", items)?;
        answer.load_balancers.into_iter().for_each(&mut read);
        Ok(page)
    };
    CountedListing::begin(request, &mut read)?.read_on(request, &mut read)
}

/// Sends one cheap read that every valid token may make.
///
/// # Errors
/// The reason why it failed.
pub fn check() -> Result<(), Error> {
    let answer: LocationsAnswer = read(Request::get(API, "/locations"))?;
    if answer.locations.is_empty() {
        return Err(Error::unavailable("the API answers, and knows no location"));
    }
    Ok(())
}

/// Sends a read.
///
/// # Errors
/// The reason why its answer is not known.
pub fn read<T: DeserializeOwned>(request: Request) -> Result<T, Error> {
    refusal::ok(request.send()?)?.json()
}

/// Sends a write.
///
/// # Errors
/// The reason why it was not done; without a response, it is unknown whether it was.
pub fn write<T: DeserializeOwned>(request: Request, body: &Value) -> Result<T, Refusal> {
    let response = refusal::accepted(request.json(body)?.send()?)?;
    Ok(response.json()?)
}

/// Rejects a response that contains an error in spite of a 2xx status: such a list cannot be trusted. Every list that
/// proves absence includes this field.
#[derive(Default)]
pub struct NoError;

impl<'de> Deserialize<'de> for NoError {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<NoError, D::Error> {
        match Option::<IgnoredAny>::deserialize(reader)? {
            None => Ok(NoError),
            Some(_) => Err(D::Error::custom("an error with a good status")),
        }
    }
}

#[derive(Deserialize)]
struct ServerAnswer {
    server: Server,
}

#[derive(Deserialize)]
struct ServersAnswer {
    #[serde(default, rename = "error")]
    _error: NoError,
    servers: Vec<Server>,
    meta: Meta,
}

#[derive(Deserialize)]
struct LoadBalancersAnswer {
    #[serde(default, rename = "error")]
    _error: NoError,
    load_balancers: Vec<PrivateLoadBalancer>,
    meta: Meta,
}

/// What a page of a list says about the list.
#[derive(Deserialize)]
pub struct Meta {
    pagination: Option<Pagination>,
}

impl Meta {
    /// Whether no other page follows.
    pub fn is_whole(&self) -> bool {
        let pagination = self.pagination.as_ref();
        pagination.is_some_and(|page| page.next_page.is_none())
    }

    /// Converts the pagination of a page with `items` items.
    fn page(&self, what: &str, items: usize) -> Result<Page, Error> {
        match self.pagination {
            Some(Pagination {
                page,
                next_page,
                last_page: Some(last),
                total_entries: Some(total),
            }) => Ok(Page {
                number: page,
                next: next_page,
                last,
                total,
                items,
            }),
            _ => Err(Error::unavailable(format!(
                "the list of {what} does not say how long it is"
            ))),
        }
    }
}

#[derive(Deserialize)]
struct Pagination {
    page: usize,
    next_page: Option<usize>,
    last_page: Option<usize>,
    total_entries: Option<usize>,
}

#[derive(Deserialize)]
struct LocationsAnswer {
    locations: Vec<Named>,
}
