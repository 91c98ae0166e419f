//! Providers that come and go at run time.
#![allow(clippy::unwrap_used, reason = "tests")]

mod defects;
mod not_run;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use ccm_core::node::ownership::NodeClaim;
use ccm_core::safety::brake::target_removal::CONFIRM_AFTER;
use ccm_fixtures::provider::ScriptedProvider;
use serde_json::json;

use super::objects::ObjectSpec;
use super::*;
use crate::config::{API_VERSION, KIND, SecretKey};
use crate::flags::{CloudProxy, ProviderIsolation};
use crate::provider_loading::{self, ClusterAddresses};

/// Providers whose modules are kept in this folder.
pub(super) fn manager(store: &Path) -> ProviderManager {
    let shared = Shared {
        host: Arc::new(provider_loading::host(None, ProviderIsolation::InProcess).unwrap()),
        store: Some(store.to_owned()),
        client: None,
        cluster_name: "kubernetes".to_owned(),
        cluster_cidrs: Vec::new(),
        mode: Mode::Enforce,
        service_rules: Box::new(|load_balancers, is_alone| {
            provider_loading::service_rules(
                load_balancers,
                is_alone,
                &ClusterAddresses::default(),
                CONFIRM_AFTER,
            )
        }),
        pace: 1,
        metrics: Metrics::default(),
        remarks: Remarks::default(),
    };
    ProviderManager::begin(shared, Wanted::default()).unwrap()
}

/// A configuration with one provider, in this folder.
fn configuration(folder: &Path) -> Configuration {
    let text = json!({
        "apiVersion": API_VERSION,
        "kind": KIND,
        "providers": [{"name": "cloud", "source": format!("file://{}/cloud.wasm", folder.display())}],
    });
    let file = folder.join("ccm.yaml");
    fs::write(&file, text.to_string()).unwrap();
    Configuration {
        file: Some(file),
        is_cloud_config: false,
        parsed: Default::default(),
        last_valid: Default::default(),
        name: None,
        module: None,
        cloud_proxy: CloudProxy::Direct,
        secrets: Secrets::of(None),
        objects: None,
        region: Default::default(),
        instance: Default::default(),
    }
}

/// Objects of which each has this source.
fn objects(sources: &[(&str, &str)]) -> ProviderObjects {
    let object = |(name, source): &(&str, &str)| ObjectSpec {
        name: (*name).to_owned(),
        created: None,
        uid: Some((*name).to_owned()),
        generation: Some(1),
        spec: Some(json!({"source": source, "grants": {"targets": []}})),
    };
    ProviderObjects::of_test(sources.iter().map(object).collect())
}

#[tokio::test]
async fn names_that_have_left_are_remembered_until_they_are_too_many() {
    let folder = tempfile::tempdir().unwrap();
    let mut manager = manager(&folder.path().join("modules"));
    manager.look(&configuration(folder.path())).await;
    manager.departed = (0..=MOST_DEPARTED).map(|one| one.to_string()).collect();
    manager.apply(Vec::new());
    assert_eq!(manager.departed, BTreeSet::from(["cloud".to_owned()]));
}

