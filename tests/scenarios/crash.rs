//! The deliberate death of a process: before or after its k-th effect, or its k-th mutation of the cloud. Requests that
//! it had sent may still arrive; nothing else of it goes on. Knows neither cluster nor cloud.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ccm_core::safety::audit::{AuditRecord, AuditSink, Refused, Subject, Unrecordable};
use ccm_core::safety::permit::CloudRequest;
use futures::FutureExt as _;
use tokio::sync::Notify;

/// How long the dead process's request is on its way in [`Moment::Late`]: the next process is at work by then.
pub(crate) const LATE: Duration = Duration::from_secs(5);

/// One act of a process that others can see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    /// A request to the API server that may change something, Events included.
    Write,
    /// A call of the provider.
    Call,
}

/// When the process dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// Before the act is sent.
    Before,
    /// The act is sent and done, and its answer is never read.
    After,
    /// The act is sent, and done when the next process has been at work for a while.
    Late,
}

/// A planned death at an effect or a mutation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Death {
    /// Whether `number` counts mutations, not effects.
    pub(crate) at_mutation: bool,
    /// The number of the effect or mutation, from 1.
    pub(crate) number: usize,
    /// Whether the process dies before or after it.
    pub(crate) moment: Moment,
}

/// The life of the first process of a play. Clones are the same life.
#[derive(Clone)]
pub(crate) struct Life {
    shared: Arc<Shared>,
}

struct Shared {
    death: Option<Death>,
    over: Notify,
    so_far: Mutex<SoFar>,
}

#[derive(Default)]
struct SoFar {
    is_over: bool,
    effects: Vec<Act>,
    /// For each mutation announced to the audit sink, whether its end was reported, too.
    mutations: Vec<bool>,
}

/// The panic that unwinds a process which dies inside the audit sink, where nothing can wait.
struct Killed;

impl Life {
    /// A life with this death, if any.
    pub(crate) fn new(death: Option<Death>) -> Life {
        let shared = Shared {
            death,
            over: Notify::new(),
            so_far: Mutex::default(),
        };
        Life {
            shared: Arc::new(shared),
        }
    }

    /// Whether the process is dead.
    pub(crate) fn is_over(&self) -> bool {
        self.shared.so_far.lock().unwrap().is_over
    }

    /// The effects so far: writes and calls in their order.
    pub(crate) fn effects(&self) -> Vec<Act> {
        self.shared.so_far.lock().unwrap().effects.clone()
    }

    /// How many mutations were announced, and how many of them have ended.
    pub(crate) fn mutations(&self) -> (usize, usize) {
        let so_far = self.shared.so_far.lock().unwrap();
        let ended = so_far.mutations.iter().filter(|ended| **ended).count();
        (so_far.mutations.len(), ended)
    }

    /// An effect of this life: counted, and the process's death if it is planned here.
    pub(crate) async fn effect<T: Send + 'static>(
        &self,
        act: Act,
        carry_out: impl Future<Output = T> + Send + 'static,
    ) -> T {
        self.wait_if_over().await;
        let number = {
            let mut so_far = self.shared.so_far.lock().unwrap();
            so_far.effects.push(act);
            so_far.effects.len()
        };
        match self.dies_at(false, number) {
            None => return carry_out.await,
            Some(Moment::Before) => {}
            Some(Moment::After) => drop(carry_out.await),
            Some(Moment::Late) => {
                tokio::spawn(async move {
                    tokio::time::sleep(LATE).await;
                    drop(carry_out.await);
                });
            }
        }
        self.end();
        std::future::pending().await
    }

    /// Never returns if the process is dead.
    pub(crate) async fn wait_if_over(&self) {
        if self.is_over() {
            std::future::pending::<()>().await;
        }
    }

    fn dies_at(&self, at_mutation: bool, number: usize) -> Option<Moment> {
        let death = self.shared.death.as_ref()?;
        let is_now = death.at_mutation == at_mutation && death.number == number;
        is_now.then_some(death.moment)
    }

    fn end(&self) {
        self.shared.so_far.lock().unwrap().is_over = true;
        self.shared.over.notify_one();
    }

    /// Runs the process, and after its death the one that takes its place.
    pub(crate) async fn then<T>(
        &self,
        first: impl Future<Output = T>,
        second: impl Future<Output = T>,
    ) -> T {
        let first = AssertUnwindSafe(first).catch_unwind();
        let ended: Result<T, Box<dyn Any + Send>> = tokio::select! {
            biased;
            () = self.shared.over.notified() => return second.await,
            ended = first => ended,
        };
        match ended {
            Ok(result) => result,
            Err(panic) if panic.is::<Killed>() => second.await,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

/// The crash points of mutations: the sink stands where the request is written, below buffers and pools. A permit for a
/// process under test has its [`Life`] as the sink.
impl AuditSink for Life {
    fn before(&self, _: &Subject, _: &CloudRequest) -> Result<(), Unrecordable> {
        if self.is_over() {
            std::panic::resume_unwind(Box::new(Killed));
        }
        let number = {
            let mut so_far = self.shared.so_far.lock().unwrap();
            so_far.mutations.push(false);
            so_far.mutations.len()
        };
        if self.dies_at(true, number) == Some(Moment::Before) {
            self.end();
            std::panic::resume_unwind(Box::new(Killed));
        }
        Ok(())
    }

    fn after(&self, _: &AuditRecord) {
        let number = {
            let mut so_far = self.shared.so_far.lock().unwrap();
            let open = so_far.mutations.iter().position(|ended| !ended);
            let index = open.expect("what ends has begun");
            so_far.mutations[index] = true;
            index + 1
        };
        if self.dies_at(true, number) == Some(Moment::After) {
            self.end();
            std::panic::resume_unwind(Box::new(Killed));
        }
    }

    fn refused(&self, _: &Refused<'_>) {}
}
