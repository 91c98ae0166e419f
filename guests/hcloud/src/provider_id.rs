//! Parses and writes provider IDs of Hetzner machines. Every form ever written stays readable. Pure.

use ccm_guest::provider_id::{number, without_scheme};

/// The machine that a node's provider ID refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProviderId {
    /// `hcloud://<id>`: a server of Hetzner Cloud.
    Server(u64),
    /// `hrobot://<number>`, or the older `hcloud://bm-<number>`: a Robot (dedicated) server.
    Robot(u64),
    /// This provider's scheme with a suffix that was never written.
    Unreadable,
    /// The scheme of another provider, or none.
    Foreign,
}

impl ProviderId {
    /// Parses the text of `spec.providerID`.
    pub fn parse(text: &str) -> ProviderId {
        if let Some(number) = without_scheme(text, "hrobot") {
            return robot(number);
        }
        let Some(rest) = without_scheme(text, "hcloud") else {
            return ProviderId::Foreign;
        };
        match rest.strip_prefix("bm-") {
            Some(number) => robot(number),
            None => number(rest).map_or(ProviderId::Unreadable, ProviderId::Server),
        }
    }
}

/// The provider ID of a cloud server, as written to nodes.
pub fn of_server(id: u64) -> String {
    format!("hcloud://{id}")
}

/// The provider ID of a Robot server, as written to nodes without one. Nodes with the older form keep it.
pub fn of_robot(number: u64) -> String {
    format!("hrobot://{number}")
}

fn robot(text: &str) -> ProviderId {
    number(text).map_or(ProviderId::Unreadable, ProviderId::Robot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_ever_written_is_readable() {
        let table = [
            ("hcloud://42", ProviderId::Server(42)),
            (
                "hcloud://2251799813685247",
                ProviderId::Server(2_251_799_813_685_247),
            ),
            (
                "hcloud://9007199254740991",
                ProviderId::Server(9_007_199_254_740_991),
            ),
            ("hrobot://321", ProviderId::Robot(321)),
            ("hcloud://bm-321", ProviderId::Robot(321)),
        ];
        check(&table);
    }

    #[test]
    fn what_is_not_a_number_of_ours_is_unreadable_and_never_a_server() {
        let table = [
            "hcloud://",
            "hcloud://0",
            "hcloud://042",
            "hcloud://+42",
            "hcloud://-1",
            "hcloud://42 ",
            "hcloud://42/",
            "hcloud://99999999999999999999999",
            "hcloud://bm-",
            "hcloud://bm-x",
            "hcloud://bm-my-robot",
            "hcloud://bm-0321",
            "hcloud://my-cloud",
            "hrobot://my-robot",
            "hrobot://0",
            "hcloud://٤٢",
            "hrobot://",
            "hrobot://bm-1",
        ]
        .map(|text| (text, ProviderId::Unreadable));
        check(&table);
    }

    #[test]
    fn another_scheme_is_foreign() {
        let table = [
            "",
            "42",
            "hcloud",
            "foobar/321",
            "hcloud:/42",
            "HCLOUD://42",
            "aws:///eu/i-1",
            "hcloudx://42",
            "k3s://node",
        ]
        .map(|text| (text, ProviderId::Foreign));
        check(&table);
    }

    #[test]
    fn what_is_written_is_read_back() {
        for id in [1, 42, u64::MAX] {
            assert_eq!(ProviderId::parse(&of_server(id)), ProviderId::Server(id));
            assert_eq!(ProviderId::parse(&of_robot(id)), ProviderId::Robot(id));
        }
    }

    fn check(table: &[(&str, ProviderId)]) {
        for (text, expected) in table {
            assert_eq!(ProviderId::parse(text), *expected, "{text:?}");
        }
    }
}
