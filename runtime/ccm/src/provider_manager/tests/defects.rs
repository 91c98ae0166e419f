//! Panics in a provider's rollout, and in what all providers share.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use tokio::sync::mpsc;
use tower::service_fn;

use super::*;
use crate::provider_manager::defects::AFTER_PANIC;

/// A client whose requests panic if `panics` says so of their path, and otherwise have no answer.
fn client(panics: impl Fn(&str) -> bool + Send + 'static) -> Client {
    let answer = move |request: Request<Body>| {
        let panics = panics(request.uri().path());
        async move {
            assert!(!panics, "on purpose, in a test");
            std::future::pending::<io::Result<Response<Body>>>().await
        }
    };
    Client::new(service_fn(answer), "default")
}

/// Also while the file has a mistake, as after the second panic.
#[tokio::test(start_paused = true)]
async fn a_provider_whose_rollout_panics_again_and_again_begins_anew_after_a_pause_each_time() {
    let folder = tempfile::tempdir().unwrap();
    let configuration = configuration(folder.path());
    let file = configuration.file.clone().unwrap();
    let mut manager = manager(&folder.path().join("modules"));
    let panics = Arc::new(AtomicBool::new(true));
    // The record is read with it.
    let is_panicking = panics.clone();
    let client = client(move |_| is_panicking.load(Ordering::Relaxed));
    manager.shared.client = Some(client);
    manager.look(&configuration).await;
    for is_last in [false, true] {
        let mut ended = manager.instances["cloud"].served();
        while ended.changed().await.is_ok() {}
        panics.store(!is_last, Ordering::Relaxed);
        if is_last {
            fs::write(&file, "providers: 7").unwrap();
        }
        for (after, expected) in [
            (Duration::ZERO, false),
            (AFTER_PANIC - LOOK, false),
            (LOOK * 2, true),
        ] {
            tokio::time::sleep(after).await;
            manager.look(&configuration).await;
            let served = manager.instances["cloud"].served();
            let has_begun = !served.same_channel(&ended);
            assert_eq!(has_begun, expected, "{is_last} {after:?}");
        }
    }
    let served = manager.instances["cloud"].served();
    assert!(served.has_changed().is_ok(), "another one runs");
    assert!(manager.left_out.is_empty());
}

/// A panic about one object must not end each leader.
#[tokio::test(start_paused = true)]
async fn following_goes_on_after_panics_in_what_all_providers_share() {
    let folder = tempfile::tempdir().unwrap();
    let configuration = configuration(folder.path());
    let mut manager = manager(&folder.path().join("modules"));
    let (asked, mut asks) = mpsc::unbounded_channel();
    let client = client(move |path| path.ends_with("/gone") && asked.send(()).is_ok());
    manager.shared.client = Some(client.clone());
    manager.leadership_signal.writer.send_replace(Some(client));
    // That is written into its object.
    manager.departed.insert("gone".to_owned());
    let asked_again = async {
        for _ in 0..3 {
            asks.recv().await.unwrap();
        }
    };
    tokio::select! {
        () = manager.follow(configuration) => panic!("it has ended"),
        outcome = tokio::time::timeout(Duration::from_secs(60), asked_again) => outcome.unwrap(),
    }
}