#[tokio::test]
async fn objects_are_used_while_the_file_has_a_mistake_and_what_it_said_before_stays() {
    let folder = tempfile::tempdir().unwrap();
    let mut configuration = configuration(folder.path());
    configuration.objects = Some(ObjectConfiguration {
        objects: objects(&[("one", "embedded:one")]),
        secret_namespace: "clouds".to_owned(),
        accepted: Default::default(),
    });
    let mut manager = manager(&folder.path().join("modules"));
    let names = |manager: &ProviderManager| {
        let wanted = manager.wanted.iter();
        let named = wanted.map(|one| format!("{}={}", one.name, one.source));
        named.collect::<Vec<_>>()
    };
    let of_file = format!("cloud=file://{}/cloud.wasm", folder.path().display());
    manager.look(&configuration).await;
    assert_eq!(names(&manager), [&*of_file, "one=embedded:one"]);
    assert!(!manager.notice.borrow().contains("ccm.yaml"));

    let file = configuration.file.clone().unwrap();
    let good = fs::read(&file).unwrap();
    fs::write(&file, "providers: 7").unwrap();
    let edited = [
        ("cloud", "embedded:cloud"),
        ("one", "embedded:other"),
        ("two", "embedded:two"),
    ];
    configuration.objects.as_mut().unwrap().objects = objects(&edited);
    for _ in 0..2 {
        manager.look(&configuration).await;
        let expected = [&*of_file, "one=embedded:other", "two=embedded:two"];
        assert_eq!(names(&manager), expected);
        let why = manager.notice.borrow().clone();
        assert!(
            why.contains("ccm.yaml is not a valid configuration"),
            "{why}"
        );
    }

    fs::write(&file, good).unwrap();
    manager.look(&configuration).await;
    assert!(!manager.notice.borrow().contains("ccm.yaml"));
}

/// After a restart nothing runs for them, and no other provider may take their Services without a class.
#[tokio::test]
async fn providers_that_do_not_run_count_among_those_that_are_configured() {
    let folder = tempfile::tempdir().unwrap();
    let mut configuration = configuration(folder.path());
    let file = configuration.file.clone().unwrap();
    let text = fs::read_to_string(&file).unwrap();
    let mut read: serde_json::Value = serde_json::from_str(&text).unwrap();
    read["providers"] = json!([]);
    let without = read.to_string();
    read["providers"] = json!([{"name": "cloud"}, {"name": "other"}]);
    let with_two = read.to_string();
    let (good, refused) = (("good", "embedded:good"), ("refused", "nowhere"));
    for (text, sources, expected) in [
        (&without, vec![good], vec![("good", true)]),
        (&without, vec![good, refused], vec![("good", false)]),
        (&text, vec![good], vec![("cloud", true), ("good", false)]),
        // Of its own name only the entry of the file counts.
        (&text, vec![("cloud", "nowhere")], vec![("cloud", true)]),
        // No module has one of these names.
        (&with_two, vec![], vec![("cloud", false), ("other", false)]),
    ] {
        fs::write(&file, text).unwrap();
        configuration.objects = Some(ObjectConfiguration {
            objects: objects(&sources),
            secret_namespace: "clouds".to_owned(),
            accepted: Default::default(),
        });
        let mut manager = manager(&folder.path().join("modules"));
        manager.look(&configuration).await;
        let names = manager.wanted.iter().map(|one| one.name.as_str());
        let alone = names.map(|name| (name, manager.is_alone(name)));
        assert_eq!(alone.collect::<Vec<_>>(), expected, "{text} {sources:?}");
    }

    // It counts as soon as it is there, and no longer once it is gone.
    fs::write(&file, without).unwrap();
    let mut manager = manager(&folder.path().join("modules"));
    for (sources, expected) in [
        (vec![good], true),
        (vec![good, refused], false),
        (vec![good], true),
    ] {
        configuration.objects.as_mut().unwrap().objects = objects(&sources);
        manager.look(&configuration).await;
        assert_eq!(manager.is_alone("good"), expected, "{sources:?}");
    }
}

