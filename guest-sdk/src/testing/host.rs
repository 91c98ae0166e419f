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
    use std::time::Duration;

    use super::super::calls::{RequestEnd, Running};
    use super::super::{Seen, answer, request};
    use super::{World, world};
    use crate::bindings::host::ccm::provider::http::{FetchError, Request, Response};

    /// Maximum number of requests in one `fetch-all`, and of those sent side by side.
    const BATCH: usize = 64;
    const SIDE_BY_SIDE: usize = 8;
    /// Bytes of the answers of one `fetch-all`, header fields included: the host holds them for the call until it has all.
    const HELD: usize = 18 << 20;
    /// The time in which an answer begins.
    const FIRST_BYTE: Duration = Duration::from_secs(15);
    /// Maximum number of requests in one call.
    const PER_CALL: usize = 2000;

    type Outcome = Result<Response, FetchError>;

    pub(crate) fn fetch(request: &Request) -> Outcome {
        let answer = world(|world| {
            wait(world);
            send(world, request, 1, &mut 0)
        });
        answer.unwrap_or_else(no_host)
    }

    pub(crate) fn fetch_all(requests: &[Request]) -> Vec<Outcome> {
        if requests.len() > BATCH {
            world(|world| {
                count(world);
                if let Some(call) = &mut world.call {
                    call.ended(RequestEnd::Failed);
                }
            });
            let why = format!("{} requests at once, at most {BATCH}", requests.len());
            let refused = |_: &Request| Err(FetchError::Invalid(why.clone()));
            return requests.iter().map(refused).collect();
        }
        let answers = world(|world| {
            let mut held = 0;
            let windows = requests.chunks(SIDE_BY_SIDE);
            let answers = windows.flat_map(|window| {
                wait(world);
                let send = |request| send(world, request, window.len(), &mut held);
                window.iter().map(send).collect::<Vec<_>>()
            });
            answers.collect()
        });
        answers.unwrap_or_else(|| requests.iter().map(|_| no_host()).collect())
    }

    fn no_host() -> Outcome {
        let why = "this thread has no test host".to_owned();
        Err(FetchError::Unavailable(why))
    }

    /// Waits for the answers to requests that are sent side by side, as long as the host does.
    fn wait(world: &mut World) {
        world.now += world.latency.min(FIRST_BYTE);
    }

    /// Sends a request; `held` counts the bytes of the answers beside its own.
    fn send(
        world: &mut World,
        request: &Request,
        side_by_side: usize,
        held: &mut usize,
    ) -> Outcome {
        let (outcome, end) = match exchange(world, request, side_by_side, held) {
            Ok((answer, end)) => (Ok(answer), end),
            Err(error) => (Err(error), RequestEnd::Failed),
        };
        if let Some(call) = &mut world.call
            && !request.supplementary
        {
            call.ended(end);
        }
        outcome
    }

    fn exchange(
        world: &mut World,
        request: &Request,
        side_by_side: usize,
        held: &mut usize,
    ) -> Result<(Response, RequestEnd), FetchError> {
        let seen = Seen::new(request, side_by_side);
        world.seen.push(seen.clone());
        if world.is_closed {
            let why = "no requests are sent during init".to_owned();
            return Err(FetchError::Denied(why));
        }
        if count(world) >= PER_CALL {
            let why = format!("a call makes at most {PER_CALL} requests");
            return Err(FetchError::Denied(why));
        }
        let admitted = request::check(world.manifest.as_ref(), request)?;
        if let Some(change) = &admitted.change {
            let spent = world.call.as_mut().map_or(Ok(()), Running::change);
            spent.map_err(|why| FetchError::Denied(format!("{change}: {why}")))?;
        }
        // The cloud acts also on a request whose answer is late.
        let answered = (world.script)(&seen);
        if world.latency > FIRST_BYTE {
            return Err(FetchError::TimedOut(format!(
                "no answer from target {} in {FIRST_BYTE:.1?}",
                request.target
            )));
        }
        let (status, headers, body) = answered?;
        let fields = headers.iter().map(|(name, value)| name.len() + value.len());
        let bytes = body.len() + fields.sum::<usize>();
        let answer = answer::shown(status, headers, body)?;
        if *held + bytes > HELD {
            return Err(FetchError::TooLarge(format!(
                "the call may hold {} MiB of answers at a time, and this one comes on top: drop those that are done with",
                HELD >> 20
            )));
        }
        *held += bytes;
        let end = match answer.status {
            200..=299 => RequestEnd::Succeeded,
            status if admitted.proves_absence(status, &answer.body) => RequestEnd::Absent,
            _ => RequestEnd::Failed,
        };
        Ok((answer, end))
    }

    /// Counts one more request of the call that is running; returns the number of those before it.
    fn count(world: &mut World) -> usize {
        let Some(call) = &mut world.call else {
            return 0;
        };
        call.requests += 1;
        call.requests - 1
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

    /// Maximum number of bytes of one call.
    const MOST: u32 = 4096;

    /// Bytes of a counter, so that tests are repeatable.
    pub(crate) fn bytes(length: u32) -> Vec<u8> {
        assert!(
            length <= MOST,
            "{length} random bytes asked for, at most {MOST} allowed"
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
    /// Maximum number of entries.
    const ENTRIES: usize = 1024;

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
            world.kept.retain(|_, (_, end)| now < *end);
            let others = || world.kept.iter().filter(|(kept, _)| *kept != key);
            let used = others().map(|(key, (value, _))| key.len() + value.len());
            let used: usize = used.sum();
            let fits = others().count() < ENTRIES && used + key.len() + value.len() <= ROOM;
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
