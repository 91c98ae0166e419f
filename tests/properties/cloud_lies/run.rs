//! One run: a cluster of up to thirty nodes changes for a while: machines go, kubelets stop, the manager is restarted
//! and the cloud lies, all by one seed. In the end every node whose machine is gone must be deleted.

use std::collections::BTreeSet;

use ccm_core::safety::brake::{Allowances, Brake};

use crate::cloud_lies::cloud::Lie;
use crate::cloud_lies::mutant::Mutant;
use crate::cloud_lies::world::World;

/// Minimum time of honesty after a lie, in seconds: longer than the interval between two look-ups of a NotReady node.
const HONEST: u64 = 130;
/// Seconds from the end of the last disturbance until every node has been looked up and called gone often enough.
const CERTAIN: u64 = 400;
/// Seconds for which a mass outage is held.
const MASS: u64 = 900;
/// Seconds after which a brake has budget again.
const WINDOW: u64 = 600;
/// Seconds from NotReady within which a node without machine is deleted, if no condition holds it.
pub(crate) const IN_TIME: u64 = 90;

/// The result of a run.
#[derive(Default)]
pub(crate) struct Ended {
    /// The violations that were found.
    pub(crate) wrong: Vec<String>,
    /// The events of the run, in order.
    pub(crate) log: Vec<String>,
    /// Durations of deletions that no condition held, while the cloud was honest.
    pub(crate) unheld: Vec<u64>,
    /// Number of all deletions.
    pub(crate) deleted: usize,
    /// Number of lies.
    pub(crate) lies: usize,
}

/// Makes the run of this seed, with lies or without. `is_told`: every answer is in the log.
pub(crate) fn run(seed: u64, lies: bool, mutant: Option<Mutant>, is_told: bool) -> Ended {
    let mut play = Play::new(seed, lies, mutant);
    play.world.is_told = is_told;
    play.live();
    play.end()
}

struct Play {
    world: World,
    lies: bool,
    told: usize,
    /// End of the last disturbance: a lie, a restart, a change.
    trouble: u64,
    lie_until: u64,
    honest_until: u64,
    /// While this lie lasts, nothing else happens.
    is_frozen: bool,
    new: usize,
    /// When each node's machine went; several go together, or one alone.
    deaths: Vec<Death>,
}

struct Death {
    name: String,
    gone: u64,
}

impl Play {
    fn new(seed: u64, lies: bool, mutant: Option<Mutant>) -> Play {
        let mut world = World::new(seed, mutant);
        let count = world.random.within(1, 30);
        let now = world.now;
        for index in 0..count {
            let created = now - world.random.within(400, 90_000);
            world.add(&format!("n{index:02}"), created, created, true);
        }
        if lies {
            world.is_rough = world.random.per_cent(50);
            world.slowest = if world.random.per_cent(20) { 30 } else { 3 };
        }
        Play {
            trouble: now,
            lie_until: 0,
            honest_until: now,
            is_frozen: false,
            new: 0,
            told: 0,
            deaths: Vec::new(),
            world,
            lies,
        }
    }

    /// The part of the run in which events happen.
    fn live(&mut self) {
        let end = self.world.now + self.world.random.within(300, 1800);
        while self.world.now < end || self.world.cloud.lie.is_some() {
            let pause = self.world.random.within(1, 150);
            self.pass_time(pause);
            if !self.is_frozen && self.world.now < end {
                self.something();
            }
            if self.lies && self.world.now < end {
                self.lie();
            }
        }
    }

    fn pass_time(&mut self, seconds: u64) {
        for _ in 0..seconds {
            if self.world.cloud.lie.is_some() && self.lie_until <= self.world.now {
                self.world.cloud.lie = None;
                self.is_frozen = false;
                self.honest_until = self.world.now + HONEST;
                self.trouble = self.world.now;
            }
            self.world.second();
        }
    }

    fn names(&self, is_it: impl Fn(&str) -> bool) -> Vec<String> {
        let names = self.world.nodes.keys();
        names.filter(|name| is_it(name)).cloned().collect()
    }

    fn is_ready(&self, name: &str) -> bool {
        self.world.nodes[name].not_ready.is_none()
    }

    fn is_alive(&self, name: &str) -> bool {
        self.world.cloud.machines[name].gone.is_none()
    }

    /// The nodes that are NotReady, with a machine that the cloud knows.
    fn suspects(&self) -> Vec<String> {
        let now = self.world.now;
        self.names(|name| {
            let machine = &self.world.cloud.machines[name];
            !self.is_ready(name) && machine.exists(now) && !self.world.nodes[name].is_marked
        })
    }

