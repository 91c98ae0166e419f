//! Values that cross between a guest and the host in forms that no toolchain makes, from components assembled
//! instruction by instruction: each is the good guest with one defect. It ends that call as trapped, or keeps the guest
//! from being loaded; the host reads nothing outside the guest's memory, and its other guests work.
//!
//! - `made`: the good guest, and how it is changed.
//! - `values`: invalid texts, lists, case numbers, handles and addresses in memory.
//! - `running`: a guest that does not yield before it is called, takes tables and memory in one step, or calls the host
//!   when it may not.

mod made;
mod running;
mod values;

use std::time::Duration;

use ccm_core::cloud::{FindReply, ProviderError};
use ccm_core::cloud_provider::CloudProvider as _;
use ccm_fixtures::objects::cloud_node;
use ccm_host::grant::Grants;
use ccm_host::{GuestConfig, LoadError, Module, Provider};
use ccm_tests::harness;
use libtest_mimic::Trial;

use crate::misbehaving::behaviours::{KEPT_BYTES, assert_harmless, assert_works};
use crate::misbehaving::world::{self, HOST, TIMEOUT, block_on};
use crate::permits;
use guest_misbehaving::behaviour::Behaviour;
use made::Made;

pub(crate) fn trials() -> Vec<Trial> {
    let tests = [values::TESTS, running::TESTS];
    harness::table("boundary", &tests.concat())
}

/// The result of a guest.
enum End {
    /// It is not loaded, and the reason contains this text.
    NotLoaded(&'static str),
    /// Its call ends as trapped, and the reason contains this text.
    Traps(&'static str),
    /// Its call times out.
    TimesOut,
    /// It answers an error with exactly this text.
    AnswersText(&'static str),
    /// It answers an error whose text is cut.
    AnswersMuch,
    /// It answers as the good guest does.
    Answers,
}

/// The defect, the guest, and the result.
type Row = (&'static str, Made, End);

/// The timeout of calls that do not end by themselves.
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
        wasm: made.component().into(),
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
        _ => TIMEOUT,
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
        (Err(ProviderError::Invalid(text)), End::AnswersText(words)) => {
            assert_eq!(text, *words, "{what}")
        }
        (Err(ProviderError::Invalid(text)), End::AnswersMuch) => assert_harmless(&text, KEPT_BYTES),
        (Ok(reply), End::Answers) => assert_eq!(reply.lookups.len(), 1, "{what}"),
        (end, _) => {
            // Some answers are too long to show.
            let end: String = format!("{end:?}").chars().take(500).collect();
            panic!("{what}: {end}")
        }
    }
}

/// Asks about one node, whose name has letters of one, two, three and four bytes.
async fn call(provider: &Provider, time: Duration) -> Result<FindReply, ProviderError> {
    let nodes = [cloud_node(made::NODE)];
    provider.find(&nodes, permits::reads_for(time)).await
}
