//! The loop that all controllers share: start what is due, wait, take the input. What is due and what an input means is
//! each controller's own. Decides nothing and executes nothing.

use std::future::Future;

use ccm_core::moment::Moment;
use tokio::time::sleep_until;

use crate::clock::Clock;
use crate::controller_lifecycle::Runnable;

/// What a controller waits for: `K` is the key of a task, `T` its result, `C` a change in the cluster.
pub(crate) enum Input<K, T, C> {
    /// The task with this key has ended; `None` if it panicked.
    Ended(K, Option<T>),
    Change(C),
}

/// A controller of one provider or of the cluster.
pub(crate) trait Controller: Send {
    /// The key of a task.
    type Key: Send;
    /// The result of a task.
    type Ended: Send;
    /// A change that the controller is notified of.
    type Change: Send;

    /// The clock of the controller's decisions.
    fn clock(&self) -> Clock;

    /// Starts what is due now. Returns the moment at which something will be due if no input comes before.
    fn start_due(&mut self) -> Option<Moment>;

    /// Waits for the next input; `None` once the channel of changes has closed. Results of tasks come before changes, so
    /// that equal states give equal sequences. No input is lost if the future is dropped.
    fn input(&mut self) -> impl Future<Output = Option<InputOf<Self>>> + Send;

    /// Takes the result of the task with this key; `None` if it panicked.
    fn conclude(&mut self, key: Self::Key, ended: Option<Self::Ended>);

    /// Takes a change.
    fn see(&mut self, change: Self::Change);

    /// Waits for running tasks and starts no others.
    fn drain(&mut self) -> impl Future<Output = ()> + Send;
}

/// What the controller `C` waits for.
pub(crate) type InputOf<C> =
    Input<<C as Controller>::Key, <C as Controller>::Ended, <C as Controller>::Change>;

impl<C: Controller> Runnable for C {
    async fn run(&mut self) {
        loop {
            let due = self.start_due();
            let due = due.map(|moment| self.clock().instant(moment));
            let timer = async {
                match due {
                    Some(due) => sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            // `biased`: an input before the timer, so that equal states give equal sequences.
            tokio::select! {
                biased;
                input = self.input() => match input {
                    Some(Input::Ended(key, ended)) => self.conclude(key, ended),
                    Some(Input::Change(change)) => self.see(change),
                    None => return,
                },
                () = timer => {}
            }
        }
    }

    async fn drain(&mut self) {
        Controller::drain(self).await;
    }
}
