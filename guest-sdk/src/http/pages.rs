//! Long lists that come in numbered pages, read a [window](super::WINDOW) of pages at a time.
//!
//! An incomplete list must never look like absence. So every page has to agree with the first one about the length of
//! the list, and has to hold exactly its share; whatever contradicts itself is an error. What this cannot see is an item
//! that moved to a page already read while another one took its place in the count: whoever concludes absence from a
//! listing asks for the object itself afterwards, or lists twice.

use super::{Request, Response, send_in_windows};
use crate::Error;

/// More pages than this are not a list but a mistake: 100 000 objects at the usual 50 per page.
const MAX_PAGES: usize = 2000;

/// What one page says about itself and its list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// Its number; the first page is 1.
    pub number: usize,
    /// The number of the page after it; `None` on the last one.
    pub next: Option<usize>,
    /// The number of the last page.
    pub last: usize,
    /// How many items the whole list has.
    pub total: usize,
    /// How many items are on this page.
    pub items: usize,
}

/// A list of which the first page has been read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listing {
    first: Page,
}

impl Listing {
    /// Reads the first page. `read` takes what it needs from the answer (whose status is 2xx) and says what the page is.
    ///
    /// # Errors
    /// When there is no answer, `read` cannot read it, or the page contradicts itself.
    pub fn begin(
        request: impl Fn(usize) -> Request,
        read: impl FnOnce(Response) -> Result<Page, Error>,
    ) -> Result<Listing, Error> {
        let request = request(1);
        let label = request.label();
        let first = read(request.send()?.ok()?)?;
        let listing = Listing { first };
        listing
            .check(1, first)
            .map_err(|why| inconsistent(&label, &why))?;
        Ok(listing)
    }

    /// How many pages are left to read.
    pub fn pages_left(&self) -> usize {
        self.first.last.saturating_sub(1)
    }

    /// How many items the whole list has.
    pub fn total(&self) -> usize {
        self.first.total
    }

    /// Reads the other pages, at most a [window](super::WINDOW) of them in memory. When this succeeds, every item of the list
    /// has been handed to `read`.
    ///
    /// # Errors
    /// The first mistake; what `read` has taken until then stands, and the list is incomplete.
    pub fn read_on(
        &self,
        request: impl Fn(usize) -> Request,
        mut read: impl FnMut(Response) -> Result<Page, Error>,
    ) -> Result<(), Error> {
        let mut number = 1;
        send_in_windows((2..=self.first.last).map(request), |answer| {
            number += 1;
            self.accept(number, answer, &mut read)
        })
    }

    fn accept(
        &self,
        number: usize,
        answer: Result<Response, Error>,
        read: &mut impl FnMut(Response) -> Result<Page, Error>,
    ) -> Result<(), Error> {
        let response = answer?.ok()?;
        let label = response.label().to_owned();
        let page = read(response)?;
        self.check(number, page)
            .map_err(|why| inconsistent(&label, &why))
    }

    /// Whether `page`, asked for by `number`, agrees with the first page.
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
        if (page.last, page.total) != (last, total) {
            return Err(format!(
                "the list changed while it was read: page 1 says {total} items on {last} pages, page {number} {} on {}",
                page.total, page.last
            ));
        }
        // An empty list has one page for some clouds and none for others.
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

fn inconsistent(label: &str, why: &str) -> Error {
    Error::unavailable(format!("{label}: inconsistent list: {why}"))
}
