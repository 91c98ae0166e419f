//! Injectable faults. Their types, and the responses that they distort, are those of all clouds that answer in JSON.

use super::actions::Failure;
use crate::loopback;

pub use loopback::Trouble;

/// A trouble and the requests it applies to.
pub type Fault = loopback::Fault<Trouble>;

/// The failure that a trouble imposes on the action of a request.
pub(super) fn failure_of(trouble: Option<&Trouble>) -> Option<Failure> {
    match trouble {
        Some(Trouble::ActionFails { code, message }) => Some(Failure {
            code: code.clone(),
            message: message.clone(),
        }),
        _ => None,
    }
}
