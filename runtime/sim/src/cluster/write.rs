//! CREATE, UPDATE and PATCH: decoding, defaults, preconditions, validation, and the only commit. Deletes nothing,
//! except an object whose last finalizer an update removes.

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Value, json};

use super::ask::Ask;
use super::field_error::FieldError;
use super::metadata::{self, text};
use super::patch;
use super::provider;
use super::refusal::Refusal;
use super::service_ports;
use super::shape;
use super::store::Store;

/// Values that the server supplies for a write.
pub(super) struct Moment {
    /// The current time, formatted as in creationTimestamp.
    pub(super) now: String,
    /// A unique number, for UIDs and generated names.
    pub(super) serial: u64,
}

impl Moment {
    /// The UID for this write: shaped like a UUID, and the same in every run. Its beginning alone is unique, as with
    /// real ones, because clouds truncate names made from UIDs.
    fn uid(&self) -> String {
        let serial = self.serial;
        format!("{:08x}-0000-4000-8000-{serial:012x}", serial & 0xffff_ffff)
    }

    /// Five random-looking characters, without vowels.
    fn suffix(&self) -> String {
        const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
        let mut rest = self.serial.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16;
        let mut suffix = String::new();
        for _ in 0..5 {
            let index = usize::try_from(rest % 27).unwrap_or(0);
            suffix.push(char::from(*LETTERS.get(index).unwrap_or(&b'x')));
            rest /= 27;
        }
        suffix
    }
}

/// Handles POST to a collection.
pub(super) fn create(
    store: &mut Store,
    ask: &Ask,
    body: &[u8],
    moment: &Moment,
) -> Result<(StatusCode, Value), Refusal> {
    let object = decode(ask, body)?;
    create_object(store, ask, object, moment)
}

/// Handles PUT, which creates the object if the kind allows it.
pub(super) fn update(
    store: &mut Store,
    ask: &Ask,
    body: &[u8],
    moment: &Moment,
) -> Result<(StatusCode, Value), Refusal> {
    let mut object = decode(ask, body)?;
    place(ask, &mut object)?;
    same_name(ask, &object)?;
    let Some(old) = store.get(ask.kind.collection, &ask.key()).cloned() else {
        if ask.kind.create_on_update && !ask.status {
            return create_object(store, ask, object, moment);
        }
        return Err(Refusal::not_found(ask.kind, &ask.name));
    };
    let uid = text(&object, "uid");
    if !uid.is_empty() && uid != text(&old, "uid") {
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: {}/{}, ResourceVersion: 0, \
             AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
            ask.kind.registry,
            ask.key(),
            text(&old, "uid")
        );
        return Err(Refusal::conflict(ask.kind, &ask.name, &why));
    }
    replace(store, ask, &old, object)
}

/// Handles PATCH of any type.
pub(super) fn patch(
    store: &mut Store,
    ask: &Ask,
    body: &[u8],
) -> Result<(StatusCode, Value), Refusal> {
    patch::check_type(ask.kind, &ask.content_type)?;
    let old = store
        .get(ask.kind.collection, &ask.key())
        .cloned()
        .ok_or_else(|| Refusal::not_found(ask.kind, &ask.name))?;
    let patched = patch::apply(ask, ask.kind.present(&old), body)?;
    let mut object = read_typed(ask, patched).map_err(|error| {
        let error = FieldError::invalid("patch", &Value::Null, &error);
        Refusal::invalid("", "", "", &[error])
    })?;
    place(ask, &mut object)?;
    same_name(ask, &object)?;
    replace(store, ask, &old, object)
}

