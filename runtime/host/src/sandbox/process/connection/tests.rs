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

/// A call whose egress is granted nothing, with number 0.
fn with_a_call() -> Arc<Shared> {
    let manifest = json!({ "contract": "0.1.0", "name": "test", "version": "1" });
    let manifest = Manifest::parse(manifest.to_string().as_bytes()).unwrap();
    let granted = manifest.narrow(manifest.as_grants()).unwrap();
    let egress = Egress::new("test", &granted, EgressLimits::standard()).unwrap();
    let (audit, end) = (Arc::<RecordingAudit>::default(), Duration::from_secs(60));
    let permit = audited(Moment(end), Mode::Enforce, 1, audit);
    let scope = Arc::new(egress).scope(permit, Instant::now() + end, false);
    let shared = Arc::new(Shared {
        calls: Mutex::default(),
        next: AtomicU64::new(1),
        out: mpsc::unbounded_channel().0,
        stop: tokio::sync::Notify::new(),
    });
    let under_way = UnderWay {
        log: GuestLog::new(&Arc::from("test"), Some(scope.clone())),
        scope: Some(scope),
        requests: Requests::default(),
        held: HashMap::new(),
        ended: oneshot::channel().0,
    };
    assert!(shared.begin(0, under_way));
    shared
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

#[tokio::test]
async fn a_child_cannot_have_the_parent_hold_more_requests_than_a_guest_could_pass() {
    let shared = with_a_call();
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
    let (out, frames) = mpsc::unbounded_channel();
    let frame = Frame::new(&"a call", Bytes::from(vec![0; 8 << 20])).unwrap();
    assert!(out.send(frame).is_ok());
    let given_up = tokio::time::timeout(2 * READS_WITHIN, write(frames, to));
    assert!(given_up.await.is_ok());
}
