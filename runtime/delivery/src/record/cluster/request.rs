//! Requests to the API server about the object `Provider`: their time limit and the meaning of their errors.

use std::time::Duration;

use ccm_core::failure;
use ccm_core::well_known::{
    FIELD_MANAGER, PROVIDER_GROUP, PROVIDER_KIND, PROVIDER_PLURAL, PROVIDER_VERSION,
};
use kube::api::PatchParams;
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::watcher;
use serde_json::Value;

use crate::record::RecordStoreError;

/// Time limit of one request: the API server's own, which may wait for admission webhooks. A request under a lease ends
/// with it.
pub(super) const REQUEST_TIME: Duration = Duration::from_secs(60);

/// How long a task waits for what another one of this store finds out.
pub(super) const FOUND_WITHIN: Duration = Duration::from_secs(10);

/// The API resource of the object `Provider`.
pub fn provider_resource() -> ApiResource {
    let kind = GroupVersionKind::gvk(PROVIDER_GROUP, PROVIDER_VERSION, PROVIDER_KIND);
    ApiResource::from_gvk_with_plural(&kind, PROVIDER_PLURAL)
}

/// Patch parameters with this program's field manager.
pub(super) fn params() -> PatchParams {
    PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    }
}

/// Status code with which a list of the kind, not of one object, was refused. 404: the kind does not exist. Without the
/// right to list it the code is 403, whether the kind exists or not.
pub(super) fn code_of_list(error: &watcher::Error) -> Option<u16> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status)) => Some(status.code),
        _ => None,
    }
}

/// Why the watch failed, in one sentence.
pub(super) fn describe(error: &watcher::Error) -> String {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status)) => {
            failure::of_status(status.code, &status.message)
        }
        error => failure::root_cause(error),
    }
}

/// Removes from the status the fields that an apply was refused for, because the kind, as the cluster defines it, lacks
/// them. This has no code of its own: each line of the message names one. Returns whether there was any.
pub(super) fn remove_undeclared(status: &mut Value, error: &RecordStoreError) -> bool {
    let (RecordStoreError::Unavailable(why) | RecordStoreError::Refused(why)) = error else {
        return false;
    };
    let mut has_removed = false;
    for line in why.lines() {
        // `failed to create typed patch object (…): .status.goneBack: field not declared in schema`
        let named = line.strip_suffix(": field not declared in schema");
        let path = named.and_then(|named| named.rsplit(' ').next());
        if let Some(path) = path.and_then(|path| path.strip_prefix(".status.")) {
            has_removed |= remove(status, path);
        }
    }
    has_removed
}

/// Removes the field at this path, from every element where the path leads through a list. Returns whether there was one.
fn remove(value: &mut Value, path: &str) -> bool {
    match value {
        Value::Array(elements) => {
            let removed = elements.iter_mut().map(|element| remove(element, path));
            removed.fold(false, |any, one| any | one)
        }
        Value::Object(fields) => match path.split_once('.') {
            Some((name, rest)) => {
                // `rejected[0]` and `conditions[type="Ready"]` name one element.
                let name = name.split_once('[').map_or(name, |(list, _)| list);
                fields.get_mut(name).is_some_and(|next| remove(next, rest))
            }
            None => fields.remove(path).is_some(),
        },
        _ => false,
    }
}

/// The answer to a request, within the time limit. Every error status counts as a failure.
pub(super) async fn in_time<T>(
    request: impl Future<Output = kube::Result<T>>,
) -> Result<T, RecordStoreError> {
    match in_time_or(request).await? {
        Ok(answer) => Ok(answer),
        Err(code) => Err(RecordStoreError::Refused(format!(
            "the API server answered {code}"
        ))),
    }
}

/// The answer to a request, within the time limit. The inner `Err` is 404 or 409, which callers handle as answers.
pub(super) async fn in_time_or<T>(
    request: impl Future<Output = kube::Result<T>>,
) -> Result<Result<T, u16>, RecordStoreError> {
    let answer = tokio::time::timeout(REQUEST_TIME, request).await;
    match answer {
        Ok(Ok(answer)) => Ok(Ok(answer)),
        Ok(Err(kube::Error::Api(status))) => match status.code {
            code @ (404 | 409) => Ok(Err(code)),
            400 | 401 | 403 | 405 | 413 | 415 | 422 => {
                Err(RecordStoreError::Refused(status.message.clone()))
            }
            _ => Err(RecordStoreError::Unavailable(status.message.clone())),
        },
        Ok(Err(error)) => Err(RecordStoreError::Unavailable(failure::root_cause(&error))),
        Err(_) => Err(RecordStoreError::Unavailable(format!(
            "no answer within {REQUEST_TIME:?}"
        ))),
    }
}
