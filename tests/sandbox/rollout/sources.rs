//! Another source in the place of the one that a provider began with.

use ccm_core::rollout::Record;
use ccm_delivery::artifact::Artifact;
use ccm_delivery::source::Location;
use ccm_delivery::source::file::FileSource;
use ccm_delivery::trust::TrustPolicy;
use ccm_tests::harness::Test;

use crate::rollout::world::{Start, World, block_on, module, says};

/// The address of a source that pins the module of [`pinned`].
pub(crate) const PINNED: &str = "oci://registry.example/cloud@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

pub(crate) const TESTS: &[Test] = &[(
    "what_the_address_of_the_former_source_pinned_is_not_trusted_at_another",
    what_the_address_of_the_former_source_pinned_is_not_trusted_at_another,
)];

/// The version whose manifest [`PINNED`] names.
pub(crate) fn pinned() -> Artifact {
    Artifact {
        manifest_digest: PINNED.split_once('@').map(|(_, digest)| digest.to_owned()),
        ..module("1.0.0", "honest")
    }
}

fn what_the_address_of_the_former_source_pinned_is_not_trusted_at_another() {
    const NOWHERE: &str = "file:///nowhere/cloud.wasm";
    block_on(async {
        let world = World::start(Start {
            place: PINNED,
            trust: TrustPolicy::default(),
            ..Start::default()
        });
        let one = pinned();
        world.offer(&one);
        world.serves(&one).await;
        let Location::File(file) = Location::parse(NOWHERE).unwrap() else {
            unreachable!("it is the address of a file")
        };
        let other = FileSource::new(NOWHERE.to_owned(), file, "cloud".to_owned());
        assert!(world.sources.send(Box::new(other)).await.is_ok());
        world
            .recorded("the other one is asked", |record| says(record, NOWHERE))
            .await;
        // What serves is judged again.
        world.grant(&[], false);
        let is_refused = |record: &Record| says(record, "nobody vouches");
        world.recorded("it is not trusted", is_refused).await;
    });
}
