//! Messages that wait until a child reads them. The bodies of answers count in the budgets of their responses until they
//! are read. Arguments count in the memory of their call only while it is under way, and what waits of a call that was
//! cancelled stays here until it is read. So a child that stops reading is given up, and one that reads slowly gets no
//! more of each call than its begin and the answers to its requests, whose number is limited.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::mpsc;

use super::Shared;
use crate::sandbox::protocol::Frame;

/// How long a child may take to read one message.
pub(super) const READS_WITHIN: Duration = Duration::from_secs(10);

/// A message for the child.
pub(super) struct Message {
    pub(super) frame: Frame,
    pub(super) about: About,
}

/// What a message is about, with the number of the call.
pub(super) enum About {
    /// A call, of which the child knows from now on.
    Call(u64),
    /// An answer to a request of a call. It counts as the request did until it is written.
    Answer(u64),
    /// Something without a limit of its own, and small.
    Other,
}

/// Sends messages to the child. Completes only if it stops reading them.
pub(super) async fn write(
    mut messages: mpsc::UnboundedReceiver<Message>,
    mut to: OwnedWriteHalf,
    shared: Arc<Shared>,
) {
    while let Some(Message { frame, about }) = messages.recv().await {
        // Before the child can answer.
        if let About::Call(number) = about {
            shared.of(number, |call| call.is_known = true);
        }
        match tokio::time::timeout(READS_WITHIN, frame.write(&mut to)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => break,
            Err(_) => return,
        }
        if let About::Answer(number) = about {
            shared.of(number, |call| call.unread -= 1);
        }
    }
    std::future::pending().await
}
