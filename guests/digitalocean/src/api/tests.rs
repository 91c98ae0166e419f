//! The meaning of the vendor's refusals and page metadata.
#![allow(clippy::unwrap_used, reason = "tests")]

use ccm_guest::testing::{Answer, TestHost, json};

use super::*;

fn droplet(answer: Answer) -> Result<Option<Response>, Error> {
    let _host = TestHost::open(move |_| answer.clone());
    found(get(["droplets", "7"]).send()?)
}

#[test]
fn only_the_apis_own_404_means_absence() {
    let absent = droplet(json(
        404,
        include_str!("../../fixtures/error-not-found.json"),
    ));
    assert_eq!(absent, Ok(None));
    for stranger in ["", "<html>", "{}", r#"{"id": "no_route", "message": ""}"#] {
        let error = droplet(json(404, stranger)).unwrap_err();
        assert!(
            matches!(error, Error::Unavailable(_)),
            "{stranger}: {error:?}"
        );
    }
}

#[test]
fn a_busy_load_balancer_is_no_refused_credential() {
    let busy = include_str!("../../fixtures/error-previous-actions.json");
    assert!(matches!(
        droplet(json(403, busy)),
        Err(Error::Unavailable(_))
    ));
    let refused =
        r#"{"id": "Forbidden", "message": "You are not authorized to perform this operation"}"#;
    assert!(matches!(droplet(json(403, refused)), Err(Error::Denied(_))));
    // A conflict of the vendor never names a Service.
    assert!(matches!(
        droplet(json(409, "{}")),
        Err(Error::Unavailable(_))
    ));
}

#[test]
fn a_page_says_which_follows_and_how_many_there_are() {
    let read = |text: &str, number| {
        let paging: Paging = serde_json::from_str(text).unwrap();
        paging.page(number, 1)
    };
    let one = read(r#"{"links": {}, "meta": {"total": 1}}"#, 1).unwrap();
    assert_eq!((one.next, one.last, one.total), (None, 1, 1));
    let url = |page| format!("https://api.digitalocean.com/v2/droplets?per_page=1&page={page}");
    let middle = format!(
        r#"{{"links": {{"pages": {{"first": "{}", "next": "{}", "last": "{}"}}}}, "meta": {{"total": 3}}}}"#,
        url(1),
        url(3),
        url(3)
    );
    let middle = read(&middle, 2).unwrap();
    assert_eq!((middle.number, middle.next, middle.last), (2, Some(3), 3));
    assert!(read(r#"{"links": {}}"#, 1).is_err(), "without a length");
    let odd = r#"{"links": {"pages": {"next": "https://x/"}}, "meta": {"total": 3}}"#;
    assert!(read(odd, 1).is_err(), "without a number");
}
