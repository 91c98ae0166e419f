//! Batches look-ups: while one call is in progress, further look-ups gather for the next. Knows no cloud; the creator
//! supplies the call. Nodes are converted for the provider only when the call is made, not while they wait.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use ccm_core::cloud::instance::MOST_NODES;
use ccm_core::cloud::{CloudNode, FindReply, ProviderError};
use ccm_core::node::Looked;
use ccm_core::node::cloud_node::cloud_node;
use ccm_core::node::index::Clashes;
use ccm_core::node::object::PrunedNode;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::clock::timer_now;

/// Maximum number of nodes in one call; the contract's. Most clouds answer for many nodes by listing all their machines, so
/// that every further call of a large cluster reads that list again.
pub(crate) const MOST: usize = MOST_NODES;
/// Maximum number in the first call: the first nodes are written while the others are asked about.
const FIRST: usize = MOST / 2;
/// Time that the first look-up waits for others: the nodes of one scale-up arrive within milliseconds, and no user
/// notices this delay.
const GATHER: Duration = Duration::from_millis(10);

/// How long a size that was too large is not tried again. It mostly is for as long as the nodes carry what they carry, and
/// each attempt costs a look-up and a pause of all calls of the provider.
const TOO_LARGE: Duration = Duration::from_secs(3_600);

/// Gathers look-ups into batches. One call runs at a time.
pub(crate) struct Batch {
    waiting: mpsc::UnboundedSender<Waiting>,
}

struct Waiting {
    node: Arc<PrunedNode>,
    reply: oneshot::Sender<Result<Looked, ProviderError>>,
}

impl Batch {
    /// Creates a batch that calls `ask`, and the future that makes the calls while it is polled.
    ///
    /// The queue itself is unbounded: each entry is a waiting reconciliation, and their number is bounded.
    pub(crate) fn new<Ask, Asked>(ask: Ask) -> (Batch, impl Future<Output = ()>)
    where
        Ask: Fn(Vec<CloudNode>) -> Asked,
        Asked: Future<Output = Result<FindReply, ProviderError>>,
    {
        let (waiting, queue) = mpsc::unbounded_channel();
        (Batch { waiting }, serve(queue, ask))
    }

    /// Looks up one node, batched with others.
    pub(crate) async fn find(&self, node: Arc<PrunedNode>) -> Result<Looked, ProviderError> {
        let (reply, answer) = oneshot::channel();
        let stopped = || ProviderError::Unavailable("the manager is stopping".to_owned());
        self.waiting
            .send(Waiting { node, reply })
            .map_err(|_| stopped())?;
        answer.await.unwrap_or_else(|_| Err(stopped()))
    }
}

async fn serve<Ask, Asked>(mut queue: mpsc::UnboundedReceiver<Waiting>, ask: Ask)
where
    Ask: Fn(Vec<CloudNode>) -> Asked,
    Asked: Future<Output = Result<FindReply, ProviderError>>,
{
    let mut size = BatchSize::first();
    while let Some(first) = queue.recv().await {
        tokio::time::sleep(GATHER).await;
        let mut batch = vec![first];
        while batch.len() < size.most
            && let Ok(next) = queue.try_recv()
        {
            batch.push(next);
        }
        batch.retain(|one| !one.reply.is_closed());
        if batch.is_empty() {
            continue;
        }
        let (nodes, replies): (Vec<_>, Vec<_>) = batch
            .into_iter()
            .map(|one| (cloud_node(&one.node), one.reply))
            .unzip();
        let asked = nodes.len();
        let answer = ask(nodes).await;
        size.ended(asked, answer.as_ref().err(), timer_now());
        deliver(replies, answer);
    }
}

/// Maximum size of the next batch. One node that crashes a provider must not block all others for ever: after a crash
/// the size is halved, after the success of a full batch doubled.
struct BatchSize {
    most: usize,
    /// The largest batch that has ended well since the last crash.
    well: usize,
    /// The size of the last batch that crashed, until one as large ends well.
    crashed: Option<usize>,
    /// The last batch that crashed because it was larger than those that end well, and when.
    too_large: Option<(usize, Instant)>,
}

impl BatchSize {
    fn first() -> BatchSize {
        BatchSize {
            most: FIRST,
            well: 0,
            crashed: None,
            too_large: None,
        }
    }

    fn ended(&mut self, asked: usize, error: Option<&ProviderError>, now: Instant) {
        match error {
            None => {
                self.well = self.well.max(asked);
                self.crashed = self.crashed.filter(|size| *size > self.well);
                let doubled = (self.most * 2).min(MOST);
                let is_too_large = self
                    .too_large
                    .is_some_and(|(size, at)| size <= doubled && now - at < TOO_LARGE);
                if asked >= self.most && !is_too_large {
                    self.most = doubled;
                }
            }
            Some(error) if error.is_crash() => {
                // Otherwise a node may be the cause, or the cloud, which was away for a while.
                let is_again = self.crashed.is_some_and(|size| size <= asked);
                let is_too_large = is_again && (1..asked).contains(&self.well);
                self.too_large = is_too_large.then_some((asked, now));
                (self.well, self.crashed) = (0, Some(asked));
                self.most = (asked / 2).max(1);
            }
            Some(_) => {}
        }
    }
}

/// Sends each node its part of the answer. An error applies to every node of the call. Nodes that no longer wait are
/// skipped.
fn deliver(
    replies: Vec<oneshot::Sender<Result<Looked, ProviderError>>>,
    answer: Result<FindReply, ProviderError>,
) {
    let parts: Vec<Result<Looked, ProviderError>> = match answer {
        Ok(reply) if reply.lookups.len() == replies.len() => {
            split(reply).into_iter().map(Ok).collect()
        }
        Ok(reply) => {
            let error = ProviderError::Internal(format!(
                "{} look-ups were answered for {} nodes",
                reply.lookups.len(),
                replies.len()
            ));
            vec![Err(error); replies.len()]
        }
        Err(error) => vec![Err(error); replies.len()],
    };
    for (reply, part) in replies.into_iter().zip(parts) {
        let _ = reply.send(part);
    }
}

fn split(reply: FindReply) -> Vec<Looked> {
    let complete = reply.complete;
    let mut parts: Vec<Looked> = reply
        .lookups
        .into_iter()
        .map(|lookup| Looked {
            lookup,
            events: Vec::new(),
            complete,
            clashes: Clashes::default(),
        })
        .collect();
    for (index, event) in reply.events {
        if let Some(part) = parts.get_mut(index) {
            part.events.push(event);
        }
    }
    parts
}

#[cfg(test)]
mod tests;
