//! Which labels a node gets from its instance, and how deprecated and current names are kept equal. Returns only
//! changes; never removes a label.

use std::collections::BTreeMap;

use crate::cloud::instance::Instance;
use crate::string_map::StringMap;
use crate::well_known;

type Part = fn(&Instance) -> &Option<String>;

/// Deprecated name, current name, and the value that an instance has for both. The deprecated name is the source of
/// truth (NODE-070, NODE-071).
const PAIRS: [(&str, &str, Part); 3] = [
    (well_known::ZONE_BETA, well_known::ZONE, |instance| {
        &instance.zone
    }),
    (well_known::REGION_BETA, well_known::REGION, |instance| {
        &instance.region
    }),
    (
        well_known::INSTANCE_TYPE_BETA,
        well_known::INSTANCE_TYPE,
        |instance| &instance.instance_type,
    ),
];

/// The labels to set when a node is initialised with a checked `instance`.
///
/// Type, zone and region overwrite, under both names (NODE-031, NODE-032); values that the instance does not have leave
/// the labels alone (NODE-033). Additional labels only fill gaps (NODE-034).
pub fn of_instance(instance: &Instance, stored: &StringMap) -> BTreeMap<String, String> {
    let mut wanted = of_place(instance, stored);
    for (key, value) in &instance.labels {
        if !stored.contains_key(key) {
            wanted.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
    wanted
}

/// Type, zone and region under both names, where they differ from the stored labels.
pub fn of_place(instance: &Instance, stored: &StringMap) -> BTreeMap<String, String> {
    let mut wanted = BTreeMap::new();
    for (beta, current, value) in PAIRS {
        if let Some(value) = value(instance) {
            wanted.extend([beta, current].map(|key| (key.to_owned(), value.clone())));
        }
    }
    wanted.retain(|key, value| stored.get(key) != Some(value.as_str()));
    wanted
}

/// The current names that have to be updated from their deprecated ones (NODE-070 to NODE-072). A pair without the
/// deprecated label is left alone.
pub fn reconcile(stored: &StringMap) -> BTreeMap<String, String> {
    PAIRS
        .into_iter()
        .filter_map(|(beta, current, _)| {
            let value = stored.get(beta)?;
            (stored.get(current) != Some(value)).then(|| (current.to_owned(), value.to_owned()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map<T: FromIterator<(String, String)>>(pairs: &[(&str, &str)]) -> T {
        pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    fn instance() -> Instance {
        Instance {
            instance_type: Some("small".to_owned()),
            zone: Some("a".to_owned()),
            region: Some("r".to_owned()),
            ..Instance::default()
        }
    }

    #[test]
    fn node_031_and_032_type_zone_and_region_overwrite_under_both_names() {
        let stored = map(&[
            (well_known::ZONE, "old"),
            (well_known::INSTANCE_TYPE, "small"),
            ("kept", "yes"),
        ]);
        let expected = map(&[
            (well_known::INSTANCE_TYPE_BETA, "small"),
            (well_known::ZONE_BETA, "a"),
            (well_known::ZONE, "a"),
            (well_known::REGION_BETA, "r"),
            (well_known::REGION, "r"),
        ]);
        assert_eq!(of_instance(&instance(), &stored), expected);
    }

    #[test]
    fn node_033_what_the_instance_does_not_have_is_neither_set_nor_removed() {
        let stored = map(&[(well_known::ZONE, "old")]);
        assert_eq!(of_instance(&Instance::default(), &stored), BTreeMap::new());
    }

    #[test]
    fn node_034_additional_labels_only_fill_gaps() {
        let labels = [("foo", "new"), ("bar", "foo"), ("app.k8snio/bar", "x")];
        let answer = Instance {
            labels: labels
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .to_vec(),
            ..Instance::default()
        };
        let stored = map(&[("foo", "fizz"), ("bar", "foo")]);
        assert_eq!(
            of_instance(&answer, &stored),
            map(&[("app.k8snio/bar", "x")])
        );
    }

    #[test]
    fn node_071_the_deprecated_label_is_the_source_of_truth() {
        let beta = [
            (well_known::ZONE_BETA, "a"),
            (well_known::REGION_BETA, "r"),
            (well_known::INSTANCE_TYPE_BETA, "t"),
        ];
        let current = [
            (well_known::ZONE, "a"),
            (well_known::REGION, "r"),
            (well_known::INSTANCE_TYPE, "t"),
        ];
        assert_eq!(
            reconcile(&map(&beta)),
            map(&current),
            "absent ones are added"
        );
        let both = [beta, current].concat();
        assert_eq!(
            reconcile(&map(&both)),
            BTreeMap::new(),
            "equal ones are left alone"
        );
        let edited = [&both[..], &[(well_known::ZONE, "edited")]].concat();
        assert_eq!(
            reconcile(&map(&edited)),
            map(&[(well_known::ZONE, "a")]),
            "different ones are overwritten"
        );
        assert_eq!(
            reconcile(&map(&current)),
            BTreeMap::new(),
            "nothing is copied back"
        );
        assert_eq!(reconcile(&StringMap::default()), BTreeMap::new());
    }
}
