//! Panics in a provider's rollout, and in what all providers share.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use tower::service_fn;

use super::*;

/// A client whose requests panic while `panics`, and later have no answer.
fn client(panics: &Arc<AtomicBool>) -> Client {
    let panics = panics.clone();
    let answer = move |_: Request<Body>| {
        let panics = panics.load(Ordering::Relaxed);
        async move {
            assert!(!panics, "on purpose, in a test");
            std::future::pending::<io::Result<Response<Body>>>().await
        }
    };
    Client::new(service_fn(answer), "default")
}

#[tokio::test]
async fn a_provider_whose_rollout_panics_begins_anew() {
    let folder = tempfile::tempdir().unwrap();
    let configuration = configuration(folder.path());
    let mut manager = manager(&folder.path().join("modules"));
    let panics = Arc::new(AtomicBool::new(true));
    // The record is read with it.
    manager.shared.client = Some(client(&panics));
    manager.look(&configuration).await;
    let mut served = manager.instances["cloud"].served();
    while served.changed().await.is_ok() {}
    panics.store(false, Ordering::Relaxed);
    manager.look(&configuration).await;
    let served = manager.instances["cloud"].served();
    assert!(served.has_changed().is_ok(), "another one runs");
    assert!(manager.left_out.is_empty());
}

/// The process then ends.
#[tokio::test]
async fn following_ends_with_a_panic_in_what_all_providers_share() {
    let folder = tempfile::tempdir().unwrap();
    let configuration = configuration(folder.path());
    let mut manager = manager(&folder.path().join("modules"));
    let client = client(&Arc::new(AtomicBool::new(true)));
    manager.shared.client = Some(client.clone());
    manager.writer.send_replace(Some(client));
    // That is written into its object.
    manager.departed.insert("gone".to_owned());
    let following = manager.follow(configuration);
    let following = tokio::time::timeout(Duration::from_secs(60), following);
    following.await.unwrap();
}
