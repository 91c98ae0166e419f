//! Messages of a child that is no sandbox.
#![allow(clippy::unwrap_used, reason = "tests")]

use ccm_core::moment::Moment;
use ccm_core::safety::permit::Mode;
use ccm_fixtures::audit::RecordingAudit;
use ccm_fixtures::permits::audited;
use serde_json::json;

use super::*;
use crate::egress::{Egress, EgressLimits};
use crate::manifest::Manifest;

/// A call whose egress is granted nothing, with number 0, and the messages for the child.
fn with_a_call() -> (Arc<Shared>, mpsc::UnboundedReceiver<Message>) {
    let manifest = json!({ "contract": "0.1.0", "name": "test", "version": "1" });
    let manifest = Manifest::parse(manifest.to_string().as_bytes()).unwrap();
    let granted = manifest.narrow(manifest.as_grants()).unwrap();
    let egress = Egress::new("test", &granted, EgressLimits::standard()).unwrap();
    let (audit, end) = (Arc::<RecordingAudit>::default(), Duration::from_secs(60));
    let permit = audited(Moment(end), Mode::Enforce, 1, audit);
    let scope = Arc::new(egress).scope(permit, Instant::now() + end, false);
    let (out, messages) = mpsc::unbounded_channel();
    let shared = Arc::new(Shared {
        calls: Mutex::default(),
        next: AtomicU64::new(1),
        out,
        stop: tokio::sync::Notify::new(),
    });
    let under_way = UnderWay {
        is_known: true,
        log: GuestLog::new(&Arc::from("test"), Some(scope.clone())),
        scope: Some(scope),
        requests: HashMap::new(),
        held: HashMap::new(),
        unread: 0,
        ended: oneshot::channel().0,
    };
    assert!(shared.begin(0, under_way));
    (shared, messages)
}

/// Begins a request with a body of this many MiB.
fn send_request(shared: &Arc<Shared>, request: u64, mib: usize) -> Result<(), String> {
    let what = Request::Url {
        method: "POST".to_owned(),
        url: "https://cloud.test/".to_owned(),
        headers: Vec::new(),
    };
    let message = ToParent::Request {
        call: 0,
        request,
        what,
    };
    shared.receive(message, Bytes::from(vec![0; mib << 20]))
}

/// Lets the other tasks run until this is so, which takes no time.
async fn until(is_so: impl Fn() -> bool) {
    let runs = async {
        while !is_so() {
            tokio::task::yield_now().await;
        }
    };
    let in_time = tokio::time::timeout(Duration::from_secs(10), runs).await;
    assert!(in_time.is_ok());
}

#[tokio::test]
async fn a_child_cannot_have_the_parent_hold_more_requests_than_a_guest_could_pass() {
    let (shared, _messages) = with_a_call();
    for request in 0..4 {
        send_request(&shared, request, 16).unwrap();
    }
    assert!(send_request(&shared, 4, 1).is_err());
    let abandoned = ToParent::Abandoned {
        call: 0,
        request: 0,
    };
    shared.receive(abandoned, Bytes::new()).unwrap();
    send_request(&shared, 4, 1).unwrap();
}

/// What waits for it would fill the memory.
#[tokio::test(start_paused = true)]
async fn a_child_that_reads_nothing_is_given_up() {
    let (ours, _child) = UnixStream::pair().unwrap();
    let (_from, to) = ours.into_split();
    let (shared, messages) = with_a_call();
    shared.send_message(&"a call", Bytes::from(vec![0; 8 << 20]), About::Other);
    let given_up = tokio::time::timeout(
        2 * queue::READS_WITHIN,
        queue::write(messages, to, shared.clone()),
    );
    assert!(given_up.await.is_ok());
}

/// Nothing is granted, so that each request is answered at once.
#[tokio::test]
async fn answers_that_a_child_does_not_read_count_as_its_requests_do() {
    let (shared, messages) = with_a_call();
    let abandoned = |request| ToParent::Abandoned { call: 0, request };
    for request in 0..REQUESTS as u64 {
        send_request(&shared, request, 0).unwrap();
        until(|| shared.of(0, |call| call.requests.len()) == Some(0)).await;
        shared.receive(abandoned(request), Bytes::new()).unwrap();
    }
    let next = REQUESTS as u64;
    assert_eq!(messages.len(), REQUESTS);
    assert!(send_request(&shared, next, 0).is_err());
    let (ours, child) = UnixStream::pair().unwrap();
    let (_from, to) = ours.into_split();
    let writing = tokio::spawn(queue::write(messages, to, shared.clone()));
    let reading = tokio::spawn(async move {
        let (mut child, mut nowhere) = (child, tokio::io::sink());
        tokio::io::copy(&mut child, &mut nowhere).await
    });
    until(|| shared.of(0, |call| call.unread) == Some(0)).await;
    send_request(&shared, next, 0).unwrap();
    writing.abort();
    reading.abort();
}

/// Otherwise it could end calls faster than it reads them, and those that it has not read would fill the memory.
#[tokio::test]
async fn a_child_can_end_only_calls_that_it_was_told_of() {
    let (shared, messages) = with_a_call();
    let ended = || ToParent::Ended {
        call: 0,
        end: Ok(Ok(Answer::Well)),
        microseconds: 0,
    };
    shared.of(0, |call| call.is_known = false);
    assert!(send_request(&shared, 0, 0).is_err());
    assert!(shared.receive(ended(), Bytes::new()).is_err());
    // It is told.
    let (ours, _child) = UnixStream::pair().unwrap();
    let (_from, to) = ours.into_split();
    shared.send_message(&"a call", Bytes::new(), About::Call(0));
    let writing = tokio::spawn(queue::write(messages, to, shared.clone()));
    until(|| shared.of(0, |call| call.is_known) == Some(true)).await;
    shared.receive(ended(), Bytes::new()).unwrap();
    assert!(shared.of(0, |_| ()).is_none());
    writing.abort();
}
