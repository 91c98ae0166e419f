//! Client for the DigitalOcean API, limited to what the provider uses (<https://docs.digitalocean.com/reference/api>).
//! This file reads droplets, regions and VPCs; [`load_balancer::api`](crate::load_balancer::api) has the other
//! requests.
//!
//! Responses are parsed only as far as needed, so that new fields of the vendor do no harm. This file decides nothing.

use std::collections::BTreeSet;
use std::time::Duration;

use ccm_guest::Error;
use ccm_guest::http::{CountedListing, Page, Request, Response, path, send_in_windows};
use serde::Deserialize;

#[cfg(test)]
mod tests;

/// Name of the manifest's target.
const API: &str = "api";

/// The vendor's maximum page size; the Go manager asks for 50.
pub const PER_PAGE: usize = 200;

/// A droplet, as the API returns it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Droplet {
    /// Unique; never reused.
    pub id: u64,
    /// Not unique: several droplets may have the same name.
    pub name: String,
    /// `new`, `active`, `off` or `archive`.
    pub status: String,
    /// The size, such as `s-2vcpu-4gb`.
    pub size_slug: String,
    /// The region that the droplet runs in.
    pub region: Slug,
    /// The droplet's addresses.
    #[serde(default)]
    pub networks: Networks,
}

/// An object of the API with a slug.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Slug {
    /// The identifier, such as `fra1` for a region.
    pub slug: String,
}

/// A droplet's addresses.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
pub struct Networks {
    /// IPv4 addresses, public and private.
    #[serde(default)]
    pub v4: Vec<Interface>,
    /// IPv6 addresses of the droplet.
    #[serde(default)]
    pub v6: Vec<Interface>,
}

/// One address of a droplet.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Interface {
    /// The address without its prefix length.
    pub ip_address: String,
    /// `public` or `private`.
    #[serde(rename = "type")]
    pub kind: String,
}

/// A `GET` request to the path of these segments.
pub fn get<'a>(segments: impl IntoIterator<Item = &'a str>) -> Request {
    Request::get(API, at(segments))
}

/// A `POST` request to the path of these segments.
pub fn post<'a>(segments: impl IntoIterator<Item = &'a str>) -> Request {
    Request::post(API, at(segments))
}

/// A `PUT` request to the path of these segments.
pub fn put<'a>(segments: impl IntoIterator<Item = &'a str>) -> Request {
    Request::put(API, at(segments))
}

/// A `DELETE` request to the path of these segments.
pub fn delete<'a>(segments: impl IntoIterator<Item = &'a str>) -> Request {
    Request::delete(API, at(segments))
}

fn at<'a>(segments: impl IntoIterator<Item = &'a str>) -> String {
    path(["v2"].into_iter().chain(segments))
}

/// The first page of all droplets but those with GPUs, which the vendor lists separately.
///
/// # Errors
/// The reason why the page could not be read.
pub fn begin_droplets(
    max_age: Duration,
    mut keep: impl FnMut(Droplet),
) -> Result<CountedListing, Error> {
    CountedListing::begin(droplets_page(max_age), |response| {
        read_droplets(response, 1, &mut keep)
    })
}

/// The pages after the first one.
///
/// # Errors
/// When the list could not be read to its end, or contradicts itself.
pub fn finish_droplets(
    listing: &CountedListing,
    max_age: Duration,
    mut keep: impl FnMut(Droplet),
) -> Result<(), Error> {
    let mut number = 1;
    listing.read_on(droplets_page(max_age), |response| {
        number += 1;
        read_droplets(response, number, &mut keep)
    })
}

fn droplets_page(max_age: Duration) -> impl Fn(usize) -> Request {
    move |number| page(get(["droplets"]), number).max_age(max_age)
}

fn read_droplets(
    response: Response,
    number: usize,
    keep: &mut impl FnMut(Droplet),
) -> Result<Page, Error> {
    let answer: DropletsAnswer = response.json()?;
    let page = answer.paging.page(number, answer.droplets.len())?;
    answer.droplets.into_iter().for_each(keep);
    Ok(page)
}

/// Looks droplets up by id, several at a time and never from the cache. `None`: the API answers that the droplet does
/// not exist.
///
/// # Errors
/// The first error of `read`.
pub fn droplets_by_id(
    ids: &[u64],
    mut read: impl FnMut(u64, Result<Option<Droplet>, Error>) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut asked = ids.iter();
    let requests = ids.iter().map(|id| get(["droplets", &id.to_string()]));
    send_in_windows(requests, |answer| {
        let Some(id) = asked.next() else {
            return Ok(());
        };
        let droplet = answer.and_then(found).and_then(|answer| match answer {
            Some(response) => Ok(Some(response.json::<DropletAnswer>()?.droplet)),
            None => Ok(None),
        });
        // An answer about another droplet proves nothing about this one.
        let droplet = match droplet {
            Ok(Some(other)) if other.id != *id => Err(Error::unavailable(format!(
                "droplet {id} was asked for and droplet {} came",
                other.id
            ))),
            droplet => droplet,
        };
        read(*id, droplet)
    })
}

