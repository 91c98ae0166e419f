//! The account as the processing of requests sees it: it counts logins and requests, executes them, and refuses in the
//! vendor's envelope.

use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{Method, StatusCode};

use super::Options;
use super::api::{self, Account, Refusal};
use super::login::FailedLogins;
use super::rate::{CallKind, RateLimits, Windows};
use crate::loopback::{Api, Clock, Denial, Reply, Trouble};

/// The account, and what was counted of its clients.
pub(super) struct State {
    pub(super) account: Account,
    failed_logins: FailedLogins,
    windows: Option<Windows>,
    clock: Clock,
}

impl State {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            account: Account::default(),
            failed_logins: FailedLogins::new(options.lockout),
            windows: options.rate_limits.map(Windows::new),
            clock: Arc::clone(&options.clock),
        }
    }
}

impl Api for State {
    const ROOT: &'static str = "";

    /// The vendor's own forms are a few hundred bytes.
    const MAX_BODY: usize = 1 << 16;

    fn is_locked_out(&mut self) -> bool {
        self.failed_logins.is_locked_out((self.clock)())
    }

    fn count_login(&mut self, is_valid: bool) {
        self.failed_logins.count(is_valid, (self.clock)());
    }

    fn execute(&mut self, head: &Parts, body: Bytes, _: Option<&Trouble>) -> Reply {
        let path = head.uri.path();
        let kind = CallKind::of(head.method != Method::GET, path);
        let counted = match &mut self.windows {
            Some(windows) => windows.take(kind, (self.clock)()),
            None => Ok(()),
        };
        counted
            .map_err(Refusal::rate_limited)
            .and_then(|()| api::answer(&mut self.account, &head.method, path, &body))
            .map_or_else(Refusal::into_reply, Reply::ok)
    }

    fn denial(why: Denial) -> Reply {
        let refusal = match why {
            // No login allows only reading.
            Denial::Unauthorized | Denial::ReadOnly => Refusal::unauthorized(),
            Denial::TooMany => Refusal::rate_limited(RateLimits::VENDOR.server_reads),
            Denial::TooLarge => {
                let message = "the form is too large or never ends";
                Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "INVALID_INPUT", message)
            }
        };
        refusal.into_reply()
    }

    fn refusal(status: StatusCode, code: &str, message: &str) -> Reply {
        Refusal::new(status, code, message).into_reply()
    }
}
