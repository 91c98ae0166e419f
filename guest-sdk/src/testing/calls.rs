//! Calls a provider as the host does: the configuration is checked before `init`, which sends no request, every answer
//! is checked, and no call sends too many requests, makes more changes than it may, or takes longer than the manifest's
//! `callSeconds`.

use std::collections::BTreeSet;
use std::time::Duration;

use super::manifest::Manifest;
use super::{TestHost, keys, shape};
use crate::load_balancer::{
    self, EnsureReply, EnsureRequest, Found, LoadBalancer, Service, UpdateRequest,
};
use crate::routes::{self, Route, Routes};
use crate::{Config, Error, Failure, FindReply, Instances, Node, Provider, SelfCheck};

/// Duration of a call, if the manifest says none.
const CALL: Duration = Duration::from_secs(60);
/// The longest duration of a call.
const CALL_CEILING: Duration = Duration::from_secs(300);

/// Maximum number of changes of a call: one that looks, one about a load balancer, and one about a route.
const NONE: u32 = 0;
const OF_LOAD_BALANCERS: u32 = 256;
const OF_ROUTES: u32 = 4;

/// How a request ended, for what the call may prove.
#[derive(Debug, Clone, Copy)]
pub(super) enum RequestEnd {
    /// With 2xx.
    Succeeded,
    /// With an answer that proves that the requested object does not exist.
    Absent,
    Failed,
}

/// A call that is running.
#[derive(Debug)]
pub(super) struct Running {
    /// Its requests so far.
    pub(super) requests: usize,
    /// Whether one of them that is not supplementary was answered with 2xx.
    has_succeeded: bool,
    /// Whether one of them that is not supplementary failed: it ended with an error, or with a status that is neither 2xx
    /// nor proves that the requested object does not exist.
    has_failed: bool,
    most_changes: u32,
    changes: u32,
}

impl Running {
    fn new(most_changes: u32) -> Running {
        Running {
            requests: 0,
            has_succeeded: false,
            has_failed: false,
            most_changes,
            changes: 0,
        }
    }

    /// Notes how a request ended that is not supplementary.
    pub(super) fn ended(&mut self, end: RequestEnd) {
        match end {
            RequestEnd::Succeeded => self.has_succeeded = true,
            RequestEnd::Absent => {}
            RequestEnd::Failed => self.has_failed = true,
        }
    }

    /// Counts a change.
    ///
    /// # Errors
    /// The call makes no more of them; the reason in the real host's words.
    pub(super) fn change(&mut self) -> Result<(), String> {
        match self.most_changes {
            0 => Err("this call may change nothing".to_owned()),
            most if self.changes >= most => Err(format!(
                "the call has made all {most} changes that it may make"
            )),
            _ => {
                self.changes += 1;
                Ok(())
            }
        }
    }
}

impl TestHost {
    /// Calls [`Provider::init`]. A configuration without schemes gets the manifest's. Requests are refused meanwhile, and
    /// those to a target that the configuration does not grant afterwards, too.
    ///
    /// # Errors
    /// As [`Provider::init`], and [`Error::Invalid`] for a configuration that the host would refuse: with keys that the
    /// manifest does not declare, or without required ones.
    pub fn init<P: Provider>(&self, config: &Config) -> Result<P, Error> {
        let mut config = config.clone();
        if let Some(manifest) = &mut self.world.borrow_mut().manifest {
            keys::check(manifest, &config.values).map_err(Error::invalid)?;
            manifest.grant(&config);
            manifest.own_schemes(&mut config);
        }
        self.world.borrow_mut().is_closed = true;
        let provider = P::init(&config);
        self.world.borrow_mut().is_closed = false;
        provider
    }

    /// Calls [`SelfCheck::check`].
    ///
    /// # Errors
    /// The error of [`SelfCheck::check`], and [`Error::Internal`] for an answer that the host would refuse; the same
    /// holds for every call here.
    pub fn self_check<P: SelfCheck>(&self, provider: &P) -> Result<(), Error> {
        self.call("check", NONE, || provider.check(), |()| Ok(()))
    }

