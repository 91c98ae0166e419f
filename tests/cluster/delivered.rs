//! Providers whose modules arrive as files: where a test puts them, and the status that `ccm` writes about them.
//! Asserts nothing about `ccm`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ccm_host::Digest;
use ccm_tests::process::Process;
use ccm_tests::registry::Registry;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Secret};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::deploy::define_providers;
use crate::services::PLACE;
use crate::world::{World, until};

/// The sources whose names the variants of `deploy/` grant rights for.
pub(crate) const CONFIG_MAP: &str = "configmap://kube-system/ccm-provider/provider.wasm";
const MODULE: &str = "ccm-provider";
const LOGIN: &str = "ccm-registry";

/// The files of rights in `deploy/kustomize`, relative to its base, for all ways of delivery.
pub(crate) const RIGHTS: &[&str] = &[
    "../components/rollout/rbac.yaml",
    "../variants/configmap/rbac.yaml",
    "../variants/registry/rbac.yaml",
];

/// The digest that identifies a module.
pub(crate) fn digest(wasm: &[u8]) -> String {
    Digest::of(wasm).to_string()
}

/// Pushes a module, and returns the source with its digest.
pub(crate) fn push(registry: &Registry, wasm: &[u8], tag: &str) -> String {
    let reference = format!("providers/hcloud:{tag}");
    let digest = registry.push(&reference, wasm).unwrap();
    format!("oci://{}/{reference}@{digest}", registry.host())
}

/// The sources of a world's providers, and their Provider objects.
pub(crate) struct Delivered<'a> {
    world: &'a World,
    providers: Api<DynamicObject>,
    modules: Api<ConfigMap>,
    logins: Api<Secret>,
    events: Api<Event>,
}

