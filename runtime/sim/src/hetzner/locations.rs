//! The vendor's locations, as constants.

use serde_json::{Value, json};

/// A location of servers. The default is Falkenstein.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Location {
    /// Falkenstein, Germany.
    #[default]
    Fsn1,
    /// Nuremberg, Germany.
    Nbg1,
    /// Helsinki, Finland.
    Hel1,
    /// Ashburn, United States.
    Ash,
    /// Hillsboro, United States.
    Hil,
    /// Singapore.
    Sin,
}

/// The vendor's data about one location.
struct LocationFacts {
    id: u64,
    name: &'static str,
    city: &'static str,
    country: &'static str,
    description: &'static str,
    latitude: f64,
    longitude: f64,
    network_zone: &'static str,
}

impl Location {
    /// Every location, in the order of their ids.
    pub const ALL: [Self; 6] = [
        Self::Fsn1,
        Self::Nbg1,
        Self::Hel1,
        Self::Ash,
        Self::Hil,
        Self::Sin,
    ];

    /// The vendor's short name, for example `fsn1`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.facts().name
    }

    /// The network zone, for example `eu-central`.
    #[must_use]
    pub fn network_zone(self) -> &'static str {
        self.facts().network_zone
    }

    pub(super) fn id(self) -> u64 {
        self.facts().id
    }

    /// Finds a location by its ID or name, as the vendor's write requests allow.
    pub(super) fn find(id_or_name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|place| place.name() == id_or_name || place.id().to_string() == id_or_name)
    }

    pub(super) fn json(self) -> Value {
        let facts = self.facts();
        json!({
            "id": facts.id, "name": facts.name, "description": facts.description,
            "city": facts.city, "country": facts.country,
            "latitude": facts.latitude, "longitude": facts.longitude,
            "network_zone": facts.network_zone,
        })
    }

    fn facts(self) -> LocationFacts {
        match self {
            Self::Fsn1 => LocationFacts {
                id: 1,
                name: "fsn1",
                city: "Falkenstein",
                country: "DE",
                description: "Falkenstein DC Park 1",
                latitude: 50.47612,
                longitude: 12.370071,
                network_zone: "eu-central",
            },
            Self::Nbg1 => LocationFacts {
                id: 2,
                name: "nbg1",
                city: "Nuremberg",
                country: "DE",
                description: "Nuremberg DC Park 1",
                latitude: 49.452102,
                longitude: 11.076665,
                network_zone: "eu-central",
            },
            Self::Hel1 => LocationFacts {
                id: 3,
                name: "hel1",
                city: "Helsinki",
                country: "FI",
                description: "Helsinki DC Park 1",
                latitude: 60.169855,
                longitude: 24.938379,
                network_zone: "eu-central",
            },
            Self::Ash => LocationFacts {
                id: 4,
                name: "ash",
                city: "Ashburn, VA",
                country: "US",
                description: "Ashburn, VA",
                latitude: 39.045821,
                longitude: -77.487073,
                network_zone: "us-east",
            },
            Self::Hil => LocationFacts {
                id: 5,
                name: "hil",
                city: "Hillsboro, OR",
                country: "US",
                description: "Hillsboro, OR",
                latitude: 45.54222,
                longitude: -122.951924,
                network_zone: "us-west",
            },
            Self::Sin => LocationFacts {
                id: 6,
                name: "sin",
                city: "Singapore",
                country: "SG",
                description: "Singapore",
                latitude: 1.283333,
                longitude: 103.833333,
                network_zone: "ap-southeast",
            },
        }
    }
}
