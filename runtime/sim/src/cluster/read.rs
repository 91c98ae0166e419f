//! GET and LIST: one object, consistent lists and their pages. Never writes.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::ask::Ask;
use super::field_error::FieldError;
use super::refusal::Refusal;
use super::store::Store;

/// Handles GET of one object.
pub(super) fn get(store: &Store, ask: &Ask) -> Result<Value, Refusal> {
    not_in_the_future(store, ask)?;
    let object = store
        .get(ask.kind.collection, &ask.key())
        .ok_or_else(|| Refusal::not_found(ask.kind, &ask.name))?;
    Ok(ask.shape.object(ask.kind, object))
}

/// Handles LIST: `limit` and `continue`, selectors, and the three meanings of resourceVersion.
pub(super) fn list(store: &Store, ask: &Ask) -> Result<Value, Refusal> {
    let selector = ask.selector()?;
    check_options(ask)?;
    let page = Page::asked(ask)?;
    if page.resumed.is_none() {
        not_in_the_future(store, ask)?;
    }
    let revision = page.revision.unwrap_or(store.revision());
    let objects: BTreeMap<String, Arc<Value>> = store
        .scan_at(revision, ask.kind.collection, &ask.prefix())
        .ok_or_else(|| page.too_old())?;
    let rest: Vec<(&String, &Arc<Value>)> = objects
        .iter()
        .filter(|(key, _)| page.resumed.as_ref().is_none_or(|last| *key > last))
        .filter(|(_, object)| selector.matches(object))
        .collect();
    let shown = if page.limit == 0 {
        rest.len()
    } else {
        page.limit.min(rest.len())
    };
    let mut metadata = json!({"resourceVersion": revision.to_string()});
    if shown < rest.len() {
        let last = rest
            .get(shown.saturating_sub(1))
            .map_or("", |(key, _)| key.as_str());
        metadata["continue"] = json!(token(revision, last));
        if selector.is_everything() {
            metadata["remainingItemCount"] = json!(rest.len() - shown);
        }
    }
    if ask.kind.is_custom && metadata.get("continue").is_none() {
        // Lists of custom kinds always contain the field: they are encoded without a type that would omit it.
        metadata["continue"] = json!("");
    }
    let items = rest.iter().take(shown).map(|(_, object)| object.as_ref());
    Ok(ask.shape.list(ask.kind, metadata, items))
}

/// Refuses a resourceVersion in the future.
pub(super) fn not_in_the_future(store: &Store, ask: &Ask) -> Result<(), Refusal> {
    let asked = ask.revision()?;
    if asked > store.revision() {
        return Err(Refusal::too_large(asked, store.revision()));
    }
    Ok(())
}

/// The requested part of a list.
struct Page {
    /// Maximum number of items; zero: no limit.
    limit: usize,
    /// The key after which the page continues.
    resumed: Option<String>,
    /// The revision to show; `None`: the newest.
    revision: Option<u64>,
}

impl Page {
    fn asked(ask: &Ask) -> Result<Self, Refusal> {
        let mut limit = ask.limit()?;
        let given = ask.text("continue");
        if !given.is_empty() {
            if !matches!(ask.text("resourceVersion"), "" | "0") {
                return Err(Refusal::bad_request(
                    "specifying resource version is not allowed when using continue",
                ));
            }
            let (revision, last) = read_token(given).ok_or_else(|| {
                Refusal::bad_request("continue key is not valid: unrecognized encoding")
            })?;
            return Ok(Self {
                limit,
                resumed: Some(last),
                // Tokens for continuing an expired list contain revision zero.
                revision: Some(revision).filter(|revision| *revision > 0),
            });
        }
        // Reads from the cache ignore the limit.
        if ask.text("resourceVersion") == "0" {
            limit = 0;
        }
        let exact = ask.text("resourceVersionMatch") == "Exact";
        let revision = if exact { Some(ask.revision()?) } else { None };
        Ok(Self {
            limit,
            resumed: None,
            revision,
        })
    }

    fn too_old(&self) -> Refusal {
        match &self.resumed {
            Some(last) => Refusal::expired_page(token(0, last)),
            None => Refusal::expired("The resourceVersion for the provided list is too old."),
        }
    }
}

fn check_options(ask: &Ask) -> Result<(), Refusal> {
    let mut errors = Vec::new();
    let (version, matching) = (
        ask.text("resourceVersion"),
        ask.text("resourceVersionMatch"),
    );
    let path = "resourceVersionMatch";
    if !matching.is_empty() {
        if version.is_empty() {
            let detail = "resourceVersionMatch is forbidden unless resourceVersion is provided";
            errors.push(FieldError::forbidden(path, detail));
        }
        if !ask.text("continue").is_empty() {
            let detail = "resourceVersionMatch is forbidden when continue is provided";
            errors.push(FieldError::forbidden(path, detail));
        }
        if !["Exact", "NotOlderThan"].contains(&matching) {
            errors.push(FieldError::unsupported(
                path,
                &matching.into(),
                &["Exact", "NotOlderThan", ""],
            ));
        }
        if matching == "Exact" && version == "0" {
            let detail = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            errors.push(FieldError::forbidden(path, detail));
        }
    }
    if ask.flag("sendInitialEvents").is_some() {
        let detail = "sendInitialEvents is forbidden for list";
        errors.push(FieldError::forbidden("sendInitialEvents", detail));
    }
    if errors.is_empty() {
        Ok(())
    } else {
        Err(Refusal::invalid("meta.k8s.io", "ListOptions", "", &errors))
    }
}

/// A continue token; revision 0 means the newest. Opaque to clients, as upstream's is; hexadecimal discourages clients
/// from parsing it.
fn token(revision: u64, last: &str) -> String {
    hex::encode(format!("{revision}:{last}"))
}

fn read_token(token: &str) -> Option<(u64, String)> {
    let text = String::from_utf8(hex::decode(token).ok()?).ok()?;
    let (revision, last) = text.split_once(':')?;
    Some((revision.parse().ok()?, last.to_owned()))
}