    /// Calls [`Instances::find`].
    ///
    /// # Errors
    /// See [`TestHost::self_check`].
    pub fn find<P: Instances>(&self, provider: &P, nodes: Vec<Node>) -> Result<FindReply, Error> {
        let asked = nodes.len();
        self.call(
            "find",
            NONE,
            || provider.find(nodes),
            |reply| {
                let world = self.world.borrow();
                shape::check_find(reply, asked, world.manifest.as_ref())
            },
        )
    }

    /// Calls [`LoadBalancer::ensure`].
    ///
    /// # Errors
    /// See [`TestHost::self_check`].
    pub fn ensure<P: LoadBalancer>(
        &self,
        provider: &P,
        request: EnsureRequest,
    ) -> Result<EnsureReply, Failure> {
        let name = "ensure";
        let check = |reply: &EnsureReply| {
            shape::check_ensure(reply).and_then(|()| self.requested(name, &reply.annotations))
        };
        self.call(name, OF_LOAD_BALANCERS, || provider.ensure(request), check)
    }

    /// Calls [`LoadBalancer::update_targets`].
    ///
    /// # Errors
    /// See [`TestHost::self_check`].
    pub fn update_targets<P: LoadBalancer>(
        &self,
        provider: &P,
        request: UpdateRequest,
    ) -> Result<load_balancer::ProgressReply, Failure> {
        self.change("update-targets", || provider.update_targets(request))
    }

    /// Calls [`LoadBalancer::delete`].
    ///
    /// # Errors
    /// See [`TestHost::self_check`].
    pub fn delete<P: LoadBalancer>(
        &self,
        provider: &P,
        request: load_balancer::DeleteRequest,
    ) -> Result<load_balancer::ProgressReply, Failure> {
        self.change("delete", || provider.delete(request))
    }

    /// Makes a call that changes a load balancer that exists.
    fn change(
        &self,
        name: &str,
        call: impl FnOnce() -> Result<load_balancer::ProgressReply, Failure>,
    ) -> Result<load_balancer::ProgressReply, Failure> {
        let check = |reply: &load_balancer::ProgressReply| {
            shape::check_progress(name, reply)
                .and_then(|()| self.requested(name, &reply.annotations))
        };
        self.call(name, OF_LOAD_BALANCERS, call, check)
    }

    /// Calls [`LoadBalancer::get`] with an empty state store, as the host does.
    ///
    /// # Errors
    /// See [`TestHost::self_check`]. An absence that the host would not believe is one of those answers.
    pub fn get<P: LoadBalancer>(&self, provider: &P, service: Service) -> Result<Found, Failure> {
        self.without_state(|| {
            self.call(
                "get",
                NONE,
                || provider.get(service),
                |found| shape::check_found(found).and_then(|()| self.believed(found)),
            )
        })
    }

    /// Checks that the host would believe an absence: it takes only a call for complete of which a request was answered
    /// with 2xx, and no request failed.
    fn believed(&self, found: &Found) -> Result<(), String> {
        let world = self.world.borrow();
        let manifest = world.manifest.as_ref();
        let needs_success = manifest.is_some_and(Manifest::has_granted_target);
        let is_complete =
            |call: &Running| !call.has_failed && (call.has_succeeded || !needs_success);
        let is_proven = manifest.is_none() || world.call.as_ref().is_some_and(is_complete);
        match found {
            Found::Absent if !is_proven => Err(
                "get: absent, and the host does not believe it: a request of the call failed, or none was answered with 2xx"
                    .to_owned(),
            ),
            _ => Ok(()),
        }
    }

