//! A running search for the machines of one call.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Debug};
use std::time::Duration;

use super::{Ask, Machines, Match, Plan};
use crate::http::{Next, Request, Response, WINDOW, send_in_windows, walk};
use crate::{Error, state};

/// Maximum number of look-ups in place of a list that failed or that may not be read: 8 windows. Larger calls cover all
/// nodes; smaller ones may decide about some of them.
const MAX_LOOK_UPS: usize = 64;
/// Maximum number of look-ups by ID of machines that a list lacks which changed while it was read. It may change at
/// every attempt, as it does while a cluster loses many machines and gets others, and would never prove an absence.
/// 32 windows take some seconds of the minute that a call may last; a call that does not end loses every answer. And
/// Hetzner allows a project 3600 requests an hour, for everything: a thousand in each call would use them up within
/// minutes. The host asks about the others in a call of their own. Not by name: no node is deleted for it, and a name
/// that no machine has is asked for again and again.
const MAX_LOOK_UPS_AFTER_CHANGE: usize = 256;

/// State key for the number of pages of the list.
const PAGES: &str = "machines/pages";
/// Time to live of the number of pages. A wrong number only costs requests.
const PAGES_KNOWN: Duration = Duration::from_secs(3600);

/// The answers to all questions of a call.
pub struct Answers<M: Machines> {
    answers: BTreeMap<Ask<M::Id>, Answer<M::Machine>>,
}

/// The machines that match, by a complete answer, or the reason why they are not known.
type Answer<Machine> = Result<Vec<Machine>, String>;

impl<M: Machines> Answers<M> {
    /// The answer to one question.
    pub fn get(&self, ask: &Ask<M::Id>) -> Match<'_, M::Machine> {
        match self.answers.get(ask) {
            Some(Ok(machines)) => match machines.as_slice() {
                [] => Match::None,
                [machine] => Match::One(machine),
                _ => Match::Many,
            },
            Some(Err(reason)) => Match::Unknown(reason),
            None => Match::Unknown("the cloud was not asked"),
        }
    }
}

impl<M: Machines> Debug for Answers<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(&self.answers).finish()
    }
}

/// The state of a running search.
pub(super) struct Search<'a, M: Machines> {
    machines: &'a M,
    plan: Plan,
    /// Whether every question has a request of its own.
    can_look_up: bool,
    /// Whether a page of a list was read.
    has_listed: bool,
    /// Whether all pages of the last list were read: if it failed all the same, it has changed meanwhile.
    has_read_all: bool,
    /// Questions without an answer yet.
    open: BTreeSet<Ask<M::Id>>,
    /// Listed machines that match a question, by ID: a machine that moves between pages is seen twice.
    kept: BTreeMap<M::Id, M::Machine>,
    answers: BTreeMap<Ask<M::Id>, Answer<M::Machine>>,
}

/// A list that is being read. See [`Machines::list`].
pub struct List<'a, M: Machines> {
    asks: &'a BTreeSet<Ask<M::Id>>,
    kept: BTreeMap<M::Id, M::Machine>,
    pages: usize,
    /// Number of pages of the whole list, if the first page said it or the last one was read.
    length: Option<usize>,
    /// Whether look-ups may take the place of the pages after the first.
    may_stop: bool,
    has_stopped: bool,
}

