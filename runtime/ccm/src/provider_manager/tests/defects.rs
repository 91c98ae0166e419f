//! Panics in a provider's rollout.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use tower::service_fn;

use super::*;

#[tokio::test]
async fn a_provider_whose_rollout_panics_begins_anew() {
    let folder = tempfile::tempdir().unwrap();
    let configuration = configuration(folder.path());
    let mut manager = manager(&folder.path().join("modules"));
    let panics = Arc::new(AtomicBool::new(true));
    let is_on = panics.clone();
    let answer = move |_: Request<Body>| {
        let panics = is_on.load(Ordering::Relaxed);
        async move {
            assert!(!panics, "on purpose, in a test");
            std::future::pending::<io::Result<Response<Body>>>().await
        }
    };
    // The record is read with it.
    manager.shared.client = Some(Client::new(service_fn(answer), "default"));
    manager.look(&configuration).await;
    let mut served = manager.instances["cloud"].served();
    while served.changed().await.is_ok() {}
    panics.store(false, Ordering::Relaxed);
    manager.look(&configuration).await;
    let served = manager.instances["cloud"].served();
    assert!(served.has_changed().is_ok(), "another one runs");
    assert!(manager.left_out.is_empty());
}