/// Looks droplets up by name, several names at a time. The vendor compares names without regard to case.
///
/// # Errors
/// The first error of `read`.
pub fn droplets_by_name(
    names: &[String],
    mut read: impl FnMut(&str, Result<Vec<Droplet>, Error>) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut asked = names.iter();
    let requests = names
        .iter()
        .map(|name| page(get(["droplets"]), 1).query("name", name));
    send_in_windows(requests, |answer| {
        let Some(name) = asked.next() else {
            return Ok(());
        };
        let droplets = answer.and_then(ok).and_then(|response| {
            let answer: DropletsAnswer = response.json()?;
            match answer.paging.page(1, answer.droplets.len())?.next {
                None => Ok(answer.droplets),
                Some(_) => Err(Error::unavailable(format!(
                    "more than {PER_PAGE} droplets are called {name:?}"
                ))),
            }
        });
        read(name, droplets)
    })
}

/// Proves that the token gives access to an account, by the smallest list of droplets.
///
/// # Errors
/// The reason why it failed.
pub fn show_account() -> Result<(), Error> {
    ok(get(["droplets"]).query("per_page", 1).send()?)?
        .json::<DropletsAnswer>()
        .map(drop)
}

/// The slugs of all regions.
///
/// # Errors
/// The reason why they are not known.
pub fn regions() -> Result<BTreeSet<String>, Error> {
    let answer: RegionsAnswer = ok(page(get(["regions"]), 1).send()?)?.json()?;
    Ok(answer.regions.into_iter().map(|one| one.slug).collect())
}

/// The region of a VPC.
///
/// # Errors
/// [`Error::Invalid`] when there is no such VPC.
pub fn vpc_region(id: &str) -> Result<String, Error> {
    match found(get(["vpcs", id]).send()?)? {
        Some(response) => Ok(response.json::<VpcAnswer>()?.vpc.region),
        None => Err(Error::invalid(format!(
            "DO_CLUSTER_VPC_ID: there is no VPC {id:?}"
        ))),
    }
}

/// One page of a list.
pub fn page(request: Request, number: usize) -> Request {
    request.query("per_page", PER_PAGE).query("page", number)
}

/// As [`Response::ok`], with the vendor's meaning of 403.
///
/// # Errors
/// As [`Response::ok`], but [`Error::Unavailable`] for an object that the cloud is still working on, which it reports
/// with 403.
pub fn ok(response: Response) -> Result<Response, Error> {
    let is_busy = response.status() == 403
        && error(&response).is_some_and(|error| error.message.contains("previous actions"));
    response.ok().map_err(|error| match error {
        error @ Error::Denied(_) if is_busy => Error::unavailable(error.message()),
        error => error,
    })
}

/// `None` only if the API itself answers that the object does not exist: a 404 of a proxy in between proves nothing.
///
/// # Errors
/// As for [`ok`].
pub fn found(response: Response) -> Result<Option<Response>, Error> {
    let is_absent =
        response.status() == 404 && error(&response).is_some_and(|error| error.id == "not_found");
    match is_absent {
        true => Ok(None),
        false => ok(response).map(Some),
    }
}

fn error(response: &Response) -> Option<ErrorAnswer> {
    response.json().ok()
}

/// A list's metadata, as each page has it.
#[derive(Debug, Default, Deserialize)]
pub struct Paging {
    #[serde(default)]
    links: Links,
    meta: Option<Meta>,
}

#[derive(Debug, Default, Deserialize)]
struct Links {
    #[serde(default)]
    pages: Pages,
}

#[derive(Debug, Default, Deserialize)]
struct Pages {
    next: Option<String>,
    last: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Meta {
    total: usize,
}

impl Paging {
    /// The metadata of the page that was requested as `number`, with `items` items. The last page names no last page.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the page does not state the list's length, or which page follows.
    pub fn page(&self, number: usize, items: usize) -> Result<Page, Error> {
        let Some(Meta { total }) = self.meta else {
            return Err(Error::unavailable("a list does not say how long it is"));
        };
        let read = |url: &Option<String>| match url.as_deref() {
            None | Some("") => Ok(None),
            Some(url) => number_in(url)
                .map(Some)
                .ok_or_else(|| Error::unavailable("a list names a page without a number")),
        };
        Ok(Page {
            number,
            next: read(&self.links.pages.next)?,
            last: read(&self.links.pages.last)?.unwrap_or(number),
            total,
            items,
        })
    }
}

/// The page number in the URL of a page.
fn number_in(url: &str) -> Option<usize> {
    let (_, query) = url.split_once('?')?;
    let mut pairs = query.split('&');
    pairs.find_map(|pair| pair.strip_prefix("page=")?.parse().ok())
}

#[derive(Deserialize)]
struct DropletAnswer {
    droplet: Droplet,
}

#[derive(Deserialize)]
struct DropletsAnswer {
    droplets: Vec<Droplet>,
    #[serde(flatten)]
    paging: Paging,
}

#[derive(Deserialize)]
struct RegionsAnswer {
    regions: Vec<Slug>,
}

#[derive(Deserialize)]
struct VpcAnswer {
    vpc: Vpc,
}

#[derive(Deserialize)]
struct Vpc {
    region: String,
}

#[derive(Deserialize)]
struct ErrorAnswer {
    id: String,
    message: String,
}