impl<'a> Delivered<'a> {
    pub(crate) async fn of(world: &'a World) -> Delivered<'a> {
        let admin: Client = world.api.client_for("admin").await.unwrap();
        define_providers(&admin).await;
        let kind = GroupVersionKind::gvk("wasm-ccm.dev", "v1alpha1", "Provider");
        let kind = ApiResource::from_gvk(&kind);
        Delivered {
            world,
            providers: Api::all_with(admin.clone(), &kind),
            modules: Api::namespaced(admin.clone(), "kube-system"),
            logins: Api::namespaced(admin.clone(), "kube-system"),
            events: Api::namespaced(admin, "default"),
        }
    }

    /// Applies the ConfigMap that holds the module, as a person or a GitOps tool does.
    pub(crate) async fn apply(&self, wasm: &[u8]) {
        self.apply_all(&[("provider.wasm", wasm)]).await;
    }

    /// The same with these keys, one for each module.
    pub(crate) async fn apply_all(&self, modules: &[(&str, &[u8])]) {
        let modules = modules.iter();
        let data = modules.map(|(key, wasm)| ((*key).to_owned(), ByteString(wasm.to_vec())));
        let data = data.collect();
        let mut map = ConfigMap {
            binary_data: Some(data),
            ..ConfigMap::default()
        };
        map.metadata.name = Some(MODULE.to_owned());
        let params = PatchParams::apply("a-person").force();
        let patch = Patch::Apply(&map);
        self.modules.patch(MODULE, &params, &patch).await.unwrap();
    }

    /// Creates the Secret with the registry's login.
    pub(crate) async fn login(&self, registry: &Registry) {
        let text = registry.docker_config_json().unwrap();
        let data = BTreeMap::from([(".dockerconfigjson".to_owned(), text)]);
        let mut secret = Secret {
            type_: Some("kubernetes.io/dockerconfigjson".to_owned()),
            string_data: Some(data),
            ..Secret::default()
        };
        secret.metadata.name = Some(LOGIN.to_owned());
        let params = PatchParams::apply("a-person").force();
        let patch = Patch::Apply(&secret);
        self.logins.patch(LOGIN, &params, &patch).await.unwrap();
    }

    /// An entry of the configuration for the shipped guest, from this source.
    pub(crate) fn entry(&self, name: &str, source: &str) -> Value {
        let values = BTreeMap::from([PLACE]);
        let mut configuration = self.world.configuration(json!(values));
        let mut entry = configuration["providers"][0].take();
        entry["name"] = json!(name);
        entry["source"] = json!(source);
        if source.starts_with("configmap:") {
            entry["trust"] = json!({"unsigned": true});
        }
        // Trial phases of seconds rather than minutes: the decisions in them are the same.
        entry["rollout"] = json!({
            "shadowTime": "2s", "canaryTime": "5s", "quiet": "1s", "shadowCalls": 5,
        });
        entry
    }

    /// The entry's settings for a registry on loopback with a private authority.
    pub(crate) fn registry(&self, registry: &Registry) -> Value {
        json!({
            "credentials": {"secret": {
                "namespace": "kube-system", "name": LOGIN, "key": ".dockerconfigjson",
            }},
            "caFile": registry.ca_file(),
            "addresses": ["127.0.0.0/8"],
        })
    }

    /// Sets one value of the Secret with the registry's login, whatever a test needs it for: `deploy/` grants the right
    /// to no other Secret.
    pub(crate) async fn keep(&self, key: &str, value: &str) -> Value {
        let mut secret = Secret {
            string_data: Some(BTreeMap::from([(key.to_owned(), value.to_owned())])),
            ..Secret::default()
        };
        secret.metadata.name = Some(LOGIN.to_owned());
        let params = PatchParams::apply("a-person").force();
        let patch = Patch::Apply(&secret);
        self.logins.patch(LOGIN, &params, &patch).await.unwrap();
        json!({"secret": {"namespace": "kube-system", "name": LOGIN, "key": key}})
    }

    /// Removes one value of that Secret.
    pub(crate) async fn forget(&self, key: &str) {
        let patch = Patch::Merge(json!({"data": {key: null}}));
        let params = PatchParams::default();
        self.logins.patch(LOGIN, &params, &patch).await.unwrap();
    }

    /// Replaces the providers of the configuration file, atomically.
    pub(crate) fn configure(&self, entries: &[Value]) {
        let mut configuration = self.world.configuration(json!({}));
        configuration["providers"] = json!(entries);
        let written = self.world.file("ccm.json.new", configuration.to_string());
        std::fs::rename(&written, written.with_file_name("ccm.json")).unwrap();
    }

    /// The module cache of `ccm`.
    pub(crate) fn cache(&self) -> PathBuf {
        let here = self.world.file(".cache-is-here", "");
        here.with_file_name("cache")
    }

    /// Starts `ccm run` with the configuration, and these variables beside the token of the cloud.
    pub(crate) fn ccm(&self, variables: &[(&str, &str)]) -> Process {
        self.ccm_with(&[], variables)
    }

    /// The same with further flags.
    pub(crate) fn ccm_with(&self, flags: &[String], variables: &[(&str, &str)]) -> Process {
        let cache = self.cache();
        let mut arguments = vec![
            "run".to_owned(),
            format!("--config={}", cache.with_file_name("ccm.json").display()),
            format!("--compiled-cache-dir={}", cache.display()),
        ];
        arguments.extend_from_slice(flags);
        let mut all = vec![("CLOUD_TOKEN", self.world.token())];
        all.extend_from_slice(variables);
        self.world.spawn(&arguments, &all)
    }

    /// The `status` of the object Provider; null without an object.
    pub(crate) async fn status(&self, name: &str) -> Value {
        let object = self.providers.get_opt(name).await.unwrap();
        json!(object)["status"].take()
    }

    /// Waits for an Event about a provider with this reason.
    pub(crate) async fn wait_for_event(&self, ccm: &mut Process, name: &str, reason: &str) {
        until(ccm, &format!("{name}: {reason}"), async || {
            let reported = self.event_reasons(name).await;
            reported
                .iter()
                .any(|reported| reported == reason)
                .then_some(())
        })
        .await;
    }

    /// The annotations of a provider.
    pub(crate) async fn annotations(&self, name: &str) -> Value {
        let object = self.providers.get(name).await.unwrap();
        json!(object)["metadata"]["annotations"].take()
    }

    /// Waits until the `status` of a provider satisfies a condition.
    pub(crate) async fn until(
        &self,
        ccm: &mut Process,
        name: &str,
        what: &str,
        is_so: impl Fn(&Value) -> bool,
    ) -> Value {
        until(ccm, &format!("{name}: {what}"), async || {
            Some(self.status(name).await).filter(|status| is_so(status))
        })
        .await
    }

    /// Waits until this module is active and no version is on trial.
    pub(crate) async fn serves(&self, ccm: &mut Process, name: &str, wasm: &[u8]) -> Value {
        let wanted = digest(wasm);
        let what = format!("{wanted} to serve");
        self.until(ccm, name, &what, |status| {
            status["active"]["digest"] == wanted.as_str() && status["trial"].is_null()
        })
        .await
    }

    /// Sets an annotation, as `kubectl annotate` does.
    pub(crate) async fn annotate(&self, name: &str, key: &str, value: &str) {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {key: value}}}));
        let params = PatchParams::default();
        self.providers.patch(name, &params, &patch).await.unwrap();
    }

    /// The Events that `kubectl describe` shows of a provider: those with its UID.
    async fn described(&self, name: &str) -> Vec<Event> {
        let object = self.providers.get(name).await.unwrap();
        let uid = object.metadata.uid.unwrap();
        let about = format!(
            "involvedObject.kind=Provider,involvedObject.name={name},involvedObject.uid={uid}"
        );
        let params = ListParams::default().fields(&about);
        self.events.list(&params).await.unwrap().items
    }

    /// The reasons of the Events about a provider, each once.
    pub(crate) async fn event_reasons(&self, name: &str) -> Vec<String> {
        let events = self.described(name).await;
        let mut reported: Vec<_> = events
            .into_iter()
            .filter_map(|event| event.reason)
            .collect();
        reported.sort();
        reported.dedup();
        reported
    }
}
