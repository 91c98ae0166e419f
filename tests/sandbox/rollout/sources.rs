//! Another source in the place of the one that a provider began with.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ccm_core::rollout::Record;
use ccm_delivery::artifact::Artifact;
use ccm_delivery::load_policy::LoadPolicyOf;
use ccm_delivery::record::{RecordStore as _, Report};
use ccm_delivery::rollout_controller::{Policies, Served};
use ccm_delivery::source::file::FileSource;
use ccm_delivery::source::{Location, Source};
use ccm_delivery::trust::TrustPolicy;
use ccm_host::{Inspection, Loading};
use ccm_tests::harness::Test;
use rcgen::KeyPair;

use crate::rollout::restarts::has_served;
use crate::rollout::world::{Start, World, block_on, in_time, module, says, trusting};

/// The address of a file that does not exist.
const NOWHERE: &str = "file:///nowhere/cloud.wasm";
/// The address of a source that pins the module of [`pinned`].
pub(crate) const PINNED: &str = "oci://registry.example/cloud@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

pub(crate) const TESTS: &[Test] = &[
    (
        "what_the_address_pins_is_trusted_though_it_was_kept_without_its_manifest",
        what_the_address_pins_is_trusted_though_it_was_kept_without_its_manifest,
    ),
    (
        "what_the_address_of_the_former_source_pinned_is_not_trusted_at_another",
        what_the_address_of_the_former_source_pinned_is_not_trusted_at_another,
    ),
    (
        "what_the_former_source_offered_is_not_loaded_at_another",
        what_the_former_source_offered_is_not_loaded_at_another,
    ),
    (
        "the_policies_that_come_with_another_source_never_judge_what_the_former_one_offered",
        the_policies_that_come_with_another_source_never_judge_what_the_former_one_offered,
    ),
];

/// The version whose manifest [`PINNED`] names.
pub(crate) fn pinned() -> Artifact {
    Artifact {
        manifest_digest: PINNED.split_once('@').map(|(_, digest)| digest.to_owned()),
        ..module("1.0.0", "honest")
    }
}

/// Whether nothing serves, and the reason has this text.
fn fails(served: &Served, text: &str) -> bool {
    matches!(served, Served::Failed { why, .. } if why.contains(text))
}

/// A source that has nothing.
fn nowhere() -> Box<dyn Source> {
    let Location::File(file) = Location::parse(NOWHERE).unwrap() else {
        unreachable!("it is the address of a file")
    };
    Box::new(FileSource::new(
        NOWHERE.to_owned(),
        file,
        "cloud".to_owned(),
    ))
}

/// A load policy that knows whether it was asked about a module, to which it grants nothing.
struct Asked(Arc<AtomicBool>);

impl LoadPolicyOf for Asked {
    fn load_policy(&self, _: &Inspection) -> Result<Loading, Vec<String>> {
        self.0.store(true, Ordering::Relaxed);
        Ok(Loading::default())
    }
}

/// Its registry does not say whether there are signatures, and the module in the store may have some.
fn what_the_address_pins_is_trusted_though_it_was_kept_without_its_manifest() {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let start = || Start {
            folder: Some(folder.path()),
            ..Start::default()
        };
        let one = module("1.0.0", "honest");
        has_served(start(), &one).await;
        let world = World::start(Start {
            place: PINNED,
            trust: TrustPolicy::default(),
            ..start()
        });
        world.offer(&Artifact {
            unanswered: vec!["one.test answered 500".to_owned()],
            ..pinned()
        });
        world.serves(&one).await;
    });
}

fn what_the_address_of_the_former_source_pinned_is_not_trusted_at_another() {
    block_on(async {
        let world = World::start(Start {
            place: PINNED,
            trust: TrustPolicy::default(),
            ..Start::default()
        });
        let one = pinned();
        world.offer(&one);
        world.serves(&one).await;
        world.reconfigure(Some(nowhere()), None);
        world
            .recorded("the other one is asked", |record| says(record, NOWHERE))
            .await;
        // What serves is judged again.
        world.grant(&[], false);
        let is_refused = |record: &Record| says(record, "nobody vouches");
        world.recorded("it is not trusted", is_refused).await;
    });
}

/// The operator who trusts whatever the other source has does not mean the bytes of the former one.
fn what_the_former_source_offered_is_not_loaded_at_another() {
    block_on(async {
        let one = module("1.0.0", "honest");
        let leader = World::start(Start::default());
        leader.offer(&one);
        leader.serves(&one).await;
        let is_written = |record: &Record| record.active.is_some();
        let record = leader.recorded("it is written down", is_written).await;

        let world = World::start(Start {
            leads: false,
            trust: trusting(&KeyPair::generate().unwrap()),
            ..Start::default()
        });
        world.offer(&one);
        let mut served = world.served.clone();
        let refused = served.wait_for(|served| fails(served, "it is not signed"));
        in_time("it is refused", refused).await.unwrap();
        world.reconfigure(Some(nowhere()), None);
        let moved = served.wait_for(|served| fails(served, NOWHERE));
        in_time("the other one is asked", moved).await.unwrap();

        world.trusts(Start::default().trust);
        let report = Report {
            record,
            ..Report::default()
        };
        world.record_store.write(&report).await.unwrap();
        let ended = served.wait_for(|served| {
            let is_missing = fails(served, "must serve") && fails(served, NOWHERE);
            is_missing || matches!(served, Served::Serving(_))
        });
        let ended = in_time("it is loaded, or nowhere", ended).await.unwrap();
        assert!(!matches!(*ended, Served::Serving(_)));
    });
}

/// The operator who trusts whatever the other source has, and grants it what it requests, does not mean these bytes.
fn the_policies_that_come_with_another_source_never_judge_what_the_former_one_offered() {
    block_on(async {
        let world = World::start(Start {
            trust: trusting(&KeyPair::generate().unwrap()),
            ..Start::default()
        });
        let one = module("1.0.0", "honest");
        world.offer(&one);
        let mut served = world.served.clone();
        let refused = served.wait_for(|served| fails(served, "it is not signed"));
        in_time("it is refused", refused).await.unwrap();
        // This offer is on its way meanwhile.
        world.offer(&module("2.0.0", "honest"));
        let asked = Arc::new(AtomicBool::new(false));
        let policies = Policies {
            trust: Arc::new(Start::default().trust),
            load_policy: Arc::new(Asked(asked.clone())),
        };
        world.reconfigure(Some(nowhere()), Some(policies));
        let ended = served
            .wait_for(|served| fails(served, NOWHERE) || matches!(served, Served::Serving(_)));
        let ended = in_time("the other one is asked", ended).await.unwrap();
        assert!(!matches!(*ended, Served::Serving(_)));
        assert!(!asked.load(Ordering::Relaxed));
    });
}
