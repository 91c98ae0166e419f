//! How a failed request to the API server reads in the log.

use std::error::Error;

use ccm_core::failure;
use ccm_proxy::ProxyError;

/// The error, or a watch's, in one sentence: the API server's answer, or the innermost cause with the proxy at which it
/// happened.
pub fn describe(error: &(dyn Error + 'static)) -> String {
    let mut causes = std::iter::successors(Some(error), |error| Error::source(*error));
    let answer = causes.find_map(|cause| match cause.downcast_ref::<kube::Error>() {
        Some(kube::Error::Api(status)) => Some(failure::of_status(status.code, &status.message)),
        _ => None,
    });
    answer.unwrap_or_else(|| {
        let cause = failure::root_cause(error);
        let mut causes = std::iter::successors(Some(error), |error| Error::source(*error));
        let proxy = causes.find_map(|cause| cause.downcast_ref::<ProxyError>());
        let proxy = proxy.map(ToString::to_string);
        match proxy.filter(|proxy| *proxy != cause) {
            // Without the proxy's name, the error would say that the API server cannot be reached.
            Some(proxy) => format!("{proxy}: {cause}"),
            None => cause,
        }
    })
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use kube::runtime::watcher;

    use super::*;

    fn refused() -> kube::Error {
        let status = Status::failure("Unauthorized", "Unauthorized");
        kube::Error::Api(Box::new(status.with_code(401)))
    }

    #[test]
    fn a_refused_token_is_one_sentence_whoever_wraps_it() {
        let text = "the API server refuses the token (401 Unauthorized)";
        assert_eq!(describe(&refused()), text);
        assert_eq!(
            describe(&watcher::Error::InitialListFailed(refused())),
            text
        );
        assert_eq!(describe(&watcher::Error::WatchStartFailed(refused())), text);
    }

    #[test]
    fn a_server_that_is_away_is_told_by_the_innermost_cause() {
        let away = std::io::Error::from_raw_os_error(111);
        let error = watcher::Error::WatchFailed(kube::Error::Service(Box::new(away)));
        assert_eq!(describe(&error), "connection refused");
    }
}
