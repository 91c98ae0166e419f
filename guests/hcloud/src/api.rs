//! The API of Hetzner Cloud, as far as the provider uses it (<https://docs.hetzner.cloud/>). Beside [`crate::robot`] the only
//! file that speaks HTTP.
//!
//! Answers are read to what is needed and no further, so that fields the vendor adds do no harm. It decides nothing
//! about nodes.

use std::time::Duration;

use ccm_guest::Error;
use ccm_guest::http::{Listing, Page, Request, Response, send_in_windows};
use serde::de::{Error as _, IgnoredAny};
use serde::{Deserialize, Deserializer};

pub use networks::network_id;

pub mod actions;
pub mod networks;
pub mod refusal;
#[cfg(test)]
mod tests;

/// The manifest's target.
const API: &str = "api";

/// The most that the vendor puts on one page.
const PER_PAGE: usize = 50;

/// A server.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Server {
    /// Unique for ever.
    pub id: u64,
    /// Unique in the project at any one time, an RFC 1123 name.
    pub name: String,
    /// `running`, `off` and seven more.
    pub status: String,
    /// Public addresses.
    pub public_net: PublicNet,
    /// Attached networks.
    #[serde(default)]
    pub private_net: Vec<PrivateNet>,
    /// Such as `cx22`.
    pub server_type: Named,
    /// Such as `fsn1`.
    pub location: Named,
}

/// Public addresses of a server.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct PublicNet {
    /// The address itself.
    pub ipv4: Option<Ip>,
    /// A range, such as `2001:db8::/64`.
    pub ipv6: Option<Ip>,
}

/// An address or a range.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Ip {
    /// In text form.
    pub ip: String,
}

/// A server's place in a network.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct PrivateNet {
    /// The network's id.
    pub network: u64,
    /// The server's address in it.
    pub ip: String,
    /// More addresses in it that lead to the server.
    #[serde(default)]
    pub alias_ips: Vec<String>,
}

/// A load balancer, as far as networks are concerned.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct PrivateLoadBalancer {
    /// Unique for ever.
    pub id: u64,
    /// Unique in the project at any one time.
    pub name: String,
    /// Attached networks.
    #[serde(default)]
    pub private_net: Vec<PrivateNet>,
}

/// An object of which only the name matters.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Named {
    /// Its name.
    pub name: String,
}

/// One server to be looked for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ask {
    /// The server with this id.
    Id(u64),
    /// Servers with exactly this name.
    Name(String),
}

/// Looks servers up one by one, side by side. `read` gets each answer in the order of `asks`: the servers that match, none
/// if the cloud answered completely and there is none, or why that is not known. `max_age` is how old a kept answer to an id
/// may be; names are always asked freshly.
///
/// # Errors
/// The first error of `read`; no more requests are sent then.
pub fn look_up(
    asks: &[Ask],
    max_age: Duration,
    mut read: impl FnMut(&Ask, Result<Vec<Server>, Error>) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut left = asks.iter();
    send_in_windows(
        asks.iter().map(|ask| {
            // Who asks for a name waits for a machine that is being made: what was not there ten seconds ago may be now.
            let max_age = match ask {
                Ask::Id(_) => max_age,
                Ask::Name(_) => Duration::ZERO,
            };
            request_for(ask).max_age(max_age)
        }),
        |answer| match left.next() {
            Some(ask) => read(ask, answer.and_then(|response| matching(ask, response))),
            None => Ok(()),
        },
    )
}

fn request_for(ask: &Ask) -> Request {
    match ask {
        Ask::Id(id) => Request::get(API, format!("/servers/{id}")),
        Ask::Name(name) => Request::get(API, "/servers").query("name", name),
    }
}