    fn something(&mut self) {
        let now = self.world.now;
        let alive = self.names(|name| self.is_alive(name));
        let ready = self.names(|name| self.is_ready(name) && self.is_alive(name));
        let suspects = self.suspects();
        let event = self.world.random.within(0, 99);
        if !self.lies {
            self.trouble = now;
        }
        match event {
            0..25 => self.die(&ready),
            25..32 => {
                // A rack or a pool fails.
                let share = self.world.random.within(2, 6);
                for name in ready.iter().take(usize::try_from(share).unwrap_or(2)) {
                    self.die(std::slice::from_ref(name));
                }
            }
            32..55 => {
                if let Some(name) = self.world.random.one_of(&ready).cloned() {
                    self.world.ready(&name, false);
                }
            }
            55..70 => {
                if let Some(name) = self.world.random.one_of(&suspects).cloned() {
                    self.world.ready(&name, true);
                }
            }
            70..75 => {
                if let Some(name) = self.world.random.one_of(&alive).cloned() {
                    let machine = self.world.cloud.machines.get_mut(&name).unwrap();
                    machine.is_off = !machine.is_off;
                    let is_off = machine.is_off;
                    self.world.ready(&name, !is_off);
                }
            }
            75..80 => {
                // A scale-down: marked first, then gone.
                if let Some(name) = self.world.random.one_of(&ready).cloned() {
                    self.world.mark(&name);
                    self.die(&[name]);
                }
            }
            80..88 if self.world.nodes.len() < 30 => {
                // A new machine boots, and is listed a while after its node has registered.
                self.new += 1;
                let name = format!("z{:02}", self.new);
                let listed = now + self.world.random.within(0, 120);
                self.world.add(&name, now, listed, false);
            }
            88..92 if self.lies => {
                self.world.deaf_until = now + self.world.random.within(1, 60);
                self.trouble = self.world.deaf_until;
            }
            92.. if self.lies => {
                self.world.restart();
                self.trouble = now;
            }
            _ => {}
        }
        self.trouble = self.trouble.max(now);
    }

    fn die(&mut self, of: &[String]) {
        let Some(name) = self.world.random.one_of(of).cloned() else {
            return;
        };
        let now = self.world.now;
        self.world.cloud.machines.get_mut(&name).unwrap().gone = Some(now);
        self.world.ready(&name, false);
        self.deaths.push(Death { name, gone: now });
    }

    /// Begins a lie, if the cloud has been honest for long enough.
    fn lie(&mut self) {
        let now = self.world.now;
        if self.world.cloud.lie.is_some() || self.honest_until > now {
            return;
        }
        let suspects = self.suspects();
        let random = &mut self.world.random;
        let mut lasts = random.within(5, 1200);
        let lie = match random.within(0, 14) {
            0 => Lie::Error,
            1 => Lie::Throttled(random.within(1, 600)),
            2 => Lie::Incomplete,
            3 => Lie::Unknown,
            4 => Lie::Short,
            5 | 6 => Lie::EverybodyGone,
            7 => Lie::OtherIds,
            8 => Lie::Memory(suspects.into_iter().collect()),
            9 => Lie::FlipsAll,
            10 => Lie::FlipsEach,
            11 => {
                // A short fault.
                lasts = random.within(1, 9);
                Lie::Misses(suspects.into_iter().collect())
            }
            12 => {
                let Some(missing) = self.part(&suspects) else {
                    return;
                };
                lasts = lasts.min(800);
                self.is_frozen = true;
                Lie::Misses(missing)
            }
            13 => {
                // Nodes that are Ready, and no others.
                let nodes = self.world.nodes.iter();
                let ready = nodes.filter(|(_, node)| node.not_ready.is_none());
                let ready = ready.map(|(name, _)| name.clone());
                lasts = lasts.min(800);
                self.is_frozen = true;
                Lie::Misses(ready.skip(1).collect())
            }
            _ => {
                // A rack loses its network, and the cloud its entries of the rack. Slow answers may come in between.
                if self.world.slowest > 3 || self.world.nodes.len() < 5 {
                    return;
                }
                let ready = self.names(|name| self.is_ready(name) && self.is_alive(name));
                for name in ready.iter().take((self.world.nodes.len() / 3 + 1).max(3)) {
                    self.world.ready(name, false);
                }
                let suspects = self.suspects();
                if suspects.len() < 3 || suspects.len() * 3 <= self.world.nodes.len() {
                    return;
                }
                lasts = lasts.min(800);
                self.is_frozen = true;
                Lie::Misses(suspects.into_iter().collect())
            }
        };
        self.told += 1;
        self.world.log.push(format!("{now} for {lasts} s: {lie:?}"));
        self.world.cloud.lie = Some(lie);
        self.lie_until = now + lasts;
    }

