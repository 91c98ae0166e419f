//! Reads lists whose pages name the page after them: by a number, a cursor or a URL. For lists whose first page says
//! how many pages there are, [`CountedListing`](super::CountedListing) reads several pages at a time.
//!
//! An incomplete list must never look like absence: a list that names a page twice, changes its length while it is read
//! or does not end is an error. An item that moves to a page already read is not noticed unless the cloud states the
//! length. Before concluding absence from a list, request the object itself or list twice.

use super::path::path_and_query;
use super::{MAX_PAGES, Request, Response, inconsistent};
use crate::Error;

/// How a list goes on after a page. See [`follow`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Next {
    step: Step,
    total: Option<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    End,
    Query(String, String),
    Form(String, String),
    Url(String),
    Request(Box<Request>),
}

impl Next {
    /// The list ends with this page.
    pub fn end() -> Next {
        Next::step(Some(Step::End))
    }

    /// The first request with the query parameter `key` set to `value`: the number of the next page, or a cursor.
    /// Without a value, or with an empty one, the list ends.
    pub fn query(key: &str, value: Option<impl ToString>) -> Next {
        Next::step(filled(value).map(|value| Step::Query(key.to_owned(), value)))
    }

    /// As [`Next::query`], for a field of the form.
    pub fn form(key: &str, value: Option<impl ToString>) -> Next {
        Next::step(filled(value).map(|value| Step::Form(key.to_owned(), value)))
    }

    /// The first request with the query of this URL, absolute or relative. Its host and path are not used, because a
    /// guest sends to targets and not to URLs; another path is an error. Without a URL, or with an empty one, the list
    /// ends.
    pub fn url(url: Option<impl ToString>) -> Next {
        Next::step(filled(url).map(Step::Url))
    }

    /// The URL in the header `Link` with the relation `next` (RFC 8288); the list ends without one.
    pub fn link(answer: &Response) -> Next {
        Next::url(answer.link("next"))
    }

    /// This request reads the next page; `None` ends the list.
    pub fn request(request: Option<Request>) -> Next {
        Next::step(request.map(|request| Step::Request(Box::new(request))))
    }

    /// Sets the number of items in the whole list. Every page must state the same number, and that many items must
    /// come.
    #[must_use]
    pub fn of(self, total: usize) -> Next {
        Next {
            total: Some(total),
            ..self
        }
    }

    /// Number of pages after the first one, which says this and has this many items; at most [`MAX_PAGES`]. `None` if
    /// the page does not state the number of all items.
    pub(crate) fn pages_left(&self, items: usize) -> Option<usize> {
        let total = self.total?;
        if self.is_end() {
            return Some(0);
        }
        let pages = (items > 0).then(|| total.div_ceil(items))?;
        Some(pages.saturating_sub(1).min(MAX_PAGES))
    }

    /// Whether no page comes after this one.
    pub(crate) fn is_end(&self) -> bool {
        self.step == Step::End
    }

    fn step(step: Option<Step>) -> Next {
        Next {
            step: step.unwrap_or(Step::End),
            total: None,
        }
    }
}

fn filled(value: Option<impl ToString>) -> Option<String> {
    let text = value.map(|value| value.to_string());
    text.filter(|text| !text.is_empty())
}

/// Reads a whole list, one page after the other. `read` gets each answer, with a status of 2xx, and returns the page's
/// items and how the list goes on:
///
/// ```no_run
/// # use ccm_guest::http::{self, Next, Request};
/// # #[derive(serde::Deserialize)] struct Machine;
/// # #[derive(serde::Deserialize)] struct Page { machines: Vec<Machine>, next_page: Option<u32> }
/// let first = Request::get("api", "/machines").query("per_page", 100);
/// let machines = http::follow(first, |answer| {
///     let page: Page = answer.json()?;
///     Ok((page.machines, Next::query("page", page.next_page)))
/// })?;
/// # Ok::<(), ccm_guest::Error>(())
/// ```
///
/// # Errors
/// The first error of a request or of `read`; [`Error::Unavailable`] for a list that contradicts itself or has more
/// than 2000 pages.
pub fn follow<T>(
    first: Request,
    read: impl FnMut(Response) -> Result<(Vec<T>, Next), Error>,
) -> Result<Vec<T>, Error> {
    follow_with(first, Response::ok, read)
}

/// As [`follow`], for clouds whose status alone does not show an error: `check` takes the place of [`Response::ok`].
///
/// # Errors
/// As for [`follow`], and the errors of `check`.
pub fn follow_with<T>(
    first: Request,
    check: impl FnMut(Response) -> Result<Response, Error>,
    mut read: impl FnMut(Response) -> Result<(Vec<T>, Next), Error>,
) -> Result<Vec<T>, Error> {
    let label = first.label();
    let (mut items, mut total) = (Vec::new(), None);
    walk(first, check, |answer| {
        let (page, next) = read(answer)?;
        // The error does not depend on the pages that are left.
        if *total.get_or_insert(next.total) != next.total {
            return Err(changed_length(&label));
        }
        let count = page.len();
        items.extend(page);
        Ok((count, next))
    })?;
    Ok(items)
}

/// Reads a list whose items `read` takes; it returns their number and how the list goes on. If the list changes its
/// length, all pages are read before the error is returned: the items are valid, only absence is not proven.
pub(crate) fn walk(
    first: Request,
    mut check: impl FnMut(Response) -> Result<Response, Error>,
    mut read: impl FnMut(Response) -> Result<(usize, Next), Error>,
) -> Result<(), Error> {
    let label = first.label();
    let wrong = |why: String| inconsistent(&label, &why);
    let (mut items, mut total, mut has_changed) = (0, None, false);
    let mut sent = Vec::new();
    let mut request = first.clone();
    loop {
        let (count, next) = read(check(request.clone().send()?)?)?;
        items += count;
        if sent.is_empty() {
            total = next.total;
        }
        has_changed |= next.total != total;
        sent.push(request);
        request = match next.step {
            Step::End => break,
            Step::Query(key, value) => first.clone().with_query(&key, value),
            Step::Form(key, value) => first.clone().with_form(&key, value),
            Step::Url(url) => at(&first, &url).ok_or_else(|| {
                wrong("a page names a URL of another list as the next page".to_owned())
            })?,
            Step::Request(request) => *request,
        };
        if sent.contains(&request) {
            return Err(wrong("a page names one that was read already".to_owned()));
        }
        if sent.len() >= MAX_PAGES {
            return Err(wrong(format!("it has more than {MAX_PAGES} pages")));
        }
    }
    match total {
        _ if has_changed => Err(changed_length(&label)),
        Some(total) if total != items => Err(wrong(format!(
            "{total} items were announced and {items} came"
        ))),
        _ => Ok(()),
    }
}

fn changed_length(label: &str) -> Error {
    inconsistent(label, "the list changed its length while it was read")
}

/// The first request with the query of `url`. `None` if `url` has another path. The base path of the target, which the
/// guest does not know, may come before the path.
fn at(first: &Request, url: &str) -> Option<Request> {
    let (path, query) = path_and_query(url);
    let is_here = path.is_empty()
        || path.ends_with(first.path())
        || path.trim_end_matches('/').ends_with(first.path());
    let query = form_urlencoded::parse(query.as_bytes()).into_owned();
    is_here.then(|| first.clone().queries(query))
}
