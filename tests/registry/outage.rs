//! A registry that is unreachable at the first request, and when there is a new version.

use ccm_delivery::source::{Source as _, SourceErrorKind};
use ccm_tests::registry::Registry;

use crate::exchange::{module, settings, source};

#[tokio::test]
async fn a_registry_that_is_away_is_asked_until_it_is_back() {
    let mut registry = Registry::start().await.unwrap();
    let place = "clouds/theirs:1";
    let (one, two) = (module("0.1.0"), module("0.2.0"));
    registry.push(place, &one).unwrap();
    registry.kill();

    let mut source = source(settings(&registry, place));
    let error = source.next().await.err().unwrap();
    assert_eq!(error.kind, SourceErrorKind::Unavailable, "{error}");
    registry.restart().await.unwrap();
    assert_eq!(*source.next().await.unwrap().wasm, one);

    registry.kill();
    let error = source.next().await.err().unwrap();
    assert_eq!(error.kind, SourceErrorKind::Unavailable, "{error}");
    registry.restart().await.unwrap();
    // An unchanged version is not delivered again; a new one is.
    registry.push(place, &two).unwrap();
    assert_eq!(*source.next().await.unwrap().wasm, two);
}