fn matching(ask: &Ask, response: Response) -> Result<Vec<Server>, Error> {
    match ask {
        Ask::Id(id) => {
            let Some(response) = found(response)? else {
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
            let response = ok(response)?;
            let answer: ServersAnswer = response.json()?;
            let more = answer.meta.pagination.next_page.is_some();
            if more || answer.servers.iter().any(|server| server.name != *name) {
                return Err(Error::unavailable(format!(
                    "the servers named {name:?} were asked for and others came"
                )));
            }
            Ok(answer.servers)
        }
    }
}

/// The list of all servers, begun: `read` has seen the servers of the first page. `max_age` is how old a kept answer
/// may be.
pub fn begin_list(max_age: Duration, read: impl FnMut(Server)) -> Result<Listing, Error> {
    Listing::begin(list_request(max_age), list_reader(read))
}

/// The rest of a list that was begun. When it succeeds, `read` has seen every server.
pub fn finish_list(
    listing: &Listing,
    max_age: Duration,
    read: impl FnMut(Server),
) -> Result<(), Error> {
    listing.read_on(list_request(max_age), list_reader(read))
}

fn list_request(max_age: Duration) -> impl Fn(usize) -> Request {
    // Sorted by id, so that a new server appears at the end and moves no other.
    move |page| {
        Request::get(API, "/servers")
            .query("page", page)
            .query("per_page", PER_PAGE)
            .query("sort", "id:asc")
            .max_age(max_age)
    }
}

fn list_reader(mut read: impl FnMut(Server)) -> impl FnMut(Response) -> Result<Page, Error> {
    move |response| {
        let answer: ServersAnswer = response.json()?;
        let page = answer.meta.page("servers", answer.servers.len())?;
        answer.servers.into_iter().for_each(&mut read);
        Ok(page)
    }
}

/// Every load balancer's name and addresses: all of them have been read when it succeeds, freshly.
///
/// # Errors
/// Why they are not known.
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
    Listing::begin(request, &mut read)?.read_on(request, &mut read)
}

/// One cheap read that every valid token may make.
///
/// # Errors
/// Why it failed.
pub fn check() -> Result<(), Error> {
    let response = ok(Request::get(API, "/locations").send()?)?;
    let answer: LocationsAnswer = response.json()?;
    if answer.locations.is_empty() {
        return Err(Error::unavailable("the API answers, and knows no location"));
    }
    Ok(())
}

/// As [`Response::ok`], but by the vendor's own error code, which says more than the status.
fn ok(response: Response) -> Result<Response, Error> {
    let code = error_code(&response);
    response.ok().map_err(|error| match code.as_deref() {
        // The object is being changed or the project is over its request limit: both pass.
        Some("conflict" | "locked" | "maintenance") => Error::unavailable(error.message()),
        Some("rate_limit_exceeded") if !matches!(error, Error::Throttled(_)) => {
            Error::throttled(error.message(), None)
        }
        _ => error,
    })
}

/// `None` only if the API itself says that there is no such object: a 404 of anything in between is not proof.
fn found(response: Response) -> Result<Option<Response>, Error> {
    if response.status() == 404 && error_code(&response).as_deref() == Some("not_found") {
        return Ok(None);
    }
    ok(response).map(Some)
}

/// The code of an error. The cloud and Robot write it in the same place.
pub fn error_code(response: &Response) -> Option<String> {
    if (200..300).contains(&response.status()) {
        return None;
    }
    let answer: ErrorAnswer = response.json().ok()?;
    Some(answer.error.code)
}

/// The error in a list with a good status: the list cannot be read then, whatever else it says. Who proves an absence by a
/// list has this in it.
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

#[derive(Deserialize)]
struct Meta {
    pagination: Pagination,
}

impl Meta {
    /// What it says about a page with so many items.
    fn page(&self, what: &str, items: usize) -> Result<Page, Error> {
        let pagination = &self.pagination;
        let (Some(last), Some(total)) = (pagination.last_page, pagination.total_entries) else {
            return Err(Error::unavailable(format!(
                "the list of {what} does not say how long it is"
            )));
        };
        Ok(Page {
            number: pagination.page,
            next: pagination.next_page,
            last,
            total,
            items,
        })
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

#[derive(Deserialize)]
struct ErrorAnswer {
    error: VendorError,
}

#[derive(Deserialize)]
struct VendorError {
    code: String,
}
