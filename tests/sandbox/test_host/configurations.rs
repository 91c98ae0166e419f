//! One table of configurations, for the real host and for the `TestHost`, and the schemes that a provider gets.

use ccm_guest::testing::{TestHost, config, node, status};
use ccm_guest::{Config, Error, FindReply, Instance, Instances, Lookup, Node, Provider};
use ccm_host::GuestConfig;
use ccm_host::manifest::Manifest;
use ccm_tests::harness::Test;

pub(crate) const TESTS: &[Test] = &[
    (
        "configurations::are_taken_or_refused_alike",
        are_taken_or_refused_alike,
    ),
    (
        "configurations::name_the_schemes_of_the_nodes",
        name_the_schemes_of_the_nodes,
    ),
];

const MANIFEST: &str = r#"{
    "contract": "0.2.0", "name": "test", "version": "1", "schemes": ["test"],
    "config": [
        { "key": "REGION", "why": "where machines are looked up", "required": true },
        { "key": "ACCOUNT", "why": "whose they are", "required": true },
        { "key": "ZONES" }
    ]
}"#;

/// Values, by their keys.
type Given<'a> = &'a [(&'a str, &'a str)];

/// Takes every configuration.
struct Content;

impl Provider for Content {
    fn init(_: &Config) -> Result<Content, Error> {
        Ok(Content)
    }
}

/// Finds every node under the provider ID that it has, and keeps the schemes of its configuration.
struct Owner(Vec<String>);

impl Provider for Owner {
    fn init(config: &Config) -> Result<Owner, Error> {
        Ok(Owner(config.schemes.clone()))
    }
}

impl Instances for Owner {
    fn find(&self, nodes: Vec<Node>) -> Result<FindReply, Error> {
        let lookup = |node: Node| {
            let id = node.provider_id.unwrap_or_default();
            Lookup::Found(Instance::new(id))
        };
        Ok(FindReply::new(nodes.into_iter().map(lookup).collect()))
    }
}

fn name_the_schemes_of_the_nodes() {
    let host = TestHost::new(MANIFEST, |_| status(200));
    let needed = config(&[("REGION", "north"), ("ACCOUNT", "")]);
    // The schemes that the operator names, those that the provider gets, and one that is not its own. What an earlier
    // configuration named is forgotten.
    for (configured, owned, foreign) in [
        (None, "test", "other"),
        (Some("other"), "other", "test"),
        (None, "test", "other"),
    ] {
        let given = Config {
            schemes: configured.into_iter().map(str::to_owned).collect(),
            ..needed.clone()
        };
        let provider: Owner = host.init(&given).unwrap();
        assert_eq!(provider.0, [owned]);
        let find =
            |scheme: &str| host.find(&provider, vec![node("a", Some(&format!("{scheme}://1")))]);
        assert!(find(owned).is_ok(), "{configured:?}");
        let refused = find(foreign).unwrap_err();
        let why = "none of this provider's schemes";
        assert!(refused.message().contains(why), "{refused:?}");
    }
}

fn are_taken_or_refused_alike() {
    let manifest = Manifest::parse(MANIFEST.as_bytes()).unwrap();
    let host = TestHost::new(MANIFEST, |_| status(200));
    let needed = [("REGION", "north"), ("ACCOUNT", "")];
    let many: Vec<String> = (0..300).map(|index| format!("KEY_{index}")).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|key| (key.as_str(), "")).collect();
    let long = "x".repeat(256 << 10);
    // Values beside the required ones, or instead of them, and what is said of them; nothing if they are taken.
    let table: [(Given<'_>, bool, &[&str]); 9] = [
        (&[], true, &[]),
        (&[("ZONES", "a,b")], true, &[]),
        (&[("OTHER", "x")], true, &["test has no key OTHER"]),
        (
            &[("ZONE", "a")],
            true,
            &["no key ZONE; did you mean ZONES?"],
        ),
        (&[("region", "north")], true, &["test has no key region"]),
        (
            &[("ACCOUNT", "me")],
            false,
            &["REGION is required: where machines are looked up"],
        ),
        (
            &[("ACCOUNTS", "me")],
            false,
            &[
                "did you mean ACCOUNT?",
                "; REGION is required",
                "; ACCOUNT is required: whose",
            ],
        ),
        (&many, true, &["302 values with", "at most 256 and 256 KiB"]),
        (
            &[("ZONES", &long)],
            true,
            &["3 values with 262", "at most 256 and 256 KiB"],
        ),
    ];
    for (values, has_needed, expected) in table {
        let needed = if has_needed { &needed[..] } else { &[] };
        let given = config(&[needed, values].concat());
        let real = GuestConfig {
            values: given.values.clone(),
            ..GuestConfig::default()
        };
        let real = real.mistakes(&manifest).join("; ");
        let reported = match host.init::<Content>(&given) {
            Ok(Content) => String::new(),
            Err(Error::Invalid(text)) => text,
            Err(other) => panic!("{other:?}"),
        };
        let shown: String = format!("{values:?}").chars().take(200).collect();
        assert_eq!(reported, real, "{shown}");
        assert_eq!(
            reported.is_empty(),
            expected.is_empty(),
            "{shown}: {reported}"
        );
        for part in expected {
            assert!(
                reported.contains(part),
                "{shown}: {part:?} is not in {reported:?}"
            );
        }
    }
}
