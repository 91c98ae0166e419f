//! Contract functions that the host offers to guests: log, clock, random, state and http. Thin wrappers; none blocks
//! the thread.

use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use wasmtime::component::{HasSelf, Linker};

use crate::bindings::{self as newest, common, http, v0_1};
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

/// Implements the functions that are the same in every version.
macro_rules! same_in {
    ($version:ident) => {
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
    };
}

same_in!(newest);
same_in!(v0_1);

impl http::Host for Guest {
    async fn fetch(&mut self, request: http::Request) -> Result<http::Response, http::FetchError> {
        let Some(egress) = self.egress() else {
            return Err(closed());
        };
        egress
            .fetch(request.into())
            .await
            .map(Into::into)
            .map_err(Into::into)
    }

    async fn fetch_all(
        &mut self,
        requests: Vec<http::Request>,
    ) -> Vec<Result<http::Response, http::FetchError>> {
        let Some(egress) = self.egress() else {
            return requests.iter().map(|_| Err(closed())).collect();
        };
        let answers = egress
            .fetch_all(requests.into_iter().map(Into::into).collect())
            .await;
        answers
            .into_iter()
            .map(|answer| answer.map(Into::into).map_err(Into::into))
            .collect()
    }
}

fn closed() -> http::FetchError {
    http::FetchError::Denied("no requests are sent during init".to_owned())
}

impl From<http::Request> for FetchRequest {
    fn from(request: http::Request) -> FetchRequest {
        FetchRequest {
            target: request.target,
            method: match request.method {
                http::Method::Get => ::http::Method::GET,
                http::Method::Head => ::http::Method::HEAD,
                http::Method::Post => ::http::Method::POST,
                http::Method::Put => ::http::Method::PUT,
                http::Method::Patch => ::http::Method::PATCH,
                http::Method::Delete => ::http::Method::DELETE,
                http::Method::Options => ::http::Method::OPTIONS,
            },
            path: request.path,
            query: request.query,
            headers: request.headers,
            body: request.body.map(Bytes::from),
            supplementary: request.supplementary,
        }
    }
}

impl From<FetchResponse> for http::Response {
    fn from(response: FetchResponse) -> http::Response {
        http::Response {
            status: response.status,
            headers: response.headers,
            body: response.body.into(),
        }
    }
}

impl From<FetchError> for http::FetchError {
    fn from(error: FetchError) -> http::FetchError {
        match error {
            FetchError::Denied(text) => http::FetchError::Denied(text),
            FetchError::Invalid(text) => http::FetchError::Invalid(text),
            FetchError::Throttled(milliseconds) => http::FetchError::Throttled(milliseconds),
            FetchError::TimedOut(text) => http::FetchError::TimedOut(text),
            FetchError::TooLarge(text) => http::FetchError::TooLarge(text),
            FetchError::Unavailable(text) => http::FetchError::Unavailable(text),
        }
    }
}
