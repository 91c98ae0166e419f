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
use crate::artifact::Artifact;
use crate::source::{ConfigMapKey, Source as _, SourceError};

const PLACE: &str = "configmap://kube-system/hcloud/provider.wasm";

struct Scene {
    cluster: Cluster,
    maps: Api<ConfigMap>,
    source: ConfigMapSource,
}

/// The source of a cluster that has no ConfigMap yet.
fn scene() -> Scene {
    let cluster = Cluster::new();
    let at = ConfigMapKey {
        namespace: "kube-system".to_owned(),
        name: "hcloud".to_owned(),
        key: "provider.wasm".to_owned(),
    };
    Scene {
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

impl Scene {
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
        assert_eq!((&*artifact.origin, artifact.is_pinned), (PLACE, false));
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

#[tokio::test(start_paused = true)]
async fn a_module_is_offered_when_it_is_there_and_whenever_it_changes() {
    let mut scene = scene();
    let absent = scene.refuses().await.to_string();
    assert_eq!(
        absent,
        "configmap://kube-system/hcloud/provider.wasm: there is nothing: there is no ConfigMap hcloud in the namespace kube-system"
    );
    scene.is_quiet().await;
    scene.create("one").await;
    scene.offers("one").await;
    scene.put("two").await;
    scene.offers("two").await;
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(&wasm("three")).unwrap();
    let packed = base64(&gzip.finish().unwrap());
    scene
        .merge(json!({"binaryData": {"provider.wasm": packed}}))
        .await;
    scene.offers("three").await;
    scene
        .merge(json!({"metadata": {"labels": {"a": "b"}}}))
        .await;
    scene.is_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn what_was_taken_away_is_told_once_and_offered_when_it_comes_back() {
    let mut scene = scene();
    scene.create("one").await;
    scene.offers("one").await;
    for (change, why) in [
        (
            json!({"binaryData": {"provider.wasm": null}}),
            "it has no key provider.wasm",
        ),
        (json!({"binaryData": {"provider.wasm": ""}}), "it is empty"),
    ] {
        scene.merge(change).await;
        let error = scene.refuses().await;
        assert!(
            matches!(&error, SourceError::Absent { why: told, .. } if told.contains(why)),
            "{error}"
        );
        scene.is_quiet().await;
        scene.put("one").await;
        scene.offers("one").await;
    }
    scene
        .maps
        .delete("hcloud", &DeleteParams::default())
        .await
        .unwrap();
    let error = scene.refuses().await;
    assert!(matches!(error, SourceError::Absent { .. }), "{error}");
    scene.create("one").await;
    scene.offers("one").await;
}

#[tokio::test(start_paused = true)]
async fn what_is_no_module_is_refused_and_the_next_one_offered() {
    let mut scene = scene();
    scene.create("one").await;
    scene.offers("one").await;
    scene
        .merge(json!({"binaryData": {"provider.wasm": base64(b"\x7fELF compiled")}}))
        .await;
    let error = scene.refuses().await;
    assert!(
        matches!(&error, SourceError::Refused { why, .. } if why.contains("compiled code")),
        "{error}"
    );
    scene.put("two").await;
    scene.offers("two").await;
}

#[tokio::test(start_paused = true)]
async fn parts_that_are_changed_one_by_one_are_offered_only_together() {
    let mut scene = scene();
    let (old, new) = (wasm("old, and long"), wasm("new, and long"));
    let parts = |whole: &[u8]| (base64(&whole[..6]), base64(&whole[6..]));
    let digest = |whole: &[u8]| base64(Digest::of(whole).hex().as_bytes());
    let (first, second) = parts(&old);
    let map = object(json!({
        "provider.wasm.00": first, "provider.wasm.01": second, "provider.wasm.sha256": digest(&old),
    }));
    scene
        .maps
        .create(&PostParams::default(), &map)
        .await
        .unwrap();
    scene.offers("old, and long").await;

    let (first, second) = parts(&new);
    scene
        .merge(json!({"binaryData": {"provider.wasm.00": first}}))
        .await;
    let error = scene.refuses().await;
    assert!(
        matches!(&error, SourceError::Refused { why, .. } if why.contains("not everything is changed yet")),
        "{error}"
    );
    scene
        .merge(json!({"binaryData": {"provider.wasm.01": second}}))
        .await;
    let error = scene.refuses().await;
    assert!(matches!(&error, SourceError::Refused { .. }), "{error}");
    scene
        .merge(json!({"binaryData": {"provider.wasm.sha256": digest(&new)}}))
        .await;
    scene.offers("new, and long").await;
}

#[tokio::test(start_paused = true)]
async fn look_alikes_in_other_namespaces_and_other_objects_are_never_looked_at() {
    let mut scene = scene();
    scene.create("one").await;
    let elsewhere: Api<ConfigMap> = Api::namespaced(scene.cluster.client(), "default");
    let same_name = object(json!({"provider.wasm": base64(&wasm("evil"))}));
    elsewhere
        .create(&PostParams::default(), &same_name)
        .await
        .unwrap();
    let mut other_name = same_name.clone();
    other_name.metadata.name = Some("hcloud2".to_owned());
    scene
        .maps
        .create(&PostParams::default(), &other_name)
        .await
        .unwrap();
    scene.offers("one").await;
    let change = json!({"binaryData": {"provider.wasm": base64(&wasm("worse"))}});
    let params = PatchParams::default();
    elsewhere
        .patch("hcloud", &params, &Patch::Merge(&change))
        .await
        .unwrap();
    scene
        .maps
        .patch("hcloud2", &params, &Patch::Merge(&change))
        .await
        .unwrap();
    scene.is_quiet().await;
    let asked = scene.cluster.requests();
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
    let mut scene = scene();
    scene.create("0").await;
    scene.offers("0").await;
    let maps = scene.maps.clone();
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
    while scene.source.next().await.unwrap().digest != last {
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
    let mut scene = scene();
    scene.create("0").await;
    let mut offered = Vec::<Digest>::new();
    for number in 1..=50 {
        for _ in 0..3 {
            // Enough time to receive an event of the watch, and too little for an answer.
            let wait = tokio::time::timeout(Duration::from_millis(7), scene.source.next());
            if let Ok(answer) = wait.await {
                offered.push(answer.unwrap().digest);
            }
        }
        scene.put(&number.to_string()).await;
    }
    let last = Digest::of(&wasm("50"));
    while offered.last() != Some(&last) {
        offered.push(scene.source.next().await.unwrap().digest);
    }
    scene.is_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn a_missing_right_is_named_and_the_module_offered_when_it_is_given() {
    let mut scene = scene();
    scene.create("one").await;
    let refused = FaultEffect::Refused {
        code: 403,
        retry_after: None,
    };
    scene
        .cluster
        .inject(Fault::next(Verb::List, "configmaps", refused.clone()).times(3));
    let error = scene.refuses().await;
    assert!(
        matches!(&error, SourceError::Denied { why, .. }
            if why.contains("get, list and watch on the ConfigMap hcloud in the namespace kube-system")),
        "{error}"
    );
    scene.offers("one").await;

    // The object is deleted while it is watched.
    scene
        .cluster
        .inject(Fault::next(Verb::Watch, "configmaps", refused.clone()).times(1));
    scene
        .cluster
        .inject(Fault::next(Verb::List, "configmaps", refused).times(1));
    scene.cluster.end_watches();
    let error = scene.refuses().await;
    assert!(matches!(error, SourceError::Denied { .. }), "{error}");
    scene.offers("one").await;
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_is_away_is_told_once_and_what_it_has_then_is_offered() {
    let mut scene = scene();
    scene.create("one").await;
    let fault = |verb, effect| Fault::next(verb, "configmaps", effect);
    scene
        .cluster
        .inject(fault(Verb::List, FaultEffect::LostBeforeCommit).times(4));
    let error = scene.refuses().await;
    assert!(matches!(error, SourceError::Unavailable { .. }), "{error}");
    scene.offers("one").await;

    // A watch that ended or whose history has expired is restarted without a report.
    scene.cluster.end_watches();
    scene.is_quiet().await;
    scene.cluster.expire_watches();
    scene.is_quiet().await;
    scene.put("two").await;
    scene.offers("two").await;

    let lost = FaultEffect::Refused {
        code: 503,
        retry_after: None,
    };
    scene
        .cluster
        .inject(fault(Verb::Watch, lost.clone()).times(3));
    scene.cluster.inject(fault(Verb::List, lost).times(2));
    scene.cluster.end_watches();
    let error = scene.refuses().await;
    assert!(
        matches!(&error, SourceError::Unavailable { why, .. } if why.contains("503")),
        "{error}"
    );
    scene.offers("two").await;
}

#[tokio::test(start_paused = true)]
async fn the_same_bytes_can_be_had_again_while_they_are_there() {
    let mut scene = scene();
    scene.create("one").await;
    let again = |artifact: &Artifact| Release {
        digest: artifact.digest.to_string(),
        version: String::new(),
        origin: artifact.origin.clone(),
    };
    let first = scene.source.next().await.unwrap();
    let release = again(&first);
    assert_eq!(
        scene.source.again(&release).await.unwrap().digest,
        first.digest
    );
    scene.put("two").await;
    let error = scene.source.again(&release).await.err().unwrap();
    assert!(matches!(error, SourceError::Absent { .. }), "{error}");
    let said = error.to_string();
    assert!(said.contains("put it back there, under any key"), "{said}");
    // An earlier module may be kept under another key, where it is not offered.
    let kept = json!({"binaryData": {"before.wasm": base64(&wasm("one"))}});
    scene.merge(kept).await;
    let kept = scene.source.again(&release).await.unwrap();
    assert_eq!(kept.digest, first.digest);
    // A repeated fetch makes no offer.
    assert!(scene.source.next().now_or_never().is_none());
    scene.offers("two").await;
}
