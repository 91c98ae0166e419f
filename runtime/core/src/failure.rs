//! How failed requests to the API server are worded in logs. Decides nothing by a text.

use std::error::Error;
use std::io;

/// The log text for an answer with this status code and message.
pub fn of_status(code: u16, message: &str) -> String {
    match code {
        401 => "the API server refuses the token (401 Unauthorized)".to_owned(),
        403 => format!("the API server does not allow it (403): {message}"),
        code => format!("the API server answers {code}: {message}"),
    }
}

/// The innermost cause of an error, without system error numbers: libraries wrap one in several layers, each of which
/// repeats it.
pub fn root_cause(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| Error::source(*error));
    let mut last = String::new();
    for cause in causes {
        last = match cause.downcast_ref::<io::Error>() {
            // The system's own errors have a number in their text; those of libraries have a text of their own.
            Some(error) if error.raw_os_error().is_some() => error.kind().to_string(),
            _ => cause.to_string(),
        };
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_told_without_the_librarys_words() {
        assert_eq!(
            of_status(401, "Unauthorized"),
            "the API server refuses the token (401 Unauthorized)"
        );
        let forbidden = "nodes is forbidden: User \"x\" cannot list resource \"nodes\"";
        assert_eq!(
            of_status(403, forbidden),
            format!("the API server does not allow it (403): {forbidden}")
        );
        assert_eq!(
            of_status(503, "shutting down"),
            "the API server answers 503: shutting down"
        );
    }

    #[test]
    fn the_cause_of_an_error_is_told_in_the_systems_words_for_it() {
        let refused = io::Error::from_raw_os_error(111);
        assert_eq!(root_cause(&refused), "connection refused");
        for kind in [io::ErrorKind::Other, io::ErrorKind::TimedOut] {
            let odd = io::Error::new(kind, "the proxy is odd");
            assert_eq!(root_cause(&odd), "the proxy is odd");
        }
    }
}
