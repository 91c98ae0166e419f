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
        let (id, name, city, country, description, latitude, longitude, network_zone) = match self {
            Self::Fsn1 => {
                let park = "Falkenstein DC Park 1";
                (
                    1,
                    "fsn1",
                    "Falkenstein",
                    "DE",
                    park,
                    50.47612,
                    12.370071,
                    "eu-central",
                )
            }
            Self::Nbg1 => {
                let park = "Nuremberg DC Park 1";
                (
                    2,
                    "nbg1",
                    "Nuremberg",
                    "DE",
                    park,
                    49.452102,
                    11.076665,
                    "eu-central",
                )
            }
            Self::Hel1 => {
                let park = "Helsinki DC Park 1";
                (
                    3,
                    "hel1",
                    "Helsinki",
                    "FI",
                    park,
                    60.169855,
                    24.938379,
                    "eu-central",
                )
            }
            Self::Ash => (
                4,
                "ash",
                "Ashburn, VA",
                "US",
                "Ashburn, VA",
                39.045821,
                -77.487073,
                "us-east",
            ),
            Self::Hil => (
                5,
                "hil",
                "Hillsboro, OR",
                "US",
                "Hillsboro, OR",
                45.54222,
                -122.951924,
                "us-west",
            ),
            Self::Sin => (
                6,
                "sin",
                "Singapore",
                "SG",
                "Singapore",
                1.283333,
                103.833333,
                "ap-southeast",
            ),
        };
        LocationFacts {
            id,
            name,
            city,
            country,
            description,
            latitude,
            longitude,
            network_zone,
        }
    }
}