fn create_object(
    store: &mut Store,
    ask: &Ask,
    mut object: Value,
    moment: &Moment,
) -> Result<(StatusCode, Value), Refusal> {
    let kind = ask.kind;
    place(ask, &mut object)?;
    let prefix = text(&object, "generateName").to_owned();
    if text(&object, "name").is_empty() && !prefix.is_empty() {
        metadata::set(&mut object, "name", format!("{prefix}{}", moment.suffix()));
    }
    let name = text(&object, "name").to_owned();
    namespace_is_open(store, ask, &name)?;
    if !text(&object, "resourceVersion").is_empty() {
        return Err(Refusal::failed(
            "resourceVersion should not be set on objects to be created",
        ));
    }
    metadata::fill_for_create(&mut object, &moment.uid(), &moment.now);
    (kind.default)(&mut object);
    (kind.prepare)(&mut object, None, false);
    let key = kind.key(&ask.namespace, &name);
    finish(store, ask, &key, &mut object, None)?;
    if let Some(there) = store.get(kind.collection, &key) {
        let deleting = !text(there, "deletionTimestamp").is_empty();
        return Err(Refusal::already_exists(kind, &name, deleting));
    }
    if ask.dry_run {
        return Ok((StatusCode::CREATED, ask.shape.object(kind, &object)));
    }
    let stored = store.put(kind.collection, key, object);
    Ok((StatusCode::CREATED, ask.shape.object(kind, &stored)))
}

/// Replaces a stored object, if preconditions and validation allow.
fn replace(
    store: &mut Store,
    ask: &Ask,
    old: &Arc<Value>,
    mut object: Value,
) -> Result<(StatusCode, Value), Refusal> {
    let kind = ask.kind;
    let version = text(&object, "resourceVersion");
    if !version.is_empty() && version.parse::<u64>().is_err() {
        return Err(Refusal::failed(format!(
            "strconv.ParseUint: parsing \"{version}\": invalid syntax"
        )));
    }
    if version.is_empty() && !kind.unconditional_update {
        let error = FieldError::invalid(
            "metadata.resourceVersion",
            &json!(0),
            "must be specified for an update",
        );
        return Err(Refusal::invalid(
            kind.group,
            kind.plural,
            &ask.name,
            &[error],
        ));
    }
    if !version.is_empty() && version != text(old, "resourceVersion") {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        return Err(Refusal::conflict(kind, &ask.name, why));
    }
    metadata::copy(&mut object, old, "resourceVersion");
    (kind.default)(&mut object);
    (kind.prepare)(&mut object, Some(old), ask.status);
    metadata::carry_for_update(&mut object, old);
    if kind.is_custom {
        provider::increase_generation(&mut object, old);
    }
    let key = ask.key();
    finish(store, ask, &key, &mut object, Some(old))?;
    let finalized =
        !text(old, "deletionTimestamp").is_empty() && metadata::finalizers(&object).is_empty();
    if finalized {
        if !ask.dry_run {
            store.remove(kind.collection, &key);
        }
        return Ok((StatusCode::OK, ask.shape.object(kind, &object)));
    }
    if ask.dry_run || object == **old {
        return Ok((StatusCode::OK, ask.shape.object(kind, &object)));
    }
    let stored = store.put(kind.collection, key, object);
    Ok((StatusCode::OK, ask.shape.object(kind, &stored)))
}

/// The last steps of every write: allocates unique values, normalises the object, validates it.
fn finish(
    store: &Store,
    ask: &Ask,
    key: &str,
    object: &mut Value,
    old: Option<&Value>,
) -> Result<(), Refusal> {
    let kind = ask.kind;
    let is_service = kind.collection == "services" && !ask.status;
    if is_service && let Some(old) = old {
        service_ports::inherit(object, old);
    }
    shape::normalise(kind, object);
    let mut errors = metadata::validate(kind, object);
    if let Some(old) = old {
        errors.extend(metadata::validate_update(object, old));
    }
    errors.extend((kind.validate)(object, old, ask.status));
    if errors.is_empty() && is_service {
        errors = service_ports::allocate(store, key, object, old);
    }
    if errors.is_empty() {
        Ok(())
    } else {
        let name = text(object, "name");
        Err(Refusal::invalid(
            kind.rules_group(),
            kind.kind,
            name,
            &errors,
        ))
    }
}

