//! A permitted request that is delayed until the lease was lost does not reach the cloud.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ccm_core::safety::permit::{Mode, Permit};
use ccm_core::safety::tenure::Tenure;
use ccm_fixtures::audit::RecordingAudit;
use ccm_fixtures::http_server::{Reply, Server, ok};
use ccm_host::egress::{
    CallScope, Egress, EgressLimits, FetchError, FetchRequest, NameLookup, now,
};
use futures::future::BoxFuture;
use http::Method;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::world::{SOON, egress, error, eventually, get, granted, limited, plain};

const MINUTE: Duration = Duration::from_secs(60);

/// A tenure that does not end.
pub(crate) fn held() -> Arc<Tenure> {
    let tenure = Tenure::pending();
    tenure.renewed(now(), MINUTE, MINUTE);
    Arc::new(tenure)
}

/// A call in this tenure.
pub(crate) fn call(
    egress: &Arc<Egress>,
    tenure: &Arc<Tenure>,
    audit: &Arc<RecordingAudit>,
) -> CallScope {
    let until = now().after(MINUTE);
    let permit = Permit::new(until, Mode::Enforce, 9, tenure.clone(), audit.clone());
    egress.scope(Arc::new(permit), Instant::now() + MINUTE, false)
}

/// Resolves names to loopback, once a permit is available.
pub(crate) struct Slow(pub(crate) Arc<Semaphore>);

impl NameLookup for Slow {
    fn lookup(&self, _: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let places = self.0.clone();
        Box::pin(async move {
            places.acquire().await.map_err(io::Error::other)?.forget();
            Ok(vec![IpAddr::V4(Ipv4Addr::LOCALHOST)])
        })
    }
}

/// An egress whose first dial waits for `found`, and a listener that it reaches.
async fn slow() -> (Arc<Egress>, TcpListener, Arc<Semaphore>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let endpoint = format!("http://cloud.test:{port}");
    let granted = granted(&[("api", &endpoint)], |grants| {
        grants.targets[0].addresses = vec!["127.0.0.1/32".parse().unwrap()];
    });
    let found = Arc::new(Semaphore::new(0));
    let lookup = Arc::new(Slow(found.clone()));
    let limits = EgressLimits {
        connect: SOON,
        ..EgressLimits::standard()
    };
    let egress = Egress::with_lookup("test", &granted, limits, lookup).unwrap();
    (Arc::new(egress), listener, found)
}

/// Reads all bytes of a connection, and its end.
pub(crate) async fn everything(mut stream: TcpStream) -> (Vec<u8>, Result<usize, io::ErrorKind>) {
    let mut bytes = Vec::new();
    let end = stream.read_to_end(&mut bytes).await;
    (bytes, end.map_err(|error| error.kind()))
}

#[tokio::test]
async fn a_request_that_waited_for_its_connection_until_the_lease_was_lost_is_not_sent() {
    for (case, write) in [("read", false), ("change", true)] {
        let (egress, listener, found) = slow().await;
        let (tenure, audit) = (held(), Arc::new(RecordingAudit::default()));
        let scope = call(&egress, &tenure, &audit);
        let request = if write {
            plain(Method::DELETE, "/load_balancers/1")
        } else {
            get("/servers")
        };
        let fetch = tokio::spawn(async move { scope.fetch(request).await });
        if write {
            eventually("the permit is asked", || audit.lines().len() == 1).await;
        }
        tokio::task::yield_now().await;
        // The tenure ends between dialling and writing.
        tenure.close();
        found.add_permits(1);
        match error(fetch.await.unwrap()) {
            // A read may be refused by the permit, if it was not asked before; in either case nothing is sent.
            FetchError::Denied(text) => assert!(
                text.contains("does not hold the lease") || !write && text.contains("revoked"),
                "{case}: {text}"
            ),
            other => panic!("{case}: {other:?}"),
        }
        if write {
            let (stream, _) = listener.accept().await.unwrap();
            // Reset: what the operating system still had to send is discarded.
            let end = Err(io::ErrorKind::ConnectionReset);
            assert_eq!(everything(stream).await, (Vec::new(), end), "{case}");
            // The change was announced to the audit, so its end is recorded: unknown, as the audit has to assume.
            assert_eq!(
                audit.lines(),
                [
                    "before test/api DELETE /load_balancers/1",
                    "after test DELETE /load_balancers/{id} Unknown"
                ]
            );
        }
    }
}