    /// Calls [`Routes::list`] with an empty state store and nodes without labels and annotations, as the host does.
    ///
    /// # Errors
    /// See [`TestHost::self_check`].
    pub fn list_routes<P: Routes>(
        &self,
        provider: &P,
        nodes: Vec<Node>,
    ) -> Result<Vec<Route>, Failure> {
        let nodes: Vec<Node> = nodes.into_iter().map(super::listed).collect();
        let names: BTreeSet<String> = nodes.iter().map(|node| node.name.clone()).collect();
        self.without_state(|| {
            self.call(
                "list",
                NONE,
                || provider.list(nodes),
                |listed| shape::check_routes(listed, &names),
            )
        })
    }

    /// Calls [`Routes::create`].
    ///
    /// # Errors
    /// See [`TestHost::self_check`].
    pub fn create_route<P: Routes>(
        &self,
        provider: &P,
        request: routes::CreateRequest,
    ) -> Result<routes::ProgressReply, Failure> {
        let check = |reply: &_| shape::check_route_progress("create", reply);
        self.call("create", OF_ROUTES, || provider.create(request), check)
    }

    /// Calls [`Routes::delete`].
    ///
    /// # Errors
    /// See [`TestHost::self_check`].
    pub fn delete_route<P: Routes>(
        &self,
        provider: &P,
        request: routes::DeleteRequest,
    ) -> Result<routes::ProgressReply, Failure> {
        let check = |reply: &_| shape::check_route_progress("delete", reply);
        self.call("delete", OF_ROUTES, || provider.delete(request), check)
    }

    /// Makes a call whose answer is to be independent of earlier ones.
    fn without_state<R>(&self, call: impl FnOnce() -> R) -> R {
        let kept = std::mem::take(&mut self.world.borrow_mut().kept);
        let answer = call();
        self.world.borrow_mut().kept = kept;
        answer
    }

    /// Makes a call of at most `most_changes` changes, and checks its answer.
    fn call<R, E: shape::Failing + From<Error>>(
        &self,
        name: &str,
        most_changes: u32,
        call: impl FnOnce() -> Result<R, E>,
        check: impl FnOnce(&R) -> Result<(), String>,
    ) -> Result<R, E> {
        let began = self.world.borrow().now;
        self.world.borrow_mut().call = Some(Running::new(most_changes));
        let answer = call();
        let checked = self.ended_in_time(name, began).and_then(|()| {
            let checked = match &answer {
                Ok(reply) => check(reply),
                Err(failure) => failure.check(),
            };
            checked.map_err(Error::internal)
        });
        self.world.borrow_mut().call = None;
        checked.map_err(|error| error.into()).and(answer)
    }

    /// Checks that the call that began then has not taken too long.
    fn ended_in_time(&self, name: &str, began: Duration) -> Result<(), Error> {
        let world = self.world.borrow();
        let limits = world.manifest.as_ref().map(|manifest| &manifest.limits);
        let seconds = limits.and_then(|limits| limits.call_seconds);
        let allowed = seconds.map_or(CALL, Duration::from_secs).min(CALL_CEILING);
        match world.now.saturating_sub(began) > allowed {
            true => Err(Error::unavailable(format!(
                "timed out: {name} did not end in {} s",
                allowed.as_secs()
            ))),
            false => Ok(()),
        }
    }

    /// Checks that every key is under a prefix of the manifest.
    fn requested(&self, name: &str, changes: &[crate::AnnotationChange]) -> Result<(), String> {
        let world = self.world.borrow();
        let Some(manifest) = &world.manifest else {
            return Ok(());
        };
        let prefixes = &manifest.annotation_prefixes;
        let is_foreign = |change: &&crate::AnnotationChange| {
            !prefixes.iter().any(|prefix| change.key.starts_with(prefix))
        };
        match changes.iter().find(is_foreign) {
            Some(change) => Err(format!(
                "{name}: annotation {:?} is under no prefix of the manifest",
                change.key
            )),
            None => Ok(()),
        }
    }
}
