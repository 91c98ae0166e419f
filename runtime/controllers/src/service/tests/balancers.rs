//! The scripted cloud.

use std::sync::Mutex;

use ccm_core::cloud::{Capabilities, CloudNode, CloudProvider, FindReply, ProviderError, Reply};
use ccm_core::load_balancer::{
    CloudService, DeleteRequest, EnsureReply, EnsureRequest, Ensured, Found, GetReply, Ingress,
    LoadBalancerStatus, Progress, ProgressReply, UpdateRequest,
};
use ccm_core::permit::Permit;
use tokio::sync::Notify;

use super::*;

/// A cloud that makes a load balancer for everybody, and notes what it was asked.
pub(super) struct Balancers {
    makes: bool,
    calls: Mutex<Vec<Call>>,
    /// What the next calls of this kind end with.
    faults: Mutex<Vec<(&'static str, ProviderError)>>,
    /// Calls about Services whose names begin so time out after this.
    pub(super) slow: Mutex<Option<(&'static str, Duration)>>,
    /// Calls of this kind about this Service wait until it is let go.
    pub(super) held: Mutex<Option<(&'static str, String)>>,
    pub(super) let_go: Notify,
    pub(super) there: Mutex<Vec<String>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) what: &'static str,
    pub(super) service: String,
    pub(super) uid: String,
    pub(super) targets: Vec<String>,
}

impl Balancers {
    pub(super) fn new() -> Arc<Balancers> {
        Balancers::who(true)
    }

    pub(super) fn who(makes: bool) -> Arc<Balancers> {
        Arc::new(Balancers {
            makes,
            calls: Mutex::default(),
            faults: Mutex::default(),
            slow: Mutex::default(),
            held: Mutex::default(),
            let_go: Notify::new(),
            there: Mutex::default(),
        })
    }

    /// What was asked since the last time, as `what service`.
    pub(super) fn asked(&self) -> Vec<String> {
        let calls = self.take().into_iter();
        calls
            .map(|call| format!("{} {}", call.what, call.service))
            .collect()
    }

    /// Since the last time it was asked to remove this Service's load balancer, and now there is none.
    pub(super) fn removed(&self, service: &str) {
        let asked = self.asked();
        assert!(asked.contains(&format!("delete {service}")), "{asked:?}");
        assert!(self.there.lock().unwrap().iter().all(String::is_empty));
    }

    pub(super) fn take(&self) -> Vec<Call> {
        std::mem::take(&mut self.calls.lock().unwrap())
    }

    /// Where the load balancer of this Service can be reached, if there is one.
    fn address(&self, uid: &str) -> Option<LoadBalancerStatus> {
        let there = self.there.lock().unwrap();
        there.iter().position(|one| one == uid).map(status)
    }

    /// The next call of this kind ends with this.
    pub(super) fn fail(&self, what: &'static str, error: ProviderError) {
        self.faults.lock().unwrap().push((what, error));
    }

    async fn note(
        &self,
        what: &'static str,
        service: &CloudService,
        targets: &[CloudNode],
    ) -> Result<(), ProviderError> {
        let name = format!("{}/{}", service.namespace, service.name);
        let held = self.held.lock().unwrap().clone();
        if held == Some((what, name.clone())) {
            self.let_go.notified().await;
        }
        self.calls.lock().unwrap().push(Call {
            what,
            service: name,
            uid: service.uid.clone(),
            targets: targets.iter().map(|node| node.name.clone()).collect(),
        });
        let slow = *self.slow.lock().unwrap();
        if let Some((_, time)) = slow.filter(|(names, _)| service.name.starts_with(names)) {
            tokio::time::sleep(time).await;
            return Err(ProviderError::TimedOut("on purpose".to_owned()));
        }
        let mut faults = self.faults.lock().unwrap();
        match faults.iter().position(|(kind, _)| *kind == what) {
            Some(index) => Err(faults.remove(index).1),
            None => Ok(()),
        }
    }
}

fn status(index: usize) -> LoadBalancerStatus {
    LoadBalancerStatus {
        ingress: vec![Ingress {
            ip: Some(format!("198.51.100.{}", index + 1)),
            ..Ingress::default()
        }],
    }
}

impl CloudProvider for Balancers {
    fn name(&self) -> &str {
        "sim"
    }

    fn schemes(&self) -> &[String] {
        &[]
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            load_balancer: self.makes,
            ..Capabilities::default()
        }
    }

    fn find<'a>(&'a self, _: &'a [CloudNode], _: Arc<Permit>) -> Reply<'a, FindReply> {
        Box::pin(async { panic!("nobody asks about nodes") })
    }

    fn find_fresh<'a>(&'a self, _: &'a [CloudNode], _: Arc<Permit>) -> Reply<'a, FindReply> {
        Box::pin(async { panic!("nobody asks about nodes") })
    }

    fn ensure_load_balancer<'a>(
        &'a self,
        request: &'a EnsureRequest,
        _: Arc<Permit>,
    ) -> Reply<'a, EnsureReply> {
        Box::pin(async move {
            self.note("ensure", &request.service, &request.targets)
                .await?;
            let uid = &request.service.uid;
            let status = self.address(uid).unwrap_or_else(|| {
                let mut there = self.there.lock().unwrap();
                there.push(uid.clone());
                status(there.len() - 1)
            });
            Ok(EnsureReply {
                ensured: Ensured::Ready(status),
                events: Vec::new(),
                annotations: Vec::new(),
            })
        })
    }

    fn update_targets<'a>(
        &'a self,
        request: &'a UpdateRequest,
        _: Arc<Permit>,
    ) -> Reply<'a, ProgressReply> {
        Box::pin(async move {
            self.note("update", &request.service, &request.targets)
                .await?;
            Ok(done())
        })
    }

    fn delete_load_balancer<'a>(
        &'a self,
        request: &'a DeleteRequest,
        _: Arc<Permit>,
    ) -> Reply<'a, ProgressReply> {
        Box::pin(async move {
            self.note("delete", &request.service, &[]).await?;
            let mut there = self.there.lock().unwrap();
            for one in there.iter_mut().filter(|one| **one == request.service.uid) {
                *one = String::new();
            }
            Ok(done())
        })
    }

    fn get_load_balancer<'a>(
        &'a self,
        service: &'a CloudService,
        _: Arc<Permit>,
    ) -> Reply<'a, GetReply> {
        Box::pin(async move {
            self.note("get", service, &[]).await?;
            let found = match self.address(&service.uid) {
                Some(status) => Found::Present(status),
                None => Found::Absent,
            };
            Ok(GetReply {
                found,
                complete: true,
            })
        })
    }
}

fn done() -> ProgressReply {
    ProgressReply {
        progress: Progress::Done,
        events: Vec::new(),
        annotations: Vec::new(),
    }
}
