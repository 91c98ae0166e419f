//! Faults between the manager and the cloud, and between it and the API server, chosen by a seed: about every twentieth
//! request of each.

use std::time::Duration;

use ccm_sim::cluster::{self, FaultEffect, Verb};
use ccm_sim::hetzner::{self, Trouble};
use http::Method;

use crate::load_balancers::world::{CONTROLLERS, World};
use ccm_tests::random::Random;

/// One request in this many meets a fault.
const ONE_IN: u64 = 20;

pub(crate) struct Troubles {
    /// Number of requests that have met a fault.
    pub(crate) faults: u64,
    /// The fault that waits at the cloud: the number of requests before it was set, and how many it lets pass.
    waiting: Option<(u64, u64)>,
}

impl Troubles {
    pub(crate) fn new() -> Troubles {
        Troubles {
            faults: 0,
            waiting: None,
        }
    }

    /// Removes the fault that has not happened, and sets the next ones.
    pub(crate) fn next(&mut self, world: &World, random: &mut Random) {
        self.take_back(world);
        let spared = random.within(0, ONE_IN - 1);
        let (trouble, method) = trouble(random);
        let mut fault = hetzner::Fault::new(trouble).after(spared).times(1);
        if let Some(method) = method {
            // There are few writes, so it lets fewer of them pass.
            fault = hetzner::Fault::after(fault, spared / 4).method(method);
        } else {
            let last = world.cloud.requests().last().map_or(0, |one| one.sequence);
            self.waiting = Some((last, spared));
        }
        world.cloud.inject(fault);
        if random.within(1, 4 * ONE_IN) == 1 {
            // It meets the requests after the end of the watches, at once, so that no watch is missing for long.
            for verb in [Verb::Watch, Verb::List] {
                let refused = FaultEffect::Refused {
                    code: 500,
                    retry_after: None,
                };
                let fault = cluster::Fault::next(verb, "services", refused);
                world.cluster.inject(fault.sent_by(CONTROLLERS));
            }
            world.cluster.expire_watches();
            self.faults += 2;
        }
        if random.within(1, ONE_IN) == 1 {
            let effect = effect(random);
            let fault = cluster::Fault::next(Verb::Patch, "services", effect);
            world
                .cluster
                .inject(fault.on("status").sent_by(CONTROLLERS));
            self.faults += 1;
        }
    }

    /// No fault happens from here on. Watches are reopened after kube's back-off, which the decisions' clock does not
    /// shorten: a waiting fault would keep the manager without events for minutes.
    pub(crate) fn end(&mut self, world: &World) {
        self.take_back(world);
        world.cluster.clear_faults();
    }

    /// Removes the fault that waits at the cloud.
    fn take_back(&mut self, world: &World) {
        world.cloud.clear_faults();
        if let Some((last, spared)) = self.waiting.take() {
            let met = world.cloud.requests_since(last).len() as u64 > spared;
            self.faults += u64::from(met);
        }
    }
}

fn trouble(random: &mut Random) -> (Trouble, Option<Method>) {
    let refuse = |status, code: &str| Trouble::Refuse {
        status,
        code: code.to_owned(),
    };
    let trouble = match random.within(0, 13) {
        0 => Trouble::TooManyRequests { retry_after: None },
        1 => refuse(500, "server_error"),
        2 => refuse(503, "unavailable"),
        3 => refuse(504, "timeout"),
        4 => refuse(409, "conflict"),
        5 => refuse(423, "locked"),
        6 => Trouble::ResetBefore,
        7 | 8 => Trouble::ResetAfter,
        9 => Trouble::Truncated,
        10 => Trouble::Cut,
        11 => Trouble::SlowAfter(Duration::from_millis(20)),
        _ => {
            let trouble = match random.within(0, 3) {
                0 => Trouble::ResetAfter,
                1 => Trouble::Cut,
                _ => Trouble::ActionFails {
                    code: "action_failed".to_owned(),
                    message: "injected".to_owned(),
                },
            };
            return (trouble, Some(Method::POST));
        }
    };
    (trouble, None)
}

fn effect(random: &mut Random) -> FaultEffect {
    let refused = |code| FaultEffect::Refused {
        code,
        retry_after: None,
    };
    match random.within(0, 5) {
        0 => refused(409),
        1 => refused(500),
        2 => refused(503),
        3 => refused(429),
        4 => FaultEffect::LostBeforeCommit,
        _ => FaultEffect::LostAfterCommit,
    }
}
