//! One run: tenants and operators change a cluster for a while, requests fail, and managers die and are restarted. In
//! the end there are no more faults, and the cloud must be as the cluster wants it.

use std::time::Duration;

use ccm_sim::hetzner::Locking;
use libtest_mimic::Failed;
use tokio::time::{Instant, sleep};

use crate::load_balancers::account::OtherAccount;
use crate::load_balancers::crash::{Life, Moment};
use crate::load_balancers::faults::Troubles;
use crate::load_balancers::inventory::{Findings, duplicated, findings};
use crate::load_balancers::mortal_manager;
use crate::load_balancers::mutant::Mutant;
use crate::load_balancers::tenants::Tenants;
use crate::load_balancers::world::{Running, Setup, World};

/// Speed of the decisions' clock: minutes of back-off and confirmation pass in fractions of a second.
const PACE: u32 = 600;
/// The interval of drift checks on that clock; two seconds in real time.
const DRIFT_CHECK: Duration = Duration::from_secs(1200);
/// Timeout until all changes are done. Only a failing run waits that long.
const REST: Duration = Duration::from_secs(180);
/// The same for a manager with a defect.
const MUTANTS_REST: Duration = Duration::from_secs(6);
/// The longest pause between two operations, in requests: fewer than it takes to finish the operation before.
const PAUSE: u64 = 12;
/// Percentage of operations after which the token becomes wrong, and, while it is wrong, right again.
const SELDOM: u64 = 2;
const SOON: u64 = 15;
/// A manager dies at one of this many writes.
const LIFE: u64 = 120;

/// The result of a run.
#[derive(Default)]
pub(crate) struct Ended {
    pub(crate) operations: u64,
    pub(crate) faults: u64,
    pub(crate) crashes: u64,
    pub(crate) leaked: usize,
    pub(crate) duplicated: usize,
    pub(crate) requests: usize,
    pub(crate) wrong: Vec<String>,
    pub(crate) log: Vec<String>,
}

/// Makes the run of this seed.
pub(crate) fn run(
    seed: u64,
    operations: u64,
    crashes: u64,
    mutant: Option<Mutant>,
) -> Result<Ended, Failed> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let setup = Setup {
        pace: PACE,
        // With long and short actions.
        action: Duration::from_millis([0, 0, 5, 25][usize::try_from(seed % 4)?]),
        has_network: seed % 3 == 2,
        drift_check: DRIFT_CHECK,
        ..Setup::default()
    };
    runtime.block_on(async {
        let world = World::start(setup).await?;
        let cloud = &world.cloud;
        let locking = [Locking::Locked, Locking::Conflict, Locking::Off];
        cloud.set_load_balancer_locking(locking[usize::try_from(seed / 4 % 3)?]);
        cloud.set_late_addresses(seed % 5 == 4);
        cloud.set_prompt_actions(seed % 2 == 1);
        let tenants = Tenants::new(&world, seed).await;
        let mut play = Play {
            world: &world,
            tenants,
            troubles: Troubles::new(),
            other_account: OtherAccount::beside(&world),
            mutant,
            managers: 0,
            crashes,
            ended: Ended::default(),
        };
        play.live(operations).await?;
        Ok(play.ended)
    })
}

struct Play<'a> {
    world: &'a World,
    tenants: Tenants<'a>,
    troubles: Troubles,
    other_account: OtherAccount,
    mutant: Option<Mutant>,
    managers: u64,
    /// How many managers are still to die.
    crashes: u64,
    ended: Ended,
}

