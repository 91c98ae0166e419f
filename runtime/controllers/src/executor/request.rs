//! A single API server request: its timeout and the classification of its failure.

use std::time::Duration;

use ccm_core::failure;
use ccm_core::reconciliation::effect::{ClusterError, ObjectResult};
use ccm_core::safety::tenure::Tenure;

use crate::api_error::describe;
use crate::tenure_client::over;

/// Timeout of one API server request: the API server's own. With a shorter one, the request would be given up while the
/// API server still waits for an admission webhook that it may then ignore, again and again.
const REQUEST_TIME: Duration = Duration::from_secs(60);

pub(super) fn stopping() -> ClusterError {
    ClusterError::Unavailable("the manager is stopping or no longer leader".to_owned())
}

/// Runs one request with a timeout of [`REQUEST_TIME`], or until the tenure ends if that is earlier.
pub(crate) async fn in_time<T>(
    tenure: &Tenure,
    request: impl Future<Output = kube::Result<T>>,
) -> Result<Option<T>, ClusterError> {
    within(REQUEST_TIME, tenure, request).await
}

/// As [`in_time`], with this timeout.
pub(super) async fn within<T>(
    time: Duration,
    tenure: &Tenure,
    request: impl Future<Output = kube::Result<T>>,
) -> Result<Option<T>, ClusterError> {
    let why = tokio::select! {
        biased;
        answer = request => match answer {
            Ok(object) => return Ok(Some(object)),
            Err(error) => return meaning(error),
        },
        () = over(tenure) => "no answer before the lease ended".to_owned(),
        () = tokio::time::sleep(time) => format!("no answer within {time:?}"),
    };
    Err(ClusterError::Unavailable(why))
}

/// As [`in_time`], for a request whose denial means that this manager lacks the right for ever. That an API server does
/// not know it (401), as while that starts, passes by itself.
pub(super) async fn by_right<T>(
    tenure: &Tenure,
    request: impl Future<Output = kube::Result<T>>,
) -> Result<Option<T>, ClusterError> {
    let mut is_unknown = false;
    let noted = async {
        let answer = request.await;
        is_unknown = matches!(&answer, Err(kube::Error::Api(status)) if status.code == 401);
        answer
    };
    let answered = in_time(tenure, noted).await;
    match answered {
        Err(ClusterError::Denied(why)) if is_unknown => Err(ClusterError::Unavailable(why)),
        answered => answered,
    }
}

/// Classifies a failed request. `Ok(None)`: the object does not exist.
pub(super) fn meaning<T>(error: kube::Error) -> Result<Option<T>, ClusterError> {
    let kube::Error::Api(status) = error else {
        return Err(ClusterError::Unavailable(describe(&error)));
    };
    let details = status.details.as_ref();
    let retry_after = details.map_or(0, |details| details.retry_after_seconds);
    let (code, message) = (status.code, status.message);
    match code {
        404 => Ok(None),
        409 => Err(ClusterError::Conflict(message)),
        400 | 405 | 413 | 415 | 422 => Err(ClusterError::Rejected(message)),
        401 => Err(ClusterError::Denied(failure::of_status(401, &message))),
        403 => Err(ClusterError::Denied(message)),
        429 if retry_after > 0 => Err(ClusterError::Busy {
            message: format!("{message} (429)"),
            retry_after: Duration::from_secs(retry_after.into()),
        }),
        code => Err(ClusterError::Unavailable(format!("{message} ({code})"))),
    }
}

/// The object of a response, for an outcome.
pub(super) fn answered<T>(response: Result<Option<impl Into<T>>, ClusterError>) -> ObjectResult<T> {
    Ok(response?.map(|object| Box::new(object.into())))
}

#[cfg(test)]
mod tests;
