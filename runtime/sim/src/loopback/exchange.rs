//! Processing of one request, the same at every cloud that answers in JSON.
//!
//! The order is: record the request, look for a fault, execute the request or replace its execution, deliver. Each
//! cloud implements the execution.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use tokio::time::{sleep, timeout};

use super::serve::{Line, REQUEST_TIMEOUT, Respond};
use super::trouble::{Envelope, Reply, Trouble, instead};
use super::wire::{Answer, Body, response};

/// A simulated cloud, as far as the processing of its requests needs it.
pub(crate) trait Exchange: Send + Sync + 'static {
    /// The unit that a client's credential belongs to: a project or an account.
    type Account: Send + Sync + 'static;
    /// The vendor's form of refusals and lists.
    type Vendor: Envelope;

    /// The largest request body, in bytes.
    const MAX_BODY: usize;

    /// Delay before each request is executed.
    fn latency(&self) -> Duration;

    /// The account of a request. `None`: there is none, which a client sees as 503.
    fn account(&self, head: &Parts) -> Option<Arc<Self::Account>>;

    /// Records a request and finds the fault for it.
    fn receive(&self, account: &Self::Account, line: &Line, head: &Parts)
    -> (u64, Option<Trouble>);

    /// Checks the credential and executes the request.
    fn carry_out(
        &self,
        account: &Self::Account,
        head: &Parts,
        body: Bytes,
        trouble: Option<&Trouble>,
    ) -> Answer;

    /// Adds the status to the record of a request.
    fn answered(&self, account: &Self::Account, sequence: u64, status: u16);

    /// The refusal of a body that is too large.
    fn too_large() -> Reply;
}

impl<Cloud: Exchange> Respond for Cloud {
    async fn respond(&self, line: &Line, request: Request<Incoming>) -> Response<Body> {
        let (head, body) = request.into_parts();
        let Some(account) = self.account(&head) else {
            return response(Answer::plain(503, Bytes::new()));
        };
        let (sequence, trouble) = self.receive(&account, line, &head);
        if self.latency() > Duration::ZERO {
            sleep(self.latency()).await;
        }
        match &trouble {
            Some(Trouble::ResetBefore) => match line.reset().await {},
            Some(Trouble::SlowBefore(pause)) => sleep(*pause).await,
            _ => {}
        }
        let answer = match trouble.as_ref().and_then(instead::<Cloud::Vendor>) {
            Some(answer) => answer,
            None => match timeout(
                REQUEST_TIMEOUT,
                Limited::new(body, Cloud::MAX_BODY).collect(),
            )
            .await
            {
                Ok(Ok(body)) => self.carry_out(&account, &head, body.to_bytes(), trouble.as_ref()),
                _ => Cloud::too_large().into(),
            },
        };
        match &trouble {
            Some(Trouble::ResetAfter) => match line.reset().await {},
            Some(Trouble::SlowAfter(pause)) => sleep(*pause).await,
            _ => {}
        }
        self.answered(&account, sequence, answer.status.as_u16());
        response(answer)
    }
}