/// Decodes the body of a POST or PUT into the stored form.
fn decode(ask: &Ask, body: &[u8]) -> Result<Value, Refusal> {
    if !matches!(ask.content_type.as_str(), "" | "application/json") {
        return Err(Refusal::unsupported_media(&[
            "application/json",
            "application/yaml",
            "application/vnd.kubernetes.protobuf",
        ]));
    }
    let kind = ask.kind;
    let unreadable = |why: &str| {
        Refusal::bad_request(format!(
            "{} in version \"{}\" cannot be handled as a {}: {why}",
            kind.kind, kind.version, kind.kind
        ))
    };
    let object: Value =
        serde_json::from_slice(body).map_err(|error| unreadable(&error.to_string()))?;
    if !object.is_object() {
        return Err(unreadable("not an object"));
    }
    read_typed(ask, object).map_err(|error| unreadable(&error))
}

/// Decodes an object of the kind's own version; unknown fields are dropped, or refused if the client is strict.
fn read_typed(ask: &Ask, object: Value) -> Result<Value, String> {
    let mut typed = (ask.kind.typed)(object.clone())?;
    if ask.strict
        && let Some(field) = unknown_field(&object, &typed, "")
    {
        return Err(format!("strict decoding error: unknown field \"{field}\""));
    }
    if let Value::Object(fields) = &mut typed {
        fields.entry("metadata").or_insert_with(|| json!({}));
    }
    // From here on, empty strings and zeros set by the types count as absent.
    let mut kept = ask.kind.keep(typed);
    shape::normalise(ask.kind, &mut kept);
    Ok(kept)
}

fn unknown_field(sent: &Value, read: &Value, path: &str) -> Option<String> {
    match (sent, read) {
        (Value::Object(sent), Value::Object(read)) => sent.iter().find_map(|(key, value)| {
            let below = if path.is_empty() {
                key.clone()
            } else {
                format!("{path}.{key}")
            };
            match read.get(key) {
                None if value.is_null() || key == "stringData" => None,
                None => Some(below),
                Some(read) => unknown_field(value, read, &below),
            }
        }),
        (Value::Array(sent), Value::Array(read)) => {
            sent.iter()
                .zip(read)
                .enumerate()
                .find_map(|(index, (sent, read))| {
                    unknown_field(sent, read, &format!("{path}[{index}]"))
                })
        }
        _ => None,
    }
}

/// The object's namespace must be that of the request, or absent.
fn place(ask: &Ask, object: &mut Value) -> Result<(), Refusal> {
    let given = text(object, "namespace");
    if !given.is_empty() && ask.kind.namespaced && given != ask.namespace {
        return Err(Refusal::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    let namespace = if ask.kind.namespaced {
        json!(ask.namespace)
    } else {
        Value::Null
    };
    metadata::set(object, "namespace", namespace);
    Ok(())
}

fn same_name(ask: &Ask, object: &Value) -> Result<(), Refusal> {
    let name = text(object, "name");
    if name == ask.name {
        return Ok(());
    }
    if name.is_empty() {
        return Err(Refusal::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            ask.name
        )));
    }
    Err(Refusal::bad_request(format!(
        "the name of the object ({name}) does not match the name on the URL ({})",
        ask.name
    )))
}

/// Refuses creations in a namespace that does not exist or is terminating.
fn namespace_is_open(store: &Store, ask: &Ask, name: &str) -> Result<(), Refusal> {
    if !ask.kind.namespaced {
        return Ok(());
    }
    let Some(namespaces) = super::kinds::find("", "v1", "namespaces") else {
        return Ok(());
    };
    match store.get("namespaces", &ask.namespace) {
        None => Err(Refusal::not_found(namespaces, &ask.namespace)),
        Some(namespace) if !text(namespace, "deletionTimestamp").is_empty() => {
            Err(Refusal::terminating(ask.kind, name, &ask.namespace))
        }
        Some(_) => Ok(()),
    }
}