    /// A part of the list, from the Ready node that is the first witness to a node that is NotReady.
    fn part(&mut self, suspects: &[String]) -> Option<BTreeSet<String>> {
        let now = self.world.now;
        let is_old = |name: &str| self.world.nodes[name].created + 400 < now;
        let good = self.names(|name| self.is_ready(name) && self.is_alive(name) && is_old(name));
        let is_good = |name: &&String| good.contains(name);
        let witness = match self.world.witnesses.iter().find(is_good) {
            Some(witness) => witness.clone(),
            None => good.first()?.clone(),
        };
        let suspect = self.world.random.one_of(suspects)?.clone();
        let (first, last) = (witness.clone().min(suspect.clone()), witness.max(suspect));
        Some(
            self.names(|name| *first <= *name && *name <= *last)
                .into_iter()
                .collect(),
        )
    }

    /// No further events; waits until all nodes without machines are deleted.
    fn end(mut self) -> Ended {
        self.trouble = self.trouble.max(self.world.now);
        let gone = self.names(|name| !self.is_alive(name));
        let allowed = Allowances::default().of(Brake::NodeDeletion);
        let rounds = gone
            .len()
            .div_ceil(allowed.of(self.world.nodes.len()).max(1));
        let rounds = u64::try_from(rounds).unwrap();
        // Series of answers, a mass outage, the brake, and delays by throttling and failed deletions.
        let latest = self.trouble + CERTAIN + MASS + 600 + WINDOW * (rounds + 1);
        let has_witness = self
            .names(|name| self.is_alive(name))
            .iter()
            .any(|name| self.world.cloud.machines[name].exists(self.world.now + 120));
        if has_witness {
            while self.world.now < latest && !self.names(|name| !self.is_alive(name)).is_empty() {
                self.pass_time(5);
            }
            for name in self.names(|name| !self.is_alive(name)) {
                let what = format!("{name} is gone, and stays since {}", self.trouble);
                self.world.wrong.push(what);
            }
        }
        let unheld = if self.lies { Vec::new() } else { self.unheld() };
        Ended {
            wrong: self.world.wrong,
            log: self.world.log,
            unheld,
            deleted: self.world.deleted.len(),
            lies: self.told,
        }
    }

    /// Durations of the deletions that no condition held: the node old enough, a witness, no mass outage at any time
    /// meanwhile, and budget of the brake. A duration beyond the rules is recorded as wrong.
    fn unheld(&mut self) -> Vec<u64> {
        let mut found = Vec::new();
        let allowed = Allowances::default().of(Brake::NodeDeletion).of(3);
        for (index, deleted) in self.world.deleted.iter().enumerate() {
            let death = self.deaths.iter().find(|death| death.name == deleted.name);
            let Some(death) = death else {
                continue;
            };
            let since = death.gone.max(deleted.not_ready);
            let is_gone_meanwhile = |other: &&Death| {
                let end = self.world.deleted.iter().find(|one| one.name == other.name);
                other.gone < since + IN_TIME && end.is_none_or(|end| end.at >= since)
            };
            // A machine that boots and is not listed yet is called gone, too.
            let is_booting = |machine: &&crate::cloud_lies::cloud::Machine| {
                machine.listed > since && machine.listed <= since + IN_TIME + 120
            };
            let booting = self.world.cloud.machines.values();
            let booting = booting.filter(is_booting).count();
            let together = booting + self.deaths.iter().filter(is_gone_meanwhile).count();
            let before = &self.world.deleted[..index];
            let is_recent = |one: &&crate::cloud_lies::world::Deleted| {
                one.at + WINDOW > since && !one.is_marked
            };
            let spent = before.iter().filter(is_recent).count();
            let is_old = deleted.created + 300 <= since;
            let is_in_budget = spent + together <= allowed;
            let is_witness = |machine: &crate::cloud_lies::cloud::Machine| {
                machine.listed <= since && machine.gone.is_none_or(|gone| gone > deleted.at)
            };
            let has_witness = self.world.cloud.machines.values().any(is_witness);
            if !is_old || together >= 3 || !is_in_budget || !has_witness {
                continue;
            }
            let took = deleted.at - since;
            found.push(took);
            if took > IN_TIME {
                let what = format!("{} took {took} s, and nothing held it", deleted.name);
                self.world.wrong.push(what);
            }
        }
        found
    }
}