impl<'a, M: Machines> List<'a, M> {
    /// A list that adds to the machines in `kept`, which it takes.
    fn new(asks: &'a BTreeSet<Ask<M::Id>>, kept: &mut BTreeMap<M::Id, M::Machine>) -> List<'a, M> {
        List {
            asks,
            kept: std::mem::take(kept),
            pages: 0,
            length: None,
            may_stop: false,
            has_stopped: false,
        }
    }

    /// The questions that the list is to answer.
    pub fn asks(&self) -> &BTreeSet<Ask<M::Id>> {
        self.asks
    }

    /// Takes the machines of one page.
    pub fn add(&mut self, page: impl IntoIterator<Item = M::Machine>) {
        self.pages += 1;
        for machine in page {
            let id = M::id(&machine);
            if self.asks.contains(&Ask::Id(id.clone()))
                || self.asks.contains(&Ask::Name(M::name(&machine).to_owned()))
            {
                self.kept.insert(id, machine);
            }
        }
    }

    /// Adds every page of a list whose pages name the next one: see [`follow`](crate::http::follow). If the first page
    /// states the length by [`Next::of`] and [is enough](List::is_enough), it is the only one.
    ///
    /// # Errors
    /// As [`follow`](crate::http::follow).
    pub fn follow(
        &mut self,
        first: Request,
        read: impl FnMut(Response) -> Result<(Vec<M::Machine>, Next), Error>,
    ) -> Result<(), Error> {
        self.follow_with(first, Response::ok, read)
    }

    /// As [`List::follow`], with a check of its own: see [`follow_with`](crate::http::follow_with).
    ///
    /// # Errors
    /// As [`List::follow`].
    pub fn follow_with(
        &mut self,
        first: Request,
        check: impl FnMut(Response) -> Result<Response, Error>,
        mut read: impl FnMut(Response) -> Result<(Vec<M::Machine>, Next), Error>,
    ) -> Result<(), Error> {
        walk(first, check, |answer| {
            let (page, next) = read(answer)?;
            let count = page.len();
            self.add(page);
            if self.pages == 1
                && let Some(left) = next.pages_left(count)
                && self.is_enough(left)
            {
                return Ok((count, Next::end()));
            }
            if next.is_end() {
                self.length = Some(self.pages);
            }
            Ok((count, next))
        })
    }

    /// Whether the first page is enough, when so many pages are left: the machines that are missing are then looked up
    /// one by one, because that costs less.
    pub fn is_enough(&mut self, pages_left: usize) -> bool {
        let pages = pages_left.saturating_add(1);
        self.length = Some(pages);
        if !self.asks.is_empty() {
            remember_pages(pages);
        }
        let is_open = |ask: &&Ask<M::Id>| match ask {
            Ask::Id(id) => !self.kept.contains_key(id),
            Ask::Name(_) => true,
        };
        let open = self.asks.iter().filter(is_open).count();
        self.has_stopped = self.may_stop && open <= pages_left;
        self.has_stopped
    }
}

impl<'a, M: Machines> Search<'a, M> {
    pub(super) fn new(machines: &'a M, asks: BTreeSet<Ask<M::Id>>, plan: Plan) -> Search<'a, M> {
        let decides = plan.decides && asks.len() <= MAX_LOOK_UPS;
        Search {
            machines,
            plan: Plan { decides, ..plan },
            can_look_up: asks.iter().all(|ask| machines.request(ask).is_some()),
            has_listed: false,
            has_read_all: false,
            open: asks,
            kept: BTreeMap::new(),
            answers: BTreeMap::new(),
        }
    }

    pub(super) fn run(mut self) -> Result<Answers<M>, Error> {
        let max_age = match self.plan.decides {
            true => Duration::ZERO,
            false => self.plan.max_age,
        };
        self.by_newest()?;
        let max_age = match self.is_for_list() {
            true => self.by_list(max_age)?,
            false => max_age,
        };
        self.by_look_up(max_age)?;
        self.show_account()?;
        Ok(Answers {
            answers: self.answers,
        })
    }

    /// Whether to start with the list. Not for a single machine, nor for fewer machines than the list has pages: each
    /// page is one request.
    fn is_for_list(&self) -> bool {
        if !self.can_look_up {
            return !self.open.is_empty();
        }
        let few = match (self.plan.lists, known_pages()) {
            (false, _) => self.open.len() <= MAX_LOOK_UPS,
            (true, Some(pages)) => self.open.len() < pages,
            (true, None) => false,
        };
        self.open.len() > 1 && !few
    }

    /// Answers questions by name with one page of the machines that were created last: where a list is known to be
    /// long, nodes without provider ID are most likely new ones. Up to a window of look-ups costs no more time, and
    /// fewer bytes. The page proves no absence, not even that no other machine has the same name, and it may fail.
    fn by_newest(&mut self) -> Result<(), Error> {
        let is_name = |ask: &&Ask<M::Id>| matches!(ask, Ask::Name(_));
        let names = self.open.iter().filter(is_name).count();
        let is_long = known_pages().is_some_and(|pages| pages > 1);
        let is_worth_it = is_long && (WINDOW + 1..=MAX_LOOK_UPS).contains(&names);
        if !M::UNIQUE_NAMES || !self.plan.lists || !is_worth_it {
            return Ok(());
        }
        let page = match self.machines.newest() {
            None => return Ok(()),
            Some(Ok(page)) => page,
            // The list asks for the same machines.
            Some(Err(error)) => return error.of_one().map(drop),
        };
        let mut list = List::<M>::new(&self.open, &mut self.kept);
        list.add(page);
        self.kept = list.kept;
        self.answer_ids();
        self.answer_names();
        Ok(())
    }

    /// Answers questions with the list of all machines. The remaining questions need look-ups; returns the maximum age
    /// of cached answers to them. Look-ups that replace a list may be as old as the list; those that confirm absence
    /// may not.
    fn by_list(&mut self, max_age: Duration) -> Result<Duration, Error> {
        // If a cached list of one page lacks a name, one more look-up is needed; a list that was not cached costs no
        // more.
        let max_age = match known_pages() {
            Some(1) if self.asks_for_names() => Duration::ZERO,
            _ => max_age,
        };
        let pages = match self.list(max_age, self.can_look_up) {
            Ok(pages) => pages,
            Err(error) => return self.without_list(error),
        };
        self.answer_ids();
        let Some(pages) = pages else {
            return Ok(max_age);
        };
        self.answer_names();
        // A cached list lacks machines created since. Between two pages, a machine may move to a page already read,
        // when another one is deleted and a third created. So only a list of one page that was not cached proves
        // absence; after any other list, missing machines are searched once more, the cheaper way.
        if self.can_look_up && self.plan.decides && self.open.len() <= WINDOW {
            return Ok(Duration::ZERO);
        }
        if pages <= 1 && max_age.is_zero() {
            self.answer_absent();
        } else if !self.open.is_empty() && (!self.can_look_up || self.open.len() > pages) {
            match self.list_again() {
                Ok(()) => self.answer_absent(),
                Err(error) => return self.without_list(error),
            }
        }
        Ok(Duration::ZERO)
    }

    /// Reads the list; returns the number of its pages, or `None` if the first one was enough.
    fn list(&mut self, max_age: Duration, may_stop: bool) -> Result<Option<usize>, Error> {
        let mut list = List::<M>::new(&self.open, &mut self.kept);
        list.may_stop = may_stop;
        let outcome = self.machines.list(max_age, &mut list);
        let List {
            kept,
            pages,
            length,
            has_stopped,
            ..
        } = list;
        self.kept = kept;
        self.has_listed |= pages > 0;
        self.has_read_all = length == Some(pages);
        outcome?;
        match pages {
            0 => Err(Error::internal("a list of machines came without a page")),
            pages => Ok((!has_stopped).then_some(pages)),
        }
    }

    /// Reads the whole list again, from no cache.
    fn list_again(&mut self) -> Result<(), Error> {
        self.list(Duration::ZERO, false)?;
        self.answer_ids();
        self.answer_names();
        Ok(())
    }

    /// Looks up the open questions individually.
    fn by_look_up(&mut self, max_age: Duration) -> Result<(), Error> {
        let asks: Vec<_> = std::mem::take(&mut self.open).into_iter().collect();
        let request = |ask: &Ask<M::Id>| {
            // A question by name usually waits for a machine that is being created: it may have appeared within the
            // last seconds.
            let max_age = match ask {
                Ask::Id(_) => max_age,
                Ask::Name(_) => Duration::ZERO,
            };
            Some(self.machines.request(ask)?.max_age(max_age))
        };
        let mut left = asks.iter();
        send_in_windows(asks.iter().filter_map(request), |answer| {
            let Some(ask) = left.next() else {
                return Ok(());
            };
            let found = answer.and_then(|answer| self.machines.answer(ask, answer));
            let answer = match found {
                Ok(machines) => Ok(machines),
                Err(error) => Err(error.of_one()?),
            };
            self.answers.insert(ask.clone(), answer);
            Ok(())
        })
    }

    /// If all answers are absence, nothing in the call proves that the credential can access the account, and the host
    /// would not believe the absence. A page of the list proves it, unless one was read already.
    fn show_account(&mut self) -> Result<(), Error> {
        let is_absence =
            |answer: &Answer<M::Machine>| matches!(answer, Ok(found) if found.is_empty());
        if !self.plan.decides || self.has_listed || !self.answers.values().all(is_absence) {
            return Ok(());
        }
        match self.list(Duration::ZERO, true) {
            Ok(_) => Ok(()),
            // The host has seen the failure of this request itself.
            Err(error) => error.of_one().map(drop),
        }
    }

    /// After a failed list: uses look-ups instead if they are few, or more of them if the list has only changed.
    /// Machines seen so far count, by their names only where these are unique. So an account that grows while it is
    /// listed does not delay all of its new nodes.
    fn without_list(&mut self, error: Error) -> Result<Duration, Error> {
        self.answer_ids();
        if M::UNIQUE_NAMES {
            self.answer_names();
        }
        let reason = error.of_one()?;
        let is_id = |ask: &&Ask<M::Id>| matches!(ask, Ask::Id(_));
        let look_ups = match self.has_read_all {
            _ if !self.can_look_up => 0,
            _ if self.open.len() <= MAX_LOOK_UPS => MAX_LOOK_UPS,
            true => MAX_LOOK_UPS_AFTER_CHANGE.min(self.open.iter().filter(is_id).count()),
            false => 0,
        };
        self.give_up_after(look_ups, &reason);
        Ok(Duration::ZERO)
    }

    /// Leaves the open questions unanswered, but for the first ones, this many. IDs come before names.
    fn give_up_after(&mut self, first: usize, reason: &str) {
        let Some(next) = self.open.iter().nth(first).cloned() else {
            return;
        };
        let left = self.open.split_off(&next).into_iter();
        self.answers
            .extend(left.map(|ask| (ask, Err(reason.to_owned()))));
    }

    /// Answers the questions for IDs of listed machines.
    fn answer_ids(&mut self) {
        for (id, machine) in &self.kept {
            if let Some(ask) = self.open.take(&Ask::Id(id.clone())) {
                self.answers.insert(ask, Ok(vec![machine.clone()]));
            }
        }
    }

    /// Answers the questions for names of listed machines. Called after the whole list, if it could be read, to notice
    /// a name on two machines.
    fn answer_names(&mut self) {
        let mut named: BTreeMap<&str, Vec<M::Machine>> = BTreeMap::new();
        for machine in self.kept.values() {
            let same = named.entry(M::name(machine)).or_default();
            same.push(machine.clone());
        }
        let seen = self.open.extract_if(
            ..,
            |ask| matches!(ask, Ask::Name(name) if named.contains_key(name.as_str())),
        );
        for ask in seen.collect::<Vec<_>>() {
            if let Ask::Name(name) = &ask
                && let Some(machines) = named.remove(name.as_str())
            {
                self.answers.insert(ask, Ok(machines));
            }
        }
    }

    fn asks_for_names(&self) -> bool {
        self.open.iter().any(|ask| matches!(ask, Ask::Name(_)))
    }

    /// Answers the open questions with absence.
    fn answer_absent(&mut self) {
        let open = std::mem::take(&mut self.open).into_iter();
        self.answers.extend(open.map(|ask| (ask, Ok(Vec::new()))));
    }
}

fn known_pages() -> Option<usize> {
    let bytes = state::get(PAGES)?.try_into().ok()?;
    usize::try_from(u64::from_be_bytes(bytes)).ok()
}

fn remember_pages(pages: usize) {
    if let Ok(pages) = u64::try_from(pages) {
        state::set(PAGES, &pages.to_be_bytes(), PAGES_KNOWN);
    }
}