/// The module of the program or of the object before: nothing would serve if this one requested more.
#[tokio::test]
async fn an_embedded_module_comes_after_no_version_of_other_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let configuration = configuration(folder.path());
    let text = json!({
        "apiVersion": API_VERSION,
        "kind": KIND,
        "providers": [{"name": "cloud", "source": "embedded:static", "grants": {"targets": []}}],
    });
    fs::write(configuration.file.as_ref().unwrap(), text.to_string()).unwrap();
    let store = folder.path().join("modules");
    fs::create_dir_all(store.join("cloud")).unwrap();
    let shipped = ccm_host::Digest::of(crate::builtin_grants::module("static").unwrap());
    let other = ccm_host::Digest::of(b"the module of another program");
    for (digest, is_known) in [(shipped, true), (other, false)] {
        let record = json!({
            "active": {"digest": digest.to_string(), "requests": "{}"},
            "approved": [other.to_string()],
        });
        fs::write(store.join("cloud/cloud.record.json"), record.to_string()).unwrap();
        let mut manager = manager(&store);
        manager.look(&configuration).await;
        let overview = manager.overview().borrow().clone();
        let StoredRecord::Known { record, .. } = overview[0].recorded.borrow().clone() else {
            panic!("a record in memory is known");
        };
        let record = record.unwrap();
        assert_eq!(record.active.is_some(), is_known);
        assert_eq!(record.approved, [other.to_string()]);
    }
}

/// Its object would be `Ready` for ever.
#[tokio::test]
async fn that_a_provider_has_left_the_file_is_written_into_its_object() {
    let folder = tempfile::tempdir().unwrap();
    let configuration = configuration(folder.path());
    let mut manager = manager(&folder.path().join("modules"));
    let refused = |manager: &ProviderManager| {
        let refused = manager.refused.borrow();
        let refused = refused.iter().map(|(name, specification)| {
            let refusal = specification.refusal.clone().unwrap();
            format!("{name}: {}", refusal.message)
        });
        refused.collect::<Vec<_>>()
    };
    manager.look(&configuration).await;
    assert!(refused(&manager).is_empty());
    let file = configuration.file.clone().unwrap();
    let before = fs::read_to_string(&file).unwrap();
    fs::write(&file, before.replace("\"cloud\"", "\"other\"")).unwrap();
    manager.look(&configuration).await;
    assert_eq!(refused(&manager), ["cloud: it is no longer configured"]);
    manager.look(&configuration).await;
    assert_eq!(refused(&manager), ["cloud: it is no longer configured"]);
    fs::write(&file, before).unwrap();
    manager.look(&configuration).await;
    assert_eq!(refused(&manager), ["other: it is no longer configured"]);
}

#[tokio::test]
async fn a_provider_that_could_not_be_created_is_tried_again_without_an_edit() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("modules");
    fs::create_dir_all(&store).unwrap();
    symlink(folder.path(), store.join("cloud")).unwrap();
    let configuration = configuration(folder.path());
    let mut manager = manager(&store);
    for _ in 0..2 {
        manager.look(&configuration).await;
        assert!(manager.instances.is_empty());
        let why = manager.notice.borrow().clone();
        assert!(why.contains("cannot keep modules"), "{why}");
    }
    let overview = manager.overview();
    assert!(overview.borrow().is_empty());

    fs::remove_file(store.join("cloud")).unwrap();
    manager.look(&configuration).await;
    assert!(manager.instances.contains_key("cloud"));
    assert_eq!(*manager.notice.borrow(), "");
    assert_eq!(overview.borrow().len(), 1, "it is published");
    let known = Arc::as_ptr(&overview.borrow());
    manager.look(&configuration).await;
    assert_eq!(Arc::as_ptr(&overview.borrow()), known, "it has begun once");
}

