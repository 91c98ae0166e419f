//! DELETE of one object and of a collection: preconditions, finalizers, propagation. Collects no garbage: that is the
//! task of a controller, and none is simulated.

use http::StatusCode;
use serde_json::{Value, json};

use super::ask::Ask;
use super::field_error::FieldError;
use super::metadata::{self, text};
use super::refusal::Refusal;
use super::store::Store;

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// The options of a delete request.
pub(super) struct Options {
    uid: Option<String>,
    resource_version: Option<String>,
    propagation: Option<String>,
    /// The deprecated `orphanDependents`. `false` changes the status for an object that remains to 202, for old
    /// clients.
    orphan: Option<bool>,
    dry_run: bool,
}

impl Options {
    /// Reads the body, or the query if there is no body.
    pub(super) fn read(ask: &Ask, body: &[u8]) -> Result<Self, Refusal> {
        let given: Value = if body.is_empty() {
            json!({"propagationPolicy": Some(ask.text("propagationPolicy")).filter(|text| !text.is_empty())})
        } else if matches!(ask.content_type.as_str(), "" | "application/json") {
            serde_json::from_slice(body).map_err(|error| Refusal::bad_request(error.to_string()))?
        } else {
            return Err(Refusal::unsupported_media(&["application/json"]));
        };
        if given
            .get("kind")
            .is_some_and(|kind| kind != "DeleteOptions")
        {
            return Err(Refusal::bad_request(
                "decoded object cannot be converted to DeleteOptions",
            ));
        }
        let string = |pointer: &str| {
            given
                .pointer(pointer)
                .and_then(Value::as_str)
                .map(str::to_owned)
        };
        let options = Self {
            uid: string("/preconditions/uid"),
            resource_version: string("/preconditions/resourceVersion"),
            propagation: string("/propagationPolicy"),
            orphan: given.get("orphanDependents").and_then(Value::as_bool),
            dry_run: ask.dry_run
                || given
                    .get("dryRun")
                    .is_some_and(|value| *value == json!(["All"])),
        };
        if options.propagation.is_some() && options.orphan.is_some() {
            let detail = "orphanDependents and deletionPropagation cannot be both set";
            let value = options.propagation.as_deref().unwrap_or_default().into();
            let error = FieldError::invalid("propagationPolicy", &value, detail);
            return Err(Refusal::invalid(
                "meta.k8s.io",
                "DeleteOptions",
                "",
                &[error],
            ));
        }
        match options.propagation.as_deref() {
            None | Some("Orphan" | "Background" | "Foreground") => Ok(options),
            Some(other) => {
                let allowed = ["Foreground", "Background", "Orphan", "nil"];
                let error = FieldError::unsupported("propagationPolicy", &other.into(), &allowed);
                Err(Refusal::invalid(
                    "meta.k8s.io",
                    "DeleteOptions",
                    "",
                    &[error],
                ))
            }
        }
    }
}

/// Handles DELETE of one object.
pub(super) fn delete(
    store: &mut Store,
    ask: &Ask,
    options: &Options,
    now: &str,
) -> Result<(StatusCode, Value), Refusal> {
    let kind = ask.kind;
    let key = ask.key();
    let old = store
        .get(kind.collection, &key)
        .cloned()
        .ok_or_else(|| Refusal::not_found(kind, &ask.name))?;
    check_preconditions(ask, options, &old)?;
    let mut object = (*old).clone();
    metadata::set(&mut object, "finalizers", finalizers_after(&old, options));
    let namespace_stays = kind.collection == "namespaces";
    if namespace_stays || !metadata::finalizers(&object).is_empty() {
        if text(&object, "deletionTimestamp").is_empty() {
            metadata::set(&mut object, "deletionTimestamp", now);
            if let Some(generation) = object
                .pointer("/metadata/generation")
                .and_then(Value::as_i64)
            {
                metadata::set(&mut object, "generation", generation + 1);
            }
        }
        if namespace_stays {
            object["status"]["phase"] = json!("Terminating");
        } else {
            metadata::set(&mut object, "deletionGracePeriodSeconds", 0);
        }
        let code = if options.orphan == Some(false) {
            StatusCode::ACCEPTED
        } else {
            StatusCode::OK
        };
        let stored = if options.dry_run || object == *old {
            object
        } else {
            (*store.put(kind.collection, key, object)).clone()
        };
        return Ok((code, ask.shape.object(kind, &stored)));
    }
    if !options.dry_run {
        store.remove(kind.collection, &key);
    }
    if kind.returns_deleted {
        return Ok((StatusCode::OK, ask.shape.object(kind, &old)));
    }
    let mut details = json!({"name": ask.name, "kind": kind.plural, "uid": text(&old, "uid")});
    if !kind.group.is_empty() {
        details["group"] = json!(kind.group);
    }
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details,
    });
    Ok((StatusCode::OK, status))
}

/// Handles DELETE of a collection; responds with the deleted objects as a list.
pub(super) fn delete_collection(
    store: &mut Store,
    ask: &mut Ask,
    options: &Options,
    now: &str,
) -> Result<(StatusCode, Value), Refusal> {
    let selector = ask.selector()?;
    let found: Vec<Value> = store
        .scan(ask.kind.collection, &ask.prefix())
        .filter(|(_, object)| selector.matches(object))
        .map(|(_, object)| (**object).clone())
        .collect();
    for object in &found {
        ask.name = text(object, "name").to_owned();
        delete(store, ask, options, now)?;
    }
    let metadata = json!({"resourceVersion": store.revision().to_string()});
    Ok((
        StatusCode::OK,
        ask.shape.list(ask.kind, metadata, found.iter()),
    ))
}

fn check_preconditions(ask: &Ask, options: &Options, old: &Value) -> Result<(), Refusal> {
    let stored = text(old, "uid");
    if let Some(uid) = options.uid.as_deref().filter(|uid| *uid != stored) {
        let why = format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({stored}). \
             The object might have been deleted and then recreated"
        );
        return Err(Refusal::precondition(ask.kind, &ask.name, &why));
    }
    let stored = text(old, "resourceVersion");
    if let Some(version) = options
        .resource_version
        .as_deref()
        .filter(|version| *version != stored)
    {
        let why = format!(
            "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({stored}). \
             The object might have been modified"
        );
        return Err(Refusal::precondition(ask.kind, &ask.name, &why));
    }
    Ok(())
}

/// Adds or removes the garbage collector's finalizers according to the propagation policy.
fn finalizers_after(old: &Value, options: &Options) -> Value {
    let mut finalizers = metadata::finalizers(old);
    let (orphan, foreground) = match options.propagation.as_deref() {
        Some("Orphan") => (true, false),
        Some("Foreground") => (false, true),
        Some(_) => (false, false),
        None => {
            let has = |name: &str| finalizers.iter().any(|one| one == name);
            (options.orphan.unwrap_or(has(ORPHAN)), has(FOREGROUND))
        }
    };
    finalizers.retain(|one| one != ORPHAN && one != FOREGROUND);
    if orphan {
        finalizers.push(ORPHAN.to_owned());
    }
    if foreground {
        finalizers.push(FOREGROUND.to_owned());
    }
    if finalizers.is_empty() {
        Value::Null
    } else {
        json!(finalizers)
    }
}
