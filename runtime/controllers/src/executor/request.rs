//! One request to the API server: how long it may take, and what it means when it fails.

use std::fmt::Write as _;
use std::time::Duration;

use ccm_core::effect::ClusterError;
use ccm_core::tenure::Tenure;

use crate::pruned_objects::Pruned;
use crate::tenure_client::time_left;

/// How long one request to the API server may take. Shorter than the lease lasts (15 s), so that no
/// request outlives it; far longer than a healthy API server needs.
const REQUEST_TIME: Duration = Duration::from_secs(10);

pub(super) fn stopping() -> ClusterError {
    ClusterError::Unavailable("the manager is stopping or no longer leader".to_owned())
}

/// One request, cut off after [`REQUEST_TIME`], or when the tenure ends if that is earlier.
pub(crate) async fn in_time<T>(
    tenure: &Tenure,
    request: impl Future<Output = kube::Result<T>>,
) -> Result<Option<T>, ClusterError> {
    let time = time_left(tenure, REQUEST_TIME);
    match tokio::time::timeout(time, request).await {
        Ok(Ok(object)) => Ok(Some(object)),
        Ok(Err(error)) => meaning(error),
        Err(_) => Err(ClusterError::Unavailable(format!(
            "no answer within {time:?}"
        ))),
    }
}

/// What a failed request means. `Ok(None)`: there is no such object.
pub(super) fn meaning<T>(error: kube::Error) -> Result<Option<T>, ClusterError> {
    let kube::Error::Api(status) = error else {
        return Err(ClusterError::Unavailable(chain(&error)));
    };
    let message = status.message;
    match status.code {
        404 => Ok(None),
        409 => Err(ClusterError::Conflict(message)),
        400 | 405 | 413 | 415 | 422 => Err(ClusterError::Rejected(message)),
        401 | 403 => Err(ClusterError::Denied(message)),
        code => Err(ClusterError::Unavailable(format!("{message} ({code})"))),
    }
}

/// An error with its causes, outermost first. A cause that its effect has quoted already is not repeated.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let said = cause.to_string();
        if !text.contains(&said) {
            let _ = write!(text, ": {said}");
        }
        next = cause.source();
    }
    text
}

/// What an answer is about, in the form that effects end with.
pub(super) fn unwrapped<T>(
    read: Result<Option<Pruned<T>>, ClusterError>,
) -> Result<Option<Box<T>>, ClusterError> {
    Ok(read?.map(|object| Box::new(object.0)))
}
