//! How much an egress may use: time, bytes and numbers, each with its reason.
//!
//! Only values; who counts is beside what is counted.

use std::time::Duration;

/// The limits of one provider's egress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EgressLimits {
    /// For name resolution, TCP and TLS together.
    pub connect: Duration,
    /// From sending to the head of the answer, connecting included.
    pub first_byte: Duration,
    /// Between two pieces of a body.
    pub idle: Duration,
    /// For one request and its whole answer.
    pub total: Duration,
    /// From here on, an answer has to arrive at `pace` on average.
    pub pace_after: Duration,
    /// Bytes per second.
    pub pace: u64,
    /// Bytes of an answer's body.
    pub response_bytes: usize,
    /// Bytes of a request's body.
    pub request_bytes: usize,
    /// Requests on the wire for one guest call.
    pub in_flight_per_call: usize,
    /// Requests on the wire for the whole provider.
    pub in_flight: usize,
    /// Requests, kept answers among them, that one guest call may ask for.
    pub requests_per_call: usize,
    /// Bytes of kept answers, all targets together.
    pub kept_bytes: usize,
    /// Bytes of answers that one guest call may have in the host's memory at a time.
    pub held_bytes_per_call: usize,
    /// Bytes of answers that all calls of the provider may have there together.
    pub held_bytes: usize,
    /// A hold that a target asked for, or a wait for the next request of the budget, is waited out if it is no longer than
    /// this.
    pub patient: Duration,
}

impl EgressLimits {
    /// The limits that a provider gets.
    pub const fn standard() -> EgressLimits {
        EgressLimits {
            // A handshake across the world takes under a second; a SYN is repeated after 1 s and 3 s.
            connect: Duration::from_secs(5),
            // Vendors' own clients give up after 15 s.
            first_byte: Duration::from_secs(15),
            idle: Duration::from_secs(10),
            // Twice what vendors' clients allow, because one answer may carry thousands of machines.
            total: Duration::from_secs(30),
            // Slow start is over by then, and whoever sends less than 1 KiB/s is not a working cloud.
            pace_after: Duration::from_secs(5),
            pace: 1024,
            // 5000 machines at 2 KiB each, with room; small enough for 16 at a time.
            response_bytes: 16 << 20,
            // The largest request of any cloud that was looked at has 64 KiB.
            request_bytes: 1 << 20,
            in_flight_per_call: 8,
            // Two calls at full width.
            in_flight: 16,
            // 5000 nodes at 50 a page are 100 requests; a guest that asks one by one for 1000 nodes passes too.
            requests_per_call: 2000,
            // As kept, a listing of 5000 machines is two thirds of it.
            kept_bytes: 4 << 20,
            // One of the largest answers and some small ones, or a hundred pages side by side: guests drop what they have read.
            held_bytes_per_call: 18 << 20,
            // Three calls with the largest answers, and many usual ones.
            held_bytes: 64 << 20,
            // Shorter than a retry by the controllers would take.
            patient: Duration::from_secs(2),
        }
    }
}
