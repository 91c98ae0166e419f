//! The file that carries out each behaviour.

use ccm_guest::load_balancer::{
    DeleteRequest, EnsureReply, EnsureRequest, Found, ProgressReply, Service, UpdateRequest,
};
use ccm_guest::routes::{self as contract, Route};
use ccm_guest::{
    Capability, Config, Error, Failure, FindReply, Instances, LoadBalancer, Lookup, Node, Provider,
    Routes,
};

use crate::behaviour::{Balancing, Behaviour, Routing};
use crate::{answers, balancers, reach, resources, routes};

/// The provider, with one behaviour.
#[derive(Debug)]
pub struct Misbehaving {
    behaviour: Behaviour,
    /// Host and port of the target, for requests that name no target.
    authority: String,
    /// The behaviour as a provider of load balancers; `None`: it makes none.
    balancing: Option<Balancing>,
    /// The behaviour as a provider of routes; `None`: it makes none.
    routing: Option<Routing>,
    /// The result of the request in `init`, if there was one.
    told_by_init: Option<String>,
}

/// The behaviour of this build, whatever is configured; spaces: as configured. Tests make versions of the guest with
/// other bytes by writing another word over them.
static BUILT_IN: [u8; 64] = *b"the behaviour that is built in: [                              ]";

fn built_in() -> Option<&'static str> {
    // Without this the compiler would evaluate the text at build time.
    let text = std::hint::black_box(&BUILT_IN);
    let text = std::str::from_utf8(text).unwrap_or_default();
    let (_, word) = text.split_once('[')?;
    Some(word.trim_end_matches(']').trim()).filter(|word| !word.is_empty())
}

impl Provider for Misbehaving {
    fn init(config: &Config) -> Result<Misbehaving, Error> {
        let configured = || {
            config
                .values()
                .text("behaviour")
                .unwrap_or_default()
                .to_owned()
        };
        let word = built_in().map_or_else(configured, str::to_owned);
        let Some(behaviour) = Behaviour::parse(&word) else {
            return Err(Error::invalid(format!(
                "behaviour: there is none named {word:?}"
            )));
        };
        let balancing = chosen(config, "balancing", Balancing::parse)?;
        let routing = chosen(config, "routing", Routing::parse)?;
        let mut told_by_init = None;
        match behaviour {
            Behaviour::SpinInInit => resources::spin(),
            Behaviour::PanicInInit => resources::panic_with_message(),
            Behaviour::RefusesConfig => {
                return Err(Error::invalid("behaviour: it is refused, as it asked for"));
            }
            Behaviour::HttpInInit => told_by_init = Some(reach::granted_request()),
            _ => {}
        }
        Ok(Misbehaving {
            behaviour,
            authority: config
                .values()
                .text("authority")
                .unwrap_or_default()
                .to_owned(),
            balancing,
            routing,
            told_by_init,
        })
    }

    fn enabled(&self, exported: &[Capability]) -> Vec<Capability> {
        match self.behaviour {
            Behaviour::UnknownCapability => vec![Capability::Instances, Capability::Routes],
            _ => exported
                .iter()
                .copied()
                .filter(|capability| match capability {
                    Capability::Instances => true,
                    Capability::LoadBalancer => self.balancing.is_some(),
                    Capability::Routes => self.routing.is_some(),
                })
                .collect(),
        }
    }
}

impl Misbehaving {
    /// The host calls only functions that `init` enabled.
    fn balancing(&self) -> Result<Balancing, Error> {
        self.balancing
            .ok_or_else(|| Error::internal("load-balancer was called, and is not enabled"))
    }

    fn routing(&self) -> Result<Routing, Error> {
        self.routing
            .ok_or_else(|| Error::internal("routes was called, and is not enabled"))
    }
}

/// The value that the configuration chooses under an optional key.
fn chosen<T>(config: &Config, key: &str, parse: fn(&str) -> Option<T>) -> Result<Option<T>, Error> {
    let mut values = config.values();
    let Some(word) = values.text(key) else {
        return Ok(None);
    };
    match parse(word) {
        Some(chosen) => Ok(Some(chosen)),
        None => Err(Error::invalid(format!(
            "{key}: there is none named {word:?}"
        ))),
    }
}

impl LoadBalancer for Misbehaving {
    fn ensure(&self, request: EnsureRequest) -> Result<EnsureReply, Failure> {
        let balancing = self.balancing()?;
        balancers::ensure(balancing, &request).map_err(|error| balancers::failure(balancing, error))
    }