#[tokio::test]
async fn what_was_not_written_when_the_lease_was_lost_is_never_written() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    for (case, loses, arrives_whole) in [("stopping", false, true), ("lost", true, false)] {
        let limits = EgressLimits {
            request_bytes: 32 << 20,
            ..EgressLimits::standard()
        };
        let egress = limited(&format!("http://{address}"), limits);
        let tenure = held();
        let scope = call(&egress, &tenure, &Arc::default());
        // More bytes than the operating system buffers while the server does not read.
        let body = Bytes::from(vec![b'x'; 16 << 20]);
        let length = body.len();
        let request = FetchRequest {
            body: Some(body),
            ..plain(Method::POST, "/servers")
        };
        let fetch = tokio::spawn(async move { scope.fetch(request).await });
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.readable().await.unwrap();
        if loses {
            tenure.close();
        } else {
            tenure.end();
        }
        let mut bytes = Vec::new();
        while bytes.len() < length
            && stream
                .read_buf(&mut bytes)
                .await
                .is_ok_and(|count| count > 0)
        {}
        assert_eq!(bytes.len() >= length, arrives_whole, "{case}");
        if arrives_whole {
            let head = b"\r\n\r\n";
            let end = bytes.windows(4).position(|window| window == head).unwrap();
            let mut rest = vec![0; (end + 4 + length).saturating_sub(bytes.len())];
            stream.read_exact(&mut rest).await.unwrap();
            stream
                .write_all(b"HTTP/1.1 201 X\r\ncontent-length: 0\r\n\r\n")
                .await
                .unwrap();
            assert_eq!(fetch.await.unwrap().unwrap().status, 201, "{case}");
        } else {
            error(fetch.await.unwrap());
        }
    }
}

#[tokio::test]
async fn a_connection_of_the_pool_is_not_written_to_after_the_lease_was_lost() {
    let server = Server::start(|_| ok("{}")).await;
    let egress = egress(&format!("http://{}", server.address));
    let lost = held();
    call(&egress, &lost, &Arc::default())
        .fetch(get("/servers"))
        .await
        .unwrap();
    lost.close();
    // The other lease of a leader migration is still held; a process that lost one sends nothing at all.
    let other = held();
    let answer = call(&egress, &other, &Arc::default())
        .fetch(get("/servers"))
        .await;
    assert!(matches!(error(answer), FetchError::Denied(_)));
    assert_eq!(server.lines().len(), 1);
    // A tenure without owners no longer counts.
    drop(lost);
    call(&egress, &other, &Arc::default())
        .fetch(get("/servers"))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_request_is_waited_for_as_long_as_the_lease_is_renewed() {
    let given = Arc::new(Semaphore::new(0));
    let places = given.clone();
    let server = Server::start(move |_| Reply::Held(places.clone(), Box::new(ok("{}")))).await;
    let egress = egress(&format!("http://{}", server.address));
    let tenure = Arc::new(Tenure::pending());
    let first_end = Duration::from_millis(500);
    let sent = now();
    tenure.renewed(sent, MINUTE, first_end);
    let scope = call(&egress, &tenure, &Arc::default());
    let fetch = tokio::spawn(async move { scope.fetch(get("/servers")).await });
    eventually("the request arrives", || server.lines().len() == 1).await;
    tenure.renewed(sent, MINUTE, MINUTE);
    eventually("the first end passes", || now() > sent.after(first_end)).await;
    given.add_permits(1);
    assert_eq!(fetch.await.unwrap().unwrap().status, 200);
}

#[tokio::test]
async fn a_request_ends_with_the_lease() {
    let server = Server::start(|_| Reply::Silence).await;
    let egress = egress(&format!("http://{}", server.address));
    let tenure = Arc::new(Tenure::pending());
    tenure.renewed(now(), MINUTE, Duration::from_millis(500));
    let answer = call(&egress, &tenure, &Arc::default())
        .fetch(get("/servers"))
        .await;
    match error(answer) {
        FetchError::TimedOut(text) => assert!(text.contains("the permit"), "{text}"),
        other => panic!("{other:?}"),
    }
}
