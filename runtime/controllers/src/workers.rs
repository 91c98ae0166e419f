//! The concurrent tasks of a controller, each with a key.

use std::collections::HashMap;
use std::future::Future;

use tokio::task::{Id, JoinSet};

/// Running tasks, by key. Dropping it aborts them.
pub(crate) struct Workers<K, T> {
    tasks: JoinSet<T>,
    keys: HashMap<Id, K>,
}

impl<K, T: Send + 'static> Workers<K, T> {
    /// Creates a set without tasks.
    pub(crate) fn new() -> Workers<K, T> {
        Workers {
            tasks: JoinSet::new(),
            keys: HashMap::new(),
        }
    }

    /// Starts a task with this key.
    pub(crate) fn spawn(&mut self, key: K, task: impl Future<Output = T> + Send + 'static) {
        let task = self.tasks.spawn(task);
        self.keys.insert(task.id(), key);
    }

    /// The key of the next task to end, and its result; `None` if it panicked. Waits for ever while no task runs. No
    /// task is lost if the future is dropped.
    pub(crate) async fn next(&mut self) -> (K, Option<T>) {
        while let Some(ended) = self.tasks.join_next_with_id().await {
            let (id, result) = match ended {
                Ok((id, result)) => (id, Some(result)),
                Err(error) => (error.id(), None),
            };
            if let Some(key) = self.keys.remove(&id) {
                return (key, result);
            }
        }
        std::future::pending().await
    }

    /// Number of running tasks.
    pub(crate) fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Whether no task runs.
    pub(crate) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// The keys of the running tasks, in no order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &K> {
        self.keys.values()
    }

    /// Waits until all tasks have ended; drops their results.
    pub(crate) async fn drain(&mut self) {
        while self.tasks.join_next().await.is_some() {}
        self.keys.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_task_ends_with_its_key_and_one_that_panics_without_a_result() {
        let mut workers = Workers::new();
        workers.spawn("one", async { 1 });
        workers.spawn("none", async { panic!("on purpose, in a test") });
        assert_eq!(workers.len(), 2);
        let mut ended = [workers.next().await, workers.next().await];
        ended.sort_unstable();
        assert_eq!(ended, [("none", None), ("one", Some(1))]);
        assert!(workers.is_empty() && workers.keys().next().is_none());
        workers.spawn("two", async { 2 });
        workers.drain().await;
        assert!(workers.is_empty() && workers.keys().next().is_none());
    }
}
