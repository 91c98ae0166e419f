//! The scripted cloud: it can be told to fail, to be slow, and to hold calls.

use std::sync::Mutex;

use ccm_core::cloud::ProviderError;
use ccm_fixtures::provider::{Asked, Call, ScriptedProvider};
use tokio::sync::Notify;

use super::*;

/// A cloud that makes a load balancer for everybody, and notes what it was asked.
pub(super) struct Balancers {
    pub(super) provider: Arc<ScriptedProvider>,
    script: Arc<Script>,
}

#[derive(Default)]
struct Script {
    /// Calls, noted when they are no longer held.
    calls: Mutex<Vec<Call>>,
    /// What the next calls of this kind end with.
    faults: Mutex<Vec<(&'static str, ProviderError)>>,
    /// Calls about Services whose names begin so time out after this.
    slow: Mutex<Option<(&'static str, Duration)>>,
    /// Calls of this kind about this Service wait until it is let go.
    held: Mutex<Option<(&'static str, &'static str)>>,
    let_go: Notify,
}

impl Script {
    async fn enter(&self, call: Call) -> Result<(), ProviderError> {
        let held = *self.held.lock().unwrap();
        if held == Some((call.function, call.object.as_str())) {
            self.let_go.notified().await;
        }
        self.calls.lock().unwrap().push(call.clone());
        let slow = *self.slow.lock().unwrap();
        let name = call.object.strip_prefix("default/").unwrap();
        if let Some((_, time)) = slow.filter(|(names, _)| name.starts_with(names)) {
            tokio::time::sleep(time).await;
            return Err(ProviderError::TimedOut("on purpose".to_owned()));
        }
        let mut faults = self.faults.lock().unwrap();
        match faults.iter().position(|(kind, _)| *kind == call.function) {
            Some(index) => Err(faults.remove(index).1),
            None => Ok(()),
        }
    }
}

impl Balancers {
    pub(super) fn new() -> Balancers {
        Balancers::of(ScriptedProvider::new("sim").balancing())
    }

    pub(super) fn of(provider: ScriptedProvider) -> Balancers {
        let script = Arc::<Script>::default();
        let asked = script.clone();
        let provider = provider.scripted(move |Asked { call, .. }| {
            let (script, call) = (asked.clone(), call.clone());
            Box::pin(async move { script.enter(call).await })
        });
        Balancers {
            provider: Arc::new(provider),
            script,
        }
    }

    /// What was asked since the last time, as `function service`.
    pub(super) fn asked(&self) -> Vec<String> {
        self.take().iter().map(Call::to_string).collect()
    }

    /// Since the last time it was asked to remove this Service's load balancer, and now there is none.
    pub(super) fn removed(&self, service: &str) {
        let asked = self.asked();
        assert!(asked.contains(&format!("delete {service}")), "{asked:?}");
        assert_eq!(self.provider.balanced(), Vec::<String>::new());
    }

    pub(super) fn take(&self) -> Vec<Call> {
        std::mem::take(&mut self.script.calls.lock().unwrap())
    }

    /// The next call of this kind ends with this.
    pub(super) fn fail(&self, function: &'static str, error: ProviderError) {
        self.script.faults.lock().unwrap().push((function, error));
    }

    /// Calls about Services whose names begin so time out after this.
    pub(super) fn slow_down(&self, names: &'static str, time: Duration) {
        *self.script.slow.lock().unwrap() = Some((names, time));
    }

    /// Calls of this kind about this Service wait from now on.
    pub(super) fn hold(&self, function: &'static str, service: &'static str) {
        *self.script.held.lock().unwrap() = Some((function, service));
    }

    /// The held call goes on.
    pub(super) fn let_go(&self) {
        self.script.let_go.notify_one();
    }

    /// The same, and no other call is held.
    pub(super) fn release(&self) {
        *self.script.held.lock().unwrap() = None;
        self.let_go();
    }
}
