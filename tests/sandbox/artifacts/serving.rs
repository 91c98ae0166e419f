//! A provider that serves while another file is offered in its place. Asserts only that it serves, before and after.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ccm_core::cloud::Lookup;
use ccm_core::cloud_provider::CloudProvider as _;
use ccm_core::safety::permit::Permit;
use ccm_delivery::active::{Active, Generation};
use ccm_host::grant::{Credential, Grants, Secret};
use ccm_host::{Compiler, Digest, GuestConfig, Host, LoadError, Module};
use ccm_tests::errors::chain;

use crate::host::{cache, compiler, open_host};

/// A host, and a good version that is active.
pub(crate) struct Serving {
    runtime: tokio::runtime::Runtime,
    host: Host,
    active: Arc<Active>,
}

impl Serving {
    pub(crate) fn start() -> Serving {
        Serving::start_with(compiler(&[]))
    }

    /// As `start`, with another compiler for offered files. The good version's compiled code is cached.
    pub(crate) fn start_with(offered: Compiler) -> Serving {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let good = good();
        let ours = open_host(compiler(&[]), Some(cache()));
        let loaded = ours.load(module(good), grants(), config());
        let provider = runtime.block_on(loaded).unwrap();
        let generation = Generation::new(Arc::new(provider));
        let serving = Serving {
            runtime,
            host: open_host(offered, Some(cache())),
            active: Active::new("provider", Arc::new(generation)),
        };
        serving.serves();
        serving
    }

    /// Offers a file. The active version is called before, and must serve after.
    pub(crate) fn offer(&self, wasm: Vec<u8>) -> Result<(), LoadError> {
        let loaded = self.host.load(module(wasm), grants(), config());
        let loaded = self.runtime.block_on(loaded).map(drop);
        self.serves();
        loaded
    }

    /// Offers a file that must be refused, and returns the error, also as text.
    pub(crate) fn refusal(&self, name: &str, wasm: Vec<u8>) -> (LoadError, String) {
        match self.offer(wasm) {
            Ok(()) => panic!("{name} was loaded"),
            Err(error) => {
                let reported = chain(&error);
                assert!(reported.len() < 8 << 10, "{name}: {} bytes", reported.len());
                let is_shown = |one: char| !one.is_control() && !is_hidden(one);
                assert!(reported.chars().all(is_shown), "{name}: {reported:?}");
                (error, reported)
            }
        }
    }

    /// The compiled code of the good version, without the cache's header.
    pub(crate) fn compiled(&self) -> Vec<u8> {
        let folder = cache().join("compiled");
        let files = std::fs::read_dir(folder).unwrap();
        let mut files = files.map(|file| file.unwrap().path());
        let digest = Digest::of(&good()).hex();
        let is_good = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with(&digest) && name.ends_with(".cwasm"))
        };
        let entry = std::fs::read(files.find(is_good).unwrap()).unwrap();
        // A magic number and a MAC.
        entry[40..].to_vec()
    }

    fn serves(&self) {
        let until = ccm_host::egress::now().after(Duration::from_secs(60));
        let node = ccm_fixtures::objects::cloud_node("one");
        let nodes = [node];
        let permit = Arc::new(Permit::read_only(until));
        let reply = self.runtime.block_on(self.active.find(&nodes, permit));
        let lookups = reply.unwrap().lookups;
        assert!(
            matches!(lookups.as_slice(), [Lookup::Found(_)]),
            "{lookups:?}"
        );
    }
}

/// The good version: a guest that answers by itself.
pub(crate) fn good() -> Vec<u8> {
    test_guests::MISBEHAVING.to_vec()
}

fn module(wasm: Vec<u8>) -> Module {
    Module {
        source: "offered.wasm".to_owned(),
        wasm: wasm.into(),
    }
}

/// Everything that the good version requests, at an endpoint without a listener: nothing is sent.
fn grants() -> Grants {
    let inspection = ccm_host::inspect("good.wasm", test_guests::MISBEHAVING).unwrap();
    let mut grants = inspection.manifest.as_grants();
    for target in &mut grants.targets {
        target.endpoint = "http://127.0.0.1:9/v1".parse().unwrap();
        target.credential = Credential::Bearer(Secret::new("a-token".to_owned()));
    }
    grants
}

fn config() -> GuestConfig {
    GuestConfig {
        schemes: Vec::new(),
        cluster_name: "kubernetes".to_owned(),
        cluster_cidrs: Vec::new(),
        values: [("behaviour".to_owned(), "honest".to_owned())].into(),
    }
}

/// Characters that change how others are displayed.
fn is_hidden(one: char) -> bool {
    matches!(one, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
