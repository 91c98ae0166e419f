//! Calls a provider as the host does: the configuration is checked before `init`, which sends no request, every answer
//! is checked, and no call sends too many requests or takes longer than the manifest's `callSeconds`.

use std::collections::BTreeSet;
use std::time::Duration;

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

impl TestHost {
    /// Calls [`Provider::init`]. Requests are refused meanwhile.
    ///
    /// # Errors
    /// As [`Provider::init`], and [`Error::Invalid`] for a configuration that the host would refuse: with keys that the
    /// manifest does not declare, or without required ones.
    pub fn init<P: Provider>(&self, config: &Config) -> Result<P, Error> {
        if let Some(manifest) = &self.world.borrow().manifest {
            keys::check(manifest, &config.values).map_err(Error::invalid)?;
        }
        self.world.borrow_mut().is_closed = true;
        let provider = P::init(config);
        self.world.borrow_mut().is_closed = false;
        provider
    }

    /// Calls [`SelfCheck::check`].
    ///
    /// # Errors
    /// The error of [`SelfCheck::check`], and [`Error::Internal`] for an answer that the host would refuse; the same
    /// holds for every call here.
    pub fn self_check<P: SelfCheck>(&self, provider: &P) -> Result<(), Error> {
        self.call("check", || provider.check(), |()| Ok(()))
    }

    /// Calls [`Instances::find`].
    ///
    /// # Errors
    /// See [`TestHost::self_check`].
    pub fn find<P: Instances>(&self, provider: &P, nodes: Vec<Node>) -> Result<FindReply, Error> {
        let asked = nodes.len();
        self.call(
            "find",
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
        let reply = self.call("ensure", || provider.ensure(request), shape::check_ensure)?;
        self.requested("ensure", &reply.annotations)?;
        Ok(reply)
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
        let name = "update-targets";
        let check = |reply: &_| shape::check_progress(name, reply);
        let reply = self.call(name, || provider.update_targets(request), check)?;
        self.requested(name, &reply.annotations)?;
        Ok(reply)
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
        let check = |reply: &_| shape::check_progress("delete", reply);
        let reply = self.call("delete", || provider.delete(request), check)?;
        self.requested("delete", &reply.annotations)?;
        Ok(reply)
    }

    /// Calls [`LoadBalancer::get`].
    ///
    /// # Errors
    /// See [`TestHost::self_check`].
    pub fn get<P: LoadBalancer>(&self, provider: &P, service: Service) -> Result<Found, Failure> {
        self.call("get", || provider.get(service), shape::check_found)
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
        let kept = std::mem::take(&mut self.world.borrow_mut().kept);
        let listed = self.call(
            "list",
            || provider.list(nodes),
            |listed| shape::check_routes(listed, &names),
        );
        self.world.borrow_mut().kept = kept;
        listed
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
        self.call("create", || provider.create(request), check)
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
        self.call("delete", || provider.delete(request), check)
    }

    fn call<R, E: shape::Failing + From<Error>>(
        &self,
        name: &str,
        call: impl FnOnce() -> Result<R, E>,
        check: impl FnOnce(&R) -> Result<(), String>,
    ) -> Result<R, E> {
        let began = self.world.borrow().now;
        self.world.borrow_mut().requests_of_call = Some(0);
        let answer = call();
        self.world.borrow_mut().requests_of_call = None;
        let (took, allowed) = {
            let world = self.world.borrow();
            let limits = world.manifest.as_ref().map(|manifest| &manifest.limits);
            let seconds = limits.and_then(|limits| limits.call_seconds);
            let allowed = seconds.map_or(CALL, Duration::from_secs).min(CALL_CEILING);
            (world.now.saturating_sub(began), allowed)
        };
        if took > allowed {
            return Err(Error::unavailable(format!(
                "timed out: {name} did not end in {} s",
                allowed.as_secs()
            ))
            .into());
        }
        let checked = match &answer {
            Ok(reply) => check(reply),
            Err(failure) => failure.check(),
        };
        checked
            .map_err(|what| Error::internal(what).into())
            .and(answer)
    }

    /// Checks that every key is under a prefix of the manifest.
    fn requested(&self, name: &str, changes: &[crate::AnnotationChange]) -> Result<(), Error> {
        let world = self.world.borrow();
        let Some(manifest) = &world.manifest else {
            return Ok(());
        };
        let prefixes = &manifest.annotation_prefixes;
        let is_foreign = |change: &&crate::AnnotationChange| {
            !prefixes.iter().any(|prefix| change.key.starts_with(prefix))
        };
        match changes.iter().find(is_foreign) {
            Some(change) => Err(Error::internal(format!(
                "{name}: annotation {:?} is under no prefix of the manifest",
                change.key
            ))),
            None => Ok(()),
        }
    }
}
