//! The scripted cloud: its calls can be made to fail, to be slow, and to wait.

use std::sync::Mutex;

use ccm_core::cloud::ProviderError;
use ccm_fixtures::provider::{Asked, Call, ScriptedProvider};
use tokio::sync::Notify;

use super::*;

/// A cloud that makes a load balancer for every Service, and records its calls.
pub(super) struct Balancers {
    pub(super) provider: Arc<ScriptedProvider>,
    script: Arc<Script>,
}

#[derive(Default)]
struct Script {
    /// Calls, recorded when they are no longer held.
    calls: Mutex<Vec<Call>>,
    /// The errors of the next calls, each with its function.
    faults: Mutex<Vec<(&'static str, ProviderError)>>,
    /// Calls about Services whose names have this prefix, or the look-ups with this name, time out after this delay.
    slow: Mutex<Option<(&'static str, Duration)>>,
    /// Calls of this function about this Service wait until they are released.
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
        let name = call.object.strip_prefix("default/");
        let name = name.unwrap_or(call.function);
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

    /// The calls since the last time, as `function service`.
    pub(super) fn asked(&self) -> Vec<String> {
        self.take().iter().map(Call::to_string).collect()
    }

    /// Expects a call since the last time that removed this Service's load balancer, and that none is left.
    pub(super) fn removed(&self, service: &str) {
        let asked = self.asked();
        assert!(asked.contains(&format!("delete {service}")), "{asked:?}");
        assert_eq!(self.provider.balanced(), Vec::<String>::new());
    }

    pub(super) fn take(&self) -> Vec<Call> {
        std::mem::take(&mut self.script.calls.lock().unwrap())
    }

    /// Makes the next call of this function fail with this error.
    pub(super) fn fail(&self, function: &'static str, error: ProviderError) {
        self.script.faults.lock().unwrap().push((function, error));
    }

    /// Makes calls about Services whose names have this prefix, or the look-ups with this name, time out after this
    /// delay.
    pub(super) fn slow_down(&self, names: &'static str, time: Duration) {
        *self.script.slow.lock().unwrap() = Some((names, time));
    }

    /// Makes calls of this function about this Service wait from now on; look-ups are about none.
    pub(super) fn hold(&self, function: &'static str, service: &'static str) {
        *self.script.held.lock().unwrap() = Some((function, service));
    }

    /// Lets the held call continue.
    pub(super) fn let_go(&self) {
        self.script.let_go.notify_one();
    }

    /// Lets the held call continue, and holds no other.
    pub(super) fn release(&self) {
        *self.script.held.lock().unwrap() = None;
        self.let_go();
    }
}
