//! What crosses between a guest and the host in forms that no toolchain makes, from components that are put together
//! instruction by instruction: each is one good guest with one thing wrong with it. Whatever it is ends that call as trapped,
//! or keeps the guest from being loaded; the host reads nothing outside of the guest's memory, and its other guests work.
//!
//! - `made`: the good guest, and how it is changed.
//! - `values`: texts, lists, numbers of cases, handles and places in memory that cannot be.
//! - `running`: a guest that does not give way before it is called, takes tables and memory in one step, or calls the host
//!   when it may not.

mod made;
mod running;
mod values;

use std::time::Duration;

use ccm_core::cloud::{CloudProvider as _, FindReply, ProviderError};
use ccm_fixtures::objects::cloud_node;
use ccm_host::grant::Grants;
use ccm_host::{GuestConfig, LoadError, Module, Provider};
use ccm_tests::harness;
use libtest_mimic::Trial;

use crate::misbehaving::behaviours::{KEPT_BYTES, assert_harmless, assert_works};
use crate::misbehaving::world::{self, HOST, PATIENCE, block_on};
use crate::permits;
use guest_misbehaving::behaviour::Behaviour;
use made::Made;

pub(crate) fn trials() -> Vec<Trial> {
    let tests = [values::TESTS, running::TESTS];
    harness::table("boundary", &tests.concat())
}

/// What comes of a guest.
enum End {
    /// It is not loaded, and the reason says this.
    NotLoaded(&'static str),
    /// Its call ends as trapped, and the reason says this.
    Traps(&'static str),
    /// Its call ends when its time is over.
    TimesOut,
    /// It refuses with this text, which is what it wanted to say.
    Says(&'static str),
    /// It refuses with a text of which the beginning is kept.
    SaysMuch,
    /// It answers as the good guest does.
    Answers,
}

/// What is wrong, the guest, and what comes of it.
type Row = (&'static str, Made, End);

/// How long the calls of these guests may take that do not end by themselves.
const SHORT: Duration = Duration::from_millis(300);

/// Calls each guest, with an honest one of another provider afterwards.
fn each(rows: Vec<Row>) {
    block_on(async {
        let neighbour = world::load(Behaviour::Honest, "http://127.0.0.1:9/v1").await;
        let neighbour = neighbour.unwrap();
        for (what, made, end) in rows {
            check(what, load(&made).await, &end).await;
            assert_works(&neighbour).await;
        }
    });
}

async fn load(made: &Made) -> Result<Provider, LoadError> {
    let module = Module {
        source: "made.wasm".to_owned(),
        wasm: made.component(),
    };
    let config = GuestConfig {
        schemes: Vec::new(),
        cluster_name: "kubernetes".to_owned(),
        cluster_cidrs: Vec::new(),
        values: Default::default(),
    };
    HOST.load(module, Grants::default(), config).await
}

async fn check(what: &str, loaded: Result<Provider, LoadError>, end: &End) {
    let provider = match (loaded, end) {
        (Err(error), End::NotLoaded(words)) => {
            let text = world::chain(&error);
            assert!(text.contains(words), "{what}: {text}");
            return assert_harmless(&text, KEPT_BYTES + 200);
        }
        (Err(error), _) => panic!("{what}: {}", world::chain(&error)),
        (Ok(_), End::NotLoaded(_)) => panic!("{what}: it was loaded"),
        (Ok(provider), _) => provider,
    };
    let time = match end {
        End::TimesOut => SHORT,
        _ => PATIENCE,
    };
    match (call(&provider, time).await, end) {
        (Err(ProviderError::Trapped(text)), End::Traps(words)) => {
            assert!(text.contains(words), "{what}: {text}");
            assert!(text.contains(&provider.digest().short()), "{what}: {text}");
            assert_harmless(&text, KEPT_BYTES + 200);
        }
        (Err(ProviderError::TimedOut(text)), End::TimesOut) => {
            assert!(text.contains("did not end within"), "{what}: {text}");
        }
        (Err(ProviderError::Invalid(text)), End::Says(words)) => assert_eq!(text, *words, "{what}"),
        (Err(ProviderError::Invalid(text)), End::SaysMuch) => assert_harmless(&text, KEPT_BYTES),
        (Ok(reply), End::Answers) => assert_eq!(reply.lookups.len(), 1, "{what}"),
        (end, _) => {
            // Some answers would fill the screen.
            let end: String = format!("{end:?}").chars().take(500).collect();
            panic!("{what}: {end}")
        }
    }
}

/// Asks about one node, whose name is written with letters of one, two, three and four bytes.
async fn call(provider: &Provider, time: Duration) -> Result<FindReply, ProviderError> {
    let nodes = [cloud_node(made::NODE)];
    provider.find(&nodes, permits::reads_for(time)).await
}
