//! Contract functions that the host offers to guests: log, clock, random, state and http. Thin wrappers; none blocks
//! the thread.

use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use wasmtime::component::{HasSelf, Linker};

use crate::bindings::{self as newest, common, v0_1};
use crate::egress::{FetchError, FetchRequest, FetchResponse};
use crate::guest_log::Level;
use crate::limits;
use crate::store_data::Guest;

/// Links the imports of every version of the contract.
///
/// # Errors
/// A function is linked twice.
pub(crate) fn link(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    newest::Provider::add_to_linker::<Guest, HasSelf<Guest>>(linker, |guest| guest)?;
    v0_1::Imports::add_to_linker::<Guest, HasSelf<Guest>>(linker, |guest| guest)
}

/// Milliseconds since the Unix epoch; 0 before it.
pub(crate) fn wall_clock_ms() -> u64 {
    let since = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Milliseconds since the first call in this process.
pub(crate) fn monotonic_ms() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    u64::try_from(START.elapsed().as_millis()).unwrap_or(u64::MAX)
}

impl common::Host for Guest {}

/// Implements the functions for one version. They are the same in every version, except that a request of 0.1 has no
/// field that says whether it is supplementary.
macro_rules! same_in {
    ($version:ident, |$request:ident| $supplementary:expr) => {
        impl $version::log::Host for Guest {
            fn log(
                &mut self,
                level: $version::log::Level,
                message: String,
                fields: Vec<(String, String)>,
            ) {
                use $version::log::Level as GuestLevel;
                let level = match level {
                    GuestLevel::Debug => Level::Debug,
                    GuestLevel::Info => Level::Info,
                    GuestLevel::Warn => Level::Warn,
                    GuestLevel::Error => Level::Error,
                };
                let mut line = message;
                for (name, value) in fields {
                    // A longer line would be cut later; this bounds the string built here.
                    if line.len() > limits::LOG_LINE_BYTES {
                        break;
                    }
                    line.push(' ');
                    line.push_str(&name);
                    line.push('=');
                    line.push_str(&value);
                }
                self.log.contract_line(level, &line);
            }
        }

        impl $version::clock::Host for Guest {
            fn now(&mut self) -> u64 {
                wall_clock_ms()
            }

            fn monotonic(&mut self) -> u64 {
                monotonic_ms()
            }
        }

        impl $version::random::Host for Guest {
            fn bytes(&mut self, length: u32) -> wasmtime::Result<Vec<u8>> {
                if length > limits::RANDOM_BYTES {
                    wasmtime::bail!(
                        "{length} random bytes asked for, at most {} allowed",
                        limits::RANDOM_BYTES
                    );
                }
                let mut bytes = vec![0; length as usize];
                getrandom::fill(&mut bytes)
                    .map_err(|error| wasmtime::format_err!("no randomness: {error}"))?;
                Ok(bytes)
            }
        }

        impl $version::state::Host for Guest {
            fn get(&mut self, key: String) -> Option<Vec<u8>> {
                self.state.get(&key, Instant::now())
            }

            fn set(&mut self, key: String, value: Vec<u8>, ttl_ms: u64) -> bool {
                self.state
                    .set(key, value, Duration::from_millis(ttl_ms), Instant::now())
            }

            fn delete(&mut self, key: String) {
                self.state.delete(&key);
            }
        }

        impl $version::http::Host for Guest {
            async fn fetch(
                &mut self,
                request: $version::http::Request,
            ) -> Result<$version::http::Response, $version::http::FetchError> {
                let Some(egress) = self.egress() else {
                    return Err(closed().into());
                };
                let answer = egress.fetch(request.into()).await;
                answer.map(Into::into).map_err(Into::into)
            }

            async fn fetch_all(
                &mut self,
                requests: Vec<$version::http::Request>,
            ) -> Vec<Result<$version::http::Response, $version::http::FetchError>> {
                let Some(egress) = self.egress() else {
                    return requests.iter().map(|_| Err(closed().into())).collect();
                };
                let requests = requests.into_iter().map(Into::into).collect();
                let answers = egress.fetch_all(requests).await.into_iter();
                answers
                    .map(|answer| answer.map(Into::into).map_err(Into::into))
                    .collect()
            }
        }

        impl From<$version::http::Request> for FetchRequest {
            fn from($request: $version::http::Request) -> FetchRequest {
                use $version::http::Method;
                FetchRequest {
                    supplementary: $supplementary,
                    target: $request.target,
                    method: match $request.method {
                        Method::Get => http::Method::GET,
                        Method::Head => http::Method::HEAD,
                        Method::Post => http::Method::POST,
                        Method::Put => http::Method::PUT,
                        Method::Patch => http::Method::PATCH,
                        Method::Delete => http::Method::DELETE,
                        Method::Options => http::Method::OPTIONS,
                    },
                    path: $request.path,
                    query: $request.query,
                    headers: $request.headers,
                    body: $request.body.map(Bytes::from),
                }
            }
        }

        impl From<FetchResponse> for $version::http::Response {
            fn from(response: FetchResponse) -> $version::http::Response {
                $version::http::Response {
                    status: response.status,
                    headers: response.headers,
                    body: response.body.into(),
                }
            }
        }

        impl From<FetchError> for $version::http::FetchError {
            fn from(error: FetchError) -> $version::http::FetchError {
                use $version::http::FetchError as GuestError;
                match error {
                    FetchError::Denied(text) => GuestError::Denied(text),
                    FetchError::Invalid(text) => GuestError::Invalid(text),
                    FetchError::Throttled(milliseconds) => GuestError::Throttled(milliseconds),
                    FetchError::TimedOut(text) => GuestError::TimedOut(text),
                    FetchError::TooLarge(text) => GuestError::TooLarge(text),
                    FetchError::Unavailable(text) => GuestError::Unavailable(text),
                }
            }
        }
    };
}

same_in!(newest, |request| request.supplementary);
same_in!(v0_1, |request| false);

fn closed() -> FetchError {
    FetchError::Denied("no requests are sent during init".to_owned())
}