/// The store's volume may be small, and nobody else removes them.
#[tokio::test]
async fn the_modules_of_a_provider_that_has_left_are_removed_once_they_are_old() {
    let folder = tempfile::tempdir().unwrap();
    let mut configuration = configuration(folder.path());
    let store = folder.path().join("modules");
    let look = async |configuration: &Configuration, kept: &[&str]| {
        let mut manager = manager(&store);
        manager.look(configuration).await;
        for name in ["cloud", "one", "two"] {
            assert_eq!(store.join(name).exists(), kept.contains(&name), "{name}");
        }
    };
    for name in ["cloud", "one", "two"] {
        fs::create_dir_all(store.join(name)).unwrap();
        let record = store.join(format!("{name}/{name}.record.json"));
        fs::write(&record, "{}").unwrap();
        let file = fs::File::options().append(true).open(record).unwrap();
        let yesterday = std::time::SystemTime::now() - Duration::from_secs(86_400);
        file.set_modified(yesterday).unwrap();
    }
    configuration.objects = Some(ObjectConfiguration {
        objects: objects(&[("one", "embedded:one"), ("two", "nowhere")]),
        secret_namespace: "clouds".to_owned(),
        accepted: Default::default(),
    });
    look(&configuration, &["cloud", "one", "two"]).await;
    configuration.objects.as_mut().unwrap().objects = objects(&[("one", "embedded:one")]);
    look(&configuration, &["cloud", "one"]).await;
    configuration.objects = None;
    look(&configuration, &["cloud"]).await;
}

/// The controllers would refuse the whole list, and a process that becomes the leader would end.
#[test]
fn an_object_whose_module_contradicts_those_before_it_is_left_out() {
    let provided = |name: &str, scheme: &str, is_default| {
        let mut cloud = ScriptedProvider::new(name);
        cloud.capabilities.instances = true;
        cloud.capabilities.load_balancer = true;
        Provided {
            cloud: Arc::new(cloud),
            nodes: NodeClaim {
                schemes: vec![scheme.to_owned()],
                selector: None,
            },
            service: ServiceRules {
                is_default,
                ..ServiceRules::default()
            },
        }
    };
    let file = vec![provided("zoo", "static", true)];
    let objects = vec![
        provided("same-scheme", "static", false),
        provided("second-default", "other", true),
        provided("good", "good", false),
    ];
    let names = |published: &Consistent| -> Vec<String> {
        let names = published.provided.iter().map(|one| one.cloud.name());
        names.map(str::to_owned).collect()
    };
    let published = consistent(file, objects, &[]);
    assert_eq!(names(&published), ["zoo", "good"]);
    let left_out = published.contradicting;
    let why = &left_out["same-scheme"];
    assert!(why.contains("share the provider ID scheme static"), "{why}");
    assert_eq!(left_out.len(), 2, "{left_out:?}");
    assert!(left_out.contains_key("second-default"), "{left_out:?}");

    // So is one that an edit adds to the file, although it stands before those that serve.
    let serving = published.provided;
    let file = vec![
        provided("twin", "static", false),
        provided("zoo", "static", true),
    ];
    let published = consistent(file, vec![provided("good", "good", false)], &serving);
    assert_eq!(names(&published), ["zoo", "good"]);
    assert!(published.contradicting["twin"].contains("share the provider ID scheme"));
    assert!(published.accepted.is_empty());

    // A start ends with a file that contradicts itself, which is not the fault of any object.
    let file = vec![
        provided("one", "static", true),
        provided("two", "static", false),
    ];
    let published = consistent(file, vec![provided("good", "good", false)], &[]);
    assert_eq!(names(&published), ["one", "two", "good"]);
    assert_eq!(published.contradicting, BTreeMap::new());
    assert_eq!(published.accepted.len(), 1);
}

