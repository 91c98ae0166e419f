//! Another source in the place of the one that a provider began with.

use ccm_core::rollout::Record;
use ccm_delivery::artifact::Artifact;
use ccm_delivery::record::{RecordStore as _, Report};
use ccm_delivery::rollout_controller::Served;
use ccm_delivery::source::Location;
use ccm_delivery::source::file::FileSource;
use ccm_delivery::trust::TrustPolicy;
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

/// Gives the provider another source, which has nothing.
async fn moves_to_nowhere(world: &World) {
    let Location::File(file) = Location::parse(NOWHERE).unwrap() else {
        unreachable!("it is the address of a file")
    };
    let other = FileSource::new(NOWHERE.to_owned(), file, "cloud".to_owned());
    assert!(world.sources.send(Box::new(other)).await.is_ok());
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
        moves_to_nowhere(&world).await;
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
        moves_to_nowhere(&world).await;
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
