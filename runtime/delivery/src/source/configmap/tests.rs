#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::io::Write as _;

use ccm_core::rollout::Release;
use ccm_host::Digest;
use ccm_sim::cluster::{Cluster, Fault, FaultEffect, Verb};
use flate2::{Compression, write::GzEncoder};
use futures::FutureExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::time::{Duration, Instant, sleep};

use super::ConfigMapSource;
use crate::artifact::{Artifact, SignatureEvidence};
use crate::source::{ConfigMapKey, Source as _, SourceError, SourceErrorKind};

const PLACE: &str = "configmap://kube-system/hcloud/provider.wasm";

struct Setup {
    cluster: Cluster,
    maps: Api<ConfigMap>,
    source: ConfigMapSource,
}

/// The source of a cluster that has no ConfigMap yet.
fn setup() -> Setup {
    let cluster = Cluster::new();
    let at = ConfigMapKey {
        namespace: "kube-system".to_owned(),
        name: "hcloud".to_owned(),
        key: "provider.wasm".to_owned(),
    };
    Setup {
        maps: Api::namespaced(cluster.client_as("people"), "kube-system"),
        source: ConfigMapSource::new(PLACE.to_owned(), cluster.client_as("ccm"), at),
        cluster,
    }
}

fn wasm(text: &str) -> Vec<u8> {
    [b"\0asm", text.as_bytes()].concat()
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

fn object(data: Value) -> ConfigMap {
    let mut object = json!({"metadata": {"name": "hcloud"}});
    object["binaryData"] = data;
    serde_json::from_value(object).unwrap()
}

impl Setup {
    async fn create(&self, text: &str) {
        let object = object(json!({"provider.wasm": base64(&wasm(text))}));
        self.maps
            .create(&PostParams::default(), &object)
            .await
            .unwrap();
    }

    async fn merge(&self, change: Value) {
        let params = PatchParams::default();
        self.maps
            .patch("hcloud", &params, &Patch::Merge(change))
            .await
            .unwrap();
    }

    async fn put(&self, text: &str) {
        self.merge(json!({"binaryData": {"provider.wasm": base64(&wasm(text))}}))
            .await;
    }

    async fn offers(&mut self, text: &str) {
        let artifact = self.source.next().await.unwrap();
        assert_eq!(*artifact.wasm, *wasm(text));
        assert_eq!(artifact.digest, Digest::of(&wasm(text)));
        assert_eq!(artifact.origin, PLACE);
    }

    async fn refuses(&mut self) -> SourceError {
        self.source.next().await.err().unwrap()
    }

    /// Checks that nothing is offered, however long the test waits.
    async fn is_quiet(&mut self) {
        let quiet = tokio::time::timeout(Duration::from_secs(600), self.source.next()).await;
        assert!(
            quiet.is_err(),
            "{:?}",
            quiet.map(|answer| answer.map(|artifact| artifact.digest))
        );
    }
}

fn forbidden() -> FaultEffect {
    FaultEffect::Refused {
        code: 403,
        retry_after: None,
    }
}

#[tokio::test(start_paused = true)]
async fn a_module_is_offered_when_it_is_there_and_whenever_it_changes() {
    let mut setup = setup();
    let absent = setup.refuses().await.to_string();
    assert_eq!(
        absent,
        "configmap://kube-system/hcloud/provider.wasm: there is nothing: there is no ConfigMap hcloud in the namespace kube-system"
    );
    setup.is_quiet().await;
    setup.create("one").await;
    setup.offers("one").await;
    setup.put("two").await;
    setup.offers("two").await;
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(&wasm("three")).unwrap();
    let packed = base64(&gzip.finish().unwrap());
    setup
        .merge(json!({"binaryData": {"provider.wasm": packed}}))
        .await;
    setup.offers("three").await;
    setup
        .merge(json!({"metadata": {"labels": {"a": "b"}}}))
        .await;
    setup.is_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn what_was_taken_away_is_told_once_and_offered_when_it_comes_back() {
    let mut setup = setup();
    setup.create("one").await;
    setup.offers("one").await;
    for (change, why) in [
        (
            json!({"binaryData": {"provider.wasm": null}}),
            "it has no key provider.wasm",
        ),
        (json!({"binaryData": {"provider.wasm": ""}}), "it is empty"),
    ] {
        setup.merge(change).await;
        let error = setup.refuses().await;
        assert!(
            error.kind == SourceErrorKind::Absent && error.why.contains(why),
            "{error}"
        );
        setup.is_quiet().await;
        setup.put("one").await;
        setup.offers("one").await;
    }
    setup
        .maps
        .delete("hcloud", &DeleteParams::default())
        .await
        .unwrap();
    let error = setup.refuses().await;
    assert_eq!(error.kind, SourceErrorKind::Absent, "{error}");
    setup.create("one").await;
    setup.offers("one").await;
}

#[tokio::test(start_paused = true)]
async fn what_is_no_module_is_refused_and_the_next_one_offered() {
    let mut setup = setup();
    setup.create("one").await;
    setup.offers("one").await;
    setup
        .merge(json!({"binaryData": {"provider.wasm": base64(b"\x7fELF compiled")}}))
        .await;
    let error = setup.refuses().await;
    assert!(
        matches!(error.kind, SourceErrorKind::Refused(_)) && error.why.contains("compiled code"),
        "{error}"
    );
    setup.put("two").await;
    setup.offers("two").await;
}

#[tokio::test(start_paused = true)]
async fn parts_that_are_changed_one_by_one_are_offered_only_together() {
    let mut setup = setup();
    let (old, new) = (wasm("old, and long"), wasm("new, and long"));
    let parts = |whole: &[u8]| (base64(&whole[..6]), base64(&whole[6..]));
    let digest = |whole: &[u8]| base64(Digest::of(whole).hex().as_bytes());
    let (first, second) = parts(&old);
    let map = object(json!({
        "provider.wasm.00": first, "provider.wasm.01": second, "provider.wasm.sha256": digest(&old),
    }));
    setup
        .maps
        .create(&PostParams::default(), &map)
        .await
        .unwrap();
    setup.offers("old, and long").await;

    let (first, second) = parts(&new);
    setup
        .merge(json!({"binaryData": {"provider.wasm.00": first}}))
        .await;
    let error = setup.refuses().await;
    assert!(
        matches!(error.kind, SourceErrorKind::Refused(_))
            && error.why.contains("not everything is changed yet"),
        "{error}"
    );
    setup
        .merge(json!({"binaryData": {"provider.wasm.01": second}}))
        .await;
    let error = setup.refuses().await;
    assert!(matches!(error.kind, SourceErrorKind::Refused(_)), "{error}");
    setup
        .merge(json!({"binaryData": {"provider.wasm.sha256": digest(&new)}}))
        .await;
    setup.offers("new, and long").await;
}

#[tokio::test(start_paused = true)]
async fn look_alikes_in_other_namespaces_and_other_objects_are_never_looked_at() {
    let mut setup = setup();
    setup.create("one").await;
    let elsewhere: Api<ConfigMap> = Api::namespaced(setup.cluster.client(), "default");
    let same_name = object(json!({"provider.wasm": base64(&wasm("evil"))}));
    elsewhere
        .create(&PostParams::default(), &same_name)
        .await
        .unwrap();
    let mut other_name = same_name.clone();
    other_name.metadata.name = Some("hcloud2".to_owned());
    setup
        .maps
        .create(&PostParams::default(), &other_name)
        .await
        .unwrap();
    setup.offers("one").await;
    let change = json!({"binaryData": {"provider.wasm": base64(&wasm("worse"))}});
    let params = PatchParams::default();
    elsewhere
        .patch("hcloud", &params, &Patch::Merge(&change))
        .await
        .unwrap();
    setup
        .maps
        .patch("hcloud2", &params, &Patch::Merge(&change))
        .await
        .unwrap();
    setup.is_quiet().await;
    let asked = setup.cluster.requests();
    let ours: Vec<_> = asked
        .iter()
        .filter(|request| request.identity == "ccm")
        .collect();
    assert!(!ours.is_empty());
    assert!(
        ours.iter()
            .all(|request| request.namespace == "kube-system" && request.resource == "configmaps")
    );
}

#[tokio::test(start_paused = true)]
async fn ten_changes_in_a_second_are_few_offers_and_the_last_one_is_among_them() {
    let mut setup = setup();
    setup.create("0").await;
    setup.offers("0").await;
    let maps = setup.maps.clone();
    let changes = tokio::spawn(async move {
        for number in 1..=600 {
            sleep(Duration::from_millis(100)).await;
            let text = wasm(&number.to_string());
            let change = json!({"binaryData": {"provider.wasm": base64(&text)}});
            maps.patch("hcloud", &PatchParams::default(), &Patch::Merge(change))
                .await
                .unwrap();
        }
    });
    let began = Instant::now();
    let last = Digest::of(&wasm("600"));
    let mut offers = 0;
    while setup.source.next().await.unwrap().digest != last {
        offers += 1;
    }
    changes.await.unwrap();
    assert!(
        (20..=35).contains(&offers),
        "{offers} in {:?}",
        began.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn nothing_is_lost_when_the_wait_is_given_up_again_and_again() {
    let mut setup = setup();
    setup.create("0").await;
    let mut offered = Vec::<Digest>::new();
    for number in 1..=50 {
        for _ in 0..3 {
            // Enough time to receive an event of the watch, and too little for an answer.
            let wait = tokio::time::timeout(Duration::from_millis(7), setup.source.next());
            if let Ok(answer) = wait.await {
                offered.push(answer.unwrap().digest);
            }
        }
        setup.put(&number.to_string()).await;
    }
    let last = Digest::of(&wasm("50"));
    while offered.last() != Some(&last) {
        offered.push(setup.source.next().await.unwrap().digest);
    }
    setup.is_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn a_missing_right_is_named_and_the_module_offered_when_it_is_given() {
    let mut setup = setup();
    setup.create("one").await;
    let refused = forbidden();
    setup
        .cluster
        .inject(Fault::next(Verb::List, "configmaps", refused.clone()).times(3));
    let error = setup.refuses().await;
    assert!(
        error.kind == SourceErrorKind::Denied
            && error.why.contains(
                "get, list and watch on the ConfigMap hcloud in the namespace kube-system"
            ),
        "{error}"
    );
    setup.offers("one").await;

    // The right is taken away while the object is watched.
    setup
        .cluster
        .inject(Fault::next(Verb::Watch, "configmaps", refused.clone()).times(3));
    setup
        .cluster
        .inject(Fault::next(Verb::List, "configmaps", refused).times(1));
    setup.cluster.end_watches();
    let error = setup.refuses().await;
    assert_eq!(error.kind, SourceErrorKind::Denied, "{error}");
    setup.offers("one").await;
}

#[tokio::test(start_paused = true)]
async fn the_right_to_list_without_the_right_to_watch_does_not_flood_the_api_server() {
    let mut setup = setup();
    setup.create("one").await;
    let refused = forbidden();
    setup
        .cluster
        .inject(Fault::next(Verb::Watch, "configmaps", refused).times(1000));
    setup.offers("one").await;
    setup.is_quiet().await;
    let requests = setup.cluster.requests();
    let lists = requests.iter().filter(|one| one.verb == "list").count();
    assert!((2..=22).contains(&lists), "{lists} lists in ten minutes");

    // Changes are found by the lists, and the missing right is named.
    setup.put("two").await;
    setup.offers("two").await;
    let error = setup.source.unwatched.as_ref().unwrap();
    assert_eq!(error.kind, SourceErrorKind::Denied);
    let needed = "get, list and watch on the ConfigMap hcloud in the namespace kube-system";
    assert!(error.why.contains(needed), "{error}");
    setup.cluster.clear_faults();
    setup.is_quiet().await;
    setup.put("three").await;
    setup.offers("three").await;
    assert_eq!(setup.source.unwatched, None);
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_is_away_is_told_once_and_what_it_has_then_is_offered() {
    let mut setup = setup();
    setup.create("one").await;
    let fault = |verb, effect| Fault::next(verb, "configmaps", effect);
    setup
        .cluster
        .inject(fault(Verb::List, FaultEffect::LostBeforeCommit).times(4));
    let error = setup.refuses().await;
    assert_eq!(error.kind, SourceErrorKind::Unavailable, "{error}");
    setup.offers("one").await;

    // A watch that ended or whose history has expired is restarted without a report.
    setup.cluster.end_watches();
    setup.is_quiet().await;
    setup.cluster.expire_watches();
    setup.is_quiet().await;
    setup.put("two").await;
    setup.offers("two").await;

    let lost = FaultEffect::Refused {
        code: 503,
        retry_after: None,
    };
    setup
        .cluster
        .inject(fault(Verb::Watch, lost.clone()).times(3));
    setup.cluster.inject(fault(Verb::List, lost).times(2));
    setup.cluster.end_watches();
    let error = setup.refuses().await;
    assert!(
        error.kind == SourceErrorKind::Unavailable && error.why.contains("503"),
        "{error}"
    );
    setup.offers("two").await;
}

#[tokio::test(start_paused = true)]
async fn the_same_bytes_can_be_had_again_while_they_are_there() {
    let mut setup = setup();
    setup.create("one").await;
    let again = |artifact: &Artifact| Release {
        digest: artifact.digest.to_string(),
        version: String::new(),
        origin: artifact.origin.clone(),
    };
    let first = setup.source.next().await.unwrap();
    let release = again(&first);
    assert_eq!(
        setup.source.again(&release).await.unwrap().digest,
        first.digest
    );
    setup.put("two").await;
    let error = setup.source.again(&release).await.err().unwrap();
    assert_eq!(error.kind, SourceErrorKind::Absent, "{error}");
    let reported = error.to_string();
    assert!(
        reported.contains("put it back there, under any key"),
        "{reported}"
    );
    // An earlier module may be kept under another key, where it is not offered.
    let kept = json!({"binaryData": {"before.wasm": base64(&wasm("one"))}});
    setup.merge(kept).await;
    let kept = setup.source.again(&release).await.unwrap();
    assert_eq!(kept.digest, first.digest);
    // A repeated fetch makes no offer.
    assert!(setup.source.next().now_or_never().is_none());
    setup.offers("two").await;
    // Its key may end like that of a part.
    let kept = json!({"before.wasm": null, "hcloud-1.10": base64(&wasm("one"))});
    setup.merge(json!({"binaryData": kept})).await;
    let kept = setup.source.again(&release).await.unwrap();
    assert_eq!((kept.digest, kept.evidence), (first.digest, Vec::new()));
    // Each has its own signature, which may come later.
    let signatures = json!({
        "hcloud-1.10.sigstore.json": base64(b"{1}"), "provider.wasm.sigstore.json": base64(b"{2}"),
    });
    setup.merge(json!({"binaryData": signatures})).await;
    let kept = setup.source.again(&release).await.unwrap();
    let bundle = |text: &[u8]| [SignatureEvidence::Bundle(text.to_vec())];
    assert_eq!(kept.evidence, bundle(b"{1}"));
    let offered = tokio::time::timeout(Duration::from_secs(60), setup.source.next());
    let offered = offered.await.unwrap().unwrap();
    assert_eq!(offered.digest, Digest::of(&wasm("two")));
    assert_eq!(offered.evidence, bundle(b"{2}"));
}
