//! Objects, revisions and a bounded history: the counterpart of etcd and the watch cache. Knows no rules of any kind;
//! callers validate before they write.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use serde_json::Value;

use super::metadata;

/// Number of changes kept for watches and consistent pages. The real server keeps five minutes of them; 10 000 exceeds
/// what any test here writes between two reads, and takes at most some 100 MB of node objects.
const HISTORY_LIMIT: usize = 10_000;

/// The type of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Added,
    Modified,
    Deleted,
}

/// A committed write, as watches and earlier revisions need it.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) revision: u64,
    pub(super) collection: &'static str,
    pub(super) key: String,
    pub(super) action: Action,
    /// The object after the write; for a deletion, its last state with the revision of the deletion.
    pub(super) object: Arc<Value>,
    /// The object before the write.
    pub(super) previous: Option<Arc<Value>>,
}

/// The objects of all kinds, with one revision counter.
#[derive(Debug, Default)]
pub(super) struct Store {
    revision: u64,
    collections: BTreeMap<&'static str, BTreeMap<String, Arc<Value>>>,
    history: VecDeque<Change>,
    /// Changes up to this revision are dropped.
    compacted: u64,
    /// Number of forced expiries of all watches.
    expiries: u64,
    /// Number of bookmark requests to all watches.
    bookmarks: u64,
    /// Number of forced ends of all watches.
    endings: u64,
}

impl Store {
    /// The revision of the newest write.
    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    /// The revision up to which changes are dropped.
    pub(super) fn compacted(&self) -> u64 {
        self.compacted
    }

    /// Number of forced expiries of all watches.
    pub(super) fn expiries(&self) -> u64 {
        self.expiries
    }

    /// Number of bookmark requests to all watches.
    pub(super) fn bookmarks(&self) -> u64 {
        self.bookmarks
    }

    /// Number of forced ends of all watches.
    pub(super) fn endings(&self) -> u64 {
        self.endings
    }

    /// The current state of one object.
    pub(super) fn get(&self, collection: &str, key: &str) -> Option<&Arc<Value>> {
        self.collections.get(collection)?.get(key)
    }

    /// The objects of a collection whose keys start with a prefix, in key order.
    pub(super) fn scan<'a>(
        &'a self,
        collection: &str,
        prefix: &'a str,
    ) -> impl Iterator<Item = (&'a String, &'a Arc<Value>)> + use<'a> {
        self.collections
            .get(collection)
            .into_iter()
            .flat_map(move |objects| {
                objects.range::<str, _>((Bound::Included(prefix), Bound::Unbounded))
            })
            .take_while(move |(key, _)| key.starts_with(prefix))
    }

    /// The objects of [`Store::scan`] at an earlier revision; `None` if that revision has been dropped.
    pub(super) fn scan_at(
        &self,
        revision: u64,
        collection: &str,
        prefix: &str,
    ) -> Option<BTreeMap<String, Arc<Value>>> {
        if revision < self.compacted {
            return None;
        }
        let mut objects: BTreeMap<String, Arc<Value>> = self
            .scan(collection, prefix)
            .map(|(key, object)| (key.clone(), object.clone()))
            .collect();
        let newer = self
            .history
            .iter()
            .rev()
            .take_while(|change| change.revision > revision)
            .filter(|change| change.collection == collection && change.key.starts_with(prefix));
        for change in newer {
            match &change.previous {
                Some(previous) => objects.insert(change.key.clone(), previous.clone()),
                None => objects.remove(&change.key),
            };
        }
        Some(objects)
    }

    /// The changes of a collection after a revision; the caller must have checked [`Store::compacted`].
    pub(super) fn changes_after(
        &self,
        revision: u64,
        collection: &str,
    ) -> impl Iterator<Item = &Change> {
        let start = self
            .history
            .partition_point(|change| change.revision <= revision);
        self.history
            .range(start..)
            .filter(move |change| change.collection == collection)
    }

    /// Stores an object under the next revision and returns it.
    pub(super) fn put(
        &mut self,
        collection: &'static str,
        key: String,
        mut object: Value,
    ) -> Arc<Value> {
        self.revision += 1;
        metadata::set(&mut object, "resourceVersion", self.revision.to_string());
        let object = Arc::new(object);
        let previous = self
            .collections
            .entry(collection)
            .or_default()
            .insert(key.clone(), object.clone());
        let action = if previous.is_some() {
            Action::Modified
        } else {
            Action::Added
        };
        self.remember(collection, key, action, object.clone(), previous);
        object
    }

    /// Removes an object; returns its last stored state.
    pub(super) fn remove(&mut self, collection: &'static str, key: &str) -> Option<Arc<Value>> {
        let previous = self.collections.get_mut(collection)?.remove(key)?;
        self.revision += 1;
        let mut last = (*previous).clone();
        metadata::set(&mut last, "resourceVersion", self.revision.to_string());
        self.remember(
            collection,
            key.to_owned(),
            Action::Deleted,
            Arc::new(last),
            Some(previous.clone()),
        );
        Some(previous)
    }

    /// Drops the whole history and ends every open watch with 410.
    pub(super) fn expire(&mut self) {
        // Increase the revision, so that even the newest list is too old.
        self.revision += 1;
        self.history.clear();
        self.compacted = self.revision;
        self.expiries += 1;
    }

    /// Ends every open watch after its pending events.
    pub(super) fn end(&mut self) {
        self.endings += 1;
    }

    /// Makes every open watch that allows bookmarks send one.
    pub(super) fn ask_for_bookmarks(&mut self) {
        self.bookmarks += 1;
    }

    fn remember(
        &mut self,
        collection: &'static str,
        key: String,
        action: Action,
        object: Arc<Value>,
        previous: Option<Arc<Value>>,
    ) {
        self.history.push_back(Change {
            revision: self.revision,
            collection,
            key,
            action,
            object,
            previous,
        });
        if self.history.len() > HISTORY_LIMIT
            && let Some(oldest) = self.history.pop_front()
        {
            self.compacted = oldest.revision;
        }
    }
}