/// Whoever rotates a credential revokes the former one.
#[tokio::test]
async fn a_credential_that_is_missing_keeps_no_other_from_being_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let mut configuration = configuration(folder.path());
    let entry = |name: &str| {
        json!({
            "name": name,
            "source": format!("embedded:{name}"),
            "grants": {"targets": [{
                "name": "api",
                "endpoint": "https://cloud.test",
                "credential": {"bearer": {"file": folder.path().join(name)}},
                "rules": [{"access": "read", "methods": ["GET"], "path": "/servers"}],
            }]},
        })
    };
    let text = json!({
        "apiVersion": API_VERSION,
        "kind": KIND,
        "providers": [entry("a"), entry("b")],
    });
    let file = folder.path().join("both.yaml");
    fs::write(&file, text.to_string()).unwrap();
    for name in ["a", "b"] {
        fs::write(folder.path().join(name), "token-of-the-first-day").unwrap();
    }
    configuration.file = Some(file);
    let mut manager = manager(&folder.path().join("modules"));
    manager.look(&configuration).await;
    let before = manager.wanted.clone();
    assert_eq!(before.len(), 2);
    fs::remove_file(folder.path().join("b")).unwrap();
    fs::write(folder.path().join("a"), "token-of-the-second-day").unwrap();
    manager.look(&configuration).await;
    assert!(manager.wanted[0] != before[0], "it has the new one");
    assert!(manager.wanted[1] == before[1], "it keeps what it had");
    let why = manager.notice.borrow().clone();
    assert!(why.contains("provider \"b\""), "{why}");
}

/// The mistake in the edit concerns neither the provider that goes on nor its Secret.
#[tokio::test]
async fn a_secret_that_is_rotated_is_used_while_an_edit_of_the_object_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut configuration = configuration(folder.path());
    let key = SecretKey {
        namespace: "clouds".to_owned(),
        name: "one".to_owned(),
        key: "api".to_owned(),
    };
    let spec = |region: serde_json::Value| {
        json!({
            "source": "embedded:one",
            "config": {"REGION": region},
            "grants": {"targets": [{
                "name": "api",
                "endpoint": "https://cloud.test",
                "credential": {"bearer": {"secret": {
                    "namespace": key.namespace, "name": key.name, "key": key.key,
                }}},
                "rules": [{"access": "read", "methods": ["GET"], "path": "/servers"}],
            }]},
        })
    };
    let object = |spec| {
        let object = ObjectSpec {
            name: "one".to_owned(),
            created: None,
            uid: Some("one".to_owned()),
            generation: Some(1),
            spec: Some(spec),
        };
        ProviderObjects::of_test(vec![object])
    };
    configuration.objects = Some(ObjectConfiguration {
        objects: object(spec(json!("here"))),
        secret_namespace: key.namespace.clone(),
        accepted: Default::default(),
    });
    let mut manager = manager(&folder.path().join("modules"));
    let of_object = |manager: &ProviderManager| {
        let mut wanted = manager.wanted.iter();
        wanted.find(|one| one.name == "one").cloned().unwrap()
    };
    configuration
        .secrets
        .set_of_test(&key, "token-of-the-first-day");
    manager.look(&configuration).await;
    let first = of_object(&manager);

    configuration.objects.as_mut().unwrap().objects = object(spec(json!(7)));
    manager.look(&configuration).await;
    assert!(of_object(&manager) == first, "the edit is refused");
    assert!(configuration.secrets.get(&key).is_ok(), "it is watched on");
    configuration
        .secrets
        .set_of_test(&key, "token-of-the-second-day");
    manager.look(&configuration).await;
    let second = of_object(&manager);
    assert!(second != first, "it has the new one");

    // A Secret that is missing leaves the last known value.
    configuration.secrets.keep(&Default::default());
    manager.look(&configuration).await;
    assert!(of_object(&manager) == second);
}

#[tokio::test(start_paused = true)]
async fn a_start_waits_for_a_slow_provider_only_until_the_others_have_waited_long_enough() {
    let after = |seconds: u64, serves: bool| async move {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        serves
    };
    for (outcomes, expected) in [
        (vec![], 0),
        (vec![(600, true)], 600),
        (vec![(600, true), (1, true)], 21),
        (vec![(5, true), (1, true)], 5),
        // Nobody waits in vain for the only one that may serve.
        (vec![(600, true), (1, false)], 600),
    ] {
        let start = tokio::time::Instant::now();
        wait_for_outcomes(outcomes.into_iter().map(|(at, serves)| after(at, serves))).await;
        assert_eq!(start.elapsed().as_secs(), expected);
    }
}