    fn update_targets(&self, request: UpdateRequest) -> Result<ProgressReply, Failure> {
        let balancing = self.balancing()?;
        balancers::update_targets(balancing, &request)
            .map_err(|error| balancers::failure(balancing, error))
    }

    fn delete(&self, request: DeleteRequest) -> Result<ProgressReply, Failure> {
        let balancing = self.balancing()?;
        balancers::delete(balancing, &request).map_err(|error| balancers::failure(balancing, error))
    }

    fn get(&self, service: Service) -> Result<Found, Failure> {
        let balancing = self.balancing()?;
        balancers::get(balancing, &service).map_err(|error| balancers::failure(balancing, error))
    }
}

impl Routes for Misbehaving {
    fn list(&self, nodes: Vec<Node>) -> Result<Vec<Route>, Failure> {
        Ok(routes::list(self.routing()?, &nodes)?)
    }

    fn create(&self, request: contract::CreateRequest) -> Result<contract::ProgressReply, Failure> {
        Ok(routes::create(self.routing()?, &request)?)
    }

    fn delete(&self, request: contract::DeleteRequest) -> Result<contract::ProgressReply, Failure> {
        Ok(routes::delete(self.routing()?, &request)?)
    }
}

impl Instances for Misbehaving {
    fn find(&self, nodes: Vec<Node>) -> Result<FindReply, Error> {
        let reported = match self.behaviour {
            Behaviour::Spin => resources::spin(),
            Behaviour::Sleep => resources::sleep(),
            Behaviour::PollLoop => resources::poll_loop(),
            Behaviour::ManyTimers => resources::many_timers(),
            Behaviour::HoardHandles => reach::hoard_handles(),
            Behaviour::Leak => resources::leak(),
            Behaviour::FineClock => resources::fine_clock(),
            Behaviour::ManyFields => reach::many_fields(),
            Behaviour::ManyFieldsAtOnce => reach::many_fields_at_once(),
            Behaviour::MemoryBomb => resources::memory_bomb(),
            Behaviour::Recursion => resources::recursion(),
            Behaviour::Panic => resources::panic_with_message(),
            Behaviour::Exit => std::process::exit(7),
            Behaviour::LogFlood => resources::log_flood(),
            Behaviour::StderrFlood => resources::stderr_flood(),
            Behaviour::LogForgery => resources::log_forgery(),
            Behaviour::StateOverflow => resources::state_overflow(),
            Behaviour::StateHugeValue => resources::state_huge_value(),
            Behaviour::HugeRandom => resources::huge_random(),
            Behaviour::FromMemory => resources::calls_so_far(),
            Behaviour::HttpInInit => self.told_by_init.clone().unwrap_or_default(),
            Behaviour::OtherPath => reach::other_path(),
            Behaviour::OtherMethod => reach::other_method(),
            Behaviour::OtherTarget => reach::other_target(),
            Behaviour::PathTricks => reach::path_tricks(),
            Behaviour::HostHeaders => reach::host_headers(),
            Behaviour::HugeBody => reach::huge_body(),
            Behaviour::Metadata => reach::url("169.254.169.254", "/latest/meta-data/"),
            Behaviour::OtherHost => reach::url("not-granted.example", "/"),
            Behaviour::Flood => reach::flood(),
            Behaviour::FloodAtOnce => reach::flood_at_once(),
            Behaviour::HoardNames => reach::hoard_names(),
            Behaviour::HoardBodies => reach::hoard_bodies(),
            Behaviour::SlowBody => reach::slow_body(&self.authority),
            Behaviour::HoardFields => reach::hoard_fields(),
            Behaviour::HoardAnswers => reach::hoard_answers(&self.authority, None),
            Behaviour::HoardKeptAnswers => {
                reach::hoard_answers(&self.authority, Some("max-age=600"))
            }
            Behaviour::FetchAllHuge => reach::fetch_all_huge(),
            Behaviour::TellsToken => resources::log_token(),
            Behaviour::ReadHost => reach::read_host(),
            behaviour => return answers::find(behaviour, &nodes),
        };
        let lookups = nodes
            .iter()
            .map(|_| Lookup::Unknown(reported.clone()))
            .collect();
        Ok(FindReply::new(lookups))
    }
}
