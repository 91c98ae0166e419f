//! Reads long lists in numbered pages, eight pages at a time, if the first page says how many
//! items and pages there are. For other lists there is [`follow`](super::follow).
//!
//! An incomplete list must never look like absence. Every page must agree with the first one about the length of the
//! list and must hold exactly its share of items; any contradiction is an error. One case is not detected: an item
//! that moves to a page already read while another takes its place in the count. Before concluding absence from a
//! listing, request the object itself or list twice.

use super::{MAX_PAGES, Request, Response, inconsistent, send_in_windows};
use crate::Error;

/// A page's metadata about itself and its list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// The page number, starting at 1.
    pub number: usize,
    /// The next page's number; `None` on the last page.
    pub next: Option<usize>,
    /// The number of the last page.
    pub last: usize,
    /// Number of items in the whole list.
    pub total: usize,
    /// Number of items on this page.
    pub items: usize,
}

/// A list whose first page has been read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountedListing {
    first: Page,
}

impl CountedListing {
    /// Reads the first page. `read` takes its data from the response (whose status is 2xx) and returns the page's
    /// metadata.
    ///
    /// # Errors
    /// When there is no response, `read` fails, or the page contradicts itself.
    pub fn begin(
        request: impl Fn(usize) -> Request,
        read: impl FnOnce(Response) -> Result<Page, Error>,
    ) -> Result<CountedListing, Error> {
        let request = request(1);
        let label = request.label();
        let first = read(fetched(request)?)?;
        CountedListing::of(first, &label)
    }

    fn of(first: Page, label: &str) -> Result<CountedListing, Error> {
        let listing = CountedListing { first };
        match listing.check(1, first) {
            Ok(()) => Ok(listing),
            Err(why) => Err(inconsistent(label, &why)),
        }
    }

    /// Number of pages after the first.
    pub fn pages_left(&self) -> usize {
        self.first.last.saturating_sub(1)
    }

    /// Number of items in the whole list.
    pub fn total(&self) -> usize {
        self.first.total
    }

    /// Reads the remaining pages, at most eight of them in memory. On success `read` has seen every item of the
    /// list.
    ///
    /// # Errors
    /// The first error. Data that `read` has already taken stays, but the list is incomplete. If the list changes its
    /// length, all pages are read before the error is returned: the items are valid, only absence is not proven.
    pub fn read_on(
        &self,
        request: impl Fn(usize) -> Request,
        mut read: impl FnMut(Response) -> Result<Page, Error>,
    ) -> Result<(), Error> {
        self.read_pages(&request, &mut read)
    }

    /// Compiled once for all lists of a module, which has to fit into a ConfigMap.
    fn read_pages(
        &self,
        request: &dyn Fn(usize) -> Request,
        read: &mut dyn FnMut(Response) -> Result<Page, Error>,
    ) -> Result<(), Error> {
        let mut number = 1;
        let mut has_changed = None;
        send_in_windows((2..=self.first.last).map(request), |answer| {
            number += 1;
            let response = answer?.ok()?;
            let label = response.label().to_owned();
            let page = read(response)?;
            match self.change(number, page) {
                Some(why) => has_changed = has_changed.take().or(Some(inconsistent(&label, &why))),
                None => self
                    .check(number, page)
                    .map_err(|why| inconsistent(&label, &why))?,
            }
            Ok(())
        })?;
        has_changed.map_or(Ok(()), Err)
    }

    /// How the list's length on page `number` differs from that on the first page.
    fn change(&self, number: usize, page: Page) -> Option<String> {
        let Page { last, total, .. } = self.first;
        ((page.last, page.total) != (last, total)).then(|| {
            format!(
                "the list changed while it was read: page 1 says {total} items on {last} pages, page {number} {} on {}",
                page.total, page.last
            )
        })
    }

    /// Checks that `page`, requested as `number`, agrees with the first page.
    fn check(&self, number: usize, page: Page) -> Result<(), String> {
        let Page {
            last,
            total,
            items: share,
            ..
        } = self.first;
        if last > MAX_PAGES {
            return Err(format!(
                "{last} pages are more than the {MAX_PAGES} that are read"
            ));
        }
        if page.number != number {
            return Err(format!(
                "page {number} was asked for and page {} came",
                page.number
            ));
        }
        // Clouds report either one page or none for an empty list.
        let is_last = number >= last;
        let next = (!is_last).then_some(number + 1);
        if page.next != next {
            return Err(format!(
                "page {number} of {last} names {:?} as the next page",
                page.next
            ));
        }
        let before = share.saturating_mul(last.saturating_sub(1));
        let expected = if is_last {
            total.checked_sub(before)
        } else {
            Some(share)
        };
        if expected != Some(page.items) || (!is_last && share == 0) {
            return Err(format!(
                "page {number} of {last} has {} items, which is not its share of {total}",
                page.items
            ));
        }
        Ok(())
    }
}

/// Once in a module, and not inlined into each list: see [`CountedListing::read_pages`].
#[inline(never)]
fn fetched(request: Request) -> Result<Response, Error> {
    request.send()?.ok()
}
