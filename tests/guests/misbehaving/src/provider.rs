//! Which file carries a behaviour out.

use ccm_guest::{Capability, Config, Error, FindReply, Instances, Lookup, Node, Provider};

use crate::behaviour::Behaviour;
use crate::{answers, reach, resources};

/// The provider, with one behaviour.
#[derive(Debug)]
pub struct Misbehaving {
    behaviour: Behaviour,
    /// What happened to the request in `init`, if there was one.
    told_by_init: Option<String>,
}

impl Provider for Misbehaving {
    fn init(config: &Config) -> Result<Misbehaving, Error> {
        let word = config.values().text("behaviour").unwrap_or_default();
        let Some(behaviour) = Behaviour::parse(&word) else {
            return Err(Error::invalid(format!(
                "behaviour: there is none named {word:?}"
            )));
        };
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
            told_by_init,
        })
    }

    fn enabled(&self, exported: &[Capability]) -> Vec<Capability> {
        match self.behaviour {
            Behaviour::UnknownCapability => vec![Capability::Instances, Capability::Routes],
            _ => exported.to_vec(),
        }
    }
}

impl Instances for Misbehaving {
    fn find(&self, nodes: Vec<Node>) -> Result<FindReply, Error> {
        let told = match self.behaviour {
            Behaviour::Spin => resources::spin(),
            Behaviour::Sleep => resources::sleep(),
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
            Behaviour::ReadHost => reach::read_host(),
            behaviour => return answers::find(behaviour, &nodes),
        };
        let lookups = nodes
            .iter()
            .map(|_| Lookup::Unknown(told.clone()))
            .collect();
        Ok(FindReply::new(lookups))
    }
}
