//! Reads the complete desired state of a Service's load balancer. Pure.

use ccm_guest::load_balancer::Service;
use ccm_guest::values::Values;
use ccm_guest::{Error, Event, Node};

use super::super::annotations;
use super::super::{names, services, unsupported, wanted_certificates as certificates};
use super::{
    Algorithm, Certificates, DEFAULT_TYPE, Place, Shown, TypeSource, Wanted, WantedNetwork,
    WantedTargets,
};
use crate::config::Settings;

impl Wanted {
    /// The desired state of the load balancer of `service` with these nodes as targets.
    ///
    /// # Errors
    /// [`Error::Invalid`] with every mistake of the Service at once.
    pub fn read(settings: &Settings, service: &Service, nodes: &[Node]) -> Result<Wanted, Error> {
        let mut annotations = service.values();
        let defaults = &settings.load_balancers;
        let mut events: Vec<Event> = unsupported::events(service).collect();
        let (type_name, type_source) = type_of(settings, &mut annotations);
        let name = annotations.filled(annotations::NAME);
        let certificates = certificates::read(service, &mut annotations, &mut events);
        let has_certificates = certificates != Certificates::None;
        let wanted = Wanted {
            name: name.map_or_else(|| service.default_name(), str::to_owned),
            is_named: name.is_some(),
            labels: names::labels(&service.uid),
            type_name,
            type_source,
            place: place_of(settings, &mut annotations),
            algorithm: annotations
                .choice(annotations::ALGORITHM_TYPE, &Algorithm::WORDS)
                .or(defaults.algorithm),
            public_interface: annotations
                .boolean(annotations::DISABLE_PUBLIC_NETWORK)
                .map(|disable| !disable)
                .or(defaults.public_interface),
            network: network_of(settings, &mut annotations),
            rdns_ipv4: annotations
                .filled(annotations::IPV4_RDNS)
                .map(str::to_owned),
            rdns_ipv6: annotations
                .filled(annotations::IPV6_RDNS)
                .map(str::to_owned),
            services: services::read(
                defaults,
                service,
                has_certificates,
                &mut annotations,
                &mut events,
            ),
            certificates,
            targets: WantedTargets::of(settings, service, nodes, &mut annotations),
            shown: Shown::of(defaults, &mut annotations),
            keep_foreign: defaults.keep_foreign_ports,
            events,
        };
        annotations.finish()?;
        Ok(wanted)
    }

    /// The place for the creation of the load balancer.
    ///
    /// # Errors
    /// [`Error::Invalid`] if no place is configured.
    pub fn place(&self) -> Result<&Place, Error> {
        self.place.as_ref().ok_or_else(|| {
            Error::invalid(format!(
                "where to make the load balancer is not known: set the annotation {} (such as fsn1) or {} (such as eu-central) on the Service; or, for all Services, HCLOUD_LOAD_BALANCERS_LOCATION or HCLOUD_LOAD_BALANCERS_NETWORK_ZONE in the environment of the cloud-controller-manager",
                annotations::LOCATION,
                annotations::NETWORK_ZONE
            ))
        })
    }

    /// Events for the operator, including those of the targets.
    pub fn all_events(&self) -> Vec<Event> {
        let events = self.events.iter().chain(&self.targets.events);
        events.cloned().collect()
    }
}

/// An empty annotation overrides the operator's choice. A number is a mistake: the cloud would take it as the id of a
/// type, and show the type's name, so that the type would be changed again and again.
fn type_of(settings: &Settings, annotations: &mut Values<'_>) -> (String, TypeSource) {
    let configured = settings.load_balancers.type_name.as_deref();
    let (name, source, key) = match annotations.text(annotations::TYPE) {
        Some(name) => (name, TypeSource::Annotation, annotations::TYPE),
        None => (
            configured.unwrap_or_default(),
            TypeSource::Configuration,
            "HCLOUD_LOAD_BALANCERS_TYPE",
        ),
    };
    if name.is_empty() {
        return (DEFAULT_TYPE.to_owned(), TypeSource::Default);
    }
    if name.bytes().all(|byte| byte.is_ascii_digit()) {
        let what = "must be the name of a load balancer type such as lb11";
        annotations.wrong_part::<()>(key, name, what);
    }
    (name.to_owned(), source)
}

/// A location takes precedence over a network zone, whatever their sources. An empty annotation overrides the
/// operator's choice.
fn place_of(settings: &Settings, annotations: &mut Values<'_>) -> Option<Place> {
    let (location, zone) = match &settings.load_balancers.place {
        Some(Place::Location(location)) => (Some(location.as_str()), None),
        Some(Place::NetworkZone(zone)) => (None, Some(zone.as_str())),
        None => (None, None),
    };
    let location = annotations.text(annotations::LOCATION).or(location);
    let zone = annotations.text(annotations::NETWORK_ZONE).or(zone);
    let filled = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(str::to_owned);
    filled(location)
        .map(Place::Location)
        .or_else(|| filled(zone).map(Place::NetworkZone))
}

/// Network annotations are ignored without a configured network: other networks must not be used.
fn network_of(settings: &Settings, annotations: &mut Values<'_>) -> Option<WantedNetwork> {
    let network = settings.network.clone()?;
    let ip = annotations.parse(annotations::PRIVATE_IPV4, "must be an IPv4 address");
    let ip_range = if annotations.is_set(annotations::PRIVATE_SUBNET_IP_RANGE) {
        annotations::ip_range(annotations, annotations::PRIVATE_SUBNET_IP_RANGE)
    } else {
        settings.load_balancers.private_subnet_ip_range.clone()
    };
    Some(WantedNetwork {
        network,
        ip,
        ip_range,
    })
}
