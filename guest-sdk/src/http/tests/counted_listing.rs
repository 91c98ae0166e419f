//! Numbered pages: a complete list, or an error.

use super::*;

const REQUEST: fn(usize) -> Request = |page| Request::get("api", "/things").query("page", page);

fn page(number: usize, next: Option<usize>, last: usize, total: usize, items: usize) -> Page {
    Page {
        number,
        next,
        last,
        total,
        items,
    }
}

/// Reads a list whose page `n` has the metadata at index `n - 1`; returns the result, the number of items read and the
/// requests.
fn read(pages: &[Page]) -> (Result<(), Error>, usize, Vec<String>) {
    let host = TestHost::open(|_| json(200, "{}"));
    let mut reported = pages.iter().copied();
    let mut items = 0;
    let mut next = |_| {
        let page = reported
            .next()
            .ok_or_else(|| Error::internal("more pages were read than there are"))?;
        items += page.items;
        Ok(page)
    };
    let outcome = CountedListing::begin(REQUEST, &mut next)
        .and_then(|listing| listing.read_on(REQUEST, &mut next));
    (outcome, items, host.requests())
}

#[test]
fn a_consistent_list_is_read_to_its_end() {
    let table: [(&[Page], usize); 6] = [
        (&[page(1, None, 1, 0, 0)], 0),
        (&[page(1, None, 0, 0, 0)], 0),
        (&[page(1, None, 1, 7, 7)], 7),
        (&[page(1, Some(2), 2, 4, 2), page(2, None, 2, 4, 2)], 4),
        (&[page(1, Some(2), 2, 3, 2), page(2, None, 2, 3, 1)], 3),
        (
            &[
                page(1, Some(2), 3, 5, 2),
                page(2, Some(3), 3, 5, 2),
                page(3, None, 3, 5, 1),
            ],
            5,
        ),
    ];
    for (pages, expected) in table {
        let (outcome, items, requests) = read(pages);
        assert_eq!((outcome, items), (Ok(()), expected), "{pages:?}");
        assert_eq!(requests.len(), pages.len());
    }
}

#[test]
fn a_list_that_contradicts_itself_is_an_error() {
    let table: [(&str, &[Page]); 14] = [
        ("another page", &[page(2, None, 1, 7, 7)]),
        ("fewer items than there are", &[page(1, None, 1, 7, 6)]),
        ("more items than there are", &[page(1, None, 1, 7, 8)]),
        (
            "an empty page in an empty list of pages",
            &[page(1, None, 0, 1, 0)],
        ),
        (
            "the first page as its own next page",
            &[page(1, Some(1), 2, 4, 2)],
        ),
        ("a page left out", &[page(1, Some(3), 3, 5, 2)]),
        ("a next page after the last", &[page(1, Some(2), 1, 2, 2)]),
        ("no next page before the last", &[page(1, None, 2, 4, 2)]),
        (
            "an empty page before the last",
            &[page(1, Some(2), 2, 2, 0)],
        ),
        (
            "the same page again",
            &[page(1, Some(2), 2, 4, 2), page(1, Some(2), 2, 4, 2)],
        ),
        (
            "another length",
            &[page(1, Some(2), 2, 4, 2), page(2, None, 2, 3, 2)],
        ),
        (
            "another number of pages",
            &[page(1, Some(2), 2, 4, 2), page(2, None, 3, 4, 2)],
        ),
        (
            "a short page",
            &[
                page(1, Some(2), 3, 5, 2),
                page(2, Some(3), 3, 5, 1),
                page(3, None, 3, 5, 2),
            ],
        ),
        (
            "an endless list",
            &[page(1, Some(2), usize::MAX, usize::MAX, 2)],
        ),
    ];
    for (what, pages) in table {
        let (outcome, ..) = read(pages);
        match outcome {
            Err(Error::Unavailable(message)) => {
                assert!(message.contains("inconsistent list"), "{message}")
            }
            other => panic!("{what}: {other:?}"),
        }
    }
}

#[test]
fn a_page_that_cannot_be_read_ends_the_list() {
    let host = TestHost::open(|seen| match seen.query("page") {
        Some("5") => json(500, "oops"),
        _ => json(200, "{}"),
    });
    let mut number = 0;
    let mut next = |_| {
        number += 1;
        Ok(page(number, (number < 30).then_some(number + 1), 30, 60, 2))
    };
    let listing = CountedListing::begin(REQUEST, &mut next).unwrap();
    assert_eq!((listing.total(), listing.pages_left()), (60, 29));
    assert!(matches!(
        listing.read_on(REQUEST, &mut next),
        Err(Error::Unavailable(_))
    ));
    assert_eq!(
        host.requests().len(),
        1 + WINDOW,
        "no window is sent after the failure"
    );
}
