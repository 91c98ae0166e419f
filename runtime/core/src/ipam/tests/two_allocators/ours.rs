//! This manager's side: the controller of `ccm-controllers` with the same parts, in a world of requests that take time.

use super::*;

/// This manager's side of the world.
pub(super) struct Ours {
    pub(super) memory: Memory,
    pub(super) other: OtherAllocator,
    pub(super) begins: u64,
    pub(super) late: Late,
    pub(super) cache: BTreeMap<String, Arc<PrunedNode>>,
    pub(super) queue: BTreeSet<String>,
    pub(super) running: BTreeMap<String, Facts>,
    /// When the question was sent, when its answer arrives, the question, and the answer once it was read.
    pub(super) question: Option<(u64, u64, Question, Option<LeaseAnswer>)>,
    pub(super) stands_back: bool,
}

impl World {
    pub(super) fn lead_on(&mut self) -> Result<(), TestCaseError> {
        let now = self.now;
        for (name, node) in self.ours.late.arrived(now) {
            self.ours.see(name, node, now);
        }
        self.answer();
        let ours = &mut self.ours;
        for name in ours.memory.take_foreign() {
            ours.other.appeared(&name, moment(now));
        }
        ours.other
            .observe_blocks(ours.memory.has_free_blocks(), moment(now));
        for changes in ours.other.take_changes() {
            let stands_back = matches!(changes, AllocatorChange::StandsBack(_));
            if stands_back || matches!(changes, AllocatorChange::TakesOver(..)) {
                prop_assert!(ours.stands_back != stands_back, "told twice: {:?}", changes);
                ours.stands_back = stands_back;
            }
        }
        ours.queue.extend(ours.other.released(moment(now)));
        if now >= ours.begins {
            for name in std::mem::take(&mut ours.queue) {
                ours.begin(&name, now, self.is_careless);
            }
        }
        self.reconcile();
        if let Some(question) = self.ours.other.question(moment(self.now)) {
            let answers_at = self.now + self.up_to(500);
            self.ours.question = Some((self.now, answers_at, question, None));
        }
        Ok(())
    }

    fn answer(&mut self) {
        let Some((sent, answers_at, question, read)) = self.ours.question.take() else {
            return;
        };
        let now = self.now;
        // The API server reads half-way between the request and the answer.
        let read = read.or_else(|| {
            let lease = self.lease.clone();
            (now >= sent.midpoint(answers_at))
                .then(|| lease.map_or(LeaseAnswer::Absent, LeaseAnswer::Found))
        });
        if now < answers_at {
            self.ours.question = Some((sent, answers_at, question, read));
            return;
        }
        let read = read.unwrap_or(LeaseAnswer::Failed);
        match question {
            Question::Lease => self.ours.other.lease_read(read, moment(sent), moment(now)),
            Question::Writer(name, why) => {
                let there = self.api.nodes.contains_key(&name);
                let answer = self.writers.get(&name).filter(|_| there);
                let answer = answer.map(|(writer, created)| WriterAnswer {
                    writer: writer.clone(),
                    created: Some(*created),
                });
                let other = &mut self.ours.other;
                other.writer_read((&name, why), Ok(answer), moment(now));
            }
        }
    }

    fn reconcile(&mut self) {
        let names: Vec<String> = self.ours.running.keys().cloned().collect();
        for name in names {
            let on_the_way = |(_, writer, of, _): &(u64, Writer, String, PodCidrsPatch)| {
                *of == name && *writer == Writer::Ours
            };
            if self.writes.iter().any(on_the_way) {
                continue;
            }
            let decision = decide(&self.ours.running[&name]);
            match decision {
                Decision::Done(when) => {
                    let facts = self.ours.running.remove(&name).unwrap();
                    self.ours.memory.conclude(&facts, &when);
                    if !matches!(when, When::AwaitChange) {
                        self.ours.queue.insert(name);
                    }
                }
                Decision::Do(effects) => {
                    for effect in effects {
                        if let IpamEffect::Patch(node, patch) = effect {
                            let arrives = self.now + self.up_to(500);
                            self.writes.push((arrives, Writer::Ours, node.name, patch));
                        } else {
                            let outcome = self.api.perform(&effect, world::Fate::Made);
                            let facts = self.ours.running.get_mut(&name).unwrap();
                            facts.absorb(&effect, outcome);
                        }
                    }
                }
            }
        }
    }
}

impl Ours {
    pub(super) fn new(now: u64) -> Ours {
        let settings = world::settings(FAMILY, "");
        Ours {
            memory: Memory::new(&settings).unwrap(),
            other: OtherAllocator::new(OtherAllocatorRules::default(), moment(now)),
            begins: now + SETTLE,
            late: Late::default(),
            cache: BTreeMap::new(),
            queue: BTreeSet::new(),
            running: BTreeMap::new(),
            question: None,
            stands_back: false,
        }
    }

    fn see(&mut self, name: String, node: Option<Arc<PrunedNode>>, now: u64) {
        let Some(node) = node else {
            self.cache.remove(&name);
            self.memory.forget(&name);
            self.other.leaves(&name);
            self.queue.remove(&name);
            return;
        };
        self.memory.see(&node);
        if pod_cidrs(&node).is_empty() {
            let uid = node.uid();
            self.other.waits(&name, uid, moment(now));
            self.queue.insert(name.clone());
        } else {
            self.other.leaves(&name);
        }
        self.cache.insert(name, node);
    }

    fn begin(&mut self, name: &str, now: u64, is_careless: bool) {
        let Some(node) = self
            .cache
            .get(name)
            .filter(|_| !self.running.contains_key(name))
        else {
            return;
        };
        let may_allocate = is_careless || self.other.may_allocate(moment(now));
        if pod_cidrs(node).is_empty() && !may_allocate {
            self.other.hold(name);
            return;
        }
        if let Some(facts) = self.memory.begin(node.clone()) {
            self.running.insert(name.to_owned(), facts);
        }
    }
}
