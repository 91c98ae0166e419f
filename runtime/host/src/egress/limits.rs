//! Limits of an egress: times, bytes and counts, each with its reason.
//!
//! Constants only; enforcement is in the modules that use them.

use std::time::Duration;

/// Limits of one provider's egress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EgressLimits {
    /// Time for name resolution, TCP and TLS together.
    pub connect: Duration,
    /// Time from sending to the response head, connecting included.
    pub first_byte: Duration,
    /// Time between two pieces of a body.
    pub idle: Duration,
    /// Time without a byte after which an HTTP/2 connection is pinged, while requests are under way on it.
    pub ping_after: Duration,
    /// Time for the answer to a ping; without one the connection is closed, and its requests fail.
    pub ping_answer: Duration,
    /// Time for one request and its whole response.
    pub total: Duration,
    /// Time after which a response has to average at least `pace`.
    pub pace_after: Duration,
    /// Minimum rate, in bytes per second.
    pub pace: u64,
    /// Maximum bytes of a response body.
    pub response_bytes: usize,
    /// Maximum bytes of a request body.
    pub request_bytes: usize,
    /// Concurrent requests of one guest call.
    pub in_flight_per_call: usize,
    /// Concurrent requests of the whole provider.
    pub in_flight: usize,
    /// Concurrent requests among them of all calls that are not about nodes.
    pub in_flight_beside_nodes: usize,
    /// Requests of one guest call, those answered from the response cache included.
    pub requests_per_call: usize,
    /// Size of the response cache in bytes, all targets together.
    pub kept_bytes: usize,
    /// Bytes of responses that the host holds for one guest call at a time.
    pub held_bytes_per_call: usize,
    /// Bytes of responses that the host holds for all calls of the provider together.
    pub held_bytes: usize,
    /// Longest rate-limit hold or wait for the request budget that the host waits out itself; a longer one fails with
    /// `throttled`.
    pub longest_wait: Duration,
}

impl EgressLimits {
    /// Limits of every provider.
    pub const fn standard() -> EgressLimits {
        EgressLimits {
            // A handshake across the world takes under a second; a SYN is repeated after 1 s and 3 s.
            connect: Duration::from_secs(5),
            // Vendors' own clients give up after 15 s.
            first_byte: Duration::from_secs(15),
            idle: Duration::from_secs(10),
            // Most answers begin sooner. A request on a connection that was silent before fails after `ping_answer`, and not
            // only after `first_byte`.
            ping_after: Duration::from_secs(10),
            // As for connecting: a round trip across the world, with time for repeated packets.
            ping_answer: Duration::from_secs(5),
            // Twice what vendors' clients allow, because one answer may carry thousands of machines.
            total: Duration::from_secs(30),
            // TCP slow start is over by then; a cloud that sends less than 1 KiB/s does not work.
            pace_after: Duration::from_secs(5),
            pace: 1024,
            // 5000 machines at 2 KiB each, with a margin; small enough for 16 at a time.
            response_bytes: 16 << 20,
            // The largest request of the clouds that were looked at has 64 KiB.
            request_bytes: 1 << 20,
            in_flight_per_call: 8,
            // Two calls with all their slots in use.
            in_flight: 16,
            // Five calls about load balancers could use every slot for as long as the cloud takes. A quarter is left to
            // nodes.
            in_flight_beside_nodes: 12,
            // 5000 nodes at 50 a page are 100 requests; a guest that asks one by one for 1000 nodes also fits.
            requests_per_call: 2000,
            // Compressed, a listing of 15 000 machines takes two thirds of it. One that does not fit is read anew by every
            // call of a pass.
            kept_bytes: 12 << 20,
            // One of the largest responses and some small ones, or a hundred pages side by side: guests drop pages
            // after reading.
            held_bytes_per_call: 18 << 20,
            // Three calls with the largest responses, and many usual ones.
            held_bytes: 64 << 20,
            // Shorter than a retry by the controllers would take.
            longest_wait: Duration::from_secs(2),
        }
    }
}
