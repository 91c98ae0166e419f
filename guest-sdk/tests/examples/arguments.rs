//! `export_provider!` takes its arguments in any order, with or without a comma at the end: that this file compiles is
//! the test.

use ccm_guest::{Config, Error, FindReply, Instances, Node, Provider, export_provider};

struct Tiny;

impl Provider for Tiny {
    fn init(_: &Config) -> Result<Tiny, Error> {
        Ok(Tiny)
    }
}

impl Instances for Tiny {
    fn find(&self, _: Vec<Node>) -> Result<FindReply, Error> {
        Ok(FindReply::new(Vec::new()))
    }
}

#[test]
fn the_arguments_come_in_any_order() {
    export_provider! { provider: Tiny, interfaces: [instances], manifest: "examples/tiny/manifest.json" }
    export_provider! { provider: Tiny, manifest: "examples/tiny/manifest.json", interfaces: [instances,], }
    export_provider! { interfaces: [instances], provider: Tiny, manifest: "examples/tiny/manifest.json", }
    export_provider! { interfaces: [instances], manifest: "examples/tiny/manifest.json", provider: Tiny }
    export_provider! { manifest: "examples/tiny/manifest.json", provider: Tiny, interfaces: [instances] }
    export_provider! { manifest: "examples/tiny/manifest.json", interfaces: [instances], provider: Tiny }
    let config = ccm_guest::testing::config(&[]);
    assert!(Tiny::init(&config).is_ok_and(|tiny| tiny.find(Vec::new()).is_ok()));
}
