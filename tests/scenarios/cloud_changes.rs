//! A change at the scripted cloud, as the egress makes it: permitted, carried out, reported. The permit's audit sink is
//! where a process may die. Knows neither load balancers nor routes.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use ccm_core::cloud::ProviderError;
use ccm_core::safety::audit::{Author, End};
use ccm_core::safety::permit::{Access, CloudRequest, Permit, Refusal};

/// Time between a look-up and the change that follows from it.
pub(crate) const LATENCY: Duration = Duration::from_millis(10);
/// The `retry_after` of pending changes.
pub(crate) const AGAIN: Duration = Duration::from_secs(2);

/// What the provider says of a change that a brake holds.
pub(crate) const BRAKED: &str = "the brake is engaged";

/// Why a change was not made.
pub(crate) enum Halt {
    Refused(Refusal),
    /// The process that asked is dead.
    Dead,
}

impl Halt {
    /// The provider's error; a dead process never gets it.
    pub(crate) async fn into_error(self) -> ProviderError {
        match self {
            Halt::Dead => std::future::pending().await,
            Halt::Refused(Refusal::Brake { .. }) => ProviderError::Throttled {
                message: BRAKED.to_owned(),
                retry_after: Some(AGAIN),
            },
            Halt::Refused(refusal) => ProviderError::Denied(refusal.to_string()),
        }
    }
}

/// Makes a change under `permit`, which is asked only if `is_asked` is true.
pub(crate) fn change<T>(
    permit: &Permit,
    path: &str,
    is_asked: bool,
    change: impl FnOnce() -> T,
) -> Result<T, Halt> {
    if !is_asked {
        return Ok(change());
    }
    let request = request(path);
    // Any time at which it is valid: its limits are not the subject here.
    let now = permit.valid_until();
    let asked = AssertUnwindSafe(|| permit.ask(now, &request));
    // A process that dies here unwinds.
    match std::panic::catch_unwind(asked) {
        Ok(verdict) => verdict.map_err(Halt::Refused)?,
        Err(_) => return Err(Halt::Dead),
    }
    let changed = change();
    let end = End::Answered {
        status: 200,
        request_id: None,
    };
    let ended = AssertUnwindSafe(|| permit.ended(now, now, &request, end));
    std::panic::catch_unwind(ended).map_err(|_| Halt::Dead)?;
    Ok(changed)
}

fn request(path: &str) -> CloudRequest {
    CloudRequest {
        author: Author {
            provider: "sim".to_owned(),
            digest: String::new(),
        },
        target: "api".to_owned(),
        host: "cloud.test".to_owned(),
        method: "POST".to_owned(),
        path: path.to_owned(),
        template: path.to_owned(),
        rule: format!("POST {path} (write)"),
        sha256: String::new(),
        access: Access::Write,
    }
}
