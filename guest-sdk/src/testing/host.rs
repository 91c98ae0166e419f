//! Host functions, answered by the thread's [`TestHost`](super::TestHost). Same names and signatures as the generated
//! ones, so the rest of the crate needs no distinction.

use super::{WORLD, World};

/// Runs `f` on the thread's test host; `None` without one.
fn world<T>(f: impl FnOnce(&mut World) -> T) -> Option<T> {
    let world = WORLD.with_borrow(Clone::clone)?;
    let mut world = world.borrow_mut();
    Some(f(&mut world))
}

pub(crate) mod http {
    use super::super::{Seen, rules};
    use super::world;
    use crate::bindings::host::ccm::provider::http::{FetchError, Request, Response};

    pub(crate) fn fetch(request: &Request) -> Result<Response, FetchError> {
        send(request, 1)
    }

    pub(crate) fn fetch_all(requests: &[Request]) -> Vec<Result<Response, FetchError>> {
        // Larger batches run in groups of the contract's concurrency limit.
        let side_by_side = requests.len().min(8);
        requests
            .iter()
            .map(|request| send(request, side_by_side))
            .collect()
    }

    fn send(request: &Request, side_by_side: usize) -> Result<Response, FetchError> {
        let seen = Seen::new(request, side_by_side);
        let answer = world(|world| {
            world.seen.push(seen.clone());
            if !rules::is_path(&request.path) {
                return Err(FetchError::Invalid(format!(
                    "{:?} is no path",
                    request.path
                )));
            }
            match &world.rules {
                Some(rules) if !rules.allow(request) => Err(FetchError::Denied(
                    "no rule of the manifest covers this request".to_owned(),
                )),
                _ => (world.script)(&seen),
            }
        });
        let (status, headers, body) = answer.unwrap_or_else(|| {
            Err(FetchError::Unavailable(
                "this thread has no test host".to_owned(),
            ))
        })?;
        Ok(Response {
            status,
            headers,
            body,
        })
    }
}

pub(crate) mod log {
    use super::world;
    use crate::log::Level;

    pub(crate) fn log(level: Level, message: &str, fields: &[(String, String)]) {
        let fields: String = fields
            .iter()
            .map(|(key, value)| format!(" {key}={value}"))
            .collect();
        world(|world| world.lines.push((level, format!("{message}{fields}"))));
    }
}

pub(crate) mod clock {
    use super::world;

    pub(crate) fn now() -> u64 {
        monotonic()
    }

    pub(crate) fn monotonic() -> u64 {
        world(|world| u64::try_from(world.now.as_millis()).unwrap_or(u64::MAX)).unwrap_or(0)
    }
}

pub(crate) mod random {
    use super::world;

    /// A counter, so that tests are repeatable.
    pub(crate) fn bytes(length: u32) -> Vec<u8> {
        assert!(
            length <= crate::random::MAX_BYTES,
            "the host traps on more than {} bytes",
            crate::random::MAX_BYTES
        );
        let next = |world: &mut super::World| {
            world.random = world.random.wrapping_add(1);
            world.random
        };
        (0..length).map(|_| world(next).unwrap_or(0)).collect()
    }
}

pub(crate) mod state {
    use std::time::Duration;

    use super::world;

    /// Maximum size of keys and values together, in bytes.
    const ROOM: usize = 256 * 1024;
    const LONGEST: u64 = 3_600_000;

    pub(crate) fn get(key: &str) -> Option<Vec<u8>> {
        world(|world| {
            world
                .kept
                .get(key)
                .filter(|(_, end)| world.now < *end)
                .map(|(value, _)| value.clone())
        })
        .flatten()
    }

    pub(crate) fn set(key: &str, value: &[u8], ttl_ms: u64) -> bool {
        let stored = world(|world| {
            let now = world.now;
            world
                .kept
                .retain(|kept, (_, end)| kept != key && now < *end);
            let used: usize = world
                .kept
                .iter()
                .map(|(key, (value, _))| key.len() + value.len())
                .sum();
            let fits = used + key.len() + value.len() <= ROOM;
            if fits {
                let end = now + Duration::from_millis(ttl_ms.min(LONGEST));
                world.kept.insert(key.to_owned(), (value.to_vec(), end));
            }
            fits
        });
        stored.unwrap_or(false)
    }

    pub(crate) fn delete(key: &str) {
        world(|world| world.kept.remove(key));
    }
}
