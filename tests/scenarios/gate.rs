//! The wire between the controllers and the API server, which can be cut: behind the k-th write the process
//! is as good as killed. What it wrote is stored, the answer never comes, and nothing else is sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use http::Method;
use kube::Client;
use kube::client::Body;
use tokio::sync::Notify;

/// A wire. Clones are the same wire.
#[derive(Clone)]
pub(crate) struct Gate {
    shared: Arc<Shared>,
}

struct Shared {
    writes: AtomicUsize,
    last: Option<usize>,
    is_cut: AtomicBool,
    cut: Notify,
}

impl Gate {
    /// A wire that is cut behind its `last`-th write.
    pub(crate) fn new(last: Option<usize>) -> Gate {
        let shared = Shared {
            writes: AtomicUsize::new(0),
            last,
            is_cut: AtomicBool::new(false),
            cut: Notify::new(),
        };
        Gate {
            shared: Arc::new(shared),
        }
    }

    /// How many writes have been sent.
    pub(crate) fn writes(&self) -> usize {
        self.shared.writes.load(Ordering::SeqCst)
    }

    /// Ends when the wire is cut.
    pub(crate) async fn cut(&self) {
        self.shared.cut.notified().await;
    }

    /// `inner`, reached through this wire; directly when the wire has been cut already.
    pub(crate) fn client(&self, inner: Client) -> Client {
        if self.shared.is_cut.load(Ordering::SeqCst) {
            return inner;
        }
        let gate = self.clone();
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let (gate, inner) = (gate.clone(), inner.clone());
            async move { gate.send(inner, request).await }
        });
        Client::new(service, "default")
    }

    async fn send(
        &self,
        inner: Client,
        request: http::Request<Body>,
    ) -> kube::Result<http::Response<Body>> {
        if self.shared.is_cut.load(Ordering::SeqCst) {
            return std::future::pending().await;
        }
        let number = match *request.method() {
            Method::GET => None,
            _ => Some(self.shared.writes.fetch_add(1, Ordering::SeqCst) + 1),
        };
        let answer = inner.send(request).await;
        if number.is_some() && self.shared.last == number {
            self.shared.is_cut.store(true, Ordering::SeqCst);
            self.shared.cut.notify_one();
            return std::future::pending().await;
        }
        answer
    }
}
