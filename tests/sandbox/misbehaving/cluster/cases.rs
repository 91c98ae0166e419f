//! The state of a cluster a minute after a guest began to answer badly. Values only.

use guest_misbehaving::behaviour::Behaviour;

/// Two nodes wait for their initialisation: one is new, one was known before and has its provider ID.
pub(super) const NEW: [&str; 2] = ["fresh", "known"];

/// One run of the controllers with a behaviour, and the state a minute later.
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) behaviour: Behaviour,
    /// The nodes of [`NEW`] that have lost their taint.
    pub(super) initialised: &'static [&'static str],
    /// Texts that these nodes contain.
    pub(super) shown: &'static [&'static str],
    /// Reason of the only Events of type Warning about the node `known`, and parts of the message of one of them.
    pub(super) told: Option<(&'static str, &'static [&'static str])>,
}

/// The cases, each of which is a test.
pub(super) const CASES: &[Case] = &[
    Case {
        name: "an_honest_answer_initialises_every_node",
        behaviour: Behaviour::Honest,
        initialised: &NEW,
        shown: &["192.0.2.7", "zone-1"],
        told: None,
    },
    Case {
        name: "an_answer_for_too_few_nodes_is_for_none",
        behaviour: Behaviour::TooFewLookups,
        initialised: &[],
        shown: &[],
        told: Some(("InstanceLookupFailed", &["0 lookups for 1 nodes"])),
    },
    Case {
        name: "an_answer_of_the_wrong_shape_is_worth_nothing",
        behaviour: Behaviour::LongLabel,
        initialised: &[],
        shown: &[],
        told: Some(("InstanceLookupFailed", &["155 bytes of an instance type"])),
    },
    Case {
        name: "addresses_that_are_none_are_not_stored",
        behaviour: Behaviour::BadAddresses,
        initialised: &[],
        shown: &[],
        told: Some((
            "InvalidProviderAnswer",
            &["none of the 7 addresses is valid"],
        )),
    },
    Case {
        name: "labels_that_are_none_are_dropped_and_the_node_is_initialised",
        behaviour: Behaviour::BadLabels,
        initialised: &NEW,
        shown: &["192.0.2.7"],
        told: Some((
            "InvalidProviderAnswer",
            &["it is not a label value", "the key is not a label key"],
        )),
    },
    Case {
        name: "labels_of_others_are_dropped_and_the_node_is_initialised",
        behaviour: Behaviour::ReservedLabels,
        initialised: &NEW,
        shown: &["192.0.2.7", "zone-1"],
        told: Some((
            "InvalidProviderAnswer",
            &["belongs to Kubernetes or to this manager"],
        )),
    },
    Case {
        name: "a_changed_provider_id_holds_the_node_that_has_one_and_no_other",
        behaviour: Behaviour::ChangedProviderId,
        initialised: &["fresh"],
        shown: &["misbehaving://another-fresh"],
        told: Some((
            "InvalidProviderAnswer",
            &["the node's provider ID is \"misbehaving://known\""],
        )),
    },
    Case {
        name: "a_provider_id_of_another_scheme_is_not_written",
        behaviour: Behaviour::ForeignScheme,
        initialised: &[],
        shown: &[],
        told: Some((
            "InvalidProviderAnswer",
            &["a scheme that this provider does not own"],
        )),
    },
    Case {
        name: "gone_without_proof_deletes_nothing",
        behaviour: Behaviour::GoneWithoutAsking,
        initialised: &[],
        shown: &[],
        told: Some(("InstanceNotFound", &["no such instance"])),
    },
    Case {
        name: "a_guest_that_crashes_is_told_with_its_last_words",
        behaviour: Behaviour::Panic,
        initialised: &[],
        shown: &[],
        told: Some((
            "InstanceLookupFailed",
            &[
                "trapped: instances.find in module",
                "because it was told to",
            ],
        )),
    },
    Case {
        name: "an_error_full_of_rubbish_is_told_in_one_clean_line",
        behaviour: Behaviour::GarbageError,
        initialised: &[],
        shown: &[],
        told: Some(("InstanceLookupFailed", &["internal error of the provider"])),
    },
];