impl Play<'_> {
    async fn live(&mut self, operations: u64) -> Result<(), Failed> {
        let (mut life, mut manager) = self.manager().await?;
        while self.ended.operations < operations && self.ended.duplicated == 0 {
            if self.mutant.is_none() {
                self.troubles.next(self.world, &mut self.tenants.random);
                self.account(&life).await;
            }
            let done = self.tenants.act().await;
            self.ended.log.push(done);
            self.ended.operations += 1;
            let pause = self.tenants.random.within(0, PAUSE);
            tokio::select! {
                biased;
                () = life.ended() => {
                    manager.kill().await?;
                    self.ended.crashes += 1;
                    self.ended.log.push("the manager dies".to_owned());
                    (life, manager) = self.manager().await?;
                }
                () = sleep(Duration::from_millis(pause)) => {}
            }
            self.ended.duplicated = duplicated(self.world).len();
        }
        self.troubles.end(self.world);
        let lost = self.other_account.end(self.world).await;
        self.ended.wrong.extend(lost);
        self.tenants.tidy().await;
        let found = self.rest(&life).await;
        if life.is_over() {
            // If it died in the last moments, the next one must find everything.
            manager.kill().await?;
            self.ended.crashes += 1;
            self.crashes = 0;
            let (next, manager) = self.manager().await?;
            let found = self.rest(&next).await;
            self.judge(found).await;
            manager.kill().await?;
        } else {
            self.judge(found).await;
            manager.kill().await?;
        }
        self.ended.faults = self.troubles.faults;
        self.ended.requests = self.world.cloud.requests().len();
        Ok(())
    }

    /// The credential becomes another account's at random, for a few operations.
    async fn account(&mut self, life: &Life) {
        // A dead manager never ends its calls.
        if life.is_over() {
            return;
        }
        let random = &mut self.tenants.random;
        if !self.other_account.is_asked() && random.per_cent(SELDOM) {
            self.other_account.begin(self.world).await;
            self.ended
                .log
                .push("the token is another account's".to_owned());
        } else if self.other_account.is_asked() && random.per_cent(SOON) {
            let lost = self.other_account.end(self.world).await;
            self.ended.wrong.extend(lost);
            self.ended.log.push("the token is right again".to_owned());
        }
    }

    async fn manager(&mut self) -> Result<(Life, Running), Failed> {
        self.managers += 1;
        let random = &mut self.tenants.random;
        let death = (self.crashes > 0).then(|| {
            let moment = Moment::ALL[usize::try_from(random.within(0, 2)).unwrap()];
            (random.within(1, LIFE), moment)
        });
        self.crashes = self.crashes.saturating_sub(1);
        let life = Life::new(death);
        let manager = mortal_manager::start(self.world, self.managers, &life, self.mutant).await?;
        if let Some(mutant) = self.mutant {
            mutant.spoil(self.world);
        }
        Ok((life, manager))
    }

    /// Waits until there is no difference, the timeout has passed, or the manager is dead.
    async fn rest(&mut self, life: &Life) -> Findings {
        let foreign = self.tenants.foreign();
        let patience = match self.mutant {
            Some(_) => MUTANTS_REST,
            None => REST,
        };
        let deadline = Instant::now() + patience;
        loop {
            let found = findings(self.world, &foreign).await;
            self.ended.duplicated = self.ended.duplicated.max(duplicated(self.world).len());
            if found.is_empty() || life.is_over() || Instant::now() > deadline {
                return found;
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    async fn judge(&mut self, found: Findings) {
        if !found.is_empty() && self.mutant.is_none() {
            let account = self.world.account().await;
            self.ended.log.push(account);
        }
        let ended = &mut self.ended;
        ended.leaked = found.leaked.len();
        ended.duplicated = ended.duplicated.max(found.duplicated.len());
        let sorts = [found.wrong, self.tenants.harm()];
        ended.wrong.extend(sorts.into_iter().flatten());
        let leaked = found.leaked.iter().map(|one| format!("leaked: {one}"));
        ended.wrong.extend(leaked);
        let twice = found.duplicated.iter();
        ended.wrong.extend(twice.map(|one| format!("twice: {one}")));
        if ended.duplicated > 0 && ended.wrong.is_empty() {
            let what = format!("{} Services had two load balancers", ended.duplicated);
            ended.wrong.push(what);
        }
    }
}
